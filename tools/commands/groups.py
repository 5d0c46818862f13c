"""``quorate groups``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.commands import groups_reset
from quorate.tools.problems import ProblemFoundError, UsageError
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.client.groups.results import GroupDescription
    from quorate.errors import QuorateError
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.groups.lag import Lag
    from quorate.tools.groups_work import Looked

app = noun_app("List, describe, reset and delete consumer groups; see how far behind they are.")

Wanted = Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups.")]
Named = Annotated[list[str] | None, typer.Option("--group", help="A group.")]
Every = Annotated[bool, typer.Option("--all", "--all-groups", help="All groups.")]


@app.command("list", cls=Command)
def list_groups(
    context: typer.Context,
    *,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only in this one: Stable, Empty, ...")
    ] = None,
    group_type: Annotated[
        list[str] | None, typer.Option("--type", help="Only of this one: classic or consumer.")
    ] = None,
) -> None:
    """List groups: their state, their type, what their members speak."""
    from quorate.tools import groups_work as work
    from quorate.tools.groups.tables import list_table

    options = options_of(context)
    found = run(work.listed, client_of(options), _split(state), _split(group_type))
    print_table(options, list_table(found))


def _split(texts: list[str] | None) -> list[str]:
    return [part for text in texts or () for part in text.split(",") if part]


def now_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


def named(positional: list[str] | None, options: list[str] | None, *, every: bool) -> list[str]:
    """Return the groups that a command is about; none stands for all.

    Raises:
        UsageError: none is named, and not all are meant.
    """
    names = list(dict.fromkeys([*(positional or ()), *(options or ())]))
    if not names and not every:
        raise UsageError(
            "name groups, or say --all", why="none is named", hint="quorate groups list"
        )
    return names


@app.command("describe", cls=Command)
def describe(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    group: Named = None,
    every: Every = False,
    members: Annotated[bool, typer.Option("--members", help="Who reads what.")] = False,
    state: Annotated[
        bool, typer.Option("--state", help="What it is at, who coordinates and who assigns.")
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="How far it has read; this is the default.")
    ] = False,
) -> None:
    """Show groups as kafka-consumer-groups does: offsets and lag, members, or state.

    -v and --format wide show more columns.
    """
    from quorate.tools import groups_work as work
    from quorate.tools.groups import tables

    options = options_of(context)
    if members + state + offsets > 1:
        raise UsageError(
            "--members, --state and --offsets exclude each other", why="each is a table of its own",
            hint="quorate groups describe G --members",
        )  # fmt: skip
    names = named(wanted, group, every=every)
    with_offsets = not (members or state)
    looked: Looked = run(
        work.look, client_of(options), names, now_ms(), offsets=with_offsets, times=False
    )
    if members:
        table = tables.members_table(looked.groups)
    elif state:
        table = tables.state_table(looked.groups, looked.brokers)
    else:
        table = tables.offsets_table(looked.lags)
    print_table(_wide(options), table)
    for line in tables.remarks(looked.groups, looked.lags):
        say(options, line)


def _wide(options: "GlobalOptions") -> "GlobalOptions":
    from dataclasses import replace

    if options.verbose and options.format == "table":
        return replace(options, format="wide")
    return options


@app.command("lag", cls=Command)
def lag(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    group: Named = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="A row for each partition.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, and tell the trend.")
    ] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", "-i", help="Seconds between looks.", min=0.1)
    ] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", help="Look so many times.", min=1)
    ] = None,
    lag_max: Annotated[
        int | None, typer.Option("--max", help="Exit with 3 if any lag is above that.", min=0)
    ] = None,
) -> None:
    """Show how far groups are behind: in records, and in seconds, the age of the oldest unread one.

    All groups by default. With -w also whether it grows, what is read and written each second, and
    when all will be read.
    """
    from quorate.tools.groups_watch import LagWatch, watch_lags

    options = options_of(context)
    names = named(wanted, group, every=True)
    looking = LagWatch(client_of(options), names, by_partition=partitions)
    lags: tuple[Lag, ...]
    if watch:
        lags = watch_lags(options, looking, interval_s, count)
    else:
        lags = looking.look(now_ms())
        print_table(options, looking.table())
    worst = max((each.records for each in lags), default=0)
    if lag_max is not None and worst > lag_max:
        behind = [each for each in lags if each.records > lag_max]
        raise ProblemFoundError(
            f"{len(behind)} of {len(lags)} are more than {lag_max} records behind",
            why=f"{behind[0].group_id} is {behind[0].records} behind in {behind[0].topic}",
            hint="quorate groups describe GROUP",
        )


app.command("reset", cls=Command)(groups_reset.reset)
app.command("undo", cls=Command)(groups_reset.undo)
app.command("delete-offsets", cls=Command)(groups_reset.delete_offsets)


@app.command("delete", cls=Command)
def delete(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    group: Named = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete groups without members, and what they have read."""
    from quorate.tools import groups_work as work

    options = options_of(context)
    names = named(wanted, group, every=False)
    client = client_of(options)
    if dry_run:
        looked: Looked = run(work.look, client, names, now_ms(), offsets=False, times=False)
        for each in looked.groups:
            busy = f" has {len(each.members)} members: refused" if each.members else ""
            say(options, f"Would delete group {each.group_id}{busy}")
        return
    confirm(f"Delete {', '.join(names)}?", yes=yes)
    results: dict[str, QuorateError | None] = run(work.delete, client, names)
    _tell(options, {name: (error, "deleted") for name, error in results.items()})


def _tell(options: "GlobalOptions", results: "dict[str, tuple[QuorateError | None, str]]") -> None:
    """Print what became of each, then raise the first error."""
    from quorate.tools.output import Column, Table

    rows = tuple(
        (name, word if error is None else str(error)) for name, (error, word) in results.items()
    )
    print_table(options, Table("results", (Column("name"), Column("result")), rows))
    for error, _ in results.values():
        if error is not None:
            raise error


@app.command("kick", cls=Command)
def kick(
    context: typer.Context,
    group_id: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MEMBER]...", help="Member, instance or client ids."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All members.")] = False,
    reason: Annotated[
        str, typer.Option("--reason", help="What the coordinator notes.")
    ] = "removed by an operator",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take members out of a group: their partitions go to others. Who is alive joins again."""
    from quorate.tools import groups_work as work
    from quorate.tools.groups.tables import find_members, members_table

    options = options_of(context)
    if bool(members) == every:
        raise UsageError(
            "name members, or say --all", why="it takes one of them",
            hint=f"quorate groups describe {group_id} --members",
        )  # fmt: skip
    client = client_of(options)
    described: GroupDescription = run(work.one, client, group_id)
    try:
        chosen = list(described.members) if every else find_members(described, members or ())
    except KeyError as unknown:
        raise UsageError(
            f"Consumer group '{group_id}' has no member {unknown.args[0]!r}",
            why=f"it has {len(described.members)}",
            hint=f"quorate groups describe {group_id} --members",
        ) from None
    if not chosen:
        say(options, f"Consumer group '{group_id}' has no active members.")
        return
    if dry_run:
        from dataclasses import replace

        print_table(options, members_table([replace(described, members=tuple(chosen))]))
        return
    confirm(f"Take {len(chosen)} members out of {group_id}?", yes=yes)
    ids = [member.member_id for member in chosen]
    results: dict[str, QuorateError | None] = run(work.kick, client, described, ids, reason)
    _tell(options, {name: (error, "removed") for name, error in results.items()})
