"""``quorate verify``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of

app = noun_app("Put a cluster under load, break it, heal it, and judge all that clients saw.")


@app.command("run", cls=Command)
def run(
    context: typer.Context,
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]...", help="What clients do.")
    ] = None,
    *,
    time: Annotated[
        float, typer.Option("--time", min=1, help="Seconds of load and faults.")
    ] = 60.0,
    faults: Annotated[
        str | None,
        typer.Option("--faults", help="kill,pause,...; kill:leader for one of them; none."),
    ] = None,
    schedule: Annotated[
        str, typer.Option("--schedule", help="rotation, single (one at a time), none.")
    ] = "rotation",
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="What is drawn; another one each time.")
    ] = None,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=99, help="How many.")] = 3,
    controllers: Annotated[
        int, typer.Option("--controllers", min=1, max=9, help="How many: 1, 3, 5.")
    ] = 3,
    client: Annotated[
        str, typer.Option("--client", help="own, librdkafka or java: who sends and reads.")
    ] = "own",
    acks: Annotated[
        str, typer.Option("--acks", help="all; 1 may lose what it acknowledged; 0.")
    ] = "all",
    rate: Annotated[int, typer.Option("--rate", min=1, help="Operations a second.")] = 500,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Of each topic.")] = 6,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", min=1, help="Of topics.")
    ] = 3,
    min_insync: Annotated[
        int, typer.Option("--min-insync", min=1, help="min.insync.replicas.")
    ] = 2,
    properties: Annotated[
        list[str] | None, typer.Option("--property", help="NAME=VALUE of all nodes.")
    ] = None,
    topic_configs: Annotated[
        list[str] | None, typer.Option("--topic-config", help="NAME=VALUE of all topics.")
    ] = None,
    against: Annotated[
        str, typer.Option("--against", help="host:port,...: a cluster that runs already.")
    ] = "",
    inject_bug: Annotated[
        str, typer.Option("--inject-bug", help="Plant a bug: quorate verify mutants lists them.")
    ] = "",
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where runs are kept; ./quorate-verify.")
    ] = None,
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
            "against": against,
            "mutant": inject_bug,
            "keep_data": keep_data,
            "partitions": partitions,
            "replication_factor": replication_factor,
            "min_insync": min_insync,
        },
    )
    verify_run(options_of(context), asked)
