"""What the metadata shell's commands do: words in, lines out (pure)."""

import fnmatch
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.quorum.metadata import records as r
from quorate.tools.metadata import tree
from quorate.tools.metadata.decided import Decided, VotersChanged
from quorate.tools.metadata.tree import Folder, Place

PROMPT_NAME: Final = "quorate"
COLUMN_GAP: Final = 2

HELP: Final = {
    "ls": ("[PATH...]", "List names; those that end in / are folders."),
    "cd": ("[PATH]", "Go there; to the root without a path."),
    "pwd": ("", "Say where you are."),
    "cat": ("PATH...", "Print values; a folder with all below it, as JSON."),
    "tree": ("[PATH]", "Print a folder and all below it, a value a line."),
    "find": ("[PATH] [NAME]", "Print the paths below; of those that end in NAME."),
    "records": ("[PATH]", "Print the records that made it what it is."),
    "refresh": ("", "Read the metadata again."),
    "help": ("[COMMAND]", "Say what there is."),
    "exit": ("", "Leave; so does Ctrl-D."),
}
"""The commands, in the order of the help."""

ALIASES: Final = {"quit": "exit", "man": "help", "history": "records", "ll": "ls", "dir": "ls"}


class BrowseError(Exception):
    """A command cannot be carried out; the message is one line for whoever typed it."""


@dataclass(frozen=True, slots=True)
class Screen:
    """How to print: as wide as this in columns, or one name a line."""

    width: int | None = None


