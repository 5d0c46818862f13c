"""Shards: the coordinators of an internal topic, one for each of its partitions led here."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, Generic, TypeVar

from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replicas import Replicas
from quorate.broker.shards.effects import Machine, Writer
from quorate.broker.shards.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
from quorate.broker.shards.shard import Shard, ShardHost
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.quorum.metadata.image import PartitionState

M = TypeVar("M", bound=Machine)

_HASH_MAX: Final = 2**31 - 1
KEYS_REMEMBERED: Final = 4096
"""Of so many keys the hash is remembered: every request asks."""
KEY_REMEMBERED_MAX: Final = 200
"""Longer ones are hashed each time: anybody may ask for any number of them."""


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition whose leader coordinates a key, the same as in Kafka."""
    hash_of = _remembered_hash if len(key) <= KEY_REMEMBERED_MAX else _hash
    return hash_of(key) % partition_count


def _hash(key: str) -> int:
    """Return Java's ``String.hashCode``, which counts UTF-16 code units, as Kafka's ``Utils.abs``.

    That is how far it is from 0, and not what it is without its sign bit; of the least one, 0.
    """
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8) + units[at + 1]) & 0xFFFFFFFF
    return (value if value <= _HASH_MAX else 2**32 - value) & _HASH_MAX


_remembered_hash = lru_cache(maxsize=KEYS_REMEMBERED)(_hash)


class Shards(Generic[M]):
    """The coordinators that this broker has for now.

    State: a shard for each partition of the topic that this broker leads, loaded or loading; it
    follows the replicas, and ends with the epoch in which it leads.
    """

    def __init__(
        self,
        topic: str,
        make: Callable[[Writer], M],
        replicas: Replicas,
        host: ShardHost,
    ) -> None:
        self.topic = topic
        self._make = make
        self._replicas = replicas
        self._host = host
        self._shards: dict[int, Shard[M]] = {}
        replicas.on_followed.append(self._follow)

    def __iter__(self) -> Iterator[M]:
        """Yield the machines that are loaded."""
        return (shard.machine for shard in list(self._shards.values()) if self._serves(shard))

    @property
    def is_loading(self) -> bool:
        """Whether there is one that cannot be asked yet."""
        return any(not shard.is_loaded for shard in self._shards.values())

    def partition_of(self, key: str) -> tuple[int, PartitionState]:
        """Return the partition that a key belongs to, and who leads it.

        Raises:
            CoordinatorNotAvailableError: the topic does not exist yet.
        """
        topic = self._replicas.image.topics.get(self.topic)
        if topic is None:
            raise CoordinatorNotAvailableError(f"there is no topic {self.topic} yet")
        partition = partition_of(key, len(topic.partitions))
        return partition, topic.partitions[partition]

    def of(self, key: str) -> M:
        """Return the machine that coordinates a key.

        Raises:
            NotCoordinatorError: another broker does.
            CoordinatorLoadInProgressError: this one will, soon.
            CoordinatorNotAvailableError: nobody can yet.
        """
        partition, _ = self.partition_of(key)
        shard = self._shards.get(partition)
        if shard is None or not shard.is_led:
            raise NotCoordinatorError
        if not shard.is_loaded:
            raise CoordinatorLoadInProgressError
        return shard.machine

    def marker_appended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """Take note of the end of a transaction, in the turn in which its marker was appended.

        Args:
            partition: of the topic; nothing happens if this broker does not coordinate it.
            producer_id: whose transaction ended.
            committed: how it ended.
        """
        shard = self._shards.get(partition)
        if shard is not None:
            shard.marker_appended(producer_id, committed=committed)

    @staticmethod
    def _serves(shard: Shard[M]) -> bool:
        return shard.is_loaded and shard.is_led

    def _follow(self, delta: MetadataDelta) -> None:
        """Begin and end shards, as the partitions of the topic come and go."""
        if self.topic not in delta.touched.topics:
            return
        topic = delta.after.topics.get(self.topic)
        count = 0 if topic is None else len(topic.partitions)
        led = {n: r for n in range(count) if (r := self._replicas.find(self.topic, n)) is not None}
        for partition, shard in list(self._shards.items()):
            if led.get(partition) is not shard.replica:
                del self._shards[partition]
                shard.close()
        for partition, replica in led.items():
            if partition not in self._shards:
                self._begin(partition, replica)

    def _begin(self, partition: int, replica: LeaderReplica) -> None:
        shard = self._shards[partition] = Shard(replica, self._make, self._host)
        shard.load()
