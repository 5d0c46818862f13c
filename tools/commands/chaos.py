"""``quorate chaos``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.session import confirm, print_table, run, say

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions

app = noun_app("Kill, pause, resume and start nodes of a cluster of quorate up.")

DEFAULT_DIRECTORY = Path(".quorate")

Node = Annotated[str, typer.Argument(help="2, broker-2, controller-101: see quorate chaos list.")]
Directory = Annotated[
    Path, typer.Option("--dir", help="Where the cluster's data is; ./.quorate by default.")
]
Force = Annotated[bool, typer.Option("--force", help="Even if no majority of controllers is left.")]


@app.command("list", cls=Command)
def list_nodes(context: typer.Context, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """List the nodes: their processes, and how they are."""
    from quorate.tools.chaos_work import states
    from quorate.tools.clusters.chaos import nodes_table

    print_table(options_of(context), nodes_table(states(directory)))


def _add_breaking(action: str, meaning: str) -> None:
    """Add something to do to a node that takes it away from the others: it asks before."""

    def breaking(
        context: typer.Context,
        node: Node,
        *,
        directory: Directory = DEFAULT_DIRECTORY,
        yes: Yes = False,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> None:
        confirm(f"{action.capitalize()} {node} of {directory}?", yes=yes or dry_run)
        _act(options_of(context), directory, action, node, force=force, dry_run=dry_run)

    app.command(action, cls=Command, help=meaning)(breaking)


def _add_mending(action: str, meaning: str) -> None:
    """Add something that brings a node back: nobody needs to be asked."""

    def mending(
        context: typer.Context,
        node: Node,
        *,
        directory: Directory = DEFAULT_DIRECTORY,
        dry_run: DryRun = False,
    ) -> None:
        _act(options_of(context), directory, action, node, force=True, dry_run=dry_run)

    app.command(action, cls=Command, help=meaning)(mending)


def _act(
    options: "GlobalOptions",
    directory: Path,
    action: str,
    node: str,
    *,
    force: bool,
    dry_run: bool,
) -> None:
    from quorate.tools.chaos_work import act

    say(options, run(act, directory, action, node, force=force, dry_run=dry_run))


_add_breaking("kill", "Kill a node with SIGKILL: it is gone at once, and says good-bye to nobody.")
_add_breaking(
    "pause",
    "Stop a node with SIGSTOP: it hangs, with its connections open, which is worse than dying.",
)
_add_mending("resume", "Let a paused node go on.")
_add_mending(
    "start", "Start a node that was killed, and all others that do not run, as quorate up does."
)
