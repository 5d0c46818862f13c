"""What a report needs of a history."""

from collections.abc import Iterator
from itertools import count

from quorate.jepsen.history import Event, Kind, operations
from quorate.jepsen.report.buckets import BUCKETS_MAX
from quorate.jepsen.report.gathering import (
    FAULTS_MAX,
    NEVER_ROW,
    PARTITIONS_MAX,
    Gathered,
    Gatherer,
    PartitionState,
)
from quorate.jepsen.report.summary import worst_gap
from tests.unit.jepsen.report.histories import HEADER, MS, SECOND, Maker


def gathered(*events: Event) -> Gathered:
    return Gatherer({}).add_all(operations(events))


def both(at_ms: int, name: str, asked: object, told: object, process: int = 5) -> list[Event]:
    return [
        Event(at_ms * MS, process, Kind.INVOKE, name, asked),
        Event((at_ms + 2) * MS, process, Kind.OK, name, told),
    ]


def test_operations_are_counted_by_how_they_ended() -> None:
    events = list(Maker(7, 12, 100).events())
    result = gathered(*events)
    sends = [e for e in events if e.name == "send" and e.kind is Kind.INVOKE]
    assert sum(result.totals["send", kind] for kind in (Kind.OK, Kind.FAIL, Kind.INFO)) == len(
        sends
    )
    assert result.count(Kind.INFO) == result.totals["send", Kind.INFO] > 0
    assert result.names()[0] == "send"
    assert "view" not in result.names()


def test_every_operation_has_its_point() -> None:
    result = gathered(*Maker(7, 12, 100).events())
    for name in result.names():
        total = sum(n for (one, _), n in result.totals.items() if one == name)
        assert sum(result.points[name].cells.values()) == total


def test_what_never_ends_stands_in_a_row_of_its_own() -> None:
    result = gathered(Event(0, 5, Kind.INVOKE, "send", ["t-0", 1]))
    assert [key.row for _, key in result.points["send"].cells] == [NEVER_ROW]
    assert result.totals["send", Kind.INFO] == 1


def test_faults_last_until_they_are_healed_the_newest_first() -> None:
    fault, heal = {"fault": "kill", "targets": ["broker-101"]}, {"fault": "kill"}
    result = gathered(
        *both(10, "fault", fault, {"verified": "gone"}, 0),
        *both(20, "fault", {**fault, "targets": ["broker-102"]}, {"verified": ""}, 0),
        *both(30, "heal", heal, {}, 0),
        *both(40, "heal", {"fault": "pause"}, {}, 0),
        *both(50, "heal", heal, {}, 0),
        *both(60, "fault", fault, {"verified": "gone"}, 0),
    )
    assert [(bar.targets, bar.healed_ns) for bar in result.faults] == [
        (("broker-101",), 52 * MS), (("broker-102",), 32 * MS), (("broker-101",), None),
    ]  # fmt: skip
    assert (result.fault_total, result.faults_bit) == (3, 2)


def test_a_fault_may_be_seen_to_bite_as_late_as_it_is_healed() -> None:
    result = gathered(
        *both(10, "fault", {"fault": "disk", "targets": ["broker-101"]}, {"verified": ""}, 0),
        *both(20, "heal", {"fault": "disk"}, {"verified": "it was full"}, 0),
    )
    assert [bar.verified for bar in result.faults] == ["it was full"]
    assert (result.fault_total, result.faults_bit) == (1, 1)


def test_a_fault_that_failed_is_counted_and_was_not_there() -> None:
    result = gathered(
        Event(0, 0, Kind.INVOKE, "fault", {"fault": "disk"}),
        Event(1, 0, Kind.INFO, "fault", "no space"),
    )
    assert [bar.failed for bar in result.faults] == [True]
    assert (result.fault_total, result.faults_bit) == (1, 0)


def test_unseen_are_the_acknowledged_behind_what_was_read() -> None:
    result = gathered(
        *both(0, "send", ["t-0", 1], 7),
        *both(10, "send", ["t-1", 2], [3, 101, 0]),
        *both(20, "poll", 1, [["t-0", [5, 6], [8, 9]], ["t-1", [3], [2], 4]]),
        *both(30, "send", ["t-1", 4], None),
    )
    assert max(result.unseen.column("").values()) == 12
    assert result.unseen_last == 1


