"""The command line of the benchmarks."""

import argparse
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from quorate.tools.bench import brokers, plot, report, results, runner, suite
from quorate.tools.bench.machine import machine_facts
from quorate.tools.bench.measuring import ONE_CORE, Bench
from quorate.tools.bench.scenarios import Scenario
from tests.compat.peers import cache, nodes

REPORTS = cache.ROOT / "docs" / "benchmarks"
FILE_COLUMNS = 160
QUICK_REPORTS = cache.CACHE / "benchmarks"


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m quorate.tools.bench",
        description="Compares Quorate with Apache Kafka on this machine, in turn.",
    )
    options.add_argument(
        "scenarios", nargs="*", help="names or patterns, such as 'produce-*'; default: all"
    )
    options.add_argument("--list", action="store_true", help="list the scenarios and stop")
    options.add_argument("--rounds", type=int, default=3, help="samples of each (%(default)s)")
    options.add_argument(
        "--seconds", type=float, default=2.0, help="length of a sample (%(default)s)"
    )
    options.add_argument(
        "--warmup", type=float, default=0.5, help="seconds before each sample (%(default)s)"
    )
    options.add_argument(
        "--quick", action="store_true", help="one short round of a few scenarios; nothing kept"
    )
    options.add_argument(
        "--pin",
        choices=("quickest", "none", "clients", "both"),
        default="quickest",
        help="keep generators in C on core 1, and with 'both' brokers on core 0; 'quickest': those"
        " that fight with themselves on more than one core (%(default)s)",
    )
    options.add_argument(
        "--quiet-wait",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="wait at most so long for a quiet machine before a sample (%(default)s)",
    )
    options.add_argument(
        "--startup-gigabytes",
        type=float,
        default=0.0,
        help="data on disk in 'startup' (%(default)s)",
    )
    options.add_argument("--no-kafka", action="store_true", help="leave out Apache Kafka")
    options.add_argument("--no-quorate", action="store_true", help="leave out Quorate")
    options.add_argument(
        "--command",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="compare another broker, started by a command with {port} and {directory} in it",
    )
    options.add_argument("--output", type=Path, help="folder for JSON and PNG")
    options.add_argument("--name", default="latest", help="name of these files (%(default)s)")
    return options


def chosen_brokers(options: argparse.Namespace) -> list[brokers.Broker]:
    """Return the brokers to compare, ours first; raises PeerUnavailableError."""
    chosen = [] if options.no_quorate else [brokers.quorate_broker()]
    for word in options.command:
        name, _, command = word.partition("=")
        chosen.append(brokers.command_broker(name, command))
    if not options.no_kafka:
        chosen.append(brokers.kafka_broker())
    return chosen


def chosen_scenarios(options: argparse.Namespace) -> list[Scenario]:
    """Return the scenarios to run."""
    patterns = options.scenarios or (suite.QUICK if options.quick else ())
    return suite.wanted(suite.scenarios(), patterns)


def bench_of(options: argparse.Namespace, folder: Path) -> Bench:
    """Return what all measurements share."""
    return Bench(
        seconds=1.0 if options.quick else options.seconds,
        warmup_s=0.3 if options.quick else options.warmup,
        quiet_wait_s=1.0 if options.quick else options.quiet_wait,
        broker_cores="0" if options.pin == "both" else "",
        client_cores=ONE_CORE if options.pin in {"clients", "both"} else "",
        startup_bytes=int(options.startup_gigabytes * 1e9),
        folder=folder,
        tries_cores=options.pin == "quickest",
    )


def allow_many_connections() -> None:
    """Raise our limit of open files, and so that of the brokers we start."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_all(
    console: Console, options: argparse.Namespace, scenarios: Sequence[Scenario]
) -> results.Run:
    """Run the scenarios on the chosen brokers."""
    chosen = chosen_brokers(options)
    rounds = 1 if options.quick else options.rounds
    with nodes.temporary_folder() as folder:
        bench = bench_of(options, folder)
        outcomes = runner.run(
            bench,
            chosen,
            scenarios,
            rounds=rounds,
            announce=lambda text: console.print(text, style="dim", markup=False),
        )
    settings = {
        "rounds": rounds,
        "seconds": bench.seconds,
        "warmup_s": bench.warmup_s,
        "broker_cores": bench.broker_cores or "any",
        "client_cores": "quickest" if bench.tries_cores else bench.client_cores or "any",
        "startup_bytes": bench.startup_bytes,
    }
    versions = {broker.name: broker.version for broker in chosen}
    return results.Run(machine_facts(), settings, versions, outcomes)


def keep(console: Console, run: results.Run, folder: Path, name: str) -> None:
    """Write a run as JSON and as a picture."""
    results.write_json(run, folder / f"{name}.json")
    machine = run.machine
    brokers_named = " and ".join(f"{name} {version}" for name, version in run.versions.items())
    title = (
        f"How many times better the first of each pair is (above 1x: better).\n{brokers_named}; "
        f"{machine['cores']} cores, {machine['kernel']}, {machine['python']}, "
        f"{machine['when'][:10]}"
    )
    plot.write_plot(run.outcomes, folder / f"{name}.png", title=title)
    console.print(f"written to {folder}/{name}.json and .png")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed, 2 if nothing could run."""
    options = parser().parse_args(arguments)
    console = Console()
    if not console.is_terminal:  # a file is as wide as its lines
        console = Console(width=FILE_COLUMNS)
    scenarios = chosen_scenarios(options)
    if options.list or not scenarios:
        for scenario in scenarios or suite.scenarios():
            console.print(f"{scenario.name:28} {scenario.title}", markup=False)
        return 0 if options.list else 2
    allow_many_connections()
    try:
        run = run_all(console, options, scenarios)
    except (cache.PeerUnavailableError, nodes.NodeFailedError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    report.print_report(console, run.outcomes)
    folder = options.output or (QUICK_REPORTS if options.quick else REPORTS)
    keep(console, run, folder, options.name)
    failed = any(o.failures(subject) for o in run.outcomes for subject in o.subjects)
    return 1 if failed else 0
