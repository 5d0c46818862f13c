"""Fetches of followers and of readers: what is asked for, answered, waited for and asked again."""

import pytest

from quorate.broker.replication.fetching import FetchRules
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.data import (
    FetchRequest,
    ReplicaState,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, codes, stored, waits
from tests.unit.broker.log.batches import make_batch
from tests.unit.broker.replication.cluster import Cluster


def refusal(cluster: Cluster, request: FetchRequest) -> list[ErrorCode]:
    request.max_wait_ms = 0
    response = cluster.ask(request)
    return codes([p for topic in response.responses for p in topic.partitions])


# --- sessions -------------------------------------------------------------------------------------


def test_a_follower_waits_for_records_and_gets_them_when_they_are_appended() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    assert waits(answer)
    cluster.append(b"a")
    assert not waits(answer)
    assert [str(f.topic_partition) for f in cluster.take(2, answer)] == ["appLogs-0"]


def test_of_brokers_that_are_not_registered_one_session_is_kept() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    sessions = cluster.nodes[1].replicas.sessions
    for broker_id in range(100, 110):
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id), max_wait_ms=500, min_bytes=1
        )
        assert waits(cluster.ask(request))
    assert len(sessions) == 2
    cluster.append(b"a")
    cluster.fetch(2)
    assert cluster.follower(2).log.log_end_offset == 1, "the others' go on"


def test_a_wait_ends_in_time_and_tells_the_high_watermark() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.fetch(2, times=1)
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    cluster.wait(499)
    assert waits(answer)
    cluster.wait(1)
    assert cluster.take(2, answer) == []
    assert cluster.follower(2).high_watermark == 1


def test_what_is_committed_is_told_along_with_the_next_records_without_a_fetch_of_its_own() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    cluster.append(b"a")
    cluster.take(2, cluster.ask(cluster.fetcher(2).build()))
    answer = cluster.ask(cluster.fetcher(2).build())
    assert cluster.leader().high_watermark == 1
    assert waits(answer)
    cluster.append(b"b")
    assert not waits(answer)
    cluster.take(2, answer)
    assert cluster.follower(2).log.log_end_offset == 2
    assert cluster.follower(2).high_watermark == 1


def test_partitions_without_news_are_in_no_request_and_no_answer() -> None:
    cluster = Cluster((1, 2), partitions=3)
    cluster.fetch(2)
    cluster.append(b"a", partition=1)
    request = cluster.fetcher(2).build()
    assert not request.topics
    answer = cluster.ask(request)
    assert [p.partition_index for t in answer.responses for p in t.partitions] == [1]
    cluster.take(2, answer)
    request = cluster.fetcher(2).build()
    assert [p.partition for t in request.topics for p in t.partitions] == [1]


def test_what_does_not_fit_into_an_answer_comes_with_the_next() -> None:
    cluster = Cluster((1, 2), partitions=2)
    cluster.append(b"a" * 100, partition=0)
    cluster.append(b"b" * 100, partition=1)
    request = cluster.fetcher(2).build()
    request.max_bytes = 50
    cluster.take(2, cluster.ask(request))
    grown = [cluster.follower(2, p).log.log_end_offset for p in (0, 1)]
    assert grown == [1, 0]
    cluster.fetch(2)
    assert cluster.follower(2, 1).log.log_end_offset == 1


def test_batches_larger_than_a_follower_wants_at_once_go_one_after_the_other() -> None:
    cluster = Cluster(partitions=2)
    follower = cluster.nodes[2].replicas
    follower.fetchers[1]._rules = FetchRules(partition_bytes_max=1)  # pyright: ignore[reportPrivateUsage]
    for partition in range(2):
        cluster.append(b"large", partition=partition)
    cluster.fetch(2, times=2)
    ends = [cluster.follower(2, partition).log.log_end_offset for partition in range(2)]
    assert ends == [1, 1]


