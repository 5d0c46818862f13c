"""Runs of ``quorate verify`` as a table: what was found, with what load and which faults, when."""

from collections.abc import Iterable
from typing import Any, Final

from quorate.tools.positions import time_text
from quorate.tools.tui.views.cells import (
    UNKNOWN,
    Cell,
    Column,
    Frame,
    Row,
    Tone,
    number_cell,
    text_cell,
)
from quorate.tools.tui.views.shapes import BAD_SIGN, OK_SIGN, WARN_SIGN, duration_cell
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.verify_runs import Run

RUN_COLUMNS: Final = (
    Column("time", falls=True), Column("verdict"), Column("workloads", shrinks=True, title="LOAD"),
    Column("faults", shrinks=True), Column("operations", is_number=True, falls=True, title="OPS"),
    Column("took", is_number=True, falls=True), Column("anomalies", shrinks=True),
    Column("bit", is_number=True, falls=True, wide_only=True), Column("name", wide_only=True),
    Column("seed", is_number=True, wide_only=True), Column("client", wide_only=True),
    Column("commit", wide_only=True), Column("started", wide_only=True),
)  # fmt: skip


def runs_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each run, the newest first."""
    rows = tuple(map(_run_row, snapshot.runs))
    remark = "no runs are in ./quorate-verify: quorate verify run makes one; or :verify FOLDER"
    return Frame("runs of verify", RUN_COLUMNS, rows, remark, newest_first=True)


def _run_row(run: Run) -> Row:
    header, verdict, started_ms = run.header, run.verdict, run.started_ms
    when = "" if started_ms is None else time_text(started_ms)[:19].replace("T", " ")
    year = len("2026-")
    seconds = verdict.get("seconds")
    cells = (
        Cell(when[year:-3] or UNKNOWN, Tone.DIM, started_ms),
        verdict_cell(run.validity),
        text_cell(_words(header.get("workloads", ())), Tone.STRONG),
        text_cell(_words(header.get("faults", ()))),
        number_cell(verdict.get("operations")),
        duration_cell(None if seconds is None else seconds * 1000),
        text_cell(_words(run.anomalies), Tone.BAD),
        number_cell(verdict.get("faults_bit")),
        text_cell(run.name, Tone.DIM),
        number_cell(header.get("seed"), Tone.DIM),
        text_cell(header.get("client")),
        text_cell(header.get("commit"), Tone.DIM),
        text_cell(when, Tone.DIM),
    )
    return Row(run.name, cells, run)


def _words(names: Iterable[Any]) -> str:
    return " ".join(map(str, names))


def verdict_cell(validity: str) -> Cell:
    """Return what was found; what is wrong sorts first."""
    if validity.startswith("valid"):
        return Cell(f"{OK_SIGN} {validity}", Tone.GOOD, 3)
    if validity.startswith("invalid"):
        return Cell(f"{BAD_SIGN} {validity}", Tone.BAD, 0)
    if validity.startswith("unknown"):
        return Cell(f"{WARN_SIGN} {validity}", Tone.WARN, 1)
    return Cell(f"○ {validity}", Tone.DIM, 2)


def run_lines(run: Run) -> list[str]:
    """Return all that its files tell of a run, but for its history."""
    lines = [f"run      {run.name}", f"verdict  {run.validity}", f"folder   {run.folder.path}"]
    lines += [f"again    {run.repeat}"] if run.repeat else []
    lines += ["", "asked for"]
    lines += [f"  {name}={_value(value)}" for name, value in run.header.items()]
    quotas = run.verdict.get("quotas", ())
    if quotas:
        lines += ["", "shown"]
        lines += [f"  {q['name']}: {q['got']:,} of {q['needed']:,} needed" for q in quotas]
    return lines


def _value(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return _words(value)  # pyright: ignore[reportUnknownArgumentType]
