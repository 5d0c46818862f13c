"""Commands as functions: their parameters say what may stand on the command line.

A parameter's type says what a word becomes; its :class:`Option` or :class:`Argument` says how it is
written. Built on argparse, which costs a millisecond to import: commands must start fast.
"""

import argparse
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, Union, get_args, get_origin

from quorate.tools.problems import UsageError

PROGRAM: Final = "quorate"


@dataclass(frozen=True, slots=True)
class Option:
    """How an option is written: its names, the first of them the parameter's in messages.

    ``low`` and ``high`` bound numbers.
    """

    names: tuple[str, ...]
    help: str
    low: float | None = None
    high: float | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands behind the verb without a name."""

    metavar: str
    help: str = ""


def option(*names: str, help: str, low: float | None = None, high: float | None = None) -> Option:  # noqa: A002 - as everywhere
    """Return how an option is written."""
    return Option(names, help, low, high)


def hidden(*names: str) -> Option:
    """Return an option that is understood and not shown."""
    return Option(names, argparse.SUPPRESS, hidden=True)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command, taken apart."""

    name: str
    type: type
    repeated: bool
    default: Any
    how: Option | Argument


@dataclass(slots=True)
class Noun:
    """The verbs of a noun; ``alone`` is the command of a noun that has none."""

    meaning: str
    verbs: dict[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    alone: Callable[..., object] | None = None

    def verb(self, name: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
        """Register a function as a verb."""

        def register(function: Callable[..., object]) -> Callable[..., object]:
            self.verbs[name] = function
            return function

        return register

    def command(self, function: Callable[..., object]) -> Callable[..., object]:
        """Register a function as what the noun does."""
        self.alone = function
        return function


def parameters_of(function: Callable[..., object]) -> Iterator[Parameter]:
    """Yield the parameters that stand on the command line."""
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(parameter.annotation) is not Annotated:
            continue
        wanted, how, *_ = get_args(parameter.annotation)
        inner = _without_none(wanted)
        repeated = get_origin(inner) is list
        kind: type = get_args(inner)[0] if repeated else inner
        yield Parameter(name, kind, repeated, parameter.default, how)


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) in {Union, types.UnionType}:
        return next(part for part in get_args(wanted) if part is not types.NoneType)
    return wanted


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError(
            message, why=f"{self.prog} does not understand it", hint=f"{self.prog} --help"
        )


def parser_of(
    name: str, function: Callable[..., object], globals_: Sequence[Parameter]
) -> tuple[Parser, list[Parameter]]:
    """Return the parser of a command, and its own parameters."""
    parser = Parser(
        prog=f"{PROGRAM} {name}",
        description=inspect.getdoc(function),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    own = list(parameters_of(function))
    taken: set[str] = set()
    for parameter in own:
        _add(parser, parameter, taken)
        if isinstance(parameter.how, Option):
            taken.update(parameter.how.names)
    group = parser.add_argument_group("options of all commands")
    for parameter in globals_:
        _add(group, parameter, taken)
    return parser, own


def _add(target: Any, parameter: Parameter, taken: set[str]) -> None:
    """Add a parameter to a parser; names that the command itself uses are left to it."""
    how = parameter.how
    if isinstance(how, Argument):
        needed = parameter.default is inspect.Parameter.empty
        count = ("+" if needed else "*") if parameter.repeated else (None if needed else "?")
        target.add_argument(
            parameter.name,
            metavar=how.metavar,
            help=how.help.replace("%", "%%"),
            type=_converter(parameter),
            nargs=count,
            default=None if needed else parameter.default,
        )
        return
    names = [name for name in how.names if name not in taken]
    common: dict[str, Any] = {"dest": parameter.name, "help": how.help.replace("%", "%%")}
    if parameter.type is bool:
        target.add_argument(*names, **common, action="store_true")
        return
    needed = parameter.default is inspect.Parameter.empty
    target.add_argument(
        *names,
        **common,
        type=_converter(parameter),
        action="append" if parameter.repeated else "store",
        default=None if needed else parameter.default,
        required=needed,
        metavar=_METAVARS.get(parameter.type, "TEXT"),
    )


_METAVARS: Final[Mapping[type, str]] = {int: "N", float: "N", Path: "PATH"}


def _converter(parameter: Parameter) -> Callable[[str], Any]:
    kind, how = parameter.type, parameter.how
    if kind not in {int, float} or isinstance(how, Argument):
        return kind

    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if (how.low is not None and value < how.low) or (how.high is not None and value > how.high):
            raise argparse.ArgumentTypeError(f"{text} is not between {how.low} and {how.high}")
        return value

    return convert


def join_values(words: Sequence[str], parameters: Sequence[Parameter]) -> list[str]:
    """Return the words with options joined to their values, which may then begin with ``-``."""
    with_value = {
        name
        for parameter in parameters
        if isinstance(parameter.how, Option) and parameter.type is not bool
        for name in parameter.how.names
    }
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*joined, word, *rest]
        value = next(rest, None) if word in with_value else None
        if value is None:
            joined.append(word)
        else:
            joined.append(f"{word}={value}" if word.startswith("--") else word + value)
    return joined


def split_first(
    words: Sequence[str], globals_: Sequence[Parameter]
) -> tuple[list[str], str | None, list[str]]:
    """Return the global options in front of the first other word, that word, and the rest."""
    joined = join_values(words, globals_)
    for at, word in enumerate(joined):
        if not word.startswith("-"):
            return joined[:at], word, joined[at + 1 :]
    return joined, None, []


def parse(
    name: str, function: Callable[..., object], words: Sequence[str], globals_: Sequence[Parameter]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of a command's own parameters, and of the global ones.

    Raises:
        UsageError: the words do not fit.
        SystemExit: help was asked for and printed.
    """
    parser, own = parser_of(name, function, globals_)
    found = vars(parser.parse_intermixed_args(join_values(words, [*own, *globals_])))
    return {p.name: found[p.name] for p in own}, {p.name: found[p.name] for p in globals_}
