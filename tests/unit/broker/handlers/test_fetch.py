"""Fetch gives committed batches, as many as asked for, and waits no longer than it must."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.handlers.fetch import WAIT_MAX_MS, fetch
from quorate.errors import ErrorCode, StorageError
from quorate.promise import Promise
from quorate.protocol.messages.data import (
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from quorate.quorum.metadata import records as r
from tests.simulation.disk import SimFile, out_of_descriptors
from tests.unit.broker.harness import Node, codes, new_node, now, over, stored, waits
from tests.unit.broker.log.batches import headers_of

NAMED, IDENTIFIED = over(12), over(13)
LONG_MS = 60_000


def request(
    *offsets: int, topic: str = "appLogs", min_bytes: int = 1, max_wait_ms: int = 0, **more: Any
) -> FetchRequest:
    """Ask for partitions 0, 1, ... of a topic from these offsets on."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in enumerate(offsets)
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
        **more,
    )


def partitions_of(answer: object) -> list[PartitionData]:
    response = now(answer)
    assert isinstance(response, FetchResponse)
    return [partition for topic in response.responses for partition in topic.partitions]


def base_offsets(partition: PartitionData) -> list[int]:
    return [header.base_offset for header in headers_of(stored(partition.records))]


def new_topic(partitions: int = 1, **configs: str) -> Node:
    node = new_node()
    node.create_topic("appLogs", partitions, configs=configs)
    return node


def test_what_is_there_is_given_at_once() -> None:
    node = new_topic(2)
    node.append(b"a", b"b")
    node.append(b"c")
    first, second = partitions_of(fetch(node.broker, request(0, 0, max_wait_ms=LONG_MS), NAMED))
    assert base_offsets(first) == [0, 2]
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (3, 3, 0)
    assert (second.high_watermark, second.records) == (0, b"")


def test_a_partition_that_is_named_often_is_read_once_from_where_it_is_named_last() -> None:
    node = new_topic(2)
    node.append(b"a")
    node.append(b"b")
    often = request(0, 0)
    often.topics[0].partitions += request(0, 0).topics[0].partitions
    often.topics += request(1).topics
    answer = now(fetch(node.broker, often, NAMED))
    told = [(p.partition_index, p.records) for t in answer.responses for p in t.partitions]
    assert [index for index, _ in told] == [1, 0]
    assert base_offsets(answer.responses[1].partitions[0]) == [1]
    twice = request(0)
    twice.topics += request(1).topics
    (partition,) = partitions_of(fetch(node.broker, twice, NAMED))
    assert base_offsets(partition) == [1]


def test_an_offset_within_a_batch_gives_the_whole_batch() -> None:
    node = new_topic()
    node.append(b"a", b"b")
    node.append(b"c")
    (partition,) = partitions_of(fetch(node.broker, request(1), NAMED))
    assert base_offsets(partition) == [0, 2]


def test_topics_are_found_by_id_from_version_13_on() -> None:
    node = new_topic()
    node.append(b"a")
    asked = request(0, topic="")
    asked.topics[0].topic_id = node.leader().topic_id
    response = now(fetch(node.broker, asked, IDENTIFIED))
    assert base_offsets(response.responses[0].partitions[0]) == [0]
    assert response.responses[0].topic_id == node.leader().topic_id
    asked.topics[0].topic_id = b"?" * 16
    answers = partitions_of(fetch(node.broker, asked, IDENTIFIED))
    assert codes(answers) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_only_who_reads_committed_records_hears_of_aborted_transactions() -> None:
    node = new_topic()
    (partition,) = partitions_of(fetch(node.broker, request(0), NAMED))
    assert partition.aborted_transactions is None
    (partition,) = partitions_of(fetch(node.broker, request(0, isolation_level=1), NAMED))
    assert partition.aborted_transactions == []


# --- limits


def batch_bytes(node: Node) -> int:
    (partition,) = partitions_of(fetch(node.broker, request(0), NAMED))
    return headers_of(stored(partition.records))[0].size_bytes


