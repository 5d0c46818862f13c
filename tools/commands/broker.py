"""``quorate broker start`` and ``quorate brokers ...``."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.partitions.moving import Progress
    from quorate.tools.partitions.retiring import Led
    from quorate.tools.reassign_work import Plan

app = noun_app("Start a broker; list, describe, drain, retire and unregister brokers.")

BrokerId = Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker.")]


@app.command("start", cls=Command)
def start(
    context: typer.Context,
    *,
    node_id: Annotated[
        int | None, typer.Option("--id", min=0, help="node.id: this broker.")
    ] = None,
    controllers: Annotated[
        str, typer.Option("--controllers", help="host:port[,host:port] of the controllers.")
    ] = "",
    listen: Annotated[
        str, typer.Option("--listen", help="listeners: [PLAINTEXT://]host:port[,SSL://...].")
    ] = "",
    rack: Annotated[str, typer.Option("--rack", help="broker.rack: where the broker stands.")] = "",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="On 127.0.0.1.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with node properties.")
    ] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
    local_brokers: Annotated[int, typer.Option("--local-brokers", hidden=True)] = 0,
) -> None:
    """Start a broker whose controllers are other processes."""
    from quorate.tools.starting import StartArguments, local_defaults
    from quorate.tools.starting_broker import start_broker

    options = options_of(context)
    defaults = {
        "controller.quorum.bootstrap.servers": controllers or options.controllers,
        "listeners": listen,
        "broker.rack": rack,
    }
    given = {name: text for name, text in defaults.items() if text}
    given |= local_defaults(local_brokers) if local_brokers else {}
    start_broker(options, StartArguments(config, directory, port, node_id, given, with_parent))


@app.command("list", cls=Command)
def list_brokers(context: typer.Context) -> None:
    """List brokers: where they are, how they are, what they have."""
    from quorate.tools import brokers_work as work

    options = options_of(context)
    print_table(options, run(work.list_brokers, client_of(options)))


@app.command("describe", cls=Command)
def describe(
    context: typer.Context,
    broker_id: BrokerId,
    *,
    dirs: Annotated[bool, typer.Option("--dirs", hidden=True)] = False,
    api_versions: Annotated[
        bool, typer.Option("--api-versions", help="Which requests it serves, in which versions.")
    ] = False,
) -> None:
    """Show a broker: what it leads and has, its directories, what was set for it."""
    from quorate.tools import brokers_work as work

    del dirs  # always shown
    options = options_of(context)
    if api_versions:
        print_table(options, run(work.api_versions, client_of(options), broker_id))
        return
    run(work.describe, options, client_of(options), broker_id)


@app.command("drain", cls=Command)
def drain(
    context: typer.Context, broker_id: BrokerId, *, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Let others lead what a broker leads, and give it nothing new, until it is undrained.

    It keeps its replicas, in sync, and clients notice no more than a change of leaders.
    """
    from quorate.tools import brokers_work as work
    from quorate.tools.partitions.retiring import some

    options = options_of(context)
    client = client_of(options)
    now: Led = run(work.led, client, broker_id)
    _tell_led(options, broker_id, now)
    if dry_run:
        return
    confirm(f"Drain broker {broker_id}?", yes=yes)
    then: Led = run(work.drain, options, client, broker_id)
    if then.alone:
        say(options, f"broker {broker_id} is drained, but for {some(then.alone)}")
    else:
        say(options, f"broker {broker_id} is drained: it leads nothing")


def _tell_led(options: "GlobalOptions", broker_id: int, led: "Led") -> None:
    from quorate.tools.partitions.retiring import some

    say(options, f"broker {broker_id} leads {len(led.movable)} partitions that others can lead")
    if led.alone:
        say(options, f"nobody else can lead {some(led.alone)}: no other replica is in sync")


