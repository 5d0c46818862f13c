"""The ``quorate`` command: finds the subcommand, imports only that, explains what goes wrong."""

import importlib
import logging
import os
import sys
import traceback
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import typer
from typer.core import TyperGroup

from quorate.tools.arguments import (
    DEFAULT_TIMEOUT_S,
    FORMATS,
    NOUNS,
    GlobalOptions,
    hoist_globals,
    refuse_zookeeper,
)
from quorate.tools.problems import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem, explain, leaf_errors

EXIT_INTERRUPTED: Final = 130

COMMANDS: Final = {
    "up": "Start a node on this machine: controller and broker in one process.",
    "demo": "Stream real log lines through a node, read them back, compare.",
    "topics": "Create, list, describe, alter, delete and trim topics.",
    "produce": "Send lines of standard input to a topic.",
    "consume": "Print records of topics.",
    "offsets": "Show first and next offsets of partitions.",
    "configs": "Show and change configurations of topics and brokers.",
    "log": "Print and check log files without a broker.",
    "quorum": "Show the state of the metadata quorum.",
    "broker": "Start a broker; list brokers.",
    "controller": "Start a controller.",
    "version": "Print the version.",
}
"""Each is a module of ``quorate.tools.commands`` with an ``app``, imported when it is needed."""


@runtime_checkable
class _UsageProblem(Protocol):
    """What the argument parser raises, whichever package it comes from."""

    exit_code: int

    def format_message(self) -> str: ...


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; the list of commands in --help needs only its first line."""
        del ctx
        name = NOUNS.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"quorate.tools.commands.{name}")
        command = typer.main.get_command(module.app)
        command.name = name
        command.short_help = COMMANDS[name]
        return command


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(epilog="These options may stand before or after any command.")
def root(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    *,
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", "-b", help="Brokers: host:port[,host:port].")
    ] = "",
    bootstrap_controller: Annotated[
        str,
        typer.Option(
            "--bootstrap-controller", "-C", envvar="QUORATE_CONTROLLERS", help="Controllers."
        ),
    ] = "",
    command_config: Annotated[
        str, typer.Option("--command-config", "-F", help="File with client properties.")
    ] = "",
    command_property: Annotated[
        list[str] | None,
        typer.Option("--command-property", "-X", help="A property: key=value."),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")
    ] = "table",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Seconds to look for a broker.")
    ] = DEFAULT_TIMEOUT_S,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print data only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors.")] = False,
) -> None:
    """Quorate: a log broker that speaks Kafka's protocol."""
    if output_format not in FORMATS:
        raise typer.BadParameter(f"{output_format!r} is none of {', '.join(FORMATS)}")
    context.obj = GlobalOptions(
        bootstrap=bootstrap_server,
        controllers=bootstrap_controller,
        command_config=command_config,
        properties=tuple(command_property or ()),
        format="json" if json else output_format,
        timeout_s=timeout,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=not no_color and "NO_COLOR" not in os.environ,
    )
    _set_up_logging(context.obj)


def _set_up_logging(options: GlobalOptions) -> None:
    level = logging.DEBUG if options.debug else logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(
        level=level,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )


def main() -> None:
    """Run the command line of this process, and end it."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(words: list[str]) -> int:
    """Run a command line and return the exit code; what goes wrong is told on standard error."""
    debug = "--debug" in words
    try:
        refuse_zookeeper(words)
        result = app(hoist_globals(words), prog_name="quorate", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return EXIT_OK
    except BaseException as error:  # noqa: BLE001 - the one place where errors become text
        return _report(error, debug=debug)
    return result if isinstance(result, int) else EXIT_OK


def _report(error: BaseException, *, debug: bool) -> int:
    if isinstance(error, (SystemExit, typer.Exit, typer.Abort)):
        return _exit_code(error)
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaf_errors(error)):
        return EXIT_INTERRUPTED
    if isinstance(error, _UsageProblem):
        problem = Problem(error.format_message(), "", "quorate --help", EXIT_USAGE)
    else:
        problem = explain(error)
    if debug:
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.write("\n".join(problem.lines()) + "\n")
    return problem.exit_code


def _exit_code(error: BaseException) -> int:
    code = getattr(error, "exit_code", getattr(error, "code", EXIT_FAILED))
    return code if isinstance(code, int) else EXIT_FAILED


def _forget_output() -> None:
    """Whoever read our output has gone: nothing may be written at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
