"""``quorate demo``."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.problems import ProblemFoundError
from quorate.tools.session import note, run

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions

app = command_app()


class Story(StrEnum):
    """What can be shown."""

    FAILOVER = "failover"
    THREE_FAILURES = "three-failures"


@app.command(cls=Command)
def demo(
    context: typer.Context,
    *,
    story: Annotated[
        Story,
        typer.Argument(help="failover, or three-failures: one replica after the other dies."),
    ] = Story.FAILOVER,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="three-failures: do not wait for the last one in sync, lose records."
        ),
    ] = False,
) -> None:
    """Stream this machine's log lines through a cluster, kill a leader, read all back, compare.

    The cluster has brokers and controllers of its own. Exit code 0 means that every acknowledged
    record came back once, as it was sent, in order. Nothing is left behind.
    """
    options = options_of(context)
    if story is Story.THREE_FAILURES:
        _three_failures(options, unclean=unclean)
        return
    if unclean:
        raise typer.BadParameter("--unclean is for three-failures")
    _failover(options)


def _failover(options: "GlobalOptions") -> None:
    from quorate.tools.demo import DemoReport, run_demo
    from quorate.tools.demo_report import mistakes, print_report, report_json

    note(
        options,
        "streaming this machine's log lines through three brokers, one of which dies ...",
    )
    report: DemoReport = run(run_demo)
    if options.format in {"json", "jsonl"}:
        sys.stdout.write(report_json(report))
    else:
        from rich.console import Console

        print_report(report, Console(no_color=not options.color))
    if not report.ok:
        raise ProblemFoundError(
            "what was read is not what was sent", why=mistakes(report), hint="report this bug"
        )


def _three_failures(options: "GlobalOptions", *, unclean: bool) -> None:
    from quorate.tools.demo_failures import Ending, Step, three_failures
    from quorate.tools.demo_failures_report import (
        ending_lines,
        ending_object,
        step_object,
        step_text,
    )

    as_json = options.format in {"json", "jsonl"}
    note(options, "a topic with three replicas, on four brokers; three of them will die ...")

    def tell(step: Step) -> None:
        sys.stdout.write((step_object(step) if as_json else step_text(step)) + "\n")
        sys.stdout.flush()

    ending: Ending = run(three_failures, tell, unclean=unclean)
    sys.stdout.write((ending_object(ending) if as_json else ending_lines(ending)) + "\n")
    if not ending.ok:
        raise ProblemFoundError(
            "it did not end as it must", why=ending_lines(ending), hint="report this bug"
        )
