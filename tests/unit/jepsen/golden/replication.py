"""Replicas and leaders: one history by hand for each anomaly, and one that almost shows it."""

# ruff: noqa: E501 - tables: a history is a line

from typing import Any

from quorate.jepsen.checkers.metadata import ALTERED_BY
from quorate.jepsen.checkers.metadata_log import SNAPSHOT
from quorate.jepsen.history import Operation
from tests.unit.jepsen.golden.making import (
    Golden,
    changed,
    decided,
    did,
    ends,
    fault,
    heal,
    read,
    replica,
    sent,
    view,
)

A, B, C = (0, 2, 0, b"aa"), (2, 3, 1, b"bb"), (3, 5, 1, b"cc")
CLOCK: dict[str, Any] = {"clock": [1_000, 0]}
"""A nanosecond of the history is as much later than the second second of the day."""
S = 1_000_000_000


def led_by(told: Any, *, offset: int = 2) -> list[Any]:
    """A record that was acknowledged so; broker 1 leads in epoch 0, broker 2 from epoch 1 on."""
    return [
        sent(0, told),
        read((offset, 0)),
        replica(1, A, B),
        decided(changed(2, 1, [1, 2, 3])),
    ]


def silence(*, until_ns: int, shrunk_ms: int, isr: list[int]) -> list[Any]:
    """Broker 3 stops after 5 s and goes on later; a record is acknowledged after 8 s."""
    return [
        fault("pause", (4 * S, 5 * S), silent=("broker-3",)),
        sent(0, 0, (6 * S, 8 * S)),
        heal("pause", (until_ns, until_ns + S)),
        read((0, 0)),
        decided(changed(1, 0, isr, time_ms=shrunk_ms)),
    ]


def two_silent(until_ns: int) -> list[Operation]:
    """Brokers 2 and 3 stop; a record is sent, and acknowledged after 8 s; the heal begins."""
    return [
        fault("pause", (4 * S, 5 * S), silent=("broker-2",)),
        fault("kill", (4 * S, 5 * S), silent=("broker-3",)),
        sent(0, 0, (6 * S, 8 * S - 1)),
        heal("pause", (until_ns, 9 * S)),
        heal("kill", (10 * S, 11 * S)),
    ]


def cut_off(*, healed_s: int, isr: list[int]) -> list[Operation]:
    """Broker 102 hears nothing of 101, which leads; a record is sent, and acknowledged after 8 s."""
    targets: list[str] = []
    asked = {"fault": "partition:leader", "targets": targets, "detail": {"cuts": [[0, 1], [0, 4]]}}
    replicas = [101, 102, 103]
    return [
        did("fault", asked, {"verified": "held back"}, (4 * S, 5 * S), process=0),
        sent(0, [0, 101], (6 * S, 8 * S)),
        heal("partition:leader", (healed_s * S, 11 * S)),
        read((0, 0)),
        decided(changed(101, 1, isr, replicas=replicas, time_ms=8_500), cause=f"{ALTERED_BY}1"),
    ]


