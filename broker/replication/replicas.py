"""Replicas: the partitions that this broker hosts, as the metadata image says."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from quorate.broker.log.store import LogStore
from quorate.broker.replication.leader import LeaderReplica, News
from quorate.errors import (
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from quorate.model import TopicPartition
from quorate.quorum.metadata.delta import MetadataDelta, difference
from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ConfigResource,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from quorate.settings import TOPIC_SETTINGS, TopicConfig, topic_config

logger = logging.getLogger(__name__)

PARTITIONS_AT_ONCE: Final = 50
"""How many partitions are seen to before others get a turn: some 3 ms."""

T = TypeVar("T")


class LedPartition(NamedTuple):
    """A partition that this broker leads."""

    topic_partition: TopicPartition
    topic_id: bytes
    state: PartitionState
    config: TopicConfig


class Replicas:
    """What this broker hosts: opens, leads and deletes partitions as the image changes.

    State: the image last applied, and a LeaderReplica for each partition led.
    """

    def __init__(
        self, node_id: int, store: LogStore, image: MetadataImage, node_texts: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.store = store
        self.image = image
        self.news = News()
        self.on_unsynced: Callable[[], None] | None = None
        self._node_texts = node_texts
        self._own_resource = ConfigResource(BROKER, str(node_id))
        self._leaders: dict[tuple[str, int], LeaderReplica] = {}

    def __iter__(self) -> Iterator[LeaderReplica]:
        return iter(self._leaders.values())

    def find(self, topic: str, partition: int) -> LeaderReplica | None:
        """Return the replica if this broker leads the partition."""
        return self._leaders.get((topic, partition))

    def leader(self, topic: str, partition: int) -> LeaderReplica:
        """Return the replica that this broker leads.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            NotLeaderOrFollowerError: another broker leads it, or nobody does (yet).
        """
        replica = self._leaders.get((topic, partition))
        if replica is not None:
            return replica
        found = self.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise UnknownTopicOrPartitionError
        raise NotLeaderOrFollowerError

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        """Return the settings of a topic: its own, else the cluster's, else this node's."""
        node = {
            **self._node_texts,
            **image.config(ConfigResource(BROKER, CLUSTER_DEFAULT)),
            **image.config(self._own_resource),
        }
        own = image.config(ConfigResource(TOPIC, topic))
        # A newer controller may know settings that this broker does not: they have no effect here.
        return topic_config(node, {n: v for n, v in own.items() if n in TOPIC_SETTINGS})

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Follow the image, in one go."""
        for _ in self.follow(difference(self.image, image), now_ms):
            pass

    def follow(self, delta: MetadataDelta, now_ms: int) -> Iterator[None]:
        """Follow what changed since the image: stop what is not ours any more, lead what is.

        The first image that is followed must know every topic that this broker has a log of: the
        others' logs are deleted.

        Yields after every few partitions, so that others can be served meanwhile: they find the old
        image, less what is led no longer. Another delta may be followed when this one is through.
        """
        assert delta.before.version == self.image.version, "deltas follow each other"
        ended = list(self._ended(delta))
        for replica in ended:
            del self._leaders[replica.topic_partition]
        for orphans in _few(self._orphans(delta)):
            self._delete(orphans)
            yield
        for led in _few(self._led(delta)):
            for partition in led:
                self._lead(partition, now_ms)
            yield
        self.image = delta.after
        for replica in ended:
            replica.close()  # last, so that who waited there finds what is now

    def _ended(self, delta: MetadataDelta) -> Iterator[LeaderReplica]:
        """Yield what is led no longer, or not in the same epoch."""
        for name in delta.touched.topics:
            before, after = delta.before.topics.get(name), delta.after.topics.get(name)
            for index in range(len(before.partitions) if before else 0):
                replica = self._leaders.get((name, index))
                if replica is not None and not self._still_led(replica, after):
                    yield replica

    def _still_led(self, replica: LeaderReplica, topic: TopicImage | None) -> bool:
        if topic is None or topic.topic_id != replica.topic_id:
            return False
        state = topic.partitions[replica.topic_partition.partition]
        return (state.leader_id, state.leader_epoch) == (self.node_id, replica.leader_epoch)

    def _led(self, delta: MetadataDelta) -> Iterator["LedPartition"]:
        """Yield the partitions to lead of the topics about which something changed."""
        for name in self._topics_to_see_to(delta):
            topic = delta.after.topics.get(name)
            if topic is None:
                continue
            config = self._topic_config(name, delta.after)
            for index, state in enumerate(topic.partitions):
                if state.leader_id == self.node_id:
                    yield LedPartition(TopicPartition(name, index), topic.topic_id, state, config)

    def _topics_to_see_to(self, delta: MetadataDelta) -> set[str]:
        resources = delta.touched.configs
        names = set(delta.touched.topics)
        names.update(resource.name for resource in resources if resource.type == TOPIC)
        defaults = {ConfigResource(BROKER, CLUSTER_DEFAULT), self._own_resource}
        if not defaults.isdisjoint(resources):
            names.update(replica.topic_partition.topic for replica in self)
        return names

    def _lead(self, led: "LedPartition", now_ms: int) -> None:
        replica = self._leaders.get(led.topic_partition)
        if replica is not None:
            replica.state = led.state
            replica.configure(led.config)
            replica.advance()
            return
        log = self.store.create(led.topic_partition, led.topic_id, led.config, now_ms=now_ms)
        self._leaders[led.topic_partition] = LeaderReplica(
            led.topic_partition, led.topic_id, led.state, log, self.news
        )

    def _orphans(self, delta: MetadataDelta) -> Iterator[TopicPartition]:
        """Yield the logs whose topics were deleted; at first, perhaps long ago."""
        topic_ids = self.store.topic_ids
        if delta.before.version == 0:
            for topic_partition, topic_id in list(topic_ids.items()):
                if delta.after.topic_of(topic_id) is None:
                    yield topic_partition
            return
        for topic in delta.removed_topics():
            for index in range(len(topic.partitions)):
                topic_partition = TopicPartition(topic.name, index)
                if topic_ids.get(topic_partition) == topic.topic_id:
                    yield topic_partition

    def _delete(self, orphans: Sequence[TopicPartition]) -> None:
        """Delete logs; their files stay for ``file.delete.delay.ms``."""
        logger.info("deleting logs of deleted topics: %s", ", ".join(map(str, orphans)))
        try:
            self.store.delete_all(orphans)
        except StorageError:
            logger.exception("cannot delete the files of all logs of deleted topics")

    def settle(self) -> None:
        """Act on the news of a turn: readers look again, and who syncs logs is told."""
        progressed = self.news.progressed
        while progressed:
            for waiter in list(progressed.pop().read_waiters):
                waiter.on_progress()
        if self.news.unsynced and self.on_unsynced is not None:
            self.on_unsynced()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks, for the checkpoint."""
        return {r.topic_partition: r.high_watermark for r in self._leaders.values()}


def _few(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items, a few at a time."""
    iterator = iter(items)
    while few := list(islice(iterator, PARTITIONS_AT_ONCE)):
        yield few
