"""The ``quorate`` command: finds the subcommand, imports only that, explains what goes wrong."""

import difflib
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Annotated, Any, Final

from quorate.tools.arguments import (
    DEFAULT_TIMEOUT_S,
    FORMATS,
    NOUNS,
    VERBS,
    GlobalOptions,
    refuse_zookeeper,
)
from quorate.tools.command_line import (
    PROGRAM,
    Noun,
    Parameter,
    option,
    parameters_of,
    parse,
    split_first,
)
from quorate.tools.problems import EXIT_OK, EXIT_USAGE, UsageError, explain, leaf_errors

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
"""Each is a module of ``quorate.tools.commands`` with a ``NOUN``, imported when it is needed."""


def read_globals(  # noqa: PLR0913 - a parameter per option
    *,
    bootstrap_server: Annotated[
        str, option("-b", "--bootstrap-server", "--broker-list", help="Brokers: host:port[,...].")
    ] = "",
    bootstrap_controller: Annotated[
        str, option("-C", "--bootstrap-controller", help="Controllers: host:port[,...].")
    ] = "",
    command_config: Annotated[
        str, option("-F", "--command-config", help="File with client properties.")
    ] = "",
    command_property: Annotated[
        list[str] | None,
        option(
            *("-X", "--command-property", "--producer-property", "--consumer-property"),
            help="A property, key=value: of a client, or of the node to start.",
        ),
    ] = None,
    output_format: Annotated[
        str, option("--format", help=f"One of {', '.join(FORMATS)}.")
    ] = "table",
    json: Annotated[bool, option("--json", help="--format json.")] = False,
    timeout: Annotated[
        float, option("--timeout", help="Seconds to look for a broker.", low=0.001)
    ] = DEFAULT_TIMEOUT_S,
    quiet: Annotated[bool, option("-q", "--quiet", help="Print data only.")] = False,
    verbose: Annotated[bool, option("-v", "--verbose", help="Print more.")] = False,
    debug: Annotated[bool, option("--debug", help="Show tracebacks.")] = False,
    no_color: Annotated[bool, option("--no-color", help="No colors.")] = False,
) -> GlobalOptions:
    """Return the options that stand before or after any command.

    Raises:
        UsageError: there is no such format.
    """
    if output_format not in FORMATS:
        raise UsageError(
            f"there is no format {output_format!r}",
            why=f"there are {', '.join(FORMATS)}",
            hint="--format json",
        )
    return GlobalOptions(
        bootstrap=bootstrap_server,
        controllers=bootstrap_controller or os.environ.get("QUORATE_CONTROLLERS", ""),
        command_config=command_config,
        properties=tuple(command_property or ()),
        format="json" if json else output_format,
        timeout_s=timeout,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=not no_color and "NO_COLOR" not in os.environ,
    )


def main() -> None:
    """Run the command line of this process, and end it."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(words: list[str]) -> int:
    """Run a command line and return the exit code; what goes wrong is told on standard error."""
    try:
        refuse_zookeeper(words)
        return _dispatch(words)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return EXIT_OK
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else EXIT_OK
    except BaseException as error:  # noqa: BLE001 - the one place where errors become text
        return _report(error, debug="--debug" in words)


def _dispatch(words: list[str]) -> int:
    """Find the command that the words name, and run it."""
    globals_ = list(parameters_of(read_globals))
    before, name, rest = split_first(words, globals_)
    if name is None:
        return _overview(before)
    noun = _load(name)
    name = NOUNS.get(name, name)
    function = noun.alone
    if function is None:
        between, verb, rest = split_first(rest, globals_)
        before += between
        if verb is None:
            return _verbs(name, noun, wanted="--help" in before or "-h" in before)
        verb = VERBS.get(verb, verb)
        if verb not in noun.verbs:
            raise _unknown(verb, noun.verbs, f"{PROGRAM} {name} --help")
        function = noun.verbs[verb]
        name = f"{name} {verb}"
    own, common = parse(name, function, [*before, *rest], globals_)
    options = read_globals(**common)
    _set_up_logging(options)
    function(options, **own)
    sys.stdout.flush()
    return EXIT_OK


def _load(name: str) -> Noun:
    known = NOUNS.get(name, name)
    if known not in COMMANDS:
        raise _unknown(name, COMMANDS, f"{PROGRAM} --help")
    module: Any = importlib.import_module(f"quorate.tools.commands.{known}")
    noun: Noun = module.NOUN
    return noun


def _unknown(word: str, known: Iterable[str], hint: str) -> UsageError:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    why = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return UsageError(f"there is no command {word!r}", why=why, hint=hint)


def _overview(before: list[str]) -> int:
    if "--version" in before:
        from quorate import __version__

        sys.stdout.write(f"quorate {__version__}\n")
        return EXIT_OK
    lines = ["usage: quorate COMMAND ...", "", "A log broker that speaks Kafka's protocol.", ""]
    lines += [f"  {name:<11} {meaning}" for name, meaning in COMMANDS.items()]
    lines += ["", "quorate COMMAND --help says more; quorate up starts a node."]
    sys.stdout.write("\n".join(lines) + "\n")
    asked = {"-h", "--help"} & set(before)
    return EXIT_OK if asked or not before else EXIT_USAGE


def _verbs(name: str, noun: Noun, *, wanted: bool) -> int:
    lines = [f"usage: {PROGRAM} {name} VERB ...", "", noun.meaning, ""]
    for verb, function in noun.verbs.items():
        meaning = (function.__doc__ or "").splitlines()[0]
        lines.append(f"  {verb:<10} {meaning}")
    lines += ["", f"{PROGRAM} {name} VERB --help says more."]
    sys.stdout.write("\n".join(lines) + "\n")
    return EXIT_OK if wanted else EXIT_USAGE


def _set_up_logging(options: GlobalOptions) -> None:
    level = logging.DEBUG if options.debug else logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(
        level=level,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
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


def _forget_output() -> None:
    """Whoever read our output has gone: nothing may be written at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["Parameter", "main", "run_command"]

if __name__ == "__main__":
    main()
