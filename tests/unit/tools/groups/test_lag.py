"""How far groups are behind."""

from quorate.client.groups.results import GroupDescription, MemberDescription, OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.tools.groups.lag import (
    Bounds,
    Lag,
    PartitionLag,
    Trend,
    partition_lags,
    summed,
    trend_of,
)

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
MEMBER = MemberDescription("m-1", None, "c", "/h", (T0, T2))


def lag(
    committed: int | None,
    bounds: tuple[int, int] | None,
    partition: TopicPartition = T0,
    since_ms: int | None = None,
) -> PartitionLag:
    return PartitionLag(
        "g",
        partition,
        None if committed is None else OffsetAndMetadata(committed),
        None if bounds is None else Bounds(*bounds),
        MEMBER,
        since_ms,
    )


def test_the_lag_is_what_lies_between_the_committed_offset_and_the_end() -> None:
    behind = lag(3, (0, 10))
    assert (behind.records, behind.lost, behind.first_unread) == (7, 0, 3)


def test_records_deleted_before_they_were_read_are_lost() -> None:
    behind = lag(3, (5, 10))
    assert (behind.records, behind.lost, behind.first_unread) == (7, 2, 5)


def test_a_group_that_has_read_all_has_nothing_unread() -> None:
    assert (lag(10, (0, 10)).records, lag(10, (0, 10)).first_unread) == (0, None)
    assert lag(12, (0, 10)).records == 0, "the log was cut, or is another one"


def test_without_an_offset_or_an_end_the_lag_is_not_known() -> None:
    for unknown in (lag(None, (0, 10)), lag(3, None)):
        assert (unknown.records, unknown.lost, unknown.first_unread) == (None, 0, None)


def test_partitions_are_those_read_and_those_that_members_have() -> None:
    group = GroupDescription("g", "Classic", "consumer", "Stable", "range", (MEMBER,), 1)
    lags = partition_lags(group, {T1: OffsetAndMetadata(4)}, {T0: Bounds(0, 9)})
    assert [(each.partition, each.owner) for each in lags] == [
        (T0, MEMBER),
        (T1, None),
        (T2, MEMBER),
    ]
    assert lags[0].bounds == Bounds(0, 9)
    assert lags[1].committed == OffsetAndMetadata(4)


def test_lags_add_up_by_topic_or_by_partition() -> None:
    lags = [lag(3, (0, 10), T0, 500), lag(3, (4, 5), T1, 400), lag(None, (0, 7), T2)]
    (whole,) = summed(lags, by_partition=False)
    assert whole == Lag("g", "t", None, 3, 9, 1, 6, 15, 400, 1)
    each = summed(lags, by_partition=True)
    assert [(part.partition, part.records) for part in each] == [(0, 7), (1, 2), (2, 0)]


def test_the_age_of_the_oldest_unread_record_is_the_lag_in_seconds() -> None:
    (behind,) = summed([lag(3, (0, 10), T0, 500)], by_partition=False)
    assert behind.seconds(2500) == 2.0
    assert behind.seconds(400) == 0.0, "clocks differ"
    assert summed([lag(10, (0, 10))], by_partition=False)[0].seconds(1) == 0.0
    assert summed([lag(3, (0, 10))], by_partition=False)[0].seconds(1) is None


def looks(first: tuple[int, int], second: tuple[int, int]) -> Trend | None:
    before, after = (
        summed([lag(committed, (0, end))], by_partition=False)[0]
        for committed, end in (first, second)
    )
    return trend_of(before, after, 2000)


def test_a_trend_tells_what_is_read_and_written_and_when_all_is_read() -> None:
    assert looks((0, 10), (4, 12)) == Trend("shrinking", 2.0, 1.0, 8.0)
    assert looks((0, 10), (1, 20)) == Trend("growing", 0.5, 5.0, None)
    assert looks((0, 10), (2, 12)) == Trend("steady", 1.0, 1.0, None)


def test_two_looks_at_the_same_time_tell_no_trend() -> None:
    (same,) = summed([lag(0, (0, 10))], by_partition=False)
    assert trend_of(same, same, 0) is None
