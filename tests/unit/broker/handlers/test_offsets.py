"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: the ends of a log, its times, its epochs."""

import pytest

from quorate.broker.handlers.offsets import delete_records, list_offsets, offset_for_leader_epoch
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from quorate.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.simulation.disk import SimFile
from tests.unit.broker.harness import NOW_MS, Node, codes, new_node, now, over
from tests.unit.broker.log.batches import make_batch

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
CALLER = over(11)


def new_topic(**configs: str) -> Node:
    node = new_node()
    node.create_topic("appLogs", configs=configs)
    return node


def append_at(node: Node, *timestamps_ms: int) -> None:
    batch = make_batch([b"v"] * len(timestamps_ms), timestamps_ms=timestamps_ms)
    node.leader().append(batch, acks=1, now_ms=NOW_MS)


def look(
    node: Node, timestamp: int, epoch: int = -1, topic: str = "appLogs", *, version: int = 11
) -> tuple[int, ...]:
    """Return error, timestamp, offset and leader epoch."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    (found,) = now(list_offsets(node.broker, request, over(version))).topics[0].partitions
    assert isinstance(found, ListOffsetsPartitionResponse)
    return (found.error_code, found.timestamp, found.offset, found.leader_epoch)


def test_the_ends_of_a_log_have_times_of_their_own() -> None:
    node = new_topic()
    append_at(node, NOW_MS, NOW_MS)
    node.lead("appLogs", 0, leader_epoch=4)
    append_at(node, NOW_MS)
    node.leader().log.delete_records_before(1)
    assert look(node, LATEST) == (0, -1, 3, 4)
    assert look(node, EARLIEST) == (0, -1, 1, 0)
    assert look(node, EARLIEST_LOCAL) == (0, -1, 1, 0)
    assert look(node, LATEST_TIERED) == (0, -1, -1, -1)
    assert look(node, EARLIEST_PENDING) == (0, -1, -1, -1)


def test_an_empty_log_has_ends_and_no_times() -> None:
    node = new_topic()
    assert look(node, LATEST) == (0, -1, 0, 0)
    assert look(node, EARLIEST) == (0, -1, 0, -1)
    assert look(node, MAX_TIMESTAMP) == (0, -1, -1, -1)
    assert look(node, NOW_MS) == (0, -1, -1, -1)


def test_a_time_stands_for_the_first_record_that_is_not_older() -> None:
    node = new_topic()
    append_at(node, NOW_MS, NOW_MS + 20)
    append_at(node, NOW_MS + 10, NOW_MS + 30)
    assert look(node, 0) == (0, NOW_MS, 0, 0)
    assert look(node, NOW_MS + 5) == (0, NOW_MS + 20, 1, 0)
    assert look(node, NOW_MS + 25) == (0, NOW_MS + 30, 3, 0)
    assert look(node, NOW_MS + 31) == (0, -1, -1, -1)
    assert look(node, MAX_TIMESTAMP) == (0, NOW_MS + 30, 3, 0)


def test_records_that_are_not_committed_are_not_found() -> None:
    node = new_topic(flush_messages="1")
    append_at(node, NOW_MS)
    assert look(node, LATEST)[2] == 0
    assert look(node, 0)[2] == -1
    assert look(node, MAX_TIMESTAMP)[2] == -1
    node.sync()
    assert [look(node, time)[2] for time in (LATEST, 0, MAX_TIMESTAMP)] == [1, 0, 0]


def test_what_cannot_be_looked_up_is_told() -> None:
    node = new_topic()
    assert look(node, LATEST, topic="nowhere")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look(node, LATEST, epoch=1)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_disk_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_topic()
    append_at(node, NOW_MS)

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(SimFile, "read_at", broken)
    assert look(node, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR


# --- epochs


def epoch_end(node: Node, epoch: int, current: int = -1) -> OffsetForLeaderEpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    topics = [OffsetForLeaderTopic(topic="appLogs", partitions=[asked])]
    request = OffsetForLeaderEpochRequest(topics=topics)
    return offset_for_leader_epoch(node.broker, request, over(4)).topics[0].partitions[0]


def test_an_epoch_ends_where_the_next_begins_and_the_last_at_the_logs_end() -> None:
    node = new_topic()
    append_at(node, NOW_MS)
    node.lead("appLogs", 0, leader_epoch=5)
    append_at(node, NOW_MS)
    append_at(node, NOW_MS)
    ends = [epoch_end(node, epoch) for epoch in (0, 3, 5, 6)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [
        (0, 1),
        (0, 1),
        (5, 3),
        (-1, -1),
    ]
    assert codes([epoch_end(node, 0, current=4)]) == [ErrorCode.FENCED_LEADER_EPOCH]


# --- deleting


def delete(node: Node, offset: int, topic: str = "appLogs") -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])])
    response = delete_records(node.broker, request, over(2))
    assert isinstance(response, DeleteRecordsResponse), "one replica waits for nobody"
    return response.topics[0].partitions[0]


def test_records_before_an_offset_are_deleted_and_never_come_back() -> None:
    node = new_topic()
    for _ in range(5):
        append_at(node, NOW_MS)
    assert delete(node, 2) == DeleteRecordsPartitionResult(low_watermark=2)
    assert delete(node, 1) == DeleteRecordsPartitionResult(low_watermark=2)
    assert delete(node, -1) == DeleteRecordsPartitionResult(low_watermark=5)
    assert look(node, EARLIEST)[2] == 5


@pytest.mark.parametrize("offset", [2, -2])
def test_nothing_is_deleted_that_is_not_committed(offset: int) -> None:
    node = new_topic()
    append_at(node, NOW_MS)
    refused = delete(node, offset)
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert look(node, EARLIEST)[2] == 0


@pytest.mark.parametrize("policy", ["compact", "compact,delete", ""])
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(policy: str) -> None:
    node = new_node()
    node.create_topic("appLogs", cleanup_policy=policy)
    expected = ErrorCode.POLICY_VIOLATION if policy == "compact" else ErrorCode.NONE
    assert codes([delete(node, 0)]) == [expected]


def test_deleting_where_nobody_leads_is_refused() -> None:
    assert codes([delete(new_topic(), 0, "nowhere")]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_partition_is_asked_for_once() -> None:
    node = new_topic()
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    other = ListOffsetsPartition(partition_index=1, timestamp=LATEST)
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name="appLogs", partitions=[asked, asked, other])]
    )
    answers = now(list_offsets(node.broker, request, CALLER)).topics[0].partitions
    assert codes(answers) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(-7, 11), (EARLIEST_PENDING, 10), (LATEST_TIERED, 8), (-4, 7), (-3, 6)],
)
def test_a_negative_time_means_what_the_version_knows_or_nothing(
    timestamp: int, version: int
) -> None:
    node = new_topic()
    append_at(node, NOW_MS)
    assert look(node, timestamp, version=version)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [LATEST, NOW_MS + 1])
def test_old_versions_hear_in_their_own_words_that_the_end_is_not_known(timestamp: int) -> None:
    node = new_topic(flush_messages="1")
    append_at(node, NOW_MS)
    node.lead("appLogs", 0, leader_epoch=4)
    assert look(node, timestamp)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert look(node, timestamp, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE


def test_records_of_internal_topics_are_not_deleted_whatever_their_policy() -> None:
    node = new_node()
    node.create_topic("__consumer_offsets", cleanup_policy="compact,delete")
    refused = delete(node, 0, "__consumer_offsets")
    assert codes([refused]) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