def test_the_longest_time_without_an_acknowledgement_is_that_under_load() -> None:
    result = gathered(
        *both(0, "send", ["t-0", 1], 0),
        *both(500, "send", ["t-0", 2], 1),
        *both(600, "phase", None, "final"),
        *both(9000, "send", ["t-0", 3], 2),
    )
    assert result.gaps["t-0"].gap_ns == 500 * MS
    assert result.gaps["t-0"].gap_from_ns == 2 * MS


def test_leaders_are_followed_and_changes_of_epoch_counted() -> None:
    views = [
        {"controller": 1, "partitions": {"t-0": [101, 0, [101, 102]]}},
        {"controller": None, "partitions": {"t-0": [None, 1, [102]]}},
        {"controller": 2, "partitions": {"t-0": [102, 2, [102]]}},
        {"controller": 2, "partitions": {"t-0": [102, 2, [101, 102]]}},
    ]
    events = [e for i, view in enumerate(views) for e in both(i * 100, "view", None, view, 1)]
    result = gathered(*events)
    assert list(result.states.column("t-0").values()) == [
        PartitionState(101, 0, (101, 102)), PartitionState(-1, 1, (102,)),
        PartitionState(102, 2, (102,)), PartitionState(102, 2, (101, 102)),
    ]  # fmt: skip
    assert list(result.controllers.column("").values()) == [1, -1, 2, 2]
    assert result.leader_changes == 2


def test_a_partition_that_takes_nothing_any_more_has_a_gap_for_as_long_as_it_was_tried() -> None:
    refused = Event(9 * SECOND, 7, Kind.INVOKE, "send", ["t-0", 3])
    unanswered = Event(8 * SECOND, 6, Kind.INVOKE, "send", ["t-1", 2])
    result = gathered(
        *both(0, "phase", None, "load", 0),
        *both(10, "send", ["t-0", 1], 0),
        Event(2 * SECOND, 5, Kind.INVOKE, "send", ["t-1", 1]),
        Event(4 * SECOND, 5, Kind.FAIL, "send", "NOT_ENOUGH_REPLICAS"),
        unanswered,
        refused,
        refused._replace(time_ns=10 * SECOND, kind=Kind.FAIL),
        *both(11_000, "phase", None, "final", 0),
    )
    waited = {name: (acks.gap_from_ns, acks.gap_ns) for name, acks in result.gaps.items()}
    assert waited == {
        "t-0": (12 * MS, 10 * SECOND - 12 * MS),
        "t-1": (2 * SECOND, 6 * SECOND),
    }
    worst = worst_gap(result)
    assert worst is not None
    assert worst[0] == "t-0"
    assert worst_gap(gathered(*both(1, "delete", "t", None), unanswered)) is None


def test_what_the_harness_says_of_its_own_reading_is_no_operation_of_clients() -> None:
    result = gathered(
        *(
            Event(at, at, kind, name, [])
            for at, name in enumerate(("audit", "read-end", "position", "read"))
            for kind in (Kind.INVOKE, Kind.OK)
        )
    )
    assert (result.operations, result.names()) == (1, ["read"])


def test_memory_has_a_bound_whatever_happens() -> None:
    def events() -> Iterator[Event]:
        for number in count():
            at = number * 3 * SECOND
            yield Event(at, number, Kind.INVOKE, "send", [f"t-{number}", number])
            yield Event(at + number % 997 * MS, number, Kind.OK, "send", number)
            yield Event(at + SECOND, 0, Kind.INVOKE, "fault", {"fault": "kill"})
            yield Event(at + SECOND, 0, Kind.OK, "fault", {"verified": "x"})
            yield Event(at + SECOND, 0, Kind.INVOKE, "heal", {"fault": "kill"})
            yield Event(at + SECOND, 0, Kind.OK, "heal", {})
            if number == 3_000:
                return

    result = gathered(*events())
    assert result.operations == 3_001
    assert result.fault_total == 3_001
    assert len(result.faults) == FAULTS_MAX
    assert len(result.gaps) == PARTITIONS_MAX
    assert result.partitions_left_out == 3_001 - PARTITIONS_MAX
    assert len({bucket for bucket, _ in result.points["send"].cells}) <= BUCKETS_MAX


def test_the_header_goes_along() -> None:
    assert Gatherer(HEADER).add_all(()).header["seed"] == 7
