"""Numbers as pictures of a few characters: bars, blocks, durations, rates."""

import itertools
from functools import cache, lru_cache
from typing import Final

from quorate.client.admin_results import PartitionDescription
from quorate.tools.output import bytes_text
from quorate.tools.tui.views.cells import UNKNOWN, Cell, Line, Part, Tone, parts_cell

FULL: Final = "█"
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
UNCOMMITTED: Final = "▒"
BAR_WIDTH: Final = 12

LEADER_SIGN: Final = "▸"
IN_SYNC_SIGN: Final = "●"
BEHIND_SIGN: Final = "○"
OFFLINE_SIGN: Final = "✗"

OK_SIGN: Final = "●"
WARN_SIGN: Final = "▲"
BAD_SIGN: Final = "✗"

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def replica_blocks(told: PartitionDescription, dead: frozenset[int]) -> Cell:
    """Return the replicas of a partition, in their order, each as a block that says how it is.

    It is sorted by how many are in sync.
    """
    return _blocks(told.leader_id, told.replicas, told.isr, dead.union(told.offline))


@lru_cache(maxsize=4096)  # thousands of partitions have but a few of these
def _blocks(
    leader_id: int, replicas: tuple[int, ...], isr: tuple[int, ...], dead: frozenset[int]
) -> Cell:
    parts: list[Part] = []
    for broker_id in replicas:
        if parts:
            parts.append(Part(" "))
        if broker_id == leader_id:
            parts.append(Part(f"{LEADER_SIGN}{broker_id}", Tone.LEADER_BLOCK))
        elif broker_id in dead:
            parts.append(Part(f"{OFFLINE_SIGN}{broker_id}", Tone.BAD_BLOCK))
        elif broker_id in isr:
            parts.append(Part(f"{IN_SYNC_SIGN}{broker_id}", Tone.GOOD_BLOCK))
        else:
            parts.append(Part(f"{BEHIND_SIGN}{broker_id}", Tone.WARN_BLOCK))
    return parts_cell(parts, len(isr) - len(replicas))


def log_bar(committed: int, log_end: int, longest: int, width: int = BAR_WIDTH) -> Line:
    """Return a log as a bar: what is committed, then what is not.

    Args:
        committed: How many records there are up to the high watermark.
        log_end: How many there are up to the log's end.
        longest: How many the longest log beside it has.
        width: How wide that one's bar is.
    """
    if log_end <= 0 or longest <= 0:
        return (Part(UNKNOWN if log_end < 0 else "empty", Tone.DIM),)
    length = max(1, round(width * min(log_end, longest) / longest))
    if committed >= log_end:
        return _bar(length, 0)
    open_part = min(max(1, round(length * (log_end - committed) / log_end)), length)
    return _bar(length - open_part, open_part)


@cache
def _bar(committed: int, uncommitted: int) -> Line:
    full = Part(FULL * committed, Tone.ACCENT)
    return (full, Part(UNCOMMITTED * uncommitted, Tone.WARN)) if uncommitted else (full,)


def share_bar(value: int, most: int, width: int = BAR_WIDTH) -> str:
    """Return a number as a bar, in eighths of characters."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(8 * width * min(value, most) / most))
    return FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def duration_text(ms: float | None) -> str:
    """Return a duration in its two largest units: ``350 ms``, ``3 m 5 s``, ``2 d 4 h``."""
    if ms is None:
        return UNKNOWN
    if ms < 1_000:
        return f"{ms:.0f} ms"
    for (unit, length), (smaller, small_length) in itertools.pairwise(_UNITS):
        if ms >= length:
            whole, rest = divmod(int(ms), length)
            rest //= small_length
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return f"{ms / 1000:.0f} s"


def duration_cell(ms: float | None, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a duration, sorted by its length."""
    return Cell(UNKNOWN, Tone.DIM) if ms is None else Cell(duration_text(ms), tone, ms)


def bytes_cell(size: int | None) -> Cell:
    """Return a size, sorted by it."""
    return Cell(UNKNOWN, Tone.DIM) if size is None else Cell(bytes_text(size), Tone.PLAIN, size)


def rate_cell(per_s: float | None) -> Cell:
    """Return a rate, in at most three digits and a letter."""
    if per_s is None:
        return Cell(UNKNOWN, Tone.DIM)
    if per_s < 0.05:
        return Cell("0", Tone.DIM, 0.0)
    return Cell(rate_text(per_s), Tone.PLAIN, per_s)


def rate_text(per_s: float) -> str:
    """Return a rate as people read it: ``0.5``, ``12``, ``3.4k``, ``2.0M``."""
    for unit in ("", "k", "M"):
        if per_s < 999.5:
            return f"{per_s:.1f}{unit}" if unit or per_s < 9.95 else f"{per_s:.0f}"
        per_s /= 1000
    return f"{per_s:.1f}G"
