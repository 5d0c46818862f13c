"""Trio shell: what every member of a group does, whatever the protocol: it runs, fails, leaves."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import trio

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.net.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.connections import Cluster
    from quorate.client.coordinators import Coordinators
    from quorate.client.group_topics import GroupTopics
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.rebalancing import Rebalancing
    from quorate.client.turns import Turns

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The parts of a consumer that its membership touches."""

    cluster: Cluster
    coordinators: Coordinators
    topics: GroupTopics
    turns: Turns
    rebalancing: Rebalancing
    progress_mark: Callable[[], object]


class GroupMember(ABC):
    """Keeps a consumer in its group, in tasks of its own.

    They end in :meth:`stop`, or when the group will not have this member (``failure``).
    """

    def __init__(self, parts: MemberParts) -> None:
        self.failure: QuorateError | None = None
        self._parts = parts
        self._bell = Bell()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    @abstractmethod
    def identity(self) -> GroupMetadata:
        """Who it is in the group."""

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """Whether it may commit."""

    @abstractmethod
    def subscription_changed(self) -> None:
        """Find out which topics are meant, and tell the group."""

    @abstractmethod
    def topics_changed(self) -> None:
        """Know that there are other topics or partitions than before."""

    @abstractmethod
    async def leave(self, reason: str) -> None:
        """Leave the group, once it has stopped; the caller sets a limit."""

    async def run(self) -> None:
        """Be a member until :meth:`stop`."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._start(nursery)
        finally:
            self._ended.set()

    @abstractmethod
    def _start(self, nursery: trio.Nursery) -> None:
        """Start its tasks."""

    async def stop(self) -> None:
        """Do nothing more of its own accord: no joins, no heartbeats, no rebalances."""
        self._scope.cancel()
        await self._ended.wait()

    @property
    def _group_id(self) -> str:
        return self.identity.group_id

    async def _send_leave(self, api_key: int, request: Any) -> None:
        """Say that it leaves, if anybody is there to hear it."""
        cluster = self._parts.cluster
        broker_id = self._parts.coordinators.known(self._group_id)
        if request is None or broker_id is None:
            return
        try:
            connection = await cluster.reach(broker_id)
            await connection.call(api_key, request, timeout_ms=cluster.settings.request_timeout_ms)
        except QuorateError as error:
            logger.info("group %r: not heard leaving: %s", self._group_id, error)
