"""What may be written where: options of all commands, other names, groups."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from quorate.tools.arguments import GlobalOptions
from quorate.tools.cli import COMMANDS, app, run_command
from quorate.tools.clusters.layout import Layout, Member, encode
from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.nearby import LAYOUT_NAME
from quorate.tools.problems import UsageError

things = noun_app("Do things.")
seen: list[tuple[GlobalOptions, dict[str, Any]]] = []


@things.command("list", cls=Command)
def list_things(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    *,
    count: Annotated[int | None, typer.Option("--count", "-n", help="100 %", min=1)] = None,
    config: Annotated[list[str] | None, typer.Option("--config", "-c")] = None,
    secret: Annotated[bool, typer.Option("--secret", hidden=True)] = False,
    rate: Annotated[float, typer.Option("--rate", min=0.5, max=1000)] = 1.0,
    path: Annotated[Path | None, typer.Option("--path")] = None,
) -> None:
    """List things."""
    assert rate >= 0.5
    own = {"names": names, "count": count, "config": config, "secret": secret, "path": path}
    seen.append((options_of(context), own))


def run(*words: str) -> tuple[GlobalOptions, dict[str, Any]]:
    command: Any = typer.main.get_command(things)
    # A noun has a parent, whose other names are those of nouns.
    parent = typer.main.get_command(app).make_context("quorate", ["x"], resilient_parsing=True)
    with command.make_context("things", list(words), parent=parent) as context:
        command.invoke(context)
    return seen.pop()


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run_command(list(words))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_types_say_what_words_become() -> None:
    assert run("list", "a", "-n", "3", "b", "-c", "x=1", "--config=y=2", "--path", "p/q")[1] == {
        "names": ["a", "b"], "count": 3, "config": ["x=1", "y=2"], "secret": False,
        "path": Path("p/q"),
    }  # fmt: skip
    assert set(run("list")[1].values()) == {None, False}


def test_a_value_may_begin_with_a_dash() -> None:
    assert run("list", "-c", "-x", "--config", "--y")[1]["config"] == ["-x", "--y"]


def test_options_of_all_commands_may_stand_anywhere() -> None:
    for words in (["-b", "h:1", "list", "--json"], ["list", "--json", "a", "-b", "h:1"]):
        options = run(*words)[0]
        assert (options.bootstrap, options.format) == ("h:1", "json")


def test_the_innermost_of_options_holds_and_lists_are_joined() -> None:
    options = run("-b", "outer", "-X", "a=1", "list", "-b", "inner", "-X", "b=2", "-X", "c=3")[0]
    assert options.bootstrap == "inner"
    assert options.properties == ("a=1", "b=2", "c=3")


def test_what_is_not_said_comes_from_the_environment_or_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUORATE_CONTROLLERS", "c:1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run("list")[0] == GlobalOptions(bootstrap="", controllers="c:1")
    assert run("list", "-C", "d:1")[0].controllers == "d:1"


def test_verbs_have_other_names() -> None:
    assert run("ls", "a")[1]["names"] == ["a"]


@pytest.mark.parametrize(
    "words", [(), ("--json",), ("--port", "1"), ("machine",), ("-q", "machine")]
)
def test_a_doctor_who_is_told_nothing_looks_at_this_machine(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "open files" in told(capsys, "doctor", *words)[1]


def test_a_doctor_is_asked_for_help_and_for_what_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "connect" in told(capsys, "doctor", "--help")[1]
    assert "machine" in told(capsys, "doctor", "machin")[1]


def test_a_verb_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="did you mean list"):
        run("lsit")
    with pytest.raises(UsageError, match="there are list"):
        run("xyzzy")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["version", "--timeout", "0"], "0.001"),
        (["version", "--timeout", "ten"], "ten"),
        (["version", "--timeout", "nan"], "nobody can wait for nan s"),
        (["version", "--timeout", "inf"], "nobody can wait for inf s"),
        (["version", "--timeout", "1e300"], "nobody can wait"),
        (["version", "--fromat", "json"], "--format"),
        (["version", "--form", "json"], "--form"),
        (["version", "--timeout"], "requires an argument"),
        (["version", "more"], "more"),
        (["topics", "trim", "--before", "-5"], "TOPIC"),
        (["topics", "trim", "t"], "--before"),
        (["topics", "-q"], "Missing command"),
    ],
)
def test_what_does_not_fit_is_told_in_three_lines(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, *words)
    assert code == 2
    lines = text.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "try"]
    assert what in lines[0]
    assert lines[2].endswith("--help")


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "NaN"])
def test_what_is_no_number_is_in_no_range(word: str) -> None:
    with pytest.raises((UsageError, typer.BadParameter)):
        run("list", "--rate", word)


def test_help_shows_what_is_common_apart_and_no_hidden_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit):
        run("list", "--help")
    own, _, common = capsys.readouterr().out.partition("Options of all commands:")
    assert "100 %" in own
    assert "--bootstrap-server" not in own
    assert "--bootstrap-server" in common
    assert "--secret" not in own


def test_the_help_of_a_noun_has_the_first_sentence_of_each_verb_as_a_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in COMMANDS:
        module: Any = importlib.import_module(f"quorate.tools.commands.{name}")
        command: Any = typer.main.get_command(module.app)
        text = " ".join(told(capsys, name, "--help")[1].split())
        for one in getattr(command, "commands", {}).values():
            assert " ".join(one.help.split("\n\n")[0].split()).split(". ")[0] in text


def test_every_command_has_a_sentence_of_help_and_options_of_different_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in COMMANDS:
        module: Any = importlib.import_module(f"quorate.tools.commands.{name}")
        command: Any = typer.main.get_command(module.app)
        commands = getattr(command, "commands", {"": command})
        assert commands
        for verb, one in commands.items():
            code, text = told(capsys, name, *verb.split(), "--help")
            assert code == 0
            assert one.help.splitlines()[0][:40] in text
            context = one.make_context("x", [], resilient_parsing=True)
            names = [option for parameter in one.get_params(context) for option in parameter.opts]
            assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("quorate to", ["topics"]),
        ("quorate topic des", ["describe"]),
        ("quorate kafka-t", ["kafka-topics", "kafka-transactions"]),
        ("quorate kafka-topics --part", ["--partition-size-limit-per-response", "--partitions"]),
        ("quorate kafka-topics --bootstrap-server localhost:9092 --li", ["--list"]),
        ("quorate chaos kill broker", ["broker-1", "broker-2"]),
        ("quorate chaos kill --dir none broker", []),
        ("quorate verify run app", ["append"]),
        ("quorate verify run append --faults kill,pau", ["kill,pause"]),
    ],
)
def test_shells_are_told_how_words_go_on(
    line: str, expected: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    members = [Member("controller", 101, 1), Member("broker", 1, 2), Member("broker", 2, 3)]
    (tmp_path / ".quorate").mkdir()
    (tmp_path / ".quorate" / LAYOUT_NAME).write_text(encode(Layout(tuple(members))))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_QUORATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    code, text = told(capsys)
    assert (code, text.split()) == (0, expected)
