"""Where to start and stop reading: ``-o start``, ``-o -10``, ``-o 5:9``, ``-o @-1h:end``.

The grammar is that of ``rpk`` and ``kcat``. A :class:`Span` says what was meant; what offsets that
is in a partition is for the one who can ask a broker.
"""

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from quorate.dataclass import dataclass
from quorate.setting_fields import LONG_MAX
from quorate.tools.problems import UsageError

_UNIT_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION: Final = re.compile(r"(?:[0-9]+(?:ms|s|m|h|d|w))+")
_DURATION_PART: Final = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")
_SECONDS_DIGITS_MAX: Final = 10

_START_WORDS: Final = frozenset({"start", "beginning", "earliest"})
_END_WORDS: Final = frozenset({"end", "latest"})


class Anchor(Enum):
    """What a :class:`Mark`'s number counts from."""

    OFFSET = "offset"
    START = "start"
    END = "end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in any partition.

    ``value`` is an offset, a distance from the log's start or end, or milliseconds since 1970.
    """

    anchor: Anchor
    value: int


@dataclass(frozen=True, slots=True)
class Span:
    """From a place up to another, exclusive; without ``stop``, for ever."""

    start: Mark
    stop: Mark | None


START: Final = Mark(Anchor.START, 0)
END: Final = Mark(Anchor.END, 0)


def parse_span(text: str, now_ms: int) -> Span:
    """Return what ``-o`` means.

    Raises:
        UsageError: it has no meaning.
    """
    text = text.strip()
    if text.startswith(("s@", "@")):
        return _parse_time_span(text.removeprefix("s").removeprefix("@"), now_ms)
    first, colon, second = text.partition(":")
    if not text:
        raise _no_place(text)
    start = _parse_mark(first, now_ms) if first else START
    if start is None:
        raise _no_place(text)
    if not colon:
        return Span(start, None)
    stop = _parse_mark(second, now_ms)
    if stop is None:
        raise _no_place(text)
    if start.anchor is stop.anchor is not Anchor.TIME and stop.value < start.value:
        raise UsageError(
            f"{text!r} ends before it begins", why="START:STOP has the first offset first",
            hint=f"-o {second}:{first}",
        )  # fmt: skip
    return Span(start, stop)


def _parse_mark(text: str, now_ms: int) -> Mark | None:
    if text in _START_WORDS:
        return START
    if text in _END_WORDS:
        return END
    if text.startswith("@"):
        time_ms = parse_time(text[1:], now_ms)
        return None if time_ms is None else _time_mark(time_ms)
    match = re.fullmatch(r"([+-]?)([0-9]+)", text)
    if match is None or _is_too_large(match[2]):
        return None
    anchor = {"": Anchor.OFFSET, "+": Anchor.START, "-": Anchor.END}[match[1]]
    return Mark(anchor, int(text))


def _parse_time_span(text: str, now_ms: int) -> Span:
    """Times have colons too, so the longest start that is a time wins."""
    splits = [len(text), *(i for i in range(len(text) - 1, -1, -1) if text[i] == ":")]
    for split in splits:
        start_ms = parse_time(text[:split], now_ms)
        if start_ms is None:
            continue
        start = _time_mark(start_ms)
        if split == len(text):
            return Span(start, None)
        stop = _parse_stop(text[split + 1 :], start_ms, now_ms)
        if stop is not None:
            return Span(start, stop)
    raise _no_place("@" + text)


def _parse_stop(text: str, start_ms: int, now_ms: int) -> Mark | None:
    if text in _END_WORDS:
        return END
    length_ms = parse_duration(text)
    if length_ms is not None:
        return _time_mark(start_ms + length_ms)
    stop_ms = parse_time(text.removeprefix("@"), now_ms)
    return None if stop_ms is None else _time_mark(stop_ms)


def _time_mark(time_ms: int) -> Mark:
    """Return the place of a time; before 1970 there is none: such numbers mean other things."""
    return Mark(Anchor.TIME, min(max(0, time_ms), LONG_MAX))


def _is_too_large(digits: str) -> bool:
    return len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX


def parse_time(text: str, now_ms: int) -> int | None:
    """Return milliseconds since 1970 of a time, or None if the text is none.

    Times are ISO 8601 (UTC unless they say otherwise), seconds or milliseconds since 1970, ``now``,
    or a time ago, as in ``-1h30m``.
    """
    if text == "now":
        return now_ms
    if text.startswith("-"):
        ago_ms = parse_duration(text[1:])
        return None if ago_ms is None else now_ms - ago_ms
    if text.isdecimal() and text.isascii() and len(text) != len("20260301"):
        if _is_too_large(text):
            return None
        return int(text) * (1000 if len(text) <= _SECONDS_DIGITS_MAX else 1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int | None:
    """Return the milliseconds of ``90s``, ``1h30m`` and the like, or None if it is none."""
    if _DURATION.fullmatch(text) is None:
        return None
    parts = _DURATION_PART.findall(text)
    if any(_is_too_large(n) for n, _ in parts):
        return None
    return sum(int(n) * _UNIT_MS[unit] for n, unit in parts)


def time_text(time_ms: int) -> str:
    """Return a time as people read it: UTC, to the millisecond.

    Producers write what they like: beyond the year 9999, as with microseconds, it stays a number.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def _no_place(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no place to read from",
        why="it is none of start, end, an offset, -N (from the end), +N (from the start), @time",
        hint="-o start, -o -10, -o 5000, -o 10:20, -o @-1h:end, -o @2026-03-01T10:00",
    )
