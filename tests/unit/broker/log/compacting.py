"""Logs compacted here and now, for tests, by the steps that a broker drives."""

from collections.abc import Callable, Sequence

from quorate.broker.log.compacting import Compaction, Outcome
from quorate.broker.log.compaction import filth_of
from quorate.broker.log.compaction_steps import compaction_steps
from quorate.broker.log.files import OpenFiles
from quorate.broker.log.log import Log
from quorate.records.batch import parse_header
from quorate.records.record import NO_PRODUCER, ProducerStamp, Record, read_records
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import NOW_MS, PARTITION, make_batch, read_all

COMPACT = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=1024,
    index_interval_bytes=200,
    file_delete_delay_ms=1000,
)

Entry = tuple[bytes, bytes | None]


def put(
    log: Log,
    *entries: Entry,
    producer: ProducerStamp = NO_PRODUCER,
    codec: int = 0,
    timestamp_ms: int = NOW_MS,
    leader_epoch: int = 0,
) -> int:
    """Append one batch of keys and values; return its first offset."""
    batch = make_batch(
        [value for _, value in entries],
        keys=[key for key, _ in entries],
        timestamps_ms=[timestamp_ms] * len(entries),
        producer=producer,
        codec=codec,
    )
    return log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS).base_offset


def checkpoint(log: Log) -> None:
    """Make everything durable, so that all closed segments may be compacted."""
    flush = log.start_checkpoint()
    flush.run()
    log.finish_flush(flush)


def compact(
    disk: SimDisk,
    log: Log,
    *,
    now_ms: int = NOW_MS,
    buffer_bytes: int = 1 << 20,
    high_watermark: int | None = None,
    between: Callable[[], None] = lambda: None,
    charge: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Compact what may be compacted; ``between`` is called after each step."""
    limit = log.log_end_offset if high_watermark is None else high_watermark
    part = filth_of(log.closed_part(limit), OpenFiles(disk, 8), now_ms).part
    if not part.segments:
        return Outcome()
    compaction = Compaction(
        disk,
        part,
        producers=log.producers.last_written(),
        buffer_bytes=buffer_bytes,
        now_ms=now_ms,
        charge=charge,
    )
    for step in compaction_steps(log, compaction):
        step.run()
        between()
    return compaction.outcome


def records_of(log: Log) -> list[Record]:
    """Return all records of a log, read as a consumer reads them."""
    return [
        record
        for batch in read_all(log).values()
        for record in read_records(batch, parse_header(batch, 0), PARTITION, bytes_max=1 << 20)
    ]


def table_of(records: Sequence[Record]) -> dict[bytes | None, bytes]:
    """Return the last value of each key; keys that were deleted have none."""
    table: dict[bytes | None, bytes] = {}
    for record in records:
        table.pop(record.key, None)
        if record.value is not None:
            table[record.key] = record.value
    return table
