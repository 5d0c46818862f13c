"""What all kinds of groups have in common, and what they stand in."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.effects import Entry, Writer
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.groups import DescribedGroup
from quorate.quorum.metadata.image import MetadataImage
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from random import Random


class UnknownMemberIdError(KafkaError):
    """The group has no such member."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class NonEmptyGroupError(KafkaError):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFoundError(KafkaError):
    """There is no such group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class InvalidGroupIdError(KafkaError):
    """No group can be called that."""

    code = ErrorCode.INVALID_GROUP_ID


HeldSince: TypeAlias = Mapping[TopicIdPartition, int]
"""Partitions of a member, and at which epoch each was given to it."""


class CommitSender(NamedTuple):
    """Who commits offsets; a named tuple, because every commit makes one."""

    member_id: str
    instance_id: str | None
    generation: int
    """The generation, or the member epoch; -1 for consumers outside a group."""
    transactional: bool
    """Whether it is by way of a transaction (TxnOffsetCommit)."""
    api_version: int


class Group(Protocol):
    """A group with members, or one that had some; consumers outside a group have none of these."""

    @property
    def group_id(self) -> str:
        """The group's name."""
        ...

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups says."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, whatever the type of the group."""
        ...

    @property
    def state_name(self) -> str:
        """Kafka's name of the state: Empty, PreparingRebalance, Stable, ..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and may be deleted."""
        ...

    @property
    def expects_members(self) -> bool:
        """Whether somebody was told an id to come back with."""
        ...

    def check_commit(self, sender: CommitSender) -> HeldSince | None:
        """Refuse offsets of whom has no part in the group (any more); a commit is a sign of life.

        Returns:
            None if it may commit whatever it reads; or what it may commit if it was given that no
            later than at the epoch that it names (KIP-1251).

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
                REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH, ...
        """
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to whom has no part in the group (any more) (KIP-848).

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
        """
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as can be known."""
        ...

    def idle_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return since when offsets that were committed then, and are not subscribed to, are idle.

        The later of that and when the group became empty; None while they are not: members that are
        joining may subscribe to them.
        """
        ...

    def tombstones(self) -> list[Entry]:
        """Return what takes back all records of the group itself, to delete it."""
        ...


class DescribedClassic(Protocol):
    """What DescribeGroups asks of classic groups."""

    def describe(self) -> DescribedGroup:
        """Return the group and its members as they are now."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What coordinators stand in.

    Attributes:
        deadlines: by the monotonic clock.
        now_ms: the wall clock as of this turn of the loop, for what is stored.
        image: the metadata last followed.
    """

    config: NodeConfig
    deadlines: Deadlines
    random: "Random"
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the parts of one coordinator share.

    Attributes:
        groups: by id; only replaying records adds groups to it and removes them, and joining a
            group that nothing is recorded of yet.
    """

    groups: dict[str, Group]
    writer: Writer
    surroundings: Surroundings


class GroupProtocol(Protocol):
    """The half of a coordinator that knows one kind of groups."""

    def replay(self, key_type: int, key: bytes, value: bytes | None) -> None:
        """Fold one record into the groups; see ``KeyType`` for which there are."""
        ...

    def loaded(self) -> None:
        """Begin to serve: members that were there get a session, as if just heard of."""
        ...

    def unload(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and cancel all deadlines."""
        ...
