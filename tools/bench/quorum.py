"""`python -m quorate.tools.bench.quorum`: what three controllers on this machine can do.

Commits wait for an fsync on two of three disks.  Also compares the making of a very large topic
with Apache Kafka's, in turn.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.tools.bench import figures, quorum_kafka, report, results
from quorate.tools.bench.command import REPORTS, allow_many_connections
from quorate.tools.bench.figures import Outcome, Sample
from quorate.tools.bench.machine import machine_facts
from quorate.tools.bench.measuring import wait_until_quiet
from quorate.tools.bench.quorum_cluster import CONTROLLERS, Quorum, quorum
from quorate.tools.bench.quorum_scenarios import Scenario, scenarios
from quorate.tools.bench.runner import FAILURES, Announce
from tests.compat.peers import cache, java
from tests.robustness.quorum_client import MaybeDoneError, NotDoneError

SUBJECT = "quorate"
CONSOLE_COLUMNS = 160


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m quorate.tools.bench.quorum", description=__doc__
    )
    options.add_argument("scenarios", nargs="*", help="their names; default: all")
    options.add_argument("--rounds", type=int, default=3, help="samples of each (%(default)s)")
    options.add_argument(
        "--seconds", type=float, default=3.0, help="length of a load's sample (%(default)s)"
    )
    options.add_argument("--quiet-wait", type=float, default=10.0, metavar="SECONDS")
    options.add_argument("--no-quorum", action="store_true", help="only compare with Kafka")
    options.add_argument("--no-kafka", action="store_true", help="leave out Apache Kafka")
    options.add_argument("--no-admin", action="store_true", help="leave out the comparison")
    options.add_argument("--output", type=Path, default=REPORTS, help="folder for the JSON")
    options.add_argument("--name", default="quorum", help="name of that file (%(default)s)")
    return options


def run_quorum(options: argparse.Namespace, announce: Announce) -> list[Outcome]:
    """Run the chosen scenarios on one quorum, each so many times."""
    chosen = [s for s in scenarios() if not options.scenarios or s.name in options.scenarios]
    samples: dict[str, list[Sample]] = {scenario.name: [] for scenario in chosen}
    with quorum() as running:
        for scenario in chosen:
            for number in range(1, options.rounds + 1):
                announce(f"{scenario.title}, round {number} of {options.rounds}")
                wait_until_quiet(options.quiet_wait)
                samples[scenario.name].append(sample_of(scenario, running, options.seconds))
    return [
        Outcome(s.name, _title(s), s.metrics, {SUBJECT: tuple(samples[s.name])}) for s in chosen
    ]


def sample_of(scenario: Scenario, running: Quorum, seconds: float) -> Sample:
    """Measure once; a failure becomes the sample."""
    try:
        return scenario.measure(running, seconds)
    except (*FAILURES, NotDoneError, MaybeDoneError) as error:
        return Sample({}, failure=str(error) or type(error).__name__)


def _title(scenario: Scenario) -> str:
    return f"{scenario.title} (target: {scenario.target})" if scenario.target else scenario.title


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    options = parser().parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=CONSOLE_COLUMNS)

    def announce(text: str) -> None:
        console.print(text, style="dim", markup=False)

    allow_many_connections()
    outcomes = [] if options.no_quorum else run_quorum(options, announce)
    if not options.no_admin:
        try:
            chosen = quorum_kafka.subjects(with_kafka=not options.no_kafka)
        except cache.PeerUnavailableError as error:
            announce(f"without Kafka: {error}")
            chosen = quorum_kafka.subjects(with_kafka=False)
        outcomes.append(quorum_kafka.compare(chosen, rounds=options.rounds, announce=announce))
    report.print_report(console, outcomes)
    versions = {SUBJECT: quorate.__version__, "kafka": java.KAFKA_VERSION}
    settings = {
        "controllers": CONTROLLERS,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "others_cores_max": figures.OTHERS_CORES_MAX,
    }
    path = options.output / f"{options.name}.json"
    results.write_json(results.Run(machine_facts(), settings, versions, outcomes), path)
    console.print(f"written to {path}")
    return 1 if any(outcome.failures(s) for outcome in outcomes for s in outcome.subjects) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
