"""``quorate topics``."""

import re
import sys
import time
from typing import Annotated

import typer

from quorate.setting_fields import INT_MAX, SHORT_MAX
from quorate.tools import topics as work
from quorate.tools.arguments import parse_properties
from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.commands import topic_records
from quorate.tools.output import Table, render
from quorate.tools.problems import UsageError
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of, topic_names

app = noun_app(
    "Create, list, describe, alter, delete and trim topics; find, export and count records."
)

Names = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")]
Topics = Annotated[list[str] | None, typer.Option("--topic", "-t", help="A topic.")]


@app.command("create", cls=Command)
def create(
    context: typer.Context,
    names: Names = None,
    *,
    topic: Topics = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", max=INT_MAX, help="How many; the cluster's default."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", max=SHORT_MAX, help="Replicas of each."),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option("--replica-assignment", help="Kafka's: 1:2,2:3 = brokers by partition."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="key=value, such as segment.bytes=1M")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="No error if it is there.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    from quorate.client.admin_results import NewTopic

    options = options_of(context)
    configs = parse_properties(config or (), "-c ")
    assignments = _assignments(replica_assignment) if replica_assignment else {}
    wanted = [
        NewTopic(name, partitions, replication_factor, configs, assignments)
        for name in topic_names(names, topic)
    ]
    run(
        work.create,
        options,
        client_of(options),
        wanted,
        if_not_exists=if_not_exists,
        dry_run=dry_run,
    )


def _assignments(text: str) -> dict[int, tuple[int, ...]]:
    try:
        return {
            partition: tuple(int(broker) for broker in brokers.split(":"))
            for partition, brokers in enumerate(text.split(","))
        }
    except ValueError:
        raise UsageError(
            f"{text!r} is no assignment", why="brokers by partition", hint="1:2,2:3,3:1"
        ) from None


@app.command("list", cls=Command)
def list_topics(
    context: typer.Context,
    pattern: Annotated[str | None, typer.Argument(metavar="[REGEX]")] = None,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Regular expression.")] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics too.")] = False,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", hidden=True)] = False,
) -> None:
    """List topics: their names; more with --format wide."""
    options = options_of(context)
    del exclude_internal  # they are left out anyway; Kafka's tool has the option
    expression = pattern or topic
    try:
        re.compile(expression or "")
    except re.error as error:
        raise UsageError(
            f"{expression!r} is no regular expression", why=str(error), hint="'app.*'"
        ) from None
    table: Table = run(work.list_topics, client_of(options), expression, internal=internal)
    if options.format == "table":
        print(render(table, "name"), end="")
    else:
        print_table(options, table)


@app.command("describe", cls=Command)
def describe(
    context: typer.Context,
    names: Names = None,
    *,
    topic: Topics = None,
    summary: Annotated[
        bool, typer.Option("-s", "--print-summary", help="Size, id, durability.")
    ] = False,
    configs: Annotated[
        bool, typer.Option("-c", "--print-configs", help="All settings, and where from.")
    ] = False,
    partitions: Annotated[
        bool, typer.Option("-p", "--print-partitions", help="With their offsets.")
    ] = False,
    everything: Annotated[bool, typer.Option("-a", "--print-all", help="All three.")] = False,
) -> None:
    """Show topics with partitions, leaders and in-sync replicas; all, if none is named.

    As Kafka's tool prints it, or, with -s, -c, -p or -a, in sections.
    """
    options = options_of(context)
    wanted = [*(names or ()), *(topic or ())]
    if not (summary or configs or partitions or everything):
        run(work.describe, options, client_of(options), wanted)
        return
    from quorate.tools.topic_sections import Section, describe_sections

    sections = Section.ALL if everything else Section.NONE
    sections |= Section.SUMMARY if summary else Section.NONE
    sections |= Section.CONFIGS if configs else Section.NONE
    sections |= Section.PARTITIONS if partitions else Section.NONE
    text: str = run(describe_sections, options, client_of(options), wanted, sections)
    sys.stdout.write(text)


@app.command("alter", cls=Command)
def alter(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[TOPIC]")] = "",
    *,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")] = "",
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", max=INT_MAX, help="In total, from now on."),
    ] = None,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", help="key=value")] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", help="Back to the default.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions to a topic, or change its configuration."""
    options = options_of(context)
    if partitions is None and not config and not delete_config:
        raise UsageError(
            "nothing to change", why="no option says what", hint="--partitions 6, -c key=value"
        )
    (wanted,) = topic_names([name] if name else [], [topic] if topic else [])[:1]
    change = work.Alteration(
        wanted, partitions, parse_properties(config or (), "-c "), tuple(delete_config or ())
    )
    run(work.alter, options, client_of(options), change, dry_run=dry_run)


@app.command("delete", cls=Command)
def delete(
    context: typer.Context,
    names: Names = None,
    *,
    topic: Topics = None,
    regex: Annotated[bool, typer.Option("--regex", "-r", help="Names are expressions.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="No error if it is not there.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete topics with all their records."""
    options = options_of(context)
    client = client_of(options)
    wanted: list[str] = run(work.matching, client, topic_names(names, topic), regex=regex)
    if dry_run:
        for name in run(work.existing, client, wanted, if_exists=if_exists):
            say(options, f"Would delete topic {name}.")
        return
    confirm(f"Delete {', '.join(wanted)} with all records?", yes=yes)
    run(work.delete, options, client, wanted, if_exists=if_exists)


@app.command("trim", cls=Command)
def trim(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    *,
    before: Annotated[str, typer.Option("--before", "-o", help="Offset, -N, @time or end.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the records before an offset or a time."""
    options = options_of(context)
    client = client_of(options)
    from quorate.tools.positions import parse_span

    span = parse_span(before, time.time_ns() // 1_000_000)
    if span.stop is not None:
        raise UsageError(
            f"{before!r} is more than a place", why="a trim deletes all records before one",
            hint="--before 5000",
        )  # fmt: skip
    plan = run(work.plan_trim, client, name, partition, span.start)
    print_table(options, work.trim_table(plan))
    if dry_run:
        return
    deletes = sum(new - first for first, new in plan.values())
    confirm(f"Delete {deletes} records of {name}?", yes=yes)
    run(work.trim, client, plan)
    say(options, f"Deleted {deletes} records of {name}.")


app.command("find", cls=Command)(topic_records.find)
app.command("export", cls=Command)(topic_records.export)
app.command("stats", cls=Command)(topic_records.stats)
