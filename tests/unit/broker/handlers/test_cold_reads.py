"""Nobody on the event loop waits for the disk to find out where a reader's records are."""

from collections.abc import Mapping
from typing import Any

from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.offsets import SEARCHES_MAX, list_offsets
from quorate.broker.log.active import RECENT_BATCHES_MAX
from quorate.broker.replication.host import here_and_now
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ReplicaState,
)
from quorate.quorum.metadata import records as r
from tests.simulation.cold_disk import ColdDisk
from tests.unit.broker.harness import NOW_MS, Node, codes, new_node, now, over, stored, waits
from tests.unit.broker.log.batches import headers_of, make_batch
from tests.unit.broker.log.transacting import Writer

TOPIC = "appLogs"
PARKED_MS = 1000
NEWEST_TIME = -3


class Scene:
    """A node on a cold disk, with ten closed segments in each partition, written one per second."""

    def __init__(self, configs: Mapping[str, str] | None = None, *, partitions: int = 1) -> None:
        self.disk = ColdDisk()
        self.node: Node = new_node(disk=self.disk)
        self.node.broker.aside = self.disk.aside
        small = {"segment.bytes": "1024", "file.delete.delay.ms": "0"}
        self.node.create_topic(TOPIC, partitions, configs={**small, **(configs or {})})
        for partition in range(partitions):
            for number in range(11):
                self.append(b"v" * 900, partition, number)
        self.disk.chill()
        self.disk.waits = 0

    def append(self, value: bytes, partition: int = 0, second: int = 0) -> None:
        batch = make_batch([value], timestamps_ms=[NOW_MS + 1000 * second])
        self.node.leader(TOPIC, partition).append(batch, acks=1, now_ms=NOW_MS)

    def fetch(self, *offsets: int, min_bytes: int = 1) -> Any:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
            for index, offset in enumerate(offsets)
        ]
        topics = [FetchTopic(topic=TOPIC, partitions=partitions)]
        request = FetchRequest(max_wait_ms=PARKED_MS, min_bytes=min_bytes, topics=topics)
        return fetch(self.node.broker, request, over(12))

    def find(self, *timestamps: int) -> Any:
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index, timestamp in enumerate(timestamps)
        ]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=partitions)])
        return list_offsets(self.node.broker, request, over())


def fetched(answer: Any) -> list[list[int]]:
    """Return the base offsets of each partition's batches."""
    return [
        [header.base_offset for header in headers_of(stored(partition.records))]
        for topic in now(answer).responses
        for partition in topic.partitions
    ]


def found(answer: Any) -> list[int]:
    return [partition.offset for topic in now(answer).topics for partition in topic.partitions]


def test_cold_records_are_found_in_a_thread_and_warm_ones_at_once() -> None:
    scene = Scene()

    cold = scene.fetch(3)
    assert waits(cold)
    scene.disk.work()

    assert fetched(cold) == [[3]]
    assert fetched(scene.fetch(3)) == [[3]]
    assert scene.disk.at_work == []
    assert scene.disk.waits == 0


def test_a_file_that_is_not_open_is_opened_in_a_thread() -> None:
    scene = Scene()
    scene.fetch(3)
    scene.disk.work()
    files = scene.node.replicas.store._context.files  # pyright: ignore[reportPrivateUsage]
    files.forget_directory(scene.node.leader().log.directory)
    scene.disk.chill()

    cold = scene.fetch(3)
    assert waits(cold)
    scene.disk.work()

    assert scene.disk.waits == 0
    assert fetched(cold) == [[3]]


