"""The short way through the server and the long one lead to the same answers and the same logs."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker import server
from quorate.broker.handlers.context import Broker, Shortcut
from quorate.broker.handlers.table import HANDLERS
from quorate.net.connection import FrameRefusedError
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
from quorate.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from quorate.quorum.metadata import records as r
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.shell.test_server import connect
from tests.unit.broker.harness import Node, new_node
from tests.unit.broker.log.batches import NOW_MS, join, make_batch, read_all

API = APIS[ApiKey.PRODUCE]
TOPICS = ("appLogs", "appLogs", "synced", "synced", "shared", "shared", "stamped", "nowhere")
ZSTD = 4


def damaged(at: int) -> memoryview:
    batch = make_batch([b"damaged"])
    batch[at] ^= 1
    return batch


def records_of(values: Sequence[bytes], sequence: int, codec: int, age_ms: int) -> memoryview:
    producer = NO_PRODUCER if sequence < 0 else ProducerStamp(7, 0, sequence)
    stamps = [NOW_MS - age_ms] * len(values)
    return make_batch(values, timestamps_ms=stamps, producer=producer, codec=codec)


good = st.builds(
    records_of,
    st.lists(st.binary(max_size=20), min_size=1, max_size=3),
    st.sampled_from([-1, -1, 0, 1, 2]),
    st.sampled_from([0, 0, ZSTD]),
    st.sampled_from([0, 0, 0, -(10**12)]),
)
odd = (
    st.tuples(good, good).map(join)
    | st.integers(8, 68).map(damaged)
    | st.tuples(good, st.integers(1, 60)).map(lambda cut: cut[0][: cut[1]])
    | st.none()
    | st.sampled_from([0, 1, 61]).map(lambda size_bytes: memoryview(bytes(size_bytes)))
)


mostly_good = st.integers(0, 4).flatmap(lambda number: good if number else odd)


def partitions(records: st.SearchStrategy[Any]) -> st.SearchStrategy[PartitionProduceData]:
    index = st.sampled_from([0, 0, 0, 0, 1, 9])
    return st.builds(PartitionProduceData, index=index, records=records)


def topics(
    data: st.SearchStrategy[list[PartitionProduceData]],
) -> st.SearchStrategy[TopicProduceData]:
    return st.builds(topic_of, st.sampled_from(TOPICS), data)


def topic_of(name: str, data: list[PartitionProduceData]) -> TopicProduceData:
    topic_id = name.encode().ljust(16, b"\1")
    return TopicProduceData(name=name, topic_id=topic_id, partition_data=data)


def requests(
    topic_data: st.SearchStrategy[list[TopicProduceData]], **others: st.SearchStrategy[Any]
) -> st.SearchStrategy[ProduceRequest]:
    return st.builds(ProduceRequest, timeout_ms=st.just(1000), topic_data=topic_data, **others)


singles = requests(
    st.lists(
        topics(st.lists(partitions(mostly_good), min_size=1, max_size=1)),
        min_size=1,
        max_size=1,
    ),
    acks=st.sampled_from([1, -1, 1, -1, 0, 2]),
)
others = requests(
    st.lists(topics(st.lists(partitions(mostly_good), max_size=3)), max_size=2),
    acks=st.sampled_from([1, -1, 0]),
    transactional_id=st.sampled_from([None, None, "t"]),
)


def must_not_be_called(*_: object) -> None:
    pytest.fail("the long way was taken")


def without_short_way(_broker: Broker, _listener: str) -> Shortcut:
    return lambda _buffer, _start, _end: None


def new_cluster() -> Node:
    node = new_node()
    node.join()
    node.create_topic("appLogs", 2)
    node.create_topic("synced", flush_messages="1")
    node.create_topic("stamped", message_timestamp_type="LogAppendTime")
    node.join(2)
    shared_id = node.create_topic("shared", replicas=(1, 2), min_insync_replicas="2")
    node.apply(r.PartitionChanged("test", 0, shared_id, 0, 1, 0, (1, 2)))
    return node


def replicate(node: Node) -> None:
    """Let the follower have all that there is of what we lead."""
    for replica in node.replicas:
        for follower in replica.followers.values():
            end_offset = replica.log.log_end_offset
            follower.fetched(end_offset, 0, leader_end_offset=end_offset, now_ms=0)
        replica.advance()


def shrink(node: Node) -> None:
    """Leave nobody but the leader in sync."""
    state = node.replicas.image.topics["shared"].partitions[0]
    node.lead("shared", 0, state.leader_epoch, state.leader_id)


WHAT_COMES_THEN: dict[str, Callable[[Node], None]] = {
    "records are synced": Node.sync,
    "records are replicated": replicate,
    "the time is up": lambda node: node.wait(1000),
    "the ISR shrinks": shrink,
    "another broker leads": lambda node: node.lead("shared", 0, leader_epoch=1, leader_id=2),
}
Step = tuple[ProduceRequest, int, str]


def outcome(steps: list[Step]) -> tuple[list[Any], list[Any]]:
    """Return what was answered, and what is in the logs then."""
    node = new_cluster()
    serving = server.RequestServer(node.broker, lambda: 1.0)
    answers: list[Any] = []
    for correlation_id, (request, version, then) in enumerate(steps):
        wire = connect(serving)
        try:
            wire.receive(encode_request(API, version, correlation_id, "test", request))
        except FrameRefusedError as error:
            answers.append(str(error))
        answers.append(wire.sent())
        WHAT_COMES_THEN[then](node)
        serving.end_turn()
        answers.append(wire.sent())
    return answers, [(held.high_watermark, read_all(held.log)) for held in node.replicas]


versions = st.integers(API.min_version, API.max_version) | st.integers(7, 13)


@given(
    st.lists(
        st.tuples(
            st.booleans().flatmap(lambda single: singles if single else others),
            versions,
            st.sampled_from(list(WHAT_COMES_THEN)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_both_ways_lead_to_the_same(steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "time_ns", lambda: NOW_MS * 1_000_000)
        short = outcome(steps)
        patch.setattr(server, "single_produce", without_short_way)
        assert outcome(steps) == short


@pytest.mark.parametrize("version", range(7, API.max_version + 1))
def test_a_single_batch_takes_the_short_way(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_cluster()
    wire = connect(server.RequestServer(node.broker, lambda: 1.0))
    data = PartitionProduceData(index=1, records=make_batch([b"a", b"b"]))
    topic = topic_of("appLogs", [data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    monkeypatch.setitem(HANDLERS, ApiKey.PRODUCE, must_not_be_called)
    wire.receive(encode_request(API, version, 5, "test", request))
    assert wire.correlation_ids() == [5]
    assert node.leader("appLogs", 1).high_watermark == 2


@pytest.mark.parametrize("version", [7, 13])
def test_a_batch_that_is_not_committed_yet_takes_the_short_way_too(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_cluster()
    serving = server.RequestServer(node.broker, lambda: 1.0)
    wire = connect(serving)
    data = PartitionProduceData(index=0, records=make_batch([b"a", b"b"]))
    topic = topic_of("shared", [data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    monkeypatch.setitem(HANDLERS, ApiKey.PRODUCE, must_not_be_called)
    wire.receive(encode_request(API, version, 5, "test", request))
    assert wire.sent() == b""
    replicate(node)
    serving.end_turn()
    assert wire.correlation_ids() == [5]
    assert len(node.broker.deadlines) == 0


def test_several_batches_for_a_partition_are_refused_both_ways() -> None:
    two = join([make_batch([b"a"]), make_batch([b"b"])])
    data = PartitionProduceData(index=0, records=two)
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic_of("appLogs", [data])])
    answers, logs = outcome([(request, 8, "records are synced")])
    assert b"one record batch for a partition" in answers[0]
    assert logs[0] == (0, {})
