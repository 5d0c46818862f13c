"""What the group checker takes no notice of; each anomaly is in the golden histories."""

from typing import Any

from quorate.jepsen.checkers.groups import GroupChecker
from quorate.jepsen.history import Kind, Operation

P = "t-0"


def found(*operations: Operation) -> dict[str, int]:
    checker = GroupChecker()
    for operation in operations:
        checker.add(operation)
    return dict(checker.finish().counts)


def test_operations_of_other_workloads_and_failures_mean_nothing() -> None:
    assert found(Operation(1, "send", [P, 1], Kind.OK, 0, 0, 1)) == {}
    assert found(Operation(1, "poll", 0, Kind.FAIL, None, 0, 1)) == {}


def test_an_assignment_of_which_nobody_says_the_generation_says_nothing_of_owners() -> None:
    told: list[Any] = [
        *(["g", None, "a", [P]], ["g", 3, "a", []]),
        *(["g", None, "b", [P]], ["g", 3, "b", []]),
    ]
    assert found(*(Operation(1, "assign", None, Kind.OK, each, 0, 1) for each in told)) == {}
