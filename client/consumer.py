"""Trio shell: the Consumer, which reads records: those of its group, or what it is told to read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, Literal

import trio

from quorate.client.connections import (
    RETRY,
    client_settings,
    require_at_least,
)
from quorate.client.consumer_groups import GroupConsumer
from quorate.client.consumer_settings import ConsumerOptions, connection_options, group_settings
from quorate.client.fetcher import Fetcher
from quorate.client.reading import Reading
from quorate.client.receiving.fetches import FetchSettings
from quorate.client.receiving.positions import OffsetReset
from quorate.client.serde.choosing import Deserializing, K, TypedRecord, V, from_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.records.record import Record

POLL_RECORDS_MAX: Final = 500
ITERATION_RECORDS_MAX: Final = 4096


class Consumer(GroupConsumer, Generic[K, V]):
    """Reads records of the partitions that its group assigns to it, or that it is told to read.

    ::

        async with Consumer("127.0.0.1:9092", group_id="billing") as consumer:
            consumer.subscribe("orders")
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    Keys and values are bytes, unless deserializers say what they stand for; they are asked when
    ``record.key`` and ``record.value`` are, so that a record which cannot be read stops nobody::

        Consumer("127.0.0.1:9092", group_id="billing", value_deserializer=JsonSerde())

    Records of a partition come in the order of their offsets, each once; between partitions there
    is no order. It fetches ahead, up to about two fetches for each partition. One task may use a
    consumer at a time; others may seek, pause, commit and ask for offsets.

    **In a group** a record counts as processed when its user comes back for more. Unless
    ``enable_auto_commit`` is off, what was processed is committed now and then, before partitions
    are given up, and when the block ends: every record is processed at least once. If an error ends
    the block, the batch (or the record) that it was about is not committed. However it ends, the
    member leaves its group.
    """

    def __init__(  # noqa: PLR0913 - the public settings, by name
        self,
        bootstrap: str | Sequence[str],
        *,
        group_id: str | None = None,
        max_poll_records: int = POLL_RECORDS_MAX,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        check_crcs: bool = True,
        key_deserializer: Deserializing[K] | None = None,
        value_deserializer: Deserializing[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Check and keep the settings; ``async with`` connects.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            group_id: The group whose offsets it commits, and in which it may subscribe.
            max_poll_records: How many records one poll returns at most.
            auto_offset_reset: Where to begin without a position, or with one whose record is gone:
                at the first record there is, behind the last, or not at all (NoOffsetError; and
                LogTruncationError if records that were read are gone).
            isolation_level: Whether to give out records of transactions that are not committed.
            fetch_min_bytes: How much a broker should have before it answers early.
            fetch_max_wait_ms: How long it may wait for that.
            fetch_max_bytes: How much one answer may hold.
            max_partition_fetch_bytes: How much of that may be of one partition. A larger batch
                comes all the same, alone.
            check_crcs: Whether to compare every batch with its checksum.
            key_deserializer: What keys are: a serde (:mod:`quorate.client.serde`), or a function
                from bytes. None leaves them bytes. What it raises, ``record.key`` does.
            value_deserializer: What values are.
            **options: See :class:`quorate.client.consumer_settings.ConsumerOptions` for groups, and
                :class:`quorate.client.connections.ConnectionOptions`.

        Raises:
            TypeError: A deserializer is none.
            ValueError: A setting makes no sense.
        """
        if isolation_level not in {"read_uncommitted", "read_committed"}:
            raise ValueError(f"there is no isolation_level {isolation_level!r}")
        for name, value, least in (
            ("fetch_min_bytes", fetch_min_bytes, 0),
            ("fetch_max_wait_ms", fetch_max_wait_ms, 0),
            ("fetch_max_bytes", fetch_max_bytes, 1),
            ("max_partition_fetch_bytes", max_partition_fetch_bytes, 1),
            ("max_poll_records", max_poll_records, 1),
        ):
            require_at_least(name, value, least)
        self._settings = client_settings(bootstrap, connection_options(options))
        fetch_settings = FetchSettings(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            partition_max_bytes=max_partition_fetch_bytes,
            committed_only=isolation_level == "read_committed",
            offset_reset=OffsetReset(auto_offset_reset),
            backoff=RETRY,
        )
        super().__init__(fetch_settings, group_settings(group_id, options))
        self._max_poll_records = max_poll_records
        self._check_crcs = check_crcs
        self._key_of = from_bytes("key", key_deserializer)
        self._value_of = from_bytes("value", value_deserializer)
        self._plain = self._key_of is None and self._value_of is None
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        self._cluster = await self._lifetime.open(self._settings, self._rng)
        nursery = self._lifetime.nursery
        fetcher = Fetcher(self._cluster, self._fetch_settings, nursery, self._rng)
        self._reading = Reading(
            fetcher,
            committed_only=self._fetch_settings.committed_only,
            check_crcs=self._check_crcs,
        )
        nursery.start_soon(fetcher.run)
        self._open_group()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit what was processed, leave the group, disconnect."""
        try:
            await self._close_group(error)
        finally:
            self._alert()  # other tasks that wait for records: there will be none
            await self._lifetime.close(error, traceback)

    async def poll(
        self, *, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[Record[K, V]]:
        """Return records as soon as there are some; none, if none came in time.

        Rebalances happen in here. Cancelling loses nothing: what it has not returned is returned
        next time, and a rebalance goes on meanwhile.

        Args:
            max_records: How many at most; by default ``max_poll_records``.
            timeout_ms: How long to wait for the first one; longer only for a rebalance to end: for
                its listener, which never acts beside its user, and for the last commits.

        Raises:
            QuorateError: A partition cannot be read on (what it is, why, what helps). The others
                can: ask again. Seeking makes a partition readable again. Or: the group will not
                have this consumer.
            Exception: What a rebalance listener raised.
        """
        if max_records is None:
            max_records = self._max_poll_records
        require_at_least("max_records", max_records, 1)
        reading = self._come_back()
        await trio.lowlevel.checkpoint_if_cancelled()
        records = self._take(reading, max_records)
        if records or (timeout_ms <= 0 and not self._turns.wanted):
            # Others get their turn now and then, even if there is always something to read.
            await trio.lowlevel.cancel_shielded_checkpoint()
            return self._typed(records)
        self._polling += 1
        try:
            with trio.move_on_after(max(0, timeout_ms) / 1000):
                while not records:
                    if self._turns.wanted:
                        await self._turns.over()
                    else:
                        await reading.fetcher.changed.park()
                    records = self._take(reading, max_records)
            await self._turns.ended()  # however long a listener takes, its user acts after it
        finally:
            self._polling -= 1
        return self._typed(records)

    def _take(self, reading: Reading, records_max: int) -> list[Any]:
        """Return the next records; none if a rebalance wants its turn first."""
        if self._turns.wanted:
            return []
        self._raise_failures()
        return reading.take(records_max)

    def __aiter__(self) -> Self:
        """Iterate over records; without an end, for more may be written."""
        return self

    async def __anext__(self) -> Record[K, V]:
        """Return the next record, waiting for one.

        Raises:
            QuorateError: As in :meth:`poll`.
        """
        reading = self._reading
        if reading is None or not reading.iterated or self._turns.wanted:
            reading = self._come_back()
            await self._refill(reading)
        record: Any = reading.iterated.popleft()
        reading.current = record
        return record if self._plain else TypedRecord(record, self._key_of, self._value_of)

    def _typed(self, records: list[Any]) -> list[Record[K, V]]:
        if self._plain:
            return records
        return [TypedRecord(record, self._key_of, self._value_of) for record in records]

    async def _refill(self, reading: Reading) -> None:
        """Wait for records to iterate over, and for rebalances that want their turn."""
        # Others get their turn now and then, even if there is always something to read.
        await trio.lowlevel.checkpoint()
        self._polling += 1
        try:
            while True:
                await self._turns.over()
                self._raise_failures()
                if reading.iterated or reading.take_for_iteration(ITERATION_RECORDS_MAX):
                    return
                await reading.fetcher.changed.park()
        finally:
            self._polling -= 1

    def _come_back(self) -> Reading:
        """Know that the user has done with what it was given."""
        reading = self._open()
        if self._turns.holder is trio.lowlevel.current_task():
            raise RuntimeError(
                "a rebalance listener cannot ask for records: its turn would not end"
            )
        reading.come_back()
        self._polls += 1
        return reading