def test_a_second_request_ends_the_wait_of_the_first() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    first = cluster.ask(fetcher.build())
    assert (waits(first), fetcher.in_flight) == (True, 1)
    second = cluster.ask(fetcher.build())
    assert (waits(first), waits(second), fetcher.in_flight) == (False, True, 2)
    cluster.take(2, first)
    cluster.append(b"a")
    cluster.take(2, second)
    assert (cluster.follower(2).log.log_end_offset, fetcher.in_flight) == (1, 0)


def test_a_follower_that_is_gone_is_not_answered_and_one_that_is_back_begins_anew() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    answer = cluster.ask(fetcher.build())
    answer.abandon()
    cluster.append(b"a")
    cluster.wait(1_000)
    fetcher.disconnected()
    request = fetcher.build()
    assert (request.session_epoch, request.session_id) == (0, 0)
    cluster.take(2, cluster.ask(request))
    assert cluster.follower(2).log.log_end_offset == 1


def test_a_new_connection_ends_what_the_old_one_waited_for() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    old = cluster.ask(fetcher.build())
    fetcher.disconnected()
    new = cluster.ask(fetcher.build())
    assert not waits(old)
    cluster.append(b"a")
    cluster.take(2, new)


def test_sessions_that_are_not_known_or_out_of_step_begin_anew() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    request = fetcher.build()
    request.session_epoch += 1
    with pytest.raises(KafkaError) as out_of_step:
        cluster.take(2, cluster.ask(request))
    assert out_of_step.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    request.session_id += 1
    assert cluster.ask(request).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    fetcher.disconnected()
    cluster.fetch(2)


def test_followers_hear_at_once_that_the_leader_is_another_and_ask_no_more() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    image = cluster.nodes[1].replicas.image
    change = r.PartitionChanged("test", 0, cluster.topic_id, 0, 2, 1, (1, 2))
    node = cluster.nodes[1]
    node.replicas.apply(apply_records(image, image.version + 1, [change]), NOW_MS)
    node.replicas.settle()
    cluster.take(2, answer)
    assert cluster.fetcher(2).next_ms() == 20
    other = cluster.nodes[2]
    other.replicas.apply(apply_records(other.replicas.image, image.version + 1, [change]), NOW_MS)
    assert (len(cluster.fetcher(2)), cluster.fetcher(2).next_ms()) == (0, None)


def test_a_partition_that_is_followed_no_more_is_taken_out_of_the_session() -> None:
    cluster = Cluster((1, 2), partitions=2)
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    node = cluster.nodes[2]
    change = r.PartitionChanged("test", 0, cluster.topic_id, 1, -1, 1, (1, 2))
    image = node.replicas.image
    node.replicas.apply(apply_records(image, image.version + 1, [change]), NOW_MS)
    assert fetcher.next_ms() == 0
    request = fetcher.build()
    assert [f.partitions for f in request.forgotten_topics_data] == [[1]]
    request.max_wait_ms = 0
    cluster.take(2, cluster.ask(request))
    assert (len(cluster.leader(1, 0).parts), len(cluster.leader(1, 1).parts)) == (1, 0)
    fetcher.remove(cluster.follower(2, 0))
    fetcher.remove(cluster.follower(2, 0))
    request = fetcher.build()
    request.forgotten_topics_data[0].partitions.append(1)
    request.max_wait_ms = 0
    cluster.take(2, cluster.ask(request))
    assert (len(fetcher), cluster.leader(1, 0).parts) == (0, [])


def test_all_that_is_followed_no_more_is_named_together() -> None:
    cluster = Cluster((1, 2), partitions=2)
    cluster.fetch(2)
    fetcher = cluster.fetcher(2)
    for partition in range(2):
        fetcher.remove(cluster.follower(2, partition))
    assert [f.partitions for f in fetcher.build().forgotten_topics_data] == [[0, 1]]


def test_answers_about_what_is_followed_no_more_are_not_heeded() -> None:
    cluster = Cluster((1, 2), partitions=2)
    cluster.fetch(2)
    request = cluster.fetcher(2).build()
    request.max_wait_ms = 0
    for partition in range(2):
        cluster.append(b"a", partition=partition)
    answer = cluster.ask(request)
    cluster.fetcher(2).remove(cluster.follower(2, 0))
    assert cluster.take(2, answer) == [cluster.follower(2, 1)]
    assert cluster.follower(2, 0).log.log_end_offset == 0


