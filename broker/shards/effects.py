"""Effects: what a coordinator wants written to its partition, and whom it tells what came of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from quorate.broker.log.verification import Guard
from quorate.errors import ErrorCode

Done = Callable[[ErrorCode], None]
"""Somebody who wants to know what came of a write: NONE, or why it is not known to be committed.

Only the codes that clients of coordinators understand come: ``COORDINATOR_NOT_AVAILABLE`` (try
again; it may have happened), ``NOT_COORDINATOR`` (ask who is; it may have happened), or one that
says that nothing was written, such as ``UNKNOWN_SERVER_ERROR`` (it would be too large).
"""


class Entry(NamedTuple):
    """One record of a coordinator's partition; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class InTransaction(NamedTuple):
    """Whose transaction entries belong to."""

    producer_id: int
    producer_epoch: int
    guard: Guard | None
    """What :meth:`Writer.begin_verification` returned, before its coordinator was asked."""


class Effects(NamedTuple):
    """A decision: these entries, as one batch, or none of them.

    A named tuple, because every commit of an offset makes one.
    """

    subject: str
    """Whose state changes: the group's id, the transactional id."""
    entries: tuple[Entry, ...]
    """What happened, as records; if there are none, ``done`` is called when all that was written of
    the subject before is committed."""
    done: Done
    """Called exactly once."""
    transaction: InTransaction | None = None
    """If the entries belong to a transaction: then they count when that commits."""
    also: Sequence[str] = ()
    """Whose state changes, too."""


class Writer(Protocol):
    """A partition that is led here, as its coordinator sees it."""

    @property
    def epoch(self) -> int:
        """The leader epoch in which it is led."""
        ...

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, adds: bool
    ) -> Guard | None:
        """Return a guard for what may begin a transaction here; None if it is open already.

        ``adds`` says whether its coordinator will be asked to add this partition, or only whether
        that was done.

        Raises:
            InvalidProducerEpochError: a newer epoch has written here since.
        """
        ...

    def write(self, effects: Effects) -> bool:
        """Append the entries, and fold them into the state before this returns.

        Nothing has changed if that is refused: then ``done`` was called with the reason. Else it is
        called when they are committed, or nobody knows any more whether they will be; that may be
        before this returns.

        Returns:
            Whether the entries were appended, and are in the state now.
        """
        ...

    def when_committed(self, subject: str, done: Done) -> None:
        """Call back when all that was written of the subject is committed: at once, usually."""
        ...


class Machine(Protocol):
    """A coordinator's state: the fold of its partition's records, and who waits for changes."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Fold one record into the state; at loading, and after each append.

        Raises:
            CorruptRecordError: it is none of ours.
        """
        ...

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Keep a record of a transaction in mind, until it is known how that ends.

        Raises:
            CorruptRecordError: it is none of ours.
        """
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterable[str]:
        """Fold the pending records of the producer's transaction into the state, or drop them.

        Returns:
            The subjects whose state that changes.
        """
        ...

    def loaded(self) -> None:
        """Begin to serve: all records were replayed."""
        ...

    def unload(self) -> None:
        """Serve no more: who waits hears NOT_COORDINATOR, and no deadline calls back any more."""
        ...


def ignore(_code: ErrorCode) -> None:
    """Do nothing about it, for writes that nobody waits for."""
