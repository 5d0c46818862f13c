"""``quorate txns``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.model import TopicPartition
from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.problems import ProblemFoundError, UsageError
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.client.transactions.describing import (
        OpenTransaction,
        ProducerDescription,
        TransactionDescription,
        TransactionListing,
    )
    from quorate.errors import QuorateError

app = noun_app("List and describe transactions; find and end those that hang.")

MINUTE_MS = 60_000
Partition = Annotated[int | None, typer.Option("--partition", "-p", help="Only this one.")]
Broker = Annotated[int | None, typer.Option("--broker-id", help="Only what this broker has.")]


def now_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


@app.command("list", cls=Command)
def list_transactions(
    context: typer.Context,
    *,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only in this one: Ongoing, Empty, ...")
    ] = None,
    open_for_ms: Annotated[
        int | None, typer.Option("--duration-filter", help="Only open for longer: milliseconds.")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--transactional-id-pattern", help="Only names that match.")
    ] = None,
) -> None:
    """List transactional ids: who coordinates them, what they are at."""
    from quorate.tools import txns_work as work
    from quorate.tools.txn_tables import list_table

    options = options_of(context)
    found: list[TransactionListing] = run(
        work.listed, client_of(options), state or [], open_for_ms, pattern
    )
    print_table(options, list_table(found))


@app.command("describe", cls=Command)
def describe(
    context: typer.Context,
    wanted: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Transactional ids.")
    ] = None,
    *,
    named: Annotated[
        list[str] | None, typer.Option("--transactional-id", help="A transactional id.")
    ] = None,
) -> None:
    """Show how transactional ids stand: producer, epoch, state, since when, which partitions."""
    from quorate.tools import txns_work as work
    from quorate.tools.txn_tables import describe_table

    options = options_of(context)
    names = [*(wanted or ()), *(named or ())]
    found: list[TransactionDescription] = run(work.described, client_of(options), names)
    print_table(options, describe_table(found, now_ms()))


@app.command("producers", cls=Command)
def producers(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="A topic.")],
    *,
    partition: Partition = None,
    broker_id: Broker = None,
) -> None:
    """Show who writes to a topic, as its leaders remember it, and since which offset."""
    from quorate.tools import txns_work as work
    from quorate.tools.txn_tables import producers_table

    options = options_of(context)
    found: dict[TopicPartition, list[ProducerDescription]] = run(
        work.producers, client_of(options), topic, partition, broker_id
    )
    print_table(options, producers_table(found))


@app.command("find-hanging", cls=Command)
def find_hanging(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="Only in this topic.")] = None,
    *,
    partition: Partition = None,
    broker_id: Broker = None,
    older_min: Annotated[
        float,
        typer.Option("--max-transaction-timeout", help="Only those open for longer: minutes."),
    ] = 15.0,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end.

    Exits with 3 if there are some: readers of committed records wait there for ever.
    """
    from quorate.tools import txns_work as work
    from quorate.tools.txn_tables import hanging_table

    options = options_of(context)
    if partition is not None and topic is None:
        raise UsageError(
            "--partition needs a topic", why="it is one of a topic's",
            hint="quorate txns find-hanging TOPIC -p 0",
        )  # fmt: skip
    at_ms = now_ms()
    found: list[OpenTransaction] = run(
        work.hanging, client_of(options), topic, partition, broker_id,
        round(older_min * MINUTE_MS), at_ms,
    )  # fmt: skip
    print_table(options, hanging_table(found, at_ms))
    if found:
        first = found[0]
        raise ProblemFoundError(
            f"{len(found)} transactions hang", why="no coordinator will end them",
            hint=f"quorate txns abort --topic {first.partition.topic} --partition"
            f" {first.partition.partition} --start-offset"
            f" {first.producer.transaction_start_offset}",
        )  # fmt: skip


@app.command("abort", cls=Command)
def abort(
    context: typer.Context,
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Transactional ids whose producers to fence."),
    ] = None,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Where a transaction hangs.")] = None,
    partition: Partition = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", help="The offset at which it begins.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Abort transactions: of transactional ids, by fencing their producers; or one that hangs.

    One that hangs is named by --topic, --partition and --start-offset, as find-hanging tells them.
    """
    from quorate.tools import txns_work as work
    from quorate.tools.txn_tables import describe_table, hanging_table

    options = options_of(context)
    client = client_of(options)
    place = (topic, partition, start_offset)
    if bool(wanted) == any(part is not None for part in place) or (not wanted and None in place):
        raise UsageError(
            "name transactional ids, or --topic, --partition and --start-offset",
            why="it takes one or the other, and of the other all three",
            hint="quorate txns find-hanging",
        )
    if wanted:
        described: list[TransactionDescription] = run(work.described, client, wanted)
        if dry_run:
            print_table(options, describe_table(described, now_ms()))
            return
        confirm(f"Fence the producers of {', '.join(wanted)}?", yes=yes)
        results: Mapping[str, QuorateError | None] = run(work.fence, client, wanted)
        for name, error in results.items():
            if error is not None:
                raise work.explained(name, error)
            say(options, f"{name}: fenced; what it had open is aborted")
        return
    assert topic is not None
    assert partition is not None
    where = TopicPartition(topic, partition)
    found: OpenTransaction = run(work.producer_at, client, where, start_offset)
    if dry_run:
        print_table(options, hanging_table([found], now_ms()))
        return
    confirm(f"Abort the transaction of producer {found.producer.producer_id} in {where}?", yes=yes)
    run(work.end, client, found)
    say(options, f"{where}: the transaction that begins at {start_offset} is aborted")
