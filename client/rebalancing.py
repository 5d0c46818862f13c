"""Trio shell: what a rebalance does to a consumer, told to its user in the right order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from quorate.client.errors import NoOffsetError
from quorate.client.group_offsets import fetch_offsets
from quorate.client.receiving.positions import OffsetReset
from quorate.errors import KafkaError, QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quorate.client.commits import Commit, Commits
    from quorate.client.coordinators import Coordinators
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.member import GivenUp
    from quorate.client.reading import Reading
    from quorate.client.receiving.streams import PartitionStream
    from quorate.model import TopicPartition

logger = logging.getLogger(__name__)


class RebalanceListener:
    """Is told which partitions a consumer gets and gives up; override what you need.

    The methods run in another task, while the user's code waits in ``poll`` or an iteration (or
    leaves the consumer's block), never beside it. They may seek, commit, and wait, but not poll.
    While one runs, the partitions are nobody else's. What they raise comes out of ``poll``.
    """

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These are the consumer's from now on, from the committed offsets; seek, if you like."""

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These go to others when this is done: commit, store, close what belongs to them."""

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """These may be others' already, because the group went on without this consumer.

        Nothing can be committed for them any more. By default the same as :meth:`on_revoked`.
        """
        await self.on_revoked(partitions)


class Rebalancing:
    """Carries out what a member is told: streams, commits, the listener.

    What the listener raises is kept in ``failure`` for the user, and does not stop the rebalance.
    """

    def __init__(
        self,
        reading: Reading,
        commits: Commits,
        on_new_streams: Callable[[], None],
        *,
        auto_commit: bool,
    ) -> None:
        self.listener = RebalanceListener()
        self.failure: Exception | None = None
        self.times_given_up = 0
        """How often partitions were given up, so that others may have read them since."""

        self._reading = reading
        self._commits = commits
        self._on_new_streams = on_new_streams
        self._auto_commit = auto_commit
        self._known: dict[TopicPartition, int] = {}
        """The offsets that were committed by themselves last."""

    async def give_up(self, given: GivenUp, *, processed_only: bool = False) -> None:
        """Give partitions up: commit how far they were read, tell the listener, read them no more.

        Args:
            given: Which, and whether they are somebody else's already.
            processed_only: The user may not have done with what it was given last.
        """
        partitions = frozenset(given.partitions & self._reading.streams.keys())
        if given.lost:
            self._commits.lose(partitions)
        elif self._auto_commit:
            self.commit_soon(partitions, processed_only=processed_only)
        if partitions:
            self.times_given_up += 1
            try:
                if given.lost:
                    await self.listener.on_lost(partitions)
                else:
                    await self.listener.on_revoked(partitions)
            except Exception as error:
                logger.exception("a rebalance listener failed")
                self.failure = error
        if not given.lost:
            await self._commits.settle()
        self._known.clear()
        left = {p: s for p, s in self._reading.streams.items() if p not in given.partitions}
        self._reading.read(left)

    def drop(self) -> None:
        """Read nothing any more, and commit nothing of it: giving it up may have been cancelled."""
        if self._reading.streams:
            self.times_given_up += 1
            self._commits.lose(frozenset(self._reading.streams))
            self._known.clear()
            self._reading.read({})

    def commit_soon(
        self, partitions: Iterable[TopicPartition], *, processed_only: bool
    ) -> Commit | None:
        """Commit how far partitions were read; None if there is nothing to commit."""
        reading = self._reading
        offsets = reading.processed() if processed_only else reading.positions()
        fresh = {
            partition: offsets[partition]
            for partition in partitions
            if partition in offsets and offsets[partition].offset != self._known.get(partition)
        }
        if not fresh:
            return None
        self._known.update({partition: each.offset for partition, each in fresh.items()})
        commit = self._commits.commit_soon(fresh)
        commit.add_callback(self._on_committed)
        return commit

    def _on_committed(self, commit: Commit) -> None:
        if commit.error is not None:
            logger.warning("offsets were not committed: %s", commit.error)
            self._known.clear()

    async def take_over(self, added: frozenset[TopicPartition]) -> None:
        """Read these partitions, too, and tell the listener, which may seek."""
        reading = self._reading
        fresh = {partition: reading.new_stream(partition, None) for partition in sorted(added)}
        reading.read({**reading.streams, **fresh})
        self._on_new_streams()
        try:
            await self.listener.on_assigned(added)
        except Exception as error:
            logger.exception("a rebalance listener failed")
            self.failure = error


async def begin_streams(
    streams: list[PartitionStream], coordinators: Coordinators, group_id: str, reset: OffsetReset
) -> bool:
    """Have streams begin where their group has committed; whether it is known for all.

    Without a committed offset they begin as the policy says. Where somebody has sought meanwhile,
    that counts.
    """
    partitions = [stream.topic_partition for stream in streams]
    committed: dict[TopicPartition, OffsetAndMetadata]
    try:
        committed = await fetch_offsets(coordinators, group_id, partitions, require_stable=True)
    except KafkaError as error:
        if error.retriable:
            logger.debug("no committed offsets: %s", error)
            return False
        for stream in streams:
            _fail(stream, error)
        return True
    for stream in streams:
        offset = committed.get(stream.topic_partition)
        if not stream.position.is_open:
            continue
        if offset is not None:
            stream.seek(offset.offset, offset.leader_epoch)
        elif reset is OffsetReset.NONE:
            message = f"group {group_id!r} has no offset of {stream.topic_partition}"
            _fail(stream, NoOffsetError(f"{message}, and auto_offset_reset is 'none': seek"))
        else:
            stream.look_for(reset.timestamp)
    return True


def _fail(stream: PartitionStream, error: QuorateError) -> None:
    if stream.position.is_open:
        stream.fail(error)