def aborted_scene() -> tuple[Scene, FetchRequest]:
    """Return aborted transactions that are not in memory, and a request for some of them."""
    scene = Scene()
    leader = scene.node.leader()
    for second in range(4):
        writer = Writer(second)
        writer.write(leader.log, 3)
        writer.end(leader.log, committed=False)
        leader.advance()
        scene.append(b"v" * 900)
    files = scene.node.replicas.store._context.files  # pyright: ignore[reportPrivateUsage]
    files.forget_directory(leader.log.directory)
    scene.disk.chill()
    scene.disk.waits = 0

    partition = FetchPartition(partition=0, fetch_offset=11, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    return scene, FetchRequest(max_wait_ms=0, isolation_level=1, topics=topics)


def test_what_was_aborted_is_found_in_a_thread_too() -> None:
    scene, request = aborted_scene()
    cold = fetch(scene.node.broker, request, over(12))
    assert waits(cold)
    scene.disk.work()  # the records
    assert waits(cold)
    scene.disk.work()  # what was aborted among them

    assert scene.disk.waits == 0
    assert not waits(fetch(scene.node.broker, request, over(12))), "now it is known"
    answer = now(cold).responses[0].partitions[0]
    told = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
    assert told[0] == (0, 11)


def test_the_newest_records_are_found_without_the_disk() -> None:
    scene = Scene()

    assert fetched(scene.fetch(10)) == [[10]]


def test_records_of_the_active_segment_that_are_not_new_any_more_are_found_in_a_thread() -> None:
    scene = Scene({"segment.bytes": "1000000", "index.interval.bytes": "100"})
    for _ in range(2 * RECENT_BATCHES_MAX):
        scene.append(b"w")
    scene.disk.chill()

    cold = scene.fetch(200)
    assert waits(cold)
    scene.append(b"later")
    scene.disk.waits = 0
    scene.disk.work()

    assert scene.disk.waits == 0
    assert fetched(cold)[0][0] == 200


def test_several_cold_partitions_are_looked_into_at_once() -> None:
    scene = Scene(partitions=3)

    cold = scene.fetch(1, 10, 3)
    scene.disk.work()

    assert scene.disk.waits == 0
    assert fetched(cold) == [[1], [10], [3]]
    assert scene.disk.at_work == []


def test_a_cold_fetch_that_asks_for_more_than_there_is_is_parked_afterwards() -> None:
    scene = Scene({"flush.messages": "1"})
    scene.node.sync()
    scene.append(b"v" * 900)  # closes the segment of what is committed
    scene.disk.chill()

    cold = scene.fetch(10, min_bytes=5000)
    assert scene.disk.at_work
    scene.disk.work()
    assert waits(cold)
    scene.node.wait(PARKED_MS)

    assert fetched(cold) == [[10]]


def test_a_fetch_that_nobody_waits_for_any_more_is_not_answered() -> None:
    scene = Scene()
    cold = scene.fetch(3)

    cold.abandon()
    scene.disk.work()

    assert not cold.resolved


def test_what_was_deleted_while_a_thread_looked_for_it_is_out_of_range() -> None:
    scene = Scene()
    cold = scene.fetch(3)

    scene.node.leader().log.delete_records_before(5)
    scene.node.replicas.store.remove_paths(scene.node.replicas.store.empty_trash(NOW_MS))
    scene.disk.work()

    (topic,) = now(cold).responses
    assert codes(topic.partitions) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_what_was_deleted_while_a_thread_looked_for_what_was_aborted_in_it_is_out_of_range() -> (
    None
):
    scene, request = aborted_scene()
    cold = fetch(scene.node.broker, request, over(12))
    scene.disk.work()  # the records

    scene.node.leader().log.delete_records_before(19)
    scene.node.replicas.store.remove_paths(scene.node.replicas.store.empty_trash(NOW_MS))
    scene.disk.work()

    (topic,) = now(cold).responses
    assert codes(topic.partitions) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_times_are_searched_for_in_a_thread() -> None:
    scene = Scene(partitions=3)

    answer = scene.find(NOW_MS + 4000, NEWEST_TIME, NOW_MS + 99_000)
    assert waits(answer)
    assert scene.disk.waits == 0
    scene.append(b"newer than the search", 1, second=50)
    scene.disk.waits = 0
    scene.disk.work()

    assert found(answer) == [4, 10, -1]
    assert scene.disk.waits == 0


def test_a_search_by_time_begins_again_when_segments_are_deleted_meanwhile() -> None:
    scene = Scene(partitions=2)
    answer = scene.find(NOW_MS, NOW_MS + 8000)

    scene.node.leader().log.delete_records_before(5)
    scene.disk.work()
    scene.disk.work()

    assert found(answer) == [5, 8]


def test_a_search_by_time_does_not_begin_again_for_ever() -> None:
    scene = Scene()
    answer = scene.find(NOW_MS)

    for number in range(SEARCHES_MAX):
        scene.node.leader().log.delete_records_before(number + 1)
        scene.disk.work()

    (topic,) = now(answer).topics
    assert codes(topic.partitions) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_search_by_time_has_no_answer_from_a_broker_that_leads_no_longer() -> None:
    scene = Scene()
    answer = scene.find(NOW_MS)

    scene.node.lead(TOPIC, 0, leader_epoch=1, leader_id=-1)
    scene.disk.work()

    (topic,) = now(answer).topics
    assert codes(topic.partitions) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_search_by_time_ends_when_nobody_waits_for_it_any_more() -> None:
    scene = Scene(partitions=2)
    answer = scene.find(NOW_MS, NOW_MS + 4000)
    scene.node.leader().log.delete_records_before(1)  # the first search would begin again

    answer.abandon()
    read_before = set(scene.disk.warm)
    scene.disk.work()

    assert scene.disk.warm == read_before
    assert not scene.disk.at_work
    assert not answer.resolved


# --- followers


def follow(
    scene: Scene, *offsets: int, session: tuple[int, int] = (0, 0), wait_ms: int = 500
) -> Any:
    """Fetch as broker 2 does, which follows."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
        for index, offset in enumerate(offsets)
    ]
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=-1),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=TOPIC, partitions=partitions)] if offsets else [],
    )
    return fetch(scene.node.broker, request, over(12))


def followed(*, partitions: int = 1) -> Scene:
    """Return a scene in which broker 2 follows, too."""
    scene = Scene(partitions=partitions)
    topic = scene.node.replicas.image.topics[TOPIC]
    scene.node.apply(
        r.FeatureLevelSet("test", 0, "metadata.version", 3),
        *(
            r.PartitionChanged("test", 0, topic.topic_id, index, 1, 0, (1,), replicas=(1, 2))
            for index in range(partitions)
        ),
    )
    scene.disk.chill()
    scene.disk.waits = 0
    return scene


def test_a_followers_cold_records_are_found_in_a_thread_too() -> None:
    scene = followed()
    cold = follow(scene, 3)
    assert waits(cold)
    scene.disk.work()
    scene.node.replicas.settle()
    assert fetched(cold) == [[3]]
    assert (scene.disk.waits, scene.disk.at_work) == (0, [])


def test_a_follower_gets_what_is_warm_while_the_rest_is_loaded() -> None:
    scene = followed(partitions=2)
    answer = follow(scene, 3, 10)
    assert scene.disk.waits == 0
    assert fetched(answer) == [[10]]
    scene.disk.waits = 0
    session = now(answer).session_id
    waiting = follow(scene, session=(session, 1))
    assert waits(waiting)
    assert len(scene.disk.at_work) == 1, "it is not loaded twice"
    scene.disk.work()
    scene.node.replicas.settle()
    assert fetched(waiting) == [[3]]
    assert scene.disk.waits == 0


def test_what_is_loaded_for_a_follower_that_does_not_wait_comes_with_its_next_fetch() -> None:
    scene = followed()
    session = now(follow(scene, 3, wait_ms=0)).session_id
    scene.disk.work()
    scene.disk.chill()  # a loop that always found it cold would never send it
    assert fetched(follow(scene, session=(session, 1))) == [[3]]


def test_without_a_thread_a_follower_gets_cold_records_at_once() -> None:
    scene = followed(partitions=2)
    scene.node.broker.aside = here_and_now
    answer = follow(scene, 3, 10)
    assert fetched(answer) == [[10]]
    assert fetched(follow(scene, session=(now(answer).session_id, 1))) == [[3]]
    assert fetched(follow(scene, 4)) == [[4]]
