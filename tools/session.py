"""What commands share: their options, a client that follows them, running, printing, asking."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar, cast

from quorate.model import PORT_MAX
from quorate.setting_fields import Setting
from quorate.tools.arguments import (
    DEFAULT_BOOTSTRAP,
    GlobalOptions,
    bootstrap_of,
    parse_properties,
)
from quorate.tools.client_properties import (
    COMMON,
    ClientProperties,
    check_properties,
    read_properties_file,
    tls_context,
)
from quorate.tools.nearby import nearby_bootstrap
from quorate.tools.output import Table, harmless, render
from quorate.tools.problems import EXIT_USAGE, UsageError, root_error
from quorate.tools.profiles import profile_of

if TYPE_CHECKING:
    from quorate.client.connections import ConnectionOptions

T = TypeVar("T")

TOPIC_WAIT_MS: Final = 2_000
"""How long a topic that was just created may take to appear; one that is misspelt never does."""


def given_properties(options: GlobalOptions) -> dict[str, str]:
    """Return the properties of ``-F``, overridden by those of ``-X``: for a node to start."""
    from_file = read_properties_file(Path(options.command_config)) if options.command_config else {}
    return {**from_file, **parse_properties(options.properties)}


def client_texts(
    options: GlobalOptions, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the client properties given, those of the profile that holds among them."""
    profile = profile_of(options, os.environ if environment is None else environment)
    if profile is None:
        return given_properties(options)
    from_file = Path(profile.command_config) if profile.command_config else None
    texts = read_properties_file(from_file) if from_file else {}
    return {**texts, **profile.properties, **given_properties(options)}


def client_properties(
    options: GlobalOptions, known: Mapping[str, Setting] = COMMON
) -> ClientProperties:
    """Return the client properties given, checked against those that the command knows.

    Those of a profile are for all commands, so that some may not know them.
    """
    given = given_properties(options)
    texts = {k: v for k, v in client_texts(options).items() if k in given or k in known}
    return check_properties(texts, known)


def bootstrap(options: GlobalOptions, environment: Mapping[str, str]) -> str:
    """Return the broker addresses to use: as said, else of ``./.quorate``, else Kafka's default.

    Raises:
        UsageError: they are none.
    """
    profile = profile_of(options, environment)
    named = options.bootstrap or given_properties(options).get("bootstrap.servers", "")
    if profile is not None:
        named = named or profile.bootstrap
    said = bootstrap_of(named, client_texts(options, environment), environment)
    return _checked(said) if said else nearby_bootstrap() or DEFAULT_BOOTSTRAP


def names_a_cluster(options: GlobalOptions, environment: Mapping[str, str]) -> bool:
    """Whether anybody said which cluster: an option, a property, the environment, a profile."""
    if options.bootstrap or environment.get("QUORATE_BOOTSTRAP"):
        return True
    return bool(client_texts(options, environment).get("bootstrap.servers")) or (
        profile_of(options, environment) is not None
    )


def controllers(options: GlobalOptions, environment: Mapping[str, str]) -> str:
    """Return the controllers to ask; empty, if it is brokers that are to be asked.

    Raises:
        UsageError: they are no addresses.
    """
    if options.bootstrap:
        return ""
    said = options.controllers
    if not said:
        profile = profile_of(options, environment)
        said = "" if profile is None else profile.controllers
    return _checked(said) if said else ""


def _checked(addresses: str) -> str:
    """Return addresses, which are such.

    Raises:
        UsageError: they are none.
    """
    from quorate.client.routing.cluster import parse_bootstrap

    try:
        parse_bootstrap(addresses)
    except ValueError as error:
        what, _, _ = str(error).partition("; try ")
        raise UsageError(
            what,
            why=f"an address is a host and a port of 1 to {PORT_MAX}; commas stand between several",
            hint="-b 127.0.0.1:9092",
        ) from None
    return addresses


def connection_options(options: GlobalOptions, properties: ClientProperties) -> "ConnectionOptions":
    """Return what all our clients are made with."""
    timeout_ms = max(1, int(options.timeout_s * 1000))
    return {
        "client_id": properties.get("client.id", "quorate"),
        "connect_timeout_ms": timeout_ms,
        "topic_wait_ms": TOPIC_WAIT_MS,
        "request_timeout_ms": properties.get("request.timeout.ms", 30_000),
        "ssl_context": tls_context(properties),
    }


def run(main: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
    """Run an async function; a group of errors is raised as the one that tells most.

    Raises:
        Exception: whatever the function does.
    """
    import trio

    try:
        result: T = trio.run(partial(main, *arguments, **named))
    except BaseExceptionGroup as group:
        raise root_error(group) from group
    return result


def print_table(options: GlobalOptions, table: Table) -> None:
    """Print a table in the format asked for."""
    sys.stdout.write(render(table, options.format))


def say(options: GlobalOptions, text: str) -> None:
    """Print a line for people; quiet commands and formats for programs leave it out."""
    if not options.quiet and options.format in ("table", "wide"):
        sys.stdout.write(harmless(text, "\n\t") + "\n")


def note(options: GlobalOptions, text: str) -> None:
    """Print a line for people that must not mix with data on standard output."""
    if not options.quiet:
        sys.stderr.write(harmless(text, "\n\t") + "\n")


def standard_input() -> TextIO:
    """Return what a command reads if no file is named.

    Raises:
        UsageError: it is closed.
    """
    given = cast("TextIO | None", sys.stdin)
    if given is None:
        raise UsageError(
            "there is nothing to read", why="standard input is closed", hint="name a file"
        )
    return given


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed.

    Raises:
        UsageError: nobody is there to be asked, and ``-y`` was not given.
        SystemExit: the answer was no.
    """
    if yes:
        return
    given = cast("TextIO | None", sys.stdin)
    if given is None or not given.isatty():
        raise UsageError(
            question.rstrip("?") + "? Nobody is there to ask",
            why="standard input is not a terminal; nothing was done",
            hint="add --yes to go ahead, or --dry-run to see what would happen",
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if given.readline().strip().lower() not in {"y", "yes"}:
        sys.stderr.write("nothing was done\n")
        raise SystemExit(EXIT_USAGE)
