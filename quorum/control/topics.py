"""Create topics, delete them, give them more partitions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from quorate.control import messages as m
from quorate.dataclass import dataclass
from quorate.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from quorate.model import looks_like_option
from quorate.quorum.control.configs import checked_topic_configs
from quorate.quorum.control.decision import Decision, Reason, because, failure_of
from quorate.quorum.control.placement import Placement
from quorate.quorum.control.succession import electorate_of
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ConfigResource,
    MetadataImage,
    TopicImage,
)
from quorate.quorum.metadata.topic_names import METADATA_TOPIC, check_topic_name, metric_name

if TYPE_CHECKING:
    from random import Random

PARTITIONS_PER_REQUEST_MAX: Final = 20_000
REPLICATION_FACTOR_MAX: Final = 32_767
TOPIC_ID_BYTES: Final = 16

Replicas = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets that does not say otherwise."""

    partition_count: int
    replication_factor: int


def current_defaults(image: MetadataImage, configured: TopicDefaults) -> TopicDefaults:
    """Return the defaults, with what was changed for all brokers since they were configured."""
    changed = image.config(ConfigResource(BROKER, CLUSTER_DEFAULT)).get("num.partitions")
    return configured if changed is None else replace(configured, partition_count=int(changed))


class _Plan:
    """What one request has taken so far, and where its partitions may go.

    The brokers are looked at once, however many topics the request has.
    """

    def __init__(self, image: MetadataImage, rng: "Random") -> None:
        self.image = image
        self.electorate = electorate_of(image)
        self.alive = frozenset(b.broker_id for b in image.brokers.values() if b.may_lead)
        self.records: list[r.MetadataRecord] = []
        self._rng = rng
        self._placement = Placement(image.brokers, rng)
        self._partitions_left = PARTITIONS_PER_REQUEST_MAX
        self._metric_names: dict[str, str] = {}

    def check_free(self, name: str) -> None:
        """Refuse the name of a topic if another one has it, or would have it in metrics."""
        if name in self.image.topics:
            raise TopicAlreadyExistsError(f"topic {name} exists already")
        in_metrics = metric_name(name) or name
        other = self.image.metric_names.get(in_metrics) or self._metric_names.get(in_metrics)
        if other is not None:
            raise InvalidTopicError(f"topic {name} would collide with {other} in metric names")

    def take(self, name: str, partition_count: int) -> None:
        """Note that a topic is created, or gets so many more partitions."""
        self._partitions_left -= partition_count
        in_metrics = metric_name(name)
        if in_metrics is not None:
            self._metric_names[in_metrics] = name

    def check_count(self, partition_count: int) -> None:
        """Refuse so many more partitions if that is too much for one request."""
        if partition_count > self._partitions_left:
            raise InvalidPartitionsError(
                f"one request creates at most {PARTITIONS_PER_REQUEST_MAX} partitions"
            )

    def place(self, partition_count: int, replication_factor: int) -> tuple[Replicas, ...]:
        """Return the replicas of new partitions."""
        return self._placement.place(partition_count, replication_factor)

    def check_assignment(self, replicas: Sequence[Replicas], replication_factor: int) -> None:
        """Refuse an assignment by hand that cannot be carried out.

        Raises:
            InvalidReplicaAssignmentError: no replicas, one twice, an unknown broker, none in
                service, or another number than the other partitions have.
        """
        for partition in replicas:
            if not partition or len(set(partition)) != len(partition):
                raise InvalidReplicaAssignmentError("a partition's replicas are different brokers")
            if len(partition) != replication_factor:
                raise InvalidReplicaAssignmentError("all partitions have as many replicas")
            unknown = [b for b in partition if b not in self.image.brokers]
            if unknown:
                raise InvalidReplicaAssignmentError(f"broker {min(unknown)} is not registered")
            if self.alive.isdisjoint(partition):
                raise InvalidReplicaAssignmentError("no broker of a partition is in service")

    def new_topic_id(self) -> bytes:
        """Return a random id; those that begin with a zero byte or a dash have another meaning."""
        while True:
            topic_id = self._rng.randbytes(TOPIC_ID_BYTES)
            is_special = topic_id[0] == 0 or looks_like_option(topic_id)
            if not is_special and topic_id not in self.image.topic_names:
                return topic_id

    def add_partitions(
        self, topic_id: bytes, first: int, replicas: Sequence[Replicas], reason: Reason
    ) -> None:
        """Record new partitions; only brokers in service are in sync, and one of them leads."""
        cause, time_ms = reason.cause, reason.time_ms
        known = {brokers: self._in_sync(brokers) for brokers in set(replicas)}
        for partition, brokers in enumerate(replicas, first):
            isr, leader_id = known[brokers]
            self.records.append(
                r.PartitionCreated(cause, time_ms, topic_id, partition, brokers, isr, leader_id)
            )

    def _in_sync(self, brokers: Replicas) -> tuple[Replicas, int]:
        """Return which of a new partition's replicas are in sync, and who leads."""
        isr = brokers
        if not self.alive.issuperset(brokers):
            isr = tuple(b for b in brokers if b in self.alive)
        return isr, self.electorate.best(isr, isr[0])


