"""Commands, history, shapes, edits, descriptions: the small decisions."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from quorate.model import TopicPartition
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.groups.resetting import To
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.tui import requests as ask
from quorate.tools.tui.acting import report_lines, reset_target
from quorate.tools.tui.app import help_lines, saved_text, worst_partition
from quorate.tools.tui.main_screen import ClusterScreen, Mode
from quorate.tools.tui.palette import line_of
from quorate.tools.tui.running import is_loopback, local_cluster, place_of, plain_frame
from quorate.tools.tui.views import places, shapes
from quorate.tools.tui.views.cells import Line, Part, Tone
from quorate.tools.tui.views.describing import (
    answers_lines,
    broker_lines,
    document_of,
    lines_of,
    record_lines,
)
from quorate.tools.tui.views.frames import frame_of
from quorate.tools.tui.views.keys import KEYS, footer_of, keys_of
from quorate.tools.tui.views.lens import Lens, look
from quorate.tools.tui.views.places import History, Place, completions, parse_command
from quorate.tools.tui.views.settings import (
    EditError,
    diff_lines,
    differences,
    own_values,
    parse_edited,
)
from quorate.tools.verify_runs import run_of
from quorate.tools.why.answer import Answer
from quorate.tools.why.answer import Line as Fact
from tests.unit.jepsen.report.histories import Maker, made_run
from tests.unit.tools.tui import clusters

SNAPSHOT = clusters.snapshot()


def plain(lines: tuple[Line, ...] | list[Line]) -> list[str]:
    return ["".join(part.text for part in line) for line in lines]


# Commands


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("topics", Place("topics")),
        (":t", Place("topics")),
        ("P orders", Place("partitions", "orders")),
        ("messages orders @-1h", Place("messages", "orders @-1h")),
        ("controllers", Place("quorum")),
        ("c topic/orders", Place("configs", "topic/orders")),
        ("lag billing", Place("offsets", "billing")),
    ],
)
def test_views_have_names_and_shorter_ones(text: str, place: Place) -> None:
    assert parse_command(text).place == place


def test_other_commands_quit_or_help_or_are_wrong() -> None:
    assert parse_command("q").quits
    assert parse_command("?").helps
    assert "did you mean :topics?" in parse_command("topisc").error
    assert "there are topics" in parse_command("xyzzy").error
    assert "TOPIC" in parse_command("messages").error


def test_commands_are_completed_with_what_there_is() -> None:
    assert completions("to", [], [])[0] == "topics"
    assert completions("", [], []) == []
    assert completions("p or", ["clicks", "orders"], []) == ["p orders"]
    assert completions("offsets b", [], ["billing"]) == ["offsets billing"]
    assert completions("configs t", ["orders"], []) == ["configs topic/orders"]
    assert completions("events x", ["x"], []) == []


def test_the_history_goes_back_and_forward_and_forgets_what_lay_ahead() -> None:
    topics, brokers, quorum = Place("topics"), Place("brokers"), Place("quorum")
    history = History((topics,)).went(brokers)
    assert history.back().here == topics
    assert history.back().back().here == topics
    assert history.back().forward().here == brokers
    assert history.forward().here == brokers
    assert history.back().went(quorum).places == (topics, quorum)
    assert history.went(brokers) is history


def test_the_command_line_names_a_place() -> None:
    assert place_of([]) == Place("topics")
    assert place_of(["messages", "orders", "@-1h"]) == Place("messages", "orders @-1h")
    with pytest.raises(UsageError):
        place_of(["nonesuch"])
    with pytest.raises(UsageError):
        place_of(["quit"])


def test_a_directory_of_nobody_makes_nothing_writable(tmp_path: Path) -> None:
    directory = tmp_path
    assert local_cluster(directory) == ("", frozenset())
    (directory / "meta.json").write_text('{"kind": "x", "body": {"cluster_id": "abc"}}')
    (directory / "broker-1").mkdir()
    (directory / "broker-1" / "meta.json").write_text("no json")
    assert local_cluster(directory) == ("", frozenset({"abc"}))


def test_the_directory_of_a_node_stands_for_its_cluster(tmp_path: Path) -> None:
    node = tmp_path / "broker-1"
    node.mkdir()
    (node / "meta.json").write_text('{"cluster_id": "abc"}')
    members = (Member("controller", 101, 9190), Member("broker", 1, 9092))
    ClusterDirectory(tmp_path).write_layout(Layout(members))
    assert local_cluster(node) == local_cluster(tmp_path)
    assert local_cluster(node) == ("127.0.0.1:9092", frozenset({"abc"}))


def test_addresses_of_this_machine() -> None:
    assert is_loopback("127.0.0.1:1,localhost:2,[::1]:3")
    assert not is_loopback("127.0.0.1:1,kafka.example:9092")


# Shapes


def test_durations_have_their_two_largest_units() -> None:
    told = [shapes.duration_text(ms) for ms in (None, 350, 12_000, 185_000, 3_600_000, 187_200_000)]
    assert told == ["-", "350 ms", "12 s", "3 m 5 s", "1 h", "2 d 4 h"]


def test_rates_are_short() -> None:
    told = [shapes.rate_cell(rate).text for rate in (None, 0, 0.5, 12, 3_400, 2_000_000, 5e9)]
    assert told == ["-", "0", "0.5", "12", "3.4k", "2.0M", "5.0G"]


def test_bars_show_a_little_of_what_is_little() -> None:
    def bar(committed: int, end: int, longest: int) -> str:
        return "".join(part.text for part in shapes.log_bar(committed, end, longest, width=4))

    assert bar(100, 100, 100) == "████"
    assert bar(99, 100, 100) == "███▒"
    assert bar(0, 1, 1000) == "▒"
    assert bar(0, 0, 10) == "empty"
    assert bar(-1, -1, 10) == "-"
    assert [shapes.share_bar(n, 8, 1) for n in (0, 1, 4, 8)] == ["", "▏", "▌", "█"]


# Edits


def test_an_edit_is_told_as_a_diff() -> None:
    before = {"a": "1", "b": "2", "c": "3"}
    found = differences(before, parse_edited("# words\na=1\n b = 20\nd=4\n"))
    assert plain(diff_lines(found)) == [
        "- b=2", "+ b=20", "- c=3", "  c goes back to its default", "+ d=4",
    ]  # fmt: skip
    assert [each.change.operation.name for each in found] == ["SET", "DELETE", "SET"]


@pytest.mark.parametrize("text", ["nothing", "=1", "a=1\na=2"])
def test_an_edit_that_cannot_be_read_names_the_line(text: str) -> None:
    with pytest.raises(EditError, match="line"):
        parse_edited(text)


def test_only_what_was_set_on_a_resource_itself_is_edited() -> None:
    entries = {e.name: e for e in (
        clusters.entry("a", "1", 1), clusters.entry("b", "2", 5), clusters.entry("c", "3", 3),
        replace(clusters.entry("p", "secret", 1), is_sensitive=True),
    )}  # fmt: skip
    assert own_values("topic/orders", entries) == {"a": "1"}
    assert own_values("broker/default", entries) == {"c": "3"}
    assert own_values("broker/1", entries) == {}
    assert (
        own_values("topics/orders", entries) == own_values("topic/default", entries) == {"a": "1"}
    )
    assert own_values("brokers", entries) == {"c": "3"}
    assert own_values("group/billing", {"d": clusters.entry("d", "4", 8)}) == {"d": "4"}


def test_a_target_of_a_reset_is_a_word_an_offset_a_shift_or_a_time() -> None:
    assert reset_target("earliest") == {To.EARLIEST: ""}
    assert reset_target(" end ") == {To.LATEST: ""}
    assert reset_target("1200") == {To.OFFSET: "1200"}
    assert reset_target("-10") == {To.SHIFT: "-10"}
    assert reset_target("@-1h") == {To.DATETIME: "-1h"}
    with pytest.raises(UsageError):
        reset_target("somewhere")


# Descriptions


def described(view: str, subject: object, argument: str = "") -> str:
    return "\n".join(lines_of(Place(view, argument), subject, SNAPSHOT, {}))


def test_everything_can_be_described() -> None:
    assert "log end 70, high watermark 60" in described("partitions", TopicPartition("orders", 1))
    assert "not there any more" in described("partitions", TopicPartition("gone", 1))
    assert "all settings are defaults" in described("topics", "orders")
    assert "no topic gone" in described("topics", "gone")
    assert "is behind in\n  orders:2" in described("brokers", 1)
    assert "no broker 9" in described("brokers", 9)
    assert "lag         8" in described("quorum", 103)
    replicas = (clusters.controller(101, "follower", 50, disk_full=True),)
    full = replace(SNAPSHOT, quorum=replace(clusters.quorum(), replicas=replicas))
    told = lines_of(Place("quorum", ""), 101, full, {})
    assert "role        follower, disk full" in told
    assert "reads      orders:0,1" in described("groups", "billing")
    assert "no group gone" in described("groups", "gone")
    assert "What retention.ms means." in described("configs", "retention.ms", "topic/orders")
    assert described("configs", "gone") == "gone"
    assert "DeleteTopics by User:ann" in described("events", SNAPSHOT.events[0])
    assert "offset 1" in described("messages", SNAPSHOT.records[0])


def test_a_record_that_is_json_is_laid_out() -> None:
    assert record_lines(SNAPSHOT.records[0])[-3:] == ["{", '  "a": 1', "}"]
    assert record_lines(SNAPSHOT.records[2])[-1] == "0xff00"
    deep = "[" * 100_000
    assert record_lines(clusters.record(4, deep.encode()))[-1] == deep


def test_a_row_as_a_document_has_numbers_as_numbers() -> None:
    frame = frame_of(Place("topics"), SNAPSHOT)
    document = document_of(frame, frame.rows[0])
    assert (document["name"], document["records"], document["rate/s"]) == ("clicks", 5, None)
    events, messages = (frame_of(Place(v, "orders"), SNAPSHOT) for v in ("events", "messages"))
    assert document_of(events, events.rows[0])["cause"] == "DeleteTopics by User:ann"
    assert document_of(messages, messages.rows[1])["value"] is None


def test_saved_rows_are_csv_or_json() -> None:
    items: list[dict[str, object]] = [{"name": "a", "records": 1}, {"name": "b", "records": None}]
    assert saved_text("topics", items, as_json=False) == "name,records\na,1\nb,-\n"
    assert '"kind": "topics"' in saved_text("topics", items, as_json=True)


def test_an_answer_names_the_record_below_each_fact() -> None:
    answer = Answer("Broker 2 leads.", (Fact("1 died", 41, 0),), "start broker 1")
    assert plain(answers_lines([answer])) == [
        "Broker 2 leads.", "  1 died", "    metadata@41  1970-01-01T00:00:00.000Z",
        "  try: start broker 1",
    ]  # fmt: skip
    assert "Nothing is written" in plain(broker_lines(4, []))[0]
    assert "no time is known" in plain(broker_lines(4, [Fact("came", 1, None)]))[2]


def test_a_topic_is_asked_why_by_its_worst_partition() -> None:
    assert worst_partition(SNAPSHOT, "orders") == TopicPartition("orders", 2)
    assert worst_partition(SNAPSHOT, "gone") == TopicPartition("gone", 0)
    assert worst_partition(None, "gone") == TopicPartition("gone", 0)


# Keys


def test_every_key_is_in_the_help_and_has_one_meaning() -> None:
    text = "\n".join(plain(help_lines(ClusterScreen(Place("topics"), Mode(can_write=False)))))
    for key in KEYS:
        assert key.shown in text
        assert key.meaning in text
    assert "needs --rw" in text
    keys = [key.keys for key in KEYS]
    assert len(keys) == len(set(keys))


def test_a_reader_is_not_offered_what_writes() -> None:
    assert ("ctrl-n", "create") in footer_of("topics", can_write=True)
    assert ("ctrl-n", "create") not in footer_of("topics", can_write=False)
    assert all(not key.writes for key in keys_of("groups", can_write=False))


def test_one_frame_as_text() -> None:
    text = plain_frame(SNAPSHOT, look(frame_of(Place("topics"), SNAPSHOT), Lens("clicks"), 200))
    assert text.splitlines()[0].startswith(" quorate  the-cluster  controller 102 term 7")
    assert [line.split()[0] for line in text.splitlines()[3:]] == ["NAME", "clicks"]
    nothing = plain_frame(SNAPSHOT, look(frame_of(Place("topics"), SNAPSHOT), Lens("xyz"), 200))
    assert nothing.endswith("nothing matches xyz\n")


def test_no_tone_stands_alone() -> None:
    frame = frame_of(Place(places.TOPICS), SNAPSHOT)
    states = [row.cells[6] for row in frame.rows]
    assert {cell.tone for cell in states} == {Tone.GOOD, Tone.BAD}
    assert all(cell.text[0] in "●▲✗" for cell in states)


# Reports of runs


def test_a_report_has_the_words_and_the_tones_that_verify_report_prints(tmp_path: Path) -> None:
    made = made_run(tmp_path, Maker(8, 12, 100, lost=1))
    lines = report_lines(GlobalOptions(), ask.Report(run_of(made), 71))
    told = plain(lines)
    assert told[0] == made.name
    assert max(map(len, told[:-1])) <= 71
    tones = {"".join(p.text for p in line): line[0].tone for line in lines if line}
    assert tones["INVALID: safety"] is Tone.BAD
    assert tones[made.name] is Tone.STRONG
    made.history.unlink()
    with pytest.raises(CommandError, match="has no history"):
        report_lines(GlobalOptions(), ask.Report(run_of(made), 71))


def test_a_text_in_colors_becomes_one_in_tones() -> None:
    text = Text("ab", "dim").append("cd", "bold yellow").append("ef")
    assert line_of(text) == (
        Part("ab", Tone.DIM), Part("cd", Tone.WARN), Part("ef", Tone.DIM),
    )  # fmt: skip
    assert line_of(Text("")) == ()
