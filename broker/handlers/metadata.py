"""Metadata: which brokers there are, which topics, and who leads what."""

from collections.abc import Iterable
from typing import Final

from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.broker.handlers.operations import ON_CLUSTER, ON_TOPICS
from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.control.messages import CreateTopics, CreateTopicsAnswer, NewTopic
from quorate.errors import RETRIABLE, ErrorCode, known_code
from quorate.model import NO_LEADER, Endpoint
from quorate.promise import Promise
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorate.protocol.primitives import ZERO_UUID
from quorate.quorum.metadata.image import BrokerImage, MetadataImage, PartitionState, TopicImage
from quorate.quorum.metadata.topic_names import may_be_named

NULL_NAMES_FROM: Final = 12
LISTENER_NOT_FOUND_FROM: Final = 6
CREATION_MAX_MS: Final = 5_000
"""How long the topics that are there are kept from a client for one that is to be made."""


def metadata(
    broker: Broker, request: MetadataRequest, caller: Caller
) -> MetadataResponse | Promise[MetadataResponse]:
    """Describe brokers and topics; absent topics are created first, if both sides want that."""
    missing = _to_create(broker, request, caller)
    if not missing:
        return _describe(broker, request, caller, {})
    promise: Promise[MetadataResponse] = Promise()

    def created(answer: CreateTopicsAnswer) -> None:
        codes = {topic.name: known_code(topic.failure.code) for topic in answer.topics}
        promise.resolve(_describe(broker, request, caller, codes))

    def failed(code: ErrorCode, _message: str) -> None:
        promise.resolve(_describe(broker, request, caller, dict.fromkeys(missing, code)))

    topics = tuple(NewTopic(name) for name in missing)
    principal = f"{ANONYMOUS} through auto.create.topics.enable"
    broker.ask(CreateTopics(topics, principal=principal), created, failed, CREATION_MAX_MS)
    return promise


def _to_create(broker: Broker, request: MetadataRequest, caller: Caller) -> list[str]:
    if not broker.config.auto_create_topics_enable or _wants_all(request, caller):
        return []
    if not request.allow_auto_topic_creation:
        return []
    topics = broker.replicas.image.topics
    names = (t.name for t in request.topics or [] if t.topic_id == ZERO_UUID)
    return [
        name
        for name in dict.fromkeys(names)
        if name is not None and name not in topics and name not in INTERNAL_TOPICS
    ]


def _wants_all(request: MetadataRequest, caller: Caller) -> bool:
    # Version 0 had no null: there an empty list means all topics.
    return request.topics is None or (caller.api_version == 0 and not request.topics)


def _describe(
    broker: Broker, request: MetadataRequest, caller: Caller, codes: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.replicas.image
    if _wants_all(request, caller):
        topics = [_topic(image, topic) for topic in image.topics.values()]
    else:
        distinct = {(asked.name, asked.topic_id): asked for asked in request.topics or []}
        topics = [_asked_topic(image, asked, codes) for asked in distinct.values()]
        if caller.api_version < NULL_NAMES_FROM:
            for topic in topics:
                # Versions 10 and 11 can ask for a topic without a name, but not answer so.
                topic.name = topic.name or ""
    _leave_out_leaders_elsewhere(image, topics, caller)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name:
                topic.topic_authorized_operations = ON_TOPICS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.broker_id, host=endpoint.host, port=endpoint.port, rack=node.rack
            )
            for node, endpoint in _named_brokers(image, caller.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.config.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    return response


def _leave_out_leaders_elsewhere(
    image: MetadataImage, topics: Iterable[MetadataResponseTopic], caller: Caller
) -> None:
    """Say so where a leader does not listen where the client asks: it is not told of it."""
    elsewhere = {b.broker_id for b in image.brokers.values() if caller.listener not in b.endpoints}
    if not elsewhere:
        return
    code = ErrorCode.LISTENER_NOT_FOUND
    if caller.api_version < LISTENER_NOT_FOUND_FROM:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    for topic in topics:
        for partition in topic.partitions:
            if partition.leader_id in elsewhere:
                partition.error_code, partition.leader_id = int(code), NO_LEADER


def _named_brokers(image: MetadataImage, listener: str) -> Iterable[tuple[BrokerImage, Endpoint]]:
    """Return the brokers that clients are told of: those that serve, or all, while none does.

    Java's client does not believe a list of nobody; librdkafka does (2.11 and later): it forgets
    every broker that is not in it, is connected to nobody then, and does not come back.
    """
    live = list(live_brokers(image, listener))
    every = ((node, node.endpoints.get(listener)) for node in image.brokers.values())
    return live or [(node, endpoint) for node, endpoint in every if endpoint is not None]


def live_brokers(image: MetadataImage, listener: str) -> Iterable[tuple[BrokerImage, Endpoint]]:
    """Return the brokers that serve now, and where, as seen from a listener."""
    for node in image.brokers.values():
        endpoint = node.endpoints.get(listener)
        if endpoint is not None and not node.fenced:
            yield node, endpoint


def _asked_topic(
    image: MetadataImage, asked: MetadataRequestTopic, codes: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    # Java's client asks by id with an empty name, when the broker matches a pattern for it.
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = image.topic_of(asked.topic_id)
        unknown = int(ErrorCode.UNKNOWN_TOPIC_ID)
        absent = MetadataResponseTopic(error_code=unknown, name=None, topic_id=asked.topic_id)
        return absent if topic is None else _topic(image, topic)
    topic = image.topics.get(asked.name)
    if topic is not None:
        return _topic(image, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.name in codes:
        code = _told(codes[asked.name])
    elif not may_be_named(asked.name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=int(code), name=asked.name, topic_id=asked.topic_id)


def _told(code: ErrorCode) -> ErrorCode:
    """Return what a client hears of a topic that should have been created, and is not known yet.

    It asks again unless it is told that asking is no use.
    """
    passing = code in RETRIABLE or code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    return ErrorCode.LEADER_NOT_AVAILABLE if passing else code


def _topic(image: MetadataImage, topic: TopicImage) -> MetadataResponseTopic:
    live = image.live_broker_ids()
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=partition_code(state),
                partition_index=index,
                leader_id=state.leader_id,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=offline_replicas(state, live),
            )
            for index, state in enumerate(topic.partitions)
        ],
    )


def partition_code(state: PartitionState) -> int:
    """Return what clients hear of a partition by itself: whether somebody leads it."""
    available = state.leader_id != NO_LEADER
    return int(ErrorCode.NONE if available else ErrorCode.LEADER_NOT_AVAILABLE)


def offline_replicas(state: PartitionState, live: frozenset[int]) -> list[int]:
    """Return the replicas on brokers that are not in service."""
    return [replica for replica in state.replicas if replica not in live]
