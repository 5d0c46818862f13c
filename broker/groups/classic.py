"""ClassicGroup: what members of a classic group may ask, and what comes of their silence."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from quorate.broker.groups.classic_generations import (
    Generations,
    GroupState,
    join_refused,
    named,
)
from quorate.broker.groups.classic_members import (
    Applicant,
    Assigner,
    Leaver,
    Member,
    Members,
    elect_protocol,
)
from quorate.broker.groups.classic_records import metadata_of
from quorate.broker.groups.errors import (
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
)
from quorate.broker.groups.group import CommitSender, GroupContext, HeldSince, UnknownMemberIdError
from quorate.broker.groups.records import GroupMetadataValue, KeyType, names_key
from quorate.broker.shards.effects import Entry
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise, kept
from quorate.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from quorate.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    JoinGroupResponse,
    SyncGroupResponse,
)
from quorate.protocol.primitives import DecodeError

logger = logging.getLogger(__name__)

AWAITED_MAX: Final = 10_000
"""So many may have been told an id and not be back with it; then the longest away must ask anew."""

NAME_CHARACTERS_MAX: Final = 255
REASON_CHARACTERS_MAX: Final = 255


class ClassicGroup:
    """One group whose members assign partitions among themselves.

    State: its :class:`Generations`; this class decides what the requests of members do to them.

    Modelled after what ``GroupMetadataManager`` and ``ClassicGroup`` of Kafka 4.x do. We differ in
    that a member whose connection is gone does not count as joined any more.
    """

    def __init__(self, group_id: str, context: GroupContext, on_unused: Callable[[], None]) -> None:
        """Begin without members; ``on_unused`` is called once nobody comes back any more."""
        self.group_id = group_id
        self._config = context.surroundings.config
        self._random = context.surroundings.random
        self._now_ms = context.surroundings.now_ms
        self._on_unused = on_unused
        self._now = Generations(group_id, context, self._on_silence)
        self._subscribed: tuple[int, frozenset[str] | None] | None = None

    # --- what others see ------------------------------------------------------

    @property
    def group_type(self) -> str:
        """The kind of group, as ListGroups says it."""
        return "classic"

    @property
    def members(self) -> Members:
        """Who is in the group."""
        return self._now.members

    @property
    def state(self) -> GroupState:
        """Where the group stands."""
        return self._now.state

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return self._now.state.value

    @property
    def generation(self) -> int:
        """How many generations there have been."""
        return self._now.generation

    @property
    def protocol_type(self) -> str:
        """What the members are: ``consumer`` for consumers; empty if there never were any."""
        return self._now.protocol_type

    @property
    def protocol_name(self) -> str | None:
        """How this generation assigns partitions."""
        return self._now.protocol_name

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self._now.state is GroupState.EMPTY

    @property
    def expects_members(self) -> bool:
        """Whether somebody was told an id to come back with."""
        return bool(self._now.awaited)

    @property
    def is_unused(self) -> bool:
        """Whether nothing is lost with it: it never had members, and nobody is to come back."""
        return self.is_empty and not self._now.began and not self.expects_members

    def describe(self) -> DescribedGroup:
        """Return what DescribeGroups tells; of what members say only while it is agreed on."""
        now = self._now
        stable = now.state is GroupState.STABLE
        return DescribedGroup(
            group_id=self.group_id,
            group_state=now.state.value,
            protocol_type=now.protocol_type,
            protocol_data=(now.protocol_name or "") if stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(now.protocol_name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in now.members
            ],
            generation_id=now.generation,
            leader=now.members.leader_id or "",
            rebalance_reason=now.reason,
            state_since_ms=now.state_since_ms,
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; if that cannot be known, consumers may."""
        if self.protocol_type != PROTOCOL_TYPE:
            return False
        if self._subscribed is None or self._subscribed[0] != self.generation:
            self._subscribed = (self.generation, self._read_subscriptions())
        topics = self._subscribed[1]
        return topics is None or topic in topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        protocol = self.protocol_name
        try:
            told = [decode_subscription(member.metadata(protocol)) for member in self.members]
        except DecodeError as error:
            logger.warning("group %r: what a member subscribes to: %s", self.group_id, error)
            return None
        return frozenset(topic for subscription in told for topic in subscription.topics)

    def idle_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return since when such an offset of a topic that nobody reads has been idle, if it is."""
        if self.state is GroupState.EMPTY:
            return max(commit_timestamp_ms, self._now.state_since_ms)
        return commit_timestamp_ms if self.state is GroupState.STABLE else None

    def check_commit(self, sender: CommitSender) -> HeldSince | None:
        """Refuse offsets of whom has no part in the group (any more).

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and
                REBALANCE_IN_PROGRESS while the next generation has no assignments.
        """
        if self.is_empty and sender.generation < 0:
            return None  # from an administrator, or a consumer that needs no group to read
        if sender.generation >= 0 or sender.member_id or sender.instance_id is not None:
            member = self.members.find(sender.member_id, sender.instance_id)
            if sender.generation != self.generation:
                raise IllegalGenerationError
            self._now.heard(member)
        elif not sender.transactional:
            raise UnknownMemberIdError
        if self.state is GroupState.COMPLETING_REBALANCE and not sender.transactional:
            raise RebalanceInProgressError
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Tell committed offsets to anybody: members of classic groups do not say who they are."""

    def tombstones(self) -> list[Entry]:
        """Return what ends the group, here too, whether a record tells of it or not."""
        return [Entry(names_key(KeyType.GROUP_METADATA, self.group_id), None)]

    # --- coming and going of the coordinator ----------------------------------

    def replay(self, value: GroupMetadataValue) -> None:
        """Become what a record says."""
        self._now.replay(value)
        self._subscribed = None

    def begin(self) -> None:
        """Serve what records have told: members have a session from now on."""
        self._now.begin()
        if len(self.members) > self._config.group_max_size:
            self.rebalance(
                f"there are more than group.max.size={self._config.group_max_size} members"
            )

    def rebalance(self, why: str) -> None:
        """Have all members join again."""
        self._now.rebalance(why)

    def end(self, code: ErrorCode) -> None:
        """Serve no more; who waits gets this code."""
        self._now.end(code)

    # --- joining --------------------------------------------------------------

    def join(self, who: Applicant) -> Promise[JoinGroupResponse]:
        """Take in a member, or have it take part in the next generation.

        The promise is kept when all have joined; at once for who has to come back with an id, and
        for who joins again although nothing has changed.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
                FENCED_INSTANCE_ID.
        """
        if not self._has_room_for(who.member_id):
            self._turn_away(who.member_id)
            raise GroupMaxSizeReachedError
        names = [name for name, _ in who.protocols]
        if not who.protocol_type or not names:
            raise InconsistentGroupProtocolError
        fits = who.protocol_type == self.protocol_type and self.members.all_know_one_of(names)
        if not self.is_empty and not fits:
            raise InconsistentGroupProtocolError
        return self._join_again(who) if who.member_id else self._join_anew(who)

    def _has_room_for(self, member_id: str) -> bool:
        """Whether there is room; while all join again, whoever comes first has it."""
        size_max = self._config.group_max_size
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            joins = member is not None and member.joining is not None
            return joins or self.members.joined_count < size_max
        return member is not None or len(self.members) < size_max

    def _turn_away(self, member_id: str) -> None:
        self._forget_awaited(member_id)
        member = self.members.get(member_id)
        if member is not None:
            self._now.remove(member)
        self._go_on(f"there are more than group.max.size={self._config.group_max_size} members")

    def _join_anew(self, who: Applicant) -> Promise[JoinGroupResponse]:
        name = who.client_id if who.instance_id is None else who.instance_id
        member_id = f"{name[:NAME_CHARACTERS_MAX]}-{self._random.getrandbits(128):032x}"
        predecessor = self.members.with_instance_id(who.instance_id)
        if predecessor is not None:
            return self._replace(predecessor, _member(member_id, who), who)
        if who.instance_id is None and who.returns_with_id:
            return kept(self._await_return(member_id, who.session_timeout_ms))
        return self._take_in(member_id, who)

    def _await_return(self, member_id: str, timeout_ms: int) -> JoinGroupResponse:
        """Tell an id to who is to come back with it, so that no retry makes another member."""
        awaited = self._now.awaited
        if len(awaited) >= AWAITED_MAX:
            self._forget_awaited(next(iter(awaited)))
        awaited[member_id] = None
        self._now.sessions.heard(member_id, timeout_ms)
        return join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _forget_awaited(self, member_id: str) -> None:
        if member_id in self._now.awaited:
            del self._now.awaited[member_id]
            self._now.sessions.forget(member_id)

    def _take_in(self, member_id: str, who: Applicant) -> Promise[JoinGroupResponse]:
        member = _member(member_id, who)
        member.is_new = True
        if not self.members:
            self._now.protocol_type = who.protocol_type
        self._now.take_in(member)
        return self._now.wait_for_others(member, f"{member} joins{_said(who.reason)}")

    def _join_again(self, who: Applicant) -> Promise[JoinGroupResponse]:
        if who.member_id in self._now.awaited and who.instance_id is None:
            del self._now.awaited[who.member_id]
            return self._take_in(who.member_id, who)
        member = self.members.find(who.member_id, who.instance_id)
        unchanged = tuple(member.protocols) == tuple(who.protocols)
        # The leader may have seen partitions that were not there when it assigned.
        leads = member.member_id == self.members.leader_id
        settled = self.state is GroupState.COMPLETING_REBALANCE or (
            self.state is GroupState.STABLE and not leads
        )
        if unchanged and settled:  # perhaps it did not hear the answer
            self._now.heard(member)
            return kept(self._now.welcome(member))
        self._update(member, who)
        change = "" if unchanged else " with another subscription"
        why = f"{member} joins again{change}{_said(who.reason)}"
        return self._now.wait_for_others(member, why)

    def _update(self, member: Member, who: Applicant) -> None:
        self.members.set_protocols(member, who.protocols)
        member.session_timeout_ms = who.session_timeout_ms
        member.rebalance_timeout_ms = who.rebalance_timeout_ms

    # --- static members -------------------------------------------------------

    def _replace(self, old: Member, new: Member, who: Applicant) -> Promise[JoinGroupResponse]:
        """Let a static member go on under another id, with what it was assigned (KIP-345)."""
        logger.info("group %r: %s takes the place of %s", self.group_id, new, old)
        new.assignment = old.assignment
        if self.state is GroupState.STABLE:
            ballots = [(new if m is old else m).protocols for m in self.members]
            if elect_protocol(ballots) == self.protocol_name:
                return self._replace_in_place(old, new, who)
        # All have to join again: the leader may be assigning to the old one right now.
        self._now.substitute(old, new)
        return self._now.wait_for_others(new, f"{new} takes the place of {old}{_said(who.reason)}")

    def _replace_in_place(
        self, old: Member, new: Member, who: Applicant
    ) -> Promise[JoinGroupResponse]:
        """Replace a member without a rebalance; its new id has to outlive this coordinator."""
        led_by = self.members.leader_id
        promise: Promise[JoinGroupResponse] = Promise()

        def done(code: ErrorCode) -> None:
            member = self.members.get(new.member_id)
            if code is not ErrorCode.NONE:
                promise.resolve(join_refused(code, ""))
            elif member is None:  # it is gone since, or was replaced in turn
                promise.resolve(join_refused(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            else:
                answer = self._now.welcome(member)
                answer.skip_assignment = bool(answer.members)
                if not who.may_skip_assignment:
                    # It would assign anew, and not tell the others: it must not know that it leads.
                    answer.leader, answer.members, answer.skip_assignment = led_by or "", [], False
                promise.resolve(answer)

        told = [
            metadata_of(m, self.protocol_name, m.assignment)
            for m in ((new if m is old else m) for m in self.members)
        ]
        leader_id = new.member_id if led_by == old.member_id else led_by
        if self._now.write(told, leader_id, done):
            successor = self.members.get(new.member_id)
            assert successor is not None, "the record names it"
            self._update(successor, who)
            self._now.heard(successor)
        return promise

    # --- syncing, staying, leaving --------------------------------------------

    def sync(self, who: Assigner) -> Promise[SyncGroupResponse]:
        """Take the leader's assignments; promise a member its own.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
                INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        member = self._current(who.member_id, who.instance_id, who.generation)
        for said, known in (
            (who.protocol_type, self.protocol_type),
            (who.protocol_name, self.protocol_name),
        ):
            if said is not None and said != known:
                raise InconsistentGroupProtocolError
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError
        return self._now.sync(member, who.assignments)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Note that a member is alive.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and
                REBALANCE_IN_PROGRESS if it is to join again.
        """
        self._now.heard(self._current(member_id, instance_id, generation))
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError

    def _current(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = self.members.find(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGenerationError
        return member

    def leave(self, leavers: Iterable[Leaver]) -> list[ErrorCode]:
        """Let go of members, and of who was told an id; return what came of each."""
        count = len(self.members)
        stories: list[str] = []
        codes: list[ErrorCode] = []
        for leaver in leavers:
            try:
                stories.append(f"{self._let_go(leaver)} leaves{_said(leaver.reason)}")
                codes.append(ErrorCode.NONE)
            except KafkaError as error:
                codes.append(error.code)
        self._go_on("; ".join(stories), fewer=len(self.members) < count)
        return codes

    def _let_go(self, leaver: Leaver) -> str:
        if leaver.member_id in self._now.awaited:
            self._forget_awaited(leaver.member_id)
            return repr(leaver.member_id)
        member = self.members.with_instance_id(leaver.instance_id)
        if member is None or leaver.member_id:
            member = self.members.find(leaver.member_id, leaver.instance_id)
        self._now.remove(member)
        return str(member)

    def _on_silence(self, member_ids: list[str]) -> None:
        """Go on without members that were silent for longer than their session timeout."""
        silent: list[Member] = []
        for member_id in member_ids:
            self._now.awaited.pop(member_id, None)
            member = self.members.get(member_id)
            if member is not None:
                silent.append(member)
                self._now.remove(member)
        why = f"{named(silent)}: silent for longer than the session timeout"
        self._go_on(why, fewer=bool(silent))

    def _go_on(self, why: str, *, fewer: bool = False) -> None:
        """Have the others join again without those who are gone; perhaps all have by now."""
        if fewer or self.state is GroupState.PREPARING_REBALANCE:
            self._now.rebalance(why)
        elif self.is_unused:
            self._on_unused()


def _member(member_id: str, who: Applicant) -> Member:
    return Member(
        member_id=member_id,
        instance_id=who.instance_id,
        client_id=who.client_id,
        client_host=who.client_host,
        session_timeout_ms=who.session_timeout_ms,
        rebalance_timeout_ms=who.rebalance_timeout_ms,
        protocols=who.protocols,
    )


def _said(reason: str) -> str:
    """Return a client's reason for a sentence: it may hold anything."""
    return f": {reason[:REASON_CHARACTERS_MAX]!r}" if reason else ""
