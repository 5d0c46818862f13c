"""One transactional producer: its state, what is in its transaction, what to ask next (pure)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from quorate.client.transactions.states import TRANSITIONS, Event, State
from quorate.client.transactions.verdicts import Verdict, verdict_of_coordinator
from quorate.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from quorate.client.sending.accumulator import ProducerIdentity
    from quorate.errors import KafkaError
    from quorate.model import TopicPartition


class Step(Enum):
    """What to ask the coordinator on the way to the end of a transaction."""

    COMMIT = auto()
    ABORT = auto()
    RENEW = auto()
    """Another epoch, because it is not known what of the last one was written."""


_HOPELESS: Final[Mapping[Step, Collection[Verdict]]] = {
    Step.COMMIT: (),
    Step.ABORT: (Verdict.ABORT,),
    Step.RENEW: (Verdict.ABORT, Verdict.RENEW),
}
"""With which answers no way leads on: an abort, or the new epoch after one, was refused."""


class TransactionMachine:
    """Decides what a transactional producer may do, and what it has to ask the coordinator.

    Invariants: ``identity`` is there from READY on; ``partitions`` and ``groups`` are empty unless
    a transaction is open or being ended; ``reason`` is there in SPOILED and FAILED.

    In version 1 of transactions a partition or a group is announced to the coordinator before
    anything of it is written. In version 2 (KIP-890) writing announces it, and every end of a
    transaction brings another epoch.
    """

    def __init__(self) -> None:
        self.state = State.UNIDENTIFIED
        self.identity: ProducerIdentity | None = None
        self.version = 1
        self.reason: KafkaError | None = None
        """Why the transaction is spoiled, or the producer failed."""

        self.partitions: set[TopicPartition] = set()
        """Those that take part."""

        self.wanted: set[TopicPartition] = set()
        """Those that are to be announced; in version 1 only."""

        self.groups: set[str] = set()
        """The groups that take part."""

        self._begun = False
        self._asked_to_end = False
        self._renewal_needed = False
        self._unknown_to_coordinator = False

    def on(self, event: Event) -> None:
        """Go on to the next state."""
        assert (self.state, event) in TRANSITIONS, f"{event} in {self.state}"
        self.state = TRANSITIONS[self.state, event]

    # A transaction

    def identified(self, identity: ProducerIdentity) -> None:
        """Know the producer id that the coordinator gave to this producer."""
        self.identity = identity
        self.on(Event.IDENTIFIED)

    def begin(self, *, version: int) -> None:
        """Open a transaction; it goes by that version of transactions to its end."""
        self.on(Event.BEGIN)
        self.version = version

    def admits(self, partition: TopicPartition) -> bool:
        """Whether records of a partition may be written; if not yet, it wants to be announced."""
        if self.version >= 2 or partition in self.partitions:
            return True
        self.wanted.add(partition)
        return False

    def announced(self, partitions: set[TopicPartition]) -> None:
        """The coordinator knows of these partitions."""
        self.wanted -= partitions
        self.partitions |= partitions

    def writing(self, partition: TopicPartition) -> None:
        """Records of a partition are about to be written."""
        self.partitions.add(partition)

    def announcing(self) -> None:
        """The coordinator is about to hear of a partition or a group: it will have to be ended."""
        self._begun = True

    # What went wrong

    def spoil(self, error: KafkaError, verdict: Verdict) -> None:
        """Something of the transaction failed; the first reason counts."""
        assert verdict in {Verdict.ABORT, Verdict.RENEW}
        if (self.state, Event.SPOIL) not in TRANSITIONS:
            return  # what it was part of has ended
        if self.state in {State.OPEN, State.COMMITTING}:
            self.reason = error
        self._renewal_needed |= bool(self.partitions) or verdict is Verdict.RENEW
        self._unknown_to_coordinator |= verdict is Verdict.RENEW
        self.on(Event.SPOIL)

    def fail(self, error: KafkaError) -> None:
        """The producer is of no use any more; the first reason counts."""
        if self.state is not State.FAILED:
            self.reason = error
            self.on(Event.FAIL)

    # The end

    def next_step(self) -> Step | None:
        """Return what to ask next in order to end the transaction; None if it has ended."""
        if self.state not in {State.COMMITTING, State.ABORTING}:
            return None
        if self._must_be_ended:
            return Step.COMMIT if self.state is State.COMMITTING else Step.ABORT
        if self._renewal_needed:
            return Step.RENEW
        self._forget()
        self.on(Event.END)
        return None

    @property
    def _must_be_ended(self) -> bool:
        """Whether the coordinator may have an open transaction that it knows as ours."""
        written = self._begun or bool(self.partitions) or bool(self.groups)
        return written and not self._asked_to_end and not self._unknown_to_coordinator

    def abort(self) -> None:
        """Begin to abort; in version 1 another epoch is needed then.

        Numbers may have been used that no broker has seen, and a batch that is still under way must
        find that its epoch is over.
        """
        if self.version == 1 and (self._begun or bool(self.partitions)):
            self._renewal_needed = True
        self.on(Event.ABORT)

    def ended(self, identity: ProducerIdentity | None) -> None:
        """The coordinator has ended the transaction, and may have given the next epoch."""
        self._asked_to_end = True
        if identity is not None:
            self.identity = identity
            self._renewal_needed = False

    def refused(self, step: Step, code: ErrorCode, *, in_doubt: bool) -> Verdict | None:
        """Return what it means that a coordinator refused a step; None if there is nothing to do.

        Args:
            step: What it was asked for.
            code: What it said.
            in_doubt: Whether it may have been asked before, in a request without an answer.
        """
        verdict = verdict_of_coordinator(code)
        if step is Step.ABORT and self.version == 1 and code == ErrorCode.INVALID_TXN_STATE:
            # What was announced did not arrive, or will: then it finds that its epoch is over.
            self.ended(None)
            return None
        if verdict in _HOPELESS[step]:
            return Verdict.FAIL
        if step is Step.COMMIT and in_doubt and verdict is Verdict.RENEW:
            # The id went on to another producer id: before the commit, or after it (the epochs of
            # the first one may have been used up). It must not be called aborted.
            return Verdict.FENCED
        return verdict

    def renewed(self, identity: ProducerIdentity) -> None:
        """The coordinator has given another epoch."""
        self.identity = identity
        self._renewal_needed = False
        self._asked_to_end = True

    def _forget(self) -> None:
        self.partitions.clear()
        self.wanted.clear()
        self.groups.clear()
        self._begun = self._asked_to_end = self._renewal_needed = False
        self._unknown_to_coordinator = False
        self.reason = None