def test_answers_to_what_was_asked_before_a_change_are_not_heeded() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    fetcher, follower = cluster.fetcher(2), cluster.follower(2)
    answer = cluster.ask(fetcher.build())
    cluster.append(b"a")
    fetcher.remove(follower)
    fetcher.add(follower)
    assert cluster.take(2, answer) == []
    assert follower.log.log_end_offset == 0
    cluster.fetch(2)
    assert follower.log.log_end_offset == 1


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_was_told_while_a_position_was_on_its_way_is_told_again(*, is_deleted: bool) -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.replicate()
    cluster.append(b"b")
    cluster.fetch(2)
    fetcher, leader, follower = cluster.fetcher(2), cluster.leader(), cluster.follower(2)
    cluster.fetch(2)
    first = cluster.ask(fetcher.build())
    cluster.register(2)
    again = fetcher.build()  # in the new registration
    cluster.fetch(3, times=2)
    if is_deleted:
        leader.delete_records_before(1)
        cluster.nodes[1].replicas.settle()
    second = cluster.ask(again)
    cluster.take(2, first)
    assert follower.high_watermark < leader.high_watermark == 2
    cluster.wait(500)
    cluster.take(2, second)
    assert follower.high_watermark == 2
    assert follower.log.log_start_offset == leader.log.log_start_offset == int(is_deleted)


def test_a_damaged_batch_is_not_taken_and_asked_for_again() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    request = cluster.fetcher(2).build()
    answer = cluster.ask(request)
    data = answer.responses[0].partitions[0]
    damaged = bytearray(stored(data.records))
    damaged[-1] ^= 1
    data.records = memoryview(damaged)
    assert cluster.take(2, answer) == []
    assert cluster.follower(2).log.log_end_offset == 0
    cluster.wait(20)
    cluster.fetch(2)
    assert cluster.follower(2).log.log_end_offset == 1


def test_errors_are_tried_again_later_each_time() -> None:
    cluster = Cluster((1, 2))
    fetcher = cluster.fetcher(2)
    node = cluster.nodes[2]
    change = r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 1, (1, 2))
    image = node.replicas.image
    node.replicas.apply(apply_records(image, image.version + 1, [change]), NOW_MS)
    pauses: list[int] = []
    for _ in range(8):
        cluster.fetch(2)
        host = cluster.nodes[2].replicas.host
        next_ms = fetcher.next_ms()
        assert next_ms is not None
        pauses.append(next_ms - host.now_ms)
        cluster.wait(pauses[-1])
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000]


def test_the_shell_is_told_of_leaders_to_fetch_from_and_of_isrs_to_change() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    told: list[int | str] = []
    cluster.nodes[2].replicas.on_fetchers = told.append
    cluster.nodes[1].replicas.on_alterations = lambda: told.append("isr")
    cluster.fetch(2)
    cluster.change(1, 1, (1,))
    assert told == ["isr", 1]
    cluster.change(-1, 2, (1,))
    assert told == ["isr", 1, 1]
    cluster.change(1, 3, (1,))
    cluster.fetch(2)
    assert told[-1] == "isr"
    cluster.nodes[1].create_topic("alone")
    cluster.nodes[1].replicas.review()


def test_what_happens_while_nobody_waits_any_more_waits_for_the_next_request() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    leader = cluster.leader()
    leader.append(make_batch([b"a"]), acks=1, now_ms=NOW_MS)
    answer.abandon()
    cluster.nodes[1].replicas.settle()
    cluster.fetcher(2).disconnected()
    cluster.fetch(2)
    assert cluster.follower(2).log.log_end_offset == 1


def test_a_duplicate_wakes_nobody() -> None:
    cluster = Cluster((1, 2))
    batch = bytes(make_batch([b"a"], producer=ProducerStamp(7, 0, 0)))
    leader = cluster.leader()
    leader.append(memoryview(bytearray(batch)), acks=1, now_ms=NOW_MS)
    cluster.replicate()
    answer = cluster.ask(cluster.fetcher(2).build())
    leader.append(memoryview(bytearray(batch)), acks=1, now_ms=NOW_MS)
    cluster.nodes[1].replicas.settle()
    assert waits(answer)


