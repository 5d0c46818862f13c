"""Replicas: the partitions that this broker hosts, as the metadata image says."""

import logging
from collections.abc import Callable, Iterator, Mapping

from quorate.broker.log.store import LogStore
from quorate.broker.replication.leader import LeaderReplica, News
from quorate.errors import (
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from quorate.model import TopicPartition
from quorate.quorum.metadata.image import ConfigResource, MetadataImage, PartitionState
from quorate.settings import TOPIC_SETTINGS, TopicConfig, topic_config

logger = logging.getLogger(__name__)


class Replicas:
    """What this broker hosts: opens, leads and deletes partitions as the image changes.

    State: the image last applied, a LeaderReplica for each partition led, and the partitions whose
    log could not be opened, to be tried again.
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
        self._leaders: dict[tuple[str, int], LeaderReplica] = {}
        self._unopened: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[LeaderReplica]:
        return iter(self._leaders.values())

    def find(self, topic: str, partition: int) -> LeaderReplica | None:
        """Return the replica if this broker leads the partition."""
        return self._leaders.get((topic, partition))

    def leader(self, topic: str, partition: int) -> LeaderReplica:
        """Return the replica that this broker leads.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            NotLeaderOrFollowerError: another broker leads it, or nobody does.
            StorageError: its log could not be opened.
        """
        replica = self._leaders.get((topic, partition))
        if replica is not None:
            return replica
        found = self.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise UnknownTopicOrPartitionError
        if found.partitions[partition].leader_id == self.node_id:
            raise StorageError
        raise NotLeaderOrFollowerError

    def topic_config(self, topic: str) -> TopicConfig:
        """Return the settings of a topic: its own, else the cluster's, else this node's."""
        configs = self.image.configs
        node = {
            **self._node_texts,
            **configs.get(ConfigResource("broker", ""), {}),
            **configs.get(ConfigResource("broker", str(self.node_id)), {}),
        }
        own = configs.get(ConfigResource("topic", topic), {})
        # A newer controller may know settings that this broker does not: they have no effect here.
        return topic_config(node, {n: v for n, v in own.items() if n in TOPIC_SETTINGS})

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Follow the image: stop what is not ours any more, then lead what is.

        It must know every topic that this broker has a log of: the others' logs are deleted.
        """
        before, self.image = self.image, image
        ended = [r for key, r in self._leaders.items() if not self._still_led(key, r)]
        for replica in ended:
            del self._leaders[replica.topic_partition]
        self._delete_orphans()
        for name, topic in image.topics.items():
            if topic is before.topics.get(name) and image.configs is before.configs:
                continue
            for index, state in enumerate(topic.partitions):
                if state.leader_id == self.node_id:
                    self._lead(TopicPartition(name, index), topic.topic_id, state, now_ms)
        for replica in ended:
            replica.close()  # last, so that who waited there finds what is now

    def _still_led(self, key: tuple[str, int], replica: LeaderReplica) -> bool:
        topic = self.image.topics.get(key[0])
        if topic is None or topic.topic_id != replica.topic_id:
            return False
        state = topic.partitions[key[1]]
        return (state.leader_id, state.leader_epoch) == (self.node_id, replica.leader_epoch)

    def _lead(
        self, topic_partition: TopicPartition, topic_id: bytes, state: PartitionState, now_ms: int
    ) -> None:
        config = self.topic_config(topic_partition.topic)
        replica = self._leaders.get(topic_partition)
        if replica is not None:
            replica.state = state
            replica.configure(config)
            replica.advance()
            return
        try:
            log = self.store.create(topic_partition, topic_id, config, now_ms=now_ms)
        except StorageError as error:
            # The partition answers KAFKA_STORAGE_ERROR until the log can be opened.
            logger.warning("cannot open the log of %s: %s", topic_partition, error)
            self._unopened.add(topic_partition)
            return
        self._leaders[topic_partition] = LeaderReplica(
            topic_partition, topic_id, state, log, self.news
        )

    def reopen(self, now_ms: int) -> None:
        """Try again to open the logs that could not be: the disk may have space now."""
        unopened, self._unopened = self._unopened, set()
        for topic_partition in unopened:
            topic = self.image.topics.get(topic_partition.topic)
            if topic is None or topic_partition.partition >= len(topic.partitions):
                continue
            state = topic.partitions[topic_partition.partition]
            if state.leader_id == self.node_id:
                self._lead(topic_partition, topic.topic_id, state, now_ms)

    def _delete_orphans(self) -> None:
        """Delete the logs of deleted topics; their files stay for ``file.delete.delay.ms``."""
        for topic_partition, topic_id in list(self.store.topic_ids.items()):
            if self.image.topic_of(topic_id) is not None:
                continue
            logger.info("deleting the log of %s: its topic was deleted", topic_partition)
            try:
                self.store.delete(topic_partition)
            except StorageError:
                logger.exception("cannot delete the log of %s", topic_partition)

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
