"""A member of a classic group: what it asks the coordinator, and what the answers mean for it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from quorate.client.errors import FencedInstanceError, error_for
from quorate.client.membership.assigning.model import Candidate, Topics
from quorate.client.membership.assigning.user_data import NOTHING, PreviousAssignment
from quorate.client.membership.assignors import Assignor, is_cooperative
from quorate.client.membership.identity import GroupMetadata
from quorate.dataclass import dataclass
from quorate.errors import MEANINGS, RETRIABLE, ErrorCode, known_code
from quorate.protocol.consumer_protocol import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from quorate.protocol.primitives import DecodeError

if TYPE_CHECKING:
    from quorate.model import TopicPartition
    from quorate.protocol.messages.groups import (
        HeartbeatResponse,
        JoinGroupResponse,
        SyncGroupResponse,
    )

REASON_CHARS_MAX: Final = 255


class Next(Enum):
    """What to do after an answer."""

    GO_ON = auto()
    """It is as it should be."""

    RETRY = auto()
    """Ask the same again, after a pause."""

    LOOK_UP = auto()
    """Look up the coordinator, and ask it."""

    JOIN = auto()
    """Join, maybe again: :attr:`Member.rejoin_reason` says why."""


_RETRY: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NETWORK_EXCEPTION})


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What a member tells the coordinator; the names are those of the consumer's arguments."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[Assignor, ...]
    rack_id: str | None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Partitions that stop being the member's.

    Attributes:
        partitions: Which.
        lost: They may be somebody else's already, so that nothing can be committed any more.
    """

    partitions: frozenset[TopicPartition]
    lost: bool


