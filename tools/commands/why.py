"""``quorate why``."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.problems import UsageError
from quorate.tools.session import run

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.why.answer import Answer

app = noun_app(
    "Ask why things are as they are. Each line of an answer names the record that says so: "
    "the time, and log@offset; metadata@14 is what quorate metadata cat shows at offset 14. "
    "What was measured names who answered what: broker-1/ListOffsets."
)

Partition = Annotated[str, typer.Argument(metavar="PARTITION", help="orders:0 or orders-0.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="A consumer group.")]
Where = Annotated[
    Path | None,
    typer.Option(
        "--dir", help="Of a controller or of a cluster, read only, instead of controllers that run."
    ),
]


@app.command("leader", cls=Command)
def leader(context: typer.Context, partition: Partition, *, directory: Where = None) -> None:
    """Say why a partition has this leader, and not the preferred one."""
    _about_partition(options_of(context), "leader", partition, directory)


@app.command("isr", cls=Command)
def isr(context: typer.Context, partition: Partition, *, directory: Where = None) -> None:
    """Say why these replicas are in sync: who is missing, since when, what happened to it."""
    _about_partition(options_of(context), "isr", partition, directory)


@app.command("offline", cls=Command)
def offline(context: typer.Context, partition: Partition, *, directory: Where = None) -> None:
    """Say why nobody leads a partition, who can lead it without loss, and what to do."""
    _about_partition(options_of(context), "offline", partition, directory)


@app.command("rebalance", cls=Command)
def rebalance(context: typer.Context, group: Group, *, directory: Where = None) -> None:
    """Say why a group divided its partitions anew: who came and went, what else happened."""
    from quorate.tools.why_work import ask_about_rebalance, whom_to_ask

    options = options_of(context)
    asked = run(whom_to_ask, options, os.environ, directory)
    answer: Answer = run(ask_about_rebalance, asked, group)
    _print(options, answer, "rebalance", group)


@app.command("lag", cls=Command)
def lag(
    context: typer.Context,
    group: Group,
    *,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only this.")] = None,
    directory: Where = None,
) -> None:
    """Say why a group is behind: no members, nobody reads, nobody leads, or too slow."""
    from quorate.tools.why_work import ask_about_lag, whom_to_ask

    options = options_of(context)
    asked = run(whom_to_ask, options, os.environ, directory)
    answer: Answer = run(ask_about_lag, asked, group, topic or ())
    _print(options, answer, "lag", group)


@app.command("stuck", cls=Command)
def stuck(context: typer.Context, partition: Partition, *, directory: Where = None) -> None:
    """Say why a partition stands still: its high watermark, its last stable offset, its move.

    Who is in sync and behind, whether too few are, which transaction is open and whose it is.
    """
    from quorate.tools.why_work import ask_about_stuck, parse_partition, whom_to_ask

    options = options_of(context)
    wanted = parse_partition(partition)
    asked = run(whom_to_ask, options, os.environ, directory)
    answer: Answer = run(ask_about_stuck, asked, wanted)
    _print(options, answer, "stuck", partition)


@app.command("rejected", cls=Command)
def rejected(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(metavar="[TOPIC|PARTITION]", help="orders or orders:0.")
    ] = "",
    *,
    transactional_id: Annotated[
        str, typer.Option("--transactional-id", help="Its writes, instead.")
    ] = "",
    group: Annotated[str, typer.Option("--group", "-g", help="Its commits, instead.")] = "",
    directory: Where = None,
) -> None:
    """Say why writes are refused, or which would be; nothing is written to find out.

    What was measured names the answer that it comes from; what a setting forbids is told as
    configured.
    """
    from quorate.tools import why_work as work

    options = options_of(context)
    if len([each for each in (subject, transactional_id, group) if each]) != 1:
        raise UsageError(
            "it takes one of a topic, a partition, a transactional id and a group",
            why="each is refused by somebody else: a leader, a coordinator",
            hint="quorate why rejected orders:0",
        )
    asked = run(work.whom_to_ask, options, os.environ, directory)
    answer: Answer
    if transactional_id:
        answer = run(work.ask_about_producer, asked, transactional_id)
    elif group:
        answer = run(work.ask_about_commits, asked, group)
    else:
        answer = run(work.ask_about_writes, asked, *work.parse_topic(subject))
    _print(options, answer, "rejected", subject or transactional_id or group)


def _about_partition(
    options: "GlobalOptions", question: str, text: str, directory: Path | None
) -> None:
    from quorate.tools.why_work import ask_about_partition, parse_partition, whom_to_ask

    partition = parse_partition(text)
    asked = run(whom_to_ask, options, os.environ, directory)
    answer: Answer = run(ask_about_partition, asked, question, partition)
    _print(options, answer, question, text)


def _print(options: "GlobalOptions", answer: "Answer", question: str, subject: str) -> None:
    from quorate.tools.output import document_text

    if options.format in {"table", "wide"}:
        sys.stdout.write(answer.text())
    elif options.format == "name":
        sys.stdout.writelines(f"{line.citation}\n" for line in answer.lines)
    else:
        sys.stdout.write(document_text(answer.document(question, subject), options.format))
