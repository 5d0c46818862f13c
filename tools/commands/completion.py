"""``quorate completion``."""

import sys
from enum import StrEnum
from typing import Annotated

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
    epilog="Examples: source <(quorate completion bash);"
    " quorate completion bash >> ~/.bashrc;"
    " quorate completion zsh > ~/.zfunc/_quorate (with fpath+=~/.zfunc before compinit);"
    " quorate completion fish > ~/.config/fish/completions/quorate.fish",
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print what a shell needs to complete commands and options at the tab key.

    It asks quorate itself, which looks at no cluster for that.
    """
    from typer.completion import get_completion_script

    variable = f"_{PROGRAM.upper()}_COMPLETE"
    script = get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell.value)
    sys.stdout.write(script.strip() + "\n")
