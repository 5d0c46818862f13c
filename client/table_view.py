"""Trio shell: a compacted topic as a mapping in memory that follows it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from quorate.client.consumer import Consumer
from quorate.client.errors import ClosedError
from quorate.client.serde.choosing import TypedRecord, from_bytes
from quorate.dataclass import dataclass
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.client.connections import ConnectionOptions
    from quorate.client.serde.choosing import Deserializing
    from quorate.model import TopicPartition
    from quorate.records.record import Record

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

POLL_RECORDS: Final = 4096
POLL_MS: Final = 200
"""How often to see whether all was read where logs end in offsets without records."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Somebody who waits until partitions are read up to these offsets."""

    ends: Mapping[TopicPartition, int]
    event: trio.Event


class TableView(Mapping[K, V], Generic[K, V]):
    """The last value of each key of a topic, kept up to date while the block lasts.

    ::

        view = TableView("127.0.0.1:9092", "prices", key=StrSerde(), value=JsonSerde())
        async with view as prices:
            print(prices["apples"], len(prices))

    When the block begins, all that the topic had then is there. It is a mapping: reading it waits
    for nothing. Records without a key are left out; a null value removes its key. All partitions
    are followed, new ones as soon as metadata tells of them (``metadata_max_age_ms``), and
    everything in them is kept in memory. Only committed records of transactions count.

    A record that cannot be read, or the end of the topic, ends the view: from then on every access
    raises the reason.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topic: str,
        *,
        key: Deserializing[K],
        value: Deserializing[V],
        on_update: Callable[[K, V | None, V | None], None] | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Keep the settings; ``async with`` connects and reads.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            topic: The topic; it should have ``cleanup.policy=compact``.
            key: What keys are.
            value: What values are.
            on_update: Called with key, value before and value now (None: not there) after every
                change, from the first record on. It must not wait; what it raises ends the view.
            **options: See :class:`quorate.client.connections.ConnectionOptions`.
        """
        self._topic = topic
        self._consumer = Consumer(
            bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **options,
        )
        self._key = from_bytes("key", key)
        self._value = from_bytes("value", value)
        self._on_update = on_update
        self._values: dict[K, V] = {}
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._moved = trio.lowlevel.ParkingLot()
        self._waiters: list[_Waiter] = []
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        """Connect, and read what is there.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
            UnknownTopicOrPartitionError: There is no such topic.
            SerdeError: A record cannot be read.
        """
        await self._consumer.__aenter__()
        try:
            await self._consumer.assign_topics(self._topic)
            ends = await self._consumer.end_offsets(self._consumer.assignment)
            while not await self._has_read(ends):
                await self._read_on()
        except BaseException as error:
            await self._close(error)
            raise
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self._nursery.start_soon(self._follow)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect; what was read last stays readable."""
        await self._close(error)

    async def _close(self, error: BaseException | None) -> None:
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        try:
            if self._manager is not None and self._nursery is not None:
                self._nursery.cancel_scope.cancel()
                await self._manager.__aexit__(None, None, None)
        finally:
            await self._consumer.__aexit__(kind, error, traceback)
            self._end(ClosedError("this view was closed: it does not follow its topic any more"))

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        for waiter in self._waiters:
            waiter.event.set()
        self._moved.unpark_all()

    async def _follow(self) -> None:
        try:
            while True:
                await self._add_partitions()
                await self._read_on()
                for waiter in list(self._waiters):
                    if await self._has_read(waiter.ends):
                        self._waiters.remove(waiter)
                        waiter.event.set()
        except Exception as error:  # noqa: BLE001 - told to everybody who asks
            self._end(error)

    async def _add_partitions(self) -> None:
        """Follow partitions that the topic got meanwhile, each from its beginning."""
        known = len(await self._consumer.partitions_of(self._topic))
        if known > len(self._consumer.assignment):
            await self._consumer.assign_topics(self._topic)

    async def _read_on(self) -> None:
        records = await self._consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS)
        for record in records:
            self._apply(record)
        if records:
            self._moved.unpark_all()

    def _apply(self, record: Record) -> None:
        typed: TypedRecord[K, V] = TypedRecord(record, self._key, self._value)
        key, value = typed.key, typed.value
        if key is None:
            return
        before = self._values.get(key)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        if self._on_update is not None:
            self._on_update(key, before, value)

    async def _has_read(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all is applied up to there; to be asked by who reads, between two reads."""
        for partition, end in ends.items():
            if await self._consumer.wait_for_position(partition) < end:
                return False
        return True

    async def catch_up(self) -> None:
        """Wait until all is there that the topic has now.

        Raises:
            QuorateError: It cannot be read, or the view was closed.
        """
        self._check()
        ends = await self._consumer.end_offsets(self._consumer.assignment)
        self._check()  # nobody would look at who begins to wait after the end
        waiter = _Waiter(ends, trio.Event())
        self._waiters.append(waiter)
        await waiter.event.wait()
        self._check()

    async def changed(self) -> None:
        """Wait until more of the topic was read.

        Raises:
            QuorateError: It cannot be read, or the view was closed.
        """
        self._check()
        await self._moved.park()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise copy(self._error) if isinstance(self._error, QuorateError) else self._error

    # The mapping

    def __getitem__(self, key: K) -> V:
        return self._current()[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def snapshot(self) -> dict[K, V]:
        """Return a copy that does not change."""
        return dict(self._current())

    def _current(self) -> dict[K, V]:
        if not isinstance(self._error, ClosedError):
            self._check()
        return self._values
