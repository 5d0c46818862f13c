"""A member of a consumer group by librdkafka."""

# confluent-kafka's types say less than it does.
# pyright: basic

import struct
import threading
import time
from random import Random
from typing import Any, Final

from quorate.jepsen.clients import librdkafka
from quorate.jepsen.clients.grouping import (
    CLOSE_S_MAX,
    COMMIT_ODDS,
    LIFE_POLLS,
    POLL_RECORDS,
    POLL_S,
    Diary,
    Membership,
)
from quorate.jepsen.clients.values import decode
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder

GENERATION: Final = struct.Struct("<i").unpack_from
GENERATION_AT: Final = len(b"CGMDv2:")


class StockMember:
    """A thread with one consumer of librdkafka after the other."""

    def __init__(self, recorder: Recorder, membership: Membership, rng: Random) -> None:
        self.errors: list[str] = []
        self._kafka: Any = librdkafka.load()
        self._membership = membership
        self._rng = rng
        self._diary = Diary(recorder, membership)
        self._owned: set[int] = set()
        self._doing = ("begin", time.monotonic())
        """What librdkafka was asked for last, and when: it is in C, and has no traceback."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            call, since_s = self._doing
            seconds = time.monotonic() - since_s
            self.errors.append(
                f"a member of {self._membership.group} did not leave in time:"
                f" it has been in {call}() for {seconds:.0f} s"
            )

    def _properties(self) -> dict[str, Any]:
        membership = self._membership
        properties: dict[str, Any] = {
            **librdkafka.COMMON,
            "bootstrap.servers": membership.bootstrap,
            "group.id": membership.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "group.protocol": membership.protocol,
        }
        if membership.is_classic:
            properties["session.timeout.ms"] = membership.session_ms
            properties["heartbeat.interval.ms"] = membership.session_ms // 5
            properties["partition.assignment.strategy"] = membership.strategy
        return properties

    def _run(self) -> None:
        while not self._stopping.is_set():
            client = self._kafka.Consumer(self._properties())
            client.subscribe(
                [self._membership.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._revoked,
            )
            try:
                for _ in range(self._rng.randint(*LIFE_POLLS)):
                    self._poll(client)
                    if self._rng.random() < COMMIT_ODDS:
                        self._commit(client)
                    if self._stopping.is_set():
                        break
            finally:
                self._doing = ("close", time.monotonic())
                client.close()
                self._owned.clear()
                self._diary.revoked()

    def _poll(self, client: Any) -> None:
        self._diary.begin_poll()
        reads: dict[str, tuple[list[int], list[int]]] = {}
        self._doing = ("consume", time.monotonic())
        for message in client.consume(POLL_RECORDS, POLL_S):
            if message.error() is None:
                partition = self._membership.partition(message.partition())
                offsets, values = reads.setdefault(partition, ([], []))
                offsets.append(message.offset())
                values.append(decode(message.value()))
            elif message.error().fatal():  # it tries the others again by itself
                self.errors.append(f"librdkafka reads no more: {message.error()}")
        self._diary.end_poll(reads)

    def _commit(self, client: Any) -> None:
        offsets = self._diary.begin_commit()
        if not offsets:
            return
        places = [
            self._kafka.TopicPartition(self._membership.topic, _number(partition), offset)
            for partition, offset in offsets.items()
        ]
        self._doing = ("commit", time.monotonic())
        try:
            answers = client.commit(offsets=places, asynchronous=False)
        except self._kafka.KafkaException:  # an attempt before may have been carried out
            self._diary.end_commit(Kind.INFO)
        else:
            done = all(answer.error is None for answer in answers)
            self._diary.end_commit(Kind.OK if done else Kind.INFO)

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        """Take note; of a cooperative group these are what is new."""
        self._owned |= {each.partition for each in partitions}
        generation: int | None = None  # of others it may be newer than what it tells
        if self._membership.is_classic:
            metadata: bytes = client.consumer_group_metadata()
            (generation,) = GENERATION(metadata, GENERATION_AT)
        names = map(self._membership.partition, self._owned)
        self._diary.assigned(client.memberid() or "", generation, names)

    def _revoked(self, _client: Any, partitions: list[Any]) -> None:
        self._owned -= {each.partition for each in partitions}
        self._diary.revoked()


def _number(partition: str) -> int:
    return int(partition.rpartition("-")[2])
