"""What every key does, pressed by Textual's pilot. One screen for several keys, to be quick."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.client.admin_results import ConfigChange
from quorate.client.groups.results import OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.tools.groups.resetting import Change
from quorate.tools.groups_work import Planned
from quorate.tools.problems import Problem
from quorate.tools.tui import requests as ask
from quorate.tools.tui.main_screen import Mode
from quorate.tools.tui.requests import Answer
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import Part
from quorate.tools.tui.views.keys import KEYS
from quorate.tools.tui.views.lens import Lens
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot
from tests.unit.tools.tui import clusters
from tests.unit.tools.tui.piloting import TOPICS, FakeSource, Seat, sit
from tests.unit.tools.tui.ticks import grown


def test_going_from_view_to_view_and_back() -> None:
    async def body(seat: Seat) -> None:
        assert seat.keys == ["clicks", "orders", "payments"]
        await seat.press("down", "enter")
        assert seat.place == "partitions orders"
        assert seat.keys == ["orders-0", "orders-1", "orders-2"]
        await seat.press("escape")
        assert seat.place == "topics"
        await seat.press("right_square_bracket")
        assert seat.place == "partitions orders"
        await seat.press("left_square_bracket")
        assert seat.place == "topics"
        await seat.command("groups")
        await seat.press("enter")
        assert seat.place == "offsets billing"
        await seat.press("minus")
        assert seat.place == "groups"
        await seat.press("minus")
        assert seat.place == "offsets billing"
        await seat.press("enter")
        assert seat.place == "partitions orders"
        await seat.command("b")
        await seat.press("enter")
        assert seat.keys == ["clicks-0", "orders-0"]
        await seat.press("escape")
        assert len(seat.keys) == 5

    source = sit(body)
    assert source.watched[:3] == [TOPICS, Place("partitions", "orders"), TOPICS]
    assert source.stopped


def test_commands_are_completed_and_wrong_ones_answered() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("colon")
        await seat.type("par")
        await seat.press("tab")
        await seat.type(" or")
        await seat.press("tab", "enter")
        assert seat.place == "partitions orders"
        await seat.command("nonesuch")
        assert "there is no view" in seat.notes
        await seat.press("colon", "escape")
        assert seat.app.focused is seat.app.main.table
        await seat.press("colon", "enter")
        await seat.command("help")
        assert seat.over == "TextScreen"
        await seat.press("escape")
        await seat.command("q")
        assert seat.app.return_code == 0

    sit(body)


def test_a_filter_works_while_it_is_typed_and_escape_clears_it() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("slash")
        await seat.type("!or")
        assert seat.keys == ["clicks", "payments"]
        await seat.press("enter")
        assert seat.keys == ["clicks", "payments"]
        assert "/!or" in seat.app.main.subtitle
        await seat.press("escape")
        assert seat.keys == ["clicks", "orders", "payments"]
        await seat.press("slash", "left_square_bracket")
        assert len(seat.keys) == 3
        await seat.press("enter")
        assert "no regular expression" in seat.notes
        assert len(seat.keys) == 3

    sit(body)


def test_columns_fit_the_room_that_there_is_when_the_table_gets_to_know_it() -> None:
    """The screen hears of a new size before its table does."""

    async def body(seat: Seat) -> None:
        table = seat.app.main.table
        before = table.shown
        table.styles.width = 60
        await seat.pilot.pause()
        assert len(table.shown.columns) < len(before.columns)
        table.styles.width = "1fr"
        await seat.pilot.pause()
        assert table.shown.columns == before.columns

    sit(body, size=(160, 24))


def test_orders_marks_widths_and_looks() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("N")
        assert seat.app.main.lens.sort == "name"
        await seat.press("N")
        assert seat.keys == ["payments", "orders", "clicks"]
        await seat.press("S")
        assert seat.keys == ["orders", "payments", "clicks"]
        await seat.press("I")
        assert seat.keys == ["clicks", "payments", "orders"]
        await seat.press("A")
        assert seat.app.main.lens.sort == "rate/s"
        await seat.press("O")
        assert seat.app.main.lens.sort == "size"
        await seat.press("ctrl+w")
        assert seat.app.main.lens.wide
        await seat.press("ctrl+w", "home", "space", "space")
        assert len(seat.app.main.chosen) == 2
        assert any("✓" in line for line in seat.drawn())
        await seat.press("escape")
        assert not seat.app.main.marks
        await seat.press("ctrl+r")
        assert seat.source.looks == 1
        await seat.press("p")
        assert seat.source.pauses[-1]
        assert "paused" in seat.app.main.subtitle
        await seat.press("p")
        assert not seat.source.pauses[-1]

    sit(body)


def test_every_view_is_sorted_by_state_and_by_what_grows_or_says_that_it_has_none() -> None:
    arguments = {"offsets": "billing", "messages": "orders", "configs": "topic/orders"}
    without: list[tuple[str, str]] = []

    async def body(seat: Seat) -> None:
        for view in places.VIEWS:
            seat.app.go(Place(view, arguments.get(view, "")), Lens())
            for key in ("S", "A"):
                before, said = seat.app.main.lens, len(seat.app.said)
                await seat.press(key)
                if seat.app.main.lens == before:
                    without.append((view, key))
                    assert len(seat.app.said) > said, "a key that does nothing says so"

    sit(body)
    assert without == [("configs", "A"), ("messages", "S")]


def test_the_cursor_moves_by_keys_and_mouse() -> None:
    async def body(seat: Seat) -> None:
        table = seat.app.main.table
        await seat.press("end")
        assert table.cursor == 1_999
        await seat.press("up", "k", "pageup")
        assert table.cursor == 1_997 - (table.size.height - 2)
        await seat.press("home", "j", "pagedown")
        assert table.cursor == 1 + table.size.height - 2
        await seat.press("g", "G", "g")
        assert table.cursor == 0
        await seat.pilot.click(table, offset=(10, 3))
        assert table.cursor == 2
        await seat.pilot.click(table, offset=(10, 0))
        assert seat.app.main.lens.sort == "partition"
        await seat.pilot.click(table, offset=(10, table.cursor + 1))
        assert isinstance(seat.source.asked[-1], ask.Describe)
        await seat.press("escape", "right", "left")

    sit(body, view=Place("partitions"), source=FakeSource(clusters.large()))


def test_no_key_press_is_lost_while_2000_partitions_change() -> None:
    before = clusters.large()

    async def body(seat: Seat) -> None:
        for records in range(1, 5):
            seat.source.say(grown(before, records))
            await seat.pilot.press(*["down"] * 5)
        await seat.pilot.pause()
        assert seat.app.main.table.cursor == 20

    sit(body, view=Place("partitions"), source=FakeSource(before))


def test_describing_raw_and_why() -> None:
    lines = ((Part("Broker 2 leads."),), (Part("  because"),))
    source = FakeSource()
    source.answers = {
        ask.Describe: Answer(ask.Describe(TOPICS, "clicks"), lines=lines),
        ask.Why: Answer(ask.Why(TOPICS, "clicks"), lines=lines),
    }

    async def body(seat: Seat) -> None:
        await seat.press("question_mark")
        assert "this help" in seat.text
        await seat.press("down", "up", "pagedown", "pageup", "escape")
        await seat.press("y")
        assert json.loads(seat.text)["name"] == "clicks"
        await seat.press("escape", "d")
        assert seat.text == "Broker 2 leads.\n  because"
        await seat.press("q", "down", "w")
        assert seat.text == "Broker 2 leads.\n  because"
        await seat.press("escape")
        await seat.command("quorum")
        await seat.press("w")
        assert "w works in partitions, topics" in seat.notes
        await seat.press("enter")
        assert seat.over == "TextScreen"

    sit(body, source=source)
    whys = [request for request in source.asked if isinstance(request, ask.Why)]
    assert whys == [ask.Why(Place("partitions", "orders"), TopicPartition("orders", 2))]
    assert ask.Describe(TOPICS, "clicks") in source.asked


def test_messages_of_a_topic_or_of_a_partition() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("down", "l")
        assert seat.place == "messages orders"
        assert len(seat.keys) == 3
        await seat.press("l")
        assert "l works in" in seat.notes
        await seat.command("partitions orders")
        await seat.press("down", "l")
        assert seat.keys == []
        await seat.press("escape", "slash")
        await seat.type("key:k2")
        assert seat.keys == ["orders:0:2"]

    sit(body)


def test_runs_of_verify_are_described_and_reported() -> None:
    source = FakeSource()
    (*_, valid) = source.snapshot.runs
    report = ((Part("VALID"),),)
    source.answers = {ask.Report: Answer(ask.Report(valid, 67), lines=report)}

    async def body(seat: Seat) -> None:
        await seat.command("verify")
        assert [key[-2:] for key in seat.keys] == ["40", "30", "20", "10"]
        await seat.press("S")
        assert seat.keys[0].endswith("-20")
        await seat.press("end", "enter")
        assert "judging 20261122T102010-append-10" in seat.notes
        assert (seat.over, seat.text) == ("TextScreen", "VALID")
        await seat.press("escape", "y")
        assert json.loads(seat.text)["verdict"] == "valid"
        await seat.press("escape", "w", "t", "l")
        assert seat.over == ""
        await seat.command("jepsen /elsewhere")
        assert seat.place == "verify /elsewhere"

    sit(body, source=source, size=(80, 24))
    assert [r for r in source.asked if isinstance(r, ask.Report)] == [ask.Report(valid, 67)]


def test_a_transactional_id_tells_why_it_is_refused() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("w")

    place = Place("txns")
    assert sit(body, view=place).asked == [ask.Why(place, "pay-1")]


def test_rows_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def body(seat: Seat) -> None:
        for name in ("a.csv", "a.json", "no/b.csv"):
            await seat.press("ctrl+s")
            assert seat.over == "FormScreen"
            await seat.press("ctrl+u")
            await seat.type(name)
            await seat.press("enter")
        assert "No such file" in seat.notes
        await seat.press("ctrl+s", "escape")
        assert seat.over == ""

    sit(body)
    assert (tmp_path / "a.csv").read_text().splitlines()[1].startswith("clicks,1,2,5")
    assert len(json.loads((tmp_path / "a.json").read_text())["items"]) == 3


def test_a_topic_is_created_grows_and_is_deleted() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("ctrl+n")
        await seat.type("new")
        await seat.press("enter")
        await seat.type("6")
        await seat.press("enter", "enter")
        await seat.type("a=1 b=2")
        await seat.press("enter")
        await seat.press("ctrl+n")
        await seat.press("enter")
        await seat.type("six")
        await seat.press("enter", "enter", "enter")
        assert "six" in seat.notes
        await seat.press("a")
        await seat.type("4")
        await seat.press("enter")
        await seat.type("clicks")
        await seat.press("enter")
        await seat.press("a")
        await seat.press("x", "enter")
        assert "no number of partitions" in seat.notes
        await seat.press("ctrl+d")
        assert "clicks" in seat.text
        await seat.type("clock")
        await seat.press("enter")
        assert seat.over == "ConfirmScreen"
        await seat.press("escape")
        await seat.press("space", "space", "ctrl+d")
        await seat.type("delete 2 topics")
        await seat.press("enter")
        assert seat.over == ""

    assert sit(body).asked == [
        ask.CreateTopic("new", 6, None, {"a": "1", "b": "2"}),
        ask.AddPartitions("clicks", 4),
        ask.DeleteTopics(("clicks", "orders")),
    ]


def test_settings_are_edited_with_a_diff() -> None:
    source = FakeSource()
    entries = source.snapshot.configs["topic/orders"]
    source.answers = {
        ask.ReadConfigs: Answer(ask.ReadConfigs("topic/orders"), value=entries),
    }

    async def body(seat: Seat) -> None:
        await seat.press("e")
        assert seat.over == "EditScreen"
        await seat.type("x=1")
        await seat.press("ctrl+s")
        assert seat.text == "+ x=1"
        await seat.press("y")
        await seat.press("e")
        await seat.press("ctrl+s")
        assert "nothing is different" in seat.notes
        await seat.press("e")
        await seat.press("z", "ctrl+s")
        assert "is no name=value" in seat.notes
        await seat.command("configs topic/orders")
        await seat.press("down", "e")
        assert seat.over == "EditScreen"
        await seat.press("escape")
        await seat.command("brokers")
        await seat.press("e")
        await seat.press("escape")

    sit(body, source=source)
    assert ask.ChangeConfigs("topic/orders", (ConfigChange("x", "1"),)) in source.asked
    assert source.asked[0] == ask.ReadConfigs("topic/clicks")
    assert source.asked[-1] == ask.ReadConfigs("broker/1")


def test_leaders_are_elected_and_brokers_drained() -> None:
    async def body(seat: Seat) -> None:
        for key in ("down", "L", "n", "L", "enter"):
            await seat.press(key)
        await seat.command("partitions orders")
        for key in ("L", "y"):
            await seat.press(key)
        await seat.command("brokers")
        for key in ("D", "1", "enter", "down", "D", "enter"):
            await seat.press(key)

    orders = [TopicPartition("orders", n) for n in range(3)]
    assert sit(body).asked == [
        ask.Elect(tuple(orders)),
        ask.Elect((orders[0],)),
        ask.Drain(1, draining=True),
        ask.Drain(2, draining=False),
    ]


def test_nodes_of_a_cluster_of_up_are_killed_and_mended() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("down", "x")
        assert "SIGKILL" in seat.text
        await seat.press("k")
        assert "broker-2: SIGKILL" in seat.text
        await seat.press("enter", "x", "escape", "x", "z", "p", "n")
        await seat.press("x")
        await seat.pilot.click(seat.app.screen.query_one("Static"), offset=(3, 2))
        await seat.press("y")
        await seat.command("quorum")
        await seat.press("x", "s", "y")
        await seat.command("partitions orders")
        await seat.press("down", "x", "r", "y", "down", "x")
        assert "nobody leads it" in seat.notes

    assert sit(body, view=Place("brokers"), chaos=True).asked == [
        ask.Chaos("kill", "broker-2"),
        ask.Chaos("resume", "broker-2"),
        ask.Chaos("start", "controller-101"),
        ask.Chaos("resume", "broker-2"),
    ]


def test_nodes_of_other_clusters_are_not_ours_to_kill() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("x")
        assert "clusters that quorate up made" in seat.notes
        assert seat.over == ""

    assert sit(body, view=Place("brokers")).asked == []


def test_every_key_is_pressed_by_a_test() -> None:
    here = Path(__file__).parent
    text = "".join((here / name).read_text() for name in ("test_keys.py", "test_past.py"))
    quit_tests = 'await seat.press("ctrl+c")'
    assert quit_tests in text
    for key in KEYS:
        pressed = [name for name in key.keys.split(",") if f'"{name}"' in text]
        assert pressed, f"no test presses {key.shown}"


def test_ctrl_c_quits_from_wherever_one_is() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("question_mark")
        await seat.press("ctrl+c")
        assert seat.app.return_code == 0

    assert sit(body).stopped


def planned(members: int = 0) -> Planned:
    place = TopicPartition("orders", 0)
    change = Change(place, OffsetAndMetadata(40), OffsetAndMetadata(0))
    return Planned("the-cluster", "billing", clusters.group("billing", members=members), (change,))


def test_offsets_are_reset_after_a_preview() -> None:
    source = FakeSource()
    source.answers = {
        ask.PlanReset: Answer(ask.PlanReset("billing", "earliest", ()), value=planned(1))
    }

    async def body(seat: Seat) -> None:
        await seat.press("r")
        await seat.type("earliest")
        await seat.press("enter")
        await seat.press("enter")
        assert seat.over == "ConfirmScreen"
        assert "1 member: it must stop" in seat.text
        assert "orders" in seat.text
        await seat.type("billing")
        await seat.press("enter")
        for key in ("enter", "r", "enter", "enter", "escape"):
            await seat.press(key)
        await seat.command("groups")
        await seat.press("ctrl+d")
        await seat.type("billing")
        await seat.press("enter")

    sit(body, view=Place("groups"), source=source)
    assert source.asked == [
        ask.PlanReset("billing", "earliest", ()),
        ask.Reset(planned(1)),
        ask.PlanReset("billing", "", ("orders:0",)),
        ask.DeleteGroups(("billing",)),
    ]


@pytest.mark.parametrize("key", ["ctrl+n", "a", "e", "ctrl+d", "L"])
def test_a_reader_changes_nothing_and_is_told_how(key: str) -> None:
    async def body(seat: Seat) -> None:
        await seat.press(key)
        assert seat.over == ""
        assert "start with --rw" in seat.notes

    assert sit(body, can_write=False).asked == []


def test_what_goes_wrong_is_told_as_the_command_line_tells_it() -> None:
    problem = Problem("no such thing", "it was never there", "look again", 1)

    async def body(seat: Seat) -> None:
        seat.source.say(Answer(ask.DeleteTopics(("x",)), problem=problem))
        seat.source.say(Answer(ask.DeleteTopics(("y",)), said="deleted topic y"))
        await seat.pilot.pause()
        assert "error: no such thing\nwhy: it was never there\ntry: look again" in seat.notes
        assert "deleted topic y" in seat.notes

    sit(body)


def test_newer_snapshots_keep_the_cursor_on_its_row() -> None:
    async def body(seat: Seat) -> None:
        await seat.press("down")
        fewer = replace(seat.source.snapshot, topics=(clusters.ORDERS, clusters.PAYMENTS))
        seat.source.say(fewer)
        seat.source.say(fewer)
        await seat.pilot.pause()
        assert seat.keys == ["orders", "payments"]
        assert seat.app.main.row is not None
        assert seat.app.main.row.key == "orders"
        assert seat.drawn()[1].startswith("▶  orders")
        seat.source.say(replace(fewer, troubles=("no broker answers",)))
        await seat.pilot.pause()
        assert "no broker answers" in seat.app.main.header_text
        seat.source.say(replace(fewer, topics=()))
        await seat.pilot.pause()
        assert "no topics yet" in seat.drawn()[2]

    sit(body)


def test_whoever_follows_a_topic_at_its_top_stays_there() -> None:
    async def body(seat: Seat) -> None:
        more = (*seat.source.snapshot.records, clusters.record(4, b"new"))
        seat.source.say(replace(seat.source.snapshot, records=more))
        await seat.pilot.pause()
        assert seat.app.main.table.cursor == 0
        assert seat.keys[0] == "orders:0:4"
        await seat.press("down")
        again = (*more, clusters.record(5, b"newer"))
        seat.source.say(replace(seat.source.snapshot, records=again))
        await seat.pilot.pause()
        assert seat.app.main.table.cursor == 2

    sit(body, view=Place("messages", "orders"))


def test_while_nobody_answers_the_screen_says_what_why_and_what_to_try() -> None:
    problem = Problem("no broker at h:1: " + "far " * 20, "NETWORK_EXCEPTION", "quorate up", 4)
    nobody = Snapshot(0, troubles=("no broker answers",), problem=problem)
    source = FakeSource(nobody)

    async def body(seat: Seat) -> None:
        lines = [line.strip() for line in seat.drawn()]
        assert lines[2].startswith("error: no broker at h:1: far far")
        assert lines[3].startswith("far far"), "a long line goes on in the next"
        assert lines[4:8] == [
            "why: NETWORK_EXCEPTION", "try: quorate up", "", "It is asked again every 2 s.",
        ]  # fmt: skip
        assert "read-only" in seat.app.main.subtitle
        await seat.press("down", "w", "enter", "ctrl+n")
        assert seat.over == ""
        seat.source.say(clusters.snapshot())
        await seat.pilot.pause()
        assert seat.keys == ["clicks", "orders", "payments"]
        assert "read-only" not in seat.app.main.subtitle
        await seat.press("ctrl+n")
        assert seat.over == "FormScreen"

    mode = Mode(can_write=False, chaos=True, ours=frozenset({"the-cluster"}))
    sit(body, source=source, mode=mode, size=(80, 24))


def test_only_clusters_that_were_made_here_may_be_changed_without_being_asked_for() -> None:
    ours = Mode(can_write=False, chaos=True, ours=frozenset({"a"}))
    assert ours.toward("a") == Mode(True, chaos=True, ours=ours.ours)
    assert ours.toward("b") == Mode(False, chaos=False, ours=ours.ours)
    asked_for = replace(ours, can_write=True)
    assert asked_for.toward("b").can_write
    assert not asked_for.toward("b").chaos
    assert not ours.toward("").can_write


@pytest.mark.parametrize("size", [(80, 24), (480, 120)])
@pytest.mark.parametrize(
    "view", ["topics", "partitions", "brokers", "quorum", "groups", "txns", "verify"]
)
def test_every_view_fits_every_terminal(view: str, size: tuple[int, int]) -> None:
    async def body(seat: Seat) -> None:
        lines = seat.drawn()
        assert len(lines) == size[1] - 5
        assert all(len(line) <= size[0] - 2 for line in lines)
        assert seat.app.main.table.virtual_size.width <= size[0] - 3

    sit(body, view=Place(view), size=size)
