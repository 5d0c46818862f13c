"""What is replicated, as seen by the replication."""

from collections.abc import Callable
from typing import Protocol, TypeVar

R_co = TypeVar("R_co", covariant=True)


class StateMachine(Protocol[R_co]):
    """What is replicated: equal on every node after the same commands.

    ``apply`` is total: whatever may be wrong with a command is a result. If it raises, the node
    stops.
    """

    def apply(self, index: int, term: int, command: bytes) -> R_co:
        """Carry out a committed command, which entered the log in a term."""
        ...

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that returns the state as of now, as bytes.

        It is called once, perhaps in another thread, while further commands are applied.
        """
        ...

    def prepare(self, data: bytes) -> Callable[[], None]:
        """Decode a state; return a function that takes it over, instead of whatever there is.

        Decoding may happen in another thread, taking over does not and is quick.
        """
        ...
