"""DescribeLogDirs: what a broker has on its disk of the partitions that it leads or follows."""

from quorate.broker.handlers.log_dirs import describe_log_dirs
from quorate.errors import ErrorCode
from quorate.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
)
from tests.unit.broker.harness import Node, new_node, over
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


def test_a_directory_tells_what_space_there_is() -> None:
    node = new_node()
    node.join()
    node.create_topic("appLogs")
    node.disk.capacity_bytes = 10_000
    node.append(b"a")
    (result,) = describe_log_dirs(node.broker, DescribeLogDirsRequest(topics=[]), CALLER).results
    assert result.total_bytes == 10_000
    assert result.usable_bytes == 10_000 - node.disk.used_bytes() < 10_000


def test_a_directory_that_cannot_be_looked_at_is_an_error_of_its_own() -> None:
    node = new_node()
    node.disk.rename("/data", "/elsewhere")
    (result,) = describe_log_dirs(node.broker, DescribeLogDirsRequest(topics=None), CALLER).results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (result.log_dir, result.topics, result.usable_bytes) == ("/data", [], -1)


def test_each_replica_tells_how_far_it_is() -> None:
    node = new_node()
    node.join()
    node.join(2)
    node.create_topic("appLogs")
    node.create_topic("followed", leader_id=2, replicas=(1, 2))
    node.append(b"a", b"b")
    request = DescribeLogDirsRequest(topics=None, include_own_fields=True)
    (result,) = describe_log_dirs(node.broker, request, CALLER).results
    told = {topic.name: topic.partitions[0] for topic in result.topics}
    led, followed = told["appLogs"], told["followed"]
    assert (led.log_start_offset, led.high_watermark, led.log_end_offset) == (0, 2, 2)
    assert (led.offset_lag, led.is_future_key) == (0, False)
    assert (followed.high_watermark, followed.log_end_offset, followed.offset_lag) == (0, 0, 0)


def test_who_does_not_ask_for_it_is_told_nothing_that_kafka_does_not_tell() -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    (result,) = describe_log_dirs(node.broker, DescribeLogDirsRequest(topics=None), CALLER).results
    (told,) = result.topics[0].partitions
    kafkas = DescribeLogDirsPartition(partition_index=0, partition_size=told.partition_size)
    assert told == kafkas
