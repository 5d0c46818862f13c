"""Trio shell: what all of the Consumer stands on: its partitions, positions and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from quorate.client.arguments import INT32_MAX, INT64_MAX, is_number, require_number
from quorate.client.connections import several
from quorate.client.lifetime import Lifetime
from quorate.client.offsets import TimestampOffset, list_offsets
from quorate.client.receiving.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from quorate.errors import QuorateError, RequestTimedOutError
from quorate.model import UNKNOWN_EPOCH, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quorate.client.connections import Cluster
    from quorate.client.reading import Reading
    from quorate.client.receiving.fetches import FetchSettings


class ConsumerBase:
    """Owns what is read and how far; it lives from the beginning of a block to its end."""

    def __init__(self, fetch_settings: FetchSettings) -> None:
        self._fetch_settings = fetch_settings
        self._lifetime = Lifetime("consumer")
        self._cluster: Cluster | None = None
        self._reading: Reading | None = None

    # What is read

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset() if self._reading is None else frozenset(self._reading.streams)

    async def partitions_of(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        return sorted((await self._connected().topic(topic)).partitions)

    def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Give out no records of these partitions until :meth:`resume`; positions stay.

        A rebalance ends the pause of a partition that goes to another member and comes back.
        """
        reading = self._open()
        streams = reading.assigned(partitions)
        for stream in streams:
            stream.paused = True
        reading.put_back(streams)

    def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on with partitions that were paused."""
        for stream in self._open().assigned(partitions):
            stream.paused = False
        self._open().fetcher.wake()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        streams = {} if self._reading is None else self._reading.streams
        return frozenset(partition for partition, stream in streams.items() if stream.paused)

    # Where to read

    def seek(
        self,
        partition: TopicPartition | tuple[str, int],
        offset: int,
        *,
        leader_epoch: int = -1,
    ) -> None:
        """Go on with the record at that offset, or the next one that exists.

        Args:
            partition: Where.
            offset: The next offset to give out.
            leader_epoch: The epoch of the record before it, as in OffsetAndMetadata, if known: then
                it is noticed if that record is gone (KIP-320).
        """
        if not is_number(offset, 0, INT64_MAX):
            raise ValueError(f"offset is {offset!r}; for the ends there is seek_to_end()")
        require_number("leader_epoch", leader_epoch, UNKNOWN_EPOCH, INT32_MAX)
        reading = self._open()
        streams = reading.assigned((partition,))
        streams[0].seek(offset, leader_epoch)
        reading.forget(streams)

    def seek_to_beginning(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on with the first record there is; all assigned partitions, if none is named."""
        self._look_for(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on with the next record that is written."""
        self._look_for(LATEST_TIMESTAMP, partitions)

    async def seek_to_time(
        self, timestamp_ms: int, *partitions: TopicPartition | tuple[str, int]
    ) -> None:
        """Go on with the first record of that time or later, or at the end if there is none."""
        reading = self._open()
        streams = reading.assigned(partitions) if partitions else list(reading.streams.values())
        asked = {stream.topic_partition: timestamp_ms for stream in streams}
        found = await self.offsets_for_times(asked)
        ends = await self.end_offsets([p for p, offset in found.items() if offset is None])
        for stream in streams:
            offset = found[stream.topic_partition]
            stream.seek(ends[stream.topic_partition] if offset is None else offset.offset)
        reading.forget(streams)

    def _look_for(
        self, timestamp: int, partitions: Sequence[TopicPartition | tuple[str, int]]
    ) -> None:
        reading = self._open()
        streams = reading.assigned(partitions) if partitions else list(reading.streams.values())
        for stream in streams:
            stream.look_for(timestamp)
        reading.forget(streams)

    async def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return the offset of the next record to be given out.

        Raises:
            NoOffsetError: There is none, and ``auto_offset_reset`` is ``none``.
            NotAssignedError: The partition is not assigned, or not any more.
            RequestTimedOutError: It is not known within ``request_timeout_ms``: ask again.
            QuorateError: It cannot be found out.
        """
        timeout_ms = self._connected().settings.request_timeout_ms
        with trio.move_on_after(timeout_ms / 1000):
            return await self.wait_for_position(partition)
        (stream,) = self._open().assigned((partition,))
        who = "the group's coordinator" if stream.position.is_open else "the partition's leader"
        raise RequestTimedOutError(
            f"the position in {stream.topic_partition} is not known yet, for {who} has not"
            f" answered within request_timeout_ms={timeout_ms}; it is being asked: try again"
        )

    async def wait_for_position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return what :meth:`position` does, however long it takes to find it out."""
        while True:
            reading = self._open()
            (stream,) = reading.assigned((partition,))
            known = reading.positions().get(stream.topic_partition)
            if stream.error is not None:
                raise stream.error
            if known is not None:
                return known.offset
            await reading.fetcher.changed.park()

    def lag(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Return how many offsets lie between the position and the end; None if that is not known.

        The end is what the last fetch told: that of committed transactions for ``read_committed``.
        """
        reading = self._open()
        (stream,) = reading.assigned((partition,))
        return reading.lag(stream)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record there is, for partitions assigned or not."""
        return await self._offsets_at(EARLIEST_TIMESTAMP, partitions)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Return the offset that the next record will get, as far as consumers may read."""
        return await self._offsets_at(LATEST_TIMESTAMP, partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampOffset | None]:
        """Return the first record of each partition with that time or later; None without one."""
        return {
            partition: offset if offset.offset >= 0 else None
            for partition, offset in (await self._list_offsets(timestamps)).items()
        }

    async def _offsets_at(
        self, timestamp: int, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        wanted = several("offsets of partitions", partitions)
        asked = {TopicPartition(*partition): timestamp for partition in wanted}
        return {
            partition: found.offset
            for partition, found in (await self._list_offsets(asked)).items()
        }

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampOffset]:
        cluster = self._connected()
        committed_only = self._fetch_settings.committed_only
        found = await list_offsets(cluster, timestamps, committed_only=committed_only)
        offsets: dict[TopicPartition, TimestampOffset] = {}
        for partition, result in found.items():
            if isinstance(result, QuorateError):
                raise result
            offsets[partition] = result
        return offsets

    def _connected(self) -> Cluster:
        self._lifetime.check_open()
        assert self._cluster is not None
        return self._cluster

    def _open(self) -> Reading:
        self._lifetime.check_open()
        assert self._reading is not None
        return self._reading
