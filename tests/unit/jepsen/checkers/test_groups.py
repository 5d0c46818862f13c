"""One history by hand for each anomaly, and one that almost shows it."""

import pytest

from quorate.jepsen.checkers.groups import GroupChecker
from quorate.jepsen.history import Kind, Operation

G, P, Q = "g", "t-0", "t-1"


def assign(generation: int, member: str, *partitions: str) -> Operation:
    return Operation(1, "assign", None, Kind.OK, [G, generation, member, list(partitions)], 0, 1)


def poll(*offsets: int, partition: str = P) -> Operation:
    told = [[partition, list(offsets), [0] * len(offsets)]]
    return Operation(1, "poll", 0, Kind.OK, told, 0, 1)


def commit(
    offset: int, span: tuple[int, int], kind: Kind = Kind.OK, partition: str = P
) -> Operation:
    returned = None if kind is Kind.INFO else span[1]
    return Operation(2, "commit", [G, [[partition, offset]]], kind, None, span[0], returned)


def committed(offset: int, span: tuple[int, int]) -> Operation:
    return Operation(3, "committed", [G, [P]], Kind.OK, [[P, offset]], *span)


def found(*operations: Operation) -> dict[str, int]:
    checker = GroupChecker()
    for operation in operations:
        checker.add(operation)
    return dict(checker.finish().counts)


TEN = poll(*range(10))


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("double-assignment", [assign(1, "a", P, Q), assign(1, "b", Q)],
         [assign(1, "a", P, Q), assign(1, "a", P), assign(2, "b", Q)]),
        ("skipped-record", [poll(0, 1), poll(3), commit(4, (0, 1))],
         [poll(0, 1), poll(3), poll(2, 3), commit(4, (0, 1))]),
        # It may be carried out yet.
        ("skipped-record", [poll(0), commit(2, (0, 1), Kind.INFO)],
         [poll(0), commit(2, (0, 1), Kind.FAIL)]),
        ("skipped-record", [TEN, commit(1, (0, 1), partition=Q)],
         [TEN, poll(0, partition=Q), commit(1, (0, 1), partition=Q)]),
        ("commit-regression", [TEN, commit(5, (0, 1)), commit(4, (2, 3))],
         [TEN, commit(5, (0, 2)), commit(4, (2, 3))]),
        ("commit-regression", [TEN, commit(5, (0, 1)), commit(4, (2, 3))],
         [TEN, commit(5, (0, 1), Kind.INFO), commit(4, (2, 3)), commit(5, (4, 5))]),
        ("stale-committed-offset", [TEN, commit(5, (0, 1)), committed(4, (2, 3))],
         [TEN, commit(5, (0, 2)), committed(4, (2, 3)), committed(5, (4, 5))]),
        ("stale-committed-offset", [TEN, commit(5, (0, 1)), committed(-1, (2, 3))],
         [TEN, committed(-1, (0, 1)), commit(5, (2, 3))]),
        ("stale-committed-offset",
         [TEN, commit(5, (0, 1), Kind.INFO), committed(5, (2, 3)), committed(4, (4, 5))],
         [TEN, commit(5, (0, 1), Kind.INFO), committed(4, (2, 3)), committed(5, (4, 5))]),
        ("phantom-commit", [TEN, commit(5, (0, 1)), committed(6, (2, 3))],
         [TEN, commit(5, (0, 1)), commit(6, (2, 9), Kind.INFO), committed(6, (3, 4))]),
    ],
)  # fmt: skip
def test_an_anomaly_is_found_and_what_is_almost_one_is_not(
    name: str, wrong: list[Operation], right: list[Operation]
) -> None:
    assert name in found(*wrong)
    assert found(*right) == {}


def test_operations_of_other_workloads_and_failures_mean_nothing() -> None:
    assert found(Operation(1, "send", [P, 1], Kind.OK, 0, 0, 1)) == {}
    assert found(Operation(1, "poll", 0, Kind.FAIL, None, 0, 1)) == {}
