"""``quorate demo``."""

import sys
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Generic, Protocol, TypeVar

import typer

from quorate.dataclass import dataclass
from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.output import Column, Table
from quorate.tools.problems import ProblemFoundError
from quorate.tools.session import note, print_table, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.demo_failures import Ending, Tell

app = command_app()


class Story(StrEnum):
    """What can be shown."""

    FAILOVER = "failover"
    THREE_FAILURES = "three-failures"
    UNCLEAN = "unclean"
    ISR_SHRINK = "isr-shrink"
    REBALANCE = "rebalance"
    EXACTLY_ONCE = "exactly-once"
    LIST = "list"


STORIES: Final = {
    Story.FAILOVER: "A leader dies under a stream of log lines; every byte is compared.",
    Story.THREE_FAILURES: "One replica after the other dies; the last one in sync is waited for.",
    Story.UNCLEAN: "The same, but another one has to lead at once: what that loses, exactly.",
    Story.ISR_SHRINK: "Replicas hang, leave those in sync, catch up; writes wait, then fail.",
    Story.REBALANCE: "Members of a group join, die and leave; partitions go from hand to hand.",
    Story.EXACTLY_ONCE: "A program that reads and writes is killed again and again: all is once.",
}


@app.command(cls=Command)
def demo(
    context: typer.Context,
    *,
    story: Annotated[
        Story,
        typer.Argument(help="Which; quorate demo list says what they are about."),
    ] = Story.FAILOVER,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="With three-failures: the story unclean.", hidden=True),
    ] = False,
) -> None:
    """Play a story on a cluster of its own, told step by step; quorate demo list names them.

    Without a name: this machine's log lines stream through three brokers, one of which dies. Exit
    code 0 means that it ended as promised: what was acknowledged came back. Nothing is left behind.
    """
    options = options_of(context)
    if unclean and story is not Story.THREE_FAILURES:
        raise typer.BadParameter("--unclean is for three-failures")
    match story:
        case Story.LIST:
            rows = tuple((str(each), what) for each, what in STORIES.items())
            print_table(options, Table("demos", (Column("name"), Column("story")), rows))
        case Story.FAILOVER:
            _failover(options)
        case Story.REBALANCE:
            _rebalance(options)
        case Story.EXACTLY_ONCE:
            _exactly_once(options)
        case Story.ISR_SHRINK:
            _isr_shrink(options)
        case _:
            _three_failures(options, unclean=unclean or story is Story.UNCLEAN)


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
    from quorate.tools.demo_failures import three_failures

    note(options, "a topic with three replicas, on four brokers; three of them will die ...")
    _tell_of_a_partition(options, partial(three_failures, unclean=unclean))


def _isr_shrink(options: "GlobalOptions") -> None:
    from quorate.tools.demo_isr import isr_shrink

    note(options, "a topic with three replicas, min.insync.replicas=2; two of them will hang ...")
    _tell_of_a_partition(options, isr_shrink)


def _tell_of_a_partition(
    options: "GlobalOptions", play: "Callable[[Tell], Awaitable[Ending]]"
) -> None:
    from quorate.tools import demo_failures_report as report

    told = report.ending_lines, report.ending_object
    _play(options, play, Voice(report.step_text, report.step_object, *told))


def _rebalance(options: "GlobalOptions") -> None:
    from quorate.tools import demo_rebalance as story

    note(options, "a topic of six partitions, and a group of up to three programs that read it ...")
    told = story.reckoning_text, story.reckoning_object
    _play(options, story.rebalance, Voice(story.handover_text, story.handover_object, *told))


def _exactly_once(options: "GlobalOptions") -> None:
    from quorate.tools import demo_exactly_once as story

    note(options, "numbers in a topic, and a program that writes their squares to another one ...")
    told = story.reckoning_text, story.reckoning_object
    _play(options, story.exactly_once, Voice(story.moment_text, story.moment_object, *told))


class HasEnded(Protocol):
    """How a story ended."""

    @property
    def ok(self) -> bool:
        """Whether it ended as it must."""
        ...


S = TypeVar("S")
E = TypeVar("E", bound=HasEnded)


@dataclass(frozen=True, slots=True)
class Voice(Generic[S, E]):
    """How a story's steps and its end are told: to people, and as lines of JSON."""

    step_text: "Callable[[S], str]"
    step_object: "Callable[[S], str]"
    end_text: "Callable[[E], str]"
    end_object: "Callable[[E], str]"


def _play(
    options: "GlobalOptions",
    play: "Callable[[Callable[[S], None]], Awaitable[E]]",
    voice: Voice[S, E],
) -> None:
    """Play a story, and tell it as it goes.

    Raises:
        ProblemFoundError: it did not end as it must.
    """
    as_json = options.format in {"json", "jsonl"}

    def tell(step: S) -> None:
        print(voice.step_object(step) if as_json else voice.step_text(step), flush=True)

    end: E = run(play, tell)
    said = voice.end_text(end)
    print(voice.end_object(end) if as_json else said)
    if not end.ok:
        raise ProblemFoundError("it did not end as it must", why=said, hint="report this bug")
