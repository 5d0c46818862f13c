"""The short way of the commonest Produce requests: the same answer as the general way, or none."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quorate.broker.handlers.produce import produce, single_produce
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, encode_response
from quorate.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.broker.harness import Node, new_node, now, over, waits
from tests.unit.broker.log.batches import make_batch
from tests.unit.broker.replication.cluster import TOPIC, Cluster

API = APIS[ApiKey.PRODUCE]
SIZE_BYTES = 4


def request_to(
    topic: str, topic_id: bytes, *, acks: int = 1, values: Sequence[bytes] = (b"a", b"b")
) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=make_batch(values))
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def short_answer(
    node: Node, request: ProduceRequest, version: int
) -> bytes | Promise[bytes] | None:
    frame = bytearray(encode_request(API, version, 77, None, request))
    return single_produce(node.broker, "PLAINTEXT")(frame, SIZE_BYTES, len(frame))


@pytest.mark.parametrize("version", [7, 8, 9, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_the_short_way_answers_as_the_general_one(version: int, acks: int) -> None:
    node, other = new_node(), new_node()
    other.create_topic("appLogs")
    request = request_to("appLogs", node.create_topic("appLogs"), acks=acks)
    for _ in range(2):
        general = produce(other.broker, request, over(version))
        parts: list[Any] = encode_response(API, version, 77, general)
        assert short_answer(node, request, version) == b"".join(parts)
    assert node.leader().log.log_end_offset == 4


def replicate(cluster: Cluster) -> None:
    cluster.replicate()


def wait_too_long(cluster: Cluster) -> None:
    cluster.wait(1000)
    cluster.replicate()


def lead_elsewhere(cluster: Cluster) -> None:
    cluster.change(leader_id=2, leader_epoch=1, isr=(1, 2, 3))


@pytest.mark.parametrize("version", [7, 12, 13])
@pytest.mark.parametrize("happen", [replicate, wait_too_long, lead_elsewhere])
def test_who_waits_for_followers_hears_the_same_by_the_short_way(
    version: int, happen: Callable[[Cluster], None]
) -> None:
    cluster, other = Cluster(), Cluster()
    request = request_to(TOPIC, cluster.topic_id, acks=-1)
    short = short_answer(cluster.nodes[1], request, version)
    general = produce(other.nodes[1].broker, request, over(version))
    assert waits(short)
    assert waits(general)
    happen(cluster)
    happen(other)
    parts: list[Any] = encode_response(API, version, 77, now(general))
    assert now(short) == b"".join(parts)
    assert not len(cluster.nodes[1].broker.deadlines)


def test_the_last_record_alone_waits_for_followers_too_either_way() -> None:
    cluster = Cluster()
    node, lone = cluster.nodes[1], request_to(TOPIC, cluster.topic_id, acks=-1, values=[b"a"])
    for _ in range(2):  # the first goes to where the high watermark is, and so does the next one
        short = short_answer(node, lone, 12)
        assert waits(short)
        cluster.replicate()
        assert now(short)
        general = produce(node.broker, lone, over(12))
        assert waits(general)
        cluster.replicate()
        assert not now(general).responses[0].partition_responses[0].error_code


def test_versions_of_old_have_no_short_way() -> None:
    node = new_node()
    assert short_answer(node, request_to("appLogs", node.create_topic("appLogs")), 6) is None


def test_clients_cannot_write_to_internal_topics_the_short_way_either() -> None:
    node = new_node()
    topic_id = node.create_topic("__consumer_offsets")
    assert short_answer(node, request_to("__consumer_offsets", topic_id), 13) is None
    assert node.leader("__consumer_offsets").log.log_end_offset == 0


@pytest.mark.parametrize("version", [12, 13])
def test_what_is_refused_or_waits_for_the_disk_takes_the_general_way(version: int) -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs")
    synced_id = node.create_topic("synced", flush_messages="1")
    small_id = node.create_topic("small", max_message_bytes="10")
    for request in (
        request_to("appLogs", topic_id, acks=0),
        request_to("nowhere", b"n" * 16),
        request_to("synced", synced_id),
        request_to("small", small_id),
        ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]),
    ):
        assert short_answer(node, request, version) is None
    assert all(replica.log.log_end_offset == 0 for replica in node.replicas)