def test_a_first_batch_larger_than_the_limits_is_given_all_the_same() -> None:
    node = new_topic(2)
    node.append(b"a" * 1000)
    node.append(b"b", partition=1)
    asked = request(0, 0, max_bytes=10)
    first, second = partitions_of(fetch(node.broker, asked, NAMED))
    assert base_offsets(first) == [0]
    assert second.records == b"", "it would be over the limit"
    asked.topics[0].partitions[0].fetch_offset = 1
    first, second = partitions_of(fetch(node.broker, asked, NAMED))
    assert (first.records, base_offsets(second)) == (b"", [0])


def test_a_partition_gives_no_more_than_its_own_limit() -> None:
    node = new_topic(2)
    for partition in (0, 0, 0, 1, 1):
        node.append(b"a", partition=partition)
    asked = request(0, 0)
    asked.topics[0].partitions[0].partition_max_bytes = 2 * batch_bytes(node)
    asked.topics[0].partitions[1].partition_max_bytes = 1
    first, second = partitions_of(fetch(node.broker, asked, NAMED))
    assert base_offsets(first) == [0, 1]
    assert base_offsets(second) == []


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(1, 2000))
def test_an_answer_is_within_its_limit_unless_it_is_one_batch(sizes: list[int], limit: int) -> None:
    node = new_topic(3)
    for number, size in enumerate(sizes):
        node.append(b"a" * size, partition=number % 3)
    answers = partitions_of(fetch(node.broker, request(0, 0, 0, max_bytes=limit), NAMED))
    batches = [header.size_bytes for a in answers for header in headers_of(stored(a.records))]
    assert batches
    assert sum(batches) <= limit or len(batches) == 1


def test_the_broker_has_a_limit_of_its_own() -> None:
    node = new_node({"fetch.max.bytes": "1024"})
    node.create_topic("appLogs")
    for _ in range(3):
        node.append(b"a" * 600)
    (partition,) = partitions_of(fetch(node.broker, request(0), NAMED))
    assert base_offsets(partition) == [0]


# --- errors


