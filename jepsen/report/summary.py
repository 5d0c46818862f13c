"""What a report says, before anybody decides how it looks: gathered in two passes of a history."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind
from quorate.jepsen.judging import Verdict, judge
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.report.evidence import Evidence, collect
from quorate.jepsen.report.frame import Mark
from quorate.jepsen.report.gathering import Acks, Gathered, Gatherer
from quorate.jepsen.report.svg import duration_text, latency_text

_WORDS: Final = {
    "valid": "VALID",
    "invalid-safety": "INVALID: safety",
    "invalid-liveness": "INVALID: liveness only",
    "unknown": "UNKNOWN",
}


@dataclass(frozen=True, slots=True)
class Report:
    """A run, judged, with what its pictures need.

    Attributes:
        name: of the run, or of the history's file.
        evidence: of the cases to be drawn.
        repeat: the command that repeats the run; "" if nobody noted it.
    """

    name: str
    gathered: Gathered
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    repeat: str

    @property
    def header(self) -> Mapping[str, Any]:
        """What the history says of itself."""
        return self.gathered.header

    @property
    def word(self) -> str:
        """The verdict as one reads it first."""
        return _WORDS[self.verdict.validity.value]

    @property
    def tone(self) -> str:
        """``valid``, ``invalid`` or ``unknown``."""
        return self.word.split(":")[0].lower()

    def evidence_of(self, name: str, number: int) -> Evidence | None:
        """Return what was collected for a case, if it is one of those that are drawn."""
        named = [evidence for evidence in self.evidence if evidence.name == name]
        return named[number] if number < len(named) else None


def make_report(history: HistoryFile, name: str, repeat: str) -> Report:
    """Judge a history and gather what pictures need while it is read; again if there is evidence.

    Raises:
        HistoryError: something in the middle of it is no event.
    """
    gatherer = Gatherer(history.header, history.start_ns)
    passing = gatherer.watch(history.operations())
    verdict = judge(history.header, passing, is_cut_off=lambda: history.cut_off)
    gathered = gatherer.result
    both = Anomalies()
    both.merge(verdict.anomalies)
    both.merge(verdict.allowed)
    evidence = collect(both, history.operations()) if both else []
    return Report(name, gathered, verdict, tuple(evidence), repeat)


def marks_of(verdict: Verdict) -> list[Mark]:
    """Return the moments of all cases that were kept: of each the last one, when it showed."""
    return [
        Mark(name, max(case.at_ns))
        for name, cases in sorted(verdict.anomalies.cases.items())
        for case in cases
        if case.at_ns
    ]


# --- sentences ------------------------------------------------------------------


def setting_parts(report: Report) -> list[str]:
    """Return what ran against what, in a few words each."""
    header = report.header
    words = [
        "+".join(header.get("workloads", ())) or "workloads unknown",
        "faults " + (", ".join(header.get("faults", ())) or "none"),
        f"seed {header.get('seed', '?')}",
        _cluster(header),
        f"acks={header.get('acks', '?')}",
        f"client {header.get('client', '?')}",
        duration_text(report.gathered.grid.duration_ns),
    ]
    if header.get("mutant"):
        words.insert(0, f"with the bug {header['mutant']}")
    return words


def _cluster(header: Mapping[str, Any]) -> str:
    if header.get("against"):
        return "somebody else's cluster"
    return f"{header.get('brokers', '?')} brokers, {header.get('controllers', '?')} controllers"


def verdict_line(report: Report) -> str:
    """Return in one sentence why the verdict is what it is."""
    verdict, gathered = report.verdict, report.gathered
    if verdict.anomalies:
        counts = sorted(verdict.anomalies.counts.items())
        return ", ".join(f"{name} {count:,}" for name, count in counts)
    missed = [quota.name for quota in verdict.quotas if not quota.met]
    if missed:
        return f"no anomaly was found, but too little happened to say more: {', '.join(missed)}"
    if report.tone == "unknown":
        return "no anomaly was found, but not all could be judged"
    bit = f"; {gathered.faults_bit} of {gathered.fault_total} faults were seen to bite"
    return f"no anomaly in {gathered.operations:,} operations" + (
        bit if gathered.fault_total else "; there were no faults"
    )


def tiles(report: Report) -> Iterator[tuple[str, str]]:
    """Yield figures that a reader looks for first, each with what it is."""
    gathered = report.gathered
    yield f"{gathered.operations:,}", "operations"
    yield f"{gathered.count(Kind.OK):,}", "done"
    yield f"{gathered.count(Kind.FAIL):,}", "certainly not done"
    yield f"{gathered.count(Kind.INFO):,}", "unknown whether done"
    if gathered.fault_total:
        yield f"{gathered.faults_bit} / {gathered.fault_total}", "faults seen to bite"
    if gathered.states.cells:
        yield f"{gathered.leader_changes:,}", "leader changes"
    worst = worst_gap(gathered)
    if worst is not None:
        yield duration_text(worst[1].gap_ns), f"longest without acks ({worst[0]})"


def worst_gap(gathered: Gathered) -> tuple[str, Acks] | None:
    """Return the partition that went longest without acknowledging anything, under load.

    None if there is none; those of topics that were deleted do not count.
    """
    staying = [
        (name, acks)
        for name, acks in gathered.gaps.items()
        if name.rpartition("-")[0] not in gathered.deleted
    ]
    return max(staying, key=lambda item: item[1].gap_ns, default=None)


def operation_rows(gathered: Gathered) -> Iterator[tuple[str, ...]]:
    """Yield for each operation how often it ended how, and its latencies when it was done."""
    for name in gathered.names():
        kinds = (f"{gathered.totals[name, kind]:,}" for kind in (Kind.OK, Kind.FAIL, Kind.INFO))
        latencies = gathered.latencies[name]
        shown = [latency_text(latencies.quantile_ns(share)) for share in (0.5, 0.99, 0.999)]
        longest = latency_text(latencies.longest_ns)
        known = bool(latencies.counts)
        yield name, *kinds, *([*shown, longest] if known else ["-"] * 4)


OPERATION_HEADINGS: Final = ("operation", "ok", "fail", "info", "p50", "p99", "p99.9", "longest")


def environment(header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the history says of itself, the most telling first, what is empty left out."""
    first = (
        *("started", "version", "commit", "mutant", "seed", "workloads", "faults", "client"),
        *("acks", "brokers", "controllers", "replication_factor", "min_insync", "durability"),
        *("session_timeout_ms", "duration_s", "python", "kernel"),
    )
    rest = sorted(header.keys() - set(first))
    for key in (*first, *rest):
        value = header.get(key)
        if value not in (None, "", [], {}):
            yield key.replace("_", " "), _value_text(value)


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value)))
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return ", ".join(f"{key} {inner}" for key, inner in pairs)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def faults_at(report: Report, at_ns: tuple[int, ...]) -> list[str]:
    """Return which faults were on, or had ended within two seconds, when something happened."""
    if not at_ns:
        return []
    low, high = min(at_ns) - 2_000_000_000, max(at_ns)
    start_ns = report.gathered.grid.start_ns or 0
    return [
        f"{bar.name} {', '.join(bar.targets)} ({(bar.begun_ns - start_ns) / 1e9:.1f} s"
        + (" on)" if bar.healed_ns is None else f" to {(bar.healed_ns - start_ns) / 1e9:.1f} s)")
        for bar in report.gathered.faults
        if not bar.failed
        and bar.begun_ns <= high
        and (bar.healed_ns is None or bar.healed_ns >= low)
    ]
