"""What commands print; JSON and YAML are promises to programs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table, bytes_text, cell_text, render
from quorate.tools.problems import Problem
from quorate.tools.session import note, say

TABLE = Table(
    "topics",
    (Column("name"), Column("partition_count"), Column("configs", wide_only=True)),
    (("appLogs", 4, {"a": "1"}), ("b", None, {})),
)


def test_a_table_is_aligned_and_leaves_wide_columns_out() -> None:
    assert render(TABLE, "table") == "NAME     PARTITION-COUNT\nappLogs  4\nb        -\n"


def test_columns_stand_below_each_other_whatever_names_are_written_in() -> None:
    rows = (("日本語", 1), ("e\u0301te\u0301", 2), ("plain", 3))
    table = Table("groups", (Column("group"), Column("members")), rows)
    assert render(table, "table").splitlines() == [
        "GROUP   MEMBERS",
        "日本語  1",
        "e\u0301te\u0301     2",
        "plain   3",
    ]


def test_wide_shows_all_columns() -> None:
    assert render(TABLE, "wide").splitlines()[0] == "NAME     PARTITION-COUNT  CONFIGS"


def test_json_says_what_it_holds_and_in_which_version() -> None:
    assert json.loads(render(TABLE, "json")) == {
        "kind": "topics",
        "version": 1,
        "items": [
            {"name": "appLogs", "partition_count": 4, "configs": {"a": "1"}},
            {"name": "b", "partition_count": None, "configs": {}},
        ],
    }


def test_json_lines_hold_one_item_each() -> None:
    assert [json.loads(line)["name"] for line in render(TABLE, "jsonl").splitlines()] == [
        "appLogs", "b",
    ]  # fmt: skip


def test_yaml_quotes_as_json_does() -> None:
    assert render(TABLE, "yaml") == (
        '"kind": "topics"\n"version": 1\n"items":\n'
        '  - "name": "appLogs"\n    "partition_count": 4\n    "configs":\n      "a": "1"\n'
        '  - "name": "b"\n    "partition_count": null\n    "configs": {}\n'
    )


def test_names_are_the_first_column() -> None:
    assert render(TABLE, "name") == "appLogs\nb\n"


def test_no_rows_are_a_heading_or_nothing() -> None:
    empty = Table("topics", TABLE.columns, ())
    assert render(empty, "table") == "NAME  PARTITION-COUNT\n"
    assert render(empty, "name") == ""
    assert render(empty, "yaml").endswith('"items": []\n')


@given(st.lists(st.tuples(st.text(), st.integers()), max_size=5))
def test_json_gives_back_any_text(rows: list[tuple[str, int]]) -> None:
    table = Table("x", (Column("a"), Column("b")), tuple(rows))
    assert [(i["a"], i["b"]) for i in json.loads(render(table, "json"))["items"]] == rows


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (True, "true"), ((1, 2), "1,2"), ([], ""), (1.5, "1.5")]
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_what_a_client_calls_itself_moves_no_cursor_and_makes_no_rows() -> None:
    evil = "g\x1b]0;owned\x07\x9b2J\nmine  Stable"
    table = Table("groups", (Column("group_id"), Column("tags")), ((evil, [evil]),))
    shown = r"g\x1b]0;owned\x07\x9b2J\nmine  Stable"
    assert render(table, "table").splitlines()[1:] == [f"{shown}  {shown}"]
    assert json.loads(render(table, "json"))["items"][0]["group_id"] == evil


def test_what_people_are_told_has_no_control_characters_either(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(GlobalOptions(), "group 'a\x1b[2J'\n\tis empty")
    note(GlobalOptions(), "group 'a\x1b[2J'\n\tis empty")
    lines = Problem(what="no group \x1b[2J", why="", hint="", exit_code=1).lines()
    expected = "group 'a\\x1b[2J'\n\tis empty\n"
    assert capsys.readouterr() == (expected, expected)
    assert lines == [r"error: no group \x1b[2J"]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (4e15, "4000.0 TB")],
)
def test_sizes(size_bytes: float, text: str) -> None:
    assert bytes_text(size_bytes) == text
