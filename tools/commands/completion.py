"""``quorate completion``."""

import importlib
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from quorate.tools.command_line import PROGRAM, Command, command_app

app = command_app()


class Shell(StrEnum):
    """The shells that can be told."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(
    cls=Command,
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print what a shell needs to complete commands and options at the tab key.

    It asks quorate itself, which looks at no cluster for that.
    """
    typers: Any = importlib.import_module("typer.completion")
    variable = f"_{PROGRAM.upper()}_COMPLETE"
    script = typers.get_completion_script(
        prog_name=PROGRAM, complete_var=variable, shell=shell.value
    )
    sys.stdout.write(script.strip() + "\n")
