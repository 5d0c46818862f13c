"""The ``quorate`` command: finds the subcommand, imports only that, explains what goes wrong."""

import importlib
import os
import sys
import traceback
from typing import Annotated, Any, Final

import typer

from quorate.tools.arguments import refuse_zookeeper
from quorate.tools.command_line import PROGRAM, Group
from quorate.tools.problems import EXIT_INTERRUPTED, EXIT_OK, UsageError, explain, leaf_errors
from quorate.tools.standard_streams import (
    forget_output,
    occupy_what_is_closed,
    write_all_characters,
)

COMPLETION_VARIABLE: Final = f"_{PROGRAM.upper()}_COMPLETE"

COMMANDS: Final = {
    "up": "Start a node on this machine, or a cluster: --brokers 3 --controllers 3.",
    "status": "Show a cluster that up made: what runs, who leads, what is in sync.",
    "down": "End a cluster that up started.",
    "tui": "Look at a cluster and operate it, on the whole terminal.",
    "demo": "Play a story on a cluster of its own: failures, hanging replicas, a group.",
    "topics": "Create, list, describe, alter, delete topics; find, export, count records.",
    "partitions": "List, describe, elect, move and compare partitions.",
    "produce": "Send lines of standard input to a topic.",
    "consume": "Print records of topics.",
    "groups": "List, describe, reset, delete consumer groups; see how far behind they are.",
    "txns": "List and describe transactions; find and end those that hang.",
    "offsets": "Show first and next offsets of partitions.",
    "configs": "Show and change configurations of topics and brokers.",
    "log": "Print, check and follow log files without a broker.",
    "features": "Show and change the levels of features that a cluster works at.",
    "storage": "Format directories, say whose they are, make ids.",
    "metadata": "Look at what the controllers agreed on: records, and the state they made.",
    "why": "Ask why: who leads, what is in sync or offline, what lags, is stuck or refused.",
    "quorum": "Show and change the controllers: who leads, who votes, how far each is.",
    "doctor": "Look for what is wrong: on the way to a cluster (connect), or with this machine.",
    "chaos": "Kill, pause, cut off, slow down, heal nodes of a cluster of up; see what happens.",
    "bench": "Measure a cluster: records a second, how soon, what exactly-once costs.",
    "verify": "Load a cluster, break it, heal it, and judge what clients saw.",
    "connect": "Carry lines of files to topics, and records of topics to SQLite.",
    "spark": "Read topics with PySpark: to files; what it needs here; a program to begin with.",
    "broker": "Start a broker; list, describe, drain, retire and unregister brokers.",
    "controller": "Start a controller.",
    "profile": "Keep clusters under names, and use them: add, use, list, show, remove.",
    "completion": "Print what bash, zsh or fish need to complete commands.",
    "version": "Print the version.",
}
"""Each is a module of ``quorate.tools.commands`` with an ``app``, imported when it is needed."""


KAFKA_TOOLS: Final = (
    "kafka-topics", "kafka-console-producer", "kafka-console-consumer", "kafka-consumer-groups",
    "kafka-configs", "kafka-get-offsets", "kafka-delete-records", "kafka-metadata-quorum",
    "kafka-leader-election", "kafka-log-dirs", "kafka-reassign-partitions", "kafka-transactions",
    "kafka-features",
)  # fmt: skip
"""Kafka's own tools: they take Kafka's arguments and print Kafka's text."""


class LazyGroup(Group):
    """All commands; a command's module is imported when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; the tab key knows Kafka's tools, too."""
        del ctx
        return [*COMMANDS, *(KAFKA_TOOLS if COMPLETION_VARIABLE in os.environ else ())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if there is none of this name."""
        if cmd_name in KAFKA_TOOLS and cmd_name in self.list_commands(ctx):
            from quorate.tools.completing import kafka_tool

            return kafka_tool(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module: Any = importlib.import_module(f"quorate.tools.commands.{cmd_name}")
        return typer.main.get_command(module.app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what the commands do, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        with formatter.section("Kafka's tools, with Kafka's arguments and text"):
            formatter.write_text(", ".join(KAFKA_TOOLS))


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A log broker that speaks Kafka's protocol.",
    epilog="quorate COMMAND --help says more; quorate up starts a node.",
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - as Typer calls it
    if wanted:
        from quorate import __version__

        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


@app.callback()
def _everything(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line of this process, and end it."""
    occupy_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        write_all_characters(stream)
    sys.exit(run_command(sys.argv[1:]))


def run_command(words: list[str]) -> int:
    """Run a command line and return the exit code; what goes wrong is told on standard error."""
    try:
        refuse_zookeeper(words)
        if words and words[0] in KAFKA_TOOLS:
            sys.exit(_run_kafka_tool(words))
        _run(words)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        forget_output()
    except typer.Exit as ending:
        return ending.exit_code
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else EXIT_OK
    except typer.TyperException as error:
        return _report(_usage_error(error), debug="--debug" in words)
    except BaseException as error:  # noqa: BLE001 - the one place where errors become text
        return _report(error, debug="--debug" in words)
    return EXIT_OK


def _run(words: list[str]) -> None:
    command = typer.main.get_command(app)
    if COMPLETION_VARIABLE in os.environ:
        command.main(words, prog_name=PROGRAM)
    # Not through main(), which takes any broken connection for a reader that has gone.
    with command.make_context(PROGRAM, words) as context:
        command.invoke(context)
    sys.stdout.flush()


def _run_kafka_tool(words: list[str]) -> int:
    from quorate.tools.shims.running import run_shim

    return run_shim(words[0], words[1:])


def _usage_error(error: typer.TyperException) -> UsageError:
    """Say what Typer did not understand, as we say everything."""
    context: typer.Context | None = getattr(error, "ctx", None)
    path = PROGRAM if context is None else context.command_path
    return UsageError(
        error.format_message().rstrip("."),
        why=f"{path} does not understand it",
        hint=f"{path} --help",
    )


def _report(error: BaseException, *, debug: bool) -> int:
    leaves = list(leaf_errors(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return EXIT_INTERRUPTED
    if debug:
        traceback.print_exception(error)
    problem = explain(error)
    sys.stdout.flush()
    sys.stderr.write("\n".join(problem.lines()) + "\n")
    return problem.exit_code


if __name__ == "__main__":
    main()
