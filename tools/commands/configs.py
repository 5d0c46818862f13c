"""``quorate configs``."""

from typing import Annotated

import typer

from quorate.tools import configs as work
from quorate.tools.arguments import parse_properties
from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.output import Column, Table
from quorate.tools.problems import EXIT_PROBLEM_FOUND, UsageError
from quorate.tools.session import print_table, run, say
from quorate.tools.topic_options import client_of

app = noun_app("Show and change configurations of topics, brokers and groups.")

Resource = Annotated[
    str,
    typer.Argument(
        metavar="TYPE/NAME", help="topic/appLogs, group/billing, broker/1, broker/default"
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check.")]


@app.command("describe", cls=Command)
def describe(
    context: typer.Context,
    resource: Resource,
    *,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Defaults too.")] = False,
) -> None:
    """Show what was set; --format wide says what it means."""
    options = options_of(context)
    run(
        work.describe,
        options,
        client_of(options),
        work.parse_resource(resource),
        everything=everything,
    )


@app.command("get", cls=Command)
def get(
    context: typer.Context, resource: Resource, name: Annotated[str, typer.Argument(metavar="KEY")]
) -> None:
    """Print one value."""
    options = options_of(context)
    value = run(work.get, client_of(options), work.parse_resource(resource), name)
    if options.format in ("json", "jsonl", "yaml"):
        columns = (Column("resource"), Column("name"), Column("value"))
        print_table(options, Table("config_values", columns, ((resource, name, value),)))
    else:
        print(value)


@app.command("diff", cls=Command)
def diff(
    context: typer.Context,
    resource: Resource,
    other: Annotated[
        str, typer.Argument(metavar="[TYPE/NAME]", help="Another one; the defaults.")
    ] = "",
    *,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 3 if anything differs.")
    ] = False,
) -> None:
    """Show where a configuration differs from another one, or from the defaults."""
    options = options_of(context)
    second = work.parse_resource(other) if other else None
    table = run(work.differences, client_of(options), work.parse_resource(resource), second)
    if table.rows or options.format not in {"table", "wide"}:
        print_table(options, table)
    else:
        say(options, f"{resource} does not differ from {other or 'the defaults'}")
    if exit_code and table.rows:
        raise typer.Exit(EXIT_PROBLEM_FOUND)


@app.command("set", cls=Command)
def set_values(
    context: typer.Context,
    resource: Resource,
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Set values."""
    options = options_of(context)
    changes: dict[str, str | None] = {**parse_properties(values, "")}
    run(
        work.change,
        options,
        client_of(options),
        work.parse_resource(resource),
        changes,
        dry_run=dry_run,
    )


@app.command("unset", cls=Command)
def unset(
    context: typer.Context,
    resource: Resource,
    names: Annotated[list[str], typer.Argument(metavar="KEY...")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Go back to the defaults."""
    options = options_of(context)
    changes: dict[str, str | None] = dict.fromkeys(names)
    run(
        work.change,
        options,
        client_of(options),
        work.parse_resource(resource),
        changes,
        dry_run=dry_run,
    )


@app.command("list", cls=Command)
def list_settings(
    context: typer.Context,
    *,
    node: Annotated[bool, typer.Option("--node", help="Those of nodes, not of topics.")] = False,
    group: Annotated[bool, typer.Option("--group", help="Those of groups.")] = False,
) -> None:
    """List the settings there are, with defaults, ranges and units."""
    options = options_of(context)
    if node and group:
        raise UsageError(
            "--node and --group exclude each other",
            why="a setting is a node's or a group's",
            hint="quorate configs list --group",
        )
    print_table(options, work.known_settings(node=node, group=group))
