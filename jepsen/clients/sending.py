"""What workloads want of a client that sends; one module for each client that can."""

from collections.abc import Callable
from typing import Protocol

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.jepsen.history import Kind

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a send.

    Attributes:
        kind: OK; FAIL only if no attempt of it can have reached a log; else INFO.
        offset: Where it is; UNKNOWN_OFFSET if the client was not told.
        why: What the client said, if it is not OK.
        broker_id: Who acknowledged it, if the client says so, and nobody else was sent it: else
            an earlier leader may have replicated it, to whom the last one never spoke.
    """

    kind: Kind
    offset: int = UNKNOWN_OFFSET
    why: str = ""
    broker_id: int | None = None


def told_of(outcome: Outcome) -> object:
    """Return what a history says a client was told of a record."""
    if outcome.kind is not Kind.OK:
        return outcome.why
    if outcome.offset == UNKNOWN_OFFSET:
        return None
    return outcome.offset if outcome.broker_id is None else [outcome.offset, outcome.broker_id]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send; without a partition, the client's own partitioner goes by the key."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """What a sender is to be like.

    Attributes:
        acks: ``all``, ``1`` or ``0``; with ``all`` it is idempotent.
        patience_ms: How long it tries to deliver a record.
        cut_odds: How often its connection breaks when an answer comes, if the client can be had
            like that: ours can.
    """

    bootstrap: str
    acks: str = "all"
    patience_ms: int = 30_000
    cut_odds: float = 0

    @property
    def acks_number(self) -> int:
        """Acks as the protocol has them."""
        return -1 if self.acks == "all" else int(self.acks)


class MissingClientError(QuorateError):
    """The client that was asked for cannot be had here; says what to install."""


Answered = Callable[[Outcome], None]
"""Takes the outcome, once, in any thread."""


class Sender(Protocol):
    """A producer under way, from its making on."""

    def send(self, record: Outgoing, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""
        ...

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
