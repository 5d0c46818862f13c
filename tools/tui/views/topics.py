"""Topics and partitions as tables."""

from collections.abc import Iterable
from typing import Final

from quorate.client.admin_results import LogDirReplica, TopicDescription
from quorate.dataclass import dataclass
from quorate.model import UNKNOWN_OFFSET, TopicPartition
from quorate.tools.clusters.health import Health, health_of
from quorate.tools.output import id_text
from quorate.tools.partitions.listing import (
    AT_MIN_ISR,
    OFFLINE,
    UNDER_MIN_ISR,
    Found,
)
from quorate.tools.tui.views.cells import (
    Cell,
    Column,
    Frame,
    Row,
    Tone,
    count_cell,
    id_cell,
    number_cell,
    parts_cell,
    text_cell,
)
from quorate.tools.tui.views.shapes import (
    BAD_SIGN,
    OK_SIGN,
    WARN_SIGN,
    bytes_cell,
    log_bar,
    rate_cell,
    replica_blocks,
)
from quorate.tools.tui.views.snapshot import OnBrokers, Snapshot, ends_of

TOPIC_COLUMNS: Final = (
    Column("name", shrinks=True), Column("partitions", is_number=True, falls=True, title="PARTS"),
    Column("replicas", is_number=True, falls=True), Column("records", is_number=True, falls=True),
    Column("rate/s", is_number=True, falls=True), Column("size", is_number=True, falls=True),
    Column("state"), Column("min_isr", is_number=True, wide_only=True),
    Column("internal", wide_only=True), Column("topic_id", wide_only=True),
)  # fmt: skip


def topics_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each topic."""
    ends = ends_of(snapshot)
    topics = _in_order(snapshot.topics)
    rows = tuple(_topic_row(snapshot, topic, ends.get(topic.name)) for topic in topics)
    return Frame("topics", TOPIC_COLUMNS, rows, "no topics yet; ctrl-n creates one")


def _in_order(topics: Iterable[TopicDescription]) -> list[TopicDescription]:
    """Return topics by name, those behind that the cluster keeps for itself."""
    return sorted(topics, key=lambda topic: (topic.is_internal, topic.name))


def _topic_row(snapshot: Snapshot, topic: TopicDescription, end: int | None) -> Row:
    size = start = 0
    for told in topic.partitions:
        partition = TopicPartition(topic.name, told.partition)
        for broker_id in told.replicas:
            replica = snapshot.on_brokers.get(broker_id, {}).get(partition)
            if replica is not None:
                size += replica.size_bytes
                if broker_id == told.leader_id:
                    start += max(0, replica.log_start_offset)
    tone = Tone.DIM if topic.is_internal else Tone.STRONG
    cells = (
        Cell(topic.name, tone, topic.name),
        number_cell(len(topic.partitions)),
        number_cell(max((len(p.replicas) for p in topic.partitions), default=0)),
        number_cell(None if end is None else end - start),
        rate_cell(_rate(snapshot, topic.name, end)),
        bytes_cell(size if snapshot.on_brokers else None),
        topic_state_cell(health_of([topic], snapshot.min_isr)),
        number_cell(snapshot.min_isr.get(topic.name)),
        text_cell("yes" if topic.is_internal else "no"),
        text_cell(id_text(topic.topic_id)),
    )
    return Row(topic.name, cells, topic.name)


def _rate(snapshot: Snapshot, topic: str, end: int | None) -> float | None:
    earlier = snapshot.earlier
    if end is None or earlier is None or topic not in earlier.ends:
        return None
    passed_ms = snapshot.now_ms - earlier.now_ms
    return None if passed_ms <= 0 else max(0, end - earlier.ends[topic]) * 1000 / passed_ms


def topic_state_cell(health: Health) -> Cell:
    """Return how a topic is; the worst sort first."""
    if health.offline:
        return Cell(f"{BAD_SIGN} {health.offline} offline", Tone.BAD, 0)
    if health.under_min_isr:
        return Cell(f"{BAD_SIGN} {health.under_min_isr} under min ISR", Tone.BAD, 1)
    if health.under_replicated:
        return Cell(f"{WARN_SIGN} {health.under_replicated} under-replicated", Tone.WARN, 2)
    return Cell(f"{OK_SIGN} ok", Tone.GOOD, 3)


PARTITION_COLUMNS: Final = (
    Column("partition", shrinks=True), Column("leader", is_number=True, wide_only=True),
    Column("replicas"), Column("log_end", is_number=True, falls=True), Column("log"),
    Column("open", is_number=True, falls=True), Column("size", is_number=True, falls=True),
    Column("state"), Column("epoch", is_number=True, falls=True, wide_only=True),
    Column("min_isr", is_number=True, wide_only=True), Column("elr", wide_only=True),
    Column("log_start", is_number=True, wide_only=True),
    Column("high_watermark", is_number=True, wide_only=True), Column("lags", wide_only=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Log:
    """A partition and its replicas' logs; offsets are -1 where nobody tells."""

    found: Found
    leader: LogDirReplica | None
    start: int
    end: int
    watermark: int

    @property
    def length(self) -> int:
        """How many offsets the log covers; -1 if nobody knows."""
        return -1 if self.end == UNKNOWN_OFFSET else self.end - max(0, self.start)

    @property
    def uncommitted(self) -> int:
        """How many records are not on all in-sync replicas yet."""
        known = UNKNOWN_OFFSET not in (self.end, self.watermark)
        return max(0, self.end - self.watermark) if known else 0


