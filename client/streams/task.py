"""One partition of a stream: what its records come to, to be written all or nothing (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quorate.client.serde.serdes import SerdeError
from quorate.client.streams.pipeline import Pipeline, run_steps
from quorate.client.streams.serdes import base_key
from quorate.client.streams.store import WindowStore
from quorate.client.streams.windows import Window
from quorate.dataclass import dataclass
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quorate.client.streams.store import Told
    from quorate.records.record import Header, Record


class NoTimeError(QuorateError):
    """A record that is to be windowed has no time."""


@dataclass(slots=True)
class Tally:
    """How many records of what kind there were.

    Attributes:
        records: All that were read.
        results: What was written to the sink.
        late: Those that came when all their windows were closed.
        without_key: Those that could not be grouped.
        null: Those without a value.
        unreadable: Those that were skipped, because their key or value could not be read.
    """

    records: int = 0
    results: int = 0
    late: int = 0
    without_key: int = 0
    null: int = 0
    unreadable: int = 0

    def add(self, other: Tally) -> None:
        """Count what another one has counted."""
        self.records += other.records
        self.results += other.results
        self.late += other.late
        self.without_key += other.without_key
        self.null += other.null
        self.unreadable += other.unreadable


@dataclass(frozen=True, slots=True)
class Output:
    """A record for the sink.

    Attributes:
        key: Its key.
        value: Its value.
        timestamp_ms: Its time.
        headers: Its headers.
        partition_key: The key that says where it goes, if that is another one.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()
    partition_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be written, all or nothing: to the sink, and to the changelog."""

    outputs: list[Output]
    changelog: list[tuple[bytes, bytes | None]]
    tally: Tally


class Task:
    """Owns what one partition's records have come to since the last commit, and its windows.

    Partitions of one number of several topics are one task.
    """

    def __init__(self, pipeline: Pipeline, *, skip_unreadable: bool) -> None:
        self.next_changelog_offset = 0
        """How far of its changelog is in it."""

        self._pipeline = pipeline
        self._skip_unreadable = skip_unreadable
        aggregation = pipeline.aggregation
        self.store = None if aggregation is None else WindowStore(aggregation)
        self._outputs: list[Output] = []
        self._tally = Tally()

    def take(self, record: Record) -> None:
        """Do with a record what is to be done.

        Raises:
            SerdeError: It cannot be read.
            NoTimeError: It has no time.
        """
        self._tally.records += 1
        try:
            read = self._read(record)
        except SerdeError:
            if not self._skip_unreadable:
                raise
            self._tally.unreadable += 1
            return
        if read is None:
            self._tally.null += 1
            return
        for key, value in run_steps(self._pipeline.before, *read):
            if self.store is None:
                self._outputs.append(self._output(key, value, record.timestamp_ms, record.headers))
            else:
                self._fold(self.store, record, key, value)

    def _read(self, record: Record) -> tuple[Any, Any] | None:
        if record.value is None:
            return None
        key: Any = record.key
        value: Any = record.value
        source = self._pipeline.source
        try:
            if key is not None and source.read_key is not None:
                key = source.read_key(record.topic, key)
            if source.read_value is not None:
                value = source.read_value(record.topic, value)
        except SerdeError as error:
            place = f"{record.topic_partition} at offset {record.offset}"
            raise SerdeError(f"{place}: {error}", topic=record.topic) from error
        return key, value

    def _fold(self, store: WindowStore, record: Record, key: object, value: object) -> None:
        if record.key is None:
            self._tally.without_key += 1
            return
        if record.timestamp_ms < 0:
            place = f"{record.topic_partition} at offset {record.offset}"
            raise NoTimeError(f"{place}: the record has no time, so that it is in no window")
        if not store.take(record.key, key, value, record.timestamp_ms):
            self._tally.late += 1

    def _output(
        self,
        key: object,
        value: object,
        timestamp_ms: int,
        headers: tuple[Header, ...] = (),
        partition_key: bytes | None = None,
    ) -> Output:
        sink = self._pipeline.sink
        key_bytes = sink.write_key(sink.topic, key)
        value_bytes = sink.write_value(sink.topic, value)
        if isinstance(key, Window) and key_bytes is not None:
            base = base_key(key_bytes, key.start_ms)
            partition_key = partition_key if base is None else base
        return Output(key_bytes, value_bytes, timestamp_ms, headers, partition_key)

    def outcome(self) -> Outcome:
        """Return what is to be written since the last commit.

        Raises:
            SerdeError: It cannot be written.
        """
        if self.store is None:
            outputs, changelog = list(self._outputs), list[tuple[bytes, bytes | None]]()
        else:
            changes = self.store.changes()
            outputs = [output for told in changes.told for output in self._tell(told)]
            changelog = changes.changelog
        tally = Tally(results=len(outputs))
        tally.add(self._tally)
        return Outcome(outputs, changelog, tally)

    def _tell(self, told: Told) -> Iterable[Output]:
        read_key, aggregation = self._pipeline.source.read_key, self._pipeline.aggregation
        assert aggregation is not None
        start_ms, key_bytes = told.place
        key = (
            key_bytes if read_key is None else read_key(self._pipeline.source.topics[0], key_bytes)
        )
        window: Window[Any] = Window(key, start_ms, start_ms + aggregation.windows.size_ms)
        for out_key, out_value in run_steps(self._pipeline.after, window, told.summed.value):
            partition_key = key_bytes if _is_window(out_key) else None
            timestamp_ms = told.summed.timestamp_ms
            yield self._output(out_key, out_value, timestamp_ms, (), partition_key)

    def commit(self) -> None:
        """Know that the outcome is written."""
        if self.store is not None:
            self.store.commit()
        self._forget()

    def abort(self) -> None:
        """Drop what came since the last commit: it will come again."""
        if self.store is not None:
            self.store.abort()
        self._forget()

    def _forget(self) -> None:
        self._outputs.clear()
        self._tally = Tally()


def _is_window(key: object) -> bool:
    return isinstance(key, Window)


class Ownership:
    """Owns the tasks of one instance: which are its own, and whose state is as far as it should be.

    A task that was given up keeps its state until the next assignment: if it comes back, only what
    its changelog got meanwhile is to be read. Invariant: no task that is not to be restored has
    missed a commit of its partition.
    """

    def __init__(self, pipeline: Pipeline, *, skip_unreadable: bool) -> None:
        self.to_restore: set[int] = set()
        self._pipeline = pipeline
        self._skip_unreadable = skip_unreadable
        self._tasks: dict[int, Task] = {}

    def assigned(self, added: Iterable[int], owned: Iterable[int]) -> None:
        """Know that these numbers came, and which are owned with them; forget all others."""
        kept = set(owned)
        self._tasks = {number: task for number, task in self._tasks.items() if number in kept}
        for number in added:
            if number not in self._tasks:
                self._tasks[number] = Task(self._pipeline, skip_unreadable=self._skip_unreadable)
            self.to_restore.add(number)

    def given_up(self, numbers: Iterable[int]) -> None:
        """Know that these may be others' now."""
        self.to_restore.difference_update(numbers)

    def restored(self, numbers: Iterable[int]) -> None:
        """Know that these are as far as their changelogs."""
        self.to_restore.difference_update(numbers)

    def task(self, number: int) -> Task:
        """Return an owned task."""
        return self._tasks[number]

    def tasks(self) -> dict[int, Task]:
        """Return those that are owned, as far as is known."""
        return dict(self._tasks)
