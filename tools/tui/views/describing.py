"""All that is known of what a row is about: as lines for people, as a document for programs."""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from quorate.client.admin_results import ConfigEntry, TopicDescription
from quorate.model import NO_LEADER, TopicPartition
from quorate.records.record import Record
from quorate.tools.groups.tables import assignment_text
from quorate.tools.metadata.decided import Decided
from quorate.tools.output import id_text
from quorate.tools.partitions.listing import Found, describe_lines, described
from quorate.tools.positions import time_text
from quorate.tools.quorum.text import DISK_FULL
from quorate.tools.tui.views import cells, places
from quorate.tools.tui.views.cells import Frame, Part, Row, Tone
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.runs import run_lines
from quorate.tools.tui.views.settings import value_shown
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.tui.views.streams import bytes_shown
from quorate.tools.tui.views.txns import txn_lines
from quorate.tools.verify_runs import Run
from quorate.tools.why.answer import Answer
from quorate.tools.why.answer import Line as Fact
from quorate.tools.why.answers import why_isr, why_leader, why_offline
from quorate.tools.why.past import broker_events

DRAWN = frozenset({"log", "share"})
"""Columns that are pictures of what stands in others."""


def document_of(frame: Frame, row: Row) -> dict[str, Any]:
    """Return a row as programs read it: every column, by name; numbers as numbers."""
    subject: Any = row.subject
    if isinstance(subject, Decided):
        return subject.fields()
    if isinstance(subject, Record):
        return record_document(cast("Record", subject))
    return {
        column.name: _value_of(column, cell)
        for column, cell in zip(frame.columns, row.cells, strict=True)
        if column.name not in DRAWN
    }


def _value_of(column: cells.Column, cell: cells.Cell) -> str | float | None:
    if cell.order is None:
        return None
    if column.is_number and not isinstance(cell.order, str):
        return cell.order
    sign, blank, rest = cell.text.partition(" ")
    return rest if blank and len(sign) == 1 and not sign.isalnum() else cell.text


def record_document(record: Record) -> dict[str, Any]:
    """Return a record as programs read it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else bytes_shown(record.key),
        "value": None if record.value is None else bytes_shown(record.value),
        "headers": [[name, bytes_shown(value)] for name, value in record.headers],
    }


def saved_rows(frame: Frame, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as a file has them."""
    return [document_of(frame, row) for row in rows]


def lines_of(
    place: Place, subject: object, snapshot: Snapshot, entries: Mapping[str, ConfigEntry]
) -> list[str]:
    """Return what is known of what a row is about."""
    match subject:
        case Record():
            lines = record_lines(cast("Record", subject))
        case Decided():
            lines = event_lines(subject)
        case Run():
            lines = run_lines(subject)
        case TopicPartition():
            lines = _partition_lines(subject, snapshot)
        case int() if place.view == places.BROKERS:
            lines = _broker_lines(subject, snapshot, entries)
        case int():
            lines = _controller_lines(subject, snapshot)
        case _:
            lines = _named_lines(place, str(subject), snapshot, entries)
    return lines


def _named_lines(
    place: Place, name: str, snapshot: Snapshot, entries: Mapping[str, ConfigEntry]
) -> list[str]:
    if place.view == places.GROUPS:
        return _group_lines(name, snapshot)
    if place.view == places.TXNS:
        return txn_lines(name, snapshot)
    if place.view == places.CONFIGS:
        return _config_lines(place, name, snapshot)
    topic = snapshot.topic(name)
    if topic is None:
        return [f"there is no topic {name} any more"]
    return _topic_lines(topic, snapshot, entries)


def _partition_lines(partition: TopicPartition, snapshot: Snapshot) -> list[str]:
    topic = snapshot.topic(partition.topic)
    told = None
    if topic is not None:
        told = next((p for p in topic.partitions if p.partition == partition.partition), None)
    if told is None:
        return [f"{partition} is not there any more"]
    found = Found(partition, told, snapshot.min_isr.get(partition.topic, 1))
    return describe_lines(described(found, snapshot.on_brokers))


def _topic_lines(
    topic: TopicDescription, snapshot: Snapshot, entries: Mapping[str, ConfigEntry]
) -> list[str]:
    lines = [
        f"topic       {topic.name}{' (internal)' if topic.is_internal else ''}",
        f"id          {id_text(topic.topic_id)}",
        f"partitions  {len(topic.partitions)}",
        "",
        *_set_lines(entries),
        "",
    ]
    for told in topic.partitions:
        lines += _partition_lines(TopicPartition(topic.name, told.partition), snapshot)
    return lines


def _set_lines(entries: Mapping[str, ConfigEntry]) -> list[str]:
    made = [entry for entry in entries.values() if not entry.is_default]
    if not made:
        return ["all settings are defaults"]
    return [f"{e.name}={value_shown(e)}" for e in sorted(made, key=lambda entry: entry.name)]


def _broker_lines(
    broker_id: int, snapshot: Snapshot, entries: Mapping[str, ConfigEntry]
) -> list[str]:
    broker = snapshot.broker(broker_id)
    if broker is None:
        return [f"there is no broker {broker_id} any more"]
    lines = [
        f"broker      {broker_id}",
        f"address     {broker.endpoint}",
        f"rack        {broker.rack or 'none'}",
        "",
    ]
    led: dict[str, list[int]] = {}
    behind: list[str] = []
    for topic in snapshot.topics:
        for told in topic.partitions:
            if told.leader_id == broker_id:
                led.setdefault(topic.name, []).append(told.partition)
            if broker_id in told.replicas and broker_id not in told.isr:
                behind.append(f"{topic.name}:{told.partition}")
    lines += ["leads"] + [f"  {topic}: {','.join(map(str, n))}" for topic, n in led.items()]
    lines += ["is behind in"] + [f"  {name}" for name in behind] if behind else []
    return [*lines, "", *_set_lines(entries)]


