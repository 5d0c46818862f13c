"""``quorate configs``."""

from typing import Annotated

from quorate.tools import configs as work
from quorate.tools.arguments import GlobalOptions, parse_properties
from quorate.tools.command_line import Argument, Noun, option
from quorate.tools.session import print_table, run
from quorate.tools.topic_options import client_of

NOUN = Noun("Show and change configurations of topics and brokers.")

Resource = Annotated[str, Argument("TYPE/NAME", help="topic/appLogs, broker/1, broker/default")]
DryRun = Annotated[bool, option("--dry-run", help="Only check.")]


@NOUN.verb("describe")
def describe(
    options: GlobalOptions,
    resource: Resource,
    *,
    everything: Annotated[bool, option("--all", "-a", help="Defaults too.")] = False,
) -> None:
    """Show what was set; --format wide says what it means."""
    run(
        work.describe,
        options,
        client_of(options),
        work.parse_resource(resource),
        everything=everything,
    )


@NOUN.verb("get")
def get(options: GlobalOptions, resource: Resource, name: Annotated[str, Argument("KEY")]) -> None:
    """Print one value."""
    print(run(work.get, client_of(options), work.parse_resource(resource), name))


@NOUN.verb("set")
def set_values(
    options: GlobalOptions,
    resource: Resource,
    values: Annotated[list[str], Argument("KEY=VALUE...")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Set values."""
    changes: dict[str, str | None] = {**parse_properties(values)}
    run(
        work.change,
        options,
        client_of(options),
        work.parse_resource(resource),
        changes,
        dry_run=dry_run,
    )


@NOUN.verb("unset")
def unset(
    options: GlobalOptions,
    resource: Resource,
    names: Annotated[list[str], Argument("KEY...")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Go back to the defaults."""
    changes: dict[str, str | None] = dict.fromkeys(names)
    run(
        work.change,
        options,
        client_of(options),
        work.parse_resource(resource),
        changes,
        dry_run=dry_run,
    )


@NOUN.verb("list")
def list_settings(
    options: GlobalOptions,
    *,
    node: Annotated[bool, option("--node", help="Those of nodes, not of topics.")] = False,
) -> None:
    """List the settings there are, with defaults, ranges and units."""
    print_table(options, work.known_settings(node=node))
