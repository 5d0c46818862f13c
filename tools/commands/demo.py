"""``quorate demo``."""

import sys

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.problems import ProblemFoundError
from quorate.tools.session import note, run

app = command_app()


@app.command(cls=Command)
def demo(context: typer.Context) -> None:
    """Stream this machine's log lines through a cluster, kill a leader, read all back, compare.

    The cluster has three brokers and three controllers of its own. Exit code 0 means that every
    acknowledged record came back once, as it was sent, in order. Nothing is left behind.
    """
    from quorate.tools.demo import DemoReport, run_demo
    from quorate.tools.demo_report import mistakes, print_report, report_json

    options = options_of(context)
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
