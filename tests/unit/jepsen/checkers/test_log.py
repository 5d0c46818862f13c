"""What the log checker makes of a history as a whole; each anomaly is in the golden histories."""

from itertools import count

from quorate.jepsen.checkers.log import LogChecker
from quorate.jepsen.history import Kind, Operation

P = "t-0"
LAST = 100


def sent(
    value: int, offset: int | None, span: tuple[int, int] = (0, 1), process: int = 1
) -> Operation:
    return Operation(process, "send", [P, value], Kind.OK, offset, *span)


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
