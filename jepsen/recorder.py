"""Writes the history of a run for many threads at once."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, Final, Self

from quorate.errors import QuorateError
from quorate.jepsen.history import Event, HistoryWriter, Kind

NEMESIS: Final = 0
WATCHER: Final = 1
AUDITOR: Final = 2
FIRST_CLIENT: Final = 3


class HistoryEndedError(QuorateError):
    """A history cannot be written any more; says why."""


class _Tape:
    """The file that all recorders of a history write to, and the numbers of processes."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.file = path.open("wb", buffering=0)
        self.writer = HistoryWriter(self.file, header)
        self.lock = threading.Lock()
        self.next_process = FIRST_CLIENT
        self.free: list[int] = []
        self.closed = False
        self.error: OSError | None = None


class Recorder:
    """The history in a file that grows with each event; for any number of threads.

    State: what became of how many operations that were noted here.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Begin the file."""
        self._tape = _Tape(path, header)
        self._counts: defaultdict[tuple[str, Kind], int] = defaultdict(int)

    def part(self) -> Self:
        """Return a recorder of the same history that counts for itself."""
        other = copy(self)
        other._counts = defaultdict(int)  # noqa: SLF001 - of our own
        return other

    def process(self) -> int:
        """Return the number of a process that does nothing now; see :meth:`give_back`."""
        tape = self._tape
        with tape.lock:
            if tape.free:
                return tape.free.pop()
            number, tape.next_process = tape.next_process, tape.next_process + 1
            return number

    def give_back(self, process: int) -> None:
        """Let others have the number: its last operation ended, and not with INFO."""
        with self._tape.lock:
            self._tape.free.append(process)

    def add(self, process: int, kind: Kind, name: str, value: Any) -> None:
        """Note an event, now; after :meth:`close` it is late and is not noted.

        Neither is what cannot be written, nor what comes after that; see :meth:`check`.
        """
        tape = self._tape
        with tape.lock:
            if tape.closed:
                return
            try:
                tape.writer.add(Event(time.monotonic_ns(), process, kind, name, value))
            except OSError as error:  # clients have nobody to tell
                tape.closed, tape.error = True, error
            else:
                self._counts[name, kind] += 1

    def check(self) -> None:
        """See that everything was noted so far.

        Raises:
            HistoryEndedError: something could not be written.
        """
        error = self._tape.error
        if error is not None:
            raise HistoryEndedError(str(error.strerror or error)) from error

    def count(self, name: str, kind: Kind) -> int:
        """Return how many such events were noted here."""
        with self._tape.lock:
            return self._counts[name, kind]

    def close(self) -> None:
        """Note nothing more, wherever."""
        with self._tape.lock:
            self._tape.closed = True
            self._tape.file.close()


class Scribe:
    """What one client does, one thing after the other; a new process after each unknown end."""

    def __init__(self, recorder: Recorder, process: int | None = None) -> None:
        self._recorder = recorder
        self._process = recorder.process() if process is None else process

    def begin(self, name: str, value: Any) -> None:
        """Note that something begins."""
        self._recorder.add(self._process, Kind.INVOKE, name, value)

    def end(self, kind: Kind, name: str, value: Any = None) -> None:
        """Note how it ended."""
        self._recorder.add(self._process, kind, name, value)
        if kind is Kind.INFO:
            self._process = self._recorder.process()

    def tell(self, name: str, value: Any, asked: Any = None) -> None:
        """Note something that happens at once."""
        self.begin(name, asked)
        self.end(Kind.OK, name, value)


class Call:
    """One operation of many that are under way at once: begun when made, ended once.

    It has a process's number of its own, which the next one may have unless nobody knows what
    became of it.
    """

    __slots__ = ("_name", "_process", "_recorder")

    def __init__(self, recorder: Recorder, name: str, asked: Any) -> None:
        self._recorder = recorder
        self._name = name
        self._process = recorder.process()
        recorder.add(self._process, Kind.INVOKE, name, asked)

    def end(self, kind: Kind, told: Any = None) -> None:
        """Note how it ended; any thread may."""
        self._recorder.add(self._process, kind, self._name, told)
        if kind is not Kind.INFO:
            self._recorder.give_back(self._process)
