"""A directory's metadata, printed and walked in."""

import io
import json
from pathlib import Path

import pytest

from quorate.quorum.metadata import records as r
from quorate.tools.arguments import GlobalOptions
from quorate.tools.metadata.browser import Browser, Screen
from quorate.tools.metadata.decided import HEADING, Filter
from quorate.tools.metadata_reading import (
    Directory,
    browse,
    print_records,
    read_records,
    read_root,
)
from quorate.tools.problems import CommandError
from tests.unit.tools.metadata.test_directory import CREATE, SET, command, write_journal

EVERYTHING = Filter()


@pytest.fixture
def source(tmp_path: Path) -> Directory:
    changed = r.ConfigSet("again", 7, "topic", "appLogs", "k", "w")
    write_journal(tmp_path, [command(0, CREATE), command(1, SET), command(2, changed)])
    return Directory(tmp_path)


def printed(source: Directory, wanted: Filter = EVERYTHING, style: str = "table") -> list[str]:
    out = io.StringIO()
    print_records(GlobalOptions(format=style), source, wanted, out, follow=False)
    return out.getvalue().splitlines()


def test_people_get_a_line_a_record_under_a_heading(source: Directory) -> None:
    heading, *lines = printed(source)
    assert heading == HEADING
    assert [line.split()[:2] for line in lines] == [["1", "7"], ["2", "7"], ["3", "7"]]
    assert lines[-1].endswith("# again")


@pytest.mark.parametrize("style", ["json", "jsonl"])
def test_programs_get_an_object_a_line(source: Directory, style: str) -> None:
    records = [json.loads(line) for line in printed(source, style=style)]
    assert [(record["offset"], record["type"]) for record in records] == [
        (1, "TopicCreated"), (2, "ConfigSet"), (3, "ConfigSet"),
    ]  # fmt: skip


def test_only_what_is_wanted_is_printed_and_nothing_at_all_if_nothing_is(
    source: Directory,
) -> None:
    assert len(printed(source, Filter(since_offset=3))) == 2
    assert printed(source, Filter(topic="other")) == []


def test_the_state_and_the_records_that_made_it_can_be_walked_in(
    source: Directory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = Browser(lambda: read_root(source), lambda: read_records(source), Screen())
    typed = "cat /configs/topic/appLogs/k\nrecords /configs\ncat nowhere\nls /quorum\nexit\nls\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    browse(browser, interactive=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "w"
    assert len(shown.out.splitlines()) == 3
    assert shown.err.splitlines() == [
        "nowhere: there is no such place", "/quorum: there is no such place",
    ]  # fmt: skip


def test_where_there_is_no_controller_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no controller's journal"):
        printed(Directory(tmp_path / "none"))
