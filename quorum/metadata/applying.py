"""How records become facts: the next image, and what is different in it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from quorate.model import NO_LEADER
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.codec import Fact, NewPartitions
from quorate.quorum.metadata.delta import MetadataDelta, Touched
from quorate.quorum.metadata.features import (
    METADATA_VERSION,
    NEWEST_LEVEL,
    UNSAID,
    check_supported,
    level_of,
    metadata_level,
)
from quorate.quorum.metadata.image import (
    ANSWERS_BYTES_MAX,
    ANSWERS_MAX,
    TOPIC,
    AccessRule,
    BrokerImage,
    ConfigResource,
    InconsistentRecordError,
    MetadataImage,
    PartitionState,
    ScramCredential,
    ScramUser,
    TopicImage,
    initial_state,
)
from quorate.quorum.metadata.sharded import DictDraft, ShardedDraft
from quorate.quorum.metadata.topic_names import metric_name

T = TypeVar("T")

_IN_ORDER: Final = "partitions are created in order"
_state_fields: Final = attrgetter(*(f.name for f in fields(PartitionState)))

_DRAFTS: Final = tuple(
    (name, f"_{name}")
    for name in (
        "topics",
        "topic_names",
        "metric_names",
        "configs",
        "brokers",
        "answers",
        "features",
        "access_rules",
        "scram",
        "quotas",
    )
)
"""The maps of an image, and where a draft of it has the drafts of them."""


def apply_records(image: MetadataImage, version: int, records: Iterable[Fact]) -> MetadataImage:
    """Return the image after one batch of records, like :func:`apply_batch`."""
    return apply_batch(image, version, records).after


def apply_batch(image: MetadataImage, version: int, records: Iterable[Fact]) -> MetadataDelta:
    """Apply one batch of records: all of them, or none if one does not fit.

    Every node runs this on the same batches in the same order, so it is deterministic.

    Raises:
        InconsistentRecordError: a record contradicts the image, or is of a kind that not every node
            of the cluster knows yet.
        UnsupportedLevelError: from now on the cluster works at a level that is not known here.
    """
    if version <= image.version:
        raise InconsistentRecordError(f"version {version} after {image.version}")
    return _drafted(image, records).finish(version)


def draft_records(image: MetadataImage, records: Iterable[Fact]) -> MetadataImage:
    """Return the image that records would make, under the version of before.

    Epochs follow from versions, and all that is drafted on one image will have one.

    Raises:
        InconsistentRecordError: they do not fit.
    """
    return _drafted(image, records).image(image.version)


def _drafted(image: MetadataImage, records: Iterable[Fact]) -> "_Draft":
    draft = _Draft(image)
    for record in records:
        _APPLY[type(record)](draft, record)
    return draft


class _when_used(Generic[T]):  # noqa: N801 - a decorator
    """A property that is worked out when it is first read; ``cached_property`` takes a lock then.

    What it gave is in the object's ``__dict__`` from then on, under the same name.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, draft: "_Draft", _: type["_Draft"]) -> T:
        made = vars(draft)[self._name] = self._make(draft)
        return made


