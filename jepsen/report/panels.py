"""Pictures of a run over time: outcomes, latencies, unseen records, leaders and their ISRs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quorate.jepsen.history import Kind
from quorate.jepsen.report.buckets import BINS_PER_DOUBLING, bin_ns, latency_bin
from quorate.jepsen.report.frame import LEFT, RIGHT, WIDTH, Frame, label, panel
from quorate.jepsen.report.gathering import (
    BINS_PER_ROW,
    NEVER_ROW,
    WRITES,
    Gathered,
    PartitionState,
)
from quorate.jepsen.report.svg import (
    NS_PER_S,
    Box,
    Linear,
    count_ticks,
    latency_text,
    number,
    path,
    rect,
    text,
    tip,
)

LATENCY_PANELS: Final = 5
FREQUENT: Final = 100
"""Operations that are rarer by more than this are told in the table only."""

PARTITIONS_DRAWN: Final = 24
BROKER_COLOURS: Final = 8

_KINDS: Final = ((Kind.OK, "ok"), (Kind.FAIL, "fail"), (Kind.INFO, "info"))
_ROWS_PER_DOUBLING: Final = BINS_PER_DOUBLING / BINS_PER_ROW
_HEIGHT: Final = 150
_LANE: Final = 24
_NO_LEADER: Final = -1


def outcomes_panel(gathered: Gathered, frame: Frame) -> str:
    """Return how many writes a second ended in which way, one upon the other."""
    names = {name for name, _ in gathered.totals} & WRITES or set(gathered.names())
    columns: dict[int, dict[Kind, int]] = defaultdict(lambda: defaultdict(int))
    for (bucket, (name, kind)), count in gathered.outcomes.cells.items():
        if name in names:
            columns[bucket][kind] += count
    per_s = NS_PER_S / frame.width_ns
    highest = max((sum(c.values()) for c in columns.values()), default=0) * per_s
    ticks = count_ticks(highest, 4)
    scale = Linear(0, ticks[-1], _HEIGHT, 6)
    drawn: dict[Kind, list[str]] = defaultdict(list)
    for bucket, counts in sorted(columns.items()):
        below = 0.0
        for kind, _ in _KINDS:
            if counts[kind]:
                top = below + counts[kind] * per_s
                drawn[kind].append(_column(frame, bucket, scale(below), scale(top)))
                below = top
    areas = [path(drawn[kind], f"area {name}") for kind, name in _KINDS]
    return panel(
        frame, "Writes that ended, per second", _HEIGHT,
        *_count_axis(ticks, scale, "per second"), *areas,
    )  # fmt: skip


def _column(frame: Frame, bucket: int, bottom: float, top: float) -> str:
    x, width = frame.bucket_x(bucket), max(frame.bucket_width, 0.6)
    return f"M{number(x)} {number(bottom)}V{number(top)}h{number(width)}V{number(bottom)}z"


def _count_axis(ticks: Sequence[int], scale: Linear, unit: str) -> Iterable[str]:
    for tick in ticks:
        y = scale(tick)
        yield path([f"M{LEFT} {number(y)}H{WIDTH - RIGHT}"], "grid")
        yield text(LEFT - 8, y + 4, f"{tick:,}", "tick", "end")
    yield text(8, 14, unit, "tick")


# --- latencies ------------------------------------------------------------------


def latency_panel(gathered: Gathered, frame: Frame, name: str) -> str:
    """Return the latencies of an operation: a mark wherever at least one operation is.

    What never returned stands in a row of its own above all others.
    """
    cells = gathered.points[name].cells
    rows = [key.row for _, key in cells if key.row != NEVER_ROW]
    lowest, highest = _row_range(rows)
    never = any(key.row == NEVER_ROW for _, key in cells)
    top = 24 if never else 8
    scale = Linear(lowest, highest + 1, _HEIGHT, top)
    marks: dict[str, list[str]] = defaultdict(list)
    for (bucket, key), count in sorted(cells.items()):
        x = frame.bucket_x(bucket + 0.5)
        y = 10.0 if key.row == NEVER_ROW else scale(key.row + 0.5)
        class_ = f"{_name(key.kind)} {_density(count)}" if key.kind is Kind.OK else _name(key.kind)
        marks[class_].append(_mark(key.kind, x, y))
    pieces = list(_latency_axis(lowest, highest, scale))
    if never:
        pieces.append(text(LEFT - 8, 14, "never ended", "tick", "end"))
    order = ("ok d1", "ok d2", "ok d3", "fail", "info")
    pieces += [path(marks[class_], f"points {class_}") for class_ in order]
    return panel(frame, f"Latency of {name} over time", _HEIGHT, *pieces)


def _row_range(rows: Sequence[int]) -> tuple[int, int]:
    """Return the rows to show: the ones there are, and never less than three doublings."""
    if not rows:
        rows = [latency_bin(1_000_000) // BINS_PER_ROW]
    lowest, highest = min(rows), max(rows)
    return lowest, max(highest, lowest + math.ceil(3 * _ROWS_PER_DOUBLING))


def _latency_axis(lowest: int, highest: int, scale: Linear) -> Iterable[str]:
    low_ns, high_ns = bin_ns(lowest * BINS_PER_ROW), bin_ns((highest + 1) * BINS_PER_ROW)
    decades = math.log10(high_ns / low_ns)
    steps = (1,) if decades > 2.5 else (1, 2, 5)
    for power in range(4, 14):
        for step in steps:
            tick_ns = step * 10**power
            if not low_ns <= tick_ns <= high_ns:
                continue
            y = scale(latency_bin(tick_ns) / BINS_PER_ROW)
            yield path([f"M{LEFT} {number(y)}H{WIDTH - RIGHT}"], "grid")
            yield text(LEFT - 8, y + 4, latency_text(tick_ns), "tick", "end")


def _mark(kind: Kind, x: float, y: float) -> str:
    """Return the mark of an outcome: they differ in shape, not in colour alone."""
    at = f"M{number(x)} {number(y)}"
    match kind:
        case Kind.FAIL:
            return f"{at}m-2.5-2.5l5 5m0-5l-5 5"
        case Kind.INFO:
            return f"{at}m0-3.5l3.5 6h-7z"
        case _:
            return f"{at}h0"


def _name(kind: Kind) -> str:
    return kind.name.lower()


def _density(count: int) -> str:
    return "d1" if count == 1 else "d2" if count < 10 else "d3"


# --- unseen records -------------------------------------------------------------


def unseen_panel(gathered: Gathered, frame: Frame) -> str:
    """Return how many acknowledged records no consumer had been given yet."""
    column = gathered.unseen.column("")
    ticks = count_ticks(max(column.values(), default=0), 3)
    scale = Linear(0, ticks[-1], 90, 6)
    line = [
        f"{'L' if i else 'M'}{number(frame.bucket_x(bucket + 0.5))} {number(scale(count))}"
        for i, (bucket, count) in enumerate(column.items())
    ]
    if line:
        # Columns show the most of their time; what is left in the end matters more than that.
        line.append(f"L{number(WIDTH - RIGHT)} {number(scale(gathered.unseen_last))}")
    return panel(
        frame, "Acknowledged, and not yet read", 90,
        *_count_axis(ticks, scale, "records"), path(line, "line ok"),
    )  # fmt: skip


# --- leaders and ISRs -----------------------------------------------------------


class _Stretch(NamedTuple):
    """A state as long as it lasted, in buckets."""

    begin: int
    end: int
    state: PartitionState


def partitions_drawn(gathered: Gathered, first: Iterable[str]) -> list[str]:
    """Return the partitions to draw: those named first, then those that changed most."""
    changes: dict[str, int] = defaultdict(int)
    for _, partition in gathered.states.cells:
        changes[partition] += 1
    named = [partition for partition in dict.fromkeys(first) if partition in changes]
    rest = sorted(changes.keys() - set(named), key=lambda p: (-changes[p], p))
    return sorted((named + rest)[:PARTITIONS_DRAWN])


def leaders_panel(gathered: Gathered, frame: Frame, partitions: Sequence[str]) -> str:
    """Return a lane for each partition: the leader's colour, as high as the ISR is large."""
    brokers = sorted({state.leader for state in gathered.states.cells.values()} - {_NO_LEADER})
    last = int(frame.duration_ns // frame.width_ns) + 1
    pieces: list[str] = []
    for lane, partition in enumerate(partitions):
        y = lane * (_LANE + 6.0) + 4
        pieces.append(label(y + 16, partition))
        states = gathered.states.column(partition)
        largest = max((len(state.isr) for state in states.values()), default=1)
        stretches = _stretches(states, last)
        pieces += [_stretch(frame, one, y, largest, brokers) for one in stretches]
        acks = gathered.acks.column(partition)
        pieces.append(_ack_line(frame, acks, y + _LANE + 2))
    height = max(len(partitions), 1) * (_LANE + 6) + 4
    return panel(frame, "Leaders and ISRs over time", height, *pieces)


def _stretches(states: dict[int, PartitionState], last: int) -> list[_Stretch]:
    begins = list(states)
    return [
        _Stretch(begin, end, states[begin])
        for begin, end in zip(begins, [*begins[1:], last], strict=True)
    ]


def _stretch(frame: Frame, one: _Stretch, y: float, largest: int, brokers: Sequence[int]) -> str:
    low, high = frame.bucket_x(one.begin), frame.bucket_x(one.end)
    leader, epoch, isr = one.state
    words = f"leader {leader}, epoch {epoch}, ISR {', '.join(map(str, isr)) or 'empty'}"
    from_to = f"\nfrom {frame.since_start(frame.start_ns + one.begin * frame.width_ns)}"
    if leader == _NO_LEADER:
        box = Box(low, y + _LANE - 3, max(high - low, 1), 3)
        return rect(box, "no-leader", tip(f"no leader, epoch {epoch}{from_to}"))
    height = _LANE * max(len(isr), 1) / max(largest, 1)
    box = Box(low, y + _LANE - height, max(high - low - 0.6, 0.8), height)
    colour = brokers.index(leader) % BROKER_COLOURS
    label = f"{leader} e{epoch}"
    if box.width <= 6.4 * len(label) + 6:
        label = ""
    drawn = rect(box, f"b b{colour}", tip(words + from_to))
    return drawn + (text(low + 4, y + _LANE - 5, label, "on-b") if label else "")


def _ack_line(frame: Frame, acks: dict[int, int], y: float) -> str:
    """Return a line under a lane that is there while the partition acknowledges records."""
    width = max(frame.bucket_width, 0.6)
    pieces: list[str] = []
    begin = previous = -2
    for bucket in [*acks, 1 << 60]:
        if bucket != previous + 1:
            if begin >= 0:
                length = (previous - begin + 1) * width
                pieces.append(f"M{number(frame.bucket_x(begin))} {number(y)}h{number(length)}")
            begin = bucket
        previous = bucket
    return path(pieces, "acks")


def controllers_panel(gathered: Gathered, frame: Frame) -> str:
    """Return which controller was the active one."""
    states = {
        bucket: PartitionState(controller, 0, ())
        for bucket, controller in gathered.controllers.column("").items()
    }
    names = sorted({state.leader for state in states.values()} - {_NO_LEADER})
    last = int(frame.duration_ns // frame.width_ns) + 1
    pieces = [label(17, "controller")]
    merged: dict[int, PartitionState] = {}
    for bucket, state in states.items():
        if not merged or list(merged.values())[-1] != state:
            merged[bucket] = state
    for begin, end, state in _stretches(merged, last):
        low, high = frame.bucket_x(begin), frame.bucket_x(end)
        if state.leader == _NO_LEADER:
            pieces.append(rect(Box(low, 17, max(high - low, 1), 3), "no-leader", tip("none known")))
            continue
        box = Box(low, 2, max(high - low - 0.6, 0.8), 18)
        colour = names.index(state.leader) % BROKER_COLOURS
        pieces.append(rect(box, f"b b{colour}", tip(f"active controller {state.leader}")))
        if box.width > 34:
            pieces.append(text(low + 4, 15, str(state.leader), "on-b"))
    return panel(frame, "The active controller over time", 22, *pieces, axis=False)


def latency_names(gathered: Gathered) -> list[str]:
    """Return the operations whose latencies are drawn: the frequent ones, and never none."""
    names = gathered.names()[:LATENCY_PANELS]
    counts = {name: sum(gathered.totals[name, kind] for kind, _ in _KINDS) for name in names}
    return [name for name in names if counts[name] * FREQUENT >= counts[names[0]]]
