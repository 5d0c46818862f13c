"""Trio shell: keeps a consumer in a consumer group (KIP-848): heartbeats, and what they bring."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import trio

from quorate.client.connections import RETRY, now_ms
from quorate.client.group_member import GroupMember
from quorate.client.membership.consumer_member import (
    ConsumerMember,
    ConsumerMemberSettings,
    Interest,
    SubscriptionPattern,
)
from quorate.client.membership.member import GivenUp, Next
from quorate.client.membership.progress import Progress
from quorate.errors import ErrorCode, KafkaError, QuorateError, UnsupportedVersionError
from quorate.net.bell import Bell
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from quorate.client.group_member import MemberParts
    from quorate.client.membership.identity import GroupMetadata
    from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse

    Subscription = frozenset[str] | re.Pattern[str] | SubscriptionPattern

logger = logging.getLogger(__name__)

NAMES_RETRY_S: Final = 1.0
"""How long to wait before asking again for names of topics that the asked broker did not know."""


class ConsumerGroupMember(GroupMember):
    """Drives a :class:`ConsumerMember`: one task sends heartbeats, another one does what they say.

    The first goes on while the other one waits for the user, or for a listener of the user's.
    """

    def __init__(
        self,
        parts: MemberParts,
        settings: ConsumerMemberSettings,
        subscription: Callable[[], Subscription],
    ) -> None:
        super().__init__(parts)
        member_id = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        self._member = ConsumerMember(settings, member_id)
        self._subscription = subscription
        self._work = Bell()
        self._look = True
        self._waits_for_user = False
        self._refused: QuorateError | None = None

    @property
    def identity(self) -> GroupMetadata:
        """Who it is in the group."""
        return self._member.identity

    @property
    def is_member(self) -> bool:
        """Whether it has an epoch of the group."""
        return self._member.is_member

    def subscription_changed(self) -> None:
        """Tell the group with the next heartbeat, which is sent at once."""
        self._look = True
        self._bell.ring()

    def topics_changed(self) -> None:
        """Look what a pattern of ours means now; all else the coordinator finds out itself."""
        self.subscription_changed()

    def _start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._keep_alive)
        nursery.start_soon(self._carry_out)

    # Saying that it is there

    async def _keep_alive(self) -> None:
        member, cluster = self._member, self._parts.cluster
        progress = Progress(member.settings.rebalance_timeout_ms, now_ms())
        attempts = 0
        await self._bell.wait()
        while True:
            in_time = progress.look(self._parts.progress_mark(), now_ms())
            if member.is_out:
                await self._bell.wait()
            elif member.is_member and not in_time:
                await self._leave_late()
            else:
                try:
                    outcome = await self._beat()
                except KafkaError as error:
                    if not error.retriable:
                        self._fail(error)
                        return
                    logger.info("group %r: no heartbeat: %s", self._group_id, error)
                    member.not_heard()
                    outcome = Next.LOOK_UP
                if outcome in {Next.GO_ON, Next.JOIN}:
                    attempts = 0
                    await self._bell.wait_until(trio.current_time() + member.interval_ms / 1000)
                    continue
                if outcome is Next.LOOK_UP:
                    self._parts.coordinators.forget(self._group_id)
                attempts += 1
                await trio.sleep(cluster.pause_s(RETRY, attempts))

    async def _beat(self) -> Next:
        member, cluster = self._member, self._parts.cluster
        if self._look:
            self._look = False
            member.interest = await self._interest()
        connection = await cluster.reach(await self._parts.coordinators.find(self._group_id))
        epoch = member.epoch
        try:
            response: ConsumerGroupHeartbeatResponse = await connection.call(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                member.heartbeat_request(),
                timeout_ms=cluster.settings.request_timeout_ms,
            )
        except UnsupportedVersionError as error:
            raise KafkaError(
                f"group_protocol is 'consumer', which the brokers do not serve: {error.message}",
                code=ErrorCode.UNSUPPORTED_VERSION,
            ) from None
        outcome = member.on_heartbeat(response)
        if response.assignment is not None or member.is_out:
            logger.info(
                "group %r: epoch %d after %d, %d partitions",
                *(self._group_id, member.epoch, epoch, len(member.assigned)),
            )
            self._work.ring()
        return outcome

    async def _interest(self) -> Interest:
        wanted = self._subscription()
        if isinstance(wanted, SubscriptionPattern):
            return Interest(expression=wanted.pattern)
        if isinstance(wanted, frozenset):
            return Interest(wanted)
        try:
            return Interest(await self._parts.topics.look())
        except QuorateError:
            self._look = True
            raise

    async def _leave_late(self) -> None:
        """Let others have the partitions of a user that does not ask for records (KIP-62)."""
        interval_ms = self._member.settings.rebalance_timeout_ms
        logger.warning(
            "group %r: left: no poll within max_poll_interval_ms (%d ms)",
            *(self._group_id, interval_ms),
        )
        await self._tell_that_it_leaves()
        self._member.left()
        self._waits_for_user = True
        self._work.ring()

    def _fail(self, error: QuorateError) -> None:
        """The group will not have this member: its user is to know, once it has given all up."""
        self._refused = error
        self._member.put_out()
        self._waits_for_user = True
        self._work.ring()

    # Doing what it is told

    async def _carry_out(self) -> None:
        member = self._member
        while self.failure is None:
            await self._work.wait()
            while self._has_work():
                if member.nameless:
                    await self._learn_names()
                if member.to_give_up or member.to_add or self._waits_for_user:
                    async with self._parts.turns.taken():
                        await self._rebalance()
                elif member.is_out:
                    self._come_back()
                else:
                    with trio.move_on_after(NAMES_RETRY_S):
                        await self._work.wait()

    def _has_work(self) -> bool:
        member = self._member
        wants_back = member.is_out and self._refused is None
        return bool(member.owned != member.assigned or self._waits_for_user or wants_back)

    async def _rebalance(self) -> None:
        """Give up, and take over, while the user's code waits."""
        member, rebalancing = self._member, self._parts.rebalancing
        places, lost = member.to_give_up, member.is_out
        if places or lost:
            await rebalancing.give_up(GivenUp(member.named(places), lost))
            member.gave_up(places)
        if lost:
            self._waits_for_user = False
            self.failure = self._refused
            if self.failure is None:
                self._come_back()
            return
        if added := member.to_add:
            await rebalancing.take_over(member.named(added))
            member.took_over(added)
        self._bell.ring()

    def _come_back(self) -> None:
        self._member.come_back()
        self._bell.ring()

    async def _learn_names(self) -> None:
        try:
            found = await self._parts.cluster.names_of_topics(self._member.nameless)
        except QuorateError as error:
            logger.info("group %r: no names of topics: %s", self._group_id, error)
            found = {}
        self._member.learn(found)

    # Leaving

    async def leave(self, reason: str) -> None:
        """Leave the group; of a static member, for a while."""
        logger.debug("group %r: leaves: %s", self._group_id, reason)
        await self._tell_that_it_leaves()
        self._member.left()

    async def _tell_that_it_leaves(self) -> None:
        request = self._member.leave_request()
        await self._send_leave(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
