"""``quorate status``."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.problems import ProblemFoundError
from quorate.tools.session import names_a_cluster, note, print_table, run

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.clusters.picture import Picture

app = command_app()


@app.command(cls=Command)
def status(
    context: typer.Context,
    *,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is; ./.quorate by default.")
    ] = None,
) -> None:
    """Show a cluster that quorate up made, or one named by -b: who leads, what is in sync.

    Exit code 3 if something is not as it should be.
    """
    from quorate.tools.cluster_directory import cluster_around
    from quorate.tools.nearby import DEFAULT_DIRECTORY

    options = options_of(context)
    home = cluster_around(directory or DEFAULT_DIRECTORY)
    if directory is None and (not home.exists or names_a_cluster(options, os.environ)):
        _as_brokers_say(options)
        return

    from quorate.tools.cluster_looking import status as look
    from quorate.tools.clusters.picture import status_lines, status_table

    picture: Picture = run(look, home)
    if options.format not in {"table", "wide"}:
        print_table(options, status_table(picture))
    elif sys.stdout.isatty():
        from rich.console import Console

        from quorate.tools.clusters.screen import screen

        Console(highlight=False, no_color=not options.color).print(screen(picture))
    else:
        print("\n".join(status_lines(picture)))
    if not picture.is_good:
        raise _problem(picture)


def _as_brokers_say(options: "GlobalOptions") -> None:
    """Show a cluster that may have been started in any way, and anywhere."""
    from quorate.tools import brokers_work as work
    from quorate.tools.arguments import glancing
    from quorate.tools.clusters.health import health_lines
    from quorate.tools.topic_options import client_of

    status: work.ClusterStatus = run(work.cluster_status, client_of(glancing(options)))
    print_table(options, status.brokers)
    note(options, health_lines(status.health))
    if status.problems:
        raise ProblemFoundError(
            "the cluster is not as it should be",
            why="; ".join(status.problems),
            hint="see quorate partitions list, and quorate brokers describe",
        )


def _problem(picture: "Picture") -> ProblemFoundError:
    from quorate.tools.clusters.picture import problems

    missing = len(picture.nodes) - picture.running
    other = "make room on these disks" if picture.look.full else "see the logs in its directory"
    return ProblemFoundError(
        "the cluster is not as it should be",
        why="; ".join(problems(picture)),
        hint="quorate up starts what is missing" if missing else other,
    )
