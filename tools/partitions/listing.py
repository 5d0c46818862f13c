"""Partitions as they are listed and described: filters, tables, lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quorate.client.admin_results import LogDirReplica, PartitionDescription, TopicDescription
from quorate.dataclass import dataclass
from quorate.model import UNKNOWN_OFFSET, TopicPartition
from quorate.tools.clusters.health import (
    is_at_min_isr,
    is_offline,
    is_under_min_isr,
    is_under_replicated,
)
from quorate.tools.output import Column, Table
from quorate.tools.problems import UsageError

ALL: Final = "all"
UNDER_REPLICATED: Final = "under-replicated"
UNDER_MIN_ISR: Final = "under-min-isr"
AT_MIN_ISR: Final = "at-min-isr"
OFFLINE: Final = "offline"
REPLICA_HEADINGS: Final = (
    "BROKER", "ROLE", "LOG-START", "LOG-END", "LAG", "HIGH-WATERMARK", "BYTES",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A partition, and ``min.insync.replicas`` of its topic."""

    topic_partition: TopicPartition
    told: PartitionDescription
    min_isr: int

    @property
    def states(self) -> tuple[str, ...]:
        """What is not as it should be; empty if all is well."""
        told, least = self.told, self.min_isr
        holds = (
            (OFFLINE, is_offline(told)),
            (UNDER_MIN_ISR, is_under_min_isr(told, least)),
            (AT_MIN_ISR, is_at_min_isr(told, least)),
            (UNDER_REPLICATED, is_under_replicated(told)),
        )
        return tuple(name for name, does in holds if does)

    @property
    def leader_id(self) -> int | None:
        """Who leads, None if nobody does."""
        return None if is_offline(self.told) else self.told.leader_id

    @property
    def preferred_leads(self) -> bool:
        """Whether the first replica leads."""
        return bool(self.told.replicas) and self.told.leader_id == self.told.replicas[0]


def all_partitions(topics: Iterable[TopicDescription], min_isr: Mapping[str, int]) -> list[Found]:
    """Return all partitions of topics, in their order."""
    return [
        Found(TopicPartition(topic.name, told.partition), told, min_isr.get(topic.name, 1))
        for topic in topics
        for told in topic.partitions
    ]


def those_that_are(partitions: Iterable[Found], wanted: Sequence[str]) -> list[Found]:
    """Return the partitions that are in one of the states wanted; all, if none is."""
    return [p for p in partitions if not wanted or set(wanted) & set(p.states)]


def list_table(partitions: Iterable[Found]) -> Table:
    """Return a row for each partition."""
    columns = (
        Column("partition"), Column("leader"), Column("replicas"), Column("isr"), Column("elr"),
        Column("state"), Column("topic", wide_only=True), Column("number", wide_only=True),
        Column("leader_epoch", wide_only=True), Column("min_isr", wide_only=True),
        Column("offline", wide_only=True), Column("last_known_elr", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            str(p.topic_partition), p.leader_id, list(p.told.replicas), list(p.told.isr),
            list(p.told.elr), " ".join(p.states) or "ok", *p.topic_partition,
            p.told.leader_epoch, p.min_isr, list(p.told.offline), list(p.told.last_known_elr),
        )
        for p in partitions
    )  # fmt: skip
    return Table("partitions", columns, rows)


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica as its broker tells of it; ``told`` is None if the broker does not."""

    broker_id: int
    role: str
    told: LogDirReplica | None

    @property
    def log_end_offset(self) -> int | None:
        """Where its log ends."""
        return None if self.told is None else _known(self.told.log_end_offset)


@dataclass(frozen=True, slots=True)
class Described:
    """A partition with all of its replicas."""

    found: Found
    replicas: tuple[ReplicaRow, ...]

    @property
    def leader(self) -> ReplicaRow | None:
        """The replica that leads."""
        mine = (row for row in self.replicas if row.broker_id == self.found.leader_id)
        return next(mine, None)

    @property
    def log_end_offset(self) -> int | None:
        """Where the leader's log ends."""
        return None if self.leader is None else self.leader.log_end_offset

    @property
    def high_watermark(self) -> int | None:
        """Up to where everything is committed, as the leader knows it."""
        told = None if self.leader is None else self.leader.told
        return None if told is None else _known(told.high_watermark)

    def lag(self, row: ReplicaRow) -> int | None:
        """Return how many offsets a replica is behind the leader."""
        if self.log_end_offset is None or row.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - row.log_end_offset)


def _known(offset: int) -> int | None:
    return None if offset == UNKNOWN_OFFSET else offset


def described(
    found: Found, on_brokers: Mapping[int, Mapping[TopicPartition, LogDirReplica]]
) -> Described:
    """Return a partition with what its brokers tell of their replicas."""
    return Described(
        found,
        tuple(
            ReplicaRow(
                broker_id, _role(found, broker_id),
                on_brokers.get(broker_id, {}).get(found.topic_partition),
            )
            for broker_id in found.told.replicas
        ),
    )  # fmt: skip


