"""How a micro-batch is written exactly once: what is kept in the cluster, and what it means (pure).

Every task writes in a transaction of its own, which it leaves open. When all tasks are done, the
driver writes a *decision* that names the transactions: from then on the micro-batch counts, and
whoever finds the decision ends them. Inside its transaction each task also leaves a *mark* that
says for which micro-batch its slot was written; it is there if and only if the rows are.

Both are offsets that a group commits, so that no further topic is needed: those of partitions of
``__consumer_offsets`` itself, which is there wherever offsets can be committed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final
from zlib import crc32

from quorate.client.groups.results import OffsetAndMetadata
from quorate.client.transactions.verdicts import Verdict, verdict_of_coordinator
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, QuorateError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEEPER_TOPIC: Final = "__consumer_offsets"
PIECE_CHARS: Final = 4_000
"""How much goes into the metadata of one offset: brokers take 4096 bytes unless told otherwise."""


class DecisionError(QuorateError):
    """What is kept about micro-batches cannot be written or understood."""


class LostTransactionError(QuorateError):
    """A transaction of a micro-batch was over before it could be committed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which part of what a task writes: the same for each of its attempts.

    Attributes:
        query: The query's id, as in its checkpoint.
        batch: The number of the micro-batch.
        slot: The number of the task in its stage.
    """

    query: str
    batch: int
    slot: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a task has left open for the driver."""

    place: Place
    producer_id: int
    producer_epoch: int


class Standing(Enum):
    """How far a decision is carried out."""

    DECIDED = "decided"
    """Its transactions are to be committed; some may be already."""

    DONE = "done"
    """All of the micro-batch is committed."""

    PARTLY = "partly"
    """Some of its transactions were over, in vain, before they could be committed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one micro-batch; ``transactions`` are those still to be ended."""

    query: str
    batch: int
    standing: Standing
    transactions: tuple[OpenTransaction, ...] = ()

    def settled(self, standing: Standing) -> Decision:
        """Return the decision once nothing is to be ended any more."""
        return replace(self, standing=standing, transactions=())

    def covers(self, place: Place) -> bool:
        """Whether all rows of a place are committed by it."""
        is_this = self.query == place.query and self.batch >= place.batch
        return self.standing is Standing.DONE and is_this

    def is_about(self, query: str, batch: int) -> bool:
        """Whether it was made for that micro-batch."""
        return (self.query, self.batch) == (query, batch)


# Names


def transactional_id(prefix: str, slot: int) -> str:
    """Return the transactional id of a slot."""
    return f"{prefix}-{slot}"


def decision_group(prefix: str) -> str:
    """Return the group whose offsets hold the decision."""
    return f"quorate-spark-{prefix}"


def mark_key(prefix: str, slot: int, width: int) -> tuple[str, TopicPartition]:
    """Return where the mark of a slot is: a group, and a partition of the ``width`` it has.

    No other sink has that group, for its decision or for its marks, however it is called.
    """
    group, number = divmod(slot, width)
    return f"quorate-spark.{group}.{prefix}", TopicPartition(KEEPER_TOPIC, number)


# Marks


def mark_of(place: Place) -> OffsetAndMetadata:
    """Return the mark that says that a place is written."""
    return OffsetAndMetadata(place.batch + 1, metadata=place.query)


def is_marked(mark: OffsetAndMetadata | None, place: Place) -> bool:
    """Whether a slot's mark says that the rows of a place are committed."""
    return mark is not None and mark.metadata == place.query and mark.offset > place.batch


# Decisions


def pieces_of(decision: Decision, width: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a decision as offsets that are committed at once; others there mean nothing then.

    Raises:
        DecisionError: There are too many tasks.
    """
    body = ";".join(
        f"{t.place.slot:x},{t.producer_id:x},{t.producer_epoch:x}" for t in decision.transactions
    )
    text = f"{decision.query}|{decision.batch}|{decision.standing.value}|{body}"
    pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
    if len(pieces) > width:
        raise DecisionError(
            f"{len(decision.transactions)} tasks are too many for one transactional micro-batch:"
            f" what is written about them takes {len(pieces)} partitions of {KEEPER_TOPIC}, which"
            f" has {width}. Reduce them with coalesce()"
        )
    pieces[0] = f"1|{len(pieces)}|{crc32(text.encode()):x}|{pieces[0]}"
    return {
        TopicPartition(KEEPER_TOPIC, number): OffsetAndMetadata(decision.batch + 1, metadata=piece)
        for number, piece in enumerate(pieces)
    }


def decision_from(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Decision | None:
    """Return the decision that a group's offsets hold; None for none.

    Raises:
        DecisionError: They hold something else.
    """
    head = offsets.get(TopicPartition(KEEPER_TOPIC, 0))
    if head is None:
        return None
    try:
        return _decision(head.metadata, offsets)
    except (KeyError, ValueError):
        raise DecisionError(
            f"the offsets that should tell how far this sink is say {head.metadata[:80]!r}, which"
            " it did not write: is the group in use by somebody else? Choose another"
            " kafka.transactional.id, or delete the group"
        ) from None


def _decision(head: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Decision:
    form, count, crc, text = head.split("|", 3)
    for number in range(1, int(count)):
        text += offsets[TopicPartition(KEEPER_TOPIC, number)].metadata
    if form != "1" or crc32(text.encode()) != int(crc, 16):
        raise ValueError(form)
    query, batch, standing, body = text.split("|")
    transactions: list[OpenTransaction] = []
    for entry in filter(None, body.split(";")):
        slot, producer_id, epoch = (int(number, 16) for number in entry.split(","))
        transactions.append(OpenTransaction(Place(query, int(batch), slot), producer_id, epoch))
    return Decision(query, int(batch), Standing(standing), tuple(transactions))


def decided(transactions: Sequence[OpenTransaction]) -> Decision:
    """Return the decision to commit the transactions of a micro-batch; there is one at least."""
    place = transactions[0].place
    return Decision(place.query, place.batch, Standing.DECIDED, tuple(transactions))


# Ends


def is_gone(code: ErrorCode) -> bool:
    """Whether the answer to EndTxn says that the transaction was over before, in one way or other.

    So it is if a newer producer has the transactional id, or if it took longer than its timeout.
    """
    verdict = verdict_of_coordinator(code)
    return verdict in {Verdict.FENCED, Verdict.RENEW} or code == ErrorCode.INVALID_TXN_STATE
