"""Arguments as Kafka's tools take them: long options, ``--name value`` or ``--name=value``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.setting_fields import LONG_MAX


class ShimError(QuorateError):
    """A tool ends with an error, in Kafka's words; ``on_stdout`` says where Kafka prints it."""

    def __init__(self, text: str, *, status: int = 1, on_stdout: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.on_stdout = on_stdout


@dataclass(frozen=True, slots=True)
class Options:
    """What a tool understands: flags, options with a value, and what a value may be left out of."""

    flags: frozenset[str]
    values: frozenset[str]
    optional: frozenset[str] = frozenset()
    positional: bool = False


COMMON = ("bootstrap-server", "command-config", "command-property", "bootstrap-controller")


def options(flags: str, values: str, optional: str = "", *, positional: bool = False) -> Options:
    """Return what a tool understands, besides what all do, from words."""
    return Options(
        frozenset((*flags.split(), "help", "version")),
        frozenset((*values.split(), *COMMON)),
        frozenset(optional.split()),
        positional,
    )


@dataclass(slots=True)
class Given:
    """What was said: options with all of their values, and words without an option."""

    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    words: list[str] = field(default_factory=list[str])

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def all(self, name: str) -> list[str]:
        """Return the values of an option, in their order."""
        return self.values.get(name, [])

    def one(self, name: str, default: str = "") -> str:
        """Return the value of an option.

        Raises:
            ShimError: it has several.
        """
        values = self.values.get(name) or [default]
        if len(values) > 1:
            raise ShimError(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0]

    def number(self, name: str, most: int = LONG_MAX) -> int | None:
        """Return the value of an option as a number, None if it was not given.

        Raises:
            ShimError: it is none, or more than ``most``.
        """
        if name not in self:
            return None
        try:
            number = int(self.one(name))
        except ValueError:
            number = None
        if number is None or abs(number) > most:
            raise ShimError(f"Cannot parse argument '{self.one(name)}' of option {name}")
        return number

    def check(self, *names: str) -> None:
        """Refuse a command line without some options.

        Raises:
            ShimError: which one is missing.
        """
        for name in names:
            if name not in self:
                raise ShimError(f'Missing required argument "[{name}]"')

    def one_of(self, names: Sequence[str], complaint: str) -> str:
        """Return which one of some options was given.

        Raises:
            ShimError: none, or several.
        """
        found = [name for name in names if name in self]
        if len(found) != 1:
            raise ShimError(complaint)
        return found[0]

    def check_goes_with(self, action: str, belongs_to: Mapping[str, Collection[str]]) -> None:
        """Refuse options that only go with other actions: to leave them out is to do too much.

        Raises:
            ShimError: which one.
        """
        for option, actions in belongs_to.items():
            if option in self and action not in actions:
                raise ShimError(f'Option "[{option}]" can\'t be used with option "[{action}]"')

    def check_apart(self, *names: str) -> None:
        """Refuse options that exclude each other.

        Raises:
            ShimError: several are given.
        """
        found = [name for name in names if name in self]
        if len(found) > 1:
            raise ShimError(f'Option "[{found[0]}]" can\'t be used with option "[{found[1]}]"')

    def properties(self, *names: str) -> dict[str, str]:
        """Return the ``key=value`` pairs of some options.

        Raises:
            ShimError: one has no value.
        """
        found: dict[str, str] = {}
        for text in (text for name in names for text in self.all(name)):
            key, equals, value = text.partition("=")
            if not equals:
                raise ShimError(f"Invalid command line properties: {text}")
            found[key.strip()] = value
        return found


def parse(words: Iterable[str], known: Options) -> Given:
    """Return what a command line says.

    Raises:
        ShimError: it says what the tool does not understand.
    """
    given = Given()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            if not known.positional:
                raise ShimError(f"Found non-option argument: {word}")
            given.words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        values = given.values.setdefault(name, [])
        if name in known.flags:
            continue
        if name in known.values | known.optional:
            if equals:
                values.append(value)
            elif rest and not rest[0].startswith("--"):
                values.append(rest.pop(0))
            elif name in known.values:
                raise ShimError(f"Option {name} requires an argument")
            continue
        raise ShimError(f"{name} is not a recognized option")
    return given


def split(texts: Iterable[str]) -> list[str]:
    """Return the parts of lists with commas."""
    return [part for text in texts for part in text.split(",") if part]
