"""Random batches, sound and damaged, to topics of random settings: taken and refused alike.

What differs on purpose is in ``differs``; whatever else does fails the test with its seed, the
request and both answers.
"""

import struct
import time
from random import Random
from typing import Any, Final

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.records.checksum import crc32c
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.compat.clients.model import DEADLINE_S, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.telling import Difference, Pair, differences
from tests.compat.wire import Wire, connected
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 80
HOUR_MS: Final = 3_600_000
ALL_BYTES: Final = 1 << 24
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
COVERED_FROM: Final = 21
LOG_APPEND_TIME: Final = 8
SMALL: Final = "300"
SETTINGS: Final = {
    "compression.type": ("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "message.timestamp.before.max.ms": (str(2**63 - 1), str(HOUR_MS)),
    "message.timestamp.after.max.ms": (str(HOUR_MS), str(HOUR_MS), "60000", str(2**63 - 1)),
    "max.message.bytes": ("1048588", "1048588", SMALL),
    "cleanup.policy": ("delete", "delete", "compact", "compact,delete", ""),
}
FAULTS: Final[dict[str, tuple[int, ...]]] = {
    "attributes": (LOG_APPEND_TIME, 16, 32, 48, 64),
    "last_offset_delta": (-1, 0, 1, 7),
    "magic": (0, 1),
    "leader_epoch": (5, -1),
    "length": (-1, 0, 13, 48, 49, 2**30),
    "crc": (0,),
    "count": (-1, 0, 1, 7),
    "producer_id": (5,),
    "producer_epoch": (0, 5),
    "base_sequence": (-2, 0, 5),
}
FIELDS: Final = (
    "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip


class Session:
    """Writes to one topic on both brokers, and reads what was written."""

    def __init__(self, pair: Pair, topic: str, settings: dict[str, str], seed: int) -> None:
        self.pair = pair
        self.topic = topic
        self.settings = settings
        self.seed = seed
        self.rng = Random(seed)
        self.at_ms = time.time_ns() // 1_000_000

    def compare(self, api_key: ApiKey, version: int, body: Any, said: dict[str, Any]) -> Any:
        kafka, ours = self.pair.ask(api_key, version, body)
        found = [d for d in differences(kafka, ours) if not self.differs(d, said)]
        assert not found, (f"seed {self.seed}", self.settings, said, api_key.name, version, found)
        return kafka

    def differs(self, difference: Difference, said: dict[str, Any]) -> bool:
        """Whether Quorate differs there on purpose, or in what nobody can rely on."""
        field = difference.path.rpartition(".")[2]
        kafka, ours = difference.kafka, difference.ours
        dated = self.settings["message.timestamp.type"] == "LogAppendTime"
        compressed = self.settings["compression.type"] != "producer"
        match field:
            case "log_append_time_ms":
                repeated = ours == -1
                return repeated or (dated and kafka > 0 and ours > 0)
            case "max_timestamp_ms" | "base_timestamp_ms" | "crc" if dated:
                return True
            case "batch_length" | "records" | "crc" | "attributes":  # of what they compress anew
                return compressed
            case "error_code":  # of a length that is not the batch's
                return "length" in said and "NONE" not in (kafka, ours)
            case _:
                return False

    def step(self) -> None:
        rng = self.rng
        batch, said = self.batch()
        data = PartitionProduceData(index=0, records=memoryview(batch))
        body = ProduceRequest(
            acks=rng.choice([1, -1]),
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )
        told = self.compare(ApiKey.PRODUCE, rng.randrange(3, 13), body, said)
        answer = told["responses"][0]["partition_responses"][0]
        if answer["error_code"] == "NONE":
            wanted = FetchPartition(
                partition=0, fetch_offset=answer["base_offset"], partition_max_bytes=ALL_BYTES
            )
            topics = [FetchTopic(topic=self.topic, partitions=[wanted])]
            fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
            self.compare(ApiKey.FETCH, rng.randrange(10, 13), fetch, said)

    def batch(self) -> tuple[bytearray, dict[str, Any]]:
        """Return a batch, and what is special about it."""
        rng, count = self.rng, self.rng.choice([1, 2, 5])
        ages = rng.choice([[0], [0, 5, -5], [0, -2 * HOUR_MS], [-2 * HOUR_MS], [2 * HOUR_MS]])
        # One fault at a time: of two, each may tell another one.
        small = self.settings["max.message.bytes"] == SMALL
        ages = [0] if small else ages
        keyless = [b"k"] if small or ages != [0] else [b"k", None]
        times = [self.at_ms - rng.choice(ages) for _ in range(count)]
        keys = rng.choice([[b"k"], [b"k", b"j", b""], keyless])
        codec = rng.choice([0, 0, 1, 2, 3, 4])
        batch = bytearray(
            make_batch(
                [rng.choice([None, b"", b"v", b"v" * 100]) for _ in range(count)],
                keys=[rng.choice(keys) for _ in range(count)],
                timestamps_ms=times,
                producer=rng.choice([NO_PRODUCER, ProducerStamp(rng.randrange(1 << 40), 0, 0)]),
                codec=codec,
            )
        )
        said: dict[str, Any] = {"count": count, "ages": ages, "keys": keys, "codec": codec}
        if small or rng.random() < 0.6:
            return batch, said
        field = rng.choice(list(FAULTS))
        value = rng.choice(FAULTS[field])
        if value == LOG_APPEND_TIME and self.settings["message.timestamp.type"] == "CreateTime":
            return batch, said  # Kafka takes it, though the time is not the broker's
        parts = list(HEADER.unpack_from(batch))
        at = FIELDS.index(field)
        parts[at] = parts[at] | value if field == "attributes" else value
        HEADER.pack_into(batch, 0, *parts)
        if field != "crc":
            self.seal(batch)
        return batch, {**said, field: value}

    @staticmethod
    def seal(batch: bytearray) -> None:
        """Give a batch the checksum that it should have."""
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[COVERED_FROM:])))


def new_settings(rng: Random) -> dict[str, str]:
    return {name: rng.choice(values) for name, values in SETTINGS.items()}


@pytest.mark.feature("random batches, sound and damaged: taken and refused as by Kafka")
@pytest.mark.parametrize("seed", range(8))
def test_both_take_and_refuse_the_same_batches(
    apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    settings = new_settings(Random(seed))
    topic = f"batches-{seed}-{time.time_ns()}"
    with connected(apache_kafka.server) as kafka, connected(broker.server) as own:
        pair = Pair(kafka, own)
        for wire, server in ((kafka, apache_kafka.server), (own, broker.server)):
            ours.create(server, TopicSpec(topic, 1, settings))
            wait_for_leader(wire, topic)
        session = Session(pair, topic, settings, seed)
        for _ in range(STEPS):
            session.step()


def wait_for_leader(wire: Wire, topic: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while wire.fetch(topic, 0).error_code:
        assert time.monotonic() < deadline, "the topic has no leader"
        time.sleep(0.01)
