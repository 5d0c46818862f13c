"""Every command shows examples in its help, and they are such as it understands."""

import shlex
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from typing import Any

import pytest
import typer

from quorate.tools.cli import COMMANDS, app, run_command
from quorate.tools.examples import EXAMPLES


def commands() -> Iterator[tuple[str, Any]]:
    """Give every command that is shown, by its words."""
    top: Any = typer.main.get_command(app)
    waiting = [(name, top.get_command(None, name)) for name in COMMANDS]
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            waiting += [(f"{path} {name}", one) for name, one in inner.items() if not one.hidden]


FOUND = dict(commands())
PATHS = sorted(FOUND)


def test_whoever_asks_can_also_be_asked_what_would_happen() -> None:
    options = {
        path: {word for parameter in command.params for word in parameter.opts}
        for path, command in FOUND.items()
    }
    asking = {path for path, words in options.items() if "--yes" in words}
    assert {path for path in asking if "--dry-run" not in options[path]} == set()


@pytest.mark.parametrize("path", PATHS)
def test_a_command_shows_its_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*path.split(), "--help"]) == 0
    _, _, rest = capsys.readouterr().out.partition("Examples:\n")
    assert rest.startswith("  "), f"give an example of {path} in tools/examples.py"
    assert "quorate " in rest.splitlines()[0]


def test_there_are_examples_of_commands_only() -> None:
    assert set(EXAMPLES) == set(PATHS)


def understood(words: list[str]) -> str:
    """Return the command that words name, all of which it understands."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("quorate", words)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, words, parent=context)
    return str(context.command_path).removeprefix("quorate ")


@pytest.mark.parametrize(
    ("path", "line"), [(path, line) for path, lines in EXAMPLES.items() for line in lines]
)
def test_an_example_is_a_line_that_its_command_understands(path: str, line: str) -> None:
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    said = dropwhile(lambda word: word != "quorate", words)
    plain = list(takewhile(lambda word: word not in {"|", "<", ">", ">>", ")"}, said))
    assert understood(plain[1:]) == path