def create_topics(
    image: MetadataImage,
    request: m.CreateTopics,
    defaults: TopicDefaults,
    now_ms: int,
    rng: "Random",
) -> Decision[m.CreateTopicsAnswer]:
    """Create those topics of the request that can be created, and say why not for the others."""
    reason = because("CreateTopics", request.principal, now_ms)
    plan = _Plan(image, rng)
    repeated = _repeated(topic.name for topic in request.topics)
    answers: list[m.TopicCreation] = []
    for topic in request.topics:
        try:
            if topic.name in repeated:
                raise InvalidRequestError(f"topic {topic.name} is named twice")
            check_topic_name(topic.name)
            if topic.name == METADATA_TOPIC:
                raise InvalidRequestError(f"{METADATA_TOPIC} is no topic: its log is the quorum's")
            plan.check_free(topic.name)
            configs = checked_topic_configs(topic.configs or {})
            replicas = _replicas(plan, topic, defaults)
        except KafkaError as error:
            answers.append(m.TopicCreation(topic.name, failure_of(error)))
            continue
        topic_id = plan.new_topic_id()
        plan.take(topic.name, len(replicas))
        answers.append(_creation(topic.name, topic_id, replicas, configs))
        if not request.validate_only:
            created = r.TopicCreated(reason.cause, reason.time_ms, topic.name, topic_id)
            plan.records.append(created)
            plan.add_partitions(topic_id, 0, replicas, reason)
            plan.records += _config_records(topic.name, configs, reason)
    return Decision(tuple(plan.records), m.CreateTopicsAnswer(tuple(answers)))


def _replicas(plan: _Plan, topic: m.NewTopic, defaults: TopicDefaults) -> tuple[Replicas, ...]:
    """Return the replicas of each partition, as the request or the placement says."""
    if topic.assignment is not None:
        if (topic.partition_count, topic.replication_factor) != (m.USE_DEFAULT, m.USE_DEFAULT):
            raise InvalidRequestError("either numbers or an assignment, not both")
        numbers = sorted(topic.assignment)
        if not numbers or numbers != list(range(len(numbers))):
            raise InvalidReplicaAssignmentError("partitions are numbered from 0, without a gap")
        plan.check_count(len(numbers))
        replicas = tuple(topic.assignment[n] for n in numbers)
        plan.check_assignment(replicas, len(replicas[0]))
        return replicas
    count = _or_default(topic.partition_count, defaults.partition_count)
    factor = _or_default(topic.replication_factor, defaults.replication_factor)
    if not 1 <= factor <= REPLICATION_FACTOR_MAX:
        raise InvalidReplicationFactorError(f"a partition has at least one replica, not {factor}")
    if count < 1:
        raise InvalidPartitionsError(f"a topic has at least one partition, not {count}")
    plan.check_count(count)
    return plan.place(count, factor)


def _or_default(number: int, default: int) -> int:
    return default if number == m.USE_DEFAULT else number


def _creation(
    name: str, topic_id: bytes, replicas: tuple[Replicas, ...], configs: dict[str, str]
) -> m.TopicCreation:
    return m.TopicCreation(
        name=name,
        failure=m.DONE,
        topic_id=topic_id,
        partition_count=len(replicas),
        replication_factor=len(replicas[0]),
        configs=configs,
    )


