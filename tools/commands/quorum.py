"""``quorate quorum``."""

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.problems import CommandError, ProblemFoundError
from quorate.tools.session import confirm, note, print_table, run, say

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.quorum.plans import Plan
    from quorate.tools.quorum.view import QuorumView

FOLLOWS_WITHIN_S = 3.0
"""How long a controller that was just started may need to follow the quorum."""
LOOK_AGAIN_S = 0.2

app = noun_app("Show and change the controllers: who leads, who votes, how far each is.")

Who = Annotated[str, typer.Argument(metavar="ID|HOST:PORT", help="The controller.")]
DirectoryId = Annotated[
    str | None, typer.Option("--directory-id", help="Its disk, if there are two of that id.")
]


@app.command("status", cls=Command)
def status(context: typer.Context) -> None:
    """Show who leads, what is committed, how far each is.

    Asks the controllers of -C, or a broker. A controller that answers also tells how large its log
    and snapshot are, how long it has run, and whether its disk is full. Exit code 3 if nobody
    leads.
    """
    from quorate.tools.quorum.text import unled_text
    from quorate.tools.quorum.view import status_table

    options = options_of(context)
    view = _look(options)
    if options.format in {"table", "wide"}:
        _print_view(options, view)
    else:
        print_table(options, status_table(view))
    if view.leader_id is None:
        raise ProblemFoundError(
            "nobody leads the quorum",
            why=unled_text(view),
            hint="make room on these disks; quorate quorum watch shows when one is"
            if view.full
            else "quorate quorum watch shows when one is; see the controllers' output",
        )


@app.command("replication", cls=Command)
def replication(context: typer.Context) -> None:
    """Show a row for each controller.

    Its log's end, how much it lacks and for how long; with --format wide also times, directories
    and sizes.
    """
    from quorate.tools.quorum.view import replication_table

    options = options_of(context)
    print_table(options, replication_table(_look(options)))


@app.command("watch", cls=Command)
def watch(
    context: typer.Context,
    *,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.05, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many looks.")
    ] = None,
) -> None:
    """Show the quorum again and again, until Ctrl-C.

    Where the output is not a terminal, a line each time.
    """
    options = options_of(context)
    if sys.stdout.isatty() and options.format in {"table", "wide"}:
        from quorate.tools.quorum_watch import watch_screen

        watch_screen(options, interval, count)
    else:
        _watch_lines(options, interval, count)


def _watch_lines(options: "GlobalOptions", interval_s: float, count: int | None) -> None:
    from quorate.errors import KafkaError
    from quorate.tools.quorum.text import one_line
    from quorate.tools.quorum.view import status_table

    looks = 0
    try:
        while count is None or looks < count:
            if looks:
                time.sleep(interval_s)
            looks += 1
            try:
                view = _look(options)
            except (KafkaError, CommandError) as error:
                if looks == 1:
                    raise
                note(options, f"not seen: {error}")
                continue
            if options.format in {"table", "wide"}:
                line = one_line(view)
            else:
                (item,) = status_table(view).items()
                line = json.dumps({"time_ms": view.now_ms, **item})
            print(line, flush=True)
    except KeyboardInterrupt:
        return


@app.command("add", cls=Command)
def add(
    context: typer.Context,
    who: Who,
    *,
    directory_id: DirectoryId = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let a controller vote that follows the quorum.

    Start it with --join first. The leader lets it catch up before its vote counts, and refuses
    while another change is under way. One that does not follow yet is waited for a little.
    """
    options = options_of(context)
    del yes  # nothing is lost, so nobody is asked; scripts may say so all the same
    plan = _plan_add(options, who, directory_id)
    _show_plan(options, plan)
    if not dry_run:
        _carry_out(options, plan)
        say(options, f"Controller {plan.replica.node_id} votes now; {_voters_text(plan)}.")


@app.command("remove", cls=Command)
def remove(
    context: typer.Context,
    who: Who,
    *,
    directory_id: DirectoryId = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take a controller's vote away.

    If it leads, another one takes over. It goes on following, until it is stopped.
    """
    from quorate.tools.quorum.plans import plan_remove

    options = options_of(context)
    plan = plan_remove(_look(options), who, directory_id)
    _show_plan(options, plan)
    if not dry_run:
        node_id = plan.replica.node_id
        confirm(f"Take the vote of controller {node_id} away?", yes=yes)
        _carry_out(options, plan)
        say(options, f"Controller {node_id} does not vote any more; {_voters_text(plan)}.")


@app.command("transfer", cls=Command)
def transfer(
    context: typer.Context,
    *,
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="Who is to lead; whoever has most, if left.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let another controller lead.

    It takes over where the old leader stopped; requests that come meanwhile wait for it.
    """
    from quorate.tools import quorum_work
    from quorate.tools.quorum.plans import plan_transfer

    options = options_of(context)
    del yes
    before = _look(options)
    target = plan_transfer(before, to)
    if dry_run:
        whom = "the voter that has most" if target is None else f"controller {target.node_id}"
        say(options, f"Controller {before.leader_id} would hand over to {whom}.")
        return
    after: QuorumView = run(quorum_work.transfer, options, before, to)
    if options.format not in {"table", "wide"}:
        from quorate.tools.quorum.view import status_table

        print_table(options, status_table(after))
    say(
        options,
        f"Controller {after.leader_id} leads now, in term {after.leader_epoch};"
        f" it was controller {before.leader_id}.",
    )


def _plan_add(options: "GlobalOptions", who: str, directory_id: str | None) -> "Plan":
    """Plan it as soon as the controller follows, which one that was just started soon does."""
    from quorate.tools.quorum.plans import NotFollowingError, plan_add

    patient_until_s = time.monotonic() + FOLLOWS_WITHIN_S
    while True:
        try:
            return plan_add(_look(options), who, directory_id)
        except NotFollowingError:
            if time.monotonic() > patient_until_s:
                raise
            time.sleep(LOOK_AGAIN_S)


def _look(options: "GlobalOptions") -> "QuorumView":
    from quorate.tools.quorum_work import look

    view: QuorumView = run(look, options)
    return view


def _carry_out(options: "GlobalOptions", plan: "Plan") -> None:
    from quorate.tools.quorum_work import carry_out

    run(carry_out, options, plan)


def _print_view(options: "GlobalOptions", view: "QuorumView") -> None:
    if not (sys.stdout.isatty() and options.color):
        from quorate.tools.quorum.text import status_lines

        print("\n".join(status_lines(view)))
        return
    from rich.console import Console

    from quorate.tools.quorum.screen import screen

    Console(highlight=False).print(screen(view, None))


def _show_plan(options: "GlobalOptions", plan: "Plan") -> None:
    if not options.quiet:
        print_table(options, plan.table())


def _voters_text(plan: "Plan") -> str:
    return "the voters are " + ", ".join(map(str, plan.voters_after))
