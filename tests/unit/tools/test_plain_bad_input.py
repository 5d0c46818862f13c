"""What is plainly wrong on a command line is told as that, before anybody is asked."""

import sys
from pathlib import Path

import pytest
import trio

from quorate.tools import topics
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cli import run_command
from quorate.tools.partitions.moving import parse_rate
from quorate.tools.positions import Anchor, Mark, parse_span
from quorate.tools.problems import UsageError
from quorate.tools.producing import input_descriptor
from quorate.tools.reaching import client_of
from quorate.tools.session import confirm
from quorate.tools.shims.arguments import ShimError, parse
from quorate.tools.shims.topics import TOPICS

NOWHERE = GlobalOptions(bootstrap="127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("topics create t -p 99999999999", "99999999999"),
        ("topics create t -r 99999", "99999"),
        ("topics alter t -p 99999999999", "99999999999"),
        ("topics delete -r [ -y", "'[' is no regular expression"),
        ("topics trim t --before 3:20", "'3:20' is more than a place"),
        ("consume t -o 99999999999999999999", "is no place to read from"),
        ("consume t -o @99999999999999999999", "is no place to read from"),
        ("doctor machine --port 99999", "99999"),
        ("produce t -z br", "there is no compression 'br'"),
        ("bench produce t -z br", "there is no compression 'br'"),
    ],
)
def test_it_is_told_in_three_lines(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*words.split(), "-b", "127.0.0.1:1", "--timeout", "0.1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "try"]
    assert told in lines[0]


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e30G", "0"])
def test_a_rate_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="is no rate"):
        parse_rate(text)


@pytest.mark.parametrize(
    "text", ["9" * 5000, "-" + "9" * 5000, "@" + "9" * 5000, "@-" + "9" * 5000 + "d"]
)
def test_a_place_that_has_too_many_digits(text: str) -> None:
    with pytest.raises(UsageError, match="is no place"):
        parse_span(text, 0)


def test_times_before_1970_are_where_time_begins() -> None:
    assert parse_span("@1960-01-01", 0).start == Mark(Anchor.TIME, 0)
    assert parse_span("@-1h", 0).start == Mark(Anchor.TIME, 0)


def test_without_a_standard_input_nobody_can_be_asked_and_nothing_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="Nobody is there to ask"):
        confirm("Delete t?", yes=False)
    with pytest.raises(UsageError, match="standard input is closed"):
        input_descriptor(None)


def test_a_segment_under_another_name_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("copy.log", "copy.index"):
        (tmp_path / name).write_bytes(b"")
    for words in (("verify", "copy.log"), ("dump", "copy.index")):
        assert run_command(["log", words[0], str(tmp_path / words[1])]) == 1
        assert "has another name than a segment" in capsys.readouterr().err


def test_kafka_topics_refuses_numbers_that_cannot_be_sent() -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--create", "--topic", "t", "--partitions"]
    given = parse([*words, "99999999999"], TOPICS)
    with pytest.raises(ShimError, match="Cannot parse argument '99999999999'"):
        given.number("partitions", 2**31 - 1)
    with pytest.raises(ShimError, match="Cannot parse argument"):
        parse(["--partitions", "9" * 5000], TOPICS).number("partitions")


def test_expressions_are_looked_at_before_topics_are() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        trio.run(lambda: topics.matching(client_of(NOWHERE, {}), ["a", "["], regex=True))
