"""What an answer to "why?" is: a headline, lines that each cite what they come from, what to do."""

from collections.abc import Iterable
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.metadata.decided import Decided
from quorate.tools.output import SCHEMA_VERSION
from quorate.tools.positions import time_text

METADATA: Final = "metadata"
"""The name of the log of metadata records, among those of partitions (``orders-0``)."""


@dataclass(frozen=True, slots=True)
class Line:
    """A fact, and where it is written: the offset in a log, and the time that the record bears.

    The time is None where the log has none any more: the fact was found in a snapshot.

    What was measured is in no log, but in an answer to a request: then ``log`` is who answered
    what (``broker-1/ListOffsets``), the offset is None, and the time is that of the answer.
    """

    text: str
    offset: int | None
    time_ms: int | None
    log: str = METADATA

    @property
    def citation(self) -> str:
        """The log and the offset, or who answered what, as people write it."""
        return self.log if self.offset is None else f"{self.log}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Answer:
    """Why something is so: oldest line first. ``hint`` is a command or an act that helps."""

    headline: str
    lines: tuple[Line, ...]
    hint: str = ""

    def text(self) -> str:
        """Return the answer as people read it."""
        whens = ["-" if line.time_ms is None else time_text(line.time_ms) for line in self.lines]
        time_width = max(map(len, whens), default=0)
        width = max((len(line.citation) for line in self.lines), default=0)
        lines = [self.headline]
        for when, line in zip(whens, self.lines, strict=True):
            lines.append(f"  {when:<{time_width}}  {line.citation:<{width}}  {line.text}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines) + "\n"

    def document(self, question: str, subject: str) -> dict[str, Any]:
        """Return the answer as programs read it."""
        return {
            "kind": "why",
            "version": SCHEMA_VERSION,
            "question": question,
            "subject": subject,
            "headline": self.headline,
            "lines": [
                {
                    "text": line.text,
                    "log": line.log,
                    "offset": line.offset,
                    "time": None if line.time_ms is None else time_text(line.time_ms),
                    "time_ms": line.time_ms,
                }
                for line in self.lines
            ],
            "hint": self.hint,
        }


def cite(decided: Decided, text: str) -> Line:
    """Return a line that comes from a metadata record."""
    return Line(text, decided.offset, decided.time_ms)


def measured(text: str, who: str, api: str, time_ms: int) -> Line:
    """Return a line that comes from the answer to a request."""
    return Line(text, None, time_ms, f"{who}/{api}")


def in_order(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return lines without repetitions, oldest first; those of one log by offset."""
    unique = dict.fromkeys(lines)
    logs = {line.log for line in unique}
    if len(logs) == 1:
        return tuple(sorted(unique, key=lambda line: line.offset or 0))
    return tuple(sorted(unique, key=_age))


def _age(line: Line) -> tuple[int, str, int]:
    """Return what lines of several logs are sorted by; what was measured stays as it is."""
    if line.offset is None:
        return line.time_ms or 0, "", 0
    return line.time_ms or 0, line.log, line.offset


def numbers(brokers: Iterable[int]) -> str:
    """Return ids as lists of them are written."""
    return ",".join(map(str, brokers)) or "none"


def name_of(partition: TopicPartition) -> str:
    """Return a partition's name."""
    return f"{partition.topic}-{partition.partition}"
