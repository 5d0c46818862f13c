"""Pipelines as values: what comes out of records, and which partitions are whose."""

from typing import Any

import pytest

from quorate.client.serde import JsonSerde, SerdeError, StrSerde
from quorate.client.streams.pipeline import Pipeline, run_steps, stream
from quorate.client.streams.serdes import LongSerde, WindowedSerde
from quorate.client.streams.task import NoTimeError, Output, Ownership, Task
from quorate.client.streams.windows import TimeWindows, Window
from quorate.model import TopicPartition
from quorate.records.record import Record

MINUTES = TimeWindows(size_ms=60_000, grace_ms=0)


def record(value: bytes | None, key: bytes | None = b"k", at: int = 0) -> Record:
    return Record(TopicPartition("in", 0), 7, at, key, value, (("h", b"x"),))


def task_of(pipeline: Pipeline, *, skip: bool = False) -> Task:
    return Task(pipeline, skip_unreadable=skip)


def come_out(pipeline: Pipeline, *records: Record) -> list[tuple[bytes | None, bytes | None]]:
    task = task_of(pipeline)
    for each in records:
        task.take(each)
    return [(output.key, output.value) for output in task.outcome().outputs]


def test_records_are_filtered_and_changed_in_order() -> None:
    words = (
        stream("in", value=StrSerde())
        .filter(lambda key, _: key != b"no")
        .flat_map_values(str.split)
        .map_values(str.upper)
    )
    given = (record(b"a b"), record(b"c", key=b"no"), record(b"d"))
    pipeline = words.to("out", value=StrSerde())
    assert come_out(pipeline, *given) == [(b"k", b"A"), (b"k", b"B"), (b"k", b"D")]


def test_records_get_other_keys() -> None:
    keyed = stream("in", key=StrSerde(), value=JsonSerde()).map(lambda k, v: (v, k))
    twice = keyed.flat_map(lambda k, v: [(k, v), (v, k)])
    pipeline = twice.to("out", key=JsonSerde(), value=JsonSerde())
    assert come_out(pipeline, record(b"1")) == [(b"1", b'"k"'), (b'"k"', b"1")]


def test_time_and_headers_stay() -> None:
    task = task_of(stream("in").to("out"))
    task.take(record(b"v", at=5))
    assert task.outcome().outputs == [Output(b"k", b"v", 5, (("h", b"x"),))]


def test_nulls_are_left_out_and_no_key_stays_none() -> None:
    task = task_of(stream("in", key=StrSerde()).to("out", key=StrSerde()))
    task.take(record(None))
    task.take(record(b"v", key=None))
    outcome = task.outcome()
    assert [output.key for output in outcome.outputs] == [None]
    assert (outcome.tally.records, outcome.tally.null, outcome.tally.results) == (2, 1, 1)


WINDOWED = WindowedSerde(StrSerde(), size_ms=60_000)


def test_windows_that_are_read_go_to_the_partition_of_the_key_in_them() -> None:
    window = WINDOWED.serialize("", Window("alice", 60_000, 120_000))
    same = stream("in", key=WINDOWED).to("out", key=WINDOWED)
    task = task_of(same)
    task.take(record(b"v", key=window))
    (output,) = task.outcome().outputs
    assert (output.key, output.partition_key) == (window, b"alice")


def test_windows_of_another_key_go_to_the_partition_of_that() -> None:
    counts = stream("in", key=StrSerde()).group_by_key().windowed_by(MINUTES).count()
    sites = counts.map(lambda w, n: (Window(w.key.partition("/")[0], w.start_ms, w.end_ms), n)).to(
        "out", key=WINDOWED, value=LongSerde()
    )
    task = task_of(sites)
    for page in (b"site/a", b"site/b"):
        task.take(record(b"v", key=page))
    assert [output.partition_key for output in task.outcome().outputs] == [b"site", b"site"]


def test_windows_that_are_written_otherwise_go_to_the_partition_of_the_key_they_are_of() -> None:
    counts = stream("in", key=StrSerde()).group_by_key().windowed_by(MINUTES).count()
    task = task_of(
        counts.map_values(str).to(
            "out", key=lambda window: f"{window.start_ms}".encode(), value=StrSerde()
        )
    )
    task.take(record(b"v"))
    (output,) = task.outcome().outputs
    assert (output.key, output.partition_key) == (b"0", b"k")


def test_steps_behind_windows_see_windows() -> None:
    pipeline = (
        stream("in", key=StrSerde())
        .group_by_key()
        .windowed_by(MINUTES)
        .count()
        .filter(lambda _, count: count > 1)
        .map(lambda window, count: (window.key, [window.start_ms, window.end_ms, count]))
        .to("out", key=StrSerde(), value=JsonSerde())
    )
    given = (record(b"x", at=60_001), record(b"x", at=60_002), record(b"x", key=b"once", at=60_003))
    assert come_out(pipeline, *given) == [(b"k", b"[60000,120000,2]")]


