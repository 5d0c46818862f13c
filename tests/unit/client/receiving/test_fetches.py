from random import Random

import pytest

from quorate.client.errors import NoOffsetError
from quorate.client.receiving.fetches import (
    BUSY_WAIT_MS,
    Asked,
    Fetch,
    FetchSettings,
    offsets_request,
    plan_fetches,
    plan_searches,
    take_fetched,
    take_found,
)
from quorate.client.receiving.positions import OffsetReset
from quorate.client.receiving.streams import PartitionStream
from quorate.client.routing.cluster import Leader
from quorate.client.routing.retries import Backoff
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    PartitionData,
)
from tests.unit.broker.log.batches import make_batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BACKOFF = Backoff(100, 100)
RNG = Random(3)


def settings(reset: OffsetReset = OffsetReset.EARLIEST) -> FetchSettings:
    return FetchSettings(
        min_bytes=1,
        max_wait_ms=500,
        max_bytes=9_000,
        partition_max_bytes=1_000,
        committed_only=True,
        offset_reset=reset,
        backoff=BACKOFF,
    )


def stream(tp: TopicPartition, offset: int | None = 0) -> PartitionStream:
    made = PartitionStream(tp, -2, committed_only=False, check_crcs=True)
    if offset is not None:
        made.seek(offset)
    return made


def leader_is(broker_id: int) -> Leader:
    return Leader(broker_id, 4)


def plan(*streams: PartitionStream, now_ms: int = 0) -> dict[int, Fetch]:
    return plan_fetches(streams, settings(), lambda _: leader_is(1), now_ms)


def answered(code: ErrorCode, tp: TopicPartition = A0) -> FetchResponse:
    data = PartitionData(partition_index=tp.partition, error_code=code)
    return FetchResponse(responses=[FetchableTopicResponse(topic=tp.topic, partitions=[data])])


def fetch_of(*streams: PartitionStream) -> Fetch:
    (fetch,) = plan(*streams).values()
    return fetch


def test_a_request_asks_each_leader_for_its_partitions() -> None:
    leaders = {A0: leader_is(1), A1: leader_is(2), B0: leader_is(1)}
    streams = [stream(A0, 5), stream(A1, 6), stream(B0, 7)]
    fetches = plan_fetches(streams, settings(), leaders.get, 0)
    request = fetches[1].request
    assert [
        (t.topic, p.partition, p.fetch_offset) for t in request.topics for p in t.partitions
    ] == [
        ("a", 0, 5),
        ("b", 0, 7),
    ]
    assert request.topics[0].partitions[0].current_leader_epoch == 4
    assert request.topics[0].partitions[0].partition_max_bytes == 1_000
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 9_000)
    assert (request.isolation_level, request.replica_id) == (1, -1)
    assert fetches[2].asked[A1].offset == 6


def test_partitions_of_a_topic_share_its_name() -> None:
    request = fetch_of(stream(A0), stream(A1)).request
    assert [len(topic.partitions) for topic in request.topics] == [2]


def test_partitions_that_cannot_or_need_not_be_fetched_are_left_out() -> None:
    lost, paused, asking, waiting, full = (stream(A0), *(stream(A1) for _ in range(4)))
    lost.look_for(-1)
    paused.paused = True
    asking.asking = True
    waiting.retry_at_ms = 10
    full.buffered_bytes = 1_000
    assert plan(lost, paused, asking, waiting, full) == {}
    assert plan_fetches([stream(A0)], settings(), lambda _: None, 0) == {}
    assert len(plan(waiting, now_ms=10)) == 1


def test_a_broker_waits_less_for_data_while_another_partition_is_about_to_have_room() -> None:
    full = stream(A1)
    full.buffered_bytes = 1_000
    assert fetch_of(stream(A0), full).request.max_wait_ms == BUSY_WAIT_MS


@pytest.mark.parametrize(
    ("code", "stale"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.OFFSET_NOT_AVAILABLE, False)],
)
def test_after_an_error_that_may_pass_a_partition_pauses(code: ErrorCode, stale: bool) -> None:
    asked = stream(A0)
    fetch = fetch_of(asked)
    assert take_fetched(fetch, answered(code), settings(), 1_000, RNG) is stale
    assert 1_080 <= asked.retry_at_ms <= 1_120
    assert asked.failures == 1
    take_fetched(fetch, answered(ErrorCode.NONE), settings(), 1_200, RNG)
    assert asked.failures == 0


