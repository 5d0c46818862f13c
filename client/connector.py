"""What a connector is given to work with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from quorate.dataclass import dataclass
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quorate.client.connections import ConnectionOptions


class ConnectorError(QuorateError):
    """A connector cannot do what it is told to, and will not be able to later."""


class Counting(Protocol):
    """What counts records."""

    records: int


@dataclass(frozen=True, slots=True)
class Context:
    """What a connector is given beside its settings.

    Attributes:
        bootstrap: Where to find brokers.
        options: For its clients.
        offsets_topic: Where sources remember how far they are.
        once: Whether to end when all is carried that there is.
        tell: Says something to a person.
        counted: Counts the records that were carried.
    """

    bootstrap: str | Sequence[str]
    options: ConnectionOptions
    offsets_topic: str
    once: bool
    tell: Callable[[str], None]
    counted: Counting
