"""Why the writes of a transactional id, or the commits of a group, are refused."""

from collections.abc import Sequence
from typing import Final

from quorate.broker.transactions.records import read_transaction_key, read_transaction_value
from quorate.broker.transactions.transaction import NAMES, PREPARED, Transaction, TxnState
from quorate.client.groups.results import GroupDescription
from quorate.client.transactions.describing import OVER, TransactionDescription
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError
from quorate.records.record import Record
from quorate.tools.metadata.decided import Decided
from quorate.tools.positions import time_text
from quorate.tools.why.answer import Answer, Line, in_order, measured, name_of
from quorate.tools.why.groups import Generation, diffs_of
from quorate.tools.why.looks import TRANSACTIONS, Reached, broker_name
from quorate.tools.why.past import Past, leader_line
from quorate.tools.why.rejected import refusals_of

STATES_MAX: Final = 5
"""So many records of a transactional id are told, the newest."""

UNSEEN: Final = -1


@dataclass(frozen=True, slots=True)
class Written:
    """How a transactional id stood, as of a record; None if it was forgotten."""

    log: str
    offset: int
    time_ms: int
    stood: Transaction | None

    def line(self, name: str) -> Line:
        """Return it as a line."""
        return Line(f"{name}: {self._what()}", self.offset, self.time_ms, self.log)

    def _what(self) -> str:
        if self.stood is None:
            return "forgotten"
        stood = self.stood
        what = f"{NAMES[stood.state]}, producer {stood.producer_id}, epoch {stood.producer_epoch}"
        where = ", ".join(map(str, sorted(stood.partitions)[:STATES_MAX]))
        return f"{what}, in {where}" if where else what


class TransactionReader:
    """Reads the records of one transactional id among those of all of a partition.

    State: all of them, oldest first.
    """

    def __init__(self, transactional_id: str) -> None:
        self.written: list[Written] = []
        self._name = transactional_id

    def take(self, record: Record) -> None:
        """Read a record; those of others, and those that cannot be read, are passed over."""
        try:
            if record.key is None or read_transaction_key(record.key) != self._name:
                return
            stood = None if record.value is None else read_transaction_value(record.value)
        except CorruptRecordError:
            return  # a tool that explains must not fail on what it need not understand
        log = name_of(record.topic_partition)
        self.written.append(Written(log, record.offset, record.timestamp_ms, stood))


def why_rejected_producer(
    decided: Sequence[Decided],
    told: TransactionDescription,
    written: Sequence[Written],
    coordinated_by: tuple[Past, Reached | None],
    now_ms: int,
) -> Answer:
    """Return which writes of a transactional id are refused.

    Args:
        decided: all metadata records.
        told: as its coordinator describes it.
        written: what the coordinator's log says, oldest first.
        coordinated_by: the partition whose leader coordinates it, and what that answered.
        now_ms: when the coordinator answered.
    """
    name, past = told.transactional_id, coordinated_by[0]
    text = f"{told.state}, producer {told.producer_id}, epoch {told.producer_epoch}"
    if told.started_ms is not None and told.state not in OVER:
        text += f", open since {time_text(told.started_ms)}, timeout {told.timeout_ms} ms"
    who = broker_name(told.coordinator_id)
    lines = [each.line(name) for each in written[-STATES_MAX:]]
    lines += [leader_line(past), measured(text, who, TRANSACTIONS, now_ms)]
    sentences = list[str]()
    hint = ""
    for refusal in refusals_of(decided, *coordinated_by):
        lines += refusal.lines
        sentences.append(
            f"Its coordinator cannot go on ({refusal.code}), {past.name}: {refusal.why}."
        )
        hint = hint or refusal.hint
    sentences.append(
        f"Writes of {name} are refused unless they come from producer {told.producer_id} in epoch "
        f"{told.producer_epoch} (else INVALID_PRODUCER_EPOCH, PRODUCER_FENCED or "
        "INVALID_PRODUCER_ID_MAPPING)." + _begun(name, written)
    )
    if told.state in {NAMES[state] for state in PREPARED}:
        sentences.append(
            f"Its transaction is {told.state}: until it has ended everywhere, it begins no other "
            "one (CONCURRENT_TRANSACTIONS)."
        )
        places = [f"{p.topic}:{p.partition}" for p in told.partitions]
        hint = hint or (f"quorate why rejected {places[0]}" if places else "wait")
    return Answer(" ".join(sentences), in_order(lines), hint)


def _begun(name: str, written: Sequence[Written]) -> str:
    """Return who fenced whom: a record without a transaction is that of a producer that began."""
    states = [(each, each.stood.state) for each in written if each.stood is not None]
    anew = [each for each, state in states[1:] if state is TxnState.EMPTY]
    if not anew:
        return ""
    when = time_text(anew[-1].time_ms)
    return f" At {when} a producer began with {name}: whoever had it before is fenced."


def why_rejected_commits(
    decided: Sequence[Decided],
    group: GroupDescription,
    generations: Sequence[Generation],
    coordinated_by: tuple[Past, Reached | None],
    now_ms: int,
) -> Answer:
    """Return which commits of a group are refused.

    Args:
        decided: all metadata records.
        group: as its coordinator describes it.
        generations: what the group's records say, oldest first.
        coordinated_by: the partition whose leader coordinates it, and what that answered.
        now_ms: when the coordinator answered.
    """
    name, past = group.group_id, coordinated_by[0]
    number = group.epoch if group.generation_id is None else group.generation_id
    count = len(group.members)
    text = f"{group.state}, generation {UNSEEN if number is None else number}, {count} members"
    who = broker_name(group.coordinator_id)
    lines = [leader_line(past), measured(text, who, "DescribeGroups", now_ms)]
    lines += [diff.line() for diff in diffs_of(generations)[-1:]]
    sentences = list[str]()
    hint = ""
    for refusal in refusals_of(decided, *coordinated_by):
        lines += refusal.lines
        sentences.append(f"Commits of {name} are refused, {past.name}: {refusal.why}.")
        hint = hint or refusal.hint
    if group.members:
        sentences.append(
            f"Commits of {name} are refused but from its {count} members in generation {number} "
            "(else UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS while it changes)."
        )
        hint = hint or f"quorate why rebalance {name}"
    elif not sentences:
        sentences.append(f"Commits to {name} are not refused: it has no members.")
    return Answer(" ".join(sentences), in_order(lines), hint)
