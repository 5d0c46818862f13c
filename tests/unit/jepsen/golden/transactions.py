"""Transactions: one history by hand for each anomaly, and one that almost shows it."""

# ruff: noqa: E501 - tables: a history is a line

from typing import Any

from quorate.jepsen.history import Kind, Operation
from tests.unit.jepsen.golden.making import (
    FINAL,
    LAST,
    Golden,
    P,
    Q,
    Span,
    complaint,
    did,
    poll,
    read,
)

OUT = "out-0"


def txn(
    number: int,
    *writes: list[Any],
    span: Span = (4, 5),
    kind: Kind = Kind.OK,
    told: list[int | None] | None = None,
    owner: str = "a",
    instance: int = 1,
    begun: int | None = None,
) -> Operation:
    asked = [number, owner, instance, span[0] if begun is None else begun, list(writes)]
    return did("txn", asked, told, span, kind=kind)


def init(instance: int, span: Span, owner: str = "a") -> Operation:
    return did("init-producer", [owner, instance], None, span, process=instance)


def ended(*partitions: str) -> Operation:
    return did("read-end", None, list(partitions), FINAL, process=LAST)


def copied(value: int, source: int) -> list[Any]:
    return [OUT, value, "copy", "g", source]


def has(partition: str, value: int, account: str, amount: int, total: int = 200) -> list[Any]:
    return [partition, value, "balance", "bank", account, amount, total]


def position(offset: int) -> Operation:
    return did("position", "g", [[P, offset]], FINAL, process=LAST)


def found(*amounts: int, total: int = 200, span: Span = (2, 3)) -> Operation:
    told = [[str(number), amount] for number, amount in enumerate(amounts)]
    return did("balances", ["bank", total], told, span)


BOTH = [txn(1, [P, 1], [Q, 2], told=[0, 0])]
UNKNOWN = [txn(1, [P, 1], [Q, 2], kind=Kind.INFO)]
SENT = [did("send", [P, 1], 0), did("send", [P, 2], 1)]
ALL_SENT = read((0, 1), (1, 2))
OPENED = [txn(1, has(P, 1, "x", 100), has(Q, 2, "y", 100), span=(0, 1))]
MOVED = [*OPENED, txn(2, has(P, 3, "x", 70), has(Q, 4, "y", 130))]
ALL_OF_P = read((0, 1), (2, 3))
OPENED_READ = [read((0, 1)), read((0, 2), partition=Q)]

