"""Finds the shim that a command line begins with, runs it, prints what Kafka's tool would."""

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.tools.problems import EXIT_OK, EXIT_UNREACHABLE, UsageError, explain
from quorate.tools.shims.arguments import Given, Options, ShimError, parse

Run = Callable[[Given, Mapping[str, str]], Awaitable[Iterable[str]]]


@dataclass(frozen=True, slots=True)
class Shim:
    """Where a tool is: a module, its function's and its options' names; and an example."""

    module: str
    function: str
    options: str
    example: str

    def load(self) -> tuple[Run, Options]:
        """Import the tool."""
        module: Any = import_module(f"quorate.tools.shims.{self.module}")
        return getattr(module, self.function), getattr(module, self.options)


SHIMS: Final = {
    "kafka-topics": Shim(
        "topics", "topics", "TOPICS",
        "--bootstrap-server localhost:9092 --create --topic orders --partitions 3",
    ),
    "kafka-console-producer": Shim(
        "console", "console_producer", "PRODUCER",
        "--bootstrap-server localhost:9092 --topic orders",
    ),
    "kafka-console-consumer": Shim(
        "console", "console_consumer", "CONSUMER",
        "--bootstrap-server localhost:9092 --topic orders --from-beginning",
    ),
    "kafka-consumer-groups": Shim(
        "groups", "consumer_groups", "GROUPS",
        "--bootstrap-server localhost:9092 --describe --group billing",
    ),
    "kafka-configs": Shim(
        "configs", "configs", "CONFIGS",
        "--bootstrap-server localhost:9092 --describe --entity-type topics --entity-name orders",
    ),
    "kafka-get-offsets": Shim(
        "topics", "get_offsets", "OFFSETS", "--bootstrap-server localhost:9092 --topic orders"
    ),
    "kafka-delete-records": Shim(
        "topics", "delete_records", "DELETE_RECORDS",
        "--bootstrap-server localhost:9092 --offset-json-file offsets.json",
    ),
    "kafka-metadata-quorum": Shim(
        "cluster", "metadata_quorum", "QUORUM",
        "--bootstrap-server localhost:9092 describe --status",
    ),
    "kafka-leader-election": Shim(
        "cluster", "leader_election", "ELECTION",
        "--bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions",
    ),
    "kafka-log-dirs": Shim(
        "cluster", "log_dirs", "LOG_DIRS", "--bootstrap-server localhost:9092 --describe"
    ),
    "kafka-reassign-partitions": Shim(
        "cluster", "reassign_partitions", "REASSIGN",
        "--bootstrap-server localhost:9092 --reassignment-json-file plan.json --execute",
    ),
    "kafka-features": Shim(
        "features", "features", "FEATURES",
        "--bootstrap-server localhost:9092 upgrade --feature transaction.version=2",
    ),
    "kafka-transactions": Shim(
        "transactions", "transactions", "TRANSACTIONS",
        "--bootstrap-server localhost:9092 find-hanging --topic orders",
    ),
}  # fmt: skip


def run_shim(name: str, words: Sequence[str]) -> int:
    """Run a tool, print what it says, and return its exit code."""
    from quorate.tools.session import run

    shim = SHIMS[name]
    function, known = shim.load()
    try:
        given = parse(words, known)
        if "help" in given:
            sys.stdout.write(help_text(name, shim, known))
            return EXIT_OK
        if "version" in given:
            from quorate import __version__

            sys.stdout.write(f"{__version__} (Quorate)\n")
            return EXIT_OK
        lines: Iterable[str] = run(function, given, os.environ)
        sys.stdout.writelines(line + "\n" for line in lines)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # whoever reads has gone, as with "| head": the command line ends without a word
    except ShimError as error:
        stream = sys.stdout if error.on_stdout else sys.stderr
        stream.write(error.text + "\n")
        return error.status
    except UsageError as error:
        sys.stderr.write(f"{error.what}: {error.why}\n")
        return 1
    except Exception as error:  # noqa: BLE001 - as the command line does, but in Kafka's form
        problem = explain(error)
        sys.stderr.write("\n".join(problem.lines()) + "\n")
        return 1 if problem.exit_code != EXIT_UNREACHABLE else EXIT_UNREACHABLE
    return EXIT_OK


def help_text(name: str, shim: Shim, known: Options) -> str:
    """Return what a tool understands."""
    flags = " ".join(f"--{flag}" for flag in sorted(known.flags))
    values = " ".join(f"--{value} X" for value in sorted(known.values | known.optional))
    return (
        f"quorate {name}: takes the arguments of Kafka's {name}, and prints its text.\n\n"
        f"Flags: {flags}\n\nOptions: {values}\n\n"
        f"For example: quorate {name} {shim.example}\n"
    )
