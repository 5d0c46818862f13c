import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from quorate.tools.bench import plot, report, results, suite
from quorate.tools.bench.figures import P50, RECORDS_PER_S, Outcome, Sample


def sample(**figures: float) -> Sample:
    return Sample(figures, failure="")


@pytest.fixture
def outcomes() -> list[Outcome]:
    return [
        Outcome(
            "produce",
            "produce 100 B",
            (RECORDS_PER_S,),
            {
                "quorate": (sample(records_per_s=2e6), sample(records_per_s=4e6)),
                "kafka": (sample(records_per_s=1e6), Sample({}, failure="closed by the broker")),
            },
        ),
        Outcome(
            "e2e",
            "end to end",
            (P50,),
            {
                "quorate": (sample(p50_ms=0.2, others_cores=0.9),),
                "kafka": (Sample({}, failure="closed by the broker"),),
            },
        ),
    ]


def printed(outcomes: list[Outcome]) -> str:
    console = Console(width=160, record=True, file=StringIO())
    report.print_report(console, outcomes)
    return console.export_text()


def test_a_report_shows_medians_and_how_many_times_better(outcomes: list[Outcome]) -> None:
    text = printed(outcomes)
    line = next(line for line in text.splitlines() if "produce 100 B" in line)
    assert "3.00 M records/s" in line
    assert "1.00 M records/s" in line
    assert "3.00x" in line


def test_a_report_marks_what_was_disturbed_and_tells_what_failed(outcomes: list[Outcome]) -> None:
    text = printed(outcomes)
    assert "end to end, p50 ~" in text
    assert "somebody else used the machine" in text
    assert "e2e, kafka: closed by the broker" in text


def test_subjects_of_another_kind_get_a_table_of_their_own(outcomes: list[Outcome]) -> None:
    clients = Outcome(
        "client",
        "client sends",
        (RECORDS_PER_S,),
        {name: (sample(records_per_s=1.0),) for name in ("quorate", "other", "third")},
    )
    assert len(list(report.tables_of([*outcomes, clients]))) == 2


def test_json_keeps_every_sample_and_the_reasons_of_failures(
    outcomes: list[Outcome], tmp_path: Path
) -> None:
    run = results.Run({"cores": "2"}, {"rounds": 2}, {"quorate": "1", "kafka": "4"}, outcomes)
    results.write_json(run, tmp_path / "made" / "run.json")
    read = json.loads((tmp_path / "made" / "run.json").read_text())
    produce = read["scenarios"][0]
    assert produce["metrics"][0]["medians"] == {"quorate": 3e6, "kafka": 1e6}
    assert produce["metrics"][0]["times_better"] == {"kafka": 3.0}
    assert produce["samples"]["kafka"] == [
        {"records_per_s": 1e6},
        {"failure": "closed by the broker"},
    ]
    assert read["machine"] == {"cores": "2"}


def test_there_is_a_bar_for_each_comparison_and_none_for_what_failed(
    outcomes: list[Outcome],
) -> None:
    assert [ratio for _, ratio in plot.bars_of(outcomes)] == [3.0]


@pytest.mark.slow
def test_the_plot_is_a_picture(outcomes: list[Outcome], tmp_path: Path) -> None:
    assert plot.write_plot(outcomes, tmp_path / "run.png", title="a title")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert not plot.write_plot(outcomes[1:], tmp_path / "none.png", title="nothing to compare")


def test_scenarios_have_names_of_their_own_and_are_chosen_by_pattern() -> None:
    everything = suite.scenarios()
    names = [scenario.name for scenario in everything]
    assert len(set(names)) == len(names)
    assert len({scenario.title for scenario in everything}) == len(names)
    assert suite.wanted(everything, ()) == everything
    chosen = [scenario.name for scenario in suite.wanted(everything, ["consume-*", "e2e"])]
    assert "e2e" in chosen
    assert all(name == "e2e" or name.startswith("consume-") for name in chosen)
    assert {scenario.name for scenario in suite.wanted(everything, suite.QUICK)} == set(suite.QUICK)
