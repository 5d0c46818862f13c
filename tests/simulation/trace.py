"""What happened in a run: a hash over all of it, and the newest lines for whoever looks into it."""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b

from tests.simulation.timeline import Timeline

LINES_MAX = 400


class ViolationError(Exception):
    """A promise is broken: the first word says which invariant."""


class Trace:
    """Owns the hash and the lines; whatever goes in must be the same in every process."""

    def __init__(self, timeline: Timeline, show: Callable[[str], None] | None) -> None:
        self._timeline = timeline
        self._show = show
        self._hash = blake2b(digest_size=16)
        self.lines = deque[str](maxlen=LINES_MAX)
        self.counts = Counter[str]()

    def note(self, kind: str, text: str) -> None:
        """Count something, and keep a line about it."""
        self.counts[kind] += 1
        line = f"{self._timeline.now_s:10.4f} {kind} {text}"
        self._hash.update(line.encode())
        self.lines.append(line)
        if self._show is not None:
            self._show(line)

    def frame(self, header: str, data: bytes) -> None:
        """Take a delivered message into the hash."""
        self.counts["delivered"] += 1
        self._hash.update(f"{self._timeline.now_s} {header}".encode())
        self._hash.update(data)

    def violated(self, invariant: str, text: str) -> ViolationError:
        """Return the exception to raise."""
        self.note("VIOLATION", f"{invariant}: {text}")
        return ViolationError(f"{invariant}: {text}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