def _log_of(found: Found, on_brokers: OnBrokers) -> _Log:
    replicas = on_brokers.get(found.told.leader_id)
    leader = None if replicas is None else replicas.get(found.topic_partition)
    if leader is None:
        return _Log(found, None, UNKNOWN_OFFSET, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    return _Log(
        found, leader, leader.log_start_offset, leader.log_end_offset, leader.high_watermark
    )


def partitions_frame(snapshot: Snapshot, topic_name: str) -> Frame:
    """Return a row for each partition, of a topic or of all."""
    topics = [t for t in _in_order(snapshot.topics) if topic_name in ("", t.name)]
    dead = snapshot.dead
    rows: list[Row] = []
    for topic in topics:
        least = snapshot.min_isr.get(topic.name, 1)
        logs = [
            _log_of(
                Found(TopicPartition(topic.name, told.partition), told, least), snapshot.on_brokers
            )
            for told in topic.partitions
        ]
        longest = max((log.length for log in logs), default=0)
        rows += [_partition_row(log, longest, dead, snapshot.on_brokers) for log in logs]
    title = f"partitions of {topic_name}" if topic_name else "partitions"
    remark = f"there is no topic {topic_name!r}" if topic_name else "no topics yet"
    return Frame(title, PARTITION_COLUMNS, tuple(rows), remark)


def _partition_row(log: _Log, longest: int, dead: frozenset[int], on_brokers: OnBrokers) -> Row:
    found = log.found
    told, (topic, number) = found.told, found.topic_partition
    length, uncommitted = log.length, log.uncommitted
    name = f"{topic}-{number}"
    cells = (
        Cell(name, Tone.STRONG, f"{topic} {number:09}"),
        id_cell(told.leader_id) if told.leader_id >= 0 else _NOBODY,
        replica_blocks(told, dead),
        _offset_cell(log.end),
        parts_cell(log_bar(length - uncommitted, length, longest), length),
        count_cell(uncommitted, Tone.WARN),
        bytes_cell(None if log.leader is None else log.leader.size_bytes),
        partition_state_cell(found),
        number_cell(told.leader_epoch),
        number_cell(found.min_isr),
        text_cell(",".join(map(str, told.elr))),
        _offset_cell(log.start),
        _offset_cell(log.watermark),
        text_cell(_lags_text(log, on_brokers)),
    )
    return Row(name, cells, found.topic_partition)


_NOBODY: Final = Cell("none", Tone.BAD, -1)


def _offset_cell(offset: int) -> Cell:
    return number_cell(None if offset == UNKNOWN_OFFSET else offset)


def _lags_text(log: _Log, on_brokers: OnBrokers) -> str:
    """Return how many offsets each replica is behind, ``2:0 3:17``; those not known left out."""
    if log.end == UNKNOWN_OFFSET:
        return ""
    words: list[str] = []
    for broker_id in log.found.told.replicas:
        replica = on_brokers.get(broker_id, {}).get(log.found.topic_partition)
        if replica is not None and replica.log_end_offset != UNKNOWN_OFFSET:
            words.append(f"{broker_id}:{max(0, log.end - replica.log_end_offset)}")
    return " ".join(words)


_OK: Final = Cell(f"{OK_SIGN} ok", Tone.GOOD, 4)


def partition_state_cell(found: Found) -> Cell:
    """Return how a partition is; the worst sort first."""
    states = found.states
    if not states:
        return _OK
    if OFFLINE in states:
        return Cell(f"{BAD_SIGN} offline", Tone.BAD, 0)
    if UNDER_MIN_ISR in states:
        return Cell(f"{BAD_SIGN} under min ISR", Tone.BAD, 1)
    if AT_MIN_ISR in states:
        return Cell(f"{WARN_SIGN} at min ISR", Tone.WARN, 2)
    return Cell(f"{WARN_SIGN} under-replicated", Tone.WARN, 3)
