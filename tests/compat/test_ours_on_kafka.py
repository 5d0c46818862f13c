"""Quorate's client against Apache Kafka: it speaks Kafka's protocol, not ours alone."""

from typing import TYPE_CHECKING

import pytest

from quorate.client.sending.partitioner import partition_for_key
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.model import (
    CODECS,
    Message,
    PartitionInfo,
    PeerError,
    Received,
    Sending,
    Server,
    Task,
    TopicSpec,
)
from tests.compat.clients.ours import Ours
from tests.compat.consuming.members import OurMember, eventually
from tests.compat.serving import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.client("quorate.client on Apache Kafka"),
]

PLAIN = Sending()
START_MS = 1_700_000_000_000


@pytest.fixture
def kafka(apache_kafka: Broker) -> Server:
    return apache_kafka.server


@pytest.fixture(scope="module")
def theirs() -> Librdkafka:
    return Librdkafka()


def sent_of(received: list[Received]) -> list[Message]:
    return [Message(one.value, one.key, one.headers) for one in received]


@pytest.mark.feature("produce and consume {codec}")
@pytest.mark.parametrize("codec", CODECS)
def test_records_pass_in_both_directions(
    codec: str, kafka: Server, topic: str, ours: Ours, theirs: Librdkafka
) -> None:
    ours.create(kafka, TopicSpec(topic))
    sent = [
        Message(b"value %d " % i * 20, b"key", (("a", b"1"), ("a", None), ("b", b"")))
        for i in range(200)
    ] + [Message(None, b""), Message(b"", None)]
    ours.produce(kafka, topic, sent, Sending(codec=codec))
    theirs.produce(kafka, topic, sent, Sending(codec=codec))
    task = Task(topic, {0: "earliest"}, 2 * len(sent))
    assert sent_of(ours.consume(kafka, task)) == sent * 2
    assert sent_of(theirs.consume(kafka, task)) == sent * 2


@pytest.mark.feature("acks 0, 1, all; idempotent or not")
def test_acknowledgements(kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic))
    kinds = [Sending(acks="1", idempotent=False), Sending(acks="all", idempotent=True)]
    for index, how in enumerate(kinds):
        places = ours.produce(kafka, topic, [Message(b"x")] * 50, how)
        assert [place.offset for place in places] == list(range(50 * index, 50 * index + 50))
    ours.produce(kafka, topic, [Message(b"x")] * 50, Sending(acks="0", idempotent=False))
    assert len(ours.consume(kafka, Task(topic, {0: 0}, 150))) == 150


@pytest.mark.feature("seek, times, ends, reset")
def test_positions(kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic, 1, {"retention.ms": "-1"}))
    sent = [Message(b"%d" % i, timestamp_ms=START_MS + 1000 * i) for i in range(100)]
    ours.produce(kafka, topic, sent, Sending(codec="lz4"))
    assert [one.offset for one in ours.consume(kafka, Task(topic, {0: 37}, 3))] == [37, 38, 39]
    assert ours.offset_for_time(kafka, topic, 0, START_MS + 41_500) == 42
    assert ours.offset_for_time(kafka, topic, 0, START_MS + 100_000) is None
    assert ours.ends(kafka, topic, 0) == (0, 100)
    assert ours.consume(kafka, Task(topic, {0: 5000}, 1, "earliest"))[0].offset == 0
    with pytest.raises(PeerError) as error:
        ours.consume(kafka, Task(topic, {0: 5000}, 1, "none"))
    assert error.value.name == "OFFSET_OUT_OF_RANGE"


@pytest.mark.feature("keys over partitions")
def test_partitioning(kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic, 5))
    sent = [Message(b"x", b"key-%d" % i) for i in range(500)]
    ours.produce(kafka, topic, sent, PLAIN)
    received = ours.consume(kafka, Task(topic, dict.fromkeys(range(5), "earliest"), 500))
    for one in received:
        assert one.key is not None
        assert one.partition == partition_for_key(one.key, 5)


@pytest.mark.feature("topics, partitions, configurations, deleting records")
def test_administration(kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic, 2, {"max.message.bytes": "123456"}))
    assert topic in ours.topics(kafka)
    assert ours.configs(kafka, topic)["max.message.bytes"] == "123456"
    ours.configure(kafka, topic, "max.message.bytes", "654321")
    assert ours.configs(kafka, topic)["max.message.bytes"] == "654321"
    ours.add_partitions(kafka, topic, 3)
    assert ours.describe(kafka, topic)[0] == PartitionInfo(1, (1,), (1,))
    assert len(ours.describe(kafka, topic)) == 3
    ours.produce(kafka, topic, [Message(b"x", partition=0)] * 10, PLAIN)
    assert ours.delete_records(kafka, topic, 0, 4) == 4
    assert ours.ends(kafka, topic, 0) == (4, 10)
    ours.delete(kafka, topic)
    assert topic not in ours.topics(kafka)


@pytest.mark.feature("refusals by the protocol's names")
def test_refusals(kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("TOPIC_ALREADY_EXISTS", lambda: ours.create(kafka, TopicSpec(topic))),
        ("INVALID_TOPIC_EXCEPTION", lambda: ours.create(kafka, TopicSpec("a b"))),
        ("INVALID_CONFIG", lambda: ours.configure(kafka, topic, "retention.ms", "soon")),
        ("INVALID_PARTITIONS", lambda: ours.add_partitions(kafka, topic, 1)),
        ("UNKNOWN_TOPIC_OR_PARTITION", lambda: ours.delete(kafka, f"no-{topic}")),
        ("OFFSET_OUT_OF_RANGE", lambda: ours.delete_records(kafka, topic, 0, 7)),
        (
            "MESSAGE_TOO_LARGE",
            lambda: ours.produce(kafka, topic, [Message(bytes(2 << 20))], Sending("none")),
        ),
    ]
    for name, refuse in refused:
        with pytest.raises(PeerError) as error:
            refuse()
        assert error.value.name == name


@pytest.mark.feature("members of a group, {protocol}: shared, committed, handed over")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups(protocol: str, kafka: Server, topic: str, ours: Ours) -> None:
    ours.create(kafka, TopicSpec(topic, 2))
    ours.produce(kafka, topic, [Message(b"x", partition=n % 2) for n in range(20)], PLAIN)
    settings = {"group.id": topic, "group.protocol": protocol}
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = "200"
    everything = {f"{topic}-0", f"{topic}-1"}
    first = OurMember(kafka, [topic], settings, None)
    eventually(lambda: first.assigned() == everything and len(first.read()) == 20, first.read)
    second = OurMember(kafka, [topic], settings, None)
    eventually(
        lambda: first.assigned() | second.assigned() == everything and len(second.assigned()) == 1,
        lambda: (first.assigned(), second.assigned()),
    )
    first.end()
    eventually(lambda: second.assigned() == everything, second.assigned)
    ours.produce(kafka, topic, [Message(b"y", partition=n % 2) for n in range(20)], PLAIN)
    eventually(lambda: len(second.read()) >= 20, second.read)
    second.end()
    assert len(second.read()) == len({*first.read(), *second.read()}) - 20 == 20
