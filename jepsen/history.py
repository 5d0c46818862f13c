"""A history: what clients and faults did and were told, in the order in which it happened.

On disk it is a CBOR sequence (RFC 8742): a header, then one array for each event. Whoever is killed
while writing leaves at most the last event torn; all before it count.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from io import BufferedReader
from typing import IO, Any, Final, NamedTuple, cast

import cbor2

from quorate.dataclass import dataclass
from quorate.errors import QuorateError

FORMAT: Final = 1
_FORMAT_KEY: Final = "quorate-history"
_CUT_OFF: Final = "the file ends in the middle of an event"


class HistoryError(QuorateError):
    """A file that is no history, or not all of one."""


class TruncatedHistoryError(HistoryError):
    """A history whose last event is torn: it ended while it was written."""


class Kind(IntEnum):
    """What an event is; the numbers are those of the file format."""

    INVOKE = 0
    """A process begins to do something."""
    OK = 1
    """It was done."""
    FAIL = 2
    """It certainly was not done, and never will be."""
    INFO = 3
    """Nobody knows: it may have been done, or be done later, once or never."""


class Event(NamedTuple):
    """One line of a history.

    Attributes:
        time_ns: on the one monotonic clock that all processes of the harness share.
        process: who; a process does one thing at a time, and is never heard of again after INFO.
        name: what is done, such as ``send``.
        value: with what on INVOKE, with which result later; of CBOR's plain types.
    """

    time_ns: int
    process: int
    kind: Kind
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Operation:
    """An INVOKE and what came of it.

    Attributes:
        asked: the value of the INVOKE.
        told: the value of the end; None if there was none.
        returned_ns: when it ended; None if it never did, which is INFO.
    """

    process: int
    name: str
    asked: Any
    kind: Kind
    told: Any
    called_ns: int
    returned_ns: int | None


class HistoryWriter:
    """Writes a history to an unbuffered file: what was added is not lost with the harness.

    Invariant: what is torn, or missing, is at the end: behind that nothing is written.
    """

    def __init__(self, file: IO[bytes], header: Mapping[str, Any]) -> None:
        """Begin the file; the header says where the history comes from (seed, versions).

        Raises:
            OSError: it cannot be written.
        """
        self._write = file.write
        self._is_whole = True
        self._append(cbor2.dumps({_FORMAT_KEY: FORMAT, **header}))

    def add(self, event: Event) -> None:
        """Append an event.

        Raises:
            OSError: it cannot be written as a whole, or one before could not.
        """
        time_ns, process, kind, name, value = event
        self._append(cbor2.dumps((time_ns, process, int(kind), name, value)))

    def _append(self, data: bytes) -> None:
        if self._is_whole:
            self._is_whole = False
            self._is_whole = self._write(data) == len(data)
        if not self._is_whole:  # a disk that is almost full takes the first bytes
            raise OSError(errno.ENOSPC, "the disk is full, or was")


class HistoryReader:
    """Reads a history from its beginning, one event at a time.

    ``header`` is what the writer was told.
    """

    def __init__(self, file: BufferedReader) -> None:
        """Read the header.

        Raises:
            HistoryError: it is no history, or one of another format.
        """
        self._file = file
        self._decoder = cbor2.CBORDecoder(file)
        header = self._next()
        if not isinstance(header, dict) or _FORMAT_KEY not in header:
            raise HistoryError("this is no history: it does not begin with the header of one")
        self.header = cast("dict[str, Any]", header)
        version = self.header.pop(_FORMAT_KEY)
        if version != FORMAT:
            raise HistoryError(f"a history of format {version!r}; this version reads {FORMAT}")

    def _next(self) -> object:
        """Return the next item; None at the end of the file."""
        if not self._file.peek(1):
            return None
        try:
            item: object = self._decoder.decode()
        except cbor2.CBORDecodeEOF as error:
            raise TruncatedHistoryError(_CUT_OFF) from error
        except cbor2.CBORDecodeError as error:
            raise HistoryError(f"this is no history: {error}") from error
        return item

    def __iter__(self) -> Iterator[Event]:
        """Yield the events.

        Raises:
            TruncatedHistoryError: behind the last whole event.
            HistoryError: behind the last event before one that is none.
        """
        while (item := self._next()) is not None:
            yield _event(item)


def _event(item: object) -> Event:
    fields: list[Any] = item if isinstance(item, list) else []  # pyright: ignore[reportUnknownVariableType]
    match fields:
        case [int(time_ns), int(process), int(kind), str(name), _] if kind in set(Kind):
            return Event(time_ns, process, Kind(kind), name, fields[4])
        case _:
            raise HistoryError(f"this is no event of a history: {item!r:.80}")


def operations(events: Iterable[Event]) -> Iterator[Operation]:
    """Yield what was done, each as it ends; in the end those that never did.

    Raises:
        TruncatedHistoryError: the events end so; but not before all that is above was yielded.
        HistoryError: an event that cannot come where it does: the harness has a bug.
    """
    pending: dict[int, Event] = {}
    gone: set[int] = set()
    torn: TruncatedHistoryError | None = None
    time_ns = 0
    try:
        for event in events:
            if event.time_ns < time_ns:
                raise HistoryError(f"time went back by {time_ns - event.time_ns} ns: {event}")
            time_ns = event.time_ns
            begun = pending.pop(event.process, None)
            _check_place(event, begun, gone)
            if begun is None:
                pending[event.process] = event
                continue
            if event.kind is Kind.INFO:
                gone.add(event.process)
            yield _ended(begun, event.kind, event.value, event.time_ns)
    except TruncatedHistoryError as error:
        torn = error
    for begun in pending.values():
        yield _ended(begun, Kind.INFO, None, None)
    if torn is not None:
        raise torn


def _check_place(event: Event, begun: Event | None, gone: AbstractSet[int]) -> None:
    if event.process in gone or (event.kind is Kind.INVOKE) == (begun is not None):
        raise HistoryError(f"process {event.process} cannot have done this here: {event}")
    if begun is not None and event.name != begun.name:
        raise HistoryError(f"process {event.process} ends {begun.name} as {event.name}")


def _ended(begun: Event, kind: Kind, told: Any, returned_ns: int | None) -> Operation:
    return Operation(begun.process, begun.name, begun.value, kind, told, begun.time_ns, returned_ns)
