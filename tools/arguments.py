"""What every command understands: options that may stand anywhere, and other names of commands.

Nothing here reads the command line itself; :mod:`quorate.tools.cli` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.tools.problems import UsageError

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S: Final = 10.0
FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "name", "kafka")

WITH_VALUE: Final = {
    "-b": "--bootstrap-server",
    "--bootstrap-server": "--bootstrap-server",
    "--broker-list": "--bootstrap-server",
    "-C": "--bootstrap-controller",
    "--bootstrap-controller": "--bootstrap-controller",
    "-F": "--command-config",
    "--command-config": "--command-config",
    "-X": "--command-property",
    "--command-property": "--command-property",
    "--producer-property": "--command-property",
    "--consumer-property": "--command-property",
    "--format": "--format",
    "--timeout": "--timeout",
}
"""Global options with a value, and the name that the root command knows them by."""

WITHOUT_VALUE: Final = frozenset(
    {"--json", "-q", "--quiet", "-v", "--verbose", "--debug", "--no-color"}
)

NOUNS: Final = {
    "topic": "topics",
    "config": "configs",
    "offset": "offsets",
    "logs": "log",
    "brokers": "broker",
    "controllers": "controller",
    "quorums": "quorum",
}
VERBS: Final = {"ls": "list", "rm": "delete", "desc": "describe"}


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options that stand before or after any command.

    ``properties`` are those of ``-F`` and ``-X``; what they mean is the command's business.
    """

    bootstrap: str = DEFAULT_BOOTSTRAP
    controllers: str = ""
    command_config: str = ""
    properties: tuple[str, ...] = ()
    format: str = "table"
    timeout_s: float = DEFAULT_TIMEOUT_S
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    color: bool = True


def hoist_globals(words: Sequence[str]) -> list[str]:
    """Return the words with the global options in front, where the root command reads them.

    Words after ``--`` stay as they are. A value that looks like a global option must be joined to
    its option (``--key=-b``), as everywhere on command lines.
    """
    hoisted: list[str] = []
    rest: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        name, joined, value = word.partition("=")
        if word in WITHOUT_VALUE:
            hoisted.append(word)
        elif word in WITH_VALUE:
            hoisted.append(WITH_VALUE[word])
            if queue:
                hoisted.append(queue.pop(0))
        elif joined and name.startswith("--") and name in WITH_VALUE:
            hoisted += [WITH_VALUE[name], value]
        elif word[:2] in WITH_VALUE and len(word) > 2 and word[1] != "-":
            hoisted += [WITH_VALUE[word[:2]], word[2:]]
        else:
            rest.append(word)
    return [*hoisted, *rest]


def refuse_zookeeper(words: Sequence[str]) -> None:
    """Tell people who follow an old tutorial what to write instead.

    Raises:
        UsageError: ``--zookeeper`` is among the words.
    """
    if any(word.split("=")[0] == "--zookeeper" for word in words):
        raise UsageError(
            "there is no --zookeeper: this cluster has no ZooKeeper",
            why="topics and configurations are kept by the cluster's own controllers",
            hint=f"write --bootstrap-server {DEFAULT_BOOTSTRAP} instead",
        )


def parse_properties(texts: Sequence[str]) -> dict[str, str]:
    """Return properties given as ``key=value``; later ones win.

    Raises:
        UsageError: a text has another form.
    """
    properties: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"{text!r} is no property",
                why="a property is written as key=value",
                hint="-X segment.bytes=1M",
            )
        properties[name.strip()] = value.strip()
    return properties


def bootstrap_of(given: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the broker addresses: of the option, else a property, the environment, the default."""
    return (
        given
        or properties.get("bootstrap.servers", "")
        or environment.get("QUORATE_BOOTSTRAP", "")
        or DEFAULT_BOOTSTRAP
    )
