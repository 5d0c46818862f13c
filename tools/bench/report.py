"""A run as tables for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.dataclass import dataclass
from quorate.tools.bench.figures import Metric, Outcome, digits, shown

KEPT = " (on one core)"

# Two runs of the same code differ by this much here and there.
NOISE = 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a metric of a scenario, a median per subject, a ratio per subject but the first."""

    title: str
    medians: tuple[str, ...]
    ratios: tuple[float | None, ...]
    is_disturbed: bool


def rows_of(outcome: Outcome) -> Iterator[Row]:
    """Return the lines about one scenario; a subject that failed has the reason in its place."""
    first, *others = outcome.subjects
    disturbed = any(outcome.is_disturbed(subject) for subject in outcome.subjects)
    kept = KEPT if outcome.client_cores else ""
    for metric in outcome.metrics:
        yield Row(
            f"{outcome.title}{', ' if metric.label else ''}{metric.label}{kept}",
            tuple(_median(outcome, metric, subject) for subject in outcome.subjects),
            tuple(outcome.ratio(metric, first, other) for other in others),
            disturbed,
        )


def _median(outcome: Outcome, metric: Metric, subject: str) -> str:
    value = outcome.median(subject, metric.key)
    if value is None and outcome.failures(subject):
        return "failed"
    return shown(value, metric.unit)


def ratio_text(ratio: float | None) -> Text:
    """Return a ratio, coloured unless it may be noise."""
    if ratio is None:
        return Text("-", style="dim")
    style = "green" if ratio > 1 + NOISE else "red" if ratio < 1 - NOISE else ""
    return Text(f"{digits(ratio)}x", style=style)


def tables_of(outcomes: Sequence[Outcome]) -> Iterator[Table]:
    """Return a table for each set of subjects that were compared."""
    for subjects, group in groupby(outcomes, key=lambda outcome: outcome.subjects):
        table = Table(title=" against ".join(subjects), title_justify="left", expand=False)
        table.add_column("scenario (medians)")
        for subject in subjects:
            table.add_column(subject, justify="right")
        for other in subjects[1:]:
            title = "times better" if len(subjects) == 2 else f"x {other}"
            table.add_column(title, justify="right")
        for outcome in group:
            for row in rows_of(outcome):
                title = f"{row.title} ~" if row.is_disturbed else row.title
                table.add_row(title, *row.medians, *map(ratio_text, row.ratios))
        yield table


def print_report(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Print all tables and what their marks mean."""
    for table in tables_of(outcomes):
        console.print(table)
    if any(o.is_disturbed(subject) for o in outcomes for subject in o.subjects):
        console.print("~ somebody else used the machine meanwhile: repeat before you believe it")
    if any(outcome.client_cores for outcome in outcomes):
        console.print(
            f"{KEPT.strip()}: the load generator was kept on one core, where it is quicker"
        )
    for outcome in outcomes:
        for subject in outcome.subjects:
            for failure in outcome.failures(subject):
                console.print(f"{outcome.name}, {subject}: {failure}", style="red", markup=False)