def _controller_lines(node_id: int, snapshot: Snapshot) -> list[str]:
    view = snapshot.quorum
    replicas = () if view is None else view.replicas
    lines: list[str] = []
    for replica in replicas:
        if view is not None and replica.node_id == node_id:
            heard = "-" if replica.last_fetch_ms < 0 else time_text(replica.last_fetch_ms)
            caught = "-" if replica.last_caught_up_ms < 0 else time_text(replica.last_caught_up_ms)
            lines += [
                f"controller  {node_id}",
                f"role        {replica.role}{f', {DISK_FULL}' if replica.disk_full else ''}",
                f"address     {replica.endpoint or 'unknown'}",
                f"directory   {replica.directory_text}",
                f"log end     {replica.log_end_offset}",
                f"lag         {view.lag(replica)}",
                f"last heard  {heard}",
                f"caught up   {caught}",
            ]
    return lines


def _group_lines(group_id: str, snapshot: Snapshot) -> list[str]:
    group = next((g for g in snapshot.groups if g.group_id == group_id), None)
    if group is None:
        return [f"there is no group {group_id} any more"]
    since = "-" if group.state_since_ms is None else time_text(group.state_since_ms)
    lines = [
        f"group        {group_id}",
        f"state        {group.state}, since {since}",
        f"type         {group.type}",
        f"assignor     {group.assignor or 'none'}",
        f"coordinator  broker {group.coordinator_id}",
    ]
    if group.rebalance_reason:
        lines.append(f"rebalanced   {group.rebalance_reason}")
    for member in group.members:
        lines += [
            "",
            f"member {member.member_id}",
            f"  client     {member.client_id} at {member.host}",
            f"  reads      {assignment_text(member.assignment) or 'nothing'}",
        ]
    return lines


def _config_lines(place: Place, name: str, snapshot: Snapshot) -> list[str]:
    for entries in snapshot.configs.values():
        entry = entries.get(name)
        if entry is not None:
            own = "" if not entry.is_default else " (default)"
            return [
                f"{name}={value_shown(entry)}{own}",
                f"of {place.argument or 'all brokers'}",
                "",
                entry.documentation or "",
            ]
    return [name]


def record_lines(record: Record) -> list[str]:
    """Return a record with all of its key, headers and value; JSON is laid out."""
    when = time_text(record.timestamp_ms) if record.timestamp_ms >= 0 else "-"
    lines = [
        f"{record.topic}:{record.partition} offset {record.offset}",
        f"time     {when}",
        f"key      {bytes_shown(record.key)}",
        *(f"header   {name}={bytes_shown(value)}" for name, value in record.headers),
        f"size     {len(record.value or b'')} bytes",
        "",
    ]
    text = bytes_shown(record.value)
    with contextlib.suppress(ValueError, RecursionError):  # no JSON, or too deep a one
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return lines + text.splitlines()


def event_lines(decided: Decided) -> list[str]:
    """Return a decision with all that it says."""
    fields = decided.fields()
    width = max(map(len, fields))
    return [f"{name:<{width}}  {_value(value)}" for name, value in fields.items()]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def answers_lines(answers: Iterable[Answer]) -> tuple[cells.Line, ...]:
    """Return answers to "why", one below the other: each fact, and below it where it stands."""
    lines: list[cells.Line] = []
    for answer in answers:
        lines.append((Part(answer.headline, Tone.STRONG),))
        for fact in answer.lines:
            when = "no time is known" if fact.time_ms is None else time_text(fact.time_ms)
            lines.append((Part("  "), Part(fact.text)))
            lines.append((Part("    "), Part(f"{fact.citation}  {when}", Tone.DIM)))
        if answer.hint:
            lines.append((Part("  "), Part(f"try: {answer.hint}", Tone.ACCENT)))
        lines.append((Part(""),))
    return tuple(lines[:-1])


def described_lines(texts: Iterable[str]) -> tuple[cells.Line, ...]:
    """Return a description; its first line stands out."""
    return tuple(
        (Part(text, Tone.STRONG),)
        if i == 0
        else (Part(text[: len(text) - len(text.lstrip())]), Part(text.lstrip()))
        for i, text in enumerate(texts)
    )


def why_partition_lines(
    decided: Sequence[Decided], partition: TopicPartition, snapshot: Snapshot
) -> tuple[cells.Line, ...]:
    """Return why a partition is led as it is, or by nobody; and why that many are in sync.

    Raises:
        CommandError: there never was such a partition.
    """
    topic = snapshot.topic(partition.topic)
    told = () if topic is None else topic.partitions
    offline = any(p.partition == partition.partition and p.leader_id == NO_LEADER for p in told)
    first = why_offline if offline else why_leader
    return answers_lines([first(decided, partition), why_isr(decided, partition)])


def why_broker_lines(decided: Sequence[Decided], broker_id: int) -> tuple[cells.Line, ...]:
    """Return what the controllers wrote down of a broker, out of all that they did."""
    return broker_lines(broker_id, [event.line() for event in broker_events(decided, broker_id)])


def broker_lines(broker_id: int, events: Sequence[Fact]) -> tuple[cells.Line, ...]:
    """Return what the controllers wrote down of a broker."""
    told = Answer(f"What was decided about broker {broker_id}, oldest first.", tuple(events))
    if not events:
        told = Answer(f"Nothing is written of broker {broker_id} any more.", ())
    return answers_lines([told])