CASES = [
    Golden(
        "divergence",
        [replica(1, A, B), replica(2, A, (2, 3, 1, b"xx"))],
        # What only one retains is compared with nothing.
        [replica(1, A, B, C), replica(2, B, C)],
    ),
    # Equal bytes, but in other batches.
    Golden(
        "divergence",
        [replica(1, A, B, C), replica(2, A, (2, 5, 1, b"bb"))],
        [replica(1, A, (2, 5, 1, b"xx"), partition="u-0"), replica(2, (0, 1, 0, b"yy"), (4, 5, 1, b"zz"), partition="u-0")],
        {"compacted": ["u"]},
    ),
    Golden("replica-hole", [replica(1, A, C)], [replica(1, A, B, C)]),
    Golden("replica-hole", [replica(1, A), replica(1, (1, 3, 0, b""))], [replica(1, A), replica(1, B)]),
    Golden("epoch-regression", [replica(1, A, B, (3, 4, 0, b""))], [replica(1, A, B, C)]),
    Golden(
        "epoch-regression",
        [decided(changed(2, 2, [2]), changed(2, 1, [2]))],
        [decided(changed(2, 1, [2]), changed(2, 1, [2, 3]))],
    ),
    Golden("replica-behind", [replica(1, A, B), replica(2, A)], [replica(1, A, B), replica(2, A, B)]),
    Golden(
        "two-leaders",
        [view(1, 4, [1, 2]), view(2, 4, [1, 2])],
        [view(1, 4, [1, 2]), view(2, 5, [1, 2]), view(1, 4, [1, 2]), view(-1, 4, [])],
    ),
    # By what two brokers say at once.
    Golden(
        "two-leaders",
        [did("view", None, {"controller": 1, "partitions": {"t-0": [1, 4, [1, 2]]}, "disputed": [["t-0", 2, 4, [1, 2]]]})],
        [did("view", None, {"controller": 1, "partitions": {"t-0": [1, 4, [1, 2]]}, "disputed": [["t-0", 2, 3, [1, 2]]]})],
    ),
    Golden(
        "two-leaders",
        [view(2, 0, [1, 2]), decided()],
        # A topic of that name that was there before.
        [view(2, 0, [1, 2]), view(1, 0, [1]), did("create", ["t", 1], "a1"), did("delete", "t", None, (2, 3))],
    ),
    Golden(
        "two-leaders",
        [decided(changed(2, 0, [1, 2]))],
        [decided(changed(2, 1, [1, 2])), view(2, 1, [1, 2])],
    ),
    Golden("leader-not-in-sync", [view(1, 0, [2, 3])], [view(1, 0, [1]), view(-1, 1, [2, 3])]),
    Golden(
        "leader-not-in-sync",
        [decided(changed(1, 0, [2, 3]))],
        [decided(changed(-1, 1, [], elr=[1]))],
    ),
    Golden(
        "isr-not-replicas",
        [decided(changed(1, 0, [1, 4]))],
        [decided(changed(1, 0, [1, 4], replicas=[1, 4]))],
    ),
    Golden(
        "unclean-election",
        [decided(changed(1, 0, [1, 2]), changed(3, 1, [3]))],
        [decided(changed(1, 0, [1, 2], elr=[3]), changed(-1, 1, []), changed(3, 2, [3]))],
    ),
    # A leader may take another one in and hand over to it at once; nobody else may for it.
    Golden(
        "unclean-election",
        [decided(changed(1, 0, [1]), changed(3, 1, [1, 3]), cause=f"{ALTERED_BY}2")],
        [decided(changed(1, 0, [1]), changed(3, 1, [1, 3]), cause=f"{ALTERED_BY}1")],
    ),
    # Who led last may lead again when nobody else is known to have more.
    Golden(
        "unclean-election",
        [decided(changed(-1, 1, [], elr=[2], last_known_leader=1), changed(1, 2, [1]))],
        [decided(changed(-1, 1, [], elr=[2], last_known_leader=1), changed(1, 2, [1], elr=[]))],
    ),
    Golden(
        "hw-regression",
        [ends(1, 5, 0, (0, 1)), ends(1, 4, 0, (2, 3))],
        [ends(1, 5, 0, (0, 3)), ends(1, 4, 0, (2, 3)), ends(2, 4, 1, (4, 5)), ends(2, 5, 1, (6, 7))],
    ),
    # At offset 2 is what was appended in epoch 1, in which broker 1 did not lead.
    Golden("stale-leader-accept", led_by([2, 1]), led_by([2, 2])),
    Golden("stale-leader-accept", led_by([2, 2, 0]), led_by([2, 2, 1])),
    # A record that was sent again is answered by a later leader.
    Golden("stale-leader-accept", led_by([2, 1, 0]), led_by([1, 2, 1], offset=1)),
    # Two of three do nothing; then one of them may be back.
    Golden(
        "below-min-insync",
        [*two_silent(8 * S), read((0, 0))],
        [*two_silent(7 * S), read((0, 0))],
        {"brokers": 3, "min_insync": 2},
    ),
    # A scenario that ends starts whoever another fault has killed.
    Golden(
        "below-min-insync",
        [*two_silent(8 * S), read((0, 0))],
        [*two_silent(8 * S)[:2], heal("directed:isolated-leader", (5 * S, 6 * S - 1)), *two_silent(8 * S)[2:], read((0, 0))],
        {"brokers": 3, "min_insync": 2},
    ),
    # Of five brokers; the two are replicas of it, and there may have been others.
    Golden(
        "below-min-insync",
        [*two_silent(8 * S), read((0, 0)), decided()],
        [*two_silent(8 * S), read((0, 0)), decided(changed(1, 0, [1, 2, 3], replicas=[1, 2, 3, 5]))],
        {"brokers": 5, "replication_factor": 3, "min_insync": 2},
    ),
    Golden(
        "below-min-insync",
        [*two_silent(8 * S), read((0, 0)), decided()],
        [*two_silent(8 * S), read((0, 0)), decided(cause=SNAPSHOT)],
        {"brokers": 5, "replication_factor": 3, "min_insync": 2},
    ),
    Golden(
        "ack-before-isr",
        silence(until_ns=10 * S, shrunk_ms=9_500, isr=[1, 2]),
        silence(until_ns=10 * S, shrunk_ms=8_500, isr=[1, 2]),
        CLOCK,
    ),
    Golden(
        "ack-before-isr",
        silence(until_ns=10 * S, shrunk_ms=8_500, isr=[1, 3]),
        # It went on before that was acknowledged, and may have fetched.
        silence(until_ns=7 * S, shrunk_ms=8_500, isr=[1, 3]),
        CLOCK,
    ),
    Golden(
        "ack-before-isr",
        cut_off(healed_s=10, isr=[101, 102]),
        cut_off(healed_s=10, isr=[101, 103]),
        {**CLOCK, "brokers": 3},
    ),
    # It was heard again before that was acknowledged.
    Golden(
        "ack-before-isr",
        cut_off(healed_s=10, isr=[101, 102]),
        cut_off(healed_s=7, isr=[101, 102]),
        {**CLOCK, "brokers": 3},
    ),
    # What was so when an older snapshot was taken may have been decided after that.
    Golden(
        "ack-before-isr",
        silence(until_ns=10 * S, shrunk_ms=8_500, isr=[1, 3]),
        [*silence(until_ns=10 * S, shrunk_ms=8_500, isr=[1, 3])[:-1], decided(cause=SNAPSHOT)],
        CLOCK,
    ),
    Golden(
        "two-leaders",
        [view(1, 0, [1]), view(2, 0, [2]), decided(cause=SNAPSHOT)],
        [view(1, 0, [1]), view(2, 0, [2]), decided(cause=SNAPSHOT), did("create", ["t", 1], "a1"), did("delete", "t", None, (2, 3))],
    ),
]  # fmt: skip