def test_offsets_that_are_not_in_the_log_are_refused_and_told_which_are() -> None:
    node = new_topic(2)
    for _ in range(3):
        node.append(b"a")
    node.leader().log.delete_records_before(2)
    asked = request(1, 0, max_wait_ms=LONG_MS)
    first, second = partitions_of(fetch(node.broker, asked, NAMED))
    assert codes([first, second]) == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE]
    assert (first.log_start_offset, first.high_watermark, first.last_stable_offset) == (2, 3, 3)
    (beyond,) = partitions_of(fetch(node.broker, request(4), NAMED))
    assert codes([beyond]) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_an_offset_is_checked_even_when_the_answer_is_full_already() -> None:
    node = new_topic(2)
    node.append(b"a" * 100)
    _, second = partitions_of(fetch(node.broker, request(0, 7, max_bytes=1), NAMED))
    assert codes([second]) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_partitions_that_are_not_led_here_are_refused_at_once() -> None:
    node = new_topic()
    node.create_topic("elsewhere", leader_id=2, replicas=(2,))
    for topic, code in (
        ("elsewhere", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        asked = request(0, topic=topic, max_wait_ms=LONG_MS)
        (answer,) = partitions_of(fetch(node.broker, asked, NAMED))
        assert codes([answer]) == [code]
        assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_request_made_for_another_leader_epoch_is_refused(epoch: int, code: ErrorCode) -> None:
    node = new_topic()
    node.lead("appLogs", 0, leader_epoch=3)
    asked = request(0)
    asked.topics[0].partitions[0].current_leader_epoch = epoch
    assert codes(partitions_of(fetch(node.broker, asked, NAMED))) == [code]


def test_who_read_on_in_an_epoch_that_has_ended_is_told_where_the_log_parts_from_it() -> None:
    node = new_topic()
    node.lead("appLogs", 0, leader_epoch=3)
    node.append(b"a", b"b")
    node.lead("appLogs", 0, leader_epoch=5)
    node.append(b"c")

    def read_on(offset: int, epoch: int) -> PartitionData:
        asked = request(offset, max_wait_ms=LONG_MS)
        asked.topics[0].partitions[0].last_fetched_epoch = epoch
        (partition,) = partitions_of(fetch(node.broker, asked, NAMED))
        return partition

    assert base_offsets(read_on(2, 3)) == [2]
    parted = read_on(3, 3)
    assert (parted.error_code, parted.records, parted.high_watermark) == (0, b"", 3)
    assert parted.diverging_epoch == FetchEpochEndOffset(epoch=3, end_offset=2)
    assert read_on(2, 4).diverging_epoch == FetchEpochEndOffset(epoch=3, end_offset=2)
    assert codes([read_on(2, 6)]) == [ErrorCode.OFFSET_OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.KAFKA_STORAGE_ERROR),
        (12, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_disk_that_cannot_be_read_fails_its_partition_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode
) -> None:
    node = new_topic(2, segment_bytes="1024")
    for _ in range(4):
        node.append(b"a" * 600)
    node.append(b"b", partition=1)

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read_at", out_of_descriptors)
        patch.setattr(node.disk, "open", out_of_descriptors)
        first, second = partitions_of(fetch(node.broker, request(0, 0), over(version)))
    assert codes([first, second]) == [code, ErrorCode.NONE]
    assert codes(partitions_of(fetch(node.broker, request(0), NAMED))) == [ErrorCode.NONE]


def test_a_session_of_whoever_served_before_is_not_gone_on_with() -> None:
    node = new_topic()
    for session_id in (0, 5):
        asked = request(0, session_id=session_id, session_epoch=3)
        response = now(fetch(node.broker, asked, NAMED))
        assert codes([response]) == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]
    for epoch in (0, -1):
        asked = request(0, session_id=5, session_epoch=epoch)
        response = now(fetch(node.broker, asked, NAMED))
        assert (response.error_code, response.session_id) == (0, 0)


# --- waiting


def test_a_fetch_waits_until_there_are_min_bytes() -> None:
    node = new_topic(2)
    node.append(b"a")
    asked = request(1, 0, min_bytes=2 * batch_bytes(node), max_wait_ms=LONG_MS)
    answer = fetch(node.broker, asked, NAMED)
    assert waits(answer)
    node.append(b"b", partition=1)
    assert waits(answer)
    node.append(b"c")
    first, second = partitions_of(answer)
    assert (base_offsets(first), base_offsets(second)) == ([1], [0])
    assert not len(node.broker.deadlines)


def test_a_fetch_never_waits_for_more_than_it_may_be_given() -> None:
    node = new_topic()
    node.append(b"a" * 100)
    asked = request(0, min_bytes=1 << 20, max_bytes=100, max_wait_ms=LONG_MS)
    assert base_offsets(partitions_of(fetch(node.broker, asked, NAMED))[0]) == [0]


def test_what_a_segment_has_left_is_given_at_once_if_the_log_goes_on_behind_it() -> None:
    node = new_topic(segment_bytes="1024")
    for _ in range(3):
        node.append(b"a" * 600)
    asked = request(0, min_bytes=100_000, max_wait_ms=LONG_MS)
    assert base_offsets(partitions_of(fetch(node.broker, asked, NAMED))[0]) == [0]
    asked.topics[0].partitions[0].fetch_offset = 2
    assert waits(fetch(node.broker, asked, NAMED)), "behind the last segment there is nothing"


@pytest.mark.parametrize(("min_bytes", "waits_on"), [(1000, False), (1001, True)])
def test_a_fetch_does_not_wait_for_what_does_not_fit(min_bytes: int, *, waits_on: bool) -> None:
    node = new_topic()
    for _ in range(2):
        node.append(b"a" * 600)
    asked = request(0, min_bytes=min_bytes, max_wait_ms=LONG_MS)
    asked.topics[0].partitions[0].partition_max_bytes = 1000
    answer = fetch(node.broker, asked, NAMED)
    assert waits(answer) is waits_on
    node.wait(LONG_MS)
    assert base_offsets(partitions_of(answer)[0]) == [0]


def test_a_partition_whose_next_batch_does_not_fit_is_not_waited_for_either() -> None:
    node = new_topic(2)
    node.append(b"a")
    node.append(b"b" * 2000, partition=1)
    asked = request(0, 0, min_bytes=1000, max_wait_ms=LONG_MS)
    asked.topics[0].partitions[1].partition_max_bytes = 1000
    first, second = partitions_of(fetch(node.broker, asked, NAMED))
    assert (base_offsets(first), second.records) == ([0], b"")


def test_how_much_there_is_may_be_unreadable_though_records_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = new_topic(flush_messages="1", segment_bytes="1024")
    node.append(b"a")
    node.sync()
    for _ in range(2):
        node.append(b"a" * 600)
    replica = node.leader()
    piece = replica.read(0, max_bytes=100_000, at_least_one=True)
    assert piece is not None

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read_at", out_of_descriptors)
        with pytest.raises(StorageError, match="cannot read the log"):
            replica.bytes_from(piece, 0, may_wait=True, stable=False)
    assert replica.bytes_from(piece, 0, may_wait=True, stable=False) == len(piece)


def test_a_fetch_that_waited_long_enough_gets_what_is_there() -> None:
    node = new_topic()
    node.append(b"a")
    answer = fetch(node.broker, request(0, min_bytes=1 << 20, max_wait_ms=500), NAMED)
    node.wait(499)
    assert waits(answer)
    node.wait(1)
    assert base_offsets(partitions_of(answer)[0]) == [0]
    assert not node.leader().read_waiters


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(0, LONG_MS), (1, 0), (1, -1)])
def test_who_does_not_want_to_wait_does_not(min_bytes: int, max_wait_ms: int) -> None:
    node = new_topic()
    asked = request(0, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
    assert partitions_of(fetch(node.broker, asked, NAMED))[0].records == b""


def test_a_fetch_of_nothing_does_not_wait() -> None:
    node = new_topic()
    asked = request(min_bytes=1, max_wait_ms=LONG_MS)
    assert partitions_of(fetch(node.broker, asked, NAMED)) == []


def test_nobody_is_remembered_for_ever() -> None:
    node = new_topic()
    answer = fetch(node.broker, request(0, max_wait_ms=2**31 - 1), NAMED)
    node.wait(WAIT_MAX_MS)
    assert not waits(answer)


def test_only_committed_records_are_seen_and_wake_who_waits() -> None:
    node = new_topic(flush_messages="1")
    answer = fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED)
    node.append(b"a")
    assert waits(answer)
    (unseen,) = partitions_of(fetch(node.broker, request(0), NAMED))
    assert (unseen.records, unseen.high_watermark) == (b"", 0)
    node.sync()
    assert base_offsets(partitions_of(answer)[0]) == [0]


