"""Leaders that may not have what was read from the one before (KIP-320)."""

from random import Random

import pytest

from quorate.client.errors import LogTruncationError
from quorate.client.receiving.fetches import FetchSettings, plan_fetches
from quorate.client.receiving.positions import EARLIEST_TIMESTAMP, OffsetReset
from quorate.client.receiving.streams import PartitionStream
from quorate.client.receiving.truncation import (
    Check,
    checks_request,
    plan_checks,
    take_checked,
)
from quorate.client.routing.cluster import Leader
from quorate.client.routing.retries import Backoff
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.protocol.messages.data import OffsetForLeaderEpochEndOffset

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RNG = Random(1)


def settings(reset: OffsetReset = OffsetReset.EARLIEST) -> FetchSettings:
    return FetchSettings(
        min_bytes=1,
        max_wait_ms=500,
        max_bytes=1_000,
        partition_max_bytes=1_000,
        committed_only=False,
        offset_reset=reset,
        backoff=Backoff(100, 1_000),
    )


def at(offset: int, epoch: int, partition: TopicPartition = T0) -> PartitionStream:
    stream = PartitionStream(partition, None, committed_only=False, check_crcs=True)
    stream.seek(offset, epoch)
    return stream


def leader(epoch: int) -> Leader:
    return Leader(1, epoch)


def check_of(stream: PartitionStream, leader_epoch: int = 5) -> Check:
    (check,) = plan_checks([stream], lambda _: leader(leader_epoch), 0)[1]
    return check


def end(epoch: int, offset: int, code: int = 0) -> OffsetForLeaderEpochEndOffset:
    return OffsetForLeaderEpochEndOffset(leader_epoch=epoch, end_offset=offset, error_code=code)


def test_a_new_leader_is_asked_once_before_it_is_read() -> None:
    stream = at(10, 3)
    assert plan_fetches([stream], settings(), lambda _: leader(5), 0) == {}
    check = check_of(stream)
    (topic,) = checks_request([check, check_of(at(7, 2, T1))]).topics
    assert [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in topic.partitions] == [
        (0, 5, 3),
        (1, 5, 2),
    ]
    assert not take_checked(check, end(3, 10), settings(), 0, RNG)
    assert plan_checks([stream], lambda _: leader(5), 0) == {}
    assert plan_fetches([stream], settings(), lambda _: leader(5), 0).keys() == {1}
    assert plan_checks([stream], lambda _: leader(6), 0).keys() == {1}


def test_what_was_read_in_the_first_epoch_of_all_is_asked_about_too() -> None:
    stream = at(10, 0)
    assert plan_fetches([stream], settings(), lambda _: leader(1), 0) == {}
    check = check_of(stream, leader_epoch=1)
    assert not take_checked(check, end(0, 7), settings(), 0, RNG)
    assert (stream.position.offset, stream.fetch_offset) == (7, 7)


def test_a_topic_that_was_made_again_is_asked_before_it_is_read() -> None:
    stream = at(10, 3)
    stream.agreed_epoch = 5
    assert plan_fetches([stream], settings(), lambda _: leader(0), 0) == {}
    check = check_of(stream, leader_epoch=0)
    assert not take_checked(check, end(-1, -1), settings(), 0, RNG)
    assert stream.position.asked_timestamp == EARLIEST_TIMESTAMP


def test_who_knows_no_epoch_has_nothing_to_ask() -> None:
    paused, asking = at(1, 3), at(1, 3)
    paused.retry_at_ms, asking.asking = 100, True
    searching = PartitionStream(T0, EARLIEST_TIMESTAMP, committed_only=False, check_crcs=True)
    streams = [at(10, -1), paused, asking, searching]
    assert plan_checks(streams, lambda _: leader(5), 50) == {}
    assert plan_checks([at(10, 3)], lambda _: None, 0) == {}


@pytest.mark.parametrize("reset", list(OffsetReset))
def test_a_position_behind_what_is_gone_goes_back_to_where_the_logs_part(
    reset: OffsetReset,
) -> None:
    stream = at(10, 3)
    take_checked(check_of(stream), end(2, 8), settings(reset), 0, RNG)
    if reset is OffsetReset.NONE:
        assert isinstance(stream.error, LogTruncationError)
        assert (stream.error.offset, stream.error.diverging_offset) == (10, 8)
        assert "is gone from offset 8 on" in str(stream.error)
    else:
        assert (stream.position.offset, stream.position.epoch) == (8, 2)


@pytest.mark.parametrize("told", [end(-1, 8), end(3, -1)])
def test_if_nobody_knows_where_the_logs_part_the_policy_decides(
    told: OffsetForLeaderEpochEndOffset,
) -> None:
    stream = at(10, 3)
    take_checked(check_of(stream), told, settings(), 0, RNG)
    assert stream.position.asked_timestamp == EARLIEST_TIMESTAMP
    stream = at(10, 3)
    take_checked(check_of(stream), told, settings(OffsetReset.NONE), 0, RNG)
    assert isinstance(stream.error, LogTruncationError)
    assert stream.error.diverging_offset is None


def test_if_only_what_was_fetched_ahead_is_gone_it_is_fetched_anew() -> None:
    stream = at(10, 3)
    stream.fetch_offset, stream.fetch_epoch = 20, 4
    take_checked(check_of(stream), end(3, 15), settings(OffsetReset.NONE), 0, RNG)
    assert stream.error is None
    assert (stream.fetch_offset, stream.fetch_epoch) == (10, 3)


def test_an_answer_that_comes_after_a_seek_is_void() -> None:
    stream = at(10, 3)
    check = check_of(stream)
    stream.seek(4)
    take_checked(check, end(2, 8), settings(), 0, RNG)
    assert stream.position.offset == 4


def test_a_leader_that_cannot_answer_is_asked_again_or_given_up() -> None:
    stream = at(10, 3)
    assert take_checked(check_of(stream), None, settings(), 0, RNG)
    assert stream.retry_at_ms > 0
    stream = at(10, 3)
    fenced = end(-1, -1, ErrorCode.FENCED_LEADER_EPOCH)
    assert take_checked(check_of(stream), fenced, settings(), 0, RNG)
    refused = end(-1, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    stream = at(10, 3)
    assert not take_checked(check_of(stream), refused, settings(), 0, RNG)
    assert isinstance(stream.error, KafkaError)
    assert "cannot compare t-0" in str(stream.error)
