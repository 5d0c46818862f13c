"""Trio shell: keeps a consumer in a classic group: joins, sends heartbeats, leaves."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.connections import RETRY, now_ms
from quorate.client.group_member import GroupMember
from quorate.client.membership.member import GivenUp, Member, Next
from quorate.client.membership.progress import Progress
from quorate.errors import KafkaError, QuorateError
from quorate.net.rpc import wait_for
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from quorate.client.group_member import MemberParts
    from quorate.client.membership.identity import GroupMetadata
    from quorate.net.rpc import Connection
    from quorate.promise import Promise
    from quorate.protocol.messages.groups import (
        HeartbeatResponse,
        JoinGroupResponse,
        SyncGroupResponse,
    )

logger = logging.getLogger(__name__)

GROUP_LANE: Final = "group"
"""Brokers keep who joins waiting, and answer the requests of a connection in order."""

REBALANCE_GRACE_MS: Final = 5_000
"""How much longer than a rebalance may take its answer may take to arrive."""


class ClassicGroupMember(GroupMember):
    """Drives a :class:`Member`: one task joins and syncs, another one sends heartbeats."""

    def __init__(self, parts: MemberParts, member: Member, *, heartbeat_interval_ms: int) -> None:
        super().__init__(parts)
        self._member = member
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._joining: Promise[JoinGroupResponse] | None = None
        self._asking = False
        self._was_late = False
        self._refused: QuorateError | None = None

    @property
    def identity(self) -> GroupMetadata:
        """Who it is in the group."""
        return self._member.identity

    @property
    def is_member(self) -> bool:
        """Whether it is in a generation of the group."""
        return self._member.is_member

    def subscription_changed(self) -> None:
        """Look which topics are meant, and join for them."""
        self._member.ask_to_join("the subscription changed")
        self._bell.ring()

    def topics_changed(self) -> None:
        """Join again, for there are other topics or partitions."""
        self._member.ask_to_join("topics have changed")
        self._bell.ring()

    def _start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._keep_joined)
        nursery.start_soon(self._keep_alive)

    # Joining

    async def _keep_joined(self) -> None:
        attempts = 0
        while True:
            if self._refused is not None:
                await self._fail(self._refused)
                return
            if self._member.rejoin_reason is None:
                await self._bell.wait()
                continue
            reason = self._member.rejoin_reason
            try:
                outcome = await self._rejoin()
            except KafkaError as error:
                if not error.retriable:
                    await self._fail(error)
                    return
                logger.info("group %r: %s", self._group_id, error)
                outcome = Next.LOOK_UP
            if outcome in {Next.GO_ON, Next.JOIN}:
                attempts = 0
                continue
            self._member.ask_to_join(reason)
            if outcome is Next.LOOK_UP:
                self._parts.coordinators.forget(self._group_id)
            attempts += 1
            await trio.sleep(self._parts.cluster.pause_s(RETRY, attempts))

    async def _rejoin(self) -> Next:
        """Give up what has to be given up, join, sync, and take over what is assigned."""
        member = self._member
        self._member.subscribe(await self._parts.topics.look())
        if member.to_give_up().partitions or self._was_late:
            async with self._parts.turns.taken():
                self._was_late = False
                given = member.to_give_up()
                await self._parts.rebalancing.give_up(given)
                member.gave_up(given.partitions)
        outcome = await self._join()
        if outcome is Next.GO_ON:
            outcome = await self._sync()
        if outcome is Next.GO_ON:
            await self._take_over()
        return outcome

    async def _join(self) -> Next:
        request = self._member.join_request()
        connection = await self._reach()
        self._asking = True
        try:
            self._joining = connection.submit(
                ApiKey.JOIN_GROUP, request, timeout_ms=self._answer_timeout_ms()
            )
            response: JoinGroupResponse = await wait_for(self._joining)
            self._joining = None
            return self._member.on_joined(response)
        finally:
            self._asking = False

    async def _sync(self) -> Next:
        topics = await self._parts.topics.look_at(self._member.topics_to_assign)
        request = self._member.sync_request(topics.of(self._member.topics_to_assign))
        connection = await self._reach()
        self._asking = True
        try:
            response: SyncGroupResponse = await connection.call(
                ApiKey.SYNC_GROUP, request, timeout_ms=self._answer_timeout_ms()
            )
            return self._member.on_synced(response)
        finally:
            self._asking = False

    async def _take_over(self) -> None:
        """Carry out an assignment, unless it is void by the time that the user's code waits."""
        member = self._member
        generation_id = member.generation_id
        logger.info(
            "group %r: generation %d, %s", self._group_id, generation_id, sorted(member.assigned)
        )
        async with self._parts.turns.taken():
            if member.generation_id != generation_id:
                return
            revoked, added = member.to_revoke, member.to_add
            if revoked:
                await self._parts.rebalancing.give_up(GivenUp(revoked, lost=False))
                member.revoked(revoked)
            if member.generation_id == generation_id:
                await self._parts.rebalancing.take_over(added)
                member.took_over(added)

    def _answer_timeout_ms(self) -> int:
        rebalance_ms = self._member.settings.rebalance_timeout_ms + REBALANCE_GRACE_MS
        return max(rebalance_ms, self._parts.cluster.settings.request_timeout_ms)

    async def _reach(self) -> Connection:
        broker_id = await self._parts.coordinators.find(self._group_id)
        return await self._parts.cluster.reach(broker_id, GROUP_LANE)

    async def _fail(self, error: QuorateError) -> None:
        """The group will not have this member: its user is to know, once it has given all up."""
        async with self._parts.turns.taken():
            given = self._member.to_give_up()
            await self._parts.rebalancing.give_up(given)
            self._member.gave_up(given.partitions)
            self.failure = error

    # Staying

    async def _keep_alive(self) -> None:
        progress = Progress(self._member.settings.rebalance_timeout_ms, now_ms())
        while self._refused is None and self.failure is None:
            await trio.sleep(self._heartbeat_interval_ms / 1000)
            in_time = progress.look(self._parts.progress_mark(), now_ms())
            if not self._member.is_member or self._asking or self._was_late:
                continue
            if in_time:
                await self._beat()
            else:
                await self._leave_late()

    async def _beat(self) -> None:
        member, generation_id = self._member, self._member.generation_id
        timeout_ms = min(
            member.settings.session_timeout_ms, self._parts.cluster.settings.request_timeout_ms
        )
        try:
            connection = await self._parts.cluster.reach(
                await self._parts.coordinators.find(self._group_id)
            )
            response: HeartbeatResponse = await connection.call(
                ApiKey.HEARTBEAT, member.heartbeat_request(), timeout_ms=timeout_ms
            )
            if self._asking or member.generation_id != generation_id:
                return
            outcome = member.on_heartbeat(response)
        except KafkaError as error:
            if not error.retriable:
                self._refused = error
                self._bell.ring()
                return
            logger.info("group %r: no heartbeat: %s", self._group_id, error)
            outcome = Next.LOOK_UP
        if outcome is Next.LOOK_UP:
            self._parts.coordinators.forget(self._group_id)
        if member.rejoin_reason is not None:
            self._bell.ring()

    async def _leave_late(self) -> None:
        """Let others have the partitions of a user that does not ask for records (KIP-62)."""
        interval_ms = self._member.settings.rebalance_timeout_ms
        reason = f"no poll within max_poll_interval_ms ({interval_ms} ms)"
        logger.warning("group %r: left: %s", self._group_id, reason)
        self._was_late = True
        await self._send_leave(ApiKey.LEAVE_GROUP, self._member.leave_request(reason))
        self._member.left()
        self._member.ask_to_join("it polls again")
        self._bell.ring()

    # Leaving

    async def leave(self, reason: str) -> None:
        """Leave the group.

        A join that is under way is waited for where only its answer says who is to leave.
        """
        joining, self._joining = self._joining, None
        if joining is not None and not self._member.member_id:
            try:
                self._member.on_joined(await wait_for(joining))
            except QuorateError as error:
                logger.debug("group %r: %s", self._group_id, error)
        await self._send_leave(ApiKey.LEAVE_GROUP, self._member.leave_request(reason))
        self._member.left()
