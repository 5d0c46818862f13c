"""What a batch reads of the logs that a cluster has, and how much that is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorate.client.spark.options import Subscription, parse_batch_read
from quorate.client.spark.places import EARLIEST, LATEST, OptionError
from quorate.client.spark.plan import DataLossError, OffsetRange
from quorate.client.spark.sizing import batch_ranges, log_bytes
from quorate.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Logs:
    """Answers as a cluster does; records are made at the time of their offset."""

    starts: Mapping[TopicPartition, int] = field(default_factory=lambda: {A: 5, B: 0})
    stable: Mapping[TopicPartition, int] = field(default_factory=lambda: {A: 18, B: 7})
    ends: Mapping[TopicPartition, int] = field(default_factory=lambda: {A: 20, B: 7})
    sizes: Mapping[TopicPartition, int] = field(default_factory=lambda: {A: 1500, B: 700})

    def subscribed(self, subscription: Subscription) -> set[TopicPartition]:
        assert subscription.topics == ("t",)
        return set(self.ends)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
    ) -> dict[TopicPartition, int]:
        ends = self.stable if committed_only else self.ends
        known = {EARLIEST: self.starts, LATEST: ends}
        return {
            partition: known[time][partition]
            if time in known
            else (max(time, self.starts[partition]) if time < ends[partition] else -1)
            for partition, time in timestamps.items()
        }

    def log_sizes(self) -> Mapping[TopicPartition, int]:
        return self.sizes


def options(**texts: str) -> Any:
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", **texts}
    return parse_batch_read(given, 0)


def ranges(logs: Any, **texts: str) -> list[OffsetRange]:
    return batch_ranges(logs, options(**texts))


def at(a: int, b: int) -> str:
    """Return an offset in each partition, as options have it."""
    return json.dumps({"t": {"0": a, "1": b}})


COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_a_batch_reads_all_that_there_is() -> None:
    assert ranges(Logs()) == [OffsetRange(A, 5, 20), OffsetRange(B, 0, 7)]


def test_what_is_not_decided_yet_is_not_read_where_only_what_is_committed_counts() -> None:
    assert ranges(Logs(), **COMMITTED) == [OffsetRange(A, 5, 18), OffsetRange(B, 0, 7)]


def test_a_start_later_than_all_records_is_the_end_if_that_is_the_strategy() -> None:
    late = {"startingTimestamp": "9"}
    with pytest.raises(OptionError, match="No offset matched"):
        ranges(Logs(), **late)
    latest = {**late, "startingOffsetsByTimestampStrategy": "latest"}
    assert ranges(Logs(), **latest) == [OffsetRange(A, 9, 20)]


def test_an_end_later_than_all_records_is_the_end_of_the_log() -> None:
    assert ranges(Logs(), endingTimestamp="9") == [
        OffsetRange(A, 5, 9),
        OffsetRange(B, 0, 7),
    ]


def test_records_that_a_named_end_lies_behind_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    behind = {"endingOffsets": at(30, 7)}
    with pytest.raises(DataLossError, match=r"t-0 is 30, and its log ends at 20.*\"false\"\."):
        ranges(Logs(), **behind)
    assert not caplog.records
    told = ranges(Logs(), failOnDataLoss="false", **behind)
    assert told == [OffsetRange(A, 5, 20), OffsetRange(B, 0, 7)]
    (warning,) = caplog.messages
    assert "t-0 is 30, and its log ends at 20" in warning
    assert warning.endswith('"failOnDataLoss" to "true".')


def sized(logs: Any, **texts: str) -> int:
    return log_bytes(logs, options(**texts))


def test_a_batch_is_as_large_as_its_part_of_each_log() -> None:
    assert sized(Logs()) == 1500 + 700
    assert sized(Logs(), **COMMITTED) == 1500 * 13 // 15 + 700
    part = {"startingOffsets": at(10, 7), "endingOffsets": at(20, 7)}
    assert sized(Logs(), **part) == 1000


def test_offsets_that_are_gone_have_no_bytes_any_more() -> None:
    assert sized(Logs(), startingOffsets=at(0, 7)) == 1500
    empty = Logs(starts={A: 20, B: 0})
    assert sized(empty, startingOffsets=at(10, 0)) == 700


def test_logs_whose_size_no_broker_tells_count_for_nothing() -> None:
    assert sized(Logs(sizes={B: 700})) == 700
