"""The open windows of one partition: what their records add up to, and how that is kept (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.client.streams.serdes import INT64
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.streams.windows import TimeWindows

STREAM_TIME_KEY: Final = b"time"
"""Under which the changelog has the stream time; the keys of windows have eight bytes or more."""


class ChangelogError(QuorateError):
    """A changelog has something that nobody here has written."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How records of a window become one value.

    Attributes:
        windows: Which windows there are.
        on_close: Whether a window tells its value once, when it is closed; else whenever it
            changed.
        initial: Returns the value of no records at all.
        fold: ``(key, value, aggregate) -> aggregate``.
        write: From an aggregate to bytes.
        read: The other way round.
    """

    windows: TimeWindows
    on_close: bool
    initial: Callable[[], Any]
    fold: Callable[[Any, Any, Any], Any]
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


class Place(NamedTuple):
    """Which window of which key."""

    start_ms: int
    key: bytes


class Held(NamedTuple):
    """The value of a window as it was committed, and the latest time of a record in it."""

    timestamp_ms: int
    value: bytes


class Summed(NamedTuple):
    """The value of a window, and the latest time of a record in it.

    None is no value, as if there had been no records.
    """

    timestamp_ms: int
    value: Any


@dataclass(frozen=True, slots=True)
class Told:
    """A value that a window tells."""

    place: Place
    summed: Summed


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be written, all or nothing, before :meth:`WindowStore.commit`.

    Attributes:
        told: What windows tell.
        changelog: Keys and values of the changelog; None removes a key.
    """

    told: list[Told]
    changelog: list[tuple[bytes, bytes | None]]