def test_windows_as_keys_go_where_the_key_in_them_goes() -> None:
    pipeline = (
        stream("in")
        .group_by_key()
        .windowed_by(MINUTES)
        .aggregate(lambda: 0, lambda key, value, total: total + len(key + value), value=LongSerde())
        .to("out", key=WindowedSerde(JsonSerde(), size_ms=60_000), value=LongSerde())
    )
    task = task_of(pipeline)
    task.take(record(b"abc"))
    with pytest.raises(SerdeError):
        task.outcome()  # bytes have no JSON
    counts = stream("in", key=StrSerde()).group_by_key().windowed_by(MINUTES).count()
    key = WindowedSerde(StrSerde(), size_ms=60_000)
    task = task_of(counts.to("out", key=key, value=LongSerde()))
    task.take(record(b"abc", at=60_000))
    (output,) = task.outcome().outputs
    assert output.partition_key == b"k"
    assert output.key == b"k" + LongSerde().serialize("", 60_000)
    assert output.value == LongSerde().serialize("", 1)


def test_what_is_late_or_has_no_key_or_no_time() -> None:
    pipeline = stream("in").group_by_key().windowed_by(MINUTES).count()
    task = task_of(pipeline.to("out", key=lambda _: b"", value=LongSerde()))
    for each in (record(b"x", at=60_000), record(b"x", at=1), record(b"x", key=None)):
        task.take(each)
    tally = task.outcome().tally
    assert (tally.records, tally.late, tally.without_key, tally.results) == (3, 1, 1, 1)
    with pytest.raises(NoTimeError, match="in-0 at offset 7"):
        task.take(record(b"x", at=-1))


def test_what_cannot_be_read_is_an_error_or_skipped() -> None:
    pipeline = stream("in", key=JsonSerde(), value=JsonSerde()).to("out", value=JsonSerde())
    with pytest.raises(SerdeError, match="in-0 at offset 7"):
        task_of(pipeline).take(record(b"x", key=b"1"))
    task = task_of(pipeline, skip=True)
    task.take(record(b"x", key=b"1"))
    task.take(record(b"1", key=b"x"))
    assert task.outcome().tally.unreadable == 2


def test_what_was_committed_or_aborted_is_not_written_again() -> None:
    for pipeline in (
        stream("in").to("out"),
        stream("in")
        .group_by_key()
        .windowed_by(MINUTES)
        .count()
        .to("out", key=lambda _: b"", value=LongSerde()),
    ):
        task = task_of(pipeline)
        for end in (task.commit, task.abort):
            task.take(record(b"x"))
            assert len(task.outcome().outputs) == 1
            end()
            assert task.outcome().outputs == []
            assert task.outcome().changelog == []
            assert task.outcome().tally.records == 0


def test_a_stream_is_a_value_that_methods_do_not_change() -> None:
    lines = stream("in", value=StrSerde())
    lines.map_values(str.upper)
    assert come_out(lines.to("out", value=StrSerde()), record(b"a")) == [(b"k", b"a")]
    assert list(run_steps((), "k", "v")) == [("k", "v")]


def test_what_cannot_be_grouped() -> None:
    with pytest.raises(ValueError, match="write them to another"):
        stream("in").map(lambda k, v: (v, k)).group_by_key()
    counts = stream("in").group_by_key().windowed_by(MINUTES).count()
    with pytest.raises(ValueError, match="write them to another"):
        counts.map_values(str).group_by_key()


def test_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="needs a topic"):
        stream()
    grouped = stream("in").group_by_key()
    wrong: Any = "sometimes"
    with pytest.raises(ValueError, match="no emit 'sometimes'"):
        grouped.windowed_by(MINUTES, emit=wrong)
    function: Any = str
    with pytest.raises(TypeError):
        grouped.windowed_by(MINUTES).aggregate(int, lambda _k, _v, n: n, value=function)


def test_a_task_that_comes_back_at_once_keeps_its_state() -> None:
    ownership = Ownership(stream("in").to("out"), skip_unreadable=False)
    ownership.assigned({0, 1}, {0, 1})
    assert ownership.to_restore == {0, 1}
    ownership.restored({0, 1})
    zero, one = ownership.task(0), ownership.task(1)
    ownership.given_up({0, 1})
    ownership.assigned({0}, {0})
    assert ownership.to_restore == {0}
    assert ownership.task(0) is zero
    ownership.given_up({0})
    assert ownership.to_restore == set()
    ownership.assigned({0, 1}, {0, 1})
    assert ownership.task(1) is not one, "others may have gone on with it"
    assert set(ownership.tasks()) == {0, 1}


def test_what_came_while_others_were_restored_is_yet_to_be() -> None:
    ownership = Ownership(stream("in").to("out"), skip_unreadable=False)
    ownership.assigned({0}, {0})
    ownership.assigned({1}, {0, 1})
    ownership.restored({0})
    assert ownership.to_restore == {1}