class Member:
    """One consumer as a member of a classic group.

    Invariants: ``owned`` are the partitions whose owner was told so, and was not told yet that they
    are to be given up; while ``generation_id`` is -1 it is no member, and what it still owns is
    lost. Members whose assignors are all cooperative keep what they own while they join (KIP-429).
    """

    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.cooperative = is_cooperative(settings.assignors)
        self.topics: frozenset[str] = frozenset()
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.owned: frozenset[TopicPartition] = frozenset()
        self.assigned: frozenset[TopicPartition] = frozenset()
        """What the last generation gave to it."""

        self.rejoin_reason: str | None = None
        """Why it has to join (again); None if it need not."""

        self._assignor: Assignor | None = None
        self._was: GroupMetadata | None = None
        self._previous = NOTHING
        self._candidates: list[Candidate] = []
        self._skip_assignment = False

    @property
    def is_member(self) -> bool:
        """Whether it is in a generation of the group."""
        return self.generation_id != NO_GENERATION

    @property
    def identity(self) -> GroupMetadata:
        """Who it is in the group; who it was there, until it is somebody again.

        What it read in its last generation is nothing to be committed after that. Only a commit
        that says in whose name it comes is refused: those of who is no member are taken of anybody.
        """
        settings = self.settings
        if not self.is_member and self._was is not None:
            return self._was
        return GroupMetadata(
            settings.group_id, self.generation_id, self.member_id, settings.group_instance_id
        )

    def subscribe(self, topics: frozenset[str]) -> None:
        """Be interested in these topics from now on."""
        if topics != self.topics or not self.is_member:
            reason = "the subscription changed" if self.is_member else "it subscribes"
            self.topics = topics
            self.ask_to_join(reason)

    def ask_to_join(self, reason: str) -> None:
        """Have it join; the first reason is what the group is told (KIP-800)."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    # Joining

    def to_give_up(self) -> GivenUp:
        """Return what is to be given up before it joins."""
        if not self.is_member:
            return GivenUp(self.owned, lost=True)
        if not self.cooperative:
            return GivenUp(self.owned, lost=False)
        unwanted = frozenset(each for each in self.owned if each.topic not in self.topics)
        return GivenUp(unwanted, lost=False)

    def gave_up(self, partitions: frozenset[TopicPartition]) -> None:
        """Know that the owner was told."""
        self.owned -= partitions

    def join_request(self) -> JoinGroupRequest:
        """Return the request to join, with what it owns for assignors that care."""
        reason, self.rejoin_reason = self.rejoin_reason or "", None
        return JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=each.name, metadata=self._subscription(each))
                for each in self.settings.assignors
            ],
            reason=reason[:REASON_CHARS_MAX],
        )

    def _subscription(self, assignor: Assignor) -> bytes:
        return encode_subscription(
            Subscription(
                topics=tuple(sorted(self.topics)),
                owned=tuple(sorted(self.owned)),
                generation_id=self.generation_id,
                rack_id=self.settings.rack_id,
                user_data=assignor.user_data(self._previous),
            )
        )

    def on_joined(self, response: JoinGroupResponse) -> Next:
        """Take the answer: with GO_ON the next thing is to sync.

        Raises:
            KafkaError: It cannot be a member of this group.
        """
        code = known_code(response.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            # The first half of a handshake (KIP-394): it is no member yet.
            self.member_id = response.member_id
            self.ask_to_join("it was given a member id")
            return Next.JOIN
        if code != ErrorCode.NONE:
            return self._after(code, "cannot join")
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self._assignor = next(
            (each for each in self.settings.assignors if each.name == response.protocol_name), None
        )
        if self._assignor is None:
            self.left()
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            raise error_for(code, f"the group uses an assignor {response.protocol_name!r}")
        self._skip_assignment = response.skip_assignment
        self._candidates = [
            Candidate(each.member_id, _subscription_in(each.metadata), each.group_instance_id)
            for each in response.members
        ]
        return Next.GO_ON

    @property
    def topics_to_assign(self) -> frozenset[str]:
        """The topics that it has to assign partitions of; none if another member assigns."""
        if self._skip_assignment:
            return frozenset()
        return frozenset(t for each in self._candidates for t in each.subscription.topics)

    def sync_request(self, topics: Topics) -> SyncGroupRequest:
        """Return the request for its assignment, with those of all if it is the one to assign.

        Args:
            topics: Those of ``topics_to_assign`` that exist.
        """
        assert self._assignor is not None
        assignment = {}
        if self._candidates and not self._skip_assignment:
            assignment = self._assignor.assign(topics, self._candidates)
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor.name,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id, assignment=encode_assignment(tuple(sorted(partitions)))
                )
                for member_id, partitions in assignment.items()
            ],
        )

    def on_synced(self, response: SyncGroupResponse) -> Next:
        """Take the answer: with GO_ON it has an assignment, which its owner is to be told.

        Raises:
            KafkaError: It cannot be a member of this group.
        """
        code = known_code(response.error_code)
        if code != ErrorCode.NONE:
            return self._after(code, "got no assignment")
        try:
            partitions = decode_assignment(response.assignment)
        except DecodeError as error:
            self.left()
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            raise error_for(
                code, f"the group's leader assigns in another language: {error}"
            ) from None
        self.assigned = frozenset(partitions)
        self._previous = PreviousAssignment(partitions, self.generation_id)
        self._candidates = []
        return Next.GO_ON

    # Having an assignment

    @property
    def to_revoke(self) -> frozenset[TopicPartition]:
        """What it owns and the last assignment does not give to it."""
        return self.owned - self.assigned

    @property
    def to_add(self) -> frozenset[TopicPartition]:
        """What the last assignment gives to it anew."""
        return self.assigned - self.owned

    def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Know that the owner was told what the assignment takes away."""
        self.gave_up(partitions)
        # Whoever is to have it may have it in the next generation (KIP-429).
        self.ask_to_join("it gave up partitions, as it was told")

    def took_over(self, partitions: frozenset[TopicPartition]) -> None:
        """Know that the owner was told what it gets, even if that is void by now."""
        self.owned |= partitions

    # Being a member

    def heartbeat_request(self) -> HeartbeatRequest:
        """Return a sign of life."""
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )

    def on_heartbeat(self, response: HeartbeatResponse) -> Next:
        """Take the answer to a sign of life.

        Raises:
            KafkaError: It cannot be a member of this group any more.
        """
        code = known_code(response.error_code)
        return Next.GO_ON if code == ErrorCode.NONE else self._after(code, "is out of the group")

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Return the request to leave; None if there is nothing to leave.

        Static members stay until their session ends, so that they find their partitions when they
        come back (KIP-345).
        """
        if not self.member_id or self.settings.group_instance_id is not None:
            return None
        identity = MemberIdentity(member_id=self.member_id, reason=reason[:REASON_CHARS_MAX])
        return LeaveGroupRequest(
            group_id=self.settings.group_id, member_id=self.member_id, members=[identity]
        )

    def left(self) -> None:
        """Know that it is out."""
        self._reset()
        self.member_id = ""

    def _after(self, code: ErrorCode, what: str) -> Next:
        """Return what to do after an error.

        Raises:
            KafkaError: Nothing helps.
        """
        if code in _RETRY:
            return Next.RETRY
        if code in {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}:
            return Next.LOOK_UP
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.ask_to_join("the group rebalances")
            return Next.JOIN
        if code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}:
            self._reset()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.ask_to_join(f"the coordinator said {code.name}")
            return Next.JOIN
        if code in RETRIABLE:
            return Next.RETRY
        self.left()
        group = f"group {self.settings.group_id!r}: it {what}: {MEANINGS[code]}"
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise FencedInstanceError(group)
        raise error_for(code, group)

    def _reset(self) -> None:
        if self.is_member:
            self._was = self.identity
        self.generation_id = NO_GENERATION
        self.assigned = frozenset()
        self._candidates = []


def _subscription_in(metadata: bytes) -> Subscription:
    """Return what a member wants; nothing, if it speaks another language."""
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return Subscription(())
