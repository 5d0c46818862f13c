"""While metadata are followed in steps, who leads no more or has another topic is not served."""

from collections.abc import Iterator

import pytest

from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.produce import produce
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_batch
from tests.unit.broker.harness import Node, codes, now, over, stored
from tests.unit.broker.log.batches import headers_of, make_batch
from tests.unit.broker.replication.cluster import TOPIC, Cluster

NEXT_ID = b"n" * 16


def steps_of(node: Node, *records: r.MetadataRecord) -> Iterator[None]:
    image = node.replicas.image
    return node.replicas.follow(apply_batch(image, image.version + 1, records), node.broker.now_ms)


def fetch_little(cluster: Cluster, follower_id: int) -> None:
    """Fetch from broker 1 with room for no more than one batch."""
    request = cluster.fetcher(follower_id).build()
    request.max_wait_ms, request.max_bytes = 0, 1
    cluster.take(follower_id, cluster.ask(request))
    cluster.nodes[1].replicas.settle()


def epochs_of(cluster: Cluster, node_id: int) -> list[int]:
    replicas = cluster.nodes[node_id].replicas
    replica = replicas.find(TOPIC, 1) or cluster.follower(node_id, 1)
    log = replica.log
    held = log.read(0, max_bytes=1 << 20, limit_offset=log.log_end_offset, at_least_one=True)
    return [] if held is None else [header.leader_epoch for header in headers_of(stored(held))]


@pytest.mark.parametrize("new_leader_writes", [True, False])
def test_who_leads_no_more_sends_nothing_out_of_a_log_that_is_anothers_to_fill(
    new_leader_writes: bool,
) -> None:
    """What was left for the next answer was read from it: other records at those offsets."""
    cluster = Cluster(partitions=2)
    cluster.append(b"aa", partition=1)
    cluster.replicate()
    cluster.append(b"bb", partition=1)
    cluster.fetch(3)
    cluster.append(b"z" * 200)
    cluster.append(b"cc", partition=1)
    fetch_little(cluster, 3)
    change = r.PartitionChanged("test", 0, cluster.topic_id, 1, 2, 1, (1, 2, 3))
    cluster.nodes[2].apply(change)
    if new_leader_writes:
        cluster.append(b"XX", node_id=2, partition=1)
        cluster.append(b"YY", node_id=2, partition=1)
    steps = steps_of(cluster.nodes[1], change)
    next(steps)
    for _ in range(4):
        cluster.fetch(1, 2)
    cluster.fetch(3)
    assert epochs_of(cluster, 3) == [0, 0], "as it was"
    list(steps)
    cluster.nodes[3].apply(change)
    for _ in range(4):
        cluster.fetch(1, 2)
        cluster.fetch(3, 2)
    assert epochs_of(cluster, 3) == epochs_of(cluster, 2) == epochs_of(cluster, 1)


def made_again(cluster: Cluster) -> list[r.MetadataRecord]:
    return [
        r.TopicRemoved("test", 0, cluster.topic_id),
        r.TopicCreated("test", 0, TOPIC, NEXT_ID),
        r.PartitionCreated("test", 0, NEXT_ID, 0, (1, 2), (1, 2), 1),
    ]


def half_way(cluster: Cluster) -> Iterator[None]:
    """Let broker 1 follow until it leads the next topic, and know the old one's id still."""
    node = cluster.nodes[1]
    steps = steps_of(node, *made_again(cluster))
    while (leader := node.replicas.find(TOPIC, 0)) is None or leader.topic_id != NEXT_ID:
        next(steps)
    assert cluster.topic_id in node.replicas.image.topic_names
    return steps


def test_what_a_follower_has_of_a_deleted_topic_counts_for_no_other_of_that_name() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"old")
    cluster.replicate()
    cluster.append(b"old")
    cluster.fetch(2)
    steps = half_way(cluster)
    cluster.append(b"new", acks=-1)
    cluster.fetch(2, times=2)
    assert cluster.leader().high_watermark == 0
    list(steps)
    cluster.nodes[2].apply(*made_again(cluster))
    cluster.fetch(2, times=2)
    assert cluster.leader().high_watermark == 1


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_records_for_a_deleted_topic_are_not_written_to_the_next_one(
    transactional_id: str | None,
) -> None:
    cluster = Cluster((1, 2))
    steps = half_way(cluster)
    part = PartitionProduceData(index=0, records=make_batch([b"old"]))
    topic = TopicProduceData(topic_id=cluster.topic_id, partition_data=[part])
    request = ProduceRequest(
        transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=[topic]
    )
    answer = now(produce(cluster.nodes[1].broker, request, over(13)))
    assert codes(answer.responses[0].partition_responses) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert cluster.leader().log.log_end_offset == 0
    replicas = cluster.nodes[1].replicas
    assert replicas.find_by_id(cluster.topic_id, 0) is None
    list(steps)
    assert replicas.find_by_id(NEXT_ID, 0) is cluster.leader()


@pytest.mark.parametrize("rack", ["", "near"])
def test_who_reads_a_deleted_topic_by_its_id_is_given_nothing_of_the_next_one(rack: str) -> None:
    cluster = Cluster((1, 2))
    steps = half_way(cluster)
    cluster.append(b"new")
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=cluster.topic_id, partitions=[part])
    request = FetchRequest(replica_id=-1, max_bytes=1 << 20, topics=[topic], rack_id=rack)
    answer: FetchResponse = now(fetch(cluster.nodes[1].broker, request, over(13)))
    assert codes(answer.responses[0].partitions) == [ErrorCode.UNKNOWN_TOPIC_ID]
    list(steps)


def test_whoever_is_fenced_is_not_proposed_for_the_isr_that_it_has_just_left() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.replicate()
    cluster.append(b"b")
    cluster.fetch(3, times=3)
    cluster.apply(
        r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 0, (1, 3)),
        r.BrokerFenced("test", 0, 2, cluster.epochs[2]),
    )
    assert cluster.proposed() is None
    assert cluster.leader().high_watermark == 2


def test_whoever_caught_up_and_went_out_of_service_is_not_waited_for() -> None:
    """It was, for ever, if nothing else was appended: it was never in sync, so it did not leave."""
    cluster = Cluster()
    cluster.append(b"a")
    cluster.fetch(2, times=2)
    cluster.append(b"b", b"c")
    cluster.fetch(3, times=3)
    cluster.change(3, 1, (1, 2, 3))
    cluster.fetch(2, 3)
    cluster.fetch(1, 3, times=2)
    cluster.change(3, 1, (1, 3))
    told: list[ErrorCode] = []
    cluster.leader(3).when_committed(3, told.append)
    cluster.apply(r.BrokerFenced("test", 0, 2, cluster.epochs[2]))
    assert (cluster.leader(3).high_watermark, told) == (3, [ErrorCode.NONE])


def test_who_registers_again_says_where_it_is_in_partitions_without_news_too() -> None:
    """Else nobody would propose it for their ISR until something is written to them."""
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.replicate()
    cluster.fetch(2)
    fenced = r.BrokerFenced("test", 0, 2, cluster.epochs[2])
    cluster.apply(fenced, r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 0, (1,)))
    cluster.apply(r.BrokerUnregistered("test", 0, 2, cluster.epochs[2]))
    cluster.register(2)
    cluster.fetch(2)
    proposal = cluster.proposed()
    assert proposal is not None
    assert [(each.broker_id, each.broker_epoch) for each in proposal.isr] == [
        (1, cluster.epochs[1]),
        (2, cluster.epochs[2]),
    ]