@app.command("undrain", cls=Command)
def undrain(
    context: typer.Context, broker_id: BrokerId, *, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Let a broker lead again, from the next election on: see "partitions elect --all"."""
    from quorate.tools import brokers_work as work

    del yes  # taken because drain takes it; there is nothing to ask
    options = options_of(context)
    run(work.check_broker, client_of(options), broker_id)
    if dry_run:
        say(options, f"would let broker {broker_id} lead again")
        return
    run(work.undrain, options, broker_id)
    say(options, f"broker {broker_id} may lead again")


@app.command("unregister", cls=Command)
def unregister(
    context: typer.Context,
    broker_id: BrokerId,
    *,
    with_replicas: Annotated[
        bool, typer.Option("--with-replicas", help="Even if replicas are assigned to it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take a broker that is gone for good out of the cluster.

    One that runs is refused, and one that still has replicas: "decommission" moves them away.
    """
    from quorate.tools import brokers_work as work
    from quorate.tools.partitions.retiring import some

    options = options_of(context)
    take_out = partial(
        run, work.unregister, client_of(options), broker_id, with_replicas=with_replicas
    )
    left = take_out(dry_run=True)
    if left:
        say(options, f"{len(left)} replicas stay assigned to it: {some(left)}")
    if dry_run:
        say(options, f"would take broker {broker_id} out of the cluster")
        return
    confirm(f"Take broker {broker_id} out of the cluster?", yes=yes)
    take_out(dry_run=False)
    say(options, f"broker {broker_id} is no longer of this cluster")


@app.command("decommission", cls=Command)
def decommission(
    context: typer.Context,
    broker_id: BrokerId,
    *,
    throttle: Annotated[
        str, typer.Option("--throttle", help="Bytes a second of each broker: 50MB.")
    ] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Call off the moves that are not done yet.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move all that a broker has to the others, so that it can go for good.

    Once it has nothing left, stop it and say the same again: that takes it out of the cluster.
    """
    from quorate.tools import brokers_work as work
    from quorate.tools import reassign_work
    from quorate.tools.commands import reassign
    from quorate.tools.partitions.moving import parse_rate

    options = options_of(context)
    rate = parse_rate(throttle) if throttle else None
    client = client_of(options)
    run(work.check_broker, client, broker_id)
    if cancel:
        _cancel(options, broker_id, dry_run=dry_run, yes=yes)
        return
    made: Plan = run(
        reassign_work.make_plan, client, reassign_work.PlanRequest(remove=(broker_id,))
    )
    # What lies unevenly elsewhere is nobody's business now.
    made = replace(made, moves=tuple(m for m in made.moves if broker_id in m.before))
    reassign.print_moves(options, made)
    if made.moves:
        reassign.tell_summary(options, made)
    if dry_run:
        return
    confirm(f"Decommission broker {broker_id}?", yes=yes)
    if made.moves:
        run(reassign_work.apply, options, client, made, rate)
        reassign.follow(options, list(made.targets))
    _retire(options, broker_id)


def _retire(options: "GlobalOptions", broker_id: int) -> None:
    from quorate.tools import brokers_work as work

    gone: bool = run(work.retire, client_of(options), broker_id)
    if gone:
        say(options, f"broker {broker_id} is no longer of this cluster")
        return
    say(options, f"broker {broker_id} has nothing left: stop it, then, to forget it,")
    say(options, f"  quorate brokers decommission {broker_id} --yes")


def _cancel(options: "GlobalOptions", broker_id: int, *, dry_run: bool, yes: bool) -> None:
    from quorate.tools import reassign_work

    client = client_of(options)
    moves: list[Progress] = run(reassign_work.under_way, client)
    away = [move.partition for move in moves if broker_id in move.move.removing]
    if dry_run:
        say(options, f"would call off: {', '.join(map(str, away)) or 'nothing'}")
        return
    if away:
        confirm(f"Call off {len(away)} moves away from broker {broker_id}?", yes=yes)
        names = [f"{partition.topic}:{partition.partition}" for partition in away]
        run(reassign_work.cancel, options, client, names)
    say(options, f"called off {len(away)} moves away from broker {broker_id}")
    if run(reassign_work.unthrottle, client, away):
        say(options, "took back the throttles")
