"""Disks, producers and reassignments, as tools ask for them."""

from quorate.broker.handlers.cluster import (
    describe_log_dirs,
    describe_producers,
    list_partition_reassignments,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from quorate.protocol.messages.placement import ListPartitionReassignmentsRequest
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, Node, codes, new_node, over
from tests.unit.broker.log.batches import make_batch

CALLER = over()


def sizes(node: Node, topics: list[DescribableLogDirTopic] | None) -> dict[tuple[str, int], int]:
    request = DescribeLogDirsRequest(topics=topics)
    (result,) = describe_log_dirs(node.broker, request, CALLER).results
    assert result.log_dir == "/data"
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


def test_each_partition_has_a_size_on_disk() -> None:
    node = new_node()
    node.create_topic("appLogs", 2)
    node.create_topic("dbLogs")
    node.append(b"a", partition=1)
    all_sizes = sizes(node, None)
    assert all_sizes[("appLogs", 0)] == all_sizes[("dbLogs", 0)] == 0
    assert all_sizes[("appLogs", 1)] == len(make_batch([b"a"]))
    asked = [
        DescribableLogDirTopic(topic="appLogs", partitions=[1, 7]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    assert list(sizes(node, asked)) == [("appLogs", 1)]
    assert sizes(node, []) == {}


def producers(node: Node, topic: str) -> DescribeProducersPartitionResponse:
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[0])
    response = describe_producers(node.broker, DescribeProducersRequest(topics=[asked]), CALLER)
    assert response.topics[0].name == topic
    return response.topics[0].partitions[0]


def test_idempotent_producers_are_described_with_what_they_wrote_last() -> None:
    node = new_node()
    node.create_topic("appLogs")
    assert producers(node, "appLogs").active_producers == []
    batch = make_batch([b"a", b"b"], producer=ProducerStamp(7, 2, 0))
    node.leader().append(batch, acks=1, now_ms=NOW_MS)
    (producer,) = producers(node, "appLogs").active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (NOW_MS, -1)


def test_producers_of_a_partition_that_is_not_here_are_not_known() -> None:
    refused = producers(new_node(), "nowhere")
    assert codes([refused]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert refused.error_message


def test_nothing_is_being_reassigned() -> None:
    request = ListPartitionReassignmentsRequest()
    assert list_partition_reassignments(new_node().broker, request, CALLER).topics == []
