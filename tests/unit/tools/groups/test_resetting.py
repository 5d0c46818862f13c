"""Where a group goes on, within what logs have."""

from typing import Any

import pytest

from quorate.client.groups.results import OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.tools.groups.lag import Bounds
from quorate.tools.groups.resetting import (
    Change,
    Spec,
    To,
    format_offsets,
    parse_offsets,
    parse_scope,
    parse_spec,
    plan_changes,
    plan_table,
)
from quorate.tools.problems import UsageError

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {T0: Bounds(5, 50), T1: Bounds(0, 20)}
CURRENT = {T0: OffsetAndMetadata(10, 3, "mine")}


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({To.EARLIEST: ""}, Spec(To.EARLIEST)),
        ({To.LATEST: ""}, Spec(To.LATEST)),
        ({To.CURRENT: ""}, Spec(To.CURRENT)),
        ({To.OFFSET: "7"}, Spec(To.OFFSET, 7)),
        ({To.SHIFT: "-7"}, Spec(To.SHIFT, -7)),
        ({To.DATETIME: "2026-03-01T10:00:00.000"}, Spec(To.DATETIME, 1_772_359_200_000)),
        ({To.DATETIME: "@-1h"}, Spec(To.DATETIME, NOW_MS - HOUR_MS)),
        ({To.DURATION: "1h30m"}, Spec(To.DURATION, NOW_MS - HOUR_MS * 3 // 2)),
        ({To.DURATION: "PT1H30M"}, Spec(To.DURATION, NOW_MS - HOUR_MS * 3 // 2)),
        ({To.DURATION: "P1D"}, Spec(To.DURATION, NOW_MS - 24 * HOUR_MS)),
        ({To.FILE: "t,0,5\n"}, Spec(To.FILE, offsets={T0: 5})),
    ],
)
def test_options_say_where_to_go(given: dict[To, str], spec: Spec) -> None:
    assert parse_spec(given, "g", NOW_MS) == spec


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "nothing says where to go"),
        ({To.EARLIEST: "", To.LATEST: ""}, "--to-earliest and --to-latest"),
        ({To.OFFSET: "-1"}, "nothing to go to"),
        ({To.OFFSET: "x"}, "nothing to go to"),
        ({To.SHIFT: "1.5"}, "nothing to go to"),
        ({To.DATETIME: "soon"}, "no time"),
        ({To.DURATION: "P"}, "no duration"),
        ({To.DURATION: "long"}, "no duration"),
        ({To.FILE: "t,0\n"}, "line 1 says no offset"),
        ({To.FILE: "t,0,5\nt,one,5\n"}, "line 2 says no offset"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[To, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_spec(given, "g", NOW_MS)


def test_files_have_lines_with_and_without_groups() -> None:
    text = '\n"t",0,5\ng,t,1,6\nother,t,1,9\n'
    assert parse_offsets(text, "g") == {T0: 5, T1: 6}


def test_what_is_exported_can_be_read() -> None:
    comma = TopicPartition("with,comma", 3)
    changes = [
        Change(T0, None, OffsetAndMetadata(5)),
        Change(comma, None, OffsetAndMetadata(6)),
        Change(T1, OffsetAndMetadata(7), None),
    ]
    assert parse_offsets(format_offsets(changes), "g") == {T0: 5, comma: 6}
    assert format_offsets(changes[:1]) == "t,0,5\n", "as kafka-consumer-groups writes it"
    assert parse_offsets(format_offsets(changes, "g"), "g") == {T0: 5, comma: 6}
    assert format_offsets(changes[:1], "g") == "g,t,0,5\n"


def test_a_scope_names_topics_and_partitions() -> None:
    assert parse_scope(["t:0,1", "t:3", "u"]) == {"t": (0, 1, 3), "u": None}
    assert parse_scope(["t:0", "t"]) == {"t": None}
    assert parse_scope(["t", "t:0"]) == {"t": None}
    with pytest.raises(UsageError, match="names no partitions"):
        parse_scope(["t:x"])


def offsets(spec: Spec, by_time: dict[TopicPartition, int] | None = None) -> list[Any]:
    changes = plan_changes(spec, [T1, T0], CURRENT, BOUNDS, by_time or {})
    assert [change.partition for change in changes] == [T0, T1]
    return [None if change.new is None else change.new.offset for change in changes]


def test_groups_go_to_ends_offsets_times_and_distances() -> None:
    assert offsets(Spec(To.EARLIEST)) == [5, 0]
    assert offsets(Spec(To.LATEST)) == [50, 20]
    assert offsets(Spec(To.CURRENT)) == [10, 20]
    assert offsets(Spec(To.OFFSET, 12)) == [12, 12]
    assert offsets(Spec(To.DATETIME, 99), {T0: 33}) == [33, 20]
    assert offsets(Spec(To.DURATION, 99), {T1: 4}) == [50, 4]
    assert offsets(Spec(To.FILE, offsets={T0: 6, T1: 7})) == [6, 7]


def test_a_shift_begins_where_the_group_is() -> None:
    (change,) = plan_changes(Spec(To.SHIFT, -3), [T0], CURRENT, BOUNDS, {})
    assert change.new == OffsetAndMetadata(7)
    with pytest.raises(UsageError, match="t-1 cannot be shifted"):
        plan_changes(Spec(To.SHIFT, -3), [T0, T1], CURRENT, BOUNDS, {})


def test_only_times_are_looked_for() -> None:
    assert Spec(To.DATETIME, 99).time_ms == 99
    assert Spec(To.DURATION, 99).time_ms == 99
    assert Spec(To.OFFSET, 99).time_ms is None


def test_offsets_outside_of_a_log_become_its_nearest_end() -> None:
    low, _ = plan_changes(Spec(To.OFFSET, 2), [T0, T1], CURRENT, BOUNDS, {})
    assert (low.new, low.note) == (OffsetAndMetadata(5), "the log begins at 5")
    _, high = plan_changes(Spec(To.OFFSET, 30), [T0, T1], CURRENT, BOUNDS, {})
    assert (high.new, high.note) == (OffsetAndMetadata(20), "the log ends at 20")


def test_an_offset_that_stays_keeps_its_epoch_and_metadata() -> None:
    (same,) = plan_changes(Spec(To.OFFSET, 10), [T0], CURRENT, BOUNDS, {})
    assert same.new is same.current


def test_a_plan_has_the_columns_of_kafkas_tool_first() -> None:
    changes = [
        Change(T0, OffsetAndMetadata(9), OffsetAndMetadata(5), "why"),
        Change(T1, OffsetAndMetadata(9), None),
        Change(T1, None, OffsetAndMetadata(3)),
    ]
    table = plan_table("g", changes)
    assert [column.heading for column in table.columns[:4]] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "NEW-OFFSET",
    ]
    assert table.rows == (
        ("g", "t", 0, 5, 9, -4, "why"),
        ("g", "t", 1, None, 9, None, ""),
        ("g", "t", 1, 3, None, None, ""),
    )
