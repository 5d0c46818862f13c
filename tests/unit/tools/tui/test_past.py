"""Time travel: the cluster after each decision of the controllers."""

from dataclasses import replace

import pytest

from quorate.quorum.metadata import records as r
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.timeline import STRIDE, timeline_of
from quorate.tools.metadata.travel import Point
from quorate.tools.tui import requests as ask
from quorate.tools.tui.requests import Answer
from quorate.tools.tui.views.cells import Frame
from quorate.tools.tui.views.past import (
    Travel,
    changed_keys,
    decision_text,
    past_frame,
    past_header,
    past_snapshot,
)
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot
from tests.unit.tools.tui import histories
from tests.unit.tools.tui.clusters import NOW_MS
from tests.unit.tools.tui.piloting import FakeSource, Seat, sit
from tests.unit.tools.tui.test_frames import texts

NOW = Snapshot(NOW_MS, cluster_id="the-cluster")
PARTITIONS = Place("partitions", "orders")


def at(number: int) -> Travel:
    return Travel(histories.timeline(), number)


def frame(place: Place, number: int) -> Frame:
    return past_frame(place, past_snapshot(at(number), NOW))


# The timeline


def test_the_metadata_after_every_batch_are_those_that_all_before_it_made() -> None:
    many = [
        Batch(n, 1, (r.ConfigSet("c", n, "topic", "t", "x", str(n)),))
        for n in range(1, 2 * STRIDE + 9)
    ]
    timeline = timeline_of(many)
    assert len(timeline.kept) == 3
    for number in (0, STRIDE - 1, STRIDE, STRIDE + 1, timeline.last):
        (values,) = timeline.image(number).configs.values()
        assert values == {"x": str(number + 1)}


def test_a_moment_is_a_batch_and_before_the_first_it_is_the_first() -> None:
    timeline = histories.timeline()
    assert timeline.number_at(Point("4", offset=4)) == 3
    assert timeline.number_at(Point("0", offset=0)) == 0
    assert timeline.number_at(Point("t", time_ms=NOW_MS - 31_000)) == 2
    assert timeline.number_at(Point("now")) == timeline.last == 5
    assert [each.type for each in timeline.until(2)][-1] == "PartitionCreated"


def test_nobody_knows_when_a_snapshot_was() -> None:
    timeline = histories.after_snapshot()
    assert timeline.time_ms(0) is None
    assert timeline.time_ms(1) == NOW_MS - 30_000
    assert timeline_of([]).last == -1
    assert timeline_of([]).image(0).version == 0


# What is shown


def test_partitions_are_shown_as_they_were() -> None:
    assert texts(frame(PARTITIONS, 4), "partition", "leader", "replicas", "state") == [
        ("orders-0", "1", "▸1 ●2", "● ok"),
        ("orders-1", "2", "▸2 ✗1", "● ok"),
    ]
    assert texts(frame(PARTITIONS, 5), "leader", "replicas", "state") == [
        ("2", "✗1 ▸2", "✗ under min ISR"),
        ("2", "▸2 ✗1", "● ok"),
    ]


def test_brokers_settings_and_events_are_shown_as_they_were() -> None:
    assert texts(frame(Place("brokers"), 4), "id", "state") == [
        ("1", "✗ fenced"), ("2", "● in service"),
    ]  # fmt: skip
    assert texts(frame(Place("brokers"), 0), "id") == []
    settings = Place("configs", "topic/orders")
    assert texts(frame(settings, 3), "name", "value") == [("min.insync.replicas", "2")]
    assert frame(settings, 2).remark == "nothing was set then"
    assert texts(frame(Place("events"), 3), "offset")[0] == ("4",)


def test_min_isr_is_the_topics_else_that_of_all_brokers() -> None:
    default = r.ConfigSet("c", NOW_MS, "broker", "", "min.insync.replicas", "3")
    timeline = timeline_of([*histories.batches()[:3], Batch(4, 2, (default,))])
    seen = past_snapshot(Travel(timeline, 3), NOW)
    assert seen.min_isr == {"orders": 3}
    assert past_snapshot(Travel(timeline, 2), NOW).min_isr == {"orders": 1}
    assert list(seen.configs) == ["broker/default"]


def test_what_metadata_do_not_tell_is_said() -> None:
    told = frame(Place("groups"), 5)
    assert "does not tell of groups" in told.remark
    assert told.rows == ()
    assert changed_keys(Place("groups"), at(5), NOW) == frozenset()


def test_rows_that_the_last_decision_changed_are_known() -> None:
    assert changed_keys(PARTITIONS, at(5), NOW) == {"orders-0"}
    assert changed_keys(PARTITIONS, at(2), NOW) == {"orders-0", "orders-1"}
    assert changed_keys(Place("brokers"), at(0), NOW) == frozenset()


