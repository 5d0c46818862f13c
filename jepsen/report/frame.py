"""What all pictures over time share: the axis, faults behind everything, anomalies before."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.report.gathering import FaultBar, Gathered
from quorate.jepsen.report.svg import (
    Box,
    Linear,
    clock_text,
    element,
    moment_text,
    number,
    path,
    plain,
    rect,
    text,
    time_ticks,
    tip,
)

WIDTH: Final = 1160
LEFT: Final = 132
LABEL_MAX: Final = 20
"""So many characters fit there."""
RIGHT: Final = 14
AXIS_HEIGHT: Final = 20

_MARKS_MAX: Final = 60
"""So many anomalies get a line in the pictures; the text below has more."""

_TICKS: Final = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which an anomaly showed."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The axis of time; times are on the history's clock."""

    start_ns: int
    duration_ns: int
    width_ns: int
    faults: tuple[FaultBar, ...]
    marks: tuple[Mark, ...]

    def x(self, time_ns: float) -> float:
        """Return where a time lies; what is outside lies at the edge."""
        scale = Linear(0, self.duration_ns, LEFT, WIDTH - RIGHT)
        return min(max(scale(time_ns - self.start_ns), LEFT), WIDTH - RIGHT)

    def bucket_x(self, bucket: float) -> float:
        """Return where a bucket begins."""
        return self.x(self.start_ns + bucket * self.width_ns)

    @property
    def bucket_width(self) -> float:
        """How wide a bucket is."""
        return (WIDTH - LEFT - RIGHT) * self.width_ns / self.duration_ns

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.start_ns + self.duration_ns

    def since_start(self, time_ns: int) -> str:
        """Return a time as people read it."""
        return moment_text(max(0, time_ns - self.start_ns))


def frame_of(gathered: Gathered, marks: Sequence[Mark]) -> Frame:
    """Return the frame of all pictures of a run."""
    grid = gathered.grid
    faults = tuple(bar for bar in gathered.faults if not bar.failed)
    return Frame(
        grid.start_ns or 0, grid.duration_ns, grid.width_ns, faults, tuple(marks[:_MARKS_MAX])
    )


def panel(frame: Frame, title: str, height: float, *inner: str, axis: bool = True) -> str:
    """Return a whole picture: faults lie behind what is given, anomalies before it."""
    whole = height + (AXIS_HEIGHT if axis else 4)
    return element(
        "svg",
        {"viewBox": f"0 0 {WIDTH} {number(whole)}", "role": "img"},
        tip(title),
        _bands(frame, height),
        _ticks(frame, height, labels=axis),
        *inner,
        _marks(frame, height),
    )


def figure(heading: str, caption: str, *pictures: str) -> str:
    """Return pictures with a heading and what they mean."""
    note = element("p", {"class": "caption"}, plain(caption)) if caption else ""
    return element(
        "figure", {}, element("h3", {}, plain(heading)), note,
        *(element("div", {"class": "wide"}, picture) for picture in pictures),
    )  # fmt: skip


def spans(frame: Frame) -> Iterable[tuple[float, float]]:
    """Yield where some fault was on, from x to x, without overlaps."""
    edges = sorted((frame.x(bar.begun_ns), frame.x(_end(frame, bar))) for bar in frame.faults)
    current: tuple[float, float] | None = None
    for low, high in edges:
        if current is None or low > current[1] + 0.5:
            if current is not None:
                yield current
            current = low, high
        else:
            current = current[0], max(current[1], high)
    if current is not None:
        yield current


def _end(frame: Frame, bar: FaultBar) -> int:
    return frame.end_ns if bar.healed_ns is None else bar.healed_ns


def _bands(frame: Frame, height: float) -> str:
    boxes = (Box(low, 0, max(high - low, 1), height) for low, high in spans(frame))
    return "".join(rect(box, "band") for box in boxes)


def _ticks(frame: Frame, height: float, *, labels: bool) -> str:
    pieces: list[str] = []
    for tick_ns in time_ticks(frame.duration_ns, _TICKS):
        x = frame.x(frame.start_ns + tick_ns)
        pieces.append(path([f"M{number(x)} 0V{number(height)}"], "grid"))
        if labels:
            anchor = "end" if x > WIDTH - RIGHT - 20 else "middle"
            pieces.append(text(x, height + 14, clock_text(tick_ns), "tick", anchor))
    return "".join(pieces)


def _marks(frame: Frame, height: float) -> str:
    return "".join(
        path(
            [f"M{number(frame.x(mark.at_ns))} 0V{number(height)}"],
            "mark",
            tip(f"{mark.name} at {frame.since_start(mark.at_ns)}"),
        )
        for mark in frame.marks
    )


def label(y: float, name: str) -> str:
    """Return a name left of a picture; of a long one the end, which tells it from others."""
    shown = name if len(name) <= LABEL_MAX else "..." + name[3 - LABEL_MAX :]
    return text(LEFT - 8, y, shown, "label", "end")


def fault_lanes(frame: Frame, phases: Sequence[tuple[int, str]]) -> str:
    """Return a lane for each kind of fault, a bar for each time that it was there; and phases."""
    names = sorted({bar.name for bar in frame.faults})
    pieces = list(_phases(frame, phases))
    pieces += [label(18 * i + 31, name) for i, name in enumerate(names)]
    for bar in frame.faults:
        y = 18.0 * names.index(bar.name) + 21
        low, high = frame.x(bar.begun_ns), frame.x(_end(frame, bar))
        box = Box(low, y, max(high - low, 2), 12)
        pieces.append(rect(box, "fault" if bar.verified else "fault unseen", tip(_tip(frame, bar))))
        words = ", ".join(bar.targets)
        if box.width > 6.2 * len(words) + 8:
            pieces.append(text(low + 4, y + 10, words, "on-fault"))
    return panel(frame, "Phases and faults over time", 18 * len(names) + 22, *pieces)


def _phases(frame: Frame, phases: Sequence[tuple[int, str]]) -> Iterable[str]:
    """Yield what the run was at, as far as there is room for the words."""
    yield label(13, "phase")
    free_x = 0.0
    for begun_ns, name in phases:
        x = frame.x(begun_ns)
        yield path([f"M{number(x)} 2V18"], "phase", tip(f"{name} at {frame.since_start(begun_ns)}"))
        if free_x <= x < WIDTH - RIGHT - 6 * len(name):
            yield text(x + 4, 13, name, "tick")
            free_x = x + 6.5 * len(name) + 8


def _tip(frame: Frame, bar: FaultBar) -> str:
    healed = "never healed" if bar.healed_ns is None else f"to {frame.since_start(bar.healed_ns)}"
    return "\n".join(
        filter(
            None,
            (
                f"{bar.name} {', '.join(bar.targets)}",
                bar.detail,
                f"from {frame.since_start(bar.begun_ns)} {healed}",
                f"seen to bite: {bar.verified}" if bar.verified else "not seen to bite",
            ),
        )
    )
