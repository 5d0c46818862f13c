"""What the benchmarks' command lines share: options, the console, the peers, the report."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console

from quorate.tools.bench import report, results
from quorate.tools.bench.command import FILE_COLUMNS, REPORTS
from quorate.tools.bench.figures import Outcome
from quorate.tools.bench.machine import machine_facts
from tests.compat.peers import cache

SECONDS: Final = 3.0
K = TypeVar("K")


def parser(module: str, about: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """Return the options of ``python -m quorate.tools.bench.<module>``, each with a default."""
    options = argparse.ArgumentParser(
        prog=f"python -m quorate.tools.bench.{module}", description=about
    )
    options.add_argument("--rounds", type=int, default=rounds, help="samples of each (%(default)s)")
    options.add_argument("--quiet-wait", type=float, default=10.0, metavar="SECONDS")
    options.add_argument("--output", type=Path, default=REPORTS, help="folder for the JSON")
    options.add_argument("--name", default=module, help="name of that file (%(default)s)")
    return options


def add_scenarios(options: argparse.ArgumentParser) -> None:
    """Let one choose scenarios, how long their samples are, and whether Kafka takes part."""
    options.add_argument("scenarios", nargs="*", help="their names; default: all")
    options.add_argument(
        "--seconds", type=float, default=SECONDS, help="length of a load's sample (%(default)s)"
    )
    options.add_argument("--no-kafka", action="store_true", help="leave out Apache Kafka")


def console() -> Console:
    """Return where to print; a file is as wide as its lines."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=FILE_COLUMNS)


def announce(to: Console, text: str) -> None:
    """Say what is going on."""
    to.print(text, style="dim", markup=False)


def with_kafka_if_possible(
    subjects: Callable[..., K], options: argparse.Namespace, to: Console
) -> K:
    """Return the subjects, without Kafka if it is not wanted or cannot be had."""
    try:
        return subjects(with_kafka=not options.no_kafka)
    except cache.PeerUnavailableError as error:
        announce(to, f"without Kafka: {error}")
        return subjects(with_kafka=False)


def finish(
    to: Console,
    options: argparse.Namespace,
    outcomes: Sequence[Outcome],
    *,
    versions: Mapping[str, str],
    settings: Mapping[str, str | int | float],
) -> int:
    """Print and keep what was measured; return the exit code: 1 if a sample failed."""
    report.print_report(to, outcomes)
    path = options.output / f"{options.name}.json"
    kept = {"rounds": options.rounds, **settings}
    results.write_json(results.Run(machine_facts(), kept, versions, outcomes), path)
    announce(to, f"written to {path}")
    return 1 if any(outcome.failures(s) for outcome in outcomes for s in outcome.subjects) else 0
