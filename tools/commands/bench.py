"""``quorate bench``."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import print_table, run, say

if TYPE_CHECKING:
    from quorate.tools.bench_work import Measured

app = noun_app("Measure a cluster with the client of this machine.")

TURN = 100
ACKS: dict[str, object] = {"0": 0, "1": 1, "all": "all", "-1": "all"}


@app.command("produce", cls=Command)
def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Where to send; made if it is not there.")],
    *,
    records: Annotated[int, typer.Option("-n", "--num-records", min=1, help="How many.")] = 100_000,
    size: Annotated[
        int, typer.Option("--size", "--record-size", min=1, help="Bytes of a value.")
    ] = 100,
    acks: Annotated[str, typer.Option("--acks", help="0, 1 or all.")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    turn: Annotated[
        int, typer.Option("--turn", min=0, help="Wait for so many at a time; 0: only at the end.")
    ] = 0,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="Once more in transactions, 100 records each.")
    ] = False,
) -> None:
    """Send records as fast as they are acknowledged: how many a second, how soon.

    With --transactional it says what exactly-once costs: the same turns of 100 records (or --turn),
    waited for, and then committed. The records stay in the topic.
    """
    from quorate.tools import bench_work as work
    from quorate.tools.problems import UsageError
    from quorate.tools.reaching import client_of

    options = options_of(context)
    if acks not in ACKS:
        raise UsageError(f"--acks {acks}", why="it is 0, 1 or all", hint="--acks all")
    if transactional and ACKS[acks] != "all":
        raise UsageError(
            f"--transactional with --acks {acks}", why="transactions are acknowledged by all",
            hint="--acks all",
        )  # fmt: skip
    turn = turn or (TURN if transactional else 0)
    load = work.Load(topic, records, size, turn, ACKS[acks], compression)
    client = client_of(options, os.environ)
    measured: list[Measured] = run(work.produce, client, load, transactional)
    print_table(options, work.produce_table(measured))
    say(options, f"{run(work.brokers, client)} brokers; {work.machine_text()}")
    if transactional:
        price = measured[1].records_per_s / measured[0].records_per_s
        say(options, f"transactions of {turn} records: {price:.2f} of plain")
