"""One history by hand for each anomaly, and one that almost shows it."""

from itertools import count

import pytest

from quorate.jepsen.checkers.log import LogChecker
from quorate.jepsen.history import Kind, Operation

P = "t-0"
LAST = 100


def sent(
    value: int, offset: int | None, span: tuple[int, int] = (0, 1), process: int = 1
) -> Operation:
    return Operation(process, "send", [P, value], Kind.OK, offset, *span)


def unsent(value: int, kind: Kind) -> Operation:
    return Operation(1, "send", [P, value], kind, None, 0, None if kind is Kind.INFO else 1)


def poll(*records: tuple[int, int], assignment: int = 0, process: int = 2) -> Operation:
    told = [[P, [offset for offset, _ in records], [value for _, value in records]]]
    return Operation(process, "poll", assignment, Kind.OK, told, 2, 3)


def read(*records: tuple[int, int]) -> Operation:
    told = [[P, [offset for offset, _ in records], [value for _, value in records]]]
    return Operation(LAST, "read", None, Kind.OK, told, 8, 9)


def found(*operations: Operation) -> dict[str, int]:
    checker = LogChecker()
    for operation in operations:
        checker.add(operation)
    return dict(checker.finish().counts)


THREE = [sent(value, value, (2 * value, 2 * value + 1)) for value in range(3)]
ALL_THREE = read((0, 0), (1, 1), (2, 2))


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("lost-write", [*THREE, read((0, 0), (2, 2))], [*THREE, ALL_THREE]),
        ("lost-write", [sent(0, None), read()], [sent(0, None), read((0, 0))]),
        # Whether it was sent at all is not known.
        ("unseen", [*THREE, read((0, 0), (1, 1))], [*THREE, unsent(3, Kind.INFO), ALL_THREE]),
        (
            "inconsistent-offsets",
            [*THREE, unsent(9, Kind.INFO), poll((1, 9)), ALL_THREE],
            [*THREE, poll((1, 1)), ALL_THREE],
        ),
        (
            "duplicate",
            [*THREE, read((0, 0), (1, 1), (2, 2), (3, 1))],
            [*THREE, unsent(3, Kind.INFO), read((0, 0), (1, 1), (2, 2), (3, 3))],
        ),
        (
            "phantom",
            [*THREE, read((0, 0), (1, 1), (2, 2), (3, 3))],
            [*THREE, unsent(3, Kind.INFO), read((0, 0), (1, 1), (2, 2), (3, 3))],
        ),
        (
            "aborted-read",
            [unsent(0, Kind.FAIL), read((0, 0))],
            [unsent(0, Kind.INFO), read((0, 0))],
        ),
        (
            "nonmonotonic-send",
            [sent(0, 1, (0, 5)), sent(1, 0, (1, 6)), read((0, 1), (1, 0))],
            [sent(0, 1, (0, 5)), sent(1, 0, (1, 6), process=3), read((0, 1), (1, 0))],
        ),
        (
            "realtime-order",
            [sent(0, 1, (0, 5)), sent(1, 0, (6, 7), process=3), read((0, 1), (1, 0))],
            [sent(0, 1, (0, 5)), sent(1, 0, (5, 7), process=3), read((0, 1), (1, 0))],
        ),
        (
            "nonmonotonic-poll",
            [*THREE, poll((1, 1)), poll((1, 1)), ALL_THREE],
            [*THREE, poll((1, 1)), poll((1, 1), assignment=1), poll((0, 0), process=3), ALL_THREE],
        ),
        (
            "poll-skip",
            [*THREE, poll((0, 0)), poll((2, 2)), ALL_THREE],
            [*THREE, poll((0, 0)), poll((2, 2), assignment=1), ALL_THREE],
        ),
        # The offset of a transaction's end is no record.
        (
            "poll-skip",
            [*THREE, poll((0, 0)), poll((2, 2)), ALL_THREE],
            [sent(0, 0), sent(2, 2, (2, 3)), poll((0, 0)), poll((2, 2)), read((0, 0), (2, 2))],
        ),
        (
            "int-nonmonotonic-poll",
            [*THREE, poll((1, 1), (0, 0)), ALL_THREE],
            [*THREE, poll((0, 0), (1, 1)), ALL_THREE],
        ),
        (
            "int-poll-skip",
            [*THREE, poll((0, 0), (2, 2)), ALL_THREE],
            [sent(0, 0), sent(2, 2, (2, 3)), poll((0, 0), (2, 2)), read((0, 0), (2, 2))],
        ),
    ],
)
def test_an_anomaly_is_found_and_what_is_almost_one_is_not(
    name: str, wrong: list[Operation], right: list[Operation]
) -> None:
    assert name in found(*wrong)
    assert found(*right) == {}


def test_all_cases_are_counted_and_the_first_are_kept_with_what_proves_them() -> None:
    checker = LogChecker()
    for value in range(100):
        checker.add(sent(value, value, (2 * value, 2 * value + 1)))
    checker.add(read((99, 99)))
    anomalies = checker.finish()
    assert anomalies
    assert anomalies.counts["lost-write"] == 99
    cases = anomalies.cases["lost-write"]
    assert len(cases) == 8
    assert cases[0].what == "t-0: 0 was acknowledged at offset 0, and is gone"
    assert cases[0].evidence == ("producer 1 was told so at 1 ns",)


def test_operations_of_other_workloads_mean_nothing() -> None:
    assert found(Operation(1, "commit", 5, Kind.OK, None, 0, 1)) == {}
    assert found(Operation(1, "poll", 0, Kind.FAIL, None, 0, 1)) == {}
    assert found(poll()) == {}


def test_a_large_history_costs_little_for_what_is_read_again() -> None:
    clock = count()
    checker = LogChecker()
    for value in range(2000):
        checker.add(sent(value, value, (next(clock), next(clock))))
    for process in range(5):
        for begin in range(0, 2000, 100):
            records = [(offset, offset) for offset in range(begin, begin + 100)]
            checker.add(poll(*records, process=10 + process))
    assert not checker.finish()
