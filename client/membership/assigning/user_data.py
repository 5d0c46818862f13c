"""What the sticky assignors of members tell each other in the user data of subscriptions.

Kafka's ``STICKY_ASSIGNOR_USER_DATA`` and ``COOPERATIVE_STICKY_ASSIGNOR_USER_DATA``; what cannot be
read counts as nothing, because other implementations put there what they like.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import NO_GENERATION, ConsumerProtocolPartitions
from quorate.protocol.fields import array, int32
from quorate.protocol.message import decoder, encoder, message
from quorate.protocol.primitives import DecodeError

T = TypeVar("T")


@message(versions="0-1", flexible=None)
class StickyUserData:
    """What a member was assigned last; since version 1 also in which generation."""

    previous_assignment: list[ConsumerProtocolPartitions] = array(ConsumerProtocolPartitions)
    generation: int = int32("1+", default=NO_GENERATION)


@message(versions="0", flexible=None)
class CooperativeUserData:
    """In which generation a member has what it owns."""

    generation: int = int32(default=NO_GENERATION)


class PreviousAssignment(NamedTuple):
    """What a member had, and in which generation; -1 if it does not say."""

    partitions: tuple[TopicPartition, ...]
    generation_id: int


NOTHING = PreviousAssignment((), NO_GENERATION)


def encode_previous_assignment(previous: PreviousAssignment) -> bytes:
    """Return user data for the sticky assignor."""
    topics: dict[str, ConsumerProtocolPartitions] = {}
    for topic, partition in previous.partitions:
        topics.setdefault(topic, ConsumerProtocolPartitions(topic=topic)).partitions.append(
            partition
        )
    body = StickyUserData(
        previous_assignment=list(topics.values()), generation=previous.generation_id
    )
    return _encode(StickyUserData, 1, body)


def decode_previous_assignment(data: bytes | None) -> PreviousAssignment:
    """Return what a member says that it had; nothing, if it cannot be read."""
    for version in (1, 0):
        try:
            told, _ = decoder(StickyUserData, version)(data or b"", 0, len(data or b""))
        except DecodeError:
            continue
        partitions = tuple(
            TopicPartition(each.topic, number)
            for each in told.previous_assignment
            for number in each.partitions
        )
        return PreviousAssignment(partitions, told.generation)
    return NOTHING


def encode_generation(generation_id: int) -> bytes:
    """Return user data for the cooperative assignor."""
    return _encode(CooperativeUserData, 0, CooperativeUserData(generation=generation_id))


def decode_generation(data: bytes | None) -> int:
    """Return the generation that a member says; -1 if it cannot be read."""
    try:
        told, _ = decoder(CooperativeUserData, 0)(data or b"", 0, len(data or b""))
    except DecodeError:
        return NO_GENERATION
    return told.generation


def _encode(cls: type[T], version: int, body: T) -> bytes:
    parts: list[Any] = [bytearray()]
    encoder(cls, version)(body, parts)
    return b"".join(parts)
