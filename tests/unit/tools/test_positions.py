"""Where to start and stop reading."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.tools.positions import (
    END,
    START,
    Anchor,
    Mark,
    Span,
    parse_duration,
    parse_span,
    parse_time,
    time_text,
)
from quorate.tools.problems import UsageError

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
TEN_MS = int(datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp() * 1000)


def time(value_ms: int) -> Mark:
    return Mark(Anchor.TIME, value_ms)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", Span(START, None)),
        ("beginning", Span(START, None)),
        ("earliest", Span(START, None)),
        ("end", Span(END, None)),
        ("latest", Span(END, None)),
        ("5000", Span(Mark(Anchor.OFFSET, 5000), None)),
        ("-10", Span(Mark(Anchor.END, -10), None)),
        ("+10", Span(Mark(Anchor.START, 10), None)),
        (":end", Span(START, END)),
        ("start:end", Span(START, END)),
        ("5:9", Span(Mark(Anchor.OFFSET, 5), Mark(Anchor.OFFSET, 9))),
        ("5:@-1h", Span(Mark(Anchor.OFFSET, 5), time(NOW_MS - HOUR_MS))),
        ("@-1h", Span(time(NOW_MS - HOUR_MS), None)),
        ("@-1h:end", Span(time(NOW_MS - HOUR_MS), END)),
        ("@-2h:1h", Span(time(NOW_MS - 2 * HOUR_MS), time(NOW_MS - HOUR_MS))),
        ("@-2h:@-1h", Span(time(NOW_MS - 2 * HOUR_MS), time(NOW_MS - HOUR_MS))),
        ("@-2h:now", Span(time(NOW_MS - 2 * HOUR_MS), time(NOW_MS))),
        ("@2026-03-01T10:00", Span(time(TEN_MS), None)),
        ("@2026-03-01T10:00:30", Span(time(TEN_MS + 30_000), None)),
        ("@2026-03-01T10:00:1h", Span(time(TEN_MS), time(TEN_MS + HOUR_MS))),
        (
            "@2026-03-01T10:00:2026-03-01T11:00",
            Span(time(TEN_MS), time(TEN_MS + HOUR_MS)),
        ),
        ("@2026-03-01T11:00+01:00", Span(time(TEN_MS), None)),
        ("s@1700000000000", Span(time(1_700_000_000_000), None)),
        ("@1700000000", Span(time(1_700_000_000_000), None)),
    ],
)
def test_places_to_read_from(text: str, span: Span) -> None:
    assert parse_span(text, NOW_MS) == span


@pytest.mark.parametrize(
    "text", ["", "begin", "5:", "5:x", "@", "@yesterday", "1.5", "@-1h:x", "٣"]
)
def test_what_is_no_place_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_span(text, NOW_MS)
    assert "-o start" in refused.value.hint


@given(st.text(max_size=20))
def test_any_text_is_a_place_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_span(text, NOW_MS)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_that_is_written_can_be_read(time_ms: int) -> None:
    assert parse_time(time_text(time_ms), NOW_MS) == time_ms


@pytest.mark.parametrize("time_ms", [NOW_MS * 1000, -NOW_MS * 1000, 2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_stays_a_number(time_ms: int) -> None:
    assert time_text(time_ms) == str(time_ms)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("1h30m", 5_400_000), ("500ms", 500), ("2w", 1_209_600_000), ("1", None), ("h", None)],
)
def test_durations(text: str, duration_ms: int | None) -> None:
    assert parse_duration(text) == duration_ms


def test_a_date_without_dashes_is_a_date_and_no_number_of_seconds() -> None:
    assert parse_time("20260301", NOW_MS) == TEN_MS - 10 * HOUR_MS