class WindowStore:
    """Owns the windows of one partition that are open, and the stream time.

    The stream time is the latest time of a record so far; it never goes back. What changed since
    the last commit is kept apart, so that it can be dropped. Invariants: no window is held that was
    closed when the last commit was made; after :meth:`replay` of the whole changelog the state is
    that of the last commit.

    Source of the rules: Kafka's ``KStreamWindowAggregate`` (which windows are too late for whom).
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation
        self._held: dict[int, dict[bytes, Held]] = {}
        self._changed: dict[Place, Summed] = {}
        self._stream_time_ms = NO_TIMESTAMP
        self._committed_time_ms = NO_TIMESTAMP

    @property
    def stream_time_ms(self) -> int:
        """The latest time of a record so far; -1 before the first."""
        return self._stream_time_ms

    @property
    def window_count(self) -> int:
        """How many windows of keys are held."""
        return sum(map(len, self._held.values()))

    def take(self, key_bytes: bytes, key: object, value: object, timestamp_ms: int) -> bool:
        """Add a record to its windows; whether it was in time for any of them.

        Args:
            key_bytes: The key, as it is in the log.
            key: What it stands for.
            value: What the record's value stands for.
            timestamp_ms: The record's time, at least 0.
        """
        aggregation = self._aggregation
        self._stream_time_ms = max(self._stream_time_ms, timestamp_ms)
        in_time = False
        for start_ms in aggregation.windows.starts(timestamp_ms):
            if not aggregation.windows.is_open(start_ms, self._stream_time_ms):
                continue
            in_time = True
            place = Place(start_ms, key_bytes)
            before = self._changed.get(place) or self._committed(place)
            if before is not None and before.value is None:
                before = None
            total = aggregation.initial() if before is None else before.value
            latest_ms = timestamp_ms if before is None else max(before.timestamp_ms, timestamp_ms)
            self._changed[place] = Summed(latest_ms, aggregation.fold(key, value, total))
        return in_time

    def _committed(self, place: Place) -> Summed | None:
        held = self._held.get(place.start_ms, {}).get(place.key)
        return (
            None if held is None else Summed(held.timestamp_ms, self._aggregation.read(held.value))
        )

    def changes(self) -> Changes:
        """Return what is to be written for what changed since the last commit."""
        changelog: list[tuple[bytes, bytes | None]] = []
        if self._stream_time_ms != self._committed_time_ms:
            changelog.append((STREAM_TIME_KEY, INT64.pack(self._stream_time_ms)))
        for place, summed in self._changed.items():
            if not self._is_open(place.start_ms):
                continue
            if summed.value is not None:
                changelog.append((changelog_key(place), _changelog_value(self._held_of(summed))))
            elif self._is_held(place):
                changelog.append((changelog_key(place), None))
        closed = self._closed_places()
        changelog += [(changelog_key(place), None) for place in closed]
        if not self._aggregation.on_close:
            told = [Told(place, summed) for place, summed in self._changed.items()]
            return Changes(told, changelog)
        ended = {place: None for place in self._changed if not self._is_open(place.start_ms)}
        ended.update(dict.fromkeys(closed))
        last = [self._last_of(place) for place in sorted(ended)]
        return Changes([told for told in last if told.summed.value is not None], changelog)

    def _is_open(self, start_ms: int) -> bool:
        return self._aggregation.windows.is_open(start_ms, self._stream_time_ms)

    def _closed_places(self) -> list[Place]:
        """Return the windows that are held and not open any more."""
        starts = [start_ms for start_ms in self._held if not self._is_open(start_ms)]
        return [Place(start_ms, key) for start_ms in sorted(starts) for key in self._held[start_ms]]

    def _last_of(self, place: Place) -> Told:
        summed = self._changed.get(place) or self._committed(place)
        assert summed is not None
        return Told(place, summed)

    def _held_of(self, summed: Summed) -> Held:
        return Held(summed.timestamp_ms, self._aggregation.write(summed.value))

    def commit(self) -> None:
        """Know that what :meth:`changes` returned is written."""
        for place, summed in self._changed.items():
            if self._is_open(place.start_ms):
                self._hold(place, None if summed.value is None else self._held_of(summed))
        for start_ms in [start_ms for start_ms in self._held if not self._is_open(start_ms)]:
            del self._held[start_ms]
        self._changed.clear()
        self._committed_time_ms = self._stream_time_ms

    def abort(self) -> None:
        """Drop what changed since the last commit."""
        self._changed.clear()
        self._stream_time_ms = self._committed_time_ms

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over a record of the changelog.

        Raises:
            ChangelogError: It is none.
        """
        assert not self._changed, "a state is restored when nothing of it is under way"
        try:
            self._replay(key, value)
        except ValueError as error:
            raise ChangelogError(f"a changelog has the key {key!r} with {value!r}") from error

    def _replay(self, key: bytes, value: bytes | None) -> None:
        if key == STREAM_TIME_KEY:
            if value is None or len(value) != INT64.size:
                raise ValueError
            self._stream_time_ms = self._committed_time_ms = int(INT64.unpack(value)[0])
            return
        place = _place(key)
        if value is None:
            self._hold(place, None)
        elif len(value) < INT64.size:
            raise ValueError
        else:
            self._hold(place, Held(int(INT64.unpack_from(value)[0]), value[INT64.size :]))

    def _is_held(self, place: Place) -> bool:
        return place.key in self._held.get(place.start_ms, {})

    def _hold(self, place: Place, held: Held | None) -> None:
        """Keep the value of a window, or forget the window."""
        if held is not None:
            self._held.setdefault(place.start_ms, {})[place.key] = held
        elif self._is_held(place):
            keys = self._held[place.start_ms]
            del keys[place.key]
            if not keys:
                del self._held[place.start_ms]


def changelog_key(place: Place) -> bytes:
    """Return the key under which a changelog has a window: the key's bytes, then its start."""
    return place.key + INT64.pack(place.start_ms)


def _place(key: bytes) -> Place:
    if len(key) < INT64.size:
        raise ValueError
    return Place(int(INT64.unpack(key[-INT64.size :])[0]), key[: -INT64.size])


def _changelog_value(held: Held) -> bytes:
    return INT64.pack(held.timestamp_ms) + held.value
