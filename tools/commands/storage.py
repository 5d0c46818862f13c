"""``quorate storage``."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from quorate.tools.command_line import Command, DryRun, noun_app, options_of
from quorate.tools.output import Column, Table
from quorate.tools.session import print_table

app = noun_app(
    "Format directories, say whose they are, make ids. Nodes also format theirs by themselves."
)


@app.command("info", cls=Command)
def info(
    context: typer.Context,
    *,
    directory: Annotated[
        Path, typer.Option("--dir", help="Of a node, or of quorate up; ./.quorate by default.")
    ] = Path(".quorate"),
) -> None:
    """Show whose a directory is: role, node, cluster, directory id."""
    from quorate.tools.storage import owned_in, owned_table

    print_table(options_of(context), owned_table(owned_in(directory)))


@app.command("format", cls=Command)
def format_directory(
    context: typer.Context,
    *,
    role: Annotated[
        Literal["combined", "controller", "broker"],
        typer.Option("--role", help="What the node is; combined is one of quorate up."),
    ] = "combined",
    cluster_id: Annotated[
        str, typer.Option("-t", "--cluster-id", help="Of the cluster; a new one if it begins here.")
    ] = "",
    node_id: Annotated[int | None, typer.Option("--id", min=0, help="node.id; 1.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="TOML file with node properties.")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", help="Of a controller: host:port; 127.0.0.1:9190.")
    ] = "",
    standalone: Annotated[
        bool, typer.Option("--standalone", help="The cluster begins with this controller.")
    ] = False,
    initial_controllers: Annotated[
        str,
        typer.Option(
            "--initial-controllers",
            help="The cluster begins with these: ID@HOST:PORT:DIRECTORY-ID,...",
        ),
    ] = "",
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="There are controllers: it joins them.")
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="One that is formatted is no error.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Make a node's directory a cluster's, before it starts first.

    What belongs to another cluster or node is refused and left as it is. Say the same initial
    controllers to each of them; each finds its own directory id there.
    """
    from quorate.tools import storage_format as formatting
    from quorate.tools.starting import StartArguments, plan_node

    options = options_of(context)
    begins = (
        (formatting.Begin.ALONE, standalone),
        (formatting.Begin.TOGETHER, bool(initial_controllers)),
        (formatting.Begin.JOINING, no_initial_controllers),
    )
    said = formatting.Said(
        formatting.Role(role),
        cluster_id,
        tuple(begin for begin, is_said in begins if is_said),
        initial_controllers,
    )
    given = {"quorate.controller.listener": listen} if listen else {}
    node = plan_node(options, StartArguments(config, directory, None, node_id, given)).config
    wanted, parts = formatting.plan(said, node, ignore_formatted=ignore_formatted)
    if not dry_run:
        wanted, parts = formatting.carry_out(wanted, parts)
    print_table(options, formatting.parts_table(wanted, parts, dry_run=dry_run))


@app.command("random-uuid", cls=Command)
def random_uuid(context: typer.Context) -> None:
    """Print a new id for a cluster, as Kafka writes them: for controller start --cluster-id."""
    from quorate.quorum.directory import new_cluster_id

    options = options_of(context)
    made = new_cluster_id()
    if options.format in ("json", "jsonl", "yaml"):
        print_table(options, Table("ids", (Column("id"),), ((made,),)))
    else:
        sys.stdout.write(f"{made}\n")
