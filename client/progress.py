"""What a consumer gave out since some moment: to be committed with a transaction, or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.errors import CommitFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.reading import Reading
    from quorate.client.rebalancing import Rebalancing
    from quorate.model import TopicPartition


class Progress:
    """Knows where a consumer was when this was made.

    Invariant: what :meth:`made` returns was read by one and the same owner of the partitions.
    """

    def __init__(
        self,
        reading: Reading,
        rebalancing: Rebalancing,
        identity: Callable[[], GroupMetadata],
        begin: Callable[[], None],
    ) -> None:
        self._reading = reading
        self._rebalancing = rebalancing
        self._identity = identity
        self._begin = begin
        self._from = reading.positions()
        self._given_up = rebalancing.times_given_up

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who the consumer is in its group now."""
        return self._identity()

    def made(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the next offset of each partition of which something was given out since.

        Raises:
            CommitFailedError: The consumer has given up a partition meanwhile; another one begins
                it where the group had committed.
        """
        if self._rebalancing.times_given_up != self._given_up:
            raise CommitFailedError(
                "partitions went to other members while the transaction was open, and with them"
                " what was read of them"
            )
        return {
            partition: position
            for partition, position in self._reading.positions().items()
            if self._has_moved(partition, position)
        }

    def _has_moved(self, partition: TopicPartition, now: OffsetAndMetadata | None) -> bool:
        before = self._from.get(partition)
        return (before and before.offset) != (now and now.offset)

    def undo(self) -> None:
        """Go back to where the consumer was, and to what the group has committed of new partitions.

        So do all, if any were given up meanwhile: others may have gone on with one that came back.
        """
        stayed = self._rebalancing.times_given_up == self._given_up
        reading, streams = self._reading, dict(self._reading.streams)
        positions = reading.positions()
        moved = [
            stream
            for partition, stream in streams.items()
            if self._has_moved(partition, positions.get(partition))
        ]
        for stream in moved:
            partition = stream.topic_partition
            before = self._from.get(partition)
            if stayed and before is not None:
                stream.seek(before.offset, before.leader_epoch)
            else:
                streams[partition] = reading.new_stream(partition, None)
                streams[partition].paused = stream.paused
        reading.forget(moved)
        reading.read(streams)
        self._begin()
