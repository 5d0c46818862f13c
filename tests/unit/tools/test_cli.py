"""The quorate command, as far as it needs no node."""

from pathlib import Path

import pytest

from quorate import __version__
from quorate.tools.cli import run_command


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_command(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"], ["-h"]):
        code, out, _ = told(capsys, *words)
        assert code == 0
        assert "quorate up starts a node" in out


def test_the_version_can_be_asked_for_in_two_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--version") == (0, f"quorate {__version__}\n", "")
    code, out, _ = told(capsys, "version")
    assert (code, out.split()[:2]) == (0, ["quorate", __version__])


def test_a_noun_alone_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "topic")
    assert code == 2
    assert "  describe " in out
    assert told(capsys, "topics", "--help")[0] == 0


def test_help_of_a_verb_shows_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "topics", "ls", "--help")
    assert code == 0
    assert "Usage: quorate topics list" in out


@pytest.mark.parametrize(
    ("words", "near"),
    [(["topcis"], "topics"), (["topics", "descrbe"], "describe"), (["xyzzy"], "there are")],
)
def test_a_misspelt_command_is_answered_with_the_nearest(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, *words)
    assert (code, out) == (2, "")
    assert near in err


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["topics", "create", "t", "--partition", "3"], "--partitions"),
        (["topics", "list", "--formt", "json"], "--format"),
        (["consume", "t", "--from-begining"], "--from-beginning"),
        (["groups", "reset", "g", "--to-earlist"], "--to-earliest"),
        (["up", "--broker", "3"], "--brokers"),
        (["tui", "--onec"], "--once"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, *words)
    assert (code, out) == (2, "")
    assert near in err.splitlines()[0]
    assert "Traceback" not in err


def test_an_error_says_what_why_and_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "topics", "list", "--zookeeper", "localhost:2181")
    assert code == 2
    assert [line.split(":")[0].strip() for line in err.splitlines()] == ["error", "why", "try"]


def test_no_traceback_without_debug(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["log", "verify", "/does/not/exist"]
    assert "Traceback" not in told(capsys, *words)[2]
    code, _, err = told(capsys, *words, "--debug")
    assert code == 1
    assert "Traceback" in err


def test_an_unknown_format_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "version", "--format", "xml")
    assert code == 2
    assert "jsonl" in err


def test_a_broker_that_is_not_there_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    # Port 1 on loopback: nobody listens there.
    code, _, err = told(capsys, "topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.2")
    assert code == 4
    assert "NETWORK_EXCEPTION" in err


def test_destruction_without_anybody_to_ask_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        code, _, err = told(capsys, "topics", "delete", "t")
    assert code == 2
    assert "--yes" in err
