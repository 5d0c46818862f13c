"""``quorate connect``: files to topics, topics to SQLite."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.problems import CommandError
from quorate.tools.session import note, print_table, run

if TYPE_CHECKING:
    from quorate.client.connecting import Status

app = noun_app("Carry lines of files to topics, and records of topics to SQLite, exactly once.")

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to carry.")]


@app.command("run", cls=Command)
def run_file(
    context: typer.Context,
    config: Config,
    *,
    once: Annotated[bool, typer.Option("--once", help="Carry what there is now, and end.")] = False,
) -> None:
    """Run the connectors of a file until interrupted. Exit code 1 if one failed for good.

    What they say is on standard error; at the end a table tells what each has carried.
    """
    from quorate.tools.connect_work import read_config, run_until_told, statuses_table
    from quorate.tools.reaching import client_of

    options = options_of(context)
    read = read_config(config)
    environment = dict(os.environ)
    if read.bootstrap is not None:
        environment["QUORATE_BOOTSTRAP"] = read.bootstrap
    client = client_of(options, environment)
    statuses: list[Status] = []

    def tell(name: str, text: str) -> None:
        note(options, f"{name}: {text}")

    run(run_until_told, read, client, once=once, tell=tell, statuses=statuses)
    print_table(options, statuses_table(statuses))
    failed = [status for status in statuses if status.state == "failed"]
    if failed:
        names = ", ".join(status.name for status in failed)
        raise CommandError(
            f"failed: {names}",
            why=failed[0].error,
            hint="what was carried is remembered: run it again",
        )


@app.command("check", cls=Command)
def check(context: typer.Context, config: Config) -> None:
    """Check a file, and show the connectors in it; nothing is connected."""
    from quorate.tools.connect_work import connectors_table, read_config

    print_table(options_of(context), connectors_table(read_config(config)))
