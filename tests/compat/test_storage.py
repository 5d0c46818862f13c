"""Storage: what clients and other people's eyes see of segments, retention and restarts."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.compat import serving
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.model import DEADLINE_S, Client, Message, Sending, Server, Task, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.conftest import Clients, NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

MEBIBYTE = 1 << 20
PLAIN = Sending()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.feature("segments of segment.bytes, named by their first offset")
@pytest.mark.client("confluent-kafka")
def test_closed_segments_are_within_one_batch_of_their_size(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(segment_bytes=str(MEBIBYTE))
    random = Random(7)
    sent = [Message(random.randbytes(random.randint(1, 5000))) for _ in range(2000)]
    how = Sending(request_bytes_max=50_000)
    Librdkafka().produce(broker.server, topic, sent, how)
    segments = sorted(broker.partition_folder(topic).glob("*.log"))
    assert len(segments) >= 4
    first_offsets = [int(segment.stem) for segment in segments]
    assert all(len(segment.stem) == 20 for segment in segments)
    batches = broker.stored(topic)
    assert set(first_offsets) <= {batch.base_offset for batch in batches}
    largest_bytes = max(batch.size_bytes for batch in batches)
    for closed in segments[:-1]:
        assert MEBIBYTE - largest_bytes <= closed.stat().st_size <= MEBIBYTE


@pytest.mark.feature("retention.bytes: the oldest segments go, readers go on at the first left")
def test_the_oldest_records_go_when_there_is_too_much(
    client: Client, broker: Broker, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(segment_bytes=str(MEBIBYTE), retention_bytes=str(2 * MEBIBYTE))
    value = Random(1).randbytes(100_000)
    ours.produce(broker.server, topic, [Message(value)] * 50, Sending(request_bytes_max=150_000))
    wait_until(lambda: ours.ends(broker.server, topic, 0)[0] > 0)
    wait_until(lambda: len(list(broker.partition_folder(topic).glob("*.log"))) <= 4)
    first, end = client.ends(broker.server, topic, 0)
    assert 0 < first <= end - 20
    (received,) = client.consume(broker.server, Task(topic, {0: 0}, 1))
    assert received.offset >= first
    assert received.value == value


@pytest.mark.feature("retention.ms: kept until then whether or not consumed, then gone")
@pytest.mark.client("confluent-kafka")
def test_records_are_kept_as_long_as_the_topic_says(
    server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(retention_ms="-1")
    client = Librdkafka()
    hour_ago_ms = time.time_ns() // 1_000_000 - 3_600_000
    sent = [Message(b"%d" % i, timestamp_ms=hour_ago_ms) for i in range(10)]
    client.produce(server, topic, sent, PLAIN)
    task = Task(topic, {0: 0}, 10)
    for _ in range(2):  # reading takes nothing away
        assert [one.value for one in client.consume(server, task)] == [one.value for one in sent]
    client.configure(server, topic, "retention.ms", "7200000")
    time.sleep(0.5)  # several looks for what is too old
    assert client.ends(server, topic, 0) == (0, 10)
    client.configure(server, topic, "retention.ms", "60000")
    wait_until(lambda: client.ends(server, topic, 0) == (10, 10))
    client.produce(server, topic, [Message(b"new")], PLAIN)
    (received,) = client.consume(server, Task(topic, {0: 3}, 1))
    assert (received.offset, received.value) == (10, b"new")


@pytest.mark.feature("a restart: topics, settings, records and producers' sequences are there")
@pytest.mark.client("all together")
def test_everything_is_there_after_a_restart(tmp_path: Path, clients: Clients) -> None:
    there = [clients.get(name) for name in ("confluent-kafka", "kafka-python", "aiokafka")]
    sent = [Message(b"%d" % i, b"key") for i in range(100)]
    with serving.quorate({}, tmp_path) as first:
        for client in there:
            client.create(first.server, TopicSpec(client.name, 1, {"segment.bytes": "1048576"}))
            client.produce(first.server, client.name, sent, Sending(idempotent=True))
    (tmp_path / "quorate.log").unlink()
    with serving.quorate({}, tmp_path) as second:
        for client in there:
            for other in there:
                task = Task(client.name, {0: "earliest"}, 100)
                received = other.consume(second.server, task)
                assert [Message(one.value, one.key) for one in received] == sent
            assert client.configs(second.server, client.name)["segment.bytes"] == "1048576"
            places = client.produce(second.server, client.name, sent, Sending(idempotent=True))
            assert [place.offset for place in places] == list(range(100, 200))
