"""Pictures of what proves an anomaly: a map of offsets, and the operations on a register."""

from collections.abc import Sequence
from typing import Final

from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.report.evidence import ON_BROKER, Evidence, Position, Sighting
from quorate.jepsen.report.svg import (
    Box,
    Linear,
    circle,
    element,
    latency_text,
    number,
    path,
    plain,
    rect,
    text,
    time_ticks,
    tip,
)
from quorate.jepsen.report.wording import operation_text, value_text

_WIDTH: Final = 1160
_LABELS: Final = 230
_ROW: Final = 22
_CELL_MAX: Final = 74.0
_CHART_ROW: Final = 20
_CHART: Final = 200
_RIGHT: Final = 60


def offset_map(evidence: Evidence) -> str:
    """Return a table of who saw which value at which offset; disagreements are marked."""
    offsets = evidence.columns
    if not evidence.sightings:
        return ""
    cell = min((_WIDTH - _LABELS - 8) / len(offsets), _CELL_MAX)
    height = _ROW * (len(evidence.sightings) + 1) + 6
    pieces: list[str] = []
    for column, offset in enumerate(offsets):
        x = _LABELS + column * cell
        if offset in evidence.bad:
            pieces.append(rect(Box(x, 0, cell, height), "bad-column"))
        elif column and offset != offsets[column - 1] + 1:
            pieces.append(path([f"M{number(x)} 0V{number(height)}"], "break"))
        class_ = "tick bad" if offset in evidence.bad else "tick"
        pieces.append(text(x + cell / 2, 15, str(offset), class_, "middle"))
    pieces.append(text(_LABELS - 10, 15, "offset", "tick", "end"))
    for line, sighting in enumerate(evidence.sightings):
        y = _ROW * (line + 1.0)
        pieces.append(text(_LABELS - 10, y + 15, _who(sighting), "label", "end"))
        for column, offset in enumerate(offsets):
            box = Box(_LABELS + column * cell + 1, y + 1, cell - 2, _ROW - 2)
            pieces.append(_cell(evidence, sighting, offset, box))
    return element(
        "svg", {"viewBox": f"0 0 {_WIDTH} {number(height)}", "role": "img"},
        tip(f"Values at offsets of {evidence.case.where}"), *pieces,
    )  # fmt: skip


def _cell(evidence: Evidence, sighting: Sighting, offset: int, box: Box) -> str:
    value = sighting.values.get(offset)
    if value is None:
        missing = sighting.how in {"poll", "read"} and _inside(sighting, offset)
        return rect(box, "cell missing", tip(f"{offset} was left out")) if missing else ""
    others = {
        other.values[offset]
        for other in evidence.sightings
        if offset in other.values and _of_batches(other) == _of_batches(sighting)
    }
    class_ = "cell" if len(others) == 1 else "cell differs"
    return rect(box, class_) + text(
        box.x + box.width / 2, box.y + 14, value_text(value), "value", "middle"
    )


def _of_batches(sighting: Sighting) -> bool:
    return sighting.how.startswith(ON_BROKER)


def _inside(sighting: Sighting, offset: int) -> bool:
    return min(sighting.values) < offset < max(sighting.values)


def _who(sighting: Sighting) -> str:
    if sighting.how == "acknowledged" or _of_batches(sighting):
        return sighting.how
    shown = ", ".join(map(str, sighting.processes[:3]))
    more = "..." if len(sighting.processes) > 3 else ""
    times = f", {sighting.times} times" if sighting.times > 1 else ""
    return f"{sighting.how} by {shown}{more}{times}"


# --- registers ------------------------------------------------------------------


def register_chart(evidence: Evidence) -> str:
    """Return the operations on a key as bars over time, those that prove the anomaly marked."""
    operations = evidence.register
    if not operations:
        return ""
    start_ns = min(o.called_ns for o in operations)
    known = [o.returned_ns for o in operations if o.returned_ns is not None]
    end_ns = max([*known, *(o.called_ns for o in operations), start_ns + 1])
    scale = Linear(start_ns, end_ns, 70, _WIDTH - _RIGHT - 90)
    height = _CHART_ROW * len(operations) + 4.0
    pieces: list[str] = []
    for tick_ns in time_ticks(end_ns - start_ns, 10):
        x = scale(start_ns + tick_ns)
        pieces.append(path([f"M{number(x)} 0V{number(height)}"], "grid"))
        pieces.append(text(x, height + 14, f"+{latency_text(tick_ns)}", "tick", "middle"))
    for line, operation in enumerate(operations):
        bad = operation in evidence.proofs
        pieces.append(_bar(operation, scale, end_ns, line * _CHART_ROW + 3.0, bad=bad))
    return element(
        "svg", {"viewBox": f"0 0 {_WIDTH} {number(height + 20)}", "role": "img"},
        tip(f"Operations on {evidence.case.where}"), *pieces,
    )  # fmt: skip


