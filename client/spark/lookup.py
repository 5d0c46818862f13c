"""Options by name, with types; and those that reads and writes have in common."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from quorate.client.routing.cluster import parse_bootstrap
from quorate.client.spark.places import OptionError
from quorate.client.spark.security import Security, parse_security
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.model import Endpoint

KAFKA: Final = "kafka."
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class Options:
    """Options by name in lower case, with typed look-ups."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = {name.lower(): text for name, text in texts.items()}

    def text(self, name: str) -> str | None:
        """Return an option as it was given; None if it was not."""
        return self.texts.get(name.lower())

    def number(
        self, name: str, default: int | None, *, least: int = 0, most: int = INT32_MAX
    ) -> int | None:
        """Return a number.

        Raises:
            OptionError: It is none, or too small or too large.
        """
        text = self.text(name)
        if text is None:
            return default
        if re.fullmatch(r"[+-]?[0-9]+", text.strip()) is None or abs(int(text)) > most:
            raise OptionError(f"Option '{name}' must be a number: For input string: \"{text}\"")
        number = int(text)
        if number < least:
            problem = "positive" if least == 1 else f"at least {least}"
            raise OptionError(f"{name} must be {problem}")
        return number

    def given_number(self, name: str, default: int, *, least: int = 0) -> int:
        """Return a number that has a default."""
        number = self.number(name, default, least=least)
        assert number is not None
        return number

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether something is wanted.

        Raises:
            OptionError: It is neither true nor false.
        """
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in {"true", "false"}:
            raise OptionError(
                f"Option '{name}' must be true or false: For input string: \"{text}\""
            )
        return text.strip().lower() == "true"

    def kafka(self) -> dict[str, str]:
        """Return what is passed through, without the prefix."""
        return {
            name.removeprefix(KAFKA): text
            for name, text in self.texts.items()
            if name.startswith(KAFKA)
        }


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a cluster. Connections are kept by it, so it must be hashable."""

    bootstrap: tuple[Endpoint, ...]
    client_id: str
    request_timeout_ms: int
    security: Security


def connection_settings(kafka: Mapping[str, str], client_id: str) -> ConnectionSettings:
    """Return how to reach a cluster, given Kafka's options with ``bootstrap.servers`` among them.

    Raises:
        OptionError: They make no sense, or ask for what this connector does not do.
    """
    timeout = Options({"kafka.request.timeout.ms": kafka.get("request.timeout.ms", "30000")})
    return ConnectionSettings(
        bootstrap=_bootstrap(kafka["bootstrap.servers"]),
        client_id=kafka.get("client.id", client_id),
        request_timeout_ms=timeout.given_number("kafka.request.timeout.ms", 30_000, least=1),
        security=parse_security(kafka),
    )


def _bootstrap(text: str) -> tuple[Endpoint, ...]:
    try:
        return parse_bootstrap(text)
    except ValueError as error:
        raise OptionError(f"Invalid url in bootstrap.servers: {text}: {error}") from None


def unknown(kafka: Mapping[str, str], known: frozenset[str]) -> list[str]:
    """Return warnings of options that mean nothing here."""
    return [
        f"Kafka option '{name}' is not known to this connector, and ignored"
        for name in sorted(kafka)
        if name not in known and not name.startswith(("ssl.", "sasl.", "security."))
    ]
