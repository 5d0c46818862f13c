"""What workloads want of a client that sends in transactions; one module for each that can."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition

TIMEOUT_MS: Final = 8_000
"""After so long the coordinator ends a transaction that nobody ends."""
PATIENCE_S: Final = 20.0
"""How long a client waits for a coordinator, before a workload gives it up."""


class SpoiledError(QuorateError):
    """The transaction, or its producer, is of no use; no commit was asked for."""


class OutgoingRecord(NamedTuple):
    """A record of a transaction."""

    where: TopicPartition
    value: bytes


def _go_on(step: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class TransactorOptions:
    """What a transactional producer is to be like.

    Attributes:
        reached: Is told of the steps inside of ``write``; see :mod:`mortality`.
    """

    bootstrap: str
    transactional_id: str
    timeout_ms: int = TIMEOUT_MS
    patience_s: float = PATIENCE_S
    reached: Callable[[str], None] = _go_on


class Transactor(Protocol):
    """A transactional producer, with one transaction after the other.

    Each call returns when it is done, in bounded time.
    """

    def open(self) -> None:
        """Take the transactional id: whoever had it before is fenced.

        Raises:
            SpoiledError: nobody gives it.
        """

    def write(self, records: Sequence[OutgoingRecord]) -> list[int | None]:
        """Begin a transaction, and write these; return their offsets, as far as they were told.

        Raises:
            SpoiledError: not all are there.
        """
        ...

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group without members in the transaction.

        Raises:
            SpoiledError: it is not certain that it does.
        """

    def commit(self) -> Kind:
        """Commit; return OK, FAIL if it was certainly aborted instead, or INFO."""
        ...

    def abort(self) -> bool:
        """Abort; return whether the producer can go on."""
        ...

    def close(self) -> None:
        """End; what is open is aborted, or ends by its timeout."""

    def die(self) -> None:
        """End as if the process had died: nothing goes out any more."""
