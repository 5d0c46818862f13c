"""The generations of a classic group: all join, one of them assigns, all sync, until one is new."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from quorate.broker.groups.classic_members import Member, Members, elect_protocol
from quorate.broker.groups.classic_records import member_of, metadata_of
from quorate.broker.groups.group import GroupContext
from quorate.broker.groups.records import (
    GROUP_METADATA_VERSION,
    GroupMetadataValue,
    KeyType,
    MemberMetadata,
    names_key,
)
from quorate.broker.groups.sessions import Sessions
from quorate.broker.groups.telling import tell
from quorate.broker.shards.effects import Done, Effects, Entry, ignore
from quorate.broker.shards.formats import encode_value
from quorate.errors import ErrorCode
from quorate.promise import Promise, kept
from quorate.protocol.messages.groups import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from quorate.broker.replication.deadlines import Deadline

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that has not been answered yet may wait: it cannot send heartbeats."""

AWAY_MIN_MS: Final = 100
"""Members that are all away are looked for no more often: their rebalance timeouts may be 0."""

NAMED_MAX: Final = 5
"""So many members are named where many are meant."""


class GroupState(StrEnum):
    """Where a group stands; the values are Kafka's names (its class ``ClassicGroupState``)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Generations:
    """The members of one group, and how far they are on the way to the next generation.

    Hard state, as the group's last record says: type, generation, protocol, leader, members and
    what they were assigned. Soft state: who joins or syncs and waits for the others, whose session
    ends when.

    Invariants: whoever waits is answered, at the latest when the rebalance timeout has passed;
    generations only grow; within a generation, all assignments that members get stand in the same
    record, which is committed.
    """

    def __init__(
        self, group_id: str, context: GroupContext, on_silence: Callable[[list[str]], None]
    ) -> None:
        surroundings = context.surroundings
        self.members = Members()
        self.awaited: dict[str, None] = {}
        """Who was given an id and is to come back with it, the longest away first."""
        self.state = GroupState.EMPTY
        self.state_since_ms = surroundings.now_ms()
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.reason = ""
        self._is_recorded = False
        self.sessions = Sessions(surroundings.deadlines, on_silence)
        self._group_id = group_id
        self._writer = context.writer
        self._now_ms = surroundings.now_ms
        self._config = surroundings.config
        self._deadlines = surroundings.deadlines
        self._began_ms = 0
        self._is_first = False
        self._more_came = False
        self._unsynced: set[str] = set()
        self._storing: int | None = None
        self._phase: Deadline | None = None

    @property
    def began(self) -> bool:
        """Whether there has been a generation, or a record tells of the group."""
        return self._is_recorded or self.generation > 0

    # --- all join -------------------------------------------------------------

    def take_in(self, member: Member) -> None:
        """Add a member that was not there before."""
        self.members.add(member)
        self._more_came = True

    def wait_for_others(self, member: Member, why: str) -> Promise[JoinGroupResponse]:
        """Promise an answer when all have joined; this member may be the last they wait for."""
        if member.joining is not None:
            # It asks again, on another connection; whoever listens on the first may do so, too.
            member.joining.resolve(join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        promise: Promise[JoinGroupResponse] = Promise()
        promise.on_abandoned = partial(self._stopped_joining, member, promise)
        self.members.set_joining(member, promise)
        if member.is_new:
            # It cannot send heartbeats; and a session may have begun when its connection was gone.
            self.sessions.heard(member.member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        else:
            self.sessions.forget(member.member_id)
        self.rebalance(why)
        return promise

    def _stopped_joining(self, member: Member, promise: Promise[JoinGroupResponse]) -> None:
        """Do not count on a member whose connection is gone, unless it comes back in time."""
        assert member.joining is promise, "nobody else answers, and answers are not abandoned"
        self.members.set_joining(member, None)
        self.heard(member)

    def rebalance(self, why: str) -> None:
        """Have all members join again; if they are at it, see whether all have."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(why)
        elif not self._is_first and self._all_joined():
            self._complete()

    def _all_joined(self) -> bool:
        return self.members.joined_count == len(self.members) and not self.awaited

    def _prepare(self, why: str) -> None:
        """Ask all members to join again; their heartbeats tell them."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.withdraw_assignments(ErrorCode.REBALANCE_IN_PROGRESS)
        self._is_first = self.state is GroupState.EMPTY
        self._more_came = False
        self._unsynced.clear()
        self.reason = why
        self._began_ms = self._deadlines.now_ms
        tell(
            "group-rebalancing", group=self._group_id, after_generation=self.generation,
            members=len(self.members), cause=why,
        )  # fmt: skip
        self._enter(GroupState.PREPARING_REBALANCE)
        timeout_ms = self.members.rebalance_timeout_ms
        if self._is_first:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._wait_for_more(delay_ms, max(timeout_ms - delay_ms, 0))
        elif self._all_joined():
            self._complete()
        else:
            self._meet(timeout_ms, self._complete)

    def _wait_for_more(self, wait_ms: int, left_ms: int) -> None:
        self._meet(wait_ms, partial(self._waited_for_more, left_ms))

    def _waited_for_more(self, left_ms: int) -> None:
        """Wait on while members come: where many start at once, it spares many rebalances."""
        if self._more_came and left_ms > 0:
            self._more_came = False
            wait_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            self._wait_for_more(wait_ms, left_ms - wait_ms)
        else:
            self._complete()

    def _complete(self) -> None:
        """Begin a generation of those who have joined, and static members, who may yet return."""
        late = [m for m in self.members if m.joining is None and m.instance_id is None]
        for member in late:
            self.remove(member)
        if late:
            self.reason += f"; {named(late)} did not join again in time"
        if self.members and not self.members.elect_leader():
            # Nobody but static members that are away: they return, or their sessions end. There was
            # time for others to come.
            self._is_first = False
            wait_ms = max(self.members.rebalance_timeout_ms, AWAY_MIN_MS)
            self._meet(wait_ms, self._complete)
            return
        self.generation += 1
        self.protocol_name = elect_protocol(member.protocols for member in self.members)
        if self.members:
            self._await_syncs()
        else:
            self._become_empty()

    def _become_empty(self) -> None:
        self._meet_nothing()
        self._enter(GroupState.EMPTY)
        tell("group-empty", group=self._group_id, generation=self.generation, cause=self.reason)
        self.write((), None, ignore)

    # --- one assigns, all sync ------------------------------------------------

    def _await_syncs(self) -> None:
        """Tell all that they are in, and the leader who is; it assigns, the others ask for it."""
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._unsynced = {member.member_id for member in self.members}
        for member in self.members:
            member.is_new = False
            self.sessions.heard(member.member_id, member.session_timeout_ms)
            promise = member.joining
            if promise is not None:
                self.members.set_joining(member, None)
                promise.resolve(self.welcome(member))
        self._meet(self.members.rebalance_timeout_ms, self._syncs_overdue)

    def welcome(self, member: Member) -> JoinGroupResponse:
        """Return the answer to a member of this generation; its leader learns of the others."""
        leader_id = self.members.leader_id or ""
        listed = self.members if member.member_id == leader_id else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader_id,
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=other.member_id,
                    group_instance_id=other.instance_id,
                    metadata=other.metadata(self.protocol_name),
                )
                for other in listed
            ],
        )

    def sync(self, member: Member, assignments: Mapping[str, bytes]) -> Promise[SyncGroupResponse]:
        """Promise a member its assignment; if it leads, take what it assigned.

        All have joined: the group is stable, or waits for its members to sync.
        """
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._meet_nothing()
        if self.state is GroupState.STABLE:
            self.heard(member)
            return kept(self._assignment_of(member))
        if member.syncing is not None:
            member.syncing.resolve(sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        promise: Promise[SyncGroupResponse] = Promise()
        promise.on_abandoned = partial(self._stopped_syncing, member, promise)
        member.syncing = promise
        self.sessions.forget(member.member_id)
        if member.member_id == self.members.leader_id and self._storing != self.generation:
            self._store(assignments)
        return promise

    def _stopped_syncing(self, member: Member, promise: Promise[SyncGroupResponse]) -> None:
        assert member.syncing is promise, "nobody else answers, and answers are not abandoned"
        member.syncing = None
        self.heard(member)

    def _store(self, assignments: Mapping[str, bytes]) -> None:
        """Write what the leader assigned; all who sync hear of it once it is committed."""
        forgotten = [m for m in self.members if m.member_id not in assignments]
        if forgotten:
            logger.warning(
                "group %r, generation %d: the leader assigns nothing to %s",
                self._group_id, self.generation, named(forgotten),
            )  # fmt: skip
        generation = self._storing = self.generation

        def done(code: ErrorCode) -> None:
            if self.state is not GroupState.COMPLETING_REBALANCE or self.generation != generation:
                return  # they join again already
            self._storing = None
            if code is ErrorCode.NONE:
                self._become_stable()
            else:
                self.withdraw_assignments(code)
                self._prepare(f"the assignments could not be stored ({code.name})")

        told = [
            metadata_of(m, self.protocol_name, assignments.get(m.member_id, b""))
            for m in self.members
        ]
        self.write(told, self.members.leader_id, done)

    def _become_stable(self) -> None:
        self._enter(GroupState.STABLE)
        tell(
            "group-stable", group=self._group_id, generation=self.generation,
            members=len(self.members), ms=self._deadlines.now_ms - self._began_ms,
            assignor=self.protocol_name, leader=self.members.leader_id, cause=self.reason,
        )  # fmt: skip
        for member in self.members:
            self._answer_sync(member, self._assignment_of(member))

    def withdraw_assignments(self, code: ErrorCode) -> None:
        """Take back what this generation's members were assigned, of which none has heard."""
        for member in self.members:
            member.assignment = b""
            self._answer_sync(member, sync_refused(code))

    def _answer_sync(self, member: Member, answer: SyncGroupResponse) -> None:
        promise, member.syncing = member.syncing, None
        if promise is not None:
            self.heard(member)
            promise.resolve(answer)

    def _assignment_of(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _syncs_overdue(self) -> None:
        """Go on without those who joined, but have not asked for their assignment."""
        silent = [member for member in self.members if member.member_id in self._unsynced]
        for member in silent:
            self.remove(member)
        if silent:
            self._prepare(f"{named(silent)} joined, but did not sync in time")

    # --- members --------------------------------------------------------------

    def heard(self, member: Member) -> None:
        """Note that a member is alive."""
        if member.joining is None and member.syncing is None:
            self.sessions.heard(member.member_id, member.session_timeout_ms)

    def remove(self, member: Member) -> None:
        """Let go of a member; the others have to be told."""
        self.members.remove(member)
        self.sessions.forget(member.member_id)
        dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID)

    def substitute(self, old: Member, new: Member) -> None:
        """Put a static member into the place of its predecessor, until the next record."""
        self.members.replace(old, new)
        self.sessions.forget(old.member_id)
        dismiss(old, ErrorCode.FENCED_INSTANCE_ID)

    def end(self, code: ErrorCode) -> None:
        """Answer whoever waits, and be dead: another coordinator, or another kind of group."""
        self.state = GroupState.DEAD
        self._meet_nothing()
        self.sessions.stop()
        self.awaited.clear()
        for member in self.members:
            dismiss(member, code)

    # --- records --------------------------------------------------------------

    def write(self, members: Sequence[MemberMetadata], leader_id: str | None, done: Done) -> bool:
        """Write the group's record with these members; return whether it is in the state now."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=leader_id,
            current_state_timestamp=self.state_since_ms,
            members=list(members),
        )
        key = names_key(KeyType.GROUP_METADATA, self._group_id)
        entry = Entry(key, encode_value(value, GROUP_METADATA_VERSION))
        return self._writer.write(Effects(self._group_id, (entry,), done))

    def replay(self, value: GroupMetadataValue) -> None:
        """Become what the record says; members that are known already go on waiting, if they do."""
        self._is_recorded = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol_name = value.protocol
        self.state_since_ms = value.current_state_timestamp
        before, self.members = self.members, Members()
        for told in value.members:
            if told.member_id in self.members:
                continue
            member = before.get(told.member_id)
            if member is None:
                member = member_of(told, value)
                predecessor = before.with_instance_id(told.group_instance_id)
                if predecessor is not None:
                    dismiss(predecessor, ErrorCode.FENCED_INSTANCE_ID)
            member.assignment = told.assignment
            self.members.add(member)
        for member in before:
            if member.member_id not in self.members:
                self._unsynced.discard(member.member_id)
                self.sessions.forget(member.member_id)
                dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if value.leader is not None and value.leader in self.members:
            self.members.leader_id = value.leader

    def begin(self) -> None:
        """Serve members that a record tells of, as if they had just been heard."""
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        for member in self.members:
            self.heard(member)

    # --- phases ---------------------------------------------------------------

    def _enter(self, state: GroupState) -> None:
        self.state = state
        self.state_since_ms = self._now_ms()

    def _meet(self, wait_ms: int, then: Callable[[], None]) -> None:
        """Have the phase end by itself in that time."""
        self._meet_nothing()
        self._phase = self._deadlines.after(wait_ms, then)

    def _meet_nothing(self) -> None:
        if self._phase is not None:
            self._deadlines.cancel(self._phase)
            self._phase = None


def dismiss(member: Member, code: ErrorCode) -> None:
    """Tell a member that waits that it does so in vain."""
    joining, member.joining = member.joining, None
    syncing, member.syncing = member.syncing, None
    if joining is not None:
        known = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        joining.resolve(join_refused(code, known))
    if syncing is not None:
        syncing.resolve(sync_refused(code))


def join_refused(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return an answer to who may not join now."""
    return JoinGroupResponse(error_code=int(code), member_id=member_id)


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """Return an answer to who has no assignment."""
    return SyncGroupResponse(error_code=int(code))


def named(members: Iterable[Member]) -> str:
    """Return members for a sentence, a few of them by name."""
    everyone = list(members)
    text = ", ".join(str(member) for member in everyone[:NAMED_MAX])
    more = len(everyone) - NAMED_MAX
    return f"{text} and {more} more" if more > 0 else text