class _Draft:
    """Owns an image while a batch is applied: what changes is copied, the rest is shared.

    The drafts of its maps are made when they are first used: most batches change one or two.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._cluster_id = image.cluster_id
        self._next_producer_id = image.next_producer_id
        self._partitions: dict[bytes, list[PartitionState]] = {}
        self._open_configs: dict[ConfigResource, dict[str, str]] = {}
        self._states: dict[object, PartitionState] = {}

    @_when_used
    def _topics(self) -> ShardedDraft[str, TopicImage]:
        return ShardedDraft(self._image.topics)

    @_when_used
    def _topic_names(self) -> ShardedDraft[bytes, str]:
        return ShardedDraft(self._image.topic_names)

    @_when_used
    def _metric_names(self) -> ShardedDraft[str, str]:
        return ShardedDraft(self._image.metric_names)

    @_when_used
    def _configs(self) -> ShardedDraft[ConfigResource, Mapping[str, str]]:
        return ShardedDraft(self._image.configs)

    @_when_used
    def _brokers(self) -> DictDraft[int, BrokerImage]:
        return DictDraft(self._image.brokers)

    @_when_used
    def _answers(self) -> DictDraft[bytes, bytes]:
        return DictDraft(self._image.answers)

    @_when_used
    def _features(self) -> DictDraft[str, int]:
        return DictDraft(self._image.features)

    @_when_used
    def _access_rules(self) -> DictDraft[bytes, AccessRule]:
        return DictDraft(self._image.access_rules)

    @_when_used
    def _scram(self) -> DictDraft[ScramUser, ScramCredential]:
        return DictDraft(self._image.scram)

    @_when_used
    def _quotas(self) -> DictDraft[r.QuotaEntity, Mapping[str, float]]:
        return DictDraft(self._image.quotas)

    def image(self, version: int) -> MetadataImage:
        """Return the draft as an image; once, and last."""
        for topic_id, partitions in self._partitions.items():
            topic = self._topic(topic_id)
            leaderless = [state.leader_id for state in partitions].count(NO_LEADER)
            self._topics[topic.name] = TopicImage(
                topic.name, topic_id, tuple(partitions), leaderless
            )
        for resource, properties in self._open_configs.items():
            if properties:
                self._configs[resource] = properties
            else:
                self._configs.discard(resource)
        used = vars(self)
        if "_answers" in used:
            self._forget_answers()
        maps = {name: used[draft].finish() for name, draft in _DRAFTS if draft in used}
        return self._image._replace(
            version=version,
            cluster_id=self._cluster_id,
            next_producer_id=self._next_producer_id,
            **maps,
        )

    def finish(self, version: int) -> MetadataDelta:
        """Return the draft as an image, and what is new in it."""
        after = self.image(version)
        touched = Touched(
            topics=frozenset(self._topics.touched),
            configs=frozenset(self._configs.touched),
            brokers=frozenset(self._brokers.touched),
            features=frozenset(self._features.touched),
            access_rules=frozenset(self._access_rules.touched),
            scram=frozenset(self._scram.touched),
            quotas=frozenset(self._quotas.touched),
        )
        return MetadataDelta(self._image, after, touched)

    # --- the cluster

    def cluster_formatted(self, record: r.ClusterFormatted) -> None:
        """Give the cluster its id."""
        _require(not self._cluster_id, "the cluster has an id already")
        self._cluster_id = record.cluster_id

    def producer_ids_allocated(self, record: r.ProducerIdsAllocated) -> None:
        """Take producer ids."""
        _require(record.next_producer_id > self._next_producer_id, "producer ids grow")
        self._next_producer_id = record.next_producer_id

    def feature_level_set(self, record: r.FeatureLevelSet) -> None:
        """Work at another level."""
        check_supported(record.name, record.level)
        _require(record.level > 0 or record.name != METADATA_VERSION, "metadata has a level")
        if record.level or record.name in UNSAID:
            self._features[record.name] = record.level
        else:
            self._features.discard(record.name)

    def check_level(self, record: r.MetadataRecord) -> None:
        """Refuse a record that not every node of the cluster knows yet."""
        level = self._features.get(METADATA_VERSION) or metadata_level({})
        if level >= NEWEST_LEVEL:  # nearly always
            return
        needed = level_of(record)
        what = f"{type(record).__name__} needs {METADATA_VERSION} {needed}, which is {level}"
        _require(level >= needed, what)

    def request_answered(self, record: r.RequestAnswered) -> None:
        """Keep the answer to a request, as the newest."""
        self._answers.discard(record.request_id)
        self._answers[record.request_id] = record.answer

    def _forget_answers(self) -> None:
        """Drop the oldest answers if there are too many, or they are too large."""
        answers = self._answers.finish()
        size_bytes = sum(map(len, answers.values()))
        oldest = list(answers)[:-1]
        for request_id in oldest:
            if len(answers) <= ANSWERS_MAX and size_bytes <= ANSWERS_BYTES_MAX:
                return
            size_bytes -= len(answers[request_id])
            self._answers.discard(request_id)

    # --- topics and partitions

    def topic_created(self, record: r.TopicCreated) -> None:
        """Add a topic without partitions."""
        name, topic_id = record.name, record.topic_id
        _require(self._topics.get(name) is None, f"topic {name} exists")
        _require(self._topic_names.get(topic_id) is None, f"topic id of {name} exists")
        self._topics[name] = TopicImage(name, topic_id, (), 0)
        self._topic_names[topic_id] = name
        in_metrics = metric_name(name)
        if in_metrics is not None:
            _require(self._metric_names.get(in_metrics) is None, f"{name} collides in metrics")
            self._metric_names[in_metrics] = name

    def topic_removed(self, record: r.TopicRemoved) -> None:
        """Remove a topic with all that it has."""
        name = self._topic(record.topic_id).name
        self._topics.discard(name)
        self._topic_names.discard(record.topic_id)
        in_metrics = metric_name(name)
        if in_metrics is not None:
            self._metric_names.discard(in_metrics)
        self._partitions.pop(record.topic_id, None)
        resource = ConfigResource(TOPIC, name)
        self._open_configs.pop(resource, None)
        self._configs.discard(resource)

    def partition_created(self, record: r.PartitionCreated) -> None:
        """Add a partition."""
        partitions = self._open_partitions(record.topic_id)
        if record.partition != len(partitions):
            raise InconsistentRecordError(_IN_ORDER)
        state = self._states.get(key := _state_fields(record))
        if state is None:
            state = self._states[key] = initial_state(record)
        partitions.append(state)

    def partitions_created(self, new: NewPartitions) -> None:
        """Add partitions, which have nothing that a level of the metadata brought."""
        partitions = self._open_partitions(new.topic_id)
        if new.first != len(partitions):
            raise InconsistentRecordError(_IN_ORDER)
        partitions += new.states

    def partition_changed(self, record: r.PartitionChanged) -> None:
        """Change who holds a partition, who leads it and who is in sync."""
        partitions = self._open_partitions(record.topic_id)
        _require(0 <= record.partition < len(partitions), "no such partition")
        before = partitions[record.partition]
        epochs = record.leader_epoch - before.leader_epoch
        _require(epochs >= 0, "leader epochs never go back")
        _require(epochs > 0 or record.leader_id == before.leader_id, "an epoch has one leader")
        replicas, isr = _or(record.replicas, before.replicas), record.isr
        partitions[record.partition] = PartitionState(
            replicas,
            replicas if isr == replicas else isr,
            record.leader_id,
            record.leader_epoch,
            before.partition_epoch + 1,
            _or(record.adding_replicas, before.adding_replicas),
            _or(record.removing_replicas, before.removing_replicas),
            _or(record.elr, before.elr),
            _or(record.last_known_leader, before.last_known_leader),
        )

    def _topic(self, topic_id: bytes) -> TopicImage:
        name = self._topic_names.get(topic_id)
        topic = None if name is None else self._topics.get(name)
        if topic is None:
            raise InconsistentRecordError(f"no topic has the id {topic_id.hex()}")
        return topic

    def _open_partitions(self, topic_id: bytes) -> list[PartitionState]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._partitions[topic_id] = list(self._topic(topic_id).partitions)
        return partitions

    # --- brokers

    def broker_registered(self, record: r.BrokerRegistered) -> None:
        """Add a broker, or put it in the place of the one before it."""
        before = self._brokers.get(record.broker_id)
        fresh = before is None or record.broker_epoch > before.broker_epoch
        _require(fresh, "broker epochs grow")
        self._brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            directory_id=record.directory_id,
            endpoints=record.endpoints,
            rack=record.rack,
            fenced=record.fenced,
            features=record.features,
            draining=before is not None and before.draining,
        )

    def broker_changed(self, record: r.BrokerChanged) -> None:
        """Have a broker shut down, drained, or unable to write, or not any more."""
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = replace(
            broker,
            shutting_down=_or(record.shutting_down, broker.shutting_down),
            draining=_or(record.draining, broker.draining),
            cannot_write=_or(record.cannot_write, broker.cannot_write),
        )

    def broker_fenced(self, record: r.BrokerFenced) -> None:
        """Take a broker out of service."""
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = replace(broker, fenced=True)

    def broker_unfenced(self, record: r.BrokerUnfenced) -> None:
        """Take a broker into service."""
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = replace(broker, fenced=False)

    def broker_unregistered(self, record: r.BrokerUnregistered) -> None:
        """Forget a broker."""
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers.discard(record.broker_id)

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise InconsistentRecordError(f"no broker {broker_id} of epoch {broker_epoch}")
        return broker

    # --- configurations

    def config_set(self, record: r.ConfigSet) -> None:
        """Give a property a value."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        self._open_properties(resource)[record.name] = record.value

    def config_deleted(self, record: r.ConfigDeleted) -> None:
        """Put a property back to its default."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        self._open_properties(resource).pop(record.name, None)

    def _open_properties(self, resource: ConfigResource) -> dict[str, str]:
        properties = self._open_configs.get(resource)
        if properties is None:
            properties = self._open_configs[resource] = dict(self._configs.get(resource) or {})
        return properties

    # --- who may do what, who is who, and how much

    def acl_added(self, record: r.AclAdded) -> None:
        """Add an access rule."""
        known = self._access_rules.get(record.acl_id) is not None
        _require(not known, f"access rule {record.acl_id.hex()} exists")
        self._access_rules[record.acl_id] = AccessRule(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            pattern_type=record.pattern_type,
            principal=record.principal,
            host=record.host,
            operation=record.operation,
            permission=record.permission,
        )

    def acl_removed(self, record: r.AclRemoved) -> None:
        """Remove an access rule."""
        known = self._access_rules.get(record.acl_id) is not None
        _require(known, f"no access rule {record.acl_id.hex()}")
        self._access_rules.discard(record.acl_id)

    def scram_credential_set(self, record: r.ScramCredentialSet) -> None:
        """Give a user a password."""
        self._scram[ScramUser(record.user, record.mechanism)] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def scram_credential_removed(self, record: r.ScramCredentialRemoved) -> None:
        """Take a user's password away."""
        user = ScramUser(record.user, record.mechanism)
        _require(self._scram.get(user) is not None, f"{user.name} has no such credential")
        self._scram.discard(user)

    def client_quota_set(self, record: r.ClientQuotaSet) -> None:
        """Limit some clients."""
        quotas = self._quotas.get(record.entity) or {}
        self._quotas[record.entity] = {**quotas, record.name: record.value}

    def client_quota_removed(self, record: r.ClientQuotaRemoved) -> None:
        """Limit some clients no more."""
        quotas = dict(self._quotas.get(record.entity) or {})
        _require(record.name in quotas, f"no quota {record.name}")
        del quotas[record.name]
        if quotas:
            self._quotas[record.entity] = quotas
        else:
            self._quotas.discard(record.entity)


