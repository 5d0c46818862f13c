"""Functions as commands: what may be written where."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import pytest

from quorate.tools.cli import COMMANDS, read_globals
from quorate.tools.command_line import (
    Argument,
    Noun,
    hidden,
    join_values,
    option,
    parameters_of,
    parse,
    parser_of,
    split_first,
)
from quorate.tools.problems import UsageError

GLOBALS = list(parameters_of(read_globals))


def command(
    options: object,
    names: Annotated[list[str] | None, Argument("NAME")] = None,
    *,
    count: Annotated[int | None, option("--count", "-n", help="100 %", low=1, high=9)] = None,
    config: Annotated[list[str] | None, option("--config", "-c", help="")] = None,
    loud: Annotated[bool, option("--loud", help="")] = False,
    secret: Annotated[bool, hidden("--secret")] = False,
    path: Annotated[Path | None, option("--path", help="")] = None,
) -> None:
    """Do something."""


def needing(options: object, name: Annotated[str, Argument("NAME")], *,
            before: Annotated[str, option("--before", help="")]) -> None:  # fmt: skip
    """Need things."""


def parsed(*words: str) -> dict[str, Any]:
    return parse("thing do", command, words, GLOBALS)[0]


def test_types_say_what_words_become() -> None:
    found = parsed("a", "-n", "3", "b", "-c", "x=1", "--config=y=2", "--loud", "--path", "p/q")
    assert found == {
        "names": ["a", "b"], "count": 3, "config": ["x=1", "y=2"], "loud": True, "secret": False,
        "path": Path("p/q"),
    }  # fmt: skip


def test_what_is_not_written_has_the_default_of_the_function() -> None:
    assert parsed()["count"] is None
    assert parsed()["config"] is None


def test_a_value_may_begin_with_a_dash() -> None:
    assert parsed("-c", "-x", "--config", "--y")["config"] == ["-x", "--y"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "0"], "not between 1 and 9"),
        (["-n", "ten"], "no number"),
        (["--cuont", "1"], "--cuont"),
        (["--coun", "1"], "--coun"),
        (["-n"], "expected one argument"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parsed(*words)


def test_what_has_no_default_must_be_written() -> None:
    assert parse("x", needing, ["a", "--before", "-5"], GLOBALS)[0] == {
        "name": "a",
        "before": "-5",
    }
    for words in (["a"], ["--before", "1"]):
        with pytest.raises(UsageError, match="required"):
            parse("x", needing, words, GLOBALS)


def test_global_options_may_stand_anywhere() -> None:
    before, name, rest = split_first(["-b", "h:1", "topics", "list", "-q"], GLOBALS)
    assert (before, name, rest) == (["-bh:1"], "topics", ["list", "-q"])
    own, common = parse("thing", command, ["a", "-b", "h:1", "--json", "b"], GLOBALS)
    assert own["names"] == ["a", "b"]
    assert (common["bootstrap_server"], common["json"]) == ("h:1", True)


def test_a_command_line_of_options_alone_names_no_command() -> None:
    assert split_first(["--help", "--debug"], GLOBALS) == (["--help", "--debug"], None, [])


def test_nothing_is_joined_behind_two_dashes() -> None:
    assert join_values(["-n", "1", "--", "-n", "1"], list(parameters_of(command))) == [
        "-n1", "--", "-n", "1",
    ]  # fmt: skip


def test_help_shows_percent_signs_and_no_hidden_options() -> None:
    text = parser_of("thing", command, GLOBALS)[0].format_help()
    assert "100 %" in text
    assert "--secret" not in text
    assert "options of all commands" in text


def test_every_command_can_be_parsed_and_has_a_sentence_of_help() -> None:
    for name in COMMANDS:
        module: Any = importlib.import_module(f"quorate.tools.commands.{name}")
        noun: Noun = module.NOUN
        functions = [noun.alone] if noun.alone else list(noun.verbs.values())
        assert functions
        for function in functions:
            text = parser_of(name, function, GLOBALS)[0].format_help()
            assert (function.__doc__ or "").splitlines()[0] in text
