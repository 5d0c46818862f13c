"""What consumers of classic groups tell each other through the coordinator, which need not read it.

A member's metadata is a subscription, and what it is given is an assignment (Kafka's
``ConsumerProtocolSubscription`` and ``ConsumerProtocolAssignment``): a version, then the message.
"""

from typing import Any, Final, TypeVar

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.protocol.fields import array, binary, int32, layout_of, string
from quorate.protocol.message import decoder, encoder, message, nested
from quorate.protocol.primitives import DecodeError

PROTOCOL_TYPE: Final = "consumer"
"""The type of groups whose members speak this; Connect's and others have their own."""

NO_GENERATION: Final = -1

_VERSION: Final = 3
_VERSION_BYTES: Final = 2

T = TypeVar("T")


@nested
class ConsumerProtocolPartitions:
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array("int32")


@message(versions="0-3", flexible=None)
class ConsumerProtocolSubscription:
    """What a member wants to read, and what it has."""

    topics: list[str] = array("string")
    user_data: bytes | None = binary(nullable="0+")
    owned_partitions: list[ConsumerProtocolPartitions] = array(ConsumerProtocolPartitions, "1+")
    generation_id: int = int32("2+", default=NO_GENERATION)
    rack_id: str | None = string("3+", nullable="3+")


@message(versions="0-3", flexible=None)
class ConsumerProtocolAssignment:
    """What a member is to read."""

    assigned_partitions: list[ConsumerProtocolPartitions] = array(ConsumerProtocolPartitions)
    user_data: bytes | None = binary(nullable="0+")


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription.

    Attributes:
        topics: What it wants to read.
        owned: What it read when it joined; only cooperative members and sticky ones tell.
        generation_id: Of which generation that was; -1 if it does not say.
        rack_id: Where it is.
        user_data: What its assignor tells other members' assignors.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Return a subscription as member metadata."""
    return _encode(
        ConsumerProtocolSubscription,
        ConsumerProtocolSubscription(
            topics=list(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=_by_topic(subscription.owned),
            generation_id=subscription.generation_id,
            rack_id=subscription.rack_id,
        ),
    )


def decode_subscription(data: bytes) -> Subscription:
    """Return the subscription in member metadata; newer versions are read as far as ours goes.

    Raises:
        DecodeError: It is none.
    """
    told = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=tuple(told.topics),
        owned=_partitions(told.owned_partitions),
        generation_id=told.generation_id,
        rack_id=told.rack_id,
        user_data=told.user_data,
    )


def encode_assignment(
    partitions: tuple[TopicPartition, ...], user_data: bytes | None = None
) -> bytes:
    """Return an assignment as the group's leader sends it."""
    return _encode(
        ConsumerProtocolAssignment,
        ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions), user_data=user_data),
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment; none for none, which is nothing assigned yet.

    Raises:
        DecodeError: It is no assignment.
    """
    if not data:
        return ()
    return _partitions(_decode(ConsumerProtocolAssignment, data).assigned_partitions)


def _encode(cls: type[T], body: T) -> bytes:
    parts: list[Any] = [bytearray(_VERSION.to_bytes(_VERSION_BYTES, "big"))]
    encoder(cls, _VERSION)(body, parts)
    return b"".join(parts)


def _decode(cls: type[T], data: bytes) -> T:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < layout_of(cls).versions.first:
        raise DecodeError(f"no {cls.__name__}: it has no version")
    told, _ = decoder(cls, min(version, _VERSION))(data, _VERSION_BYTES, len(data))
    return told


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[ConsumerProtocolPartitions]:
    topics: dict[str, ConsumerProtocolPartitions] = {}
    for topic, partition in partitions:
        if topic not in topics:
            topics[topic] = ConsumerProtocolPartitions(topic=topic)
        topics[topic].partitions.append(partition)
    return list(topics.values())


def _partitions(told: list[ConsumerProtocolPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, number) for each in told for number in each.partitions)
