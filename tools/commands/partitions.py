"""``quorate partitions``."""

from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.commands import reassign
from quorate.tools.problems import ProblemFoundError, UsageError
from quorate.tools.session import confirm, note, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.tools.partitions.comparing import Compared
    from quorate.tools.partitions.listing import Described, Found

app = noun_app("List, describe, elect, move and compare partitions.")
app.add_typer(reassign.app, name="reassign")

Wanted = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC[:NUMBERS]]...", help="t, t:0, t:0,2,5-7.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list", cls=Command)
def list_partitions(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Those that lack an in-sync replica.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Those that refuse acks=all.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="Those that would, with one replica less.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Those that nobody leads.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 3 if there are any.")
    ] = False,
) -> None:
    """List partitions: who leads, who has them, who is in sync; all, or those in trouble."""
    from quorate.tools import partitions_work as work
    from quorate.tools.partitions import listing

    options = options_of(context)
    states = (
        (under_replicated, listing.UNDER_REPLICATED),
        (under_min_isr, listing.UNDER_MIN_ISR),
        (at_min_isr, listing.AT_MIN_ISR),
        (offline, listing.OFFLINE),
    )
    asked_for = [name for is_wanted, name in states if is_wanted]
    all_of_them: list[Found] = run(work.listed, client_of(options), wanted or ())
    found = listing.those_that_are(all_of_them, asked_for)
    if found or options.format not in {"table", "wide"}:
        print_table(options, listing.list_table(found))
    elif asked_for:
        say(options, f"none of {len(all_of_them)} partitions is {' or '.join(asked_for)}")
    if exit_code and asked_for and found:
        raise ProblemFoundError(
            f"{len(found)} of {len(all_of_them)} partitions are in trouble",
            why=", ".join(asked_for),
            hint="quorate partitions describe TOPIC:NUMBER",
        )


@app.command("describe", cls=Command)
def describe(context: typer.Context, wanted: Wanted = None) -> None:
    """Show partitions with each replica: where its log ends, how far it is behind."""
    from quorate.tools import partitions_work as work
    from quorate.tools.partitions.listing import describe_lines, describe_table

    options = options_of(context)
    found: list[Described] = run(work.describe, client_of(options), wanted or ())
    if options.format in {"table", "wide"}:
        for each in found:
            print("\n".join(describe_lines(each)))
    else:
        print_table(options, describe_table(found))


@app.command("elect", cls=Command)
def elect(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Of all partitions.")] = False,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="The first replica; this is the default.")
    ] = False,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Any replica that is alive: records may be LOST.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Have leaders elected: the preferred ones, or where nobody leads, whoever is left.

    An unclean election loses the records that the new leader lacks. It asks first.
    """
    from quorate.tools import partitions_work as work

    options = options_of(context)
    if preferred and unclean:
        raise UsageError(
            "--preferred and --unclean exclude each other",
            why="one asks for the best replica, the other for any",
            hint="leave one out",
        )
    _check_named(wanted, every=every)
    client = client_of(options)
    found: list[Found] = run(work.plan_election, client, wanted or (), unclean=unclean)
    if not found:
        say(
            options,
            "each of them has a leader; nothing to elect"
            if unclean
            else "the preferred ones lead already",
        )
        return
    if dry_run or unclean:
        print_table(options, work.election_table(found, unclean=unclean))
    if dry_run:
        return
    if unclean:
        names = ", ".join(str(each.topic_partition) for each in found)
        confirm(f"Elect leaders of {names}, and lose what they lack?", yes=yes)
    run(work.elect, options, client, found, unclean=unclean, every=every)


def _check_named(wanted: list[str] | None, *, every: bool) -> None:
    if not wanted and not every:
        raise UsageError(
            "name partitions, or say --all",
            why="none is named",
            hint="quorate partitions elect t:0",
        )


@app.command("verify", cls=Command)
def verify(
    context: typer.Context,
    wanted: Wanted = None,
) -> None:
    """Compare replicas: each is read from its broker, and hashed below the high watermark of all.

    Exit code 3 if replicas differ, or one cannot be read. Batches are compared byte by byte, as
    they lie on disk; where brokers have compacted them, each on its own, the latest value of each
    key is compared.
    """
    from quorate.tools import verify_work as work
    from quorate.tools.partitions.comparing import DIFFERENT, SAME
    from quorate.tools.progress import Bar

    options = options_of(context)
    with Bar(options, "reading replicas") as bar:
        results: list[Compared] = run(
            work.verify, client_of(options), wanted or (), bar.set_total, bar.advance
        )
    print_table(options, work.verdict_table(results))
    wrong = [each for each in results if each.verdict != SAME]
    if any(each.verdict == DIFFERENT for each in wrong):
        raise ProblemFoundError(
            f"replicas of {len(wrong)} of {len(results)} partitions are not the same",
            why="; ".join(f"{each.partition}: {each.text()}" for each in wrong[:3]),
            hint="quorate log dump shows what each of them has; report this bug",
        )
    if wrong:
        raise ProblemFoundError(
            f"{len(wrong)} of {len(results)} partitions could not be compared as a whole",
            why="; ".join(f"{each.partition}: {each.text()}" for each in wrong[:3]),
            hint="quorate brokers list shows which brokers run",
        )
    note(options, f"the replicas of {len(results)} partitions hold the same")
