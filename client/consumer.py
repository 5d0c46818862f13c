"""Trio shell: the Consumer, which reads records of partitions that it was told to read."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final, Literal

import trio

from quorate.client.connections import (
    RETRY,
    Cluster,
    ConnectionOptions,
    client_settings,
    require_at_least,
)
from quorate.client.errors import NoOffsetError, NotAssignedError
from quorate.client.fetcher import Fetcher
from quorate.client.lifetime import Lifetime
from quorate.client.offsets import TimestampOffset, list_offsets
from quorate.client.receiving.fetches import FetchSettings
from quorate.client.receiving.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetReset,
)
from quorate.client.receiving.streams import PartitionStream
from quorate.errors import QuorateError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.records.record import Record

POLL_RECORDS_MAX: Final = 500
ITERATION_RECORDS_MAX: Final = 4096


class Consumer:
    """Reads records of the partitions that it is told to read, from where it is told to.

    ::

        async with Consumer("127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics("appLogs")
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    Records of a partition come in the order of their offsets, each once; between partitions there
    is no order. It fetches ahead, up to about two fetches for each partition. One task may use a
    consumer at a time; others may seek, pause and ask for offsets.
    """

    def __init__(  # noqa: PLR0913 - the public settings, by name
        self,
        bootstrap: str | Sequence[str],
        *,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        check_crcs: bool = True,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Check and keep the settings; ``async with`` connects.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            auto_offset_reset: Where to begin without a position, or with one whose record is gone:
                at the first record there is, behind the last, or not at all (NoOffsetError).
            isolation_level: Whether to give out records of transactions that are not committed.
            fetch_min_bytes: How much a broker should have before it answers early.
            fetch_max_wait_ms: How long it may wait for that.
            fetch_max_bytes: How much one answer may hold.
            max_partition_fetch_bytes: How much of that may be of one partition. A larger batch
                comes all the same, alone.
            check_crcs: Whether to compare every batch with its checksum.
            **options: See :class:`quorate.client.connections.ConnectionOptions`.

        Raises:
            ValueError: A setting makes no sense.
        """
        if isolation_level not in {"read_uncommitted", "read_committed"}:
            raise ValueError(f"there is no isolation_level {isolation_level!r}")
        for name, value, least in (
            ("fetch_min_bytes", fetch_min_bytes, 0),
            ("fetch_max_wait_ms", fetch_max_wait_ms, 0),
            ("fetch_max_bytes", fetch_max_bytes, 1),
            ("max_partition_fetch_bytes", max_partition_fetch_bytes, 1),
        ):
            require_at_least(name, value, least)
        self._settings = client_settings(bootstrap, options)
        self._fetch_settings = FetchSettings(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            partition_max_bytes=max_partition_fetch_bytes,
            committed_only=isolation_level == "read_committed",
            offset_reset=OffsetReset(auto_offset_reset),
            backoff=RETRY,
        )
        self._check_crcs = check_crcs
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret
        self._lifetime = Lifetime("consumer")
        self._cluster: Cluster | None = None
        self._fetcher: Fetcher | None = None
        self._streams: dict[TopicPartition, PartitionStream] = {}
        self._iterated: deque[Record] = deque()

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        self._cluster = await self._lifetime.open(self._settings, self._rng)
        nursery = self._lifetime.nursery
        self._fetcher = Fetcher(self._cluster, self._fetch_settings, nursery, self._rng)
        nursery.start_soon(self._fetcher.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect."""
        await self._lifetime.close(error, traceback)

    # What to read

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions from now on, and no others.

        Partitions that were assigned before go on where they are; the others begin as
        ``auto_offset_reset`` says, unless :meth:`seek` says otherwise. A partition that does not
        exist shows when records are asked for.
        """
        fetcher = self._running()
        reset = self._fetch_settings.offset_reset
        asked_timestamp = None if reset is OffsetReset.NONE else reset.timestamp
        wanted = [TopicPartition(*partition) for partition in partitions]
        for partition in wanted:
            if partition.partition < 0:
                raise ValueError(f"{partition} is not a partition: they are numbered from 0")
        streams: dict[TopicPartition, PartitionStream] = {}
        for topic_partition in wanted:
            stream = self._streams.get(topic_partition) or PartitionStream(
                topic_partition,
                asked_timestamp,
                committed_only=self._fetch_settings.committed_only,
                check_crcs=self._check_crcs,
            )
            if asked_timestamp is None and stream.position.offset is None:
                message = (
                    f"{topic_partition} has no position, and auto_offset_reset is 'none': seek"
                )
                stream.error = NoOffsetError(message)
            streams[topic_partition] = stream
        self._streams = streams
        self._iterated = deque(r for r in self._iterated if r.topic_partition in streams)
        fetcher.read(list(streams.values()))

    async def assign_topics(self, *topics: str) -> None:
        """Read all partitions that these topics have now.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in await self.partitions_of(topic)
        ]
        self.assign(partitions)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset(self._streams)

    async def partitions_of(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        return sorted((await self._connected().topic(topic)).partitions)

    def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Give out no records of these partitions until :meth:`resume`; positions stay."""
        for stream in self._assigned(partitions):
            stream.paused = True

    def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on with partitions that were paused."""
        for stream in self._assigned(partitions):
            stream.paused = False
        self._running().wake()

    # Where to read

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Go on with the record at that offset, or the next one that exists."""
        if offset < 0:
            raise ValueError(f"offset is {offset}; for the ends there is seek_to_end()")
        (stream,) = self._assigned((partition,))
        stream.seek(offset)
        self._forget([stream])

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
        streams = self._assigned(partitions) if partitions else list(self._streams.values())
        asked = {stream.topic_partition: timestamp_ms for stream in streams}
        found = await self.offsets_for_times(asked)
        ends = await self.end_offsets([p for p, offset in found.items() if offset is None])
        for stream in streams:
            offset = found[stream.topic_partition]
            stream.seek(ends[stream.topic_partition] if offset is None else offset.offset)
        self._forget(streams)

    def _look_for(
        self, timestamp: int, partitions: Sequence[TopicPartition | tuple[str, int]]
    ) -> None:
        streams = self._assigned(partitions) if partitions else list(self._streams.values())
        for stream in streams:
            stream.look_for(timestamp)
        self._forget(streams)

    def _forget(self, streams: list[PartitionStream]) -> None:
        """Drop what was decoded for iteration before a seek."""
        moved = {stream.topic_partition for stream in streams}
        self._iterated = deque(r for r in self._iterated if r.topic_partition not in moved)
        self._running().wake()

    async def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Return the offset of the next record to be given out.

        Raises:
            NoOffsetError: There is none, and ``auto_offset_reset`` is ``none``.
            QuorateError: It cannot be found out.
        """
        (stream,) = self._assigned((partition,))
        fetcher = self._running()
        while True:
            for record in self._iterated:
                if record.topic_partition == stream.topic_partition:
                    return record.offset
            if stream.error is not None:
                raise stream.error
            if stream.position.offset is not None:
                return stream.position.offset
            await fetcher.changed.park()

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
        asked = {TopicPartition(*partition): timestamp for partition in partitions}
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

    # Records

    async def poll(
        self, *, max_records: int = POLL_RECORDS_MAX, timeout_ms: int = 1_000
    ) -> list[Record]:
        """Return records as soon as there are some; none, if none came in time.

        Raises:
            QuorateError: A partition cannot be read on (what it is, why, what helps). The others
                can: ask again. Seeking makes a partition readable again.
        """
        require_at_least("max_records", max_records, 1)
        fetcher = self._running()
        if self._iterated:
            iterated = self._iterated
            count = min(max_records, len(iterated))
            return [iterated.popleft() for _ in range(count)]
        await trio.lowlevel.checkpoint_if_cancelled()
        records = fetcher.take(max_records)
        if records or timeout_ms <= 0:
            # Others get their turn now and then, even if there is always something to read.
            await trio.lowlevel.cancel_shielded_checkpoint()
            return records
        with trio.move_on_after(timeout_ms / 1000):
            while not records:
                await fetcher.changed.park()
                records = fetcher.take(max_records)
        return records

    def __aiter__(self) -> Self:
        """Iterate over records; without an end, for more may be written."""
        return self

    async def __anext__(self) -> Record:
        """Return the next record, waiting for one.

        Raises:
            QuorateError: As in :meth:`poll`.
        """
        iterated = self._iterated
        while not iterated:
            iterated = self._iterated
            iterated.extend(await self.poll(max_records=ITERATION_RECORDS_MAX, timeout_ms=60_000))
        return iterated.popleft()

    def _assigned(
        self, partitions: Sequence[TopicPartition | tuple[str, int]]
    ) -> list[PartitionStream]:
        self._lifetime.check_open()
        streams: list[PartitionStream] = []
        for partition in partitions:
            stream = self._streams.get(TopicPartition(*partition))
            if stream is None:
                message = (
                    f"{TopicPartition(*partition)} is not assigned to this consumer: assign it"
                )
                raise NotAssignedError(message)
            streams.append(stream)
        return streams

    def _connected(self) -> Cluster:
        self._lifetime.check_open()
        assert self._cluster is not None
        return self._cluster

    def _running(self) -> Fetcher:
        self._lifetime.check_open()
        assert self._fetcher is not None
        return self._fetcher