def test_who_waits_is_answered_when_the_leader_changes() -> None:
    node = new_topic()
    told = request(0, max_wait_ms=LONG_MS)
    told.topics[0].partitions[0].current_leader_epoch = 0
    answers = [
        fetch(node.broker, told, NAMED),
        fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED),
        fetch(node.broker, request(0, max_wait_ms=LONG_MS), over(10)),
    ]
    node.lead("appLogs", 0, leader_epoch=1, leader_id=-1)
    assert [codes(partitions_of(answer)) for answer in answers] == [
        [ErrorCode.FENCED_LEADER_EPOCH],
        [ErrorCode.NONE],
        [ErrorCode.NOT_LEADER_OR_FOLLOWER],
    ]


def test_who_waits_when_the_same_broker_is_elected_again_asks_again_and_misses_nothing() -> None:
    node = new_topic()
    answer = fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED)
    node.lead("appLogs", 0, leader_epoch=1)
    assert codes(partitions_of(answer)) == [ErrorCode.NONE]
    again = fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED)
    node.append(b"a")
    assert base_offsets(partitions_of(again)[0]) == [0]


def test_who_waits_is_answered_when_the_topic_is_deleted() -> None:
    node = new_topic()
    answer = fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED)
    node.apply(r.TopicRemoved("test", 0, node.leader().topic_id))
    assert codes(partitions_of(answer)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fetch_whose_client_is_gone_is_forgotten() -> None:
    node = new_topic()
    answer = fetch(node.broker, request(0, max_wait_ms=LONG_MS), NAMED)
    assert isinstance(answer, Promise)
    answer.abandon()
    assert not node.leader().read_waiters
    assert not len(node.broker.deadlines)
    node.append(b"a")
    node.wait(LONG_MS)
    assert not answer.resolved
