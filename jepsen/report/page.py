"""A report as one HTML page: no scripts, nothing to be loaded, of a size that has a bound."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.report.evidence import Evidence
from quorate.jepsen.report.evidence_pictures import (
    offset_map,
    positions_chart,
    proofs_table,
    register_chart,
)
from quorate.jepsen.report.frame import Frame, fault_lanes, figure, frame_of
from quorate.jepsen.report.panels import (
    controllers_panel,
    latency_names,
    latency_panel,
    leaders_panel,
    outcomes_panel,
    partitions_drawn,
    unseen_panel,
)
from quorate.jepsen.report.style import STYLE
from quorate.jepsen.report.summary import (
    OPERATION_HEADINGS,
    Report,
    environment,
    faults_at,
    marks_of,
    operation_rows,
    setting_parts,
    tiles,
    verdict_line,
)
from quorate.jepsen.report.svg import element, plain
from quorate.jepsen.report.wording import readable

_LEGEND_SHAPES: Final = (
    ("points ok d1", "M3 7h0", "done (one)"),
    ("points ok d2", "M3 7h0", "done (a few)"),
    ("points ok", "M3 7h0", "done (ten or more)"),
    ("points fail", "M1 5l5 5m0-5l-5 5", "certainly not done"),
    ("points info", "M4 3l3.5 6h-7z", "unknown whether done"),
    ("mark", "M4 0v14", "anomaly"),
)


def write_page(report: Report, path: Path) -> None:
    """Write the page as a whole: whoever opens it meanwhile sees the old one, or the new."""
    new = path.with_name(path.name + ".new")
    new.write_text(page(report), encoding="utf-8")
    new.replace(path)


def page(report: Report) -> str:
    """Return the page."""
    frame = frame_of(report.gathered, marks_of(report.verdict))
    sections = (
        _head(report),
        _anomalies(report),
        _timeline(report, frame),
        _tables(report),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{plain(report.word)} · {plain(report.name)}</title>"
        f"<style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(sections)
        + "\n</main></body></html>\n"
    )


def _head(report: Report) -> str:
    notes = "".join(_p(note) for note in report.verdict.notes)
    shown = "".join(
        element("div", {"class": "tile"}, element("b", {}, plain(value)), _span(what))
        for value, what in tiles(report)
    )
    return (
        element("h1", {}, plain(report.name))
        + _p(" · ".join(setting_parts(report)), "soft")
        + element(
            "div", {"class": f"verdict {report.tone}"},
            element("b", {}, plain(report.word)), _p(verdict_line(report)), notes,
        )
        + element("div", {"class": "tiles"}, shown)
    )  # fmt: skip


# --- anomalies ------------------------------------------------------------------


def _anomalies(report: Report) -> str:
    found = _kinds(report, report.verdict.anomalies, "anomaly")
    allowed = _kinds(report, report.verdict.allowed, "anomaly allowed")
    pieces: list[str] = []
    if found:
        pieces += ["<h2>Anomalies</h2>", *found]
    if allowed:
        pieces.append("<h2>Found, but documented as possible</h2>")
        pieces.append(_p("This configuration promises nothing better.", "caption"))
        pieces += allowed
    return "".join(pieces)


def _kinds(report: Report, anomalies: Anomalies, class_: str) -> list[str]:
    pieces: list[str] = []
    for name, count in sorted(anomalies.counts.items()):
        meaning = MEANINGS[name].sentence if name in MEANINGS else ""
        cases = anomalies.cases[name]
        heading = f"{name}: {count:,}" + (" case" if count == 1 else " cases")
        shown = "" if count == len(cases) else f" Shown are the first {len(cases)}."
        drawn = "".join(_case(report, name, number) for number in range(len(cases)))
        pieces.append(
            element(
                "section", {"class": class_, "id": name},
                element("h3", {}, plain(heading)),
                _p(f"{meaning[:1].upper()}{meaning[1:]}.{shown}", "caption"), drawn,
            )
        )  # fmt: skip
    return pieces


def _case(report: Report, name: str, number: int) -> str:
    anomalies = report.verdict.anomalies
    found = anomalies if name in anomalies.counts else report.verdict.allowed
    case = found.cases[name][number]
    start_ns = report.gathered.grid.start_ns or 0
    sentences = [readable(sentence, start_ns) for sentence in case.evidence]
    items = "".join(element("li", {}, plain(sentence)) for sentence in sentences)
    pieces = [_p(readable(case.what, start_ns))]
    if items:
        pieces.append(element("ul", {}, items))
    faults = faults_at(report, case.at_ns)
    if faults:
        pieces.append(_p(f"Faults at that time, or just before: {'; '.join(faults)}.", "soft"))
    evidence = report.evidence_of(name, number)
    if evidence is not None:
        pieces += _pictures(evidence, start_ns)
    return element("div", {"class": "case"}, *pieces)


def _pictures(evidence: Evidence, start_ns: int) -> Iterable[str]:
    yield proofs_table(evidence.proofs, start_ns, evidence.case.where)
    offsets = offset_map(evidence)
    if offsets:
        caption = "Which value was where, as producers and consumers were told."
        yield figure(f"{evidence.case.where} around the offset", caption, offsets)
    positions = positions_chart(evidence, start_ns)
    if positions:
        caption = "Filled: committed. Hollow: told when asked for. Ringed: what proves it."
        yield figure(f"Positions in {evidence.case.where}", caption, positions)
    register = register_chart(evidence)
    if register:
        caption = "Each bar from call to answer; no order of single moments explains them all."
        yield figure(f"Operations on {evidence.case.where}", caption, register)


# --- pictures over time ---------------------------------------------------------


def _timeline(report: Report, frame: Frame) -> str:
    gathered = report.gathered
    figures: list[str] = []
    if frame.faults or gathered.phases:
        caption = "Solid: seen to bite. Dashed: made to happen, but nothing showed that it bit."
        lanes = fault_lanes(frame, gathered.phases)
        figures.append(figure("Phases and faults", caption if frame.faults else "", lanes))
    figures.append(figure("Writes by how they ended", "Stacked.", outcomes_panel(gathered, frame)))
    figures += [
        figure(f"Latency: {name}", "", latency_panel(gathered, frame, name))
        for name in latency_names(gathered)
    ]
    figures.append(_legend())
    if gathered.unseen.cells:
        caption = "Records that were acknowledged, beyond the last one that any consumer was given."
        figures.append(figure("Not yet read", caption, unseen_panel(gathered, frame)))
    figures += _cluster(report, frame)
    return "<h2>Over time</h2>" + "".join(figures)


def _cluster(report: Report, frame: Frame) -> Iterable[str]:
    gathered = report.gathered
    if not gathered.states.cells:
        return
    wheres = (c.where for cases in report.verdict.anomalies.cases.values() for c in cases)
    drawn = partitions_drawn(gathered, wheres)
    left_out = len(gathered.states.keys()) + gathered.partitions_left_out - len(drawn)
    more = f" {left_out:,} more partitions are not drawn." if left_out > 0 else ""
    yield figure(
        "Leaders and in-sync replicas",
        "Coloured by leader, with its epoch; as high as the ISR is large. Red: no leader."
        f" The line below is there while the partition acknowledges records.{more}",
        controllers_panel(gathered, frame) if gathered.controllers.cells else "",
        leaders_panel(gathered, frame, drawn),
    )


def _legend() -> str:
    return element(
        "div",
        {"class": "legend"},
        *(
            element("span", {}, f'<svg viewBox="0 0 8 14"><path class="{c}" d="{d}"/></svg>', words)
            for c, d, words in _LEGEND_SHAPES
        ),
    )


# --- tables ---------------------------------------------------------------------


def _tables(report: Report) -> str:
    verdict = report.verdict
    beside: list[str] = []
    if verdict.quotas:
        rows = [
            (quota.name, f"{quota.needed:,}", f"{quota.got:,}", "yes" if quota.met else "no")
            for quota in verdict.quotas
        ]
        caption = "A run in which too little happened is unknown, however right it was."
        table = _table(("quota", "needed", "got", "met"), rows, 1)
        beside.append(_section("Quotas", _p(caption, "caption"), table))
    if verdict.figures:
        figures = [(name, _figure(value)) for name, value in verdict.figures.items()]
        beside.append(_section("Figures", _table(("figure", "value"), figures, 1)))
    beside.append(_section("Environment", _table(("", ""), environment(report.header), 2)))
    operations = _table(OPERATION_HEADINGS, operation_rows(report.gathered), 1)
    return (
        _section("Operations", operations)
        + element("div", {"class": "beside"}, *beside)
        + (_section("Again", element("pre", {}, plain(report.repeat))) if report.repeat else "")
    )


def _section(heading: str, *inner: str) -> str:
    return element("section", {}, element("h2", {}, plain(heading)), *inner)


def _figure(value: float | str) -> str:
    match value:
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
        case _:
            return value


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            element(tag, {"class": _class(tag, cell, number >= numbers_from)}, plain(cell))
            for number, cell in enumerate(row)
        )

    head = element("tr", {}, cells("th", headings)) if any(headings) else ""
    body = (element("tr", {}, cells("td", row)) for row in rows)
    return element("div", {"class": "wide"}, element("table", {}, head, *body))


def _class(tag: str, cell: str, is_number: bool) -> str:  # noqa: FBT001 - of one caller
    if tag == "td" and is_number and cell in {"yes", "no"}:  # whether a quota was met
        return f"n {cell}"
    return "n" if is_number else ""


def _p(words: str, class_: str = "") -> str:
    return element("p", {"class": class_}, plain(words)) if words else ""


def _span(words: str) -> str:
    return element("span", {}, plain(words))
