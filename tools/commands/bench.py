"""``quorate bench``."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.bench_figures import VALUE_BYTES_MIN
from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import note, print_table, run, say

if TYPE_CHECKING:
    from quorate.tools.bench_figures import Consumed, Requests
    from quorate.tools.bench_work import Measured

app = noun_app("Measure a cluster with our client.")

TURN = 100
ACKS: dict[str, object] = {"0": 0, "1": 1, "all": "all", "-1": "all"}


TopicOption = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic, as Kafka's tools.")
]


@app.command("produce", cls=Command)
def produce(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(help="Where to send; made if it is not there.")
    ] = None,
    *,
    topic_option: TopicOption = None,
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
    """Send records as fast as they are acknowledged: how many a second, how soon, at what cost.

    Values are random letters, as Kafka's tool sends. CLIENT-CPU-S is the CPU time of this process
    (brokers tell theirs as process_cpu_seconds_total, in their metrics); MIB-ON-DISK is what all
    replicas together have grown by.

    With --transactional it says what exactly-once costs: the same turns of 100 records (or --turn),
    waited for, and then committed. The records stay in the topic.
    """
    from functools import partial

    from quorate.tools import bench_work as work
    from quorate.tools.arguments import compression_named
    from quorate.tools.problems import UsageError
    from quorate.tools.progress import Bar
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
    codec = compression_named(compression)
    load = work.Load(_one(topic, topic_option), records, size, turn, ACKS[acks], codec)
    client = client_of(options, os.environ)
    with Bar(options, "sending") as bar:
        bar.set_total(records * size * (2 if transactional else 1))
        sending = partial(work.produce, transactional=transactional)
        measured: list[Measured] = run(sending, client, load, bar.advance)
    print_table(options, work.produce_table(measured))
    say(options, run(work.surroundings_text, client))
    if transactional:
        price = measured[1].records_per_s / measured[0].records_per_s
        say(options, f"transactions of {turn} records: {price:.2f} of plain")


@app.command("consume", cls=Command)
def consume(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="What to read.")] = None,
    *,
    topic_option: TopicOption = None,
    records: Annotated[
        int, typer.Option("-n", "--num-records", "--messages", min=1, help="How many at most.")
    ] = 1_000_000,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="As a member of this group.")
    ] = None,
    fetch_size: Annotated[
        int,
        typer.Option("--fetch-size", min=1, help="Bytes of a partition in one answer."),
    ] = 1 << 20,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="No records of open transactions.")
    ] = False,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, help="Stop after so long without any.")
    ] = 10_000,
) -> None:
    """Read a topic as fast as it comes: records and mebibytes a second.

    It reads all partitions from their beginnings to where they end; with -g what the group assigns,
    from where the group is, and says how long it took to join. Nothing is committed.
    """
    from quorate.tools import bench_reading as work
    from quorate.tools.bench_figures import consume_table
    from quorate.tools.progress import Bar
    from quorate.tools.reaching import client_of

    options = options_of(context)
    level = "read_committed" if read_committed else "read_uncommitted"
    plan = work.ReadPlan(
        _one(topic, topic_option), group, records, fetch_size, timeout_ms / 1e3, level
    )
    with Bar(options, "reading") as bar:
        consumed: Consumed = run(work.consume, client_of(options, os.environ), plan, bar.advance)
    print_table(options, consume_table(consumed))
    if consumed.records < records:
        note(options, f"{plan.topic} has no more for it than {consumed.records} records")


@app.command("e2e", cls=Command)
def end_to_end(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(help="Where to send, and read; made if it is not there.")
    ] = None,
    *,
    topic_option: TopicOption = None,
    records: Annotated[int, typer.Option("-n", "--num-records", min=1, help="How many.")] = 1_000,
    size: Annotated[
        int, typer.Option("--size", "--record-size", min=VALUE_BYTES_MIN, help="Bytes of a value.")
    ] = 100,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            "--throughput",
            min=-1,
            help="Records a second; 0: each as soon as the one before came.",
        ),
    ] = 0,
    acks: Annotated[str, typer.Option("--acks", "--producer-acks", help="1 or all.")] = "all",
) -> None:
    """Send records and read them again: how soon they are acknowledged, and how soon they come.

    With --rate, times count from when a record was due, so that what holds one up is told of all
    that waited behind it; no progress is shown then: drawing would be measured. The records stay in
    the topic.
    """
    from quorate.tools import bench_reading as work
    from quorate.tools import bench_work
    from quorate.tools.bench_figures import round_trips_table
    from quorate.tools.problems import UsageError
    from quorate.tools.progress import Tally
    from quorate.tools.reaching import client_of

    options = options_of(context)
    if ACKS.get(acks, 0) == 0:
        raise UsageError(
            f"--acks {acks}", why="what nobody acknowledges has no such time", hint="--acks all"
        )
    client = client_of(options, os.environ)
    plan = work.TripPlan(_one(topic, topic_option), records, size, max(0.0, rate), ACKS[acks])
    run(bench_work.make_topic, client, plan.topic)
    with Tally(options, records) as tally:
        trips, seconds = run(work.end_to_end, client, plan, tally.between)
    print_table(options, round_trips_table(trips, seconds))
    say(options, run(bench_work.surroundings_text, client))


@app.command("metadata", cls=Command)
def metadata(
    context: typer.Context,
    *,
    topics: Annotated[int, typer.Option("-n", "--topics", min=1, help="How many topics.")] = 100,
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", min=1, help="Of each topic.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("-r", "--replication-factor", min=1, help="Of each partition.")
    ] = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="So many ask at a time.")] = 1,
) -> None:
    """Create topics, describe and delete them, one in a request: how many a second, how soon.

    They are called quorate-bench-...; none is left, also after Ctrl-C, as long as brokers answer.
    With --at-once no progress is shown: drawing would be measured.
    """
    from quorate.tools import bench_work
    from quorate.tools.bench_figures import requests_table
    from quorate.tools.bench_topics import TopicPlan, measure_topics
    from quorate.tools.progress import Tally
    from quorate.tools.reaching import client_of

    options = options_of(context)
    client = client_of(options, os.environ)
    plan = TopicPlan(topics, partitions, replicas, min(at_once, topics))
    with Tally(options, topics) as tally:
        measured: list[Requests] = run(measure_topics, client, plan, tally.between)
    print_table(options, requests_table(measured))
    say(options, run(bench_work.surroundings_text, client))


def _one(positional: str | None, named: str | None) -> str:
    """Return the topic that is named behind the verb, or in ``--topic``."""
    from quorate.tools.problems import UsageError
    from quorate.tools.topic_options import topic_names

    names = topic_names([positional] if positional else [], [named] if named else [])
    if len(names) > 1:
        raise UsageError("two topics are named", why=" and ".join(names), hint="name one")
    return names[0]
