"""``quorate storage``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.output import Column, Table
from quorate.tools.session import print_table

app = noun_app("Say whose directories are; make ids. Nodes format their directories by themselves.")


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
