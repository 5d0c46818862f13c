"""Replicas: the partitions that this broker hosts, as the metadata image says."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from quorate.broker.log.store import LogStore
from quorate.broker.replication.fetching import FetchRules, LeaderFetcher
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.host import Host, News
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.replication.sessions import FollowerSessions
from quorate.errors import (
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from quorate.model import NO_LEADER, TopicPartition
from quorate.protocol.messages.data import FetchTopic
from quorate.quorum.metadata.delta import MetadataDelta, difference
from quorate.quorum.metadata.effective import min_insync_replicas
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
R = TypeVar("R", bound=Replica)


class HostedPartition(NamedTuple):
    """A partition that this broker has a replica of."""

    topic_partition: TopicPartition
    topic_id: bytes
    state: PartitionState
    config: TopicConfig


class Replicas:
    """What this broker hosts: leads, follows and deletes partitions as the image changes.

    State: the image last applied; a replica for each partition hosted; for each leader that is
    followed, what is fetched of it.  ``on_fetchers`` is called with the leaders for whose fetchers
    there is something new, ``on_followed`` with what changed, once it has been followed.
    """

    def __init__(
        self,
        node_id: int,
        store: LogStore,
        image: MetadataImage,
        node_texts: Mapping[str, str],
        rules: FetchRules | None = None,
    ) -> None:
        self.node_id = node_id
        self.store = store
        self.image = image
        self.host = Host(node_id)
        self.news: News = self.host.news
        self.sessions = FollowerSessions(self.host, self._find_leader)
        self.fetchers: dict[int, LeaderFetcher] = {}
        self.on_unsynced: Callable[[], None] | None = None
        self.on_alterations: Callable[[], None] | None = None
        self.on_fetchers: Callable[[int], None] | None = None
        self.on_followed: list[Callable[[MetadataDelta], None]] = []
        self._rules = rules or FetchRules()
        self._node_texts = node_texts
        self._own_resource = ConfigResource(BROKER, str(node_id))
        self._leaders: dict[tuple[str, int], LeaderReplica] = {}
        self._followers: dict[tuple[str, int], FollowerReplica] = {}
        self._touched_fetchers: set[int] = set()

    def __iter__(self) -> Iterator[LeaderReplica]:
        return iter(self._leaders.values())

    def hosted(self) -> Iterator[LeaderReplica | FollowerReplica]:
        """Yield every replica, of partitions led and followed."""
        yield from self._leaders.values()
        yield from self._followers.values()

    def hosts(self, replica: Replica) -> bool:
        """Whether a replica is one of ours still."""
        key = replica.topic_partition
        return self._leaders.get(key, self._followers.get(key)) is replica

    def find(self, topic: str, partition: int) -> LeaderReplica | None:
        """Return the replica if this broker leads the partition."""
        return self._leaders.get((topic, partition))

    def find_by_id(self, topic_id: bytes, partition: int) -> LeaderReplica | None:
        """Return the replica if this broker leads the partition of the topic with that id."""
        replica = self._leaders.get((self.image.topic_names.get(topic_id, ""), partition))
        return None if replica is None or replica.topic_id != topic_id else replica

    def follower(self, topic: str, partition: int) -> FollowerReplica | None:
        """Return the replica if this broker follows the partition."""
        return self._followers.get((topic, partition))

    def readable(self, topic: str | None, partition: int, topic_id: bytes | None = None) -> Replica:
        """Return the replica that consumers may read here, of a leader or a follower (KIP-392).

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            UnknownTopicIdError: there is one, but of a topic with another id.
            NotLeaderOrFollowerError: this broker has none (yet).
        """
        replica = None if topic is None else self._followers.get((topic, partition))
        if replica is None:
            return self.leader(topic, partition, topic_id)
        return _of_topic(replica, topic_id)

    def leader(
        self, topic: str | None, partition: int, topic_id: bytes | None = None
    ) -> LeaderReplica:
        """Return the replica that this broker leads.

        Who has named the topic by its id gives that, and the name if the image has one: while the
        metadata are followed in steps, there may be a replica of the next of that name already.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            UnknownTopicIdError: no topic has that id, or there is one of a topic with another.
            NotLeaderOrFollowerError: another broker leads it, or nobody does (yet).
        """
        if topic is None:
            raise UnknownTopicIdError
        replica = self._leaders.get((topic, partition))
        if replica is not None:
            return _of_topic(replica, topic_id)
        found = self.image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise UnknownTopicOrPartitionError
        raise NotLeaderOrFollowerError

    def _find_leader(self, topic: FetchTopic, partition: int) -> LeaderReplica:
        """Return the replica that a follower fetches from, whichever way it names the topic."""
        if topic.topic:
            return self.leader(topic.topic, partition)
        name = self.image.topic_names.get(topic.topic_id)
        return self.leader(name, partition, topic.topic_id)

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        """Return the settings of a topic: its own, else the cluster's, else this node's."""
        node = {
            **self._node_texts,
            **image.config(ConfigResource(BROKER, CLUSTER_DEFAULT)),
            **image.config(self._own_resource),
        }
        own = image.config(ConfigResource(TOPIC, topic))
        # A newer controller may know settings that this broker does not: they have no effect here.
        config = topic_config(node, {n: v for n, v in own.items() if n in TOPIC_SETTINGS})
        # All brokers and the controllers must agree on what is committed.
        return replace(config, min_insync_replicas=min_insync_replicas(image, topic))

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        """Follow the image, in one go."""
        for _ in self.follow(difference(self.image, image), now_ms):
            pass

    def follow(self, delta: MetadataDelta, now_ms: int) -> Iterator[None]:
        """Follow what changed since the image: stop what is not ours any more, begin what is.

        The first image that is followed must know every topic that this broker has a log of: the
        others' logs are set aside.

        Yields after every few partitions, so that others can be served meanwhile: they find the old
        image, less what has ended. Another delta may be followed when this one is through.
        """
        assert delta.before.version == self.image.version, "deltas follow each other"
        # Who is in service, and may be in sync, is not to be judged by what was.
        self.host.image = delta.after
        ended = list(self._ended(delta))
        for replica in ended:
            self._leave(replica)
        committed = {replica.topic_partition: replica.high_watermark for replica in ended}
        yield from self._let_go(delta, list(self._orphans(delta)))
        for hosted in _few(self._hosted(delta)):
            for partition in hosted:
                self._take_up(partition, committed.get(partition.topic_partition), now_ms)
            yield
        self.image = delta.after
        for replica in ended:
            self._close(replica)  # last, so that clients who waited there find what is now
        for followed in self.on_followed:
            followed(delta)
        self._tell_fetchers()
        if delta.touched.brokers:
            self.review()

    def _tell_fetchers(self) -> None:
        touched, self._touched_fetchers = self._touched_fetchers, set()
        if self.on_fetchers is not None:
            for leader_id in touched:
                self.on_fetchers(leader_id)

    def _ended(self, delta: MetadataDelta) -> Iterator[LeaderReplica | FollowerReplica]:
        """Yield what is not hosted any more, or not in the same epoch."""
        for name in delta.touched.topics:
            before, after = delta.before.topics.get(name), delta.after.topics.get(name)
            for index, state in enumerate(before.partitions if before else ()):
                key = (name, index)
                replica = self._leaders.get(key) or self._followers.get(key)
                if replica is not None and not self._goes_on(replica, state, after):
                    yield replica

    def _goes_on(self, replica: Replica, before: PartitionState, topic: TopicImage | None) -> bool:
        if topic is None or topic.topic_id != replica.topic_id:
            return False
        state = topic.partitions[replica.topic_partition.partition]
        if state is before:
            return True
        return self.node_id in state.replicas and (state.leader_id, state.leader_epoch) == (
            replica.state.leader_id,
            replica.leader_epoch,
        )

    def _leave(self, replica: Replica) -> None:
        key = replica.topic_partition
        if isinstance(replica, LeaderReplica):
            del self._leaders[key]
            # At once: what its log holds is another leader's to say from now on.
            for part in list(replica.parts):
                part.on_closed()
            return
        follower = self._followers.pop(key)
        fetcher = self.fetchers.get(replica.state.leader_id)
        if fetcher is not None:
            fetcher.remove(follower)
            self._touched_fetchers.add(replica.state.leader_id)

    def _close(self, replica: LeaderReplica | FollowerReplica) -> None:
        if isinstance(replica, LeaderReplica):
            successor = self._leaders.get(replica.topic_partition)
            if successor is not None and successor.log is replica.log:
                successor.take_over(replica)
        replica.close()

    def _hosted(self, delta: MetadataDelta) -> Iterator[HostedPartition]:
        """Yield the partitions of ours about which something changed."""
        configured = self._topics_configured(delta)
        for name in configured | delta.touched.topics:
            topic = delta.after.topics.get(name)
            if topic is None:
                continue
            config = self._topic_config(name, delta.after)
            before = delta.before.topics.get(name)
            same = before is not None and before.topic_id == topic.topic_id
            old = before.partitions if before is not None and same else ()
            unchanged = 0 if name in configured else len(old)
            for index, state in enumerate(topic.partitions):
                if index < unchanged and old[index] is state:
                    continue
                if self.node_id in state.replicas:
                    yield HostedPartition(
                        TopicPartition(name, index), topic.topic_id, state, config
                    )

    def _topics_configured(self, delta: MetadataDelta) -> set[str]:
        """Return the topics whose settings may have changed."""
        resources = delta.touched.configs
        names = {resource.name for resource in resources if resource.type == TOPIC}
        defaults = {ConfigResource(BROKER, CLUSTER_DEFAULT), self._own_resource}
        if not defaults.isdisjoint(resources):
            names.update(replica.topic_partition.topic for replica in self.hosted())
        return names

    def _take_up(self, partition: HostedPartition, high_watermark: int | None, now_ms: int) -> None:
        """Lead or follow a partition from now on, or go on with it."""
        if high_watermark is None:
            high_watermark = self.store.high_watermark(partition.topic_partition)
        if partition.state.leader_id == self.node_id:
            self._lead(partition, high_watermark, now_ms)
        else:
            self._follow(partition, high_watermark, now_ms)

    def _lead(self, led: HostedPartition, high_watermark: int, now_ms: int) -> None:
        replica = self._leaders.get(led.topic_partition)
        if replica is not None:
            replica.configure(led.config)
            replica.update(led.state)
            return
        log = self.store.create(led.topic_partition, led.topic_id, led.config, now_ms=now_ms)
        log.lost_from = None  # from now on, what is there is the log
        self._leaders[led.topic_partition] = LeaderReplica(
            led.topic_partition, led.topic_id, led.state, log, self.host, high_watermark
        )

    def _follow(self, followed: HostedPartition, high_watermark: int, now_ms: int) -> None:
        replica = self._followers.get(followed.topic_partition)
        if replica is not None:
            replica.configure(followed.config)
            replica.state = followed.state
            return
        topic_partition, topic_id, state, config = followed
        log = self.store.create(topic_partition, topic_id, config, now_ms=now_ms)
        # Without a leader, nobody may have them: what there is may be all that there is.
        anew_from = log.anew_from
        if state.leader_id != NO_LEADER and anew_from is not None:
            try:
                log.reset_to(anew_from, now_ms=now_ms)  # the leader has what is missing
            except StorageError:  # the follower does it, once the disk lets it
                logger.exception("%s: cannot begin anew for now", topic_partition)
        replica = FollowerReplica(topic_partition, topic_id, state, log, self.host, high_watermark)
        replica.configure(config)
        self._followers[topic_partition] = replica
        if state.leader_id != NO_LEADER:
            self._fetcher(state.leader_id).add(replica)
            self._touched_fetchers.add(state.leader_id)

    def _fetcher(self, leader_id: int) -> LeaderFetcher:
        fetcher = self.fetchers.get(leader_id)
        if fetcher is None:
            fetcher = LeaderFetcher(leader_id, self.host, self._rules)
            self.fetchers[leader_id] = fetcher
        return fetcher

    def _orphans(self, delta: MetadataDelta) -> Iterator[TopicPartition]:
        """Yield the logs that are nobody's, or others': at first, perhaps since long ago."""
        topic_ids = self.store.topic_ids
        if delta.before.version == 0:
            for topic_partition, topic_id in list(topic_ids.items()):
                topic = delta.after.topic_of(topic_id)
                if topic is None or self._is_stray(topic, topic_partition.partition):
                    yield topic_partition
            return
        for topic in delta.removed_topics():
            for index in range(len(topic.partitions)):
                topic_partition = TopicPartition(topic.name, index)
                if topic_ids.get(topic_partition) == topic.topic_id:
                    yield topic_partition
        for topic in delta.changed_topics():
            for index in range(len(topic.partitions)):
                topic_partition = TopicPartition(topic.name, index)
                if topic_ids.get(topic_partition) == topic.topic_id and self._is_stray(
                    topic, index
                ):
                    yield topic_partition

    def _is_stray(self, topic: TopicImage, partition: int) -> bool:
        """Whether a partition's replicas are all on other brokers."""
        return (
            partition < len(topic.partitions)
            and self.node_id not in topic.partitions[partition].replicas
        )

    def _let_go(self, delta: MetadataDelta, orphans: Sequence[TopicPartition]) -> Iterator[None]:
        """Delete logs, whose files stay for ``file.delete.delay.ms``; keep those of unknown topics.

        Whether a topic was deleted while this broker was away, or the controllers have lost it with
        their disks, cannot be told from metadata that do not know it. Kafka keeps them, too.
        """
        strays: set[TopicPartition] = set()
        if delta.before.version == 0:
            ids = self.store.topic_ids
            strays = {each for each in orphans if delta.after.topic_of(ids[each]) is None}
        doomed = [each for each in orphans if each not in strays]
        for few in _few(doomed):
            logger.info("deleting logs that are not ours: %s", ", ".join(map(str, few)))
        for letting_go in (self.store.keep_aside(strays), self.store.delete_all(doomed)):
            try:
                yield from letting_go
            except StorageError:
                logger.exception("cannot rename the directories of all logs that are not ours")

    def review(self) -> None:
        """Look who has fallen behind, and who has caught up, in the partitions led."""
        for replica in self._leaders.values():
            if replica.followers:
                replica.review()
        self._tell_alterations()

    def settle(self) -> None:
        """Act on the news of a turn: readers and followers get what is new, others are told."""
        progressed = self.news.progressed
        while progressed:
            for waiter in list(progressed.popitem()[0].read_waiters):
                waiter.on_progress()
        sessions = self.news.sessions
        while sessions:
            sessions.popitem()[0].wake()
        if self.news.unsynced and self.on_unsynced is not None:
            self.on_unsynced()
        self._tell_alterations()

    def _tell_alterations(self) -> None:
        if self.news.alterations and self.on_alterations is not None:
            self.on_alterations()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks, for the checkpoint."""
        return {r.topic_partition: r.high_watermark for r in self.hosted()}


def _of_topic(replica: R, topic_id: bytes | None) -> R:
    if topic_id not in (None, replica.topic_id):
        raise UnknownTopicIdError
    return replica


def _few(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items, a few at a time."""
    iterator = iter(items)
    while few := list(islice(iterator, PARTITIONS_AT_ONCE)):
        yield few
