"""What workloads want of a client that sends; one module for each client that can."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quorate.jepsen.history import Kind

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a send.

    Attributes:
        kind: OK; FAIL only if no attempt of it can have reached a log; else INFO.
        offset: Where it is; UNKNOWN_OFFSET if the client was not told.
        why: What the client said, if it is not OK.
    """

    kind: Kind
    offset: int = UNKNOWN_OFFSET
    why: str = ""


Answered = Callable[[Outcome], None]
"""Takes the outcome, once, in any thread."""


class Sender(Protocol):
    """A producer under way, from its making on."""

    def send(self, topic: str, partition: int, value: bytes, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""
        ...

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
