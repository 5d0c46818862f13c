"""A report for the terminal: what the page says, in characters, and in 80 columns."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.history import Kind
from quorate.jepsen.report.buckets import bin_ns
from quorate.jepsen.report.gathering import BINS_PER_ROW, NEVER_ROW, WRITES, Gathered
from quorate.jepsen.report.panels import partitions_drawn
from quorate.jepsen.report.summary import (
    OPERATION_HEADINGS,
    Report,
    faults_at,
    operation_rows,
    setting_parts,
    verdict_line,
    worst_gap,
)
from quorate.jepsen.report.svg import (
    NS_PER_S,
    clock_text,
    duration_text,
    latency_text,
    time_ticks,
)
from quorate.jepsen.report.wording import readable

COLUMNS: Final = 80
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""Between words that stay on one line."""

PARTITIONS_SHOWN: Final = 8
CASES_SHOWN: Final = 3

_LABELS: Final = 15
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_NO_LEADER: Final = "·"
_STYLES: Final = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}


def lines(report: Report, width: int = COLUMNS) -> Iterator[Text]:
    """Yield the lines of a report, none longer than the width but the last, the command."""
    yield Text(report.name, "bold")
    parts = (part.replace(" ", NO_BREAK) for part in setting_parts(report))
    yield from _wrapped(" · ".join(parts), width, "dim")
    yield Text()
    verdict = Text(report.word, _STYLES[report.tone])
    yield verdict
    yield from _wrapped(verdict_line(report), width)
    for note in report.verdict.notes:
        yield from _wrapped(note, width, "yellow")
    yield from _anomalies(report, report.verdict.anomalies, width, "bold red")
    if report.verdict.allowed:
        yield Text()
        yield from _wrapped("Documented as possible with this configuration:", width, "dim")
        yield from _anomalies(report, report.verdict.allowed, width, "bold")
    yield Text()
    yield from _timeline(report.gathered, width)
    yield Text()
    yield from _table(OPERATION_HEADINGS, list(operation_rows(report.gathered)))
    yield from _ending(report, width)


def verdict_lines(report: Report, width: int = COLUMNS) -> Iterator[Text]:
    """Yield the verdict with what proves it, and no pictures."""
    yield Text(report.word, _STYLES[report.tone])
    yield from _wrapped(verdict_line(report), width)
    for note in report.verdict.notes:
        yield from _wrapped(note, width, "yellow")
    yield from _anomalies(report, report.verdict.anomalies, width, "bold red")


def _wrapped(words: str, width: int, style: str = "", indent: int = 0) -> Iterator[Text]:
    line = " " * indent
    for word in words.replace("\n", " ").split(" "):
        if len(line) > indent and len(line) + 1 + len(word) > width:
            yield Text(line.replace(NO_BREAK, " "), style)
            line = " " * indent
        line += word if len(line) == indent else f" {word}"
    yield Text(line.replace(NO_BREAK, " "), style)


# --- anomalies ------------------------------------------------------------------


def _anomalies(report: Report, anomalies: Anomalies, width: int, style: str) -> Iterator[Text]:
    for name, count in sorted(anomalies.counts.items()):
        cases = anomalies.cases[name]
        meaning = MEANINGS[name].sentence if name in MEANINGS else ""
        yield Text()
        yield from _wrapped(f"{name} ({count:,}): {meaning}", width, style)
        start_ns = report.gathered.grid.start_ns or 0
        for case in cases[:CASES_SHOWN]:
            yield from _wrapped(readable(case.what, start_ns), width, indent=2)
            for sentence in case.evidence:
                yield from _wrapped(readable(sentence, start_ns), width, "dim", indent=4)
            for fault in faults_at(report, case.at_ns):
                yield from _wrapped(f"fault: {fault}", width, "dim", indent=4)
        if count > CASES_SHOWN:
            yield Text(f"  and {count - CASES_SHOWN:,} more", "dim")


# --- pictures over time ---------------------------------------------------------