def _config_records(name: str, configs: dict[str, str], reason: Reason) -> list[r.ConfigSet]:
    return [
        r.ConfigSet(reason.cause, reason.time_ms, TOPIC, name, key, value)
        for key, value in sorted(configs.items())
    ]


def delete_topics(
    image: MetadataImage, request: m.DeleteTopics, now_ms: int
) -> Decision[m.DeleteTopicsAnswer]:
    """Delete those topics of the request that exist; what is named twice is answered once."""
    reason = because("DeleteTopics", request.principal, now_ms)
    found = [_named(image, name) for name in request.names]
    found += [_identified(image, topic_id) for topic_id in request.topic_ids]
    repeated = _repeated(_identity(t) for t in found)
    records: list[r.MetadataRecord] = []
    answers: list[m.TopicDeletion] = []
    for deletion in {_identity(t): t for t in found}.values():
        answer = deletion
        if _identity(deletion) in repeated:
            failure = failure_of(InvalidRequestError("the topic is named twice"))
            answer = m.TopicDeletion(deletion.name, deletion.topic_id, failure)
        elif deletion.failure == m.DONE:
            records.append(r.TopicRemoved(reason.cause, now_ms, deletion.topic_id))
        answers.append(answer)
    return Decision(tuple(records), m.DeleteTopicsAnswer(tuple(answers)))


_NO_ID: Final = bytes(TOPIC_ID_BYTES)


def _identity(deletion: m.TopicDeletion) -> bytes | str | None:
    return deletion.name if deletion.topic_id == _NO_ID else deletion.topic_id


def _named(image: MetadataImage, name: str) -> m.TopicDeletion:
    topic = image.topics.get(name)
    if topic is None:
        failure = failure_of(UnknownTopicOrPartitionError(f"there is no topic {name!r}"))
        return m.TopicDeletion(name, _NO_ID, failure)
    return m.TopicDeletion(name, topic.topic_id, m.DONE)


def _identified(image: MetadataImage, topic_id: bytes) -> m.TopicDeletion:
    topic = image.topic_of(topic_id)
    if topic is None:
        return m.TopicDeletion(None, topic_id, failure_of(UnknownTopicIdError()))
    return m.TopicDeletion(topic.name, topic_id, m.DONE)


def create_partitions(
    image: MetadataImage, request: m.CreatePartitions, now_ms: int, rng: "Random"
) -> Decision[m.CreatePartitionsAnswer]:
    """Give those topics of the request more partitions that can have them."""
    reason = because("CreatePartitions", request.principal, now_ms)
    plan = _Plan(image, rng)
    repeated = _repeated(topic.name for topic in request.topics)
    answers: list[m.PartitionsCreation] = []
    for wanted in request.topics:
        try:
            if wanted.name in repeated:
                raise InvalidRequestError(f"topic {wanted.name} is named twice")
            topic = image.topics.get(wanted.name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"there is no topic {wanted.name!r}")
            replicas = _added_replicas(plan, topic, wanted)
        except KafkaError as error:
            answers.append(m.PartitionsCreation(wanted.name, failure_of(error)))
            continue
        plan.take(wanted.name, len(replicas))
        answers.append(m.PartitionsCreation(wanted.name, m.DONE))
        if not request.validate_only:
            plan.add_partitions(topic.topic_id, len(topic.partitions), replicas, reason)
    return Decision(tuple(plan.records), m.CreatePartitionsAnswer(tuple(answers)))


def _added_replicas(
    plan: _Plan, topic: TopicImage, wanted: m.NewPartitions
) -> tuple[Replicas, ...]:
    before = len(topic.partitions)
    added = wanted.total_count - before
    if added < 1:
        raise InvalidPartitionsError(
            f"topic {topic.name} has {before} partitions; {wanted.total_count} would not be more"
        )
    plan.check_count(added)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignment is None:
        return plan.place(added, factor)
    if len(wanted.assignment) != added:
        raise InvalidReplicaAssignmentError(
            f"{added} new partitions, but {len(wanted.assignment)} are assigned"
        )
    plan.check_assignment(wanted.assignment, factor)
    return wanted.assignment


def _repeated(items: Iterable[T]) -> set[T]:
    return {item for item, count in Counter(items).items() if count > 1}
