"""Compacted topics: what other people's clients and tools make of segments that were compacted."""

import time
from dataclasses import dataclass

import pytest

from quorate.records.batch import BatchHeader
from tests.compat.clients.agent import Java
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.model import (
    DEADLINE_S,
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
from tests.compat.conftest import NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

KEYS = 20
ROUNDS = 30
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "60000",
    "max.message.bytes": "2000",
}


def fill(client: Client, server: Server, topic: str, how: Sending) -> dict[bytes | None, bytes]:
    """Write some keys again and again, and then a record that is much newer; return the table."""
    now_ms = time.time_ns() // 1_000_000
    sent = [
        Message(b"%d" % turn + bytes(50), b"key-%d" % key, timestamp_ms=now_ms - 3_600_000)
        for turn in range(ROUNDS)
        for key in range(KEYS)
    ]
    gone = Message(None, b"key-0", timestamp_ms=now_ms - 3_600_000)
    client.produce(server, topic, [*sent, gone], how)
    client.produce(server, topic, [Message(b"head", b"head", timestamp_ms=now_ms)], how)
    table = {message.key: message.value for message in sent if message.value is not None}
    return {**table, b"head": b"head"} | {b"key-0": b""}


def wait_until_compacted(broker: Broker, topic: str) -> list[BatchHeader]:
    """Return the batches once no key is there twice before the newest segment."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        if len(list(broker.partition_folder(topic).glob("*.log"))) > 1:
            try:
                batches = broker.stored(topic)
            except (FileNotFoundError, IndexError):
                continue  # files are changing places
            if sum(batch.record_count for batch in batches) == KEYS + 1:
                return batches
        assert time.monotonic() < deadline, "it was not compacted in time"
        time.sleep(0.05)


def read(client: Client, server: Server, topic: str) -> list[Received]:
    return client.consume(server, Task(topic, {0: 0}, KEYS + 1))


@dataclass(frozen=True, slots=True)
class Compacted:
    """A topic that was compacted, and what is in it."""

    topic: str
    table: dict[bytes | None, bytes]
    batches: list[BatchHeader]


@pytest.fixture(scope="module")
def compacted(broker: Broker, ours: Ours) -> Compacted:
    """One for all that only read it."""
    topic = "compacted"
    ours.create(broker.server, TopicSpec(topic, 1, COMPACTED))
    how = Sending(idempotent=True, request_bytes_max=1500)
    table = fill(Librdkafka(), broker.server, topic, how)
    return Compacted(topic, table, wait_until_compacted(broker, topic))


@pytest.mark.feature("a compacted topic: the last record of each key, at its offset")
def test_the_last_record_of_each_key_is_read(
    client: Client, server: Server, compacted: Compacted
) -> None:
    topic = compacted.topic
    received = read(client, server, topic)
    assert {one.key: one.value or b"" for one in received} == compacted.table
    first = (ROUNDS - 1) * KEYS + 1
    assert [one.offset for one in received] == list(range(first, first + KEYS + 1))
    # From an offset that was removed, the next one that was not is read.
    later = client.consume(server, Task(topic, {0: 7}, 1))
    assert later[0].offset == first
    assert client.ends(server, topic, 0) == (0, ROUNDS * KEYS + 2)


@pytest.mark.feature("compaction keeps the codec, and what idempotent producers wrote last")
@pytest.mark.client("confluent-kafka")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_compacted(
    codec: str, broker: Broker, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(**{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    how = Sending(codec=codec, idempotent=True, request_bytes_max=1500)
    table = fill(Librdkafka(), broker.server, topic, how)
    batches = wait_until_compacted(broker, topic)
    assert {batch.compression for batch in batches if batch.record_count > 1} <= {
        ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    }
    assert any(batch.has_producer_id for batch in batches)
    assert {one.key: one.value or b"" for one in read(ours, broker.server, topic)} == table


@pytest.mark.feature("Kafka's DumpLogSegments reads a compacted segment and its indexes")
@pytest.mark.client("java")
def test_kafkas_own_tool_reads_compacted_segments(
    broker: Broker, compacted: Compacted, jvm: Java
) -> None:
    folder = broker.partition_folder(compacted.topic)
    paths = [
        path for suffix in ("log", "index", "timeindex") for path in folder.glob(f"*.{suffix}")
    ]
    names = ",".join(map(str, sorted(paths)))
    options = ("--print-data-log", "--deep-iteration")
    done = jvm.tool("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)
    lines = done.stdout.splitlines()
    assert sum(line.startswith("baseOffset:") for line in lines) == len(compacted.batches)
    assert sum(line.startswith("| offset:") for line in lines) == KEYS + 1
    assert not [line for line in lines if "isvalid: false" in line]
    assert not [line for line in lines if "Mismatches" in line or "out of order" in line.lower()]


@pytest.mark.feature("records without a key are refused by compacted topics")
@pytest.mark.client("confluent-kafka")
def test_records_without_a_key_are_refused(server: Server, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    with pytest.raises(PeerError) as refused:
        Librdkafka().produce(server, topic, [Message(b"no key")], Sending())
    assert refused.value.name == "INVALID_RECORD"


@pytest.mark.feature("settings of compaction are read and changed")
@pytest.mark.needs(Op.CONFIGS)
def test_settings_of_compaction_are_changed(client: Client, server: Server, topic: str) -> None:
    client.create(server, TopicSpec(topic, 1, COMPACTED))
    for name, value in {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "1000",
        "max.compaction.lag.ms": "2000",
        "delete.retention.ms": "3000",
    }.items():
        client.configure(server, topic, name, value)
        assert client.configs(server, topic)[name] == value
