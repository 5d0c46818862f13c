"""The states of a transactional producer, as a table."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(Enum):
    """Where a transactional producer is (Kafka class ``TransactionManager``)."""

    UNIDENTIFIED = auto()
    """It has no producer id yet."""

    READY = auto()
    """No transaction is open."""

    OPEN = auto()
    """A transaction takes records and offsets."""

    SPOILED = auto()
    """Something of the transaction failed: it can be aborted, and nothing else."""

    COMMITTING = auto()
    """The coordinator is, or was, asked to commit; what came of it may not be known."""

    ABORTING = auto()
    """The coordinator is asked to abort."""

    FAILED = auto()
    """The producer is of no use any more: it is fenced, or may not do what it does."""


class Event(Enum):
    """What happens to a transactional producer."""

    IDENTIFIED = auto()
    BEGIN = auto()
    COMMIT = auto()
    ABORT = auto()
    SPOIL = auto()
    END = auto()
    FAIL = auto()


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.UNIDENTIFIED, Event.IDENTIFIED): State.READY,
    (State.READY, Event.BEGIN): State.OPEN,
    (State.OPEN, Event.COMMIT): State.COMMITTING,
    (State.OPEN, Event.ABORT): State.ABORTING,
    (State.OPEN, Event.SPOIL): State.SPOILED,
    (State.SPOILED, Event.SPOIL): State.SPOILED,
    (State.SPOILED, Event.ABORT): State.ABORTING,
    (State.COMMITTING, Event.SPOIL): State.SPOILED,
    (State.COMMITTING, Event.END): State.READY,
    (State.ABORTING, Event.SPOIL): State.ABORTING,
    (State.ABORTING, Event.END): State.READY,
    **{(state, Event.FAIL): State.FAILED for state in State},
}
"""What is not in the table cannot happen: it would be a mistake of ours."""
