"""DeleteRecords on replicated partitions: answered once no replica in service has them any more."""

from typing import Any

from quorate.broker.handlers.offsets import delete_records
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import over
from tests.unit.broker.replication.cluster import TOPIC, Cluster

TIMEOUT_MS = 10_000
Answer = list[tuple[int, int]]


def replicated(records: int = 3, **options: Any) -> Cluster:
    cluster = Cluster(**options)
    for partition in range(options.get("partitions", 1)):
        for value in range(records):
            cluster.append(b"%d" % value, partition=partition)
    cluster.replicate()
    return cluster


def delete(cluster: Cluster, *offsets: int) -> Answer:
    """Delete the records before an offset of each partition, as asked of the leader.

    Returns:
        Code and low watermark of each, as soon as there is an answer.
    """
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in enumerate(offsets)
    ]
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=partitions)]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    heard: Answer = []

    def answered(response: Any) -> None:
        heard.extend((p.error_code, p.low_watermark) for p in response.topics[0].partitions)

    answer = delete_records(cluster.nodes[1].broker, request, over(2))
    if isinstance(answer, Promise):
        answer.when_resolved(answered)
    else:
        answered(answer)
    return heard


def fence(cluster: Cluster, broker_id: int) -> None:
    cluster.apply(r.BrokerFenced("test", 0, broker_id, cluster.epochs[broker_id]))


def test_it_is_answered_when_every_replica_has_said_that_it_has_forgotten_them() -> None:
    cluster = replicated()
    heard = delete(cluster, 2)
    cluster.fetch(2, times=2)
    assert (heard, cluster.follower(2).log.log_start_offset) == ([], 2)
    cluster.fetch(3)
    assert heard == [], "it has forgotten them, but not said so"
    cluster.fetch(3)
    assert heard == [(ErrorCode.NONE, 2)]
    cluster.wait(TIMEOUT_MS)
    assert len(heard) == 1


def test_a_follower_whose_fetch_is_parked_hears_of_it_at_once() -> None:
    cluster = replicated()
    parked = cluster.ask(cluster.fetcher(2).build())
    assert not parked.resolved
    delete(cluster, 2)
    cluster.nodes[1].replicas.settle()
    assert parked.resolved
    cluster.take(2, parked)
    assert cluster.follower(2).log.log_start_offset == 2


def test_a_follower_that_has_forgotten_more_by_itself_says_so() -> None:
    cluster = replicated()
    for follower_id in (2, 3):
        cluster.follower(follower_id).log.delete_records_before(3)
    heard = delete(cluster, 2)
    cluster.replicate(times=2)
    assert heard == [(ErrorCode.NONE, 2)]


def test_nothing_is_waited_for_that_all_have_forgotten_before() -> None:
    cluster = replicated()
    delete(cluster, 2)
    cluster.replicate()
    assert delete(cluster, 1) == [(ErrorCode.NONE, 2)]


def test_who_is_out_of_service_is_not_waited_for() -> None:
    cluster = replicated()
    fence(cluster, 3)
    heard = delete(cluster, 2)
    cluster.fetch(2, times=2)
    assert heard == [(ErrorCode.NONE, 2)]


def test_who_goes_out_of_service_meanwhile_is_not_waited_for_any_longer() -> None:
    cluster = replicated()
    heard = delete(cluster, 2)
    cluster.fetch(2, times=2)
    assert heard == []
    fence(cluster, 3)
    assert heard == [(ErrorCode.NONE, 2)]


def test_who_is_no_replica_any_more_is_not_waited_for() -> None:
    cluster = replicated()
    heard = delete(cluster, 2)
    cluster.fetch(2, times=2)
    change = r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 0, (1, 2), replicas=(1, 2))
    cluster.apply(r.FeatureLevelSet("test", 0, "metadata.version", 3), change)
    assert heard == [(ErrorCode.NONE, 2)]


def test_when_the_time_is_up_it_is_said_how_far_all_have_come() -> None:
    cluster = replicated(partitions=2)
    heard = delete(cluster, 2, 1)
    cluster.fetch(2, times=2)
    cluster.wait(TIMEOUT_MS - 1)
    assert heard == []
    cluster.wait(1)
    assert heard == [(ErrorCode.REQUEST_TIMED_OUT, 0), (ErrorCode.REQUEST_TIMED_OUT, 0)]
    cluster.fetch(3, times=2)
    assert len(heard) == 2, "there is no second answer"


def test_who_does_not_lead_any_more_cannot_tell() -> None:
    cluster = replicated()
    heard = delete(cluster, 2)
    cluster.change(leader_id=2, leader_epoch=1, isr=(1, 2, 3))
    assert heard == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_who_waits_waits_on_when_its_leader_leads_the_next_epoch_too() -> None:
    cluster = replicated()
    heard = delete(cluster, 2)
    cluster.change(1, 1, (1, 2, 3))
    assert heard == []
    cluster.replicate()
    assert heard == [(ErrorCode.NONE, 2)]


def test_partitions_are_waited_for_together() -> None:
    cluster = replicated(partitions=3)
    heard = delete(cluster, 2, 1, 4)
    assert heard == []
    cluster.replicate()
    none = ErrorCode.NONE
    assert heard == [(none, 2), (none, 1), (ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
