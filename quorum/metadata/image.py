"""The metadata image: every fact that the quorum has agreed on, as values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from quorate.errors import QuorateError
from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.metadata import records as r

TOPIC: Final = "topic"
BROKER: Final = "broker"
CLUSTER_DEFAULT: Final = ""
"""The name of the broker resource that stands for all brokers."""


ANSWERS_MAX: Final = 1024
ANSWERS_BYTES_MAX: Final = 2**20
"""Answers to requests are kept for retries until there are more or larger ones than this."""


class InconsistentRecordError(QuorateError):
    """A record speaks of something that the image does not have, or would break a rule of it."""


class ConfigResource(NamedTuple):
    """What a configuration belongs to: a topic by name, or a broker by id."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, who leads it, who is in sync."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    leader_epoch: int
    partition_epoch: int

    def __post_init__(self) -> None:
        if not set(self.isr) <= set(self.replicas):
            raise InconsistentRecordError("the ISR is a subset of the replicas")
        if self.leader_id != NO_LEADER and self.leader_id not in self.isr:
            raise InconsistentRecordError("leaders are in sync")


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; the partition's number is its place in ``partitions``."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker; ``directory_id`` may be empty (not told)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Immutable; :func:`apply_records` makes the next one.

    ``version`` grows with every batch of records, with gaps; equal versions mean equal images.
    ``answers`` are those to the newest requests that carried an id, by that id, oldest first.
    """

    version: int
    cluster_id: str
    topics: Mapping[str, TopicImage]
    topic_names: Mapping[bytes, str]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    brokers: Mapping[int, BrokerImage]
    next_producer_id: int
    answers: Mapping[bytes, bytes]

    def topic_of(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic of an id, if it exists."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return what was set for a resource; empty if nothing was."""
        return self.configs.get(resource, {})

    def live_broker_ids(self) -> frozenset[int]:
        """Return the ids of the brokers that may lead."""
        return frozenset(b.broker_id for b in self.brokers.values() if not b.fenced)


EMPTY_IMAGE: Final = MetadataImage(
    version=0,
    cluster_id="",
    topics={},
    topic_names={},
    configs={},
    brokers={},
    next_producer_id=0,
    answers={},
)


def apply_records(
    image: MetadataImage, version: int, records: Iterable[r.MetadataRecord]
) -> MetadataImage:
    """Return the image after one batch of records: all of them, or none if one does not fit.

    Every node runs this on the same batches in the same order, so it is deterministic.

    Raises:
        InconsistentRecordError: a record contradicts the image.
    """
    if version <= image.version:
        raise InconsistentRecordError(f"version {version} after {image.version}")
    draft = _Draft(image)
    for record in records:
        draft.apply(record)
    return draft.finish(version)


