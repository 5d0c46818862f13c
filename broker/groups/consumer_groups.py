"""ConsumerGroups: the half of a coordinator that knows consumer groups (KIP-848)."""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from quorate.broker.groups import consumer_classic, consumer_heartbeats
from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_describing import describe
from quorate.broker.groups.consumer_heartbeats import Caller
from quorate.broker.groups.consumer_members import JOINING, Member
from quorate.broker.groups.consumer_migration import (
    check_upgrade,
    downgraded,
    may_downgrade,
    upgraded,
)
from quorate.broker.groups.consumer_rebalancing import Draft, Terms, remove_members
from quorate.broker.groups.consumer_records import EpochFact, read_fact, write_fact
from quorate.broker.groups.consumer_watch import Watch
from quorate.broker.groups.errors import RebalanceInProgressError
from quorate.broker.groups.group import GroupContext, GroupIdNotFoundError
from quorate.broker.groups.own_configs import OwnConfigs
from quorate.broker.groups.telling import tell
from quorate.broker.shards.effects import Done, Effects, Entry, ignore
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise, kept
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

logger = logging.getLogger(__name__)

T = TypeVar("T")

MEMBER_ID_BYTES: Final = 16


class ConsumerGroups:
    """The consumer groups among those of one coordinator.

    Soft state: a watch for each group, of the sessions and timeouts of its members; and which
    names of topics there were last, so that regular expressions are matched again only when there
    are others.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._config = context.surroundings.config
        self._own_configs = OwnConfigs(context.surroundings)
        self._watches: dict[str, Watch] = {}
        self._names: object = None
        self._names_version = 0

    # --- the fold of the records -------------------------------------------------

    def replay(self, key_type: int, key: bytes, value: bytes | None) -> None:
        """Fold one record into its group, which comes to be by its first and ends by its last.

        Raises:
            CorruptRecordError: it is none of a consumer group.
        """
        fact = read_fact(key_type, key, value)
        group = self._group(fact.group_id)
        if group is None:
            if value is None:
                return
            group = ConsumerGroup(fact.group_id)
            self._context.groups[fact.group_id] = group
        group.apply(fact)
        if value is None and isinstance(fact, EpochFact):
            del self._context.groups[fact.group_id]
            self._stop_watching(fact.group_id)

    def loaded(self) -> None:
        """Begin to serve: members get a session, as if just heard of."""
        for group in self._all():
            self._watch_all(group)

    def unload(self) -> None:
        """Cancel all deadlines; nobody waits here but for commits."""
        for group_id in list(self._watches):
            self._stop_watching(group_id)

    def coordinates(self, group_id: str) -> bool:
        """Whether the group is a consumer group."""
        return self._group(group_id) is not None

    def describe(self, group_id: str) -> Promise[ConsumerGroupDescribeGroup]:
        """Promise to tell of a group, once what there is to tell is committed.

        Raises:
            GroupIdNotFoundError: there is no such consumer group.
        """
        group = self._known(group_id)
        image = self._context.surroundings.image()
        told = describe(group, image, self._config.group_consumer_assignors[0])
        promise, done = _answered(told, partial(_undescribed, group_id))
        self._context.writer.when_committed(group_id, done)
        return promise

    # --- members of the new protocol ---------------------------------------------

    def beat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> Promise[ConsumerGroupHeartbeatResponse]:
        """Let a member join, go on or leave; the promise is kept once that is committed.

        Raises:
            KafkaError: see :mod:`quorate.broker.groups.consumer_heartbeats`; GROUP_ID_NOT_FOUND.
        """
        assignors = self._config.group_consumer_assignors
        consumer_heartbeats.check(request, caller.api_version, assignors)
        if request.member_epoch < JOINING:
            return self._leave(request)
        joins = request.member_epoch == JOINING
        if not request.member_id:  # up to version 0, members are named here
            request = copy(request)
            request.member_id = self._new_member_id()
        ended, draft = self._begun(request.group_id, joins=joins)
        answer = consumer_heartbeats.beat(draft, request, caller, self._terms(request.group_id))
        promise, done = _answered(answer, _refused_heartbeat)
        before = self._member(request.group_id, request.member_id)
        if self._write(draft, done, ended):
            group = self._known(request.group_id)
            member = group.members[request.member_id]
            if ended:
                self._watch_all(group)
            self._heard(group.group_id, member)
            self._watch(group.group_id).moved(None if before is None else before.standing, member)
            if before is None:
                self._tell(group, f"member {member.member_id} of {caller.client_host} joined")
        elif before is not None:  # it is alive, and may have given up what it was to give up
            self._heard(request.group_id, before)
            self._watch(request.group_id).moved(None, before)
        return promise

    def _begun(self, group_id: str, *, joins: bool) -> tuple[Sequence[Entry], Draft]:
        """Return a draft of the group, and what ends a classic one that was there before."""
        found = self._context.groups.get(group_id)
        if isinstance(found, ConsumerGroup):
            return (), Draft(found)
        if not joins:
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        draft = Draft(ConsumerGroup(group_id))
        if not isinstance(found, ClassicGroup):
            return (), draft
        if not found.is_empty:
            check_upgrade(found, self._config)
            draft.put(*upgraded(found, self._context.surroundings.image()))
        return found.tombstones(), draft

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> Promise[ConsumerGroupHeartbeatResponse]:
        draft = Draft(self._known(request.group_id))
        answer = consumer_heartbeats.leave(draft, request, self._terms(request.group_id))
        promise, done = _answered(answer, _refused_heartbeat)
        away = draft.group.members.get(request.member_id)
        gone = [] if away is not None else [request.member_id]
        left = self._take_out(draft, gone, f"member {request.member_id} left", done)
        if left and away is not None:
            self._watch(request.group_id).moved(None, away)
        return promise

    # --- members of the classic protocol -----------------------------------------

    def make_way(self, group_id: str) -> None:
        """Delete a group that is empty, so that there can be a classic one.

        Raises:
            KafkaError: it cannot be written that there is none any more.
        """
        group = self._group(group_id)
        if group is not None and group.is_empty:
            refused: list[ErrorCode] = []
            effects = Effects(group_id, tuple(group.tombstones()), refused.append)
            if not self._context.writer.write(effects):
                raise KafkaError(code=refused[0])

    def join(self, group_id: str, who: Applicant) -> Promise[JoinGroupResponse]:
        """Let a member join, or join again; the promise is kept once that is committed.

        Raises:
            KafkaError: see :func:`quorate.broker.groups.consumer_classic.join`.
        """
        group, terms = self._known(group_id), self._terms(group_id)
        member_id = who.member_id or self._new_member_id()
        if not who.member_id and who.instance_id is None and who.returns_with_id:
            consumer_classic.check_applicant(group, who, terms)
            code = int(ErrorCode.MEMBER_ID_REQUIRED)
            return kept(JoinGroupResponse(error_code=code, member_id=member_id))
        draft = Draft(group)
        answer = consumer_classic.join(draft, who, member_id, terms)
        if may_downgrade(draft.group, self._config):
            return self._downgrade_and_join(draft, replace(who, member_id=member_id))
        promise, done = _answered(answer, partial(_refused_join, who.member_id))
        if self._write(draft, done, ()):
            member = group.members[member_id]
            self._heard(group_id, member)
            self._watch(group_id).joined(member)
            self._tell(group, f"classic member {member_id} joined{_said(who.reason)}")
        elif member_id in group.members:
            self._heard(group_id, group.members[member_id])
        return promise

    def _downgrade_and_join(self, draft: Draft, who: Applicant) -> Promise[JoinGroupResponse]:
        """Go on as a classic group, which all members can be in who are left."""
        refused: list[ErrorCode] = []
        why = f"static member {who.member_id} came back with the classic protocol"
        group = self._downgrade(draft, why, refused.append)
        if group is None:
            return kept(_refused_join(who.member_id, refused[0]))
        return group.join(who)

    def sync(self, group_id: str, who: Assigner) -> Promise[SyncGroupResponse]:
        """Promise a member its assignment.

        Raises:
            KafkaError: see :func:`quorate.broker.groups.consumer_classic.sync`.
        """
        group, image = self._known(group_id), self._context.surroundings.image()
        watch = self._watch(group_id)
        try:
            answer = consumer_classic.sync(group, who, image)
        except RebalanceInProgressError:
            watch.must_join(group.members[who.member_id])
            raise
        watch.synced(who.member_id)
        self._heard(group_id, group.members[who.member_id])
        promise, done = _answered(answer, lambda code: SyncGroupResponse(error_code=int(code)))
        self._context.writer.when_committed(group_id, done)
        return promise

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Note that a member is alive.

        Raises:
            KafkaError: see :func:`quorate.broker.groups.consumer_classic.check_member`;
                REBALANCE_IN_PROGRESS, to have it join again.
        """
        group = self._known(group_id)
        member = consumer_classic.check_member(group, member_id, instance_id, generation)
        self._heard(group_id, member)
        if consumer_classic.must_rejoin(group, member, self._terms(group_id)):
            self._watch(group_id).must_join(member)
            raise RebalanceInProgressError

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> Promise[list[ErrorCode]]:
        """Let go of members; promise to tell what came of each, once that is committed."""
        group = self._known(group_id)
        codes: list[ErrorCode] = []
        gone: dict[str, str] = {}
        for leaver in leavers:
            try:
                member = consumer_classic.who_leaves(group, leaver)
            except KafkaError as error:
                codes.append(error.code)
            else:
                codes.append(ErrorCode.NONE)
                gone[member.member_id] = f"{member.member_id} left{_said(leaver.reason)}"
        draft = Draft(group)
        if gone:
            remove_members(draft, gone, self._terms(group_id))
        promise, done = _answered(codes, lambda code: [code] * len(leavers))
        self._take_out(draft, list(gone), ", ".join(gone.values()), done)
        return promise

    # --- members that go ---------------------------------------------------------

    def _overdue(self, group_id: str, what: str, member_ids: list[str]) -> bool:
        """Take members out that did not do something in time; return whether they are out."""
        group = self._known(group_id)
        gone = [member_id for member_id in member_ids if member_id in group.members]
        if not gone:  # static members that were succeeded by others
            return True
        draft = Draft(group)
        remove_members(draft, gone, self._terms(group_id))
        return self._take_out(draft, gone, f"{', '.join(gone)} {what}", ignore)

    def _take_out(self, draft: Draft, gone: Sequence[str], why: str, done: Done) -> bool:
        """Write that members are gone, if that can be; perhaps those who stay are all classic."""
        if gone and may_downgrade(draft.group, self._config):
            return self._downgrade(draft, why, done) is not None
        if not self._write(draft, done, ()):
            return False
        group = self._known(draft.group.group_id)
        for member_id in gone:
            self._watch(group.group_id).forget(member_id)
        self._tell(group, why)
        return True

    def _downgrade(self, draft: Draft, why: str, done: Done) -> ClassicGroup | None:
        """Go on as a classic group, if that can be written."""
        group_id, surroundings = draft.group.group_id, self._context.surroundings
        entries = downgraded(
            self._known(group_id), draft.group, surroundings.image(), surroundings.now_ms()
        )
        if not self._context.writer.write(Effects(group_id, tuple(entries), done)):
            return None
        group = self._context.groups[group_id]
        assert isinstance(group, ClassicGroup), "so the records say"
        logger.info("group %r goes on with the classic protocol: %s", group_id, why)
        group.begin()
        group.rebalance(why)
        return group

    # --- what they have in common ------------------------------------------------

    def _write(self, draft: Draft, done: Done, ended: Sequence[Entry]) -> bool:
        """Write what has changed; if nothing has, ``done`` waits for what was written before."""
        group_id = draft.group.group_id
        entries = (*ended, *(write_fact(fact) for fact in draft.facts))
        written = self._context.writer.write(Effects(group_id, entries, done))
        if written:
            self._known(group_id).topics_seen = draft.topics_seen
        return written

    def _terms(self, group_id: str) -> Terms:
        surroundings = self._context.surroundings
        image = surroundings.image()
        if image.topic_names is not self._names:
            self._names, self._names_version = image.topic_names, image.version
        config = self._own_configs.of(group_id)
        return Terms(image, surroundings.now_ms(), config, self._names_version)

    def _tell(self, group: ConsumerGroup, what: str) -> None:
        tell(
            "group-changed", group=group.group_id, cause=what, members=len(group.members),
            epoch=group.epoch.epoch, assigned_for=group.target_epoch.epoch,
        )  # fmt: skip

    def _new_member_id(self) -> str:
        data = self._context.surroundings.random.randbytes(MEMBER_ID_BYTES)
        return urlsafe_b64encode(data).rstrip(b"=").decode()

    def _session_timeout_ms(self, group_id: str, member: Member) -> int:
        classic = member.profile.classic
        if classic is not None:
            return classic.session_timeout_ms
        return self._own_configs.of(group_id).group_consumer_session_timeout_ms

    def _heard(self, group_id: str, member: Member) -> None:
        """Note that a member is alive."""
        timeout_ms = self._session_timeout_ms(group_id, member)
        self._watch(group_id).heard(member.member_id, timeout_ms)

    def _watch(self, group_id: str) -> Watch:
        watch = self._watches.get(group_id)
        if watch is None:
            deadlines = self._context.surroundings.deadlines
            watch = self._watches[group_id] = Watch(deadlines, partial(self._overdue, group_id))
        return watch

    def _watch_all(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            self._heard(group.group_id, member)
            if member.profile.classic is None:
                self._watch(group.group_id).moved(None, member)

    def _stop_watching(self, group_id: str) -> None:
        watch = self._watches.pop(group_id, None)
        if watch is not None:
            watch.stop()

    def _all(self) -> list[ConsumerGroup]:
        groups = self._context.groups.values()
        return [group for group in groups if isinstance(group, ConsumerGroup)]

    def _group(self, group_id: str) -> ConsumerGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _member(self, group_id: str, member_id: str) -> Member | None:
        group = self._group(group_id)
        return None if group is None else group.members.get(member_id)

    def _known(self, group_id: str) -> ConsumerGroup:
        group = self._group(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        return group


def _answered(answer: T, refused: Callable[[ErrorCode], T]) -> tuple[Promise[T], Done]:
    """Return the promise of an answer, and who keeps it: with that, or as a code says."""
    promise: Promise[T] = Promise()

    def done(code: ErrorCode) -> None:
        promise.resolve(answer if code is ErrorCode.NONE else refused(code))

    return promise, done


def _refused_heartbeat(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(code))


def _refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=int(code), member_id=member_id)


def _undescribed(group_id: str, code: ErrorCode) -> ConsumerGroupDescribeGroup:
    return ConsumerGroupDescribeGroup(error_code=int(code), group_id=group_id)


def _said(reason: str) -> str:
    return f' ("{reason}")' if reason else ""
