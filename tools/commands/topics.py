"""``quorate topics``."""

import re
import time
from typing import Annotated

from quorate.tools import topics as work
from quorate.tools.arguments import GlobalOptions, parse_properties
from quorate.tools.command_line import Argument, Noun, hidden, option
from quorate.tools.output import Table, render
from quorate.tools.problems import UsageError
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of, topic_names

NOUN = Noun("Create, list, describe, alter, delete and trim topics.")

Names = Annotated[list[str] | None, Argument("[TOPIC]...")]
Topics = Annotated[list[str] | None, option("--topic", "-t", help="A topic.")]
DryRun = Annotated[bool, option("--dry-run", help="Only say what would happen.")]
Yes = Annotated[bool, option("--yes", "-y", help="Do not ask.")]


@NOUN.verb("create")
def create(
    options: GlobalOptions,
    names: Names = None,
    *,
    topic: Topics = None,
    partitions: Annotated[
        int | None, option("--partitions", "-p", help="How many; the cluster's default.")
    ] = None,
    replication_factor: Annotated[
        int | None, option("--replication-factor", "-r", help="Replicas of each.")
    ] = None,
    replica_assignment: Annotated[
        str | None,
        option("--replica-assignment", help="Kafka's: 1:2,2:3 = brokers by partition."),
    ] = None,
    config: Annotated[
        list[str] | None, option("--config", "-c", help="key=value, such as segment.bytes=1M")
    ] = None,
    if_not_exists: Annotated[
        bool, option("--if-not-exists", help="No error if it is there.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    from quorate.client.admin_results import NewTopic

    configs = parse_properties(config or ())
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


@NOUN.verb("list")
def list_topics(
    options: GlobalOptions,
    pattern: Annotated[str | None, Argument("[REGEX]")] = None,
    *,
    topic: Annotated[str | None, option("--topic", help="Regular expression.")] = None,
    internal: Annotated[bool, option("--internal", help="Internal topics too.")] = False,
    exclude_internal: Annotated[bool, hidden("--exclude-internal")] = False,
) -> None:
    """List topics: their names; more with --format wide."""
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


@NOUN.verb("describe")
def describe(options: GlobalOptions, names: Names = None, *, topic: Topics = None) -> None:
    """Show topics with partitions, leaders and in-sync replicas; all, if none is named."""
    run(work.describe, options, client_of(options), [*(names or ()), *(topic or ())])


@NOUN.verb("alter")
def alter(
    options: GlobalOptions,
    name: Annotated[str, Argument("[TOPIC]")] = "",
    *,
    topic: Annotated[str, option("--topic", "-t", help="The topic.")] = "",
    partitions: Annotated[
        int | None, option("--partitions", "-p", help="In total, from now on.")
    ] = None,
    config: Annotated[list[str] | None, option("--config", "-c", help="key=value")] = None,
    delete_config: Annotated[
        list[str] | None, option("--delete-config", help="Back to the default.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions to a topic, or change its configuration."""
    if partitions is None and not config and not delete_config:
        raise UsageError(
            "nothing to change", why="no option says what", hint="--partitions 6, -c key=value"
        )
    (wanted,) = topic_names([name] if name else [], [topic] if topic else [])[:1]
    change = work.Alteration(
        wanted, partitions, parse_properties(config or ()), tuple(delete_config or ())
    )
    run(work.alter, options, client_of(options), change, dry_run=dry_run)


@NOUN.verb("delete")
def delete(
    options: GlobalOptions,
    names: Names = None,
    *,
    topic: Topics = None,
    regex: Annotated[bool, option("--regex", "-r", help="Names are expressions.")] = False,
    if_exists: Annotated[bool, option("--if-exists", help="No error if it is not there.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete topics with all their records."""
    client = client_of(options)
    wanted: list[str] = run(work.matching, client, topic_names(names, topic), regex=regex)
    if dry_run:
        for name in wanted:
            say(options, f"Would delete topic {name}.")
        return
    confirm(f"Delete {', '.join(wanted)} with all records?", yes=yes)
    run(work.delete, options, client, wanted, if_exists=if_exists)


@NOUN.verb("trim")
def trim(
    options: GlobalOptions,
    name: Annotated[str, Argument("TOPIC")],
    *,
    before: Annotated[str, option("--before", "-o", help="Offset, -N, @time or end.")],
    partition: Annotated[
        list[int] | None, option("--partition", "-p", low=0, help="Only this one.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the records before an offset or a time."""
    client = client_of(options)
    from quorate.tools.positions import parse_span

    mark = parse_span(before, time.time_ns() // 1_000_000).start
    plan = run(work.plan_trim, client, name, partition, mark)
    print_table(options, work.trim_table(plan))
    if dry_run:
        return
    deletes = sum(new - first for first, new in plan.values())
    confirm(f"Delete {deletes} records of {name}?", yes=yes)
    run(work.trim, client, plan)
    say(options, f"Deleted {deletes} records of {name}.")
