"""``quorate verify``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.completing import fault_names, workload_names

app = noun_app("Put a cluster under load, break it, heal it, and judge all that clients saw.")


Directory = Annotated[
    Path | None, typer.Option("--dir", help="Where runs are kept; ./quorate-verify.")
]
Properties = Annotated[
    list[str] | None, typer.Option("--property", help="NAME=VALUE of all nodes.")
]
TopicConfigs = Annotated[
    list[str] | None, typer.Option("--topic-config", help="NAME=VALUE of all topics.")
]
Against = Annotated[
    str, typer.Option("--against", help="host:port,...: a cluster that runs already.")
]
Bug = Annotated[
    str, typer.Option("--inject-bug", help="Plant a bug of quorate verify mutants --list.")
]
Schedule = Annotated[
    str, typer.Option("--schedule", help="rotation, single (one at a time), none.")
]
ClientKind = Annotated[
    str, typer.Option("--client", help="own, librdkafka, java or plain: who sends.")
]
NetworkKind = Annotated[
    str, typer.Option("--network", help="proxy, namespaces (as root), or auto.")
]
Workloads = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORKLOAD]...", help="What clients do.", autocompletion=workload_names),
]
FaultNames = Annotated[
    str | None,
    typer.Option(
        "--faults",
        help="kill,pause,...; kill:leader for one of them; none.",
        autocompletion=fault_names,
    ),
]
Controllers = Annotated[
    int, typer.Option("--controllers", min=1, max=9, help="How many, an odd number: 1, 3, 5.")
]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", "-r", min=1, help="Of topics.")
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A folder, a name, the beginning of one, or latest.")
]


@app.command("run", cls=Command)
def run(
    context: typer.Context,
    workloads: Workloads = None,
    *,
    time: Annotated[
        float, typer.Option("--time", min=1, help="Seconds of load and faults.")
    ] = 60.0,
    faults: FaultNames = None,
    schedule: Schedule = "rotation",
    network: NetworkKind = "auto",
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="What is drawn; another one each time.")
    ] = None,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=99, help="How many.")] = 3,
    controllers: Controllers = 3,
    client: ClientKind = "own",
    acks: Annotated[
        str, typer.Option("--acks", help="all; 1 may lose what it acknowledged; 0.")
    ] = "all",
    rate: Annotated[int, typer.Option("--rate", min=1, help="Operations a second.")] = 500,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Of each topic.")] = 6,
    replication_factor: ReplicationFactor = 3,
    min_insync: Annotated[
        int | None,
        typer.Option("--min-insync", min=1, help="min.insync.replicas; 2, if it can be."),
    ] = None,
    properties: Properties = None,
    topic_configs: TopicConfigs = None,
    against: Against = "",
    inject_bug: Bug = "",
    directory: Directory = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep the nodes' data, whatever is found.")
    ] = False,
) -> None:
    """Start a cluster, load it, break it, heal it, read all back, and judge.

    The exit code is 0 if nothing is wrong and the run has shown enough, 3 if something is wrong, 4
    if nobody knows. All that happened is in a folder of its own, with the command that repeats it.
    """
    from quorate.tools.verify_running import Asked, verify_run

    asked = Asked(
        workloads=tuple(workloads or ()),
        faults=faults,
        seconds=time,
        seed=seed,
        directory=directory,
        properties=tuple(properties or ()),
        topic_configs=tuple(topic_configs or ()),
        chosen={
            "brokers": brokers,
            "controllers": controllers,
            "client": client,
            "acks": acks,
            "rate_per_s": rate,
            "schedule": schedule,
            "network": network,
            "against": against,
            "mutant": inject_bug,
            "keep_data": keep_data,
            "partitions": partitions,
            "replication_factor": replication_factor,
            **({} if min_insync is None else {"min_insync": min_insync}),
        },
    )
    verify_run(options_of(context), asked)


@app.command("check", cls=Command)
def check(
    context: typer.Context,
    history: Annotated[
        str, typer.Argument(metavar="HISTORY|RUN", help="A file, or a run as report takes it.")
    ],
    *,
    directory: Directory = None,
) -> None:
    """Judge a history again, without a cluster; the exit code is that of run.

    A history that was cut off is judged as far as it goes.
    """
    from quorate.tools import verify_judging

    verify_judging.check(options_of(context), directory, history)


@app.command("report", cls=Command)
def report(
    context: typer.Context,
    run: RunName = "latest",
    *,
    html: Annotated[
        Path | None, typer.Option("--html", help="Where to write the page; RUN/report.html.")
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    directory: Directory = None,
) -> None:
    """Show a run: its verdict, what it did over time, its faults; and write a page of it.

    The page is one file without scripts, which shows the same in pictures.
    """
    from quorate.tools import verify_judging

    page = verify_judging.report(options_of(context), directory, run, html)
    if open_page:
        verify_judging.show_in_browser(page)


@app.command("list", cls=Command)
def list_(
    context: typer.Context,
    *,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="The workloads instead of the runs.")
    ] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="The faults, and what of them there is here.")
    ] = False,
    directory: Directory = None,
) -> None:
    """List the runs, the newest first; or what can be asked of a run."""
    from quorate.tools import verify_choices, verify_judging

    options = options_of(context)
    if workloads:
        verify_choices.list_workloads(options)
    if faults:
        verify_choices.list_faults(options)
    if not (workloads or faults):
        verify_judging.list_runs(options, directory)


@app.command("show", cls=Command)
def show(
    context: typer.Context,
    run: RunName = "latest",
    *,
    anomaly: Annotated[
        str, typer.Option("--anomaly", help="Only the operations that prove it.")
    ] = "",
    process: Annotated[
        int | None, typer.Option("--process", help="Only those of a process.")
    ] = None,
    operation: Annotated[
        str, typer.Option("--operation", help="Only those of a name, such as send or fault.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1)] = 100,
    directory: Directory = None,
) -> None:
    """Show the operations of a run in the order in which they ended."""
    from quorate.tools import verify_showing

    wanted = verify_showing.Wanted(anomaly, process, operation, limit)
    verify_showing.show(options_of(context), directory, run, wanted)


@app.command("mutants", cls=Command)
def mutants(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which; all, without any.")
    ] = None,
    *,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each.")] = 10,
    first_seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 1,
    clean: Annotated[
        int, typer.Option("--clean", min=0, help="So many of them without the bug, too.")
    ] = 2,
    only_list: Annotated[
        bool, typer.Option("--list", help="Say which there are, and run nothing.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Where runs are kept, to go on with; new, below /tmp."),
    ] = None,
) -> None:
    """Plant bugs, one at a time, and see whether each is found: the proof of the harness.

    The exit code is 0 only if each is found in nine of ten runs, by what it breaks, and nothing is
    found in any run without it.
    """
    from quorate.tools import verify_mutants

    if only_list:
        verify_mutants.list_mutants(options_of(context))
        return
    wanted = verify_mutants.Wanted(tuple(names or ()), seeds, first_seed, clean, directory)
    verify_mutants.prove(options_of(context), wanted)
