"""ClassicGroups: the half of a coordinator that knows classic groups."""

from functools import partial

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.group import GroupContext, UnknownMemberIdError
from quorate.broker.groups.records import GroupMetadataValue, read_names
from quorate.broker.shards.formats import decode_value
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse


class ClassicGroups:
    """The classic groups among those of one coordinator."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def replay(self, key_type: int, key: bytes, value: bytes | None) -> None:  # noqa: ARG002 - there is one type
        """Fold one record into its group: the last one says all of it.

        Raises:
            CorruptRecordError: it is none of a classic group.
        """
        (group_id,) = read_names(key, 1)
        group = self._group(group_id)
        if value is None:
            if group is not None:
                del self._context.groups[group_id]
                # With members only if it goes on as a consumer group, which they are in: see there.
                group.end(ErrorCode.REBALANCE_IN_PROGRESS)
            return
        told = decode_value(GroupMetadataValue, value)
        (group or self._new(group_id)).replay(told)

    def loaded(self) -> None:
        """Begin to serve: members that were there get a session, as if just heard of."""
        for group in self._all():
            group.begin()

    def unload(self) -> None:
        """Answer NOT_COORDINATOR to all who wait, and cancel all deadlines."""
        for group in self._all():
            group.end(ErrorCode.NOT_COORDINATOR)

    def join(self, group_id: str, who: Applicant) -> Promise[JoinGroupResponse]:
        """Have somebody join; the group comes to be by that, if who joins is new.

        Raises:
            KafkaError: see :meth:`ClassicGroup.join`.
        """
        group = self._group(group_id)
        if group is None:
            if who.member_id:
                raise UnknownMemberIdError
            group = self._new(group_id)
        try:
            return group.join(who)
        except KafkaError:
            if group.is_unused:
                self._forget(group_id)
            raise

    def sync(self, group_id: str, who: Assigner) -> Promise[SyncGroupResponse]:
        """Promise a member its assignment.

        Raises:
            KafkaError: see :meth:`ClassicGroup.sync`.
        """
        return self._known(group_id).sync(who)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Note that a member is alive.

        Raises:
            KafkaError: see :meth:`ClassicGroup.heartbeat`.
        """
        self._known(group_id).heartbeat(member_id, instance_id, generation)

    def leave(self, group_id: str, leavers: list[Leaver]) -> list[ErrorCode]:
        """Let go of members; return what came of each."""
        group = self._group(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        return group.leave(leavers)

    def _known(self, group_id: str) -> ClassicGroup:
        group = self._group(group_id)
        if group is None:
            raise UnknownMemberIdError
        return group

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _new(self, group_id: str) -> ClassicGroup:
        group = ClassicGroup(group_id, self._context, partial(self._forget, group_id))
        self._context.groups[group_id] = group
        return group

    def _forget(self, group_id: str) -> None:
        del self._context.groups[group_id]

    def _all(self) -> list[ClassicGroup]:
        groups = self._context.groups.values()
        return [group for group in groups if isinstance(group, ClassicGroup)]
