"""``quorate partitions reassign``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.problems import UsageError
from quorate.tools.session import confirm, note, print_table, run, say, standard_input
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.model import TopicPartition
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.partitions.moving import Progress
    from quorate.tools.reassign_work import Plan

app = noun_app("Move partitions to other brokers.")

Wanted = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC[:NUMBERS]]...", help="t, t:0, t:0,2,5-7.")
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Show progress until all is done.")]


@app.command("plan", cls=Command)
def plan(
    context: typer.Context,
    wanted: Wanted = None,
    *,
    to: Annotated[
        str, typer.Option("--to", "--broker-list", help="1,2,4: these brokers and no others.")
    ] = "",
    add_broker: Annotated[
        list[int] | None, typer.Option("--add-broker", help="Those in use, and this one.")
    ] = None,
    remove_broker: Annotated[
        list[int] | None, typer.Option("--remove-broker", help="Not this one.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where to write the plan.")] = None,
) -> None:
    """Plan moves so that partitions lie evenly on brokers and racks, moving as little as possible.

    Nothing is done yet: the plan goes to --out, or to standard output if that is no terminal, in
    the JSON of kafka-reassign-partitions; "apply" carries it out.
    """
    from quorate.tools.partitions.moving import encode_plan
    from quorate.tools.reassign_work import PlanRequest, make_plan

    options = options_of(context)
    request = PlanRequest(
        tuple(wanted or ()), _broker_ids(to), tuple(add_broker or ()), tuple(remove_broker or ())
    )
    made: Plan = run(make_plan, client_of(options), request)
    text = encode_plan(made.targets)
    if out is not None:
        out.write_text(text)
    if options.format not in {"table", "wide"}:
        print_moves(options, made)
    elif out is None and not sys.stdout.isatty():
        sys.stdout.write(text)
        tell_summary(options, made)
    else:
        print_moves(options, made)
        tell_summary(options, made)
        if made.moves:
            file = out or "plan.json"
            if out is None:
                note(options, f"keep it: quorate partitions reassign plan ... > {file}")
            note(options, f"then: quorate partitions reassign apply {file}")


def _broker_ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise UsageError(
            f"{text!r} names no brokers", why="that is ID[,ID...]", hint="--to 1,2,4"
        ) from None


def print_moves(options: "GlobalOptions", made: "Plan") -> None:
    """Print what a plan moves."""
    from quorate.tools.partitions.moving import moves_table

    if made.moves or options.format not in {"table", "wide"}:
        print_table(options, moves_table(made.moves, made.sizes))


def tell_summary(options: "GlobalOptions", made: "Plan") -> None:
    """Tell what a plan does to each broker."""
    from quorate.tools.partitions.moving import summary_lines, warning_lines

    if not made.moves:
        note(options, "nothing has to move")
        return
    for line in summary_lines(made.now, made.moves, made.sizes, made.broker_ids):
        note(options, line)
    for line in warning_lines(made.moves, made.sizes, made.disks):
        note(options, f"warning: {line}")


@app.command("apply", cls=Command)
def apply(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FILE|TOPIC:NUMBER=BROKERS...", help="A plan, -, or t:0=1,2,3."),
    ],
    *,
    throttle: Annotated[
        str, typer.Option("--throttle", help="Bytes a second of each broker: 50MB.")
    ] = "",
    wait: Wait = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Begin the moves of a plan, or those that are named. They go on by themselves."""
    from quorate.tools.clusters.health import counted
    from quorate.tools.partitions.moving import parse_rate
    from quorate.tools.reassign_work import apply as begin
    from quorate.tools.reassign_work import plan_targets

    options = options_of(context)
    targets = _targets(sources)
    rate = parse_rate(throttle) if throttle else None
    client = client_of(options)
    made: Plan = run(plan_targets, client, targets)
    print_moves(options, made)
    if not made.moves:
        say(options, "all of it is so already")
        return
    tell_summary(options, made)
    if dry_run:
        return
    confirm(f"Move {counted(len(made.moves), 'partition')}?", yes=yes)
    run(begin, options, client, made, rate)
    if wait:
        follow(options, list(made.targets))
        return
    begun = counted(len(made.moves), "move")
    say(options, f"{begun} under way: quorate partitions reassign status -w")


def _targets(sources: "Sequence[str]") -> "dict[TopicPartition, tuple[int, ...]]":
    from quorate.tools.partitions.moving import decode_plan, parse_target

    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for source in sources:
        if source != "-" and not Path(source).exists() and "=" in source:
            partition, replicas = parse_target(source)
            targets[partition] = replicas
            continue
        try:
            text = standard_input().read() if source == "-" else Path(source).read_text()
        except OSError as error:
            raise UsageError(
                f"cannot read {source}", why=error.strerror or str(error),
                hint="quorate partitions reassign plan > plan.json writes one",
            ) from None  # fmt: skip
        targets |= decode_plan(text)
    return targets


@app.command("status", cls=Command)
def status(context: typer.Context, *, wait: Wait = False) -> None:
    """Show the moves that are under way; once all are done, throttles are taken back."""
    from quorate.tools import reassign_work as work
    from quorate.tools.partitions.moving import progress_table, waiting_text

    options = options_of(context)
    moves: list[Progress] = run(work.under_way, client_of(options))
    if moves or options.format not in {"table", "wide"}:
        print_table(options, progress_table(moves))
    if not moves:
        say(options, "nothing is being moved")
    elif wait:
        follow(options, None)
        return
    elif waiting := waiting_text(moves):
        note(options, waiting)
    if not moves and run(work.unthrottle, client_of(options)):
        say(options, "took back the throttles")


def follow(options: "GlobalOptions", only: "list[TopicPartition] | None") -> None:
    """Show how far moves are until all are done; then throttles are taken back, if none is left."""
    from quorate.tools import reassign_work as work
    from quorate.tools.partitions.moving import waiting_text
    from quorate.tools.progress import Bar

    def show(moves: "list[Progress]") -> None:
        waiting = waiting_text(moves)
        if waiting not in told:
            note(options, waiting)
        told[:] = "", waiting
        totals[0] = max(totals[0], sum(move.total_bytes for move in moves))
        left = sum(move.total_bytes - move.copied_bytes for move in moves)
        bar.show(totals[0] - left, totals[0], f"{len(moves)} partitions on the move")

    totals, told = [0], [""]
    client = client_of(options)
    with Bar(options, "moving") as bar:
        run(work.follow, client, show, only)
    run(work.unthrottle, client)
    say(options, "all moves are done")


@app.command("cancel", cls=Command)
def cancel(
    context: typer.Context, wanted: Wanted = None, *, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Call off moves that are under way: partitions stay, or go back, where they were."""
    from quorate.tools import reassign_work as work

    options = options_of(context)
    client = client_of(options)
    if dry_run:
        named: list[TopicPartition] = run(work.cancel, options, client, wanted or (), dry_run=True)
        say(options, f"would call off: {', '.join(map(str, named)) or 'nothing'}")
        return
    confirm(f"Call off the moves of {', '.join(wanted) if wanted else 'all partitions'}?", yes=yes)
    names: list[TopicPartition] = run(work.cancel, options, client, wanted or ())
    if names:
        say(options, f"called off: {', '.join(map(str, names))}")
    else:
        say(options, "nothing is being moved")
    if run(work.unthrottle, client, names):
        say(options, "took back the throttles")