class Browser:
    """Where somebody is in the tree, and what they may do there.

    ``read`` returns the tree anew; ``records`` all records that are left, oldest first.
    """

    def __init__(
        self, read: Callable[[], Folder], records: Callable[[], Iterable[Decided]], screen: Screen
    ) -> None:
        self._read = read
        self._records = records
        self._screen = screen
        self._root = read()
        self._path: tuple[str, ...] = ()
        self._commands: Final[dict[str, Callable[[Sequence[str]], Iterable[str]]]] = {
            "ls": self._ls,
            "cd": self._cd,
            "pwd": self._pwd,
            "cat": self._cat,
            "tree": self._tree,
            "find": self._find,
            "records": self._records_of,
            "refresh": self._refresh,
            "help": self._help,
        }

    @property
    def prompt(self) -> str:
        """What to show in front of what is typed."""
        return f"{PROMPT_NAME}:{self._text(self._path)}> "

    def run_line(self, line: str) -> Iterable[str]:
        """Carry out a line as it was typed; return the lines to print.

        Raises:
            BrowseError: it cannot be done, and why.
            EOFError: the line says to leave.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise BrowseError(f"{line!r}: {error}") from None
        return self.run(words) if words else ()

    def run(self, words: Sequence[str]) -> Iterable[str]:
        """Carry out a command; return the lines to print.

        Raises:
            BrowseError: it cannot be done, and why.
            EOFError: it is to leave.
        """
        name = ALIASES.get(words[0], words[0])
        if name == "exit":
            raise EOFError
        command = self._commands.get(name)
        if command is None:
            raise BrowseError(f"{words[0]}: no such command; there are {', '.join(HELP)}")
        return command(words[1:])

    def complete(self, line: str, word: str) -> list[str]:
        """Return what the last word of a line may be meant to become."""
        before = line[: len(line) - len(word)].split()
        if not before:
            return [f"{name} " for name in HELP if name.startswith(word)]
        if before[0] == "help":
            return [f"{name} " for name in HELP if name.startswith(word)]
        lead, _, begun = word.rpartition("/")
        lead = word[: len(word) - len(begun)]
        folder = tree.find(self._root, tree.parse_path(lead, self._path))
        if not isinstance(folder, Folder):
            return []
        return [
            f"{lead}{_marked(name, node, ' ')}"
            for name, node in _sorted_entries(folder)
            if name.startswith(begun)
        ]

    # --- commands

    def _ls(self, words: Sequence[str]) -> Iterator[str]:
        paths = [word for word in words if not word.startswith("-")]  # ls -l, out of habit
        places = self._places(paths or ["."])
        several = len(places) > 1
        files = [place for place in places if not isinstance(place.node, Folder)]
        if files:
            yield from self._columns([place.text for place in files])
        for place in places:
            if isinstance(place.node, Folder):
                if several:
                    yield f"{place.text}:"
                names = [_marked(name, node, "") for name, node in _sorted_entries(place.node)]
                yield from self._columns(names)
                if several:
                    yield ""

    def _columns(self, names: Sequence[str]) -> Iterator[str]:
        width = self._screen.width
        if width is None or not names:
            yield from names
            return
        column = max(map(len, names)) + COLUMN_GAP
        count = max(1, (width + COLUMN_GAP) // column)
        rows = -(-len(names) // count)
        for row in range(rows):
            yield "".join(name.ljust(column) for name in names[row::rows]).rstrip()

    def _cd(self, words: Sequence[str]) -> Iterator[str]:
        (place, *others) = self._places(words or ["/"])
        if others:
            raise BrowseError(f"cd: {words[0]} stands for {1 + len(others)} places")
        if not isinstance(place.node, Folder):
            raise BrowseError(f"cd: {place.text} is a value, not a folder")
        self._path = place.path
        yield from ()

    def _pwd(self, _: Sequence[str]) -> Iterator[str]:
        yield self._text(self._path)

    def _cat(self, words: Sequence[str]) -> Iterator[str]:
        if not words:
            raise BrowseError("cat: which one? cat leader_id, or cat . for all that is here")
        for place in self._places(words):
            yield from value_text(tree.contents(place.node)).splitlines()

    def _tree(self, words: Sequence[str]) -> Iterator[str]:
        for place in self._places(words or ["."]):
            yield place.text
            for below in tree.walk(place):
                depth = len(below.path) - len(place.path)
                if depth:
                    yield "  " * depth + _described(below)

    def _find(self, words: Sequence[str]) -> Iterator[str]:
        *paths, name = words if len(words) > 1 else [*words, "*"]
        for place in self._places(paths or ["."]):
            for below in tree.walk(place):
                if below.path and fnmatch.fnmatchcase(below.path[-1], name):
                    yield below.text

    def _records_of(self, words: Sequence[str]) -> Iterator[str]:
        paths = [tree.parse_path(word, self._path) for word in words or ["."]]
        for decided in self._records():
            if any(concerns(decided, path) for path in paths):
                yield decided.line()

    def _refresh(self, _: Sequence[str]) -> Iterator[str]:
        self._root = self._read()
        while self._path and not isinstance(tree.find(self._root, self._path), Folder):
            self._path = self._path[:-1]
        yield from ()

    def _help(self, words: Sequence[str]) -> Iterator[str]:
        wanted = [ALIASES.get(word, word) for word in words] or list(HELP)
        for name in wanted:
            if name not in HELP:
                raise BrowseError(f"help: there is no command {name!r}")
            arguments, meaning = HELP[name]
            yield f"  {name + ' ' + arguments:<24}{meaning}"

    # --- places

    def _places(self, words: Sequence[str]) -> list[Place]:
        """Return the places that paths stand for.

        Raises:
            BrowseError: a path stands for none.
        """
        places: list[Place] = []
        for word in words:
            found = list(tree.match(self._root, tree.parse_path(word, self._path)))
            if not found:
                raise BrowseError(f"{word}: there is no such place")
            places += found
        return places

    @staticmethod
    def _text(path: Sequence[str]) -> str:
        return "/" + "/".join(path)


def concerns(decided: Decided, path: Sequence[str]) -> bool:
    """Whether a record made what is at a path, or something below it."""
    place = _place_of(decided)
    return all(mine == theirs for mine, theirs in zip(place, path, strict=False))


def _place_of(decided: Decided) -> tuple[str, ...]:
    """Return where the tree shows what a record changed; the root's name if nowhere."""
    place: tuple[str, ...]
    match record := decided.record:
        case r.ConfigSet() | r.ConfigDeleted():
            name = tree.name_of(record.resource_name)
            place = ("configs", record.resource_type, name, record.name)
        case r.ClusterFormatted():
            place = ("cluster", "id")
        case r.ProducerIdsAllocated():
            place = ("producer_ids",)
        case r.FeatureLevelSet():
            place = ("features", record.name)
        case r.AclAdded() | r.AclRemoved():
            place = ("acls", tree.name_of(record.acl_id))
        case r.ScramCredentialSet() | r.ScramCredentialRemoved():
            place = ("scram", tree.name_of((record.user, record.mechanism)))
        case r.ClientQuotaSet() | r.ClientQuotaRemoved():
            place = ("quotas", tree.name_of(record.entity), record.name)
        case VotersChanged():
            place = ("quorum", "voters")
        case _:
            place = _place_of_broker_or_topic(decided)
    return place


def _place_of_broker_or_topic(decided: Decided) -> tuple[str, ...]:
    body = decided.body()
    if decided.type.startswith("Broker"):
        return ("brokers", str(body["broker_id"]))
    if decided.topic is None:
        return ("",)
    partition = [str(body["partition"])] if "partition" in body else []
    return ("topics", decided.topic, *partition)


def value_text(value: Any) -> str:
    """Return a value as it is printed: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _described(place: Place) -> str:
    name = place.path[-1]
    if isinstance(place.node, Folder):
        return f"{name}/"
    return f"{name} = {json.dumps(place.node, ensure_ascii=False)}"


def _marked(name: str, node: Any, otherwise: str) -> str:
    return f"{name}/" if isinstance(node, Folder) else f"{name}{otherwise}"


def _sorted_entries(folder: Folder) -> list[tuple[str, Any]]:
    entries = folder.entries()
    return [(name, entries[name]) for name in tree.sorted_names(entries)]
