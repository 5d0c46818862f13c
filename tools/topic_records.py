"""What topics hold: searched, exported to files, and counted."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from quorate.client.admin import raise_first
from quorate.client.admin_results import BrokerLogDirs, OffsetSpec, TopicDescription
from quorate.errors import QuorateError
from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.consuming import ConsumePlan, consume
from quorate.tools.output import Column, Table
from quorate.tools.problems import UsageError
from quorate.tools.record_text import record_json, record_line
from quorate.tools.whole_files import unfinished_file

if TYPE_CHECKING:
    from quorate.client.admin import Admin
    from quorate.tools.progress import Bar
    from quorate.tools.topics import Client

HOUR_MS: Final = 3_600_000
CSV_COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp_ms", "key", "value", "headers",
)  # fmt: skip


async def partition_of_key(client: "Client", topic: str, key: bytes) -> tuple[int, int]:
    """Return where producers put a key unless they decide otherwise, and of how many partitions.

    Raises:
        QuorateError: There is no such topic.
    """
    from quorate.client.sending.partitioner import partition_for_key

    async with client.consumer() as consumer:
        count = len(await consumer.partitions_of(topic))
    return partition_for_key(key, count), count


def csv_line(record: Record) -> bytes:
    """Return a record as a line of CSV; headers are JSON, and so is what is no text."""
    line = io.StringIO()
    said = record_json(record)
    cells = [said[name] for name in CSV_COLUMNS]
    texts = [c if c is None or isinstance(c, str | int) else json.dumps(c) for c in cells]
    csv.writer(line, lineterminator="\n").writerow(texts)
    return line.getvalue().encode()


_TEXTS: Final = {".jsonl": record_line, ".json": record_line, ".csv": csv_line}


def text_for(path: Path) -> Callable[[Record], bytes]:
    """Return how a file of that name holds records.

    Raises:
        UsageError: Its name does not say.
    """
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix not in _TEXTS:
        raise UsageError(
            f"{path} does not say what to write", why="it ends in .jsonl or .csv, with .gz or not",
            hint="--to orders.jsonl.gz; for Parquet: quorate spark read",
        )  # fmt: skip
    return _TEXTS[suffix]


class _Counted:
    """A file that tells a bar how much went into it."""

    def __init__(self, out: BinaryIO, bar: "Bar") -> None:
        self._out = out
        self._bar = bar

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self._bar.advance(len(data))

    def flush(self) -> None:
        """Do nothing: the file is of use when it is whole."""


async def export(
    client: "Client", plan: ConsumePlan, path: Path, bar: "Bar", *, overwrite: bool
) -> int:
    """Write the records that there are to a file, which appears when it is whole; return how many.

    Raises:
        RefusedError: The file is there, and is not to be overwritten.
        CommandError: It cannot be written.
        QuorateError: Something cannot be read.
    """
    with unfinished_file(path, overwrite=overwrite) as unfinished:
        plan = replace(plan, text=text_for(path), stop_at_end=True)
        with _opened(unfinished, compressed=path.suffix == ".gz") as out:
            if plan.text is csv_line:
                out.write((",".join(CSV_COLUMNS) + "\n").encode())
            counted = cast("BinaryIO", _Counted(out, bar))
            count = await consume(client.bootstrap, plan, client.options, counted)
    return count


def _opened(path: Path, *, compressed: bool) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "wb")) if compressed else path.open("wb")


async def stats_table(client: "Client", names: Sequence[str], now_ms: int) -> Table:
    """Return how much topics hold, and how much came within the last hour.

    Records are counted by offsets: what compaction and transactions leave out counts, too. Bytes
    are those on disks, of the leaders' replicas and of all.

    Raises:
        QuorateError: A topic does not exist, or nobody answers.
    """
    async with client.admin() as admin:
        wanted = list(names) or [topic.name for topic in await admin.list_topics()]
        told = await admin.describe_topics(wanted) if wanted else {}
        raise_first(told)
        topics = [topic for topic in told.values() if isinstance(topic, TopicDescription)]
        parts = [TopicPartition(t.name, p.partition) for t in topics for p in t.partitions]
        first = await _offsets(admin, parts, OffsetSpec.EARLIEST)
        end = await _offsets(admin, parts, OffsetSpec.LATEST)
        recent = await _offsets(admin, parts, now_ms - HOUR_MS)
        sizes = await admin.describe_log_dirs()
    rows = [_stats_row(topic, first, end, recent, sizes) for topic in topics]
    columns = (
        Column("topic"), Column("partitions"), Column("records"), Column("records_last_hour"),
        Column("bytes"), Column("bytes_all_replicas"), Column("bytes_per_record"),
    )  # fmt: skip
    return Table("topic-stats", columns, tuple(sorted(rows)))


async def _offsets(
    admin: "Admin", partitions: Sequence[TopicPartition], spec: OffsetSpec | int
) -> dict[TopicPartition, int]:
    """Return offsets of partitions that have a leader; -1 where no record is so late."""
    found = await admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}
    return {p: at.offset for p, at in found.items() if not isinstance(at, QuorateError)}


def _stats_row(
    topic: TopicDescription,
    first: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    recent: dict[TopicPartition, int],
    sizes: dict[int, BrokerLogDirs | QuorateError],
) -> tuple[object, ...]:
    records = last_hour = size_bytes = all_bytes = 0
    for told in topic.partitions:
        partition = TopicPartition(topic.name, told.partition)
        if partition in first and partition in end:
            records += end[partition] - first[partition]
            since = recent.get(partition, -1)
            last_hour += end[partition] - since if since >= 0 else 0
        by_broker = {broker: _size_on(sizes.get(broker), partition) for broker in told.replicas}
        size_bytes += by_broker.get(told.leader_id, 0)
        all_bytes += sum(by_broker.values())
    each = round(size_bytes / records) if records else None
    return (
        topic.name, len(topic.partitions), records, last_hour, size_bytes, all_bytes, each,
    )  # fmt: skip


def _size_on(told: BrokerLogDirs | QuorateError | None, partition: TopicPartition) -> int:
    if not isinstance(told, BrokerLogDirs):
        return 0
    found = (log_dir.replicas.get(partition) for log_dir in told.log_dirs)
    return sum(replica.size_bytes for replica in found if replica is not None)
