"""What every command understands: options that may stand anywhere, and other names of commands.

Nothing here reads the command line itself; :mod:`quorate.tools.command_line` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import UnsupportedCompressionTypeError
from quorate.tools.problems import UsageError

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S: Final = 10.0
TIMEOUT_MAX_S: Final = 2_000_000.0
"""Milliseconds are sent in four bytes."""
GLANCE_TIMEOUT_S: Final = 3.0
"""How long to look for a broker only to show how all is: somebody waits to hear that none is."""

NOUNS: Final = {
    "topic": "topics",
    "config": "configs",
    "partition": "partitions",
    "offset": "offsets",
    "group": "groups",
    "logs": "log",
    "brokers": "broker",
    "controllers": "controller",
    "quorums": "quorum",
    "feature": "features",
    "profiles": "profile",
    "jepsen": "verify",
}
DEFAULT_VERBS: Final = {"doctor": "machine"}
"""What a noun means by itself; most mean nothing, and show their help."""
VERBS: Final = {"ls": "list", "rm": "delete", "desc": "describe"}


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options that stand before or after any command.

    ``properties`` are those of ``-F`` and ``-X``; what they mean is the command's business.
    ``profile`` is the one that was named, if one was; ``timeout_is_given`` says whether somebody
    asked for just that timeout, which may be the usual one.
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
    log_format: str = "text"
    profile: str = ""
    timeout_is_given: bool = False

    def patience_s(self, usual_s: float) -> float:
        """Return the timeout that somebody asked for, else what is usual for the command."""
        given = self.timeout_is_given or self.timeout_s != DEFAULT_TIMEOUT_S
        return self.timeout_s if given else usual_s


def glancing(options: GlobalOptions) -> GlobalOptions:
    """Return the options of a command that only shows how all is, and says soon if none answers."""
    return replace(options, timeout_s=options.patience_s(GLANCE_TIMEOUT_S))


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


def parse_properties(texts: Sequence[str], option: str = "-X ") -> dict[str, str]:
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
                hint=f"{option}segment.bytes=1M",
            )
        properties[name.strip()] = value.strip()
    return properties


def says_true(text: str) -> bool:
    """Return whether a property of a reader or a formatter is on, as Kafka's tools read it."""
    return text.strip().lower() == "true"


def compression_named(name: str) -> str:
    """Return the name of a codec as it was given.

    Raises:
        UsageError: there is no such codec.
    """
    from quorate.records.compression import codec_named

    try:
        codec_named(name)
    except UnsupportedCompressionTypeError as error:
        what, _, which = error.message.partition("; ")
        raise UsageError(what, why=which, hint="--compression zstd") from None
    return name


def bootstrap_of(given: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the broker addresses: of the option, else a property, the environment; else none."""
    return (
        given or properties.get("bootstrap.servers", "") or environment.get("QUORATE_BOOTSTRAP", "")
    )
