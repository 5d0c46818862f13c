"""Transactional ids as a table: which have a transaction open, for how long, where."""

from typing import Final

from quorate.client.transactions.describing import (
    OVER,
    TransactionDescription,
    TransactionListing,
)
from quorate.tools.positions import time_text
from quorate.tools.tui.views.cells import (
    UNKNOWN,
    Cell,
    Column,
    Frame,
    Row,
    Tone,
    id_cell,
    number_cell,
    text_cell,
)
from quorate.tools.tui.views.shapes import OK_SIGN, WARN_SIGN, duration_cell, duration_text
from quorate.tools.tui.views.snapshot import Snapshot

ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort"})
LATE_SHARE: Final = 0.5
"""From which part of its timeout on an open transaction is worth a look."""

TXN_COLUMNS: Final = (
    Column("transactional_id", shrinks=True), Column("state"),
    Column("open_for", is_number=True, falls=True),
    Column("partitions", is_number=True, falls=True, title="PARTS"),
    Column("producer", is_number=True, falls=True),
    Column("epoch", is_number=True, falls=True, wide_only=True),
    Column("coordinator", is_number=True, wide_only=True),
    Column("timeout", is_number=True, falls=True, wide_only=True),
    Column("started", wide_only=True), Column("where", wide_only=True),
)  # fmt: skip


def txns_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each transactional id."""
    rows = tuple(
        _txn_row(each, snapshot.transactions_told.get(each.transactional_id), snapshot.now_ms)
        for each in snapshot.transactions
    )
    return Frame("transactions", TXN_COLUMNS, rows, "nobody has written in transactions yet")


def _txn_row(txn: TransactionListing, told: TransactionDescription | None, now_ms: int) -> Row:
    name, state = txn.transactional_id, txn.state
    open_ms = started = epoch = timeout_ms = None
    is_late, where = False, ""
    partitions = 0 if state in OVER else None
    if told is not None:
        state, epoch, timeout_ms = told.state, told.producer_epoch, told.timeout_ms
        open_ms = open_for_ms(told, now_ms)
        is_late = open_ms is not None and open_ms >= timeout_ms * LATE_SHARE
        started = None if told.started_ms is None else time_text(told.started_ms)
        partitions, where = len(told.partitions), " ".join(map(str, told.partitions))
    cells = (
        text_cell(name, Tone.STRONG),
        state_cell(state),
        duration_cell(open_ms, Tone.WARN if is_late else Tone.PLAIN),
        number_cell(partitions, Tone.PLAIN if partitions else Tone.DIM),
        id_cell(txn.producer_id),
        id_cell(epoch),
        id_cell(txn.coordinator_id),
        duration_cell(timeout_ms, Tone.DIM),
        text_cell(started, Tone.DIM),
        text_cell(where, Tone.DIM),
    )
    return Row(name, cells, name)


def open_for_ms(txn: TransactionDescription, now_ms: int) -> int | None:
    """Return for how long a transaction has been open; None if none is."""
    is_open = txn.started_ms is not None and txn.state not in OVER
    return max(0, now_ms - (txn.started_ms or 0)) if is_open else None


def state_cell(state: str) -> Cell:
    """Return the state of a transactional id; those with an open transaction sort first."""
    if state == "Ongoing":
        return Cell("▸ Ongoing", Tone.ACCENT, 1)
    if state in ENDING:
        return Cell(f"{WARN_SIGN} {state}", Tone.WARN, 0)
    if state == "CompleteCommit":
        return Cell(f"{OK_SIGN} {state}", Tone.GOOD, 2)
    return Cell(f"○ {state}", Tone.DIM, 3)


def txn_lines(name: str, snapshot: Snapshot) -> list[str]:
    """Return all that was told of a transactional id."""
    txn = snapshot.transactions_told.get(name)
    if txn is None:
        return [f"there is no transactional id {name} any more"]
    open_ms = open_for_ms(txn, snapshot.now_ms)
    is_open = UNKNOWN if open_ms is None else f"{duration_text(open_ms)}, aborted at"
    limit = "" if open_ms is None else f" {duration_text(txn.timeout_ms)}"
    lines = [
        f"transactional id  {txn.transactional_id}",
        f"state             {txn.state}",
        f"open for          {is_open}{limit}",
        f"producer          id {txn.producer_id}, epoch {txn.producer_epoch}",
        f"coordinator       broker {txn.coordinator_id}",
        "",
        "takes part" if txn.partitions else "no partition takes part",
    ]
    lines += [f"  {partition}" for partition in txn.partitions]
    if open_ms is not None:
        lines += ["", "What is open hides what comes after it from read_committed readers.",
                  "quorate txns find-hanging tells of those that nobody will end."]  # fmt: skip
    return lines
