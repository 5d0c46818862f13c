import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.tools.bench.figures import (
    P50,
    RECORDS_PER_S,
    Outcome,
    Sample,
    digits,
    median_of,
    shown,
    spread_of,
    times_better,
    with_cpu,
)

positive = st.floats(min_value=1e-6, max_value=1e12)


def samples(*values: float, key: str = "records_per_s") -> tuple[Sample, ...]:
    return tuple(Sample({key: value}, failure="") for value in values)


def failed(reason: str) -> Sample:
    return Sample({}, failure=reason)


def test_the_median_is_over_the_samples_that_have_the_figure() -> None:
    assert median_of([*samples(3, 1, 2), failed("out of luck")], "records_per_s") == 2
    assert median_of([failed("out of luck")], "records_per_s") is None


def test_the_spread_is_relative_to_the_median() -> None:
    assert spread_of(samples(90, 100, 110), "records_per_s") == pytest.approx(0.2)
    assert spread_of(samples(0, 0), "records_per_s") is None
    assert spread_of([], "records_per_s") is None


def test_more_records_and_fewer_milliseconds_are_both_better() -> None:
    assert times_better(300, 100, "more") == 3
    assert times_better(100, 300, "less") == 3


def test_nothing_is_said_about_what_is_missing_or_zero() -> None:
    assert times_better(None, 1, "more") is None
    assert times_better(1, None, "more") is None
    assert times_better(1, 0, "more") is None
    assert times_better(0, 1, "less") is None


@given(positive, positive, st.sampled_from(["more", "less"]))
def test_who_is_twice_as_good_sees_the_other_half_as_good(
    ours: float, theirs: float, better: str
) -> None:
    one = times_better(ours, theirs, better)  # type: ignore[arg-type]
    other = times_better(theirs, ours, better)  # type: ignore[arg-type]
    assert one is not None
    assert other is not None
    assert one * other == pytest.approx(1)


def test_an_outcome_compares_medians_in_the_direction_of_the_metric() -> None:
    outcome = Outcome(
        "e2e",
        "end to end",
        (P50,),
        {"quorate": samples(1, 2, 9, key="p50_ms"), "kafka": samples(4, 5, 3, key="p50_ms")},
    )
    assert outcome.subjects == ("quorate", "kafka")
    assert outcome.ratio(P50, "quorate", "kafka") == 2


def test_each_reason_for_failed_samples_is_told_once() -> None:
    outcome = Outcome(
        "produce",
        "produce",
        (RECORDS_PER_S,),
        {"quorate": (failed("closed"), failed("closed"), failed("late"), *samples(1))},
    )
    assert outcome.failures("quorate") == ("closed", "late")
    assert outcome.median("quorate", "records_per_s") == 1


def test_work_is_divided_by_the_cpu_of_the_broker() -> None:
    figures = with_cpu(
        {"records": 1000.0, "requests": 10.0, "seconds": 2.0, "client_cpu_s": 1.0},
        broker_cpu_s=0.5,
        machine_cpu_s=1.9,
    )
    assert figures["records_per_broker_cpu_s"] == 2000
    assert figures["requests_per_broker_cpu_s"] == 20
    assert figures["broker_cores"] == 0.25
    assert figures["client_cores"] == 0.5
    assert figures["others_cores"] == pytest.approx(0.2)


def test_a_broker_that_used_no_measurable_cpu_has_no_efficiency() -> None:
    figures = with_cpu({"records": 1.0, "seconds": 1.0}, broker_cpu_s=0.0, machine_cpu_s=0.0)
    assert "records_per_broker_cpu_s" not in figures
    assert figures["others_cores"] == 0


def test_a_sample_is_disturbed_when_others_used_the_machine() -> None:
    outcome = Outcome(
        "produce",
        "produce",
        (RECORDS_PER_S,),
        {
            "quorate": samples(0.01, 0.02, key="others_cores"),
            "kafka": samples(0.5, 0.6, key="others_cores"),
            "none": (failed("closed"),),
        },
    )
    assert not outcome.is_disturbed("quorate")
    assert outcome.is_disturbed("kafka")
    assert not outcome.is_disturbed("none")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2_512_345.0, "records/s", "2.51 M records/s"),
        (79_400.0, "requests/s", "79.4 k requests/s"),
        (1_800_000_000.0, "B/s", "1.80 GB/s"),
        (950.0, "records/s", "950 records/s"),
        (0.1234, "ms", "0.12 ms"),
        (0.0123, "ms", "0.012 ms"),
        (52_428_800.0, "B", "50.0 MiB"),
        (None, "ms", "-"),
    ],
)
def test_figures_are_shown_as_people_write_them(value: float | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_about_three_digits_are_enough() -> None:
    assert [digits(value) for value in (1234.5, 12.345, 1.2345, 0.012345)] == [
        "1234",
        "12.3",
        "1.23",
        "0.012",
    ]
