"""Pieces of SVG: elements with their text escaped, scales; times as people read them."""

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from quorate.dataclass import dataclass

NS_PER_S: Final = 1_000_000_000


def element(name: str, attributes: Mapping[str, object], *inner: str) -> str:
    """Return an element; attributes are escaped, ``inner`` is markup. Empty attributes go."""
    words = [name]
    for key, value in attributes.items():
        if value != "":
            shown = number(value) if isinstance(value, float) else str(value)
            words.append(f'{key}="{escape(shown)}"')
    content = "".join(inner)
    return f"<{' '.join(words)}>{content}</{name}>" if content else f"<{' '.join(words)}/>"


def number(value: float) -> str:
    """Return a coordinate, as short as a tenth of a pixel allows."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "") -> str:
    """Return a line of text."""
    attributes = {"x": float(x), "y": float(y), "class": class_, "text-anchor": anchor}
    return element("text", attributes, plain(words))


def path(commands: Iterable[str], class_: str, *inner: str) -> str:
    """Return a path, or nothing if it has no commands."""
    joined = "".join(commands)
    return element("path", {"class": class_, "d": joined}, *inner) if joined else ""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle's place."""

    x: float
    y: float
    width: float
    height: float


def rect(box: Box, class_: str, *inner: str) -> str:
    """Return a rectangle."""
    sides = {"x": float(box.x), "y": float(box.y)}
    sides |= {"width": float(box.width), "height": float(box.height)}
    return element("rect", {**sides, "class": class_}, *inner)


def circle(x: float, y: float, radius: float, class_: str, *inner: str) -> str:
    """Return a circle."""
    sides = {"cx": float(x), "cy": float(y), "r": float(radius)}
    return element("circle", {**sides, "class": class_}, *inner)


def plain(words: str) -> str:
    """Return text as markup."""
    return escape(words, quote=False)


def tip(words: str) -> str:
    """Return what a browser shows of an element when one points at it."""
    return element("title", {}, plain(words))


@dataclass(frozen=True, slots=True)
class Linear:
    """A scale from values to pixels."""

    low: float
    high: float
    at_low: float
    at_high: float

    def __call__(self, value: float) -> float:
        """Return where a value lies."""
        share = (value - self.low) / ((self.high - self.low) or 1)
        return self.at_low + share * (self.at_high - self.at_low)


def time_ticks(duration_ns: int, count: int) -> list[int]:
    """Return round times from 0 to the end, in ns, about so many of them."""
    steps_s = (
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900),
        *(1_800, 3_600, 7_200, 14_400, 43_200, 86_400),
    )
    duration_s = duration_ns / NS_PER_S
    step_s = next((step for step in steps_s if duration_s / step <= count), 7 * 86_400)
    step_ns = int(step_s * NS_PER_S)
    return list(range(0, duration_ns + 1, step_ns))


def count_ticks(highest: float, count: int) -> list[int]:
    """Return round numbers from 0 to at least the highest."""
    rough = max(highest, 1) / count
    power = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    return [int(step * i) for i in range(math.ceil(max(highest, 1) / step) + 1)]


def clock_text(time_ns: int) -> str:
    """Return a time since the start: seconds of short runs, minutes and hours of long ones."""
    seconds = time_ns / NS_PER_S
    if seconds < 60:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def moment_text(time_ns: int) -> str:
    """Return a time since the start, to the millisecond."""
    minutes, ns = divmod(time_ns, 60 * NS_PER_S)
    return f"{minutes:02}:{ns / NS_PER_S:06.3f}"


def latency_text(latency_ns: float) -> str:
    """Return a latency in the unit that suits it."""
    for unit, size in (("s", NS_PER_S), ("ms", 1_000_000), ("us", 1_000)):
        if latency_ns >= size:
            value = latency_ns / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{latency_ns:.0f} ns"


def duration_text(duration_ns: int) -> str:
    """Return how long something was."""
    seconds = round(duration_ns / NS_PER_S, 4)
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7_200 else f"{seconds / 3_600:.3g} h"