def _role(found: Found, broker_id: int) -> str:
    told = found.told
    if broker_id == found.leader_id:
        return "leader"
    if broker_id in told.isr:
        return "in sync"
    if broker_id in told.elr:
        return "eligible"
    return "offline" if broker_id in told.offline else "behind"


def describe_lines(each: Described) -> list[str]:
    """Return a partition as lines for people."""
    found, told = each.found, each.found.told
    leader = "nobody" if found.leader_id is None else str(found.leader_id)
    epoch = f"leader {leader} (epoch {told.leader_epoch})"
    states = ", ".join(found.states) or "ok"
    isr = f"ISR {_ids(told.isr)}, ELR {_ids(told.elr)}"
    lines = [
        f"{found.topic_partition}: {states}",
        f"  {epoch}, {isr}, last known ELR {_ids(told.last_known_elr)}, min ISR {found.min_isr}",
        f"  log end {_text(each.log_end_offset)}, high watermark {_text(each.high_watermark)}",
    ]
    cells: list[tuple[str, ...]] = [REPLICA_HEADINGS]
    for row in each.replicas:
        told_of = row.told
        numbers: tuple[int | None, ...] = (None,) * 5
        if told_of is not None:
            numbers = (
                _known(told_of.log_start_offset), row.log_end_offset, each.lag(row),
                _known(told_of.high_watermark), told_of.size_bytes,
            )  # fmt: skip
        cells.append((str(row.broker_id), row.role, *map(_text, numbers)))
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        lines.append(("  " + "  ".join(padded)).rstrip())
    return lines


def _ids(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids)) or "none"


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)


def describe_table(partitions: Iterable[Described]) -> Table:
    """Return partitions with their replicas, for programs."""
    columns = (
        Column("topic"), Column("partition"), Column("leader"), Column("leader_epoch"),
        Column("state"), Column("min_isr"), Column("isr"), Column("elr"), Column("last_known_elr"),
        Column("log_end_offset"), Column("high_watermark"), Column("replicas"),
    )  # fmt: skip
    rows = tuple(
        (
            *p.found.topic_partition, p.found.leader_id, p.found.told.leader_epoch,
            list(p.found.states), p.found.min_isr, list(p.found.told.isr),
            list(p.found.told.elr), list(p.found.told.last_known_elr), p.log_end_offset,
            p.high_watermark, [_replica_item(p, row) for row in p.replicas],
        )
        for p in partitions
    )  # fmt: skip
    return Table("partitions", columns, rows)


def _replica_item(each: Described, row: ReplicaRow) -> dict[str, Any]:
    told = row.told
    return {
        "broker": row.broker_id,
        "role": row.role,
        "log_start_offset": None if told is None else _known(told.log_start_offset),
        "log_end_offset": row.log_end_offset,
        "lag": each.lag(row),
        "high_watermark": None if told is None else _known(told.high_watermark),
        "size_bytes": None if told is None else told.size_bytes,
    }


def parse_partition(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Return a topic and the numbers of partitions, from ``t:0`` or ``t:0,2,5-7``; None for ``t``.

    Raises:
        UsageError: the text has another form.
    """
    topic, colon, numbers = text.rpartition(":")
    if not colon:
        return text, None
    found: list[int] = []
    try:
        for part in numbers.split(","):
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span:
                raise ValueError  # noqa: TRY301 - the same answer as for what is no number
            found += span
    except ValueError:
        raise UsageError(
            f"{text!r} names no partitions",
            why="that is TOPIC or TOPIC:NUMBER[,NUMBER] or TOPIC:FIRST-LAST",
            hint="t:0,2 or t:5-7",
        ) from None
    return topic, tuple(found)


def chosen(partitions: Iterable[Found], wanted: Sequence[str]) -> list[Found]:
    """Return the partitions that texts such as ``t`` and ``t:0,2`` name; all, if there are none.

    Raises:
        UsageError: a topic or a partition does not exist.
    """
    there = {p.topic_partition: p for p in partitions}
    if not wanted:
        return list(there.values())
    named: dict[TopicPartition, Found] = {}
    for text in wanted:
        topic, numbers = parse_partition(text)
        of_topic = {tp: p for tp, p in there.items() if tp.topic == topic}
        names = list(of_topic)
        if numbers is not None:
            names = [TopicPartition(topic, number) for number in numbers]
        missing = [tp for tp in names if tp not in of_topic]
        if missing or not of_topic:
            raise UsageError(
                f"there is no partition {missing[0]}"
                if of_topic
                else f"there is no topic {topic!r}",
                why=f"{topic} has {len(of_topic)} partitions" if of_topic else "no broker knows it",
                hint="quorate partitions list",
            )
        named |= {tp: of_topic[tp] for tp in names}
    return list(named.values())
