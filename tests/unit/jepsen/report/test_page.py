"""The page and the terminal's report of made-up runs: their structure, not their bytes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.jepsen.history import Event, Kind, Operation
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.report import page, terminal
from quorate.jepsen.report.frame import LABEL_MAX, label
from quorate.jepsen.report.gathering import Gatherer
from quorate.jepsen.report.summary import Report, make_report
from quorate.jepsen.report.wording import readable
from tests.unit.jepsen.report.histories import HEADER, Maker, write_history
from tests.unit.jepsen.report.pages import Page

Made = Callable[[Maker], Report]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(maker: Maker) -> Report:
        path = tmp_path / "history.cbor"
        write_history(path, HEADER, maker.events())
        history = HistoryFile(path)
        return make_report(history, "a <run>", "quorate verify run append --seed 7")

    return make


def plain(report: Report, width: int = 80) -> list[str]:
    return [line.plain for line in terminal.lines(report, width)]


def test_a_valid_run_has_its_pictures_and_no_anomalies(made: Made) -> None:
    report = made(Maker(7, 20, 150))
    shown = Page(page.page(report))
    assert report.tone == "valid"
    assert shown.said("b")[0] == "VALID"
    headings = shown.said("h2")
    expected = ["Over time", "Operations", "Quotas", "Figures", "Environment", "Again"]
    assert [heading for heading in headings if heading in expected] == expected
    assert "Anomalies" not in headings
    figures = shown.said("h3")
    assert figures[:4] == [
        "Phases and faults", "Writes by how they ended", "Latency: send", "Latency: poll",
    ]  # fmt: skip
    assert shown.classes["fault"] == report.gathered.fault_total
    assert shown.classes["on-b"] > 0
    assert "quorate verify run append --seed 7" in shown.said("pre")


def test_a_name_left_of_a_picture_is_as_long_as_there_is_room_for() -> None:
    fits, long = "partition:controller", "partition:leader-from-controllers"
    assert len(fits) == LABEL_MAX
    assert Page(label(0, fits)).said("text") == [fits]
    assert Page(label(0, long)).said("text") == ["...-from-controllers"]


def test_a_page_loads_nothing_and_runs_nothing(made: Made) -> None:
    text = page.page(made(Maker(8, 12, 150, lost=2, stale=True)))
    shown = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & shown.tags.keys()
    loading = {"src", "href", "xlink:href", "srcset", "action"}
    assert not [a for a in shown.attributes if a[1] in loading or a[1].startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    assert "a &lt;run&gt;" in text


def test_every_anomaly_is_told_and_drawn(made: Made) -> None:
    report = made(Maker(8, 12, 150, lost=2, stale=True))
    shown = Page(page.page(report))
    assert shown.said("b")[0] == "INVALID: safety"
    names = report.verdict.anomalies.counts
    assert {"lost-write", "nonlinearizable-register"} <= names.keys()
    assert shown.classes["anomaly"] == len(names)
    cases = [case for kept in report.verdict.anomalies.cases.values() for case in kept]
    assert shown.classes["case"] == len(cases)
    told = [text for _, text in shown.texts]
    assert all(readable(case.what, report.gathered.grid.start_ns or 0) in told for case in cases)
    assert shown.classes["missing"] >= 2, "the final read left out what is lost"
    assert shown.classes["proof"] >= 1, "the operations that no order explains"
    assert shown.classes["mark"] >= 1


def test_a_page_is_as_wide_as_a_small_screen_and_tables_are_moved_within_it(made: Made) -> None:
    text = page.page(made(Maker(8, 12, 150, lost=2)))
    assert text.count("<table>") == text.count('<div class="wide"><table>') > 4


def test_only_quotas_are_good_or_bad_news(made: Made) -> None:
    report = made(Maker(7, 20, 150))
    shown = Page(page.page(report))
    quotas = report.verdict.quotas
    assert shown.said("td").count("no") > sum(not quota.met for quota in quotas)
    assert shown.classes.get("no", 0) == sum(not quota.met for quota in quotas)
    assert shown.classes.get("yes", 0) == sum(quota.met for quota in quotas)


def test_the_size_of_a_page_does_not_follow_the_history(made: Made) -> None:
    small, large = (len(page.page(made(Maker(7, 12, rate)))) for rate in (100, 700))
    assert large < 2 * small < 400_000


def test_the_terminal_shows_the_same_in_80_columns(made: Made) -> None:
    report = made(Maker(8, 12, 150, lost=2, stale=True))
    lines = plain(report)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for name, count in report.verdict.anomalies.counts.items():
        assert f"{name} ({count}): " in text
    for words in ("kill", "writes/s", "append-0", "ISR", "again: quorate verify run"):
        assert words in text
    assert "INVALID: safety" in lines


def test_the_command_that_repeats_a_run_is_one_line_however_long(made: Made) -> None:
    command = "quorate verify run append " + "--property name=value " * 10 + "--seed 7"
    report = replace(made(Maker(7, 12, 100)), repeat=command)
    assert plain(report)[-1] == f"again: {command}"


def test_times_are_told_from_the_first_event_on(tmp_path: Path) -> None:
    path = tmp_path / "history.cbor"
    events = [
        Event(1_000, 0, Kind.INVOKE, "phase", None),
        Event(1_000, 0, Kind.OK, "phase", "warm-up"),
        Event(3_000, 7, Kind.INVOKE, "send", ["t-0", 1]),
        Event(5_000, 7, Kind.OK, "send", [0, 1, 0]),
    ]
    write_history(path, {}, events)
    history = HistoryFile(path)
    report = make_report(history, "a run", "")
    assert history.start_ns == report.gathered.grid.start_ns == 1_000


def test_the_verdict_alone_has_no_pictures(made: Made) -> None:
    report = made(Maker(7, 12, 100))
    lines = [line.plain for line in terminal.verdict_lines(report)]
    assert lines[0] == "VALID"
    assert len(lines) < 5


def test_of_an_empty_history_there_is_a_report_too(tmp_path: Path) -> None:
    path = tmp_path / "history.cbor"
    for events in ([], [Event(5, 7, Kind.INVOKE, "send", ["t-0", 1])]):
        write_history(path, {}, events)
        history = HistoryFile(path)
        report = make_report(history, "empty", "")
        Page(page.page(report))
        assert plain(report)


def test_what_the_configuration_allows_is_told_apart(made: Made) -> None:
    report = made(Maker(8, 12, 150, lost=2))
    verdict = replace(
        report.verdict,
        anomalies=report.verdict.anomalies.only([]),
        allowed=report.verdict.anomalies,
    )
    shown = Page(page.page(replace(report, verdict=verdict)))
    assert "Found, but documented as possible" in shown.said("h2")
    assert "Anomalies" not in shown.said("h2")
    assert "mark" not in shown.classes or shown.classes["mark"] == 1, "of the legend"


def test_times_and_values_in_sentences_are_made_readable() -> None:
    sentence = "17179869296 at 5 was acknowledged at 3000000500 ns, in epoch 12.5 on t-17179869296"
    assert readable(sentence, 3_000_000_000) == (
        "4.112 at 5 was acknowledged at 0.000000 s, in epoch 12.5 on t-4.112"
    )


def test_gathering_nothing_is_possible() -> None:
    assert Gatherer({}).add_all(()).operations == 0


def test_a_history_is_read_once_if_there_is_nothing_to_prove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, times = tmp_path / "history.cbor", 0
    write_history(path, HEADER, Maker(7, 5, 50).events())
    whole = HistoryFile.operations

    def counted(history: HistoryFile) -> Iterator[Operation]:
        nonlocal times
        times += 1
        return whole(history)

    monkeypatch.setattr(HistoryFile, "operations", counted)
    make_report(HistoryFile(path), "a run", "")
    assert times == 1
