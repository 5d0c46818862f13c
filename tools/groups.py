"""Command groups whose verbs have other names too: ls, rm, desc."""

from typing import Any

import typer
from typer.core import TyperGroup

from quorate.tools.arguments import VERBS


class AliasGroup(TyperGroup):
    """A noun's verbs."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name or another name of it."""
        return super().get_command(ctx, VERBS.get(cmd_name, cmd_name))


def noun(meaning: str) -> typer.Typer:
    """Return the group of a noun."""
    return typer.Typer(
        cls=AliasGroup,
        help=meaning,
        no_args_is_help=True,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def verb() -> typer.Typer:
    """Return what holds a single command that is no group."""
    return typer.Typer(
        add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
