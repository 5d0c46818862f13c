"""`python -m quorate.tools.bench.quorum`: what three controllers on this machine can do.

Commits wait for an fsync on two of three disks.  Also compares the making of a very large topic
with Apache Kafka's, in turn.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError
from quorate.tools.bench import command_line, figures, quorum_kafka
from quorate.tools.bench.command import allow_many_connections
from quorate.tools.bench.figures import Outcome, Sample
from quorate.tools.bench.measuring import wait_until_quiet
from quorate.tools.bench.quorum_cluster import CONTROLLERS, Quorum, quorum
from quorate.tools.bench.quorum_scenarios import Scenario, scenarios
from quorate.tools.bench.runner import FAILURES, Announce
from tests.compat.peers import java

SUBJECT = "quorate"
CONSOLE_COLUMNS = 160


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
    parser = command_line.parser("quorum", __doc__, rounds=3)
    command_line.add_scenarios(parser)
    parser.add_argument("--no-quorum", action="store_true", help="only compare with Kafka")
    parser.add_argument("--no-admin", action="store_true", help="leave out the comparison")
    options = parser.parse_args(arguments)
    console = command_line.console()
    announce = partial(command_line.announce, console)
    allow_many_connections()
    outcomes = [] if options.no_quorum else run_quorum(options, announce)
    if not options.no_admin:
        subjects = quorum_kafka.subjects
        chosen = command_line.with_kafka_if_possible(subjects, options, console)
        outcomes.append(quorum_kafka.compare(chosen, rounds=options.rounds, announce=announce))
    versions = {SUBJECT: quorate.__version__, "kafka": java.KAFKA_VERSION}
    settings = {
        "controllers": CONTROLLERS,
        "seconds": options.seconds,
        "others_cores_max": figures.OTHERS_CORES_MAX,
    }
    return command_line.finish(console, options, outcomes, versions=versions, settings=settings)


if __name__ == "__main__":
    command_line.run(main)