def test_the_header_tells_the_moment_and_the_decision() -> None:
    travel = at(5)
    lines = [
        "".join(part.text for part in line)
        for line in past_header(travel, past_snapshot(travel, NOW), NOW_MS)
    ]
    assert "2026-11-18 11:06:30Z" in lines[0]
    assert "10 s ago" in lines[0]
    assert "term 2" in lines[0]
    assert "✗ brokers 1/2" in lines[1]
    assert "▲ 1 under-replicated" in lines[1]
    assert "metadata@6 (6 of 6)" in lines[2]
    assert "broker 1 was fenced: PartitionChanged orders:0" in lines[2]
    assert decision_text(at(2)) == "CreateTopics by User:ann: TopicCreated orders and 2 more"
    blank = timeline_of([Batch(1, 1)])
    assert decision_text(Travel(blank, 0)) == "nothing that can be seen"


def test_a_snapshot_is_told_as_such() -> None:
    travel = Travel(histories.after_snapshot(), 0)
    assert decision_text(travel).startswith("a snapshot")
    lines = past_header(travel, past_snapshot(travel, NOW), NOW_MS)
    assert "at a time that is not known" in lines[0][2].text
    assert "term -" in lines[0][3].text


def test_steps_end_where_the_log_does() -> None:
    assert at(0).stepped(-1) == at(0)
    assert at(4).stepped(1) == at(4).stepped(9) == at(5)


# Keys


def ready(timeline_of_all: bool = True) -> FakeSource:
    source = FakeSource()
    timeline = histories.timeline() if timeline_of_all else timeline_of([])
    source.answers = {ask.ReadTimeline: Answer(ask.ReadTimeline(), value=timeline)}
    return source


def test_the_past_is_walked_through_and_left() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("t")
        assert "metadata@6" in seat.app.main.header_text
        assert seat.keys == ["orders-0", "orders-1"]
        assert seat.drawn()[1].startswith("▶± orders-0")
        await seat.press("less_than_sign", "comma")
        assert "metadata@4" in seat.app.main.header_text
        await seat.press("greater_than_sign", "full_stop", "full_stop")
        assert "metadata@6" in seat.app.main.header_text
        seat.source.say(seat.source.snapshot)  # now goes on, and is not shown
        await seat.pilot.pause()
        assert seat.keys == ["orders-0", "orders-1"]
        await seat.press("escape")
        assert len(seat.keys) == 3
        assert "controller 102" in seat.app.main.header_text
        await seat.press("less_than_sign")
        assert "metadata@6" in seat.app.main.header_text

    source = sit(body, view=PARTITIONS, source=ready())
    assert source.asked == [ask.ReadTimeline(), ask.ReadTimeline()]


def test_from_the_past_one_jumps_to_a_moment() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("t")
        for text, wanted in (
            ("3", "metadata@3"),
            ("@1970-01-01", "metadata@1"),
            ("", "metadata@6"),
        ):
            await seat.press("t")
            assert seat.over == "FormScreen"
            await seat.type(text)
            await seat.press("enter")
            assert wanted in seat.app.main.header_text
        await seat.press("t")
        await seat.type("soon")
        await seat.press("enter")
        assert "is no moment" in seat.notes
        await seat.press("t", "escape")
        assert "metadata@6" in seat.app.main.header_text

    sit(body, view=PARTITIONS, source=ready())


def test_what_was_then_is_described_and_explained_and_not_changed() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("t", "d")
        assert seat.text.startswith("orders-0: ")
        await seat.press("escape", "w")
        assert "Broker 2 leads orders-0" in seat.text
        assert "metadata@6" in seat.text
        await seat.press("escape", "less_than_sign", "w")
        assert "Broker 1 leads orders-0" in seat.text
        await seat.press("escape", "L")
        assert "this is the past" in seat.notes
        await seat.command("brokers")
        await seat.press("w")
        assert "What was decided about broker 1" in seat.text
        await seat.press("escape")
        await seat.command("topics")
        await seat.press("w")
        assert "orders-0" in seat.text
        await seat.press("escape")
        await seat.command("groups")
        assert "does not tell of groups" in seat.drawn()[2]

    assert sit(body, view=PARTITIONS, source=ready()).asked == [ask.ReadTimeline()]


def test_from_an_event_one_goes_to_its_moment() -> None:
    source = ready()
    source.snapshot = replace(source.snapshot, events=tuple(histories.timeline().until(5)))

    async def body(seat: Seat) -> None:
        await seat.press("down", "t")

    asked = sit(body, view=Place("events"), source=source).asked
    assert asked == [ask.ReadTimeline("5")]


@pytest.mark.parametrize("goal", ["5", ""])
def test_one_begins_where_one_wanted_to(goal: str) -> None:
    async def body(seat: Seat) -> None:
        answer = Answer(ask.ReadTimeline(goal), value=histories.timeline())
        seat.source.say(answer)
        await seat.pilot.pause()
        assert f"metadata@{goal or 6}" in seat.app.main.header_text

    sit(body)


def test_without_a_past_it_is_said() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("t")
        assert "nothing was decided yet" in seat.notes
        await seat.command("groups")
        await seat.press("t")
        assert "t works in topics" in seat.notes

    sit(body, source=ready(timeline_of_all=False))
