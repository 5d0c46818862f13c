"""``quorate verify check`` and ``report``: judges what a run left, prints it, writes the page."""

import shlex
import sys
import webbrowser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from quorate.dataclass import dataclass
from quorate.jepsen import store
from quorate.jepsen.history import HistoryError, Kind
from quorate.jepsen.judging import Verdict, judge
from quorate.jepsen.reading import HistoryFile, Progress
from quorate.jepsen.report import page, terminal
from quorate.jepsen.report.summary import Report, make_report, verdict_line
from quorate.jepsen.store import RunFolder
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import SCHEMA_VERSION, Column, Table, document_text
from quorate.tools.problems import CommandError, ProblemFoundError, UnreachableError, UsageError
from quorate.tools.progress import Bar
from quorate.tools.session import note, print_table
from quorate.tools.standard_streams import forget_output
from quorate.tools.verify_runs import Run, runs_in

WIDTH_MAX: Final = 100
LIST: Final = "quorate verify list"


class NotKnownError(UnreachableError):
    """Nothing is wrong as far as anybody knows, which is not far enough; exit code 4."""


@dataclass(frozen=True, slots=True)
class Source:
    """A history, and the run that it belongs to, if it belongs to one."""

    name: str
    path: Path
    folder: RunFolder | None

    @property
    def repeat(self) -> str:
        """The command that repeats the run; empty if that is not known."""
        return "" if self.folder is None else str(self.folder.read_about().get("repeat", ""))


def find_run(root: Path | None, word: str) -> RunFolder:
    """Return the run that a word means.

    Raises:
        CommandError: there is none; the nearest is told.
    """
    where = store.DEFAULT_ROOT if root is None else root
    try:
        return store.find(where, word)
    except store.RunNotFoundError as error:
        hint = f"{LIST} shows them" if error.near else "quorate verify run; or --dir, if elsewhere"
        raise CommandError(error.what, why=error.why, hint=hint) from None


def find_source(root: Path | None, word: str) -> Source:
    """Return the history that a word means: a file, or that of a run.

    Raises:
        CommandError: there is none.
    """
    path = Path(word)
    if path.is_file():
        folder = RunFolder(path.parent.resolve())
        of_run = folder.exists and folder.history.name == path.name
        return Source(folder.name if of_run else path.name, path, folder if of_run else None)
    folder = find_run(root, word)
    if not folder.history.is_file():
        raise CommandError(
            f"the run {folder.name} has no history",
            why="it ended before anything happened",
            hint=f"look at the nodes' logs in {folder.nodes}",
        )
    return Source(folder.name, folder.history, folder)


def judged(options: GlobalOptions, source: Source) -> Verdict:
    """Judge a history.

    Raises:
        CommandError: it is no history, or one that this version cannot read.
    """
    try:
        with Bar(options, "judging") as bar:
            history = HistoryFile(source.path, _progress(bar, source, "judging"))
            operations = history.operations()
            return judge(history.header, operations, is_cut_off=lambda: history.cut_off)
    except HistoryError as error:
        raise not_a_history(source, error) from None


def _progress(bar: Bar, source: Source, what: str) -> Progress:
    size = source.path.stat().st_size
    return lambda done: bar.show(done, size, what)


def not_a_history(source: Source, error: HistoryError) -> CommandError:
    """Return what a person is told of a file that cannot be read."""
    return CommandError(
        f"{source.path} cannot be judged",
        why=str(error),
        hint="a run's history is RUN/history.cbor; the version that wrote it reads it",
    )


def reported(options: GlobalOptions, source: Source) -> Report:
    """Judge a history and gather what a report needs.

    Raises:
        CommandError: it is no history, or one that this version cannot read.
    """
    try:
        with Bar(options, "judging") as bar:
            history = HistoryFile(source.path, _progress(bar, source, "judging"))
            return make_report(history, source.name, source.repeat)
    except HistoryError as error:
        raise not_a_history(source, error) from None


# --- the commands ---------------------------------------------------------------


def check(options: GlobalOptions, root: Path | None, word: str) -> None:
    """Judge a history and print the verdict, with what proves it.

    Raises:
        CommandError: there is no such history, or something is wrong with what it tells.
    """
    report = reported(options, find_source(root, word))
    print_report(options, report, whole=False)
    raise_for(report, word)


def report(options: GlobalOptions, root: Path | None, word: str, html: Path | None) -> Path:
    """Judge a run, print all about it and write the page; return where the page is.

    Raises:
        CommandError: there is no such run, or its history cannot be read.
    """
    source = find_source(root, word)
    if html is not None and not html.parent.is_dir():
        raise UsageError(
            f"the page cannot be written to {html}",
            why=f"there is no folder {html.parent}",
            hint=f"mkdir -p {shlex.quote(str(html.parent))}",
        )
    result = reported(options, source)
    beside = source.path.with_suffix(".html") if source.folder is None else source.folder.page
    path = html or beside
    page.write_page(result, path)
    print_report(options, result, whole=True)
    note(options, f"the page is {path}")
    return path


def show_in_browser(path: Path) -> None:
    """Open a page where the user looks at pages; if that is nowhere, nothing happens."""
    webbrowser.open(path.resolve().as_uri())