class _Draft:
    """An image while a batch is applied: copies of those maps, and only those, that change."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._cluster_id = image.cluster_id
        self._next_producer_id = image.next_producer_id
        self._answers = image.answers
        self._topics: dict[str, TopicImage] | None = None
        self._topic_names: dict[bytes, str] | None = None
        self._brokers: dict[int, BrokerImage] | None = None
        self._configs: dict[ConfigResource, Mapping[str, str]] | None = None
        self._partitions: dict[bytes, list[PartitionState]] = {}
        self._open_configs: dict[ConfigResource, dict[str, str]] = {}

    def apply(self, record: r.MetadataRecord) -> None:
        """Change the draft by one record."""
        match record:
            case r.PartitionChanged():
                self._partition_changed(record)
            case r.PartitionCreated():
                self._partition_created(record)
            case r.TopicCreated():
                self._topic_created(record)
            case r.TopicRemoved():
                self._topic_removed(record)
            case r.ConfigSet() | r.ConfigDeleted():
                self._config_changed(record)
            case _:
                self._apply_rare(record)

    def _apply_rare(
        self,
        record: r.ClusterFormatted
        | r.BrokerRegistered
        | r.BrokerFenced
        | r.BrokerUnfenced
        | r.BrokerUnregistered
        | r.ProducerIdsAllocated
        | r.RequestAnswered,
    ) -> None:
        match record:
            case r.BrokerRegistered():
                self._broker_registered(record)
            case r.BrokerFenced():
                self._broker_fenced(record, fenced=True)
            case r.BrokerUnfenced():
                self._broker_fenced(record, fenced=False)
            case r.BrokerUnregistered():
                self._broker(record.broker_id, record.broker_epoch)
                del self._own_brokers()[record.broker_id]
            case r.ProducerIdsAllocated():
                _require(record.next_producer_id > self._next_producer_id, "producer ids grow")
                self._next_producer_id = record.next_producer_id
            case r.RequestAnswered():
                self._answers = _with_answer(self._answers, record)
            case _:
                _require(not self._cluster_id, "the cluster has an id already")
                self._cluster_id = record.cluster_id

    def finish(self, version: int) -> MetadataImage:
        """Return the draft as an image."""
        for topic_id, partitions in self._partitions.items():
            topic = self._topic(topic_id)
            self._own_topics()[topic.name] = replace(topic, partitions=tuple(partitions))
        for resource, properties in self._open_configs.items():
            if properties:
                self._own_configs()[resource] = properties
            else:
                self._own_configs().pop(resource, None)
        image = self._image
        return MetadataImage(
            version=version,
            cluster_id=self._cluster_id,
            topics=image.topics if self._topics is None else self._topics,
            topic_names=image.topic_names if self._topic_names is None else self._topic_names,
            configs=image.configs if self._configs is None else self._configs,
            brokers=image.brokers if self._brokers is None else self._brokers,
            next_producer_id=self._next_producer_id,
            answers=self._answers,
        )

    # --- topics and partitions

    def _topic_created(self, record: r.TopicCreated) -> None:
        topics = self._own_topics()
        names = self._own_topic_names()
        _require(record.name not in topics, f"topic {record.name} exists")
        _require(record.topic_id not in names, f"topic id of {record.name} exists")
        topics[record.name] = TopicImage(record.name, record.topic_id, ())
        names[record.topic_id] = record.name

    def _topic_removed(self, record: r.TopicRemoved) -> None:
        topic = self._topic(record.topic_id)
        del self._own_topics()[topic.name]
        del self._own_topic_names()[record.topic_id]
        self._partitions.pop(record.topic_id, None)
        resource = ConfigResource(TOPIC, topic.name)
        self._open_configs.pop(resource, None)
        self._own_configs().pop(resource, None)

    def _partition_created(self, record: r.PartitionCreated) -> None:
        partitions = self._own_partitions(record.topic_id)
        _require(record.partition == len(partitions), "partitions are created in order")
        partitions.append(
            PartitionState(
                replicas=record.replicas,
                isr=record.isr,
                leader_id=record.leader_id,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
            )
        )

    def _partition_changed(self, record: r.PartitionChanged) -> None:
        partitions = self._own_partitions(record.topic_id)
        _require(0 <= record.partition < len(partitions), f"no partition {record.partition}")
        before = partitions[record.partition]
        _require(record.leader_epoch >= before.leader_epoch, "leader epochs never go back")
        partitions[record.partition] = PartitionState(
            replicas=before.replicas,
            isr=record.isr,
            leader_id=record.leader_id,
            leader_epoch=record.leader_epoch,
            partition_epoch=before.partition_epoch + 1,
        )

    def _topic(self, topic_id: bytes) -> TopicImage:
        names = self._image.topic_names if self._topic_names is None else self._topic_names
        topics = self._image.topics if self._topics is None else self._topics
        _require(topic_id in names, f"no topic has the id {topic_id.hex()}")
        return topics[names[topic_id]]

    def _own_partitions(self, topic_id: bytes) -> list[PartitionState]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = list(self._topic(topic_id).partitions)
        return partitions

    def _own_topics(self) -> dict[str, TopicImage]:
        if self._topics is None:
            self._topics = dict(self._image.topics)
        return self._topics

    def _own_topic_names(self) -> dict[bytes, str]:
        if self._topic_names is None:
            self._topic_names = dict(self._image.topic_names)
        return self._topic_names

    # --- brokers

    def _broker_registered(self, record: r.BrokerRegistered) -> None:
        brokers = self._own_brokers()
        before = brokers.get(record.broker_id)
        fresh = before is None or record.broker_epoch > before.broker_epoch
        _require(fresh, "broker epochs grow")
        brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            directory_id=record.directory_id,
            endpoints=record.endpoints,
            rack=record.rack,
            fenced=record.fenced,
        )

    def _broker_fenced(self, record: r.BrokerFenced | r.BrokerUnfenced, *, fenced: bool) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._own_brokers()[record.broker_id] = replace(broker, fenced=fenced)

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._own_brokers().get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise InconsistentRecordError(f"no broker {broker_id} of epoch {broker_epoch}")
        return broker

    def _own_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._image.brokers)
        return self._brokers

    # --- configurations

    def _config_changed(self, record: r.ConfigSet | r.ConfigDeleted) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        properties = self._open_configs.get(resource)
        if properties is None:
            configs = self._image.configs if self._configs is None else self._configs
            properties = self._open_configs[resource] = dict(configs.get(resource, {}))
        if isinstance(record, r.ConfigSet):
            properties[record.name] = record.value
        else:
            properties.pop(record.name, None)

    def _own_configs(self) -> dict[ConfigResource, Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._image.configs)
        return self._configs


def _with_answer(
    answers: Mapping[bytes, bytes], record: r.RequestAnswered
) -> Mapping[bytes, bytes]:
    """Return the answers and a new one, without the oldest if they are too many or too large."""
    kept = dict(answers)
    kept.pop(record.request_id, None)
    kept[record.request_id] = record.answer
    size_bytes = sum(map(len, kept.values()))
    while len(kept) > 1 and (len(kept) > ANSWERS_MAX or size_bytes > ANSWERS_BYTES_MAX):
        size_bytes -= len(kept.pop(next(iter(kept))))
    return kept


def _require(holds: bool, rule: str) -> None:  # noqa: FBT001 - a fact, not a switch
    if not holds:
        raise InconsistentRecordError(rule)


def image_records(image: MetadataImage, cause: str, time_ms: int) -> Iterator[r.MetadataRecord]:
    """Yield records that make this image from the empty one: a snapshot."""
    if image.cluster_id:
        yield r.ClusterFormatted(cause, time_ms, image.cluster_id)
    if image.next_producer_id:
        yield r.ProducerIdsAllocated(cause, time_ms, -1, -1, image.next_producer_id)
    for broker in image.brokers.values():
        yield _broker_record(broker, cause, time_ms)
    for topic in image.topics.values():
        yield r.TopicCreated(cause, time_ms, topic.name, topic.topic_id)
        for partition, state in enumerate(topic.partitions):
            yield _partition_record(topic.topic_id, partition, state, cause, time_ms)
    for resource, properties in image.configs.items():
        for name, value in properties.items():
            yield r.ConfigSet(cause, time_ms, resource.type, resource.name, name, value)

    for request_id, answer in image.answers.items():
        yield r.RequestAnswered(cause, time_ms, request_id, answer)


def _broker_record(broker: BrokerImage, cause: str, time_ms: int) -> r.BrokerRegistered:
    return r.BrokerRegistered(
        cause=cause,
        time_ms=time_ms,
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        directory_id=broker.directory_id,
        endpoints=broker.endpoints,
        rack=broker.rack,
        fenced=broker.fenced,
    )


def _partition_record(
    topic_id: bytes, partition: int, state: PartitionState, cause: str, time_ms: int
) -> r.PartitionCreated:
    return r.PartitionCreated(
        cause=cause,
        time_ms=time_ms,
        topic_id=topic_id,
        partition=partition,
        replicas=state.replicas,
        isr=state.isr,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )
