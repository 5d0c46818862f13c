"""What our command line adds to Typer: options of all commands, other names, groups that say more.

Options of all commands may stand before the noun, between, or behind the verb. So every group and
command takes them, and what the innermost says holds.
"""

import difflib
import logging
import math
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

import typer
import typer.core

from quorate.tools.arguments import (
    DEFAULT_TIMEOUT_S,
    DEFAULT_VERBS,
    NOUNS,
    TIMEOUT_MAX_S,
    VERBS,
    GlobalOptions,
)
from quorate.tools.log_format import set_up
from quorate.tools.problems import EXIT_OK, EXIT_USAGE, UsageError

PROGRAM: Final = "quorate"
SENTENCE_MAX: Final = 1_000
"""Characters of what a command does, in a list: all of them; Typer cuts at the end of a line."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
"""What commands take that change something."""

LogFormat = Literal["text", "json"]
Format = Literal["table", "wide", "json", "jsonl", "yaml", "name", "kafka"]


def read_globals(  # noqa: PLR0913 - a parameter per option
    *,
    bootstrap_server: Annotated[
        str,
        typer.Option("-b", "--bootstrap-server", "--broker-list", help="Brokers: host:port[,...]."),
    ] = "",
    bootstrap_controller: Annotated[
        str, typer.Option("-C", "--bootstrap-controller", help="Controllers: host:port[,...].")
    ] = "",
    command_config: Annotated[
        str, typer.Option("-F", "--command-config", help="File with client properties.")
    ] = "",
    command_property: Annotated[
        list[str] | None,
        typer.Option(
            *("-X", "--command-property", "--producer-property", "--consumer-property"),
            help="A property, key=value: of a client, or of the node to start.",
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", help="A cluster kept by quorate profile add.")
    ] = "",
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to print; a table if nothing is said.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="--format json.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds to look for a broker; 10 (status: 3).", min=0.001),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print data only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print more.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help="How to log; text if nothing is said.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors.")] = False,
) -> GlobalOptions:
    """Return the options of all commands.

    Raises:
        UsageError: the timeout is none.
    """
    if timeout is not None and not timeout <= TIMEOUT_MAX_S:  # nan is neither more nor less
        raise UsageError(
            f"nobody can wait for {timeout:g} s", why=f"at most {TIMEOUT_MAX_S:,.0f} s can be",
            hint="--timeout 30; quorate --help",
        )  # fmt: skip
    return GlobalOptions(
        bootstrap=bootstrap_server,
        controllers=bootstrap_controller or os.environ.get("QUORATE_CONTROLLERS", ""),
        command_config=command_config,
        properties=tuple(command_property or ()),
        format="json" if json else output_format or "table",
        timeout_s=DEFAULT_TIMEOUT_S if timeout is None else timeout,
        timeout_is_given=timeout is not None,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        log_format=log_format or "text",
        color=not no_color and "NO_COLOR" not in os.environ,
        profile=profile or os.environ.get("QUORATE_PROFILE", ""),
    )


@cache
def _common() -> Mapping[str, Any]:
    """Return the options of all commands by name, as Typer makes them."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(read_globals)
    return {str(parameter.name): parameter for parameter in typer.main.get_command(app).params}


def options_of(context: typer.Context) -> GlobalOptions:
    """Return what was said by the options of all commands, wherever they stood.

    Lists are joined. Of other values the innermost holds; what was not said is empty.
    """
    values: dict[str, Any] = {}
    for name, parameter in _common().items():
        given = [said[name] for said in context.obj if said[name]]
        if parameter.multiple:
            values[name] = [text for texts in given for text in texts]
        else:
            values[name] = given[-1] if given else parameter.default
    return read_globals(**values)


def _move_common(ctx: Any) -> None:
    """Move what the options of all commands say to ``ctx.obj``: no function takes it by name."""
    said = {name: ctx.params.pop(name) for name in _common()}
    ctx.obj = [*(ctx.obj or ()), said]


def _refuse_what_is_no_number(command: Any, ctx: Any) -> None:
    """Refuse NaN and infinity, which are in any range, or in none.

    Raises:
        UsageError: an option of the command's own has such a value.
    """
    for parameter in command.params:
        value = ctx.params.get(parameter.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"{parameter.opts[0]} {value:g}", why="that is no number to go by",
                hint=f"{ctx.command_path} --help",
            )  # fmt: skip


class Command(typer.core.TyperCommand):
    """A command that also takes the options of all commands."""

    # Typer's own copies of click's classes have no public names: hence Any.
    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's own parameters, then those of all commands."""
        return [*super().get_params(ctx), *_common().values()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words."""
        rest = super().parse_args(ctx, args)
        _refuse_what_is_no_number(self, ctx)
        _move_common(ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the function."""
        _set_up_logging(options_of(ctx))
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write examples, then the options; those of all commands apart from its own."""
        _format_examples(ctx, formatter)
        _format_options(self, ctx, formatter)


class Group(typer.core.TyperGroup):
    """The verbs of a noun, or all commands: understands other names, and tells the nearest."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the group's own parameters, then those of all commands."""
        return [*super().get_params(ctx), *_common().values()]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        self.format_commands(ctx, formatter)
        _format_options(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what the commands do: their first sentence, in as many lines as it takes."""
        commands: dict[str, Any] = {
            name: self.get_command(ctx, name) for name in self.list_commands(ctx)
        }
        rows = [
            (name, command.get_short_help_str(limit=SENTENCE_MAX))
            for name, command in commands.items()
            if not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if nothing was said; most nouns alone are no command, though."""
        verb = DEFAULT_VERBS.get(ctx.info_name)
        if verb and all(word.startswith("-") and word not in {"-h", "--help"} for word in args[:1]):
            named = any(word in self.list_commands(ctx) for word in args)
            args = args if named else [verb, *args]
        if not args and not ctx.resilient_parsing:
            sys.stdout.write(ctx.get_help() + "\n")
            raise typer.Exit(EXIT_OK if ctx.parent is None else EXIT_USAGE)
        rest = super().parse_args(ctx, args)
        _move_common(ctx)
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names.

        Raises:
            UsageError: there is none.
        """
        aliases = NOUNS if ctx.parent is None else VERBS
        name = aliases.get(args[0], args[0])
        if args[0] == "rm" and name not in self.list_commands(ctx):
            name = "remove"
        if not ctx.resilient_parsing and name not in self.list_commands(ctx):
            raise _unknown(name, self.list_commands(ctx), f"{ctx.command_path} --help")
        return super().resolve_command(ctx, [name, *args[1:]])


def _format_examples(ctx: Any, formatter: Any) -> None:
    from quorate.tools.examples import EXAMPLES

    lines = EXAMPLES.get(ctx.command_path.removeprefix(PROGRAM).strip(), ())
    if lines:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in lines))


def _format_options(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[Any]] = {}
    for parameter in command.get_params(ctx):
        title = "Options of all commands" if parameter.name in _common() else "Options"
        if parameter.param_type_name == "argument":
            title = "Arguments"
        record = parameter.get_help_record(ctx)
        if record is not None:
            sections.setdefault(title, []).append(record)
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl(records)


def _unknown(word: str, known: Iterable[str], hint: str) -> UsageError:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    why = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return UsageError(f"there is no command {word!r}", why=why, hint=hint)


def _set_up_logging(options: GlobalOptions) -> None:
    level = logging.DEBUG if options.debug else logging.INFO if options.verbose else logging.WARNING
    set_up(level, options.log_format)


def noun_app(meaning: str) -> typer.Typer:
    """Return the application of a noun, to which its verbs are added."""
    # With a callback, a noun of one verb is a group, too.
    return typer.Typer(
        cls=Group,
        help=meaning,
        callback=lambda: None,
        add_completion=False,
        rich_markup_mode=None,
    )


def command_app() -> typer.Typer:
    """Return the application of a command without verbs."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)