def test_an_error_that_will_not_pass_is_for_the_user() -> None:
    asked = stream(A0)
    refused = answered(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not take_fetched(fetch_of(asked), refused, settings(), 0, RNG)
    with pytest.raises(KafkaError, match="cannot read a-0"):
        asked.take(1)


def test_partitions_that_an_answer_leaves_out_pause() -> None:
    asked = stream(A0)
    assert take_fetched(fetch_of(asked), FetchResponse(), settings(), 0, RNG)
    assert asked.retry_at_ms > 0


def test_partitions_that_nobody_asked_for_are_ignored() -> None:
    asked = stream(A0)
    take_fetched(fetch_of(asked), answered(ErrorCode.OFFSET_OUT_OF_RANGE, B0), settings(), 0, RNG)
    assert asked.fetch_offset == 0


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.LATEST])
def test_out_of_range_begins_anew_as_the_policy_says(reset: OffsetReset) -> None:
    asked = stream(A0, 77)
    gone = answered(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not take_fetched(fetch_of(asked), gone, settings(reset), 0, RNG)
    assert asked.position.asked_timestamp == reset.timestamp


def test_out_of_range_is_an_error_without_a_policy() -> None:
    asked = stream(A0, 77)
    gone = answered(ErrorCode.OFFSET_OUT_OF_RANGE)
    take_fetched(fetch_of(asked), gone, settings(OffsetReset.NONE), 0, RNG)
    with pytest.raises(NoOffsetError, match="a-0 has no offset 77"):
        asked.take(1)


DAMAGED = PartitionData(partition_index=0, high_watermark=9, records=bytes(100))


@pytest.mark.parametrize(
    "trouble",
    [
        PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        DAMAGED,
    ],
)
@pytest.mark.parametrize("reset", [OffsetReset.LATEST, OffsetReset.NONE])
def test_what_was_fetched_before_the_trouble_is_given_out_before_it(
    trouble: PartitionData, reset: OffsetReset
) -> None:
    asked = stream(A0)
    records = PartitionData(partition_index=0, high_watermark=9, records=bytes(make_batch([b"a"])))

    def answer(data: PartitionData) -> None:
        topic = FetchableTopicResponse(topic="a", partitions=[data])
        fetch = fetch_of(asked)
        take_fetched(fetch, FetchResponse(responses=[topic]), settings(reset), 0, RNG)

    answer(records)
    answer(trouble)
    assert asked.retry_at_ms > 0, "it is not asked for at once"
    assert [record.value for record in asked.take(9)] == [b"a"]
    assert asked.take(9) == []
    asked.retry_at_ms = 0
    answer(trouble)
    if trouble.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and reset is OffsetReset.LATEST:
        assert asked.position.asked_timestamp == reset.timestamp
        return
    with pytest.raises(KafkaError):
        asked.take(9)


def test_a_leader_that_leads_no_more_is_looked_for_also_while_there_are_records_to_give_out() -> (
    None
):
    asked = stream(A0)
    data = PartitionData(partition_index=0, high_watermark=9, records=bytes(make_batch([b"a"])))
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=[data])])
    take_fetched(fetch_of(asked), answer, settings(), 0, RNG)
    moved = answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert take_fetched(fetch_of(asked), moved, settings(), 0, RNG)
    assert [record.value for record in asked.take(9)] == [b"a"]


def test_an_answer_to_what_was_asked_before_a_seek_is_void() -> None:
    asked = stream(A0, 77)
    fetch = fetch_of(asked)
    asked.seek(5)
    take_fetched(fetch, answered(ErrorCode.OFFSET_OUT_OF_RANGE), settings(), 0, RNG)
    assert asked.fetch_offset == 5


def test_partitions_without_a_position_are_searched_for_at_their_leaders() -> None:
    lost, found, waiting = stream(A0, None), stream(A1, 4), stream(B0, None)
    waiting.retry_at_ms = 10
    searches = plan_searches([lost, found, waiting], lambda _: leader_is(3), 0)
    assert [asked.stream for asked in searches[3]] == [lost]
    lost.asking = True
    assert plan_searches([lost], lambda _: leader_is(3), 0) == {}
    assert plan_searches([waiting], lambda _: None, 10) == {}


def test_one_request_asks_for_offsets_of_many_partitions() -> None:
    request = offsets_request([(A0, -1), (A1, 5), (B0, -2)], committed_only=True, timeout_ms=9)
    asked = [(t.name, p.partition_index, p.timestamp) for t in request.topics for p in t.partitions]
    assert asked == [("a", 0, -1), ("a", 1, 5), ("b", 0, -2)]
    assert (request.isolation_level, request.timeout_ms) == (1, 9)


def search(lost: PartitionStream) -> Asked:
    return Asked(lost, lost.position.generation, -2)


def test_what_a_search_finds_is_where_reading_begins() -> None:
    lost = stream(A0, None)
    answer = ListOffsetsPartitionResponse(partition_index=0, offset=33)
    assert not take_found(search(lost), answer, BACKOFF, 0, RNG)
    assert lost.fetch_offset == 33


def test_a_search_is_repeated_after_errors_that_may_pass() -> None:
    lost = stream(A0, None)
    assert take_found(search(lost), None, BACKOFF, 0, RNG)
    moved = ListOffsetsPartitionResponse(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    assert take_found(search(lost), moved, BACKOFF, 0, RNG)
    assert lost.failures == 2
    assert lost.position.asked_timestamp == -2


def test_a_search_that_is_refused_is_for_the_user() -> None:
    lost = stream(A0, None)
    refused = ListOffsetsPartitionResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not take_found(search(lost), refused, BACKOFF, 0, RNG)
    with pytest.raises(KafkaError, match="no offset to begin a-0 with"):
        lost.take(1)


def test_a_search_from_before_a_seek_is_void() -> None:
    lost = stream(A0, None)
    asked = search(lost)
    lost.seek(9)
    assert not take_found(asked, None, BACKOFF, 0, RNG)
    assert lost.fetch_offset == 9
    assert lost.failures == 0
