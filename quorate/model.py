"""Values that every part of Quorate names the same way."""

from dataclasses import dataclass
from typing import Final, NamedTuple

NO_LEADER: Final = -1
"""Kafka's wire value for a partition that nobody leads."""

NO_TIMESTAMP: Final = -1
"""Kafka's wire value for a record or an answer without a time."""

UNKNOWN_OFFSET: Final = -1
"""Kafka's wire value for an offset that is not known."""

UNKNOWN_EPOCH: Final = -1
"""Kafka's wire value for a leader epoch that is not known."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name.

    A named tuple, because the hot path looks replicas up by it for every request.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
