"""Records: what one client writes, all read."""

import time
from random import Random

import confluent_kafka
import pytest

from tests.compat.clients.model import (
    CODECS,
    DEADLINE_S,
    Acks,
    Client,
    Message,
    Op,
    PeerError,
    Received,
    Sending,
    Server,
    Task,
    TopicSpec,
)
from tests.compat.clients.ours import Ours
from tests.compat.conftest import KINDS, Clients, NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

MEBIBYTE = 1 << 20
EVERY_CODEC = [
    pytest.param(codec, marks=pytest.mark.needs(Op.ZSTD) if codec == "zstd" else ())
    for codec in CODECS
]
PLAIN = Sending()
WRITTEN_MS = 1_700_000_000_000


def message_of(record: Received) -> Message:
    """Return what was sent, without time and partition."""
    return Message(record.value, record.key, record.headers)


def read_all(client: Client, server: Server, topic: str, count: int) -> list[Received]:
    return client.consume(server, Task(topic, {0: "earliest"}, count))


def texts(count: int, *, word: str) -> list[Message]:
    """Return messages that compress well, with keys and a header."""
    return [
        Message(f"{word} {index} {'lorem ipsum ' * 20}".encode(), b"key-%d" % index)
        for index in range(count)
    ]


@pytest.mark.feature("produce with {codec}")
@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_batches_are_stored_with_the_codec_of_the_producer(
    client: Client, codec: str, broker: Broker, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    sent = texts(50, word=codec)
    client.produce(broker.server, topic, sent, Sending(codec=codec))
    stored = broker.stored(topic)
    assert {header.compression for header in stored} == {CODECS.index(codec)}
    assert sum(header.record_count for header in stored) == 50
    received = read_all(ours, broker.server, topic, 50)
    assert [message_of(one) for one in received] == sent
    assert [one.offset for one in received] == list(range(50))


@pytest.fixture(scope="module")
def written(broker: Broker, clients: Clients, ours: Ours) -> dict[str, list[Message]]:
    """A topic with a partition for each codec, to which every producer wrote."""
    ours.create(broker.server, TopicSpec("written-by-all", len(CODECS)))
    content: dict[str, list[Message]] = {codec: [] for codec in CODECS}
    for name in KINDS:
        try:
            producer = clients.get(name)
        except pytest.skip.Exception:
            continue
        for partition, codec in enumerate(CODECS):
            if codec == "zstd" and Op.ZSTD in producer.lacks:
                continue
            sent = [
                Message(m.value, m.key, (("by", name.encode()),), partition=partition)
                for m in texts(20, word=name)
            ]
            producer.produce(broker.server, "written-by-all", sent, Sending(codec=codec))
            content[codec] += [Message(m.value, m.key, m.headers) for m in sent]
    return content


@pytest.mark.feature("consume {codec} of all producers")
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_producer_are_read(
    client: Client, codec: str, server: Server, written: dict[str, list[Message]]
) -> None:
    expected = written[codec]
    partition = CODECS.index(codec)
    task = Task("written-by-all", {partition: "earliest"}, len(expected))
    received = client.consume(server, task)
    assert [message_of(one) for one in received] == expected
    assert [one.offset for one in received] == list(range(len(expected)))
    assert {one.partition for one in received} == {partition}


@pytest.mark.feature("headers: repeated names, empty values")
@pytest.mark.needs(Op.HEADERS_IN_ORDER)
def test_headers_come_back_in_their_order(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    headers = (("a", b"1"), ("b", b""), ("a", b"2"), ("long", b"x" * 500), ("ü", "ß".encode()))
    sent = [Message(b"value", b"key", headers), Message(b"bare", b"key")]
    client.produce(server, topic, sent, PLAIN)
    assert [message_of(one) for one in read_all(client, server, topic, 2)] == sent
    assert [message_of(one) for one in read_all(ours, server, topic, 2)] == sent


@pytest.mark.feature("headers: any bytes")
@pytest.mark.needs(Op.BINARY_HEADERS)
def test_headers_may_hold_any_bytes(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic()
    sent = [Message(b"value", b"key", (("bytes", bytes(range(256))),))]
    client.produce(server, topic, sent, PLAIN)
    assert [message_of(one) for one in read_all(client, server, topic, 1)] == sent


@pytest.mark.feature("headers: null values")
@pytest.mark.needs(Op.NULL_HEADERS)
def test_null_header_values_are_not_empty_ones(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sent = [Message(b"value", b"key", (("null", None), ("empty", b"")))]
    client.produce(server, topic, sent, PLAIN)
    assert [message_of(one) for one in read_all(client, server, topic, 1)] == sent


# Two clients refuse to send a record that has neither key nor value.
PAIRS = [(value, key) for value in (None, b"", b"v") for key in (None, b"", b"k")]
BLANKS = [Message(value, key) for value, key in PAIRS if (value, key) != (None, None)]


@pytest.mark.feature("null and empty keys and values, produced")
@pytest.mark.needs(Op.EMPTY_AND_NULL)
def test_null_and_empty_are_stored_as_what_they_are(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    client.produce(server, topic, BLANKS, PLAIN)
    assert [message_of(one) for one in read_all(ours, server, topic, len(BLANKS))] == BLANKS


@pytest.mark.feature("null and empty keys and values, consumed")
def test_null_and_empty_are_read_as_what_they_are(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    ours.produce(server, topic, BLANKS, PLAIN)
    assert [message_of(one) for one in read_all(client, server, topic, len(BLANKS))] == BLANKS


@pytest.mark.feature("timestamps of the producer")
@pytest.mark.needs(Op.TIMESTAMPS)
def test_times_are_those_of_the_producer(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic(retention_ms="-1")
    times = [WRITTEN_MS + 7, WRITTEN_MS, WRITTEN_MS + 3]
    client.produce(server, topic, [Message(b"x", timestamp_ms=at) for at in times], PLAIN)
    assert [one.timestamp_ms for one in read_all(client, server, topic, 3)] == times


@pytest.mark.feature("timestamps of the broker (LogAppendTime)")
def test_times_are_those_of_the_broker_if_the_topic_says_so(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime", retention_ms="-1")
    at = None if Op.TIMESTAMPS in client.lacks else WRITTEN_MS
    before_ms = time.time_ns() // 1_000_000
    client.produce(server, topic, [Message(b"x", timestamp_ms=at)], Sending(codec="gzip"))
    after_ms = time.time_ns() // 1_000_000
    (received,) = read_all(client, server, topic, 1)
    assert before_ms <= received.timestamp_ms <= after_ms


@pytest.mark.feature("acks={acks}")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(
    client: Client, acks: Acks, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    sent = texts(20, word="acks")
    places = client.produce(server, topic, sent, Sending(acks=acks, idempotent=False))
    assert [message_of(one) for one in read_all(ours, server, topic, 20)] == sent
    if acks != "0" and Op.ACKNOWLEDGED_OFFSETS not in client.lacks:
        assert [place.offset for place in places] == list(range(20))


@pytest.mark.feature("linger and batch size: fewer batches, and requests, for as many records")
@pytest.mark.client("confluent-kafka")
def test_a_producer_that_lingers_sends_more_records_at_a_time(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    kept: list[list[int]] = []
    for partition, linger_ms in enumerate((0, 20)):
        producer = confluent_kafka.Producer({
            "bootstrap.servers": broker.server.bootstrap, "linger.ms": linger_ms,
            "batch.size": 65_536, "log_level": 0,
        })  # fmt: skip
        for value in range(100):
            producer.produce(topic, b"%d" % value, partition=partition)
            if value == 0:
                producer.flush(DEADLINE_S)  # it knows the leader from now on
            producer.poll(0.001)
        assert producer.flush(DEADLINE_S) == 0
        kept.append([header.record_count for header in broker.stored(topic, partition)])
    hurried, lingered = kept
    assert sum(hurried) == sum(lingered) == 100
    assert max(lingered) > 1
    assert len(lingered) < len(hurried)


@pytest.mark.feature("idempotent producer")
def test_idempotent_producers_stamp_their_batches(
    client: Client, broker: Broker, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    sent = texts(300, word="once")
    how = Sending(idempotent=True, request_bytes_max=20_000)
    client.produce(broker.server, topic, sent, how)
    stored = broker.stored(topic)
    assert len({header.producer_id for header in stored}) == 1
    assert all(header.producer_id >= 0 for header in stored)
    next_sequence = 0
    for header in stored:
        assert header.base_sequence == next_sequence
        next_sequence += header.record_count
    assert [message_of(one) for one in read_all(ours, broker.server, topic, 300)] == sent


@pytest.mark.feature("10,000 random byte strings")
def test_random_bytes_come_back_as_they_were(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    # Batches may be larger than what they were made of.
    topic = new_topic(max_message_bytes=str(2 * MEBIBYTE))
    random = Random(11)
    least = 1 if Op.EMPTY_AND_NULL in client.lacks else 0
    sizes = [random.randint(least, 300) for _ in range(9_995)]
    sizes += [random.randint(least, MEBIBYTE - 1000) for _ in range(5)]
    random.shuffle(sizes)
    keyless, keyed = sizes[:5000], sizes[5000:]
    sent = [Message(random.randbytes(size)) for size in keyless]
    sent += [Message(random.randbytes(size), random.randbytes(8)) for size in keyed]
    client.produce(server, topic, sent, Sending(request_bytes_max=MEBIBYTE))
    received = read_all(client, server, topic, len(sent))
    assert [message_of(one) for one in received] == sent
    assert [one.offset for one in received] == list(range(len(sent)))


@pytest.mark.feature("records of 3 MiB with a raised max.message.bytes")
def test_large_records_pass_if_the_topic_allows_them(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes=str(8 * MEBIBYTE))
    sent = [Message(Random(3).randbytes(3 * MEBIBYTE)), Message(b"small")]
    client.produce(server, topic, sent, Sending(request_bytes_max=4 * MEBIBYTE))
    assert [message_of(one) for one in read_all(client, server, topic, 2)] == sent


@pytest.mark.feature("records larger than max.message.bytes are refused")
def test_a_record_larger_than_the_topic_allows_is_refused(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    large = [Message(Random(3).randbytes(2 * MEBIBYTE))]
    with pytest.raises(PeerError) as refusal:
        client.produce(server, topic, large, Sending(request_bytes_max=4 * MEBIBYTE))
    assert refusal.value.name == "MESSAGE_TOO_LARGE"
    assert ours.ends(server, topic, 0) == (0, 0)
    client.produce(server, topic, [Message(b"small")], PLAIN)
    assert [one.value for one in read_all(client, server, topic, 1)] == [b"small"]


@pytest.mark.feature("topics are created by their first use")
def test_a_topic_is_created_by_its_first_record(client: Client, server: Server, topic: str) -> None:
    client.produce(server, topic, [Message(b"first")], PLAIN)
    assert [one.value for one in read_all(client, server, topic, 1)] == [b"first"]