CASES = [
    Golden(
        "lost-commit",
        [*BOTH, txn(2, [P, 3], told=[2]), read((2, 3)), read((0, 2), partition=Q)],
        [*BOTH, txn(2, [P, 3], told=[2]), read((0, 1), (2, 3)), read((0, 2), partition=Q)],
    ),
    # Whose offsets nobody heard: an aborted one is not there, a committed one is.
    Golden(
        "lost-commit",
        [txn(1, [P, 1]), txn(2, [P, 3], told=[2]), read((2, 3)), ended(P)],
        [txn(1, [P, 1], kind=Kind.FAIL), txn(2, [P, 3], told=[2]), read((2, 3)), ended(P)],
    ),
    # Nothing is behind it but marks of ends, which nobody is given.
    Golden(
        "lost-commit",
        [txn(1, [P, 1], told=[0]), read(), ended(P)],
        [txn(1, [P, 1], told=[0]), read((0, 1)), ended(P)],
    ),
    Golden(
        "dirty-read",
        [txn(1, [P, 1], kind=Kind.INFO), poll((0, 1), span=(6, 7)), read(), ended(P)],
        [txn(1, [P, 1], kind=Kind.INFO), poll((0, 1), span=(6, 7)), read((0, 1)), ended(P)],
    ),
    Golden(
        "torn-transaction",
        [*UNKNOWN, read((0, 1)), read(partition=Q), ended(P, Q)],
        [*UNKNOWN, read((0, 1)), read((0, 2), partition=Q), ended(P, Q)],
    ),
    # Nobody knows of a partition that was not read to its end.
    Golden(
        "torn-transaction",
        [*UNKNOWN, read((0, 1)), read(partition=Q), ended(P, Q)],
        [*UNKNOWN, read((0, 1)), read(partition=Q), ended(P)],
    ),
    Golden(
        "torn-transaction",
        [*UNKNOWN, read((0, 1)), read(partition=Q), ended(P, Q)],
        [*UNKNOWN, read(), read(partition=Q), ended(P, Q)],
    ),
    Golden(
        "uncommitted-read",
        [poll((0, 1), span=(2, 3)), txn(1, [P, 1], span=(4, 5), begun=1, told=[0]), read((0, 1))],
        [poll((0, 1), span=(2, 5)), txn(1, [P, 1], span=(4, 6), begun=1, told=[0]), read((0, 1))],
    ),
    Golden(
        "aborted-read",
        [poll((0, 1)), txn(1, [P, 1], kind=Kind.FAIL), read()],
        [poll(), txn(1, [P, 1], kind=Kind.FAIL), read()],
    ),
    # Whoever wrote it: a transaction is there once.
    Golden(
        "duplicate",
        [txn(1, [P, 1], told=[0]), read((0, 1), (2, 1)), did("replica", None, [P, 1, [[0, 1, 0, b"a", [7, 0]], [1, 2, 0, b"m", [7, 0]], [2, 3, 0, b"b", [7, 1]]]])],
        [txn(1, [P, 1], told=[0]), read((0, 1)), did("replica", None, [P, 1, [[0, 1, 0, b"a", [7, 0]], [1, 2, 0, b"m", [7, 0]], [2, 3, 0, b"b", [7, 1]]]])],
    ),
    # The order is that of beginnings, and not of commits.
    Golden(
        "realtime-order",
        [txn(1, [P, 1], span=(4, 5), told=[2]), txn(2, [P, 2], owner="b", instance=2, span=(8, 9), begun=6, told=[0]), read((0, 2), (2, 1))],
        [txn(1, [P, 1], span=(4, 5), told=[2]), txn(2, [P, 2], owner="b", instance=2, span=(8, 9), begun=3, told=[0]), read((0, 2), (2, 1))],
    ),
    Golden(
        "nonmonotonic-send",
        [txn(1, [P, 1], [P, 2], kind=Kind.INFO), read((0, 2), (1, 1))],
        [txn(1, [P, 1], [P, 2], kind=Kind.INFO), read((0, 1), (1, 2))],
    ),
    Golden(
        "zombie-transaction",
        [init(1, (0, 1)), init(2, (2, 3)), txn(1, [P, 1], span=(4, 5), begun=1, told=[0]), read((0, 1))],
        [init(1, (0, 1)), init(2, (2, 5)), txn(1, [P, 1], span=(4, 6), begun=1, told=[0]), read((0, 1))],
    ),
    # It was told nothing, and was committed all the same.
    Golden(
        "zombie-transaction",
        [init(1, (0, 1)), init(2, (2, 3)), txn(1, [P, 1], kind=Kind.INFO), read((0, 1))],
        [init(1, (0, 1)), init(2, (2, 3)), txn(1, [P, 1], kind=Kind.INFO), read()],
    ),
    # Another transactional id fences nobody, and neither does one that was asked for before.
    Golden(
        "zombie-transaction",
        [init(1, (0, 1)), init(2, (2, 3)), txn(1, [P, 1], told=[0]), read((0, 1))],
        [init(1, (0, 1)), init(2, (2, 3), owner="b"), init(3, (0, 3)), txn(1, [P, 1], told=[0]), read((0, 1))],
    ),
    Golden(
        "copied-twice",
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 1), kind=Kind.INFO), read((0, 3), (2, 4), partition=OUT), ALL_SENT],
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 1), kind=Kind.FAIL), read((0, 3), partition=OUT), ALL_SENT],
    ),
    Golden(
        "copy-missing",
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 2), kind=Kind.FAIL), read((0, 3), partition=OUT), ALL_SENT, position(2), ended(OUT)],
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 2), kind=Kind.FAIL), read((0, 3), partition=OUT), ALL_SENT, position(1), ended(OUT)],
    ),
    # The rest was not read: the run was cut off, or nobody could.
    Golden(
        "copy-missing",
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 2), kind=Kind.INFO), read((0, 3), partition=OUT), ALL_SENT, position(2), ended(P, OUT)],
        [*SENT, txn(1, copied(3, 1)), txn(2, copied(4, 2), kind=Kind.INFO), read((0, 3), partition=OUT), ALL_SENT, position(2), ended(P)],
    ),
    # Who finds no account at all opens them once more.
    Golden(
        "money-changed",
        [*OPENED, found(), *OPENED_READ],
        [*OPENED, found(span=(1, 7)), *OPENED_READ],
    ),
    Golden(
        "money-changed",
        [*MOVED, ALL_OF_P, read((0, 2), partition=Q), ended(P, Q)],
        [*MOVED, ALL_OF_P, read((0, 2), (2, 4), partition=Q), ended(P, Q)],
    ),
    Golden("money-changed", [found(100, 70)], [found(), found(60, 140)]),
    Golden(
        "write-read-cycle",
        [txn(1, [P, 1], copied(3, 2)), txn(2, [P, 2], copied(4, 1)), read((0, 1), (1, 2)), read((0, 3), (1, 4), partition=OUT)],
        [txn(1, [P, 1]), txn(2, [P, 2], copied(4, 1)), txn(3, copied(5, 2), [OUT, 6]), read((0, 1), (1, 2)), read((0, 4), (1, 5), (2, 6), partition=OUT)],
    ),
    Golden("hanging-transaction", [complaint("hanging-transaction")], [did("read-end", None, [P])]),
]  # fmt: skip