def test_who_waits_where_everything_is_deleted_is_told_where_to_go_on() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    leader = cluster.leader()
    leader.append(make_batch([b"a"]), acks=1, now_ms=NOW_MS)
    leader.log.delete_records_before(1)
    cluster.nodes[1].replicas.settle()
    cluster.take(2, answer)
    assert cluster.follower(2).log.log_start_offset == 1


def test_partitions_take_turns_when_answers_are_full() -> None:
    cluster = Cluster((1, 2), partitions=3)
    for partition in range(3):
        cluster.append(b"a", partition=partition)
    request = cluster.fetcher(2).build()
    request.max_bytes = 1
    cluster.take(2, cluster.ask(request))
    for _ in range(2):
        request = cluster.fetcher(2).build()
        request.max_bytes, request.max_wait_ms = 1, 0
        cluster.take(2, cluster.ask(request))
    assert [cluster.follower(2, p).log.log_end_offset for p in range(3)] == [1, 1, 1]


def test_a_log_that_cannot_be_read_now_is_an_error_of_its_partition() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    log = cluster.leader().log
    log.roll(NOW_MS)
    log.append(make_batch([b"b"]), leader_epoch=0, now_ms=NOW_MS)
    cluster.nodes[1].disk.remove(f"{log.directory}/{0:020d}.log")
    log._context.files.forget_directory(log.directory)  # pyright: ignore[reportPrivateUsage]
    assert refusal(cluster, cluster.fetcher(2).build()) == [ErrorCode.KAFKA_STORAGE_ERROR]


# --- readers --------------------------------------------------------------------------------------


def test_consumers_are_sent_to_an_in_sync_follower_in_their_rack() -> None:
    cluster = Cluster(racks={1: "a", 2: "b", 3: "b"})
    cluster.append(b"a")
    leader = cluster.leader()
    assert leader.reader_for("b", 0) == 1, "nobody else is known to have it"
    cluster.replicate()
    assert leader.reader_for("b", 0) == 2
    assert leader.reader_for("b", 5) == 1
    assert [leader.reader_for(rack, 0) for rack in ("a", "", "c")] == [1, 1, 1]
    cluster.change(1, 0, (1, 3))
    assert leader.reader_for("b", 0) == 3


def test_followers_with_readers_hear_at_once_what_is_committed() -> None:
    cluster = Cluster((1, 2), racks={1: "a", 2: "b"})
    cluster.append(b"a")
    cluster.replicate()
    leader = cluster.leader()
    assert leader.reader_for("b", 1) == 2
    cluster.append(b"b")
    cluster.take(2, cluster.ask(cluster.fetcher(2).build()))
    answer = cluster.ask(cluster.fetcher(2).build())
    cluster.nodes[1].replicas.settle()
    assert not waits(answer)
    cluster.take(2, answer)
    assert cluster.follower(2).high_watermark == 2


def test_a_parked_follower_with_readers_is_told_when_another_one_commits() -> None:
    cluster = Cluster(racks={1: "a", 2: "b", 3: "c"})
    cluster.replicate()
    assert cluster.leader().reader_for("b", 0) == 2
    cluster.append(b"a")
    cluster.fetch(2)
    answer = cluster.ask(cluster.fetcher(2).build())
    cluster.fetch(3, times=2)
    cluster.take(2, answer)
    assert cluster.follower(2).high_watermark == 1


class Reader:
    """A consumer that waits at a follower."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_progress(self) -> None:
        self.heard.append("progress")

    def on_closed(self) -> None:
        self.heard.append("closed")


def test_readers_of_a_follower_hear_what_is_committed_and_of_its_end() -> None:
    cluster = Cluster((1, 2))
    reader = Reader()
    cluster.follower(2).read_waiters[reader] = None
    cluster.append(b"a")
    cluster.replicate()
    assert reader.heard == ["progress"]
    cluster.change(2, 1, (1, 2))
    assert reader.heard == ["progress", "closed"]
