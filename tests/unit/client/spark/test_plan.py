"""Which offsets are read, in which tasks, and how much at a time."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.spark.options import RateOptions
from quorate.client.spark.places import (
    AT_EARLIEST,
    AT_LATEST,
    Offsets,
    OptionError,
    Place,
    Time,
    Times,
)
from quorate.client.spark.plan import (
    OffsetRange,
    Trigger,
    check_ends,
    limited,
    ranges_between,
    resolve,
    split,
)
from quorate.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {A: (5, 20), B: (0, 7)}


def ask(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Answer for LOGS, whose records are made at the time of their offset."""
    answers: dict[TopicPartition, int] = {}
    for partition, time in times.items():
        start, end = LOGS[partition]
        offset = {-1: end, -2: start}.get(time, max(time, start))
        answers[partition] = offset if time < 0 or offset < end else -1
    return answers


def found(place: Place, *, starting: bool = True, or_latest: bool = False) -> list[int]:
    offsets = resolve(place, {A, B}, ask, starting=starting, latest_without_match=or_latest)
    return [offsets[A], offsets[B]]


def test_a_place_is_an_offset_in_each_partition() -> None:
    assert found(AT_EARLIEST) == [5, 0]
    assert found(AT_LATEST) == [20, 7]
    assert found(Time(3)) == [5, 3]
    assert found(Times({A: 9, B: 1})) == [9, 1]
    assert found(Offsets({A: 8, B: -1})) == [8, 7]
    assert found(Offsets({A: -2, B: 0})) == [5, 0]


def test_a_time_without_a_record_is_an_error_or_the_end() -> None:
    with pytest.raises(OptionError, match="No offset matched from request of topic-partition t-1"):
        found(Time(9))
    assert found(Time(9), or_latest=True) == [9, 7]
    assert found(Time(99), starting=False) == [20, 7]


@pytest.mark.parametrize("place", [Offsets({A: 1}), Times({A: 1})])
def test_offsets_are_to_be_given_for_all_partitions(place: Place) -> None:
    with pytest.raises(OptionError, match=re.escape("Specified: [t-0] Assigned: [t-0, t-1]")):
        found(place)


def test_what_lies_between_is_read_in_the_order_of_partitions() -> None:
    ranges = ranges_between({B: 0, A: 5}, {B: 7, A: 5})
    assert ranges == [OffsetRange(B, 0, 7)]


def test_an_end_behind_the_log_is_a_loss_and_one_before_the_start_an_error() -> None:
    said: list[str] = []
    assert check_ends({A: 5, B: 9}, {A: 30, B: 10}, {A: 20, B: 7}, said.append) == {A: 20, B: 9}
    assert said[0].startswith("The end offset of t-0 is 30, and its log ends at 20")
    assert check_ends({A: 5}, {A: 6}, {}, said.append) == {A: 6}
    with pytest.raises(OptionError, match="start offset 5 is greater than the end offset 4"):
        check_ends({A: 5}, {A: 4}, {}, said.append)


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [r.size for r in ranges]


def test_ranges_stay_whole_unless_more_parts_are_wanted() -> None:
    ranges = [OffsetRange(A, 0, 100), OffsetRange(B, 0, 10)]
    assert split(ranges, None, None) == ranges
    assert split(ranges, 2, None) == ranges
    assert split([], 5, 5) == []


def test_large_ranges_are_cut_in_proportion_and_small_ones_stay_whole() -> None:
    ranges = [OffsetRange(A, 0, 100), OffsetRange(B, 0, 10)]
    assert sizes(split(ranges, 5, None)) == [25, 25, 25, 25, 10]
    assert sizes(split([OffsetRange(A, 0, 3)], 10, None)) == [1, 1, 1]


def test_no_part_has_more_offsets_than_allowed() -> None:
    ranges = [OffsetRange(A, 0, 100), OffsetRange(B, 0, 10)]
    assert sizes(split(ranges, None, 30)) == [25, 25, 25, 25, 10]
    assert sizes(split(ranges, 4, 20)) == [20, 20, 20, 20, 20, 10]


@given(
    st.lists(st.integers(1, 10_000), max_size=5),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(100, 10_000),
)
def test_parts_together_are_what_was_cut(
    lengths: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("t", i), 7, 7 + n) for i, n in enumerate(lengths)]
    parts = split(ranges, partitions_min, records_max)
    for whole in ranges:
        own = [part for part in parts if part.topic_partition == whole.topic_partition]
        assert [part.start for part in own] == [whole.start, *(part.end for part in own[:-1])]
        assert own[-1].end == whole.end
    assert all(0 < part.size <= (records_max or part.size) for part in parts)


def test_a_limit_is_shared_out_by_size_and_starves_nobody() -> None:
    starts, ends = {A: 0, B: 0}, {A: 1_000, B: 2}
    assert limited(starts, ends, 100) == {A: 99, B: 1}
    assert limited(starts, ends, 2_000) == ends
    assert limited({A: 0, B: 2}, ends, 100) == {A: 100, B: 2}


def test_a_micro_batch_waits_for_enough_or_long_enough() -> None:
    trigger = Trigger(RateOptions(None, 10, 1_000), last_ms=0)
    assert trigger.is_due({A: 0}, {A: 0}, now_ms=5_000)
    assert not trigger.is_due({A: 0}, {A: 9}, now_ms=5_999)
    assert trigger.is_due({A: 0}, {A: 10}, now_ms=5_999)
    assert not trigger.is_due({A: 10}, {A: 11}, now_ms=6_998)
    assert trigger.is_due({A: 10}, {A: 11}, now_ms=6_999)
    assert Trigger(RateOptions(None, None, 0), last_ms=0).is_due({}, {}, now_ms=0)