class _Columns:
    """Which column of the picture a bucket belongs to."""

    def __init__(self, gathered: Gathered, width: int) -> None:
        self.count = width - _LABELS - 1
        self._gathered = gathered
        self._last = gathered.grid.duration_ns // gathered.grid.width_ns + 1

    def of_bucket(self, bucket: int) -> int:
        return min(bucket * self.count // self._last, self.count - 1)

    def of_time(self, time_ns: int) -> int:
        grid = self._gathered.grid
        share = (time_ns - (grid.start_ns or 0)) / grid.duration_ns
        return min(max(int(share * self.count), 0), self.count - 1)

    @property
    def seconds(self) -> float:
        """How long a column is."""
        return self._gathered.grid.duration_ns / NS_PER_S / self.count


def _lane(label: str, cells: Iterable[str], style: str = "") -> Text:
    shown = label if len(label) < _LABELS else "..." + label[4 - _LABELS :]
    return Text(f"{shown:>{_LABELS - 1}} ").append("".join(cells), style)


def _timeline(gathered: Gathered, width: int) -> Iterator[Text]:
    columns = _Columns(gathered, width)
    yield _axis(gathered, columns)
    yield from _faults(gathered, columns)
    yield _writes(gathered, columns)
    yield from _doubtful(gathered, columns)
    if gathered.totals:
        yield _slowest(gathered, columns, gathered.names()[0])
    yield from _partitions(gathered, columns)


def _axis(gathered: Gathered, columns: _Columns) -> Text:
    cells = [" "] * (columns.count + 8)
    start_ns = gathered.grid.start_ns or 0
    for tick_ns in time_ticks(gathered.grid.duration_ns, 6):
        at = columns.of_time(start_ns + tick_ns)
        label = clock_text(tick_ns)
        if at + len(label) <= columns.count:
            cells[at : at + len(label)] = label
    return _lane("", cells[: columns.count], "dim")


def _faults(gathered: Gathered, columns: _Columns) -> Iterator[Text]:
    end_ns = (gathered.grid.start_ns or 0) + gathered.grid.duration_ns
    bars = [bar for bar in gathered.faults if not bar.failed]
    for name in sorted({bar.name for bar in bars}):
        cells = [" "] * columns.count
        for bar in (bar for bar in bars if bar.name == name):
            low = columns.of_time(bar.begun_ns)
            high = columns.of_time(end_ns if bar.healed_ns is None else bar.healed_ns)
            cells[low : high + 1] = ("█" if bar.verified else "░") * (high + 1 - low)
        yield _lane(name, cells, "magenta")


def _writes(gathered: Gathered, columns: _Columns) -> Text:
    names = {name for name, _ in gathered.totals} & WRITES or set(gathered.names())
    counts = [0] * columns.count
    for (bucket, (name, kind)), count in gathered.outcomes.cells.items():
        if name in names and kind is Kind.OK:
            counts[columns.of_bucket(bucket)] += count
    highest = max(counts, default=0)
    per_s = highest / columns.seconds
    cells = (_block(count / highest if highest else 0) for count in counts)
    return _lane(f"writes/s {per_s:,.0f}", cells, "blue")


def _block(share: float) -> str:
    """Return a block as high as a share; only nothing is blank."""
    return " " if share <= 0 else _BLOCKS[max(1, round(share * (len(_BLOCKS) - 1)))]


def _doubtful(gathered: Gathered, columns: _Columns) -> Iterator[Text]:
    for kind, sign, style in ((Kind.FAIL, "x", "yellow"), (Kind.INFO, "?", "magenta")):
        cells = [" "] * columns.count
        for bucket, (_, one) in gathered.outcomes.cells:
            if one is kind:
                cells[columns.of_bucket(bucket)] = sign
        if sign in cells:
            yield _lane("failed" if kind is Kind.FAIL else "unknown", cells, style)


def _slowest(gathered: Gathered, columns: _Columns, name: str) -> Text:
    """Return the longest latency of each column, higher by one for each doubling or so."""
    rows = [-1] * columns.count
    for bucket, key in gathered.points[name].cells:
        if key.row != NEVER_ROW and key.kind is Kind.OK:
            column = columns.of_bucket(bucket)
            rows[column] = max(rows[column], key.row)
    known = [row for row in rows if row >= 0]
    low, high = min(known, default=0), max(known, default=1)
    longest = latency_text(bin_ns((high + 1) * BINS_PER_ROW))
    cells = (
        " " if row < 0 else _block(1 / 8 + 7 / 8 * (row - low) / max(high - low, 1))
        for row in rows
    )  # fmt: skip
    return _lane(f"{name} {longest}", cells, "cyan")


def _partitions(gathered: Gathered, columns: _Columns) -> Iterator[Text]:
    """Yield who led each partition, by the last digit; under it the ISR's size where it shrank."""
    drawn = partitions_drawn(gathered, ())[:PARTITIONS_SHOWN]
    for partition in drawn:
        states = gathered.states.column(partition)
        largest = max(len(state.isr) for state in states.values())
        leaders, sizes = [" "] * columns.count, [" "] * columns.count
        at = 0
        for bucket, state in states.items():
            at = columns.of_bucket(bucket)
            leader = _NO_LEADER if state.leader < 0 else str(state.leader % 10)
            size = " " if len(state.isr) == largest else str(min(len(state.isr), 9))
            rest = columns.count - at
            leaders[at:], sizes[at:] = [leader] * rest, [size] * rest
        yield _lane(partition, leaders, "green")
        if set(sizes) != {" "}:
            yield _lane("ISR", sizes, "yellow")
    left_out = len(gathered.states.keys()) + gathered.partitions_left_out - len(drawn)
    if left_out > 0:
        yield Text(f"{'':{_LABELS}}and {left_out:,} more partitions", "dim")


# --- tables ---------------------------------------------------------------------


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Text]:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    for number, row in enumerate([headings, *rows]):
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield Text("  ".join(cells).rstrip(), "dim" if number == 0 else "")


def _ending(report: Report, width: int) -> Iterator[Text]:
    worst = worst_gap(report.gathered)
    if worst is not None:
        start_ns = report.gathered.grid.start_ns or 0
        partition, acks = worst
        since = clock_text(round((acks.gap_from_ns - start_ns) / 1e8) * 100_000_000)
        yield Text()
        yield from _wrapped(
            f"longest without an acknowledgement: {duration_text(acks.gap_ns)} in {partition},"
            f" from {since} on", width,
        )  # fmt: skip
    if report.verdict.quotas:
        yield Text()
        rows = [
            (quota.name, f"{quota.got:,}", f"{quota.needed:,}", "yes" if quota.met else "NO")
            for quota in report.verdict.quotas
        ]
        yield from _table(("quota", "got", "needed", "met"), rows)
    if report.repeat:
        yield Text()
        # However long: a part of it, pasted, would be another run.
        yield Text(f"again: {report.repeat}")
