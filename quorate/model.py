"""Values that every part of Quorate names the same way."""

from typing import Final, NamedTuple

from quorate.dataclass import dataclass

NO_LEADER: Final = -1
"""Kafka's wire value for a partition that nobody leads."""

NO_TIMESTAMP: Final = -1
"""Kafka's wire value for a record or an answer without a time."""

UNKNOWN_OFFSET: Final = -1
"""Kafka's wire value for an offset that is not known."""

UNKNOWN_EPOCH: Final = -1
"""Kafka's wire value for a leader epoch that is not known."""

HOST_LENGTH_MAX: Final = 253
"""A longer name does not fit into a question to DNS."""

PORT_MAX: Final = 65_535


class TopicPartition(NamedTuple):
    """One partition of one topic, by name.

    A named tuple, because the hot path looks replicas up by it for every request.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def is_host(text: str) -> bool:
    """Return whether a text can be the name or the address of a host.

    Whether there is such a host is another matter. What cannot be one is no name that is merely
    unknown: to look it up fails in another way (``a..b`` cannot even be encoded).
    """
    if not 0 < len(text) <= HOST_LENGTH_MAX or not text.isprintable() or " " in text:
        return False
    try:
        return len(text.encode("idna")) <= HOST_LENGTH_MAX
    except UnicodeError:  # a label (what lies between dots) that is empty or longer than 63 bytes
        return False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node listens."""

    host: str
    port: int

    @property
    def can_be_dialed(self) -> bool:
        """Whether somebody might listen there: neither its host nor its port is impossible."""
        return 0 < self.port <= PORT_MAX and is_host(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def looks_like_option(drawn: bytes) -> bool:
    """Return whether an id, as Kafka writes ids, would look like an option on a command line.

    They are URL-safe base64, whose character 62 is a dash (Kafka: ``Uuid.randomUuid``).
    """
    return drawn[0] >> 2 == 62
