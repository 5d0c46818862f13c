"""Trio shell: the partitions that a consumer reads, and how far its user has come."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from quorate.client.errors import NotAssignedError
from quorate.client.groups.results import OffsetAndMetadata
from quorate.client.receiving.streams import PartitionStream
from quorate.model import UNKNOWN_EPOCH, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorate.client.fetcher import Fetcher
    from quorate.records.record import Record


class Reading:
    """Streams of the assigned partitions, and the records on their way to the user.

    Invariants: ``iterated`` holds records that were taken for an iteration and not given out by it;
    ``given`` says where the streams were before what the user has in hand was taken. So what is
    before :meth:`processed` was given out, and the user has come back for more since.
    """

    def __init__(self, fetcher: Fetcher, *, committed_only: bool, check_crcs: bool) -> None:
        self.fetcher = fetcher
        self.streams: dict[TopicPartition, PartitionStream] = {}
        self.iterated: deque[Record] = deque()
        self.current: Record | None = None
        """The record that an iteration gave out last."""

        self.given: dict[TopicPartition, tuple[int, int]] = {}
        """Offset and epoch where the user's batch began, by partition."""

        self._committed_only = committed_only
        self._check_crcs = check_crcs

    # Which partitions

    def new_stream(
        self, topic_partition: TopicPartition, asked_timestamp: int | None
    ) -> PartitionStream:
        """Return a stream, to be begun at the beginning, the end, or where somebody seeks."""
        return PartitionStream(
            topic_partition,
            asked_timestamp,
            committed_only=self._committed_only,
            check_crcs=self._check_crcs,
        )

    def read(self, streams: dict[TopicPartition, PartitionStream]) -> None:
        """Read these from now on; what was taken of others is dropped."""
        self.streams = streams
        self.iterated = deque(r for r in self.iterated if r.topic_partition in streams)
        self.given = {p: where for p, where in self.given.items() if p in streams}
        self.fetcher.read(list(streams.values()))

    def assigned(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> list[PartitionStream]:
        """Return streams of partitions.

        Raises:
            NotAssignedError: One is not assigned.
        """
        streams: list[PartitionStream] = []
        for partition in partitions:
            stream = self.streams.get(TopicPartition(*partition))
            if stream is None:
                message = (
                    f"{TopicPartition(*partition)} is not assigned to this consumer: assign it"
                )
                raise NotAssignedError(message)
            streams.append(stream)
        return streams

    def forget(self, streams: list[PartitionStream]) -> None:
        """Drop what was taken for iteration before a seek."""
        moved = {stream.topic_partition for stream in streams}
        self.iterated = deque(r for r in self.iterated if r.topic_partition not in moved)
        for partition in moved:
            self.given.pop(partition, None)
        if self.current is not None and self.current.topic_partition in moved:
            self.current = None
        self.fetcher.wake()

    def put_back(self, streams: list[PartitionStream]) -> None:
        """Have what was taken for iteration, and not given out, come again when it is wanted."""
        first = self._first_iterated()
        begun = [stream for stream in streams if stream.topic_partition in first]
        for stream in begun:
            stream.seek(*first[stream.topic_partition])
        moved = {stream.topic_partition for stream in begun}
        self.iterated = deque(r for r in self.iterated if r.topic_partition not in moved)

    # Records

    def come_back(self) -> None:
        """Know that the user has done with what it was given."""
        self.current = None
        if self.given:
            self.given = {}

    def done_with(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Know that of what the user has in hand, it has done with what is before these offsets."""
        positions = self.positions()
        for partition, done in offsets.items():
            current = self.current
            if current is not None and current.topic_partition == partition:
                self.current = None if current.offset < done.offset else current
            begun = self.given.get(partition)
            if begun is None or done.offset <= begun[0]:
                continue
            if partition in positions and done.offset < positions[partition].offset:
                self.given[partition] = (done.offset, done.leader_epoch)
            else:
                del self.given[partition]

    def take(self, records_max: int) -> list[Record]:
        """Return the next records, as a batch that the user has in hand.

        Raises:
            QuorateError: A partition cannot be read on.
        """
        if not self.iterated:
            return self.fetcher.take(records_max, self.given)
        count = min(records_max, len(self.iterated))
        taken = [self.iterated.popleft() for _ in range(count)]
        for record in taken:
            self.given.setdefault(record.topic_partition, (record.offset, UNKNOWN_EPOCH))
        return taken

    def take_for_iteration(self, records_max: int) -> bool:
        """Take records to be given out one at a time; whether there are some.

        Raises:
            QuorateError: A partition cannot be read on.
        """
        self.iterated.extend(self.fetcher.take(records_max, {}))
        return bool(self.iterated)

    # How far

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what comes next in each partition: behind all that was given out."""
        first = self._first_iterated()
        return {
            partition: OffsetAndMetadata(*first.get(partition, (offset, stream.position.epoch)))
            for partition, stream in self.streams.items()
            if (offset := stream.position.offset) is not None
        }

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what comes next behind what the user has done with.

        What it was given last does not count, until it comes back for more.
        """
        begun = dict(self.given)
        if self.current is not None:
            begun[self.current.topic_partition] = (self.current.offset, UNKNOWN_EPOCH)
        positions = self.positions()
        for partition, (offset, epoch) in begun.items():
            if partition in positions:
                positions[partition] = OffsetAndMetadata(offset, epoch)
        return positions

    def _first_iterated(self) -> dict[TopicPartition, tuple[int, int]]:
        first: dict[TopicPartition, tuple[int, int]] = {}
        for record in self.iterated:
            if record.topic_partition not in first:
                first[record.topic_partition] = (record.offset, UNKNOWN_EPOCH)
        return first

    def lag(self, stream: PartitionStream) -> int | None:
        """Return how many offsets lie between the user and the end; None before the first fetch."""
        end = stream.last_stable_offset if self._committed_only else stream.high_watermark
        position = self.positions().get(stream.topic_partition)
        return None if position is None or end < 0 else max(0, end - position.offset)