def _or(value: T | None, before: T) -> T:
    return before if value is None else value


def _require(holds: bool, rule: str) -> None:  # noqa: FBT001 - a fact, not a switch
    if not holds:
        raise InconsistentRecordError(rule)


_Apply = Callable[[_Draft, Any], None]


def _checked(apply: _Apply) -> _Apply:
    def apply_checked(draft: _Draft, record: Any) -> None:
        draft.check_level(record)
        apply(draft, record)

    return apply_checked


_APPLY: Final[dict[type[object], _Apply]] = {
    r.ClusterFormatted: _Draft.cluster_formatted,
    r.BrokerRegistered: _Draft.broker_registered,
    r.BrokerFenced: _Draft.broker_fenced,
    r.BrokerUnfenced: _Draft.broker_unfenced,
    r.BrokerUnregistered: _Draft.broker_unregistered,
    r.BrokerChanged: _checked(_Draft.broker_changed),
    r.ProducerIdsAllocated: _Draft.producer_ids_allocated,
    r.TopicCreated: _Draft.topic_created,
    r.TopicRemoved: _Draft.topic_removed,
    r.PartitionCreated: _checked(_Draft.partition_created),
    NewPartitions: _Draft.partitions_created,
    r.PartitionChanged: _checked(_Draft.partition_changed),
    r.ConfigSet: _Draft.config_set,
    r.ConfigDeleted: _Draft.config_deleted,
    r.RequestAnswered: _Draft.request_answered,
    r.FeatureLevelSet: _Draft.feature_level_set,
    r.AclAdded: _checked(_Draft.acl_added),
    r.AclRemoved: _checked(_Draft.acl_removed),
    r.ScramCredentialSet: _checked(_Draft.scram_credential_set),
    r.ScramCredentialRemoved: _checked(_Draft.scram_credential_removed),
    r.ClientQuotaSet: _checked(_Draft.client_quota_set),
    r.ClientQuotaRemoved: _checked(_Draft.client_quota_removed),
}
