"""Topics, registers, progress: a history by hand for each anomaly, and one that almost shows it."""

# ruff: noqa: E501 - tables: a history is a line

from typing import Any

from quorate.jepsen.history import Kind, Operation
from tests.unit.jepsen.golden.making import (
    Golden,
    Span,
    complaint,
    did,
    fault,
    heal,
    phase,
    poll,
    read,
    sent,
    unsent,
)

S = 1_000_000_000


def create(told: Any, span: Span, kind: Kind = Kind.OK, name: str = "t") -> Operation:
    return did("create", [name, 1], told, span, kind=kind)


def delete(told: Any, span: Span, kind: Kind = Kind.OK) -> Operation:
    return did("delete", "t", told, span, kind=kind)


def described(told: Any, span: Span, name: str = "t") -> Operation:
    return did("describe", name, told, span)


def terms(*said: list[int]) -> Operation:
    return did("view", None, {"controller": 1, "partitions": {}, "terms": list(said)})


def get(value: Any, span: Span) -> Operation:
    return did("get", "k", value, span)


def put(value: int, span: Span, kind: Kind = Kind.OK) -> Operation:
    return did("put", ["k", value], None, span, kind=kind)


def cas(expected: Any, value: int, told: Any, span: Span, kind: Kind = Kind.OK) -> Operation:
    return did("cas", ["k", expected, value], told, span, kind=kind)


CREATED, GONE, AGAIN = create("a1", (0, 1)), delete(None, (10, 11)), create("a2", (12, 13))
BOUNDS: dict[str, Any] = {"liveness": {"recovery": 5, "gap": 5}}


def healed(*sends: Operation, until_s: int) -> list[Operation]:
    """A fault that is over at 10 s; what was sent meanwhile and later, until the final reads."""
    return [
        phase("load", 0),
        fault("kill", (S, 2 * S)),
        heal("kill", (9 * S, 10 * S)),
        *sends,
        phase("final", until_s * S),
        read(*((o.told, o.asked[1]) for o in sends if o.told is not None)),
        phase("end", 99 * S),
    ]


