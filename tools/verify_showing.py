"""``quorate verify show``: the operations of a run, those that prove an anomaly, or a process's."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import HistoryError, Operation
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.report.evidence import collect
from quorate.jepsen.report.svg import latency_text
from quorate.jepsen.report.wording import readable
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError
from quorate.tools.session import note, print_table
from quorate.tools.verify_judging import Source, find_source, judged, not_a_history

VALUE_CHARACTERS_MAX: Final = 60
FOR_PEOPLE: Final = ("table", "wide")

COLUMNS: Final = (
    Column("called_s", title="CALLED"), Column("took_ms", title="TOOK"), Column("process"),
    Column("operation"), Column("outcome"), Column("asked"), Column("told"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which operations; None and "" are any."""

    anomaly: str
    process: int | None
    operation: str
    limit: int

    def takes(self, operation: Operation) -> bool:
        """Whether an operation is one of them."""
        by_process = self.process is None or operation.process == self.process
        return by_process and self.operation in ("", operation.name)


def show(options: GlobalOptions, root: Path | None, word: str, wanted: Wanted) -> None:
    """Print operations as they ended, or those that prove an anomaly.

    Raises:
        CommandError: there is no such run or anomaly, or the history cannot be read.
    """
    source = find_source(root, word)
    if wanted.anomaly:
        _show_anomaly(options, source, wanted)
        return
    try:
        history = HistoryFile(source.path)
        names = set[str]()
        found = (o for o in _noting(names, history.operations()) if wanted.takes(o))
        rows = tuple(_rows(options, history, islice(found, wanted.limit)))
        more = next(found, None) is not None
    except HistoryError as error:
        raise not_a_history(source, error) from None
    _check_name(wanted.operation, names, source)
    print_table(options, Table("operations", COLUMNS, rows))
    if more:
        note(options, f"there are more than {wanted.limit}: --limit N shows N")
    elif history.cut_off:
        note(options, "the history ends in the middle of an event")


def _noting(names: set[str], operations: Iterable[Operation]) -> Iterator[Operation]:
    """Pass operations on, and keep their names."""
    for operation in operations:
        names.add(operation.name)
        yield operation


def _check_name(name: str, names: AbstractSet[str], source: Source) -> None:
    """See that there are operations of a name.

    Raises:
        CommandError: there are none; those that there are are told.
    """
    if name and name not in names:
        raise CommandError(
            f"the run has no operation {name!r}",
            why=f"it has {', '.join(sorted(names))}" if names else "it has none at all",
            hint=f"quorate verify report {source.name} counts them",
        )


def _rows(
    options: GlobalOptions, history: HistoryFile, operations: Iterable[Operation]
) -> Iterator[tuple[Any, ...]]:
    people = options.format in FOR_PEOPLE
    long = options.format == "wide"
    for operation in operations:
        called_s = (operation.called_ns - history.start_ns) / 1e9
        took: Any = None
        if operation.returned_ns is not None:
            took_ns = operation.returned_ns - operation.called_ns
            took = latency_text(took_ns) if people else took_ns / 1e6
        values = [plain(operation.asked), plain(operation.told)]
        if people:
            values = [_text(value, long=long) for value in values]
        yield (
            f"{called_s:.6f}" if people else called_s, took, operation.process,
            operation.name, operation.kind.name.lower(), *values,
        )  # fmt: skip


def plain(value: Any) -> Any:
    """Return a value of CBOR as JSON has it: bytes are hex digits, keys are texts."""
    match value:
        case bytes():
            return value.hex()
        case list() | tuple():
            return [plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {str(key): plain(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return value


def _text(value: Any, *, long: bool) -> str:
    if value is None:
        return "-"
    shown = str(value)
    return shown if long or len(shown) <= VALUE_CHARACTERS_MAX else shown[:57] + "..."


def _show_anomaly(options: GlobalOptions, source: Source, wanted: Wanted) -> None:
    """Print the operations that prove cases of an anomaly; for people, with its sentences."""
    verdict = judged(options, source)
    found = Anomalies()
    found.merge(verdict.anomalies)
    found.merge(verdict.allowed)
    if wanted.anomaly not in found.counts:
        names = ", ".join(sorted(found.counts))
        raise CommandError(
            f"the run has no anomaly {wanted.anomaly!r}",
            why=f"it has {names}" if names else "no anomalies were found in it",
            hint=f"quorate verify check {source.name}",
        )
    history = HistoryFile(source.path)
    evidence = collect(found.only([wanted.anomaly]), history.operations())
    if options.format in FOR_PEOPLE:
        for each in evidence:
            note(options, readable(each.case.what, history.start_ns))
            for sentence in each.case.evidence:
                note(options, f"  {readable(sentence, history.start_ns)}")
        if more := found.counts[wanted.anomaly] - len(evidence):
            note(options, f"and {more:,} more")
    proofs = (o for each in evidence for o in each.proofs if wanted.takes(o))
    rows = tuple(_rows(options, history, islice(proofs, wanted.limit)))
    print_table(options, Table("operations", COLUMNS, rows))
