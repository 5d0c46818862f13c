"""What comes one after the other: records of a topic, and what the controllers decided."""

import json
from typing import Final

from quorate.records.record import Record
from quorate.tools.metadata.decided import Decided
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
from quorate.tools.tui.views.snapshot import Snapshot

TEXT_MAX: Final = 400
"""How much of a key, a value or a cause is in a cell; describing the row shows all."""

MESSAGE_COLUMNS: Final = (
    Column("partition", is_number=True, title="PART"), Column("offset", is_number=True, falls=True),
    Column("time"), Column("key", shrinks=True), Column("value", shrinks=True),
    Column("header", shrinks=True, wide_only=True),
    Column("bytes", is_number=True, falls=True, wide_only=True), Column("date", wide_only=True),
)  # fmt: skip


def bytes_shown(value: bytes | None) -> str:
    """Return bytes as text if they are text, else in hexadecimal; null as such."""
    if value is None:
        return "null"
    text = value.decode("utf-8", "replace")
    if "\ufffd" in text or any(not c.isprintable() and c not in "\r\n\t" for c in text):
        return "0x" + value.hex()
    return text


def one_line(text: str) -> str:
    """Return the beginning of a text in one line."""
    return " ".join(text[:TEXT_MAX].split())


def headers_shown(record: Record) -> str:
    """Return the headers of a record."""
    return " ".join(f"{name}={bytes_shown(value)}" for name, value in record.headers)


def messages_frame(snapshot: Snapshot, topic: str) -> Frame:
    """Return a row for each record that was read, the newest first."""
    newest = sorted(snapshot.records, key=_age, reverse=True)
    rows = tuple(_message_row(record) for record in newest)
    remark = "waiting for records ..."
    return Frame(f"messages of {topic}", MESSAGE_COLUMNS, rows, remark, newest_first=True)


def _age(record: Record) -> tuple[int, int, int]:
    return record.timestamp_ms, record.offset, record.topic_partition.partition


def _message_row(record: Record) -> Row:
    partition = record.topic_partition
    time = time_text(record.timestamp_ms) if record.timestamp_ms >= 0 else ""
    date, _, clock = time.rstrip("Z").partition("T")
    size = len(record.key or b"") + len(record.value or b"")
    cells = (
        id_cell(partition.partition),
        number_cell(record.offset),
        Cell(clock, Tone.DIM, record.timestamp_ms),
        Cell(one_line(bytes_shown(record.key)), _null_tone(record.key), bytes_shown(record.key)),
        Cell(one_line(bytes_shown(record.value)), _null_tone(record.value)),
        text_cell(one_line(headers_shown(record)), Tone.DIM),
        number_cell(size),
        text_cell(date, Tone.DIM),
    )
    return Row(f"{partition.topic}:{partition.partition}:{record.offset}", cells, record)


def _null_tone(value: bytes | None) -> Tone:
    return Tone.DIM if value is None else Tone.PLAIN


EVENT_COLUMNS: Final = (
    Column("offset", is_number=True, falls=True), Column("time"), Column("record"),
    Column("about", shrinks=True), Column("cause", shrinks=True),
    Column("term", is_number=True, wide_only=True), Column("topic", wide_only=True),
    Column("date", wide_only=True),
)  # fmt: skip


def events_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each record of the controllers' log, the newest first."""
    events = snapshot.events
    rows = tuple(_event_row(decided, i) for i, decided in enumerate(events))
    remark = "no controller tells of its decisions"
    return Frame("events", EVENT_COLUMNS, rows[::-1], remark, newest_first=True)


def _event_row(decided: Decided, number: int) -> Row:
    time = "" if decided.time_ms is None else time_text(decided.time_ms)
    date, _, clock = time.rstrip("Z").partition("T")
    cells = (
        number_cell(decided.offset),
        Cell(clock[:8] or UNKNOWN, Tone.DIM, decided.time_ms),
        text_cell(decided.type, Tone.STRONG),
        text_cell(one_line(about(decided))),
        text_cell(one_line(decided.record.cause), Tone.ACCENT),
        number_cell(decided.term),
        text_cell(decided.topic),
        text_cell(date, Tone.DIM),
    )
    return Row(f"{decided.offset}/{number}", cells, decided)


def about(decided: Decided) -> str:
    """Return what a record says, shortly: names and values, without what is empty."""
    body = decided.body()
    if decided.topic is not None:
        body.pop("topic_id", None)
        body.pop("name", None)
        partition = body.pop("partition", None)
        named = decided.topic if partition is None else f"{decided.topic}:{partition}"
    else:
        named = ""
    words = [f"{name}={_short(value)}" for name, value in body.items() if value not in (None, "")]
    return " ".join([named, *words] if named else words)


def _short(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