CASES = [
    Golden(
        "nonlinearizable-register",
        [put(1, (0, 1)), put(2, (2, 3)), get(1, (4, 5))],
        [put(1, (0, 1)), put(2, (2, 9), Kind.INFO), get(1, (4, 5)), get(2, (6, 7))],
    ),
    Golden(
        "nonlinearizable-register",
        [put(1, (0, 1)), cas(1, 2, True, (2, 9)), cas(1, 3, True, (2, 9))],
        [put(1, (0, 1)), cas(1, 2, True, (2, 9)), cas(1, 3, False, (2, 9)), cas(7, 8, None, (2, 9), Kind.FAIL)],
    ),
    Golden(
        "nonlinearizable-topic",
        [CREATED, create("a2", (2, 3))],
        [CREATED, create("exists", (2, 3)), GONE, delete("unknown", (12, 13))],
    ),
    Golden(
        "nonlinearizable-topic",
        [CREATED, GONE, described(["a1", 1], (12, 13))],
        [CREATED, GONE, described(["a1", 1], (10, 13)), described(None, (14, 15))],
    ),
    # Nobody heard whether it was created, nor its id.
    Golden(
        "nonlinearizable-topic",
        [create(None, (0, 1), Kind.INFO), described(["a9", 1], (2, 3)), described(None, (4, 5))],
        [create(None, (0, 1), Kind.INFO), described(None, (2, 3)), described(["a9", 1], (4, 5))],
    ),
    Golden(
        "nonlinearizable-topic",
        [CREATED, delete(None, (2, 3), Kind.INFO), described(None, (4, 5)), described(["a1", 1], (6, 7))],
        [CREATED, delete(None, (2, 3), Kind.INFO), described(["a1", 1], (4, 5)), described(None, (6, 7))],
    ),
    Golden(
        "two-controllers",
        [terms([1, 4, 1], [2, 4, 2])],
        [terms([1, 4, 1], [2, 4, -1], [3, 4, 1]), terms([2, 5, 2])],
    ),
    # A controller said it once, and may not have had it on its disk yet.
    Golden(
        "term-regression",
        [terms([1, 4, 1]), terms([1, 4, 1]), terms([1, 3, -1])],
        [terms([1, 3, -1]), terms([1, 3, -1]), terms([1, 4, 1]), terms([1, 3, -1])],
    ),
    Golden(
        "topic-id-reused",
        [CREATED, create("a1", (2, 3), name="u")],
        [CREATED, create("a2", (2, 3), name="u")],
    ),
    Golden(
        "topic-id-reused",
        [CREATED, create(None, (2, 3), name="u"), described(["a1", 1], (4, 5), "u")],
        [CREATED, create(None, (2, 3), name="u"), described(["a2", 1], (4, 5), "u")],
    ),
    # Read in the end.
    Golden(
        "predecessor-record",
        [CREATED, sent(1, 0, (2, 3)), GONE, AGAIN, read((0, 1))],
        [CREATED, sent(1, 0, (2, 3)), GONE, AGAIN, sent(2, 0, (14, 15)), read((0, 2))],
    ),
    # A reader goes back to it; that one has not heard of the deletion yet is no anomaly.
    Golden(
        "predecessor-record",
        [CREATED, sent(1, 0, (2, 3)), GONE, AGAIN, sent(2, 0, (14, 15)), poll((0, 2), (1, 1), span=(16, 17))],
        [CREATED, sent(1, 0, (2, 3)), GONE, AGAIN, sent(2, 0, (14, 15)), poll((0, 1), (1, 2), span=(16, 17))],
    ),
    # Nobody knows in which of the two it was.
    Golden(
        "predecessor-record",
        [CREATED, sent(1, 0, (2, 3)), GONE, AGAIN, read((0, 1))],
        [CREATED, sent(1, 0, (2, 11)), GONE, AGAIN, unsent(3, Kind.INFO, (2, 3)), read((0, 1), (1, 3))],
    ),
    Golden(
        "slow-recovery",
        healed(sent(0, 0, (11 * S, 17 * S)), until_s=18),
        healed(sent(0, 0, (11 * S, 15 * S)), until_s=18),
        BOUNDS,
    ),
    # It had no time: something else came too early.
    Golden(
        "slow-recovery",
        healed(unsent(0, Kind.INFO, (11 * S, 0)), until_s=17),
        healed(unsent(0, Kind.INFO, (11 * S, 0)), until_s=15),
        BOUNDS,
    ),
    # What was sent before it was healed has a reason to be late.
    Golden(
        "unavailable",
        healed(sent(0, 0, (11 * S, 12 * S)), sent(1, 1, (13 * S, 19 * S)), until_s=20),
        healed(sent(0, 0, (3 * S, 12 * S)), sent(1, 1, (13 * S, 17 * S)), until_s=20),
        BOUNDS,
    ),
    Golden(
        "unavailable",
        healed(sent(0, 0, (11 * S, 12 * S)), unsent(1, Kind.INFO, (13 * S, 0)), until_s=20),
        healed(sent(0, 0, (11 * S, 12 * S)), unsent(1, Kind.INFO, (16 * S, 0)), until_s=20),
        BOUNDS,
    ),
    # Others were taken meanwhile; and a topic that is deleted takes nothing.
    Golden(
        "unavailable",
        healed(sent(0, 0, (11 * S, 12 * S)), sent(1, 1, (13 * S, 19 * S)), until_s=20),
        healed(sent(0, 0, (11 * S, 12 * S)), sent(2, 1, (14 * S, 15 * S), 3), sent(1, 2, (13 * S, 19 * S)), until_s=20),
        BOUNDS,
    ),
    Golden(
        "unavailable",
        healed(sent(0, 0, (11 * S, 12 * S)), unsent(1, Kind.INFO, (13 * S, 0)), until_s=20),
        [*healed(sent(0, 0, (11 * S, 12 * S)), unsent(1, Kind.INFO, (13 * S, 0)), until_s=20), did("delete", "t", None, (14 * S, 15 * S), kind=Kind.INFO)],
        BOUNDS,
    ),
    # It has much to catch up with, and does.
    Golden(
        "slow-recovery",
        healed(sent(0, 0, (11 * S, 17 * S)), until_s=18),
        healed(sent(1, 0, (5 * S, 12 * S), 3), sent(0, 1, (11 * S, 17 * S)), until_s=18),
        BOUNDS,
    ),
    Golden(
        "slow-recovery",
        healed(unsent(0, Kind.INFO, (11 * S, 0)), until_s=17),
        [*healed(unsent(0, Kind.INFO, (11 * S, 0)), until_s=17), did("delete", "t", None, (14 * S, 15 * S), kind=Kind.INFO)],
        BOUNDS,
    ),
    *(
        Golden(name, [complaint(name)], [])
        for name in (
            "never-whole", "group-stuck", "topic-stuck", "reassignment-stuck",
            "node-died", "out-of-order-sequence", "partitions-shrank", "replica-damaged",
        )
    ),
]  # fmt: skip
