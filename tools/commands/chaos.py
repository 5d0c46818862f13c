"""``quorate chaos``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.completing import node_names
from quorate.tools.session import confirm, print_table, run, say

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions

app = noun_app("Kill, pause, cut off, slow down, heal nodes of a cluster of quorate up.")

DEFAULT_DIRECTORY = Path(".quorate")

Node = Annotated[
    str,
    typer.Argument(
        help="2, broker-2, controller-101: see quorate chaos list.", autocompletion=node_names
    ),
]
Directory = Annotated[Path, typer.Option("--dir", help="Where the cluster's data is.")]
Force = Annotated[bool, typer.Option("--force", help="Even if no majority of controllers is left.")]


@app.command("list", cls=Command)
def list_nodes(context: typer.Context, *, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """List the nodes: their processes, and how they are."""
    from quorate.tools.chaos_work import faults_by_name, states
    from quorate.tools.clusters.chaos import nodes_table

    print_table(options_of(context), nodes_table(states(directory), faults_by_name(directory)))


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


@app.command("skew", cls=Command)
def skew(
    context: typer.Context,
    node: Node,
    *,
    by: Annotated[
        str, typer.Option("--by", help="10m ahead, or -1h behind; 0s is right again.")
    ] = "0s",
    rate: Annotated[
        float, typer.Option("--rate", min=0.001, max=1000, help="So many times as fast.")
    ] = 1.0,
    directory: Directory = DEFAULT_DIRECTORY,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Set a node's wall clock wrong, in a cluster of quorate up --chaos.

    Only this node sees that time. With a clock that is far ahead, retention may delete records.
    """
    from quorate.tools.chaos_work import break_below
    from quorate.tools.clusters.chaos import Faults, parse_shift

    ahead_ms = parse_shift(by)

    def change(faults: Faults) -> Faults:
        return replace(faults, ahead_ms=ahead_ms, rate=rate)

    confirm(f"Set the clock of {node} of {directory} wrong?", yes=yes or dry_run)
    say(options_of(context), break_below(directory, node, change, dry_run=dry_run))


@app.command("slow-disk", cls=Command)
def slow_disk(
    context: typer.Context,
    node: Node,
    *,
    by: Annotated[
        str, typer.Option("--by", help="How much longer a sync takes: 500ms; 0s for none.")
    ] = "500ms",
    directory: Directory = DEFAULT_DIRECTORY,
    dry_run: DryRun = False,
) -> None:
    """Let each sync of a node's disk take longer, in a cluster of quorate up --chaos.

    Controllers sync before they answer; brokers where flush.messages says so, or a segment ends.
    """
    from quorate.tools.chaos_work import break_below
    from quorate.tools.clusters.chaos import Faults, parse_delay

    delay_ms = parse_delay(by)

    def change(faults: Faults) -> Faults:
        return replace(faults, sync_delay_ms=delay_ms)

    say(options_of(context), break_below(directory, node, change, dry_run=dry_run))


@app.command("partition", cls=Command)
def partition(
    context: typer.Context,
    nodes: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE...", help="These, from all others.", autocompletion=node_names
        ),
    ],
    *,
    directory: Directory = DEFAULT_DIRECTORY,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Cut nodes off from all others, in a cluster of quorate up --chaos; clients reach all.

    It is as if a firewall rejected: connections between them break, and none can be made.
    """
    from quorate.tools import chaos_work as work

    confirm(f"Cut {' '.join(nodes)} of {directory} off from others?", yes=yes or dry_run)
    for line in work.partition(directory, nodes, dry_run=dry_run):
        say(options_of(context), line)


@app.command("heal", cls=Command)
def heal(
    context: typer.Context,
    node: Annotated[
        str | None,
        typer.Argument(help="This one; all, if none is named.", autocompletion=node_names),
    ] = None,
    *,
    directory: Directory = DEFAULT_DIRECTORY,
    dry_run: DryRun = False,
) -> None:
    """Undo it all: clocks right, disks quick, links whole; who is paused or dead runs again."""
    from quorate.tools import chaos_work as work

    for line in run(work.heal, directory, node, dry_run=dry_run):
        say(options_of(context), line)