def conclude(options: GlobalOptions, folder: RunFolder) -> None:
    """Judge a run that has just ended, keep verdict and page with it, and print the verdict.

    Raises:
        CommandError: something is wrong, or nobody knows.
    """
    result = reported(options, Source(folder.name, folder.history, folder))
    folder.write_verdict(document(result))
    page.write_page(result, folder.page)
    print_report(options, result, whole=True)
    note(options, f"the page is {folder.page}")
    raise_for(result, folder.name)


def print_report(options: GlobalOptions, report: Report, *, whole: bool) -> None:
    """Print a report for people, or a document for programs.

    A reader that has gone does not change the verdict, which the exit code tells, too.
    """
    if options.format in {"json", "jsonl", "yaml"}:
        sys.stdout.write(document_text(document(report), options.format))
        return
    if options.quiet:
        print(report.word)
        return
    console = Console(highlight=False, no_color=not options.color)
    width = min(console.width, WIDTH_MAX)
    lines = terminal.lines if whole else terminal.verdict_lines
    # Rich itself would end the process, with exit code 1, if the reader had gone.
    with console.capture() as printed:
        for line in lines(report, width):
            console.print(line, soft_wrap=True)
    try:
        sys.stdout.write(printed.get())
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()


def document(report: Report) -> dict[str, Any]:
    """Return a report for programs."""
    gathered = report.gathered
    return {
        "kind": "verdict",
        "version": SCHEMA_VERSION,
        "name": report.name,
        **report.verdict.as_plain(),
        "operations": gathered.operations,
        "by_operation": {
            name: {kind.name.lower(): gathered.totals.get((name, kind), 0) for kind in ENDED}
            for name in gathered.names()
        },
        "seconds": round(gathered.grid.duration_ns / 1e9, 1),
        "faults": gathered.fault_total,
        "faults_bit": gathered.faults_bit,
        "leader_changes": gathered.leader_changes,
        "repeat": report.repeat,
    }


ENDED: Final = (Kind.OK, Kind.FAIL, Kind.INFO)


def raise_for(report: Report, word: str) -> None:
    """End with the verdict's exit code.

    Raises:
        ProblemFoundError: something is wrong.
        NotKnownError: nobody knows whether something is.
    """
    if report.tone == "invalid":
        raise ProblemFoundError(
            f"the history is {report.word.replace('INVALID', 'invalid')}",
            why=verdict_line(report),
            hint=f"quorate verify report {word}; docs/anomalies.md says what the names mean",
        )
    if report.tone == "unknown":
        raise NotKnownError(
            "nobody knows whether all was right",
            why="; ".join((verdict_line(report), *report.verdict.notes)),
            hint=_how_to_know(report, word),
        )


def _how_to_know(report: Report, word: str) -> str:
    missed = {quota.name for quota in report.verdict.quotas if not quota.met}
    if "faults-verified" in missed:
        return f"quorate verify show {word} --operation fault says which was not seen to bite"
    return "a longer run shows more: --time"


# --- runs -----------------------------------------------------------------------


def list_runs(options: GlobalOptions, root: Path | None) -> None:
    """Print the runs that there are, the newest first."""
    where = store.DEFAULT_ROOT if root is None else root
    runs = runs_in(where)
    rows = tuple(map(_row, runs))
    columns = (
        Column("name"), Column("verdict"), Column("anomalies"), Column("operations"),
        Column("faults"), Column("seconds"), Column("workloads", wide_only=True),
        Column("seed", wide_only=True), Column("commit", wide_only=True),
        Column("path", wide_only=True),
    )  # fmt: skip
    print_table(options, Table("runs", columns, rows))
    if not rows:
        note(options, f"no runs are in {where}: quorate verify run makes one")
    elif options.format in {"table", "wide"}:
        note(options, _totals([run.verdict for run in runs]))


def _totals(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return what all runs that were judged add up to."""
    judged = [verdict for verdict in verdicts if verdict]
    kinds = Counter(str(verdict.get("validity", "")).split("-")[0] for verdict in judged)
    sums = Counter[str]()
    for verdict in judged:
        sums.update({key: verdict.get(key, 0) for key in ("operations", "faults_bit", "seconds")})
        acks = verdict.get("figures", {}).get("acknowledged", 0)
        sums["acks"] += acks if isinstance(acks, int) else 0
    return (
        f"{len(judged)} of {len(verdicts)} runs are judged: "
        + ", ".join(f"{kinds[kind]} {kind}" for kind in ("valid", "invalid", "unknown"))
        + f"; {sums['seconds'] / 3_600:.1f} hours, {sums['operations']:,} operations,"
        f" {sums['acks']:,} sends acknowledged, {sums['faults_bit']:,} faults seen to bite"
    )


def _row(run: Run) -> tuple[Any, ...]:
    header, verdict = run.header, run.verdict
    return (
        run.name,
        run.validity,
        list(run.anomalies) or None,
        verdict.get("operations"),
        verdict.get("faults"),
        verdict.get("seconds"),
        header.get("workloads"),
        header.get("seed"),
        header.get("commit"),
        str(run.folder.path),
    )