def _bar(operation: Operation, scale: Linear, end_ns: int, y: float, *, bad: bool) -> str:
    low = scale(operation.called_ns)
    never = operation.returned_ns is None or operation.kind is Kind.INFO
    high = scale(operation.returned_ns or end_ns)
    box = Box(low, y, max(high - low, 3), _CHART_ROW - 6)
    class_ = f"bar {operation.kind.name.lower()}{' proof' if bad else ''}"
    words = operation_text(operation) + (" ?" if never else "")
    return (
        text(60, y + 11, f"process {operation.process}", "tick", "end")
        + rect(box, class_, tip(words))
        + text(box.x + box.width + 5, y + 11, words, "label bad" if bad else "label")
    )


# --- groups ---------------------------------------------------------------------


def positions_chart(evidence: Evidence, start_ns: int) -> str:
    """Return where groups were in a partition: what was committed, and what was told of that."""
    positions = [position for position in evidence.positions if position.offset >= 0]
    if not positions:
        return ""
    begin_ns, end_ns = positions[0].at_ns, max(positions[-1].at_ns, positions[0].at_ns + 1)
    across = Linear(begin_ns, end_ns, 70, _WIDTH - 16)
    offsets = [position.offset for position in positions]
    up = Linear(min(offsets), max(*offsets, min(offsets) + 1), _CHART, 12)
    pieces = [
        text(60, up(offset) + 4, f"{offset:,}", "tick", "end")
        + path([f"M66 {number(up(offset))}H{_WIDTH - 16}"], "grid")
        for offset in {min(offsets), max(offsets)}
    ]
    for tick_ns in time_ticks(end_ns - begin_ns, 10):
        x = across(begin_ns + tick_ns)
        shown = f"{(begin_ns + tick_ns - start_ns) / 1e9:.2f} s"
        pieces.append(text(x, _CHART + 18, shown, "tick", "middle"))
    for position in positions:
        told = position.operation.name == "committed"
        x, y = across(position.at_ns), up(position.offset)
        class_ = "told" if told else "committed"
        words = f"process {position.operation.process}: {_position_text(position)}"
        bad = position.operation in evidence.proofs
        pieces.append(circle(x, y, 3, f"at {class_}", tip(words)))
        if bad:
            pieces.append(circle(x, y, 7, "ring"))
            pieces.append(text(x + 10, y + 4, str(position.offset), "bad"))
    return element(
        "svg", {"viewBox": f"0 0 {_WIDTH} {_CHART + 24}", "role": "img"},
        tip(f"Positions of groups in {evidence.case.where}"), *pieces,
    )  # fmt: skip


def _position_text(position: Position) -> str:
    return f"{operation_text(position.operation)} ({position.offset})"


def proofs_table(operations: Sequence[Operation], start_ns: int, where: str = "") -> str:
    """Return the operations that prove an anomaly as rows of a table."""
    rows = [
        "".join(
            element("td", {"class": class_}, plain(cell))
            for class_, cell in zip(("n", "n", "n", "", ""), _row(o, start_ns, where), strict=True)
        )
        for o in sorted(operations, key=lambda o: o.called_ns)
    ]
    if not rows:
        return ""
    headings = ("called", "took", "process", "what", "outcome")
    head = "".join(element("th", {}, heading) for heading in headings)
    body = (element("tr", {}, row) for row in rows)
    table = element("table", {}, element("tr", {}, head), *body)
    return element("div", {"class": "wide"}, table)


def _row(operation: Operation, start_ns: int, where: str) -> tuple[str, str, str, str, str]:
    called = f"{(operation.called_ns - start_ns) / 1e9:.6f} s"
    took = "-"
    if operation.returned_ns is not None:
        took = latency_text(operation.returned_ns - operation.called_ns)
    outcome = "never ended" if operation.returned_ns is None else operation.kind.name.lower()
    return called, took, str(operation.process), operation_text(operation, where), outcome
