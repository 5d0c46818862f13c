"""Consumers are sent to a replica in their rack, and to who leads; unknown ends are not told."""

from typing import Any

import pytest

from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.offsets import list_offsets
from quorate.errors import ErrorCode
from quorate.model import Endpoint
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import now, over, stored, waits
from tests.unit.broker.log.batches import headers_of
from tests.unit.broker.replication.cluster import TOPIC, Cluster

LATEST = -1


def new_cluster() -> Cluster:
    """Return three brokers, of which 2 and 3 are in one rack, and one committed record."""
    cluster = Cluster(racks={1: "a", 2: "b", 3: "b"})
    cluster.append(b"a")
    cluster.replicate()
    return cluster


def ask(
    cluster: Cluster, node_id: int = 1, *, version: int = 17, rack: str = "", **more: Any
) -> Any:
    """Fetch as a consumer in that rack, from offset 0 unless another one is given."""
    offset, epoch = more.pop("offset", 0), more.pop("epoch", -1)
    partition = FetchPartition(
        fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    topic = FetchTopic(topic=TOPIC if version < 13 else "", topic_id=cluster.topic_id)
    topic.partitions.append(partition)
    request = FetchRequest(rack_id=rack, min_bytes=1, topics=[topic], **more)
    return fetch(cluster.nodes[node_id].broker, request, over(version))


def only(answer: Any) -> PartitionData:
    response: FetchResponse = now(answer)
    ((partition,),) = (topic.partitions for topic in response.responses)
    return partition


def offsets_of(partition: PartitionData) -> list[int]:
    return [header.base_offset for header in headers_of(stored(partition.records))]


# --- the nearest replica (KIP-392)


def test_a_consumer_in_another_rack_is_sent_to_the_replica_there() -> None:
    partition = only(ask(new_cluster(), rack="b"))
    assert (partition.preferred_read_replica, stored(partition.records)) == (2, b"")
    assert (partition.error_code, partition.high_watermark) == (0, 1)


def test_a_consumer_that_is_sent_elsewhere_is_told_at_once_whatever_else_it_waits_for() -> None:
    cluster = Cluster(partitions=2, racks={1: "a", 2: "b", 3: "b"})
    cluster.replicate()
    cluster.change(1, 0, (1,), partition=1)
    topic = FetchTopic(topic_id=cluster.topic_id)
    topic.partitions += [FetchPartition(partition=p) for p in (0, 1)]
    request = FetchRequest(rack_id="b", min_bytes=1, max_wait_ms=60_000, topics=[topic])
    response: FetchResponse = now(fetch(cluster.nodes[1].broker, request, over(17)))
    assert [p.preferred_read_replica for p in response.responses[0].partitions] == [2, -1]
    topic.partitions.pop(0)
    assert waits(fetch(cluster.nodes[1].broker, request, over(17)))


@pytest.mark.parametrize(("rack", "version"), [("a", 17), ("c", 17), ("", 17), ("b", 10)])
def test_the_leader_serves_those_who_have_nobody_nearer(rack: str, version: int) -> None:
    partition = only(ask(new_cluster(), rack=rack, version=version))
    assert (partition.preferred_read_replica, offsets_of(partition)) == (-1, [0])


def test_a_follower_serves_what_it_knows_to_be_committed() -> None:
    cluster = new_cluster()
    cluster.append(b"b")
    cluster.fetch(2)
    assert offsets_of(only(ask(cluster, 2, rack="b"))) == [0]
    cluster.replicate()
    assert offsets_of(only(ask(cluster, 2, rack="b"))) == [0, 1]


def test_nobody_is_sent_elsewhere_with_an_offset_that_is_nowhere() -> None:
    partition = only(ask(new_cluster(), rack="b", offset=7))
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.preferred_read_replica == -1


# --- who leads instead (KIP-951)


def test_who_fetches_with_an_old_epoch_is_told_who_leads_now_and_where_that_is() -> None:
    cluster = new_cluster()
    cluster.change(2, 1, (1, 2, 3))
    response: FetchResponse = now(ask(cluster, epoch=0))
    partition = only(response)
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert partition.current_leader is not None
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 1)
    (node,) = response.node_endpoints
    assert (node.node_id, node.host, node.port, node.rack) == (2, "127.0.0.1", 9094, "b")


def test_a_leader_is_named_once_however_many_partitions_it_leads() -> None:
    cluster = Cluster(partitions=2)
    for partition in (0, 1):
        cluster.change(2, 1, (1, 2, 3), partition)
    topic = FetchTopic(topic_id=cluster.topic_id)
    topic.partitions += [FetchPartition(partition=p, current_leader_epoch=0) for p in (0, 1)]
    answer = fetch(cluster.nodes[1].broker, FetchRequest(topics=[topic]), over(17))
    response: FetchResponse = now(answer)
    leaders = [p.current_leader for p in response.responses[0].partitions]
    assert [leader and leader.leader_id for leader in leaders] == [2, 2]
    assert [node.node_id for node in response.node_endpoints] == [2]


def test_nobody_is_named_where_nobody_leads_or_can_be_reached() -> None:
    cluster = new_cluster()
    cluster.change(-1, 1, (1, 2, 3))
    assert only(ask(cluster, epoch=0)).current_leader is None
    elsewhere = {"SSL": Endpoint("127.0.0.1", 9999)}
    cluster.apply(
        r.BrokerRegistered("test", 0, 2, 99, bytes(16), b"", elsewhere, None, fenced=False)
    )
    cluster.change(2, 2, (1, 2, 3))
    response: FetchResponse = now(ask(cluster, epoch=0))
    assert (only(response).current_leader, response.node_endpoints) == (None, [])


# --- ends that are not known yet (KIP-207)


@pytest.mark.parametrize(
    ("version", "code"),
    [(11, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)],
)
def test_a_new_leader_does_not_say_what_the_latest_offset_is_before_it_knows(
    version: int, code: ErrorCode
) -> None:
    cluster = new_cluster()
    cluster.append(b"b")
    cluster.change(1, 1, (1, 2, 3))
    topic = ListOffsetsTopic(name=TOPIC)
    topic.partitions += [ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
    topic.partitions += [ListOffsetsPartition(partition_index=9, timestamp=LATEST)]
    request = ListOffsetsRequest(topics=[topic])

    def answers() -> list[tuple[int, int]]:
        answer = now(list_offsets(cluster.nodes[1].broker, request, over(version)))
        return [(p.error_code, p.offset) for p in answer.topics[0].partitions]

    unknown = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1)
    assert answers() == [(int(code), -1), unknown]
    cluster.replicate()
    assert answers() == [(0, 2), unknown]
