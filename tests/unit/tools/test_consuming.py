"""What is read: from where to where, how many."""

import base64
import json

import pytest

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.consuming import Bounds, ConsumePlan, Reading, marks_of
from quorate.tools.positions import END, START, Anchor, Mark, Span
from quorate.tools.record_text import LineParts, record_line

A = TopicPartition("t", 0)
B = TopicPartition("t", 1)
BOUNDS = Bounds(10, 20, {1000: 15})


def plan(span: Span, *, records_max: int | None = None, stop_at_end: bool = False) -> ConsumePlan:
    return ConsumePlan(("t",), None, span, records_max, stop_at_end, None, record_line)


def record(partition: TopicPartition, offset: int) -> Record:
    return Record(partition, offset, 0, None, b"", ())


@pytest.mark.parametrize(
    ("mark", "offset"),
    [
        (START, 10),
        (END, 20),
        (Mark(Anchor.OFFSET, 3), 3),
        (Mark(Anchor.START, 4), 14),
        (Mark(Anchor.START, 40), 20),
        (Mark(Anchor.END, -4), 16),
        (Mark(Anchor.END, -40), 10),
        (Mark(Anchor.TIME, 1000), 15),
        (Mark(Anchor.TIME, 2000), 20),
    ],
)
def test_a_mark_is_an_offset_in_each_partition(mark: Mark, offset: int) -> None:
    assert BOUNDS.offset_of(mark) == offset


def test_a_span_without_a_stop_never_ends() -> None:
    reading = Reading(plan(Span(START, None)), {A: BOUNDS})
    assert reading.wants(record(A, 10_000))
    assert not reading.finish(A, 10_000)
    assert not reading.done
    assert marks_of(reading.plan.span) == [START]


def test_reading_stops_where_the_log_ended_when_it_began() -> None:
    reading = Reading(plan(Span(START, None), stop_at_end=True), {A: BOUNDS, B: BOUNDS})
    assert reading.wants(record(A, 19))
    assert not reading.wants(record(A, 20))
    assert not reading.finish(A, 19)
    assert reading.finish(A, 20)
    assert not reading.done
    assert reading.finish(B, 25)
    assert reading.done
    assert reading.written == 1


def test_the_nearer_of_two_stops_counts() -> None:
    stop = Mark(Anchor.OFFSET, 12)
    reading = Reading(plan(Span(START, stop), stop_at_end=True), {A: BOUNDS})
    assert not reading.wants(record(A, 12))
    assert marks_of(reading.plan.span) == [START, stop]


def test_a_partition_with_nothing_to_read_is_finished_from_the_start() -> None:
    reading = Reading(plan(Span(END, None), stop_at_end=True), {A: BOUNDS})
    assert reading.done


def test_reading_stops_after_so_many_records() -> None:
    reading = Reading(plan(Span(START, None), records_max=2), {A: BOUNDS})
    assert [reading.wants(record(A, offset)) for offset in (10, 11, 12)] == [True, True, False]
    assert reading.done
    assert reading.records_left == 0


def test_records_as_json_keep_bytes_that_are_no_text() -> None:
    line = record_line(Record(A, 1, 2, None, b"\xff", (("h", None), ("g", b"x"))))
    assert json.loads(line) == {
        "topic": "t", "partition": 0, "offset": 1, "timestamp_ms": 2, "key": None,
        "value": {"base64": base64.b64encode(b"\xff").decode()},
        "headers": [["h", None], ["g", "x"]],
    }  # fmt: skip


def test_lines_have_the_parts_that_kafkas_properties_ask_for() -> None:
    some = Record(A, 1, 2, b"k", None, (("h", b"x=y"),))
    assert LineParts().line(some) == b"NULL\n"
    everything = LineParts(
        timestamp=True, partition=True, offset=True, headers=True, key=True, separator=b"|",
        null=b"null",
    )  # fmt: skip
    assert everything.line(some) == b"CreateTime:2|Partition:0|Offset:1|h:x=y|k|null\n"
    assert everything.line(record(A, 0)) == b"CreateTime:0|Partition:0|Offset:0|NO_HEADERS|null|\n"
    assert LineParts(key=True, value=False).line(some) == b"k\n"
