"""Transactional ids as a table: which have a transaction open, for how long, where."""

from typing import Final

from quorate.client.transactions.describing import OVER, TransactionDescription
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
    rows = tuple(_txn_row(each, snapshot.now_ms) for each in snapshot.transactions)
    return Frame("transactions", TXN_COLUMNS, rows, "nobody has written in transactions yet")


def _txn_row(txn: TransactionDescription, now_ms: int) -> Row:
    open_ms = open_for_ms(txn, now_ms)
    started = None if txn.started_ms is None else time_text(txn.started_ms)
    cells = (
        text_cell(txn.transactional_id, Tone.STRONG),
        state_cell(txn),
        duration_cell(open_ms, Tone.WARN if _is_late(txn, open_ms) else Tone.PLAIN),
        number_cell(len(txn.partitions), Tone.PLAIN if txn.partitions else Tone.DIM),
        id_cell(txn.producer_id),
        id_cell(txn.producer_epoch),
        id_cell(txn.coordinator_id),
        duration_cell(txn.timeout_ms, Tone.DIM),
        text_cell(started, Tone.DIM),
        text_cell(" ".join(map(str, txn.partitions)), Tone.DIM),
    )
    return Row(txn.transactional_id, cells, txn.transactional_id)


def open_for_ms(txn: TransactionDescription, now_ms: int) -> int | None:
    """Return for how long a transaction has been open; None if none is."""
    is_open = txn.started_ms is not None and txn.state not in OVER
    return max(0, now_ms - (txn.started_ms or 0)) if is_open else None


def _is_late(txn: TransactionDescription, open_ms: int | None) -> bool:
    return open_ms is not None and open_ms >= txn.timeout_ms * LATE_SHARE


def state_cell(txn: TransactionDescription) -> Cell:
    """Return the state of a transactional id; those with an open transaction sort first."""
    if txn.state == "Ongoing":
        return Cell("▸ Ongoing", Tone.ACCENT, 1)
    if txn.state in ENDING:
        return Cell(f"{WARN_SIGN} {txn.state}", Tone.WARN, 0)
    if txn.state == "CompleteCommit":
        return Cell(f"{OK_SIGN} {txn.state}", Tone.GOOD, 2)
    return Cell(f"○ {txn.state}", Tone.DIM, 3)


def txn_lines(name: str, snapshot: Snapshot) -> list[str]:
    """Return all that is known of a transactional id."""
    txn = next((t for t in snapshot.transactions if t.transactional_id == name), None)
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
