"""What the benchmarks' command lines share: options, the console, the peers, the report."""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, NoReturn, Protocol, TypeVar

from rich.console import Console

from quorate.dataclass import dataclass
from quorate.tools.bench import report, results
from quorate.tools.bench.command import FILE_COLUMNS, REPORTS
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.machine import machine_facts
from quorate.tools.bench.measuring import Bench
from quorate.tools.problems import EXIT_INTERRUPTED, root_error
from tests.compat.peers import cache

SECONDS: Final = 3.0
K = TypeVar("K")


class Named(Protocol):
    """A kind of broker or cluster that takes part."""

    @property
    def name(self) -> str:
        """What figures call it."""
        ...

    @property
    def version(self) -> str:
        """Which one it is."""
        ...


class Measurable(Protocol):
    """What is measured on each kind."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def title(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Its figures."""
        ...


N = TypeVar("N", bound=Named)
S = TypeVar("S", bound=Measurable)


@dataclass(frozen=True, slots=True)
class Session(Generic[N, S]):
    """What a command line asks for: which scenarios, of whom, how often."""

    options: argparse.Namespace
    console: Console
    kinds: list[N]
    chosen: list[S]

    @property
    def bench(self) -> Bench:
        """How to measure."""
        options = self.options
        return Bench(options.seconds, 1.0, options.quiet_wait, "", "", 0, options.output)

    def kind_by_kind(
        self, measure: Callable[[N, Sequence[S], Bench, dict[str, list[Sample]]], None]
    ) -> list[Outcome]:
        """Have all scenarios measured on one running kind, then on the next, and so on."""
        samples = {k.name: {s.name: list[Sample]() for s in self.chosen} for k in self.kinds}
        for number in range(1, self.options.rounds + 1):
            for kind in self.kinds:
                text = f"{kind.name}, round {number} of {self.options.rounds}"
                announce(self.console, text)
                measure(kind, self.chosen, self.bench, samples[kind.name])
        return [
            Outcome(s.name, s.title, s.metrics, {k: tuple(v[s.name]) for k, v in samples.items()})
            for s in self.chosen
        ]

    def one_by_one(self, measure: Callable[[S, N, Bench], Sample]) -> list[Outcome]:
        """Have each scenario measured on all kinds in turn."""
        outcomes: list[Outcome] = []
        for scenario in self.chosen:
            samples: dict[str, list[Sample]] = {kind.name: [] for kind in self.kinds}
            for number in range(1, self.options.rounds + 1):
                for kind in self.kinds:
                    text = f"{scenario.title}: {kind.name}, round {number} of {self.options.rounds}"
                    announce(self.console, text)
                    samples[kind.name].append(measure(scenario, kind, self.bench))
            each = {name: tuple(taken) for name, taken in samples.items()}
            outcomes.append(Outcome(scenario.name, scenario.title, scenario.metrics, each))
        return outcomes

    def finish(self, outcomes: Sequence[Outcome], **settings: str | float) -> int:
        """Print and keep what was measured; return the exit code: 1 if a sample failed."""
        versions = {kind.name: kind.version for kind in self.kinds}
        kept = {"seconds": self.options.seconds, **settings}
        return finish(self.console, self.options, outcomes, versions=versions, settings=kept)


def begin(
    module: str,
    about: str | None,
    arguments: Sequence[str],
    scenarios: Sequence[S],
    kinds: Callable[..., list[N]],
    *,
    rounds: int,
) -> Session[N, S]:
    """Return what the command line of a module asks for; Kafka takes part if it can be had."""
    options_parser = parser(module, about, rounds=rounds)
    add_scenarios(options_parser)
    options = options_parser.parse_args(arguments)
    to = console()
    compared = with_kafka_if_possible(kinds, options, to)
    chosen = [s for s in scenarios if not options.scenarios or s.name in options.scenarios]
    return Session(options, to, compared, chosen)


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


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a benchmark's command and end the process.

    When it is interrupted, or told to end, what it has started ends, too.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = main(sys.argv[1:])
    except BaseException as error:
        if not isinstance(root_error(error), KeyboardInterrupt):
            raise
        print("interrupted: nothing was kept, and nothing runs on", file=sys.stderr)
        code = EXIT_INTERRUPTED
    sys.exit(code)


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
