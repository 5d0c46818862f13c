"""Trio shell: commits offsets in the order in which they were handed over."""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING

import trio

from quorate.client.connections import RETRY
from quorate.client.errors import ClosedError, CommitFailedError
from quorate.client.group_offsets import commit_offsets
from quorate.errors import ErrorCode, KafkaError, QuorateError, RequestTimedOutError
from quorate.net.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quorate.client.connections import Cluster
    from quorate.client.coordinators import Coordinators
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.identity import GroupMetadata
    from quorate.model import TopicPartition

logger = logging.getLogger(__name__)

_FENCED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
_PASSING = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The group is on its way to a generation, or an epoch, that the member is about to hear of.

Or it is there, without the member: then ILLEGAL_GENERATION does not pass. Or the coordinator has
written the offsets, and its followers were not in time.
"""


class Commit:
    """Offsets on their way to the coordinator; it may be dropped by who does not want to know."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.done = False
        """Whether the outcome is known."""

        self.error: QuorateError | None = None
        """Why some offset was not committed; None if all were, or nobody knows yet."""

        self._callbacks: list[Callable[[Commit], None]] = []

    async def result(self) -> None:
        """Wait for the outcome.

        Raises:
            QuorateError: Not everything was committed, for that reason.
        """
        if not self.done:
            event = trio.Event()
            self._callbacks.append(lambda _: event.set())
            await event.wait()
        else:
            await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise copy(self.error)

    def add_callback(self, callback: Callable[[Commit], None]) -> None:
        """Call back with this commit when it is done: now, if it is.

        Callbacks run in the consumer's task and must be quick; what they raise is logged.
        """

        def call_back(commit: Commit) -> None:
            try:
                callback(commit)
            except Exception:
                logger.exception("a commit callback failed")

        if self.done:
            call_back(self)
        else:
            self._callbacks.append(call_back)

    def resolve(self, error: QuorateError | None) -> None:
        """Make the outcome known."""
        assert not self.done
        self.done, self.error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class Commits:
    """Sends commits, one at a time, so that a later one never loses to an earlier one.

    What is handed over while one is under way goes together into the next: however fast it comes,
    there are two at most. Invariant: every commit is resolved, at the latest in :meth:`end`.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        identity: Callable[[], GroupMetadata | None],
    ) -> None:
        self._cluster = cluster
        self._coordinators = coordinators
        self._identity = identity
        self._bell = Bell()
        self._settled = trio.lowlevel.ParkingLot()
        self._sending: Commit | None = None
        self._next: Commit | None = None
        self._lost = False
        self._over = False

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Commit:
        """Hand offsets over."""
        if self._over:
            raise ClosedError("this consumer was closed: it commits no more")
        if self._next is None:
            self._next = Commit()
            self._bell.ring()
        self._next.offsets.update(offsets)
        return self._next

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._sending is not None or self._next is not None:
            await self._settled.park()

    def lose(self, partitions: frozenset[TopicPartition]) -> None:
        """Send nothing more about partitions that may be somebody else's."""
        if self._sending is not None and not partitions.isdisjoint(self._sending.offsets):
            self._lost = True
        lost = self._next
        if lost is not None and not partitions.isdisjoint(lost.offsets):
            self._next = None
            lost.resolve(CommitFailedError("the partitions were lost before they were committed"))
            self._settled.unpark_all()

    async def run(self) -> None:
        """Send what is handed over, until the consumer is closed."""
        while True:
            await self._bell.wait()
            commit, self._next = self._next, None
            if commit is None:
                continue
            self._sending, self._lost = commit, False
            try:
                error = await self._send(commit.offsets)
            except QuorateError as trouble:
                error = trouble
            self._sending = None
            if not commit.done:  # the consumer may have been closed while the answer came
                commit.resolve(error)
            self._settled.unpark_all()

    def end(self) -> None:
        """Resolve what will not be sent any more."""
        self._over = True
        left = [self._sending, self._next]
        self._sending = self._next = None
        for commit in left:
            if commit is not None:
                commit.resolve(ClosedError("the consumer was closed before an answer came"))

    async def _send(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> QuorateError | None:
        """Return what went wrong first; while the group rebalances, wait."""
        error: QuorateError | None = None
        attempts = 0
        with trio.move_on_after(self._cluster.settings.request_timeout_ms / 1000):
            while True:
                identity = self._identity()
                if identity is None:
                    return CommitFailedError("this consumer is no member of its group now")
                results = await commit_offsets(
                    self._coordinators,
                    identity.group_id,
                    offsets,
                    generation_id=identity.generation_id,
                    member_id=identity.member_id,
                    instance_id=identity.group_instance_id,
                )
                error = next((each for each in results.values() if each is not None), None)
                code = error.code if isinstance(error, KafkaError) else ErrorCode.NONE
                if code not in _FENCED | _PASSING:
                    return error
                if code in _PASSING and not self._lost:
                    attempts += 1
                    await trio.sleep(self._cluster.pause_s(RETRY, attempts))
                stuck = code == ErrorCode.ILLEGAL_GENERATION and not self._went_on(identity)
                if code in _FENCED or self._lost or stuck:
                    return CommitFailedError(
                        f"{error}. The group has gone on without this member; poll more often, or"
                        " set a longer max_poll_interval_ms or session_timeout_ms"
                    )
        timeout_ms = self._cluster.settings.request_timeout_ms
        return error or RequestTimedOutError(
            f"no coordinator answered within request_timeout_ms={timeout_ms}; the offsets may be"
            " committed all the same"
        )

    def _went_on(self, since: GroupMetadata) -> bool:
        """Whether the member went on with its group to a later generation.

        It hears of that over another connection than this one's: perhaps after the coordinator has
        refused a commit.
        """
        now = self._identity()
        return (
            now is not None
            and now.member_id == since.member_id
            and now.generation_id > since.generation_id
        )
