"""What is known of groups, their members and their offsets: values, all frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.arguments import INT32_MAX, INT64_MAX, is_number, require_text
from quorate.dataclass import dataclass
from quorate.model import UNKNOWN_EPOCH, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
"""Types of groups, by Kafka's names: who assigns, a member (CLASSIC) or the broker (KIP-848)."""

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
DEAD: Final = "Dead"
"""Some of the states, by Kafka's names."""

METADATA_BYTES_MAX: Final = 32_767
"""What fits into requests of old versions."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list of groups; old brokers tell neither ``state`` nor ``type``.

    Attributes:
        protocol_type: ``consumer`` for consumers, empty for groups that only keep offsets, and
            whatever others call themselves (``connect``).
    """

    group_id: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a group.

    Attributes:
        instance_id: Its ``group.instance.id``, if it is a static member.
        assignment: What it reads; empty where members are no consumers.
        target: What it is to read once others gave it up; None in classic groups.
        member_epoch: How far it is on the way there; None in classic groups.
        topics: What it wants to read, as far as the broker tells.
        topic_regex: The pattern that it wants to read (KIP-848).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members.

    Attributes:
        assignor: Who divides partitions; empty while nobody has to.
        coordinator_id: The broker that the group's members talk to.
        epoch: How often the group changed, and ``assignment_epoch``, for which of these
            it was assigned; None in classic groups.
        generation_id: Which of its generations a classic group is in; this and the following are
            told by Quorate only, and else None or empty.
        leader: The member that assigns in a classic group.
        rebalance_reason: Why it rebalanced last.
        state_since_ms: When it came to be in this state, in milliseconds since 1970.
    """

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator_id: int
    epoch: int | None = None
    assignment_epoch: int | None = None
    generation_id: int | None = None
    leader: str = ""
    rebalance_reason: str = ""
    state_since_ms: int | None = None

    @property
    def owners(self) -> dict[TopicPartition, MemberDescription]:
        """Who reads which partition."""
        return {partition: member for member in self.members for partition in member.assignment}


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """How far a group has read a partition: the offset of the next record to read.

    Attributes:
        leader_epoch: Of the last record that was read; -1 if the group did not say (KIP-320).
        metadata: What the group wrote beside it.
    """

    offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    metadata: str = ""


def offsets_to_commit(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what a user wants to have committed, once it is sure that it can be sent.

    Raises:
        ValueError: An offset is none, or what is committed beside it is no text, or too long.
        TypeError: The name of a topic is no text.
    """
    wanted: dict[TopicPartition, OffsetAndMetadata] = {}
    for partition, given in offsets.items():
        to = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
        _check(TopicPartition(*partition), to)
        wanted[TopicPartition(*partition)] = to
    return wanted


def _check(partition: TopicPartition, to: OffsetAndMetadata) -> None:
    require_text("topic", partition.topic)
    for what, value, low, high in (
        ("the partition", partition.partition, 0, INT32_MAX),
        ("the offset", to.offset, 0, INT64_MAX),
        ("the leader epoch", to.leader_epoch, UNKNOWN_EPOCH, INT32_MAX),
    ):
        if not is_number(value, low, high):
            raise ValueError(f"{what} to commit for {partition} is a number from {low}: {value!r}")
    size_bytes = len(str(to.metadata).encode())
    if size_bytes > METADATA_BYTES_MAX or not _is_text(to.metadata):
        raise ValueError(
            f"what is committed beside the offset of {partition} is a text of at most"
            f" {METADATA_BYTES_MAX} bytes (and offset.metadata.max.bytes, usually 4096), not"
            f" {size_bytes} bytes of {type(to.metadata).__name__}"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)
