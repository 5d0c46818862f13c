"""Log files read without a broker: what is in them, and whether it is as it should be."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from quorate.broker.log.aborted import unpack_aborted
from quorate.broker.log.directory import META_NAME
from quorate.broker.log.documents import CorruptDocumentError, decode_document
from quorate.broker.log.files import File, OsFileSystem
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from quorate.broker.log.naming import name_before
from quorate.broker.log.scan import PlacedBatch, crc_in_file, scan_headers
from quorate.broker.log.transactions import AbortedTransaction
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError, InvalidRecordError, KafkaError
from quorate.model import TopicPartition
from quorate.records.batch import COMPRESSION_MASK, BatchHeader
from quorate.records.compression import Codec
from quorate.records.control import MARKER_BYTES_MAX, EndMarker, find_end_marker
from quorate.records.record import Record, read_records
from quorate.tools.problems import CommandError

LOG: Final = ".log"
TXN_INDEX: Final = ".txnindex"
INDEXES: Final = (".index", ".timeindex", TXN_INDEX)
NAME_DIGITS: Final = 20
RECORD_BYTES_MAX: Final = 1 << 30
"""What the records of one batch may take once decompressed."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What was found in one segment; ``problems`` in the order of their places."""

    path: Path
    first_offset: int
    next_offset: int
    batches: int
    records: int
    size_bytes: int
    problems: tuple[str, ...]


def find_files(paths: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """Return the files with these suffixes among the paths and in the folders below them.

    Raises:
        CommandError: a path does not exist, or nothing is there, and none is a data directory:
            that may well have no records yet.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path} does not exist", why="no such file", hint="check the path")
        found += _files_below(path, suffixes) if path.is_dir() else [path]
    if not found and not any((path / META_NAME).exists() for path in paths):
        raise CommandError(
            f"there is no {' or '.join(suffixes)} file in {', '.join(map(str, paths))}",
            why="a partition's files are in DATA_DIRECTORY/TOPIC-PARTITION/",
            hint="quorate log verify .quorate",
        )
    return found


def _files_below(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in suffixes and p.stem.isdecimal())


def topic_partition_of(path: Path) -> TopicPartition:
    """Return which partition a segment belongs to, from the name of its folder."""
    topic, _, partition = name_before(path.absolute().parent.name).rpartition("-")
    return TopicPartition(topic, int(partition) if partition.isdecimal() else 0)


def batches_of(path: Path) -> Iterator[tuple[File, PlacedBatch]]:
    """Yield the batches of a segment's file.

    Raises:
        KafkaError: what comes next is no batch.
        CommandError: the file cannot be read.
    """
    try:
        file = OsFileSystem().open(str(path), create=False)
    except OSError as error:
        raise CommandError(
            f"cannot read {path}", why=error.strerror or str(error), hint="check its permissions"
        ) from None
    for batch in scan_headers(file, 0, file.size_bytes()):
        yield file, batch


def records_of(path: Path, file: File, batch: PlacedBatch) -> list[Record]:
    """Return the records of a batch.

    Raises:
        KafkaError: they cannot be read.
    """
    data = file.read_at(batch.header.size_bytes, batch.position)
    return read_records(data, batch.header, topic_partition_of(path), bytes_max=RECORD_BYTES_MAX)


def describe_batch(batch: PlacedBatch) -> dict[str, Any]:
    """Return what a batch's header says, by name."""
    header = batch.header
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": batch.position,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "codec": codec_text(header),
        "max_timestamp_ms": header.max_timestamp_ms,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def marker_of(file: File, batch: PlacedBatch) -> EndMarker | None:
    """Return how a transaction ended, if it is a control batch that says so."""
    header = batch.header
    if not header.is_control:
        return None
    size_bytes = min(header.size_bytes, MARKER_BYTES_MAX)
    return find_end_marker(file.read_at(size_bytes, batch.position), header)


def describe_marker(marker: EndMarker) -> dict[str, Any]:
    """Return what a control batch says."""
    return {
        "marker": "COMMIT" if marker.committed else "ABORT",
        "coordinator_epoch": marker.coordinator_epoch,
    }


def codec_text(header: BatchHeader) -> str:
    """Return the name of a batch's codec, or its number if there is none."""
    number = header.attributes & COMPRESSION_MASK
    return Codec(number).name.lower() if number in set(Codec) else str(number)


def base_offset_of(path: Path) -> int:
    """Return the offset that the name of a segment, or of an index, is.

    Raises:
        CommandError: it is none.
    """
    if not path.stem.isascii() or not path.stem.isdecimal() or len(path.stem) > NAME_DIGITS:
        raise CommandError(
            f"{path} has another name than a segment",
            why="that is the offset of its first record, by which the others are checked",
            hint=f"name it as it was, such as {0:0{NAME_DIGITS}d}{path.suffix}",
        )
    return int(path.stem)


def verify_segment(path: Path) -> SegmentReport:
    """Read a segment whole: checksums, offsets, records, and what its indexes point to.

    Raises:
        CommandError: it cannot be read at all.
    """
    base_offset = base_offset_of(path)
    problems: list[str] = []
    places: dict[int, int] = {}
    aborts: dict[int, int] = {}
    next_offset, batches, records, end = base_offset, 0, 0, 0
    unread = sys.maxsize
    try:
        for file, batch in batches_of(path):
            header = batch.header
            problems += _batch_problems(path, file, batch, next_offset)
            places[batch.position] = header.last_offset
            marker = marker_of(file, batch)
            if marker is not None and not marker.committed:
                aborts[header.base_offset] = header.producer_id
            next_offset = header.next_offset
            batches += 1
            records += header.record_count
            end = batch.position + header.size_bytes
    except (CorruptRecordError, InvalidRecordError) as error:
        unread = next_offset
        torn_bytes = path.stat().st_size - end
        problems.append(f"no batch at byte {end} ({torn_bytes} bytes follow): {error.message}")
    # What stands behind a tear was not read: that it is not there says nothing new.
    problems += _index_problems(path, base_offset, places, unread)
    problems += _txn_index_problems(path, aborts, unread)
    size_bytes = path.stat().st_size
    return SegmentReport(
        path, base_offset, next_offset, batches, records, size_bytes, tuple(problems)
    )


def _batch_problems(path: Path, file: File, batch: PlacedBatch, next_offset: int) -> list[str]:
    header = batch.header
    where = f"batch at byte {batch.position} (offset {header.base_offset})"
    problems: list[str] = []
    if header.base_offset < next_offset:
        problems.append(f"{where}: offset {next_offset} was to be next")
    if crc_in_file(file, batch) != header.crc:
        return [*problems, f"{where}: the checksum does not match"]
    try:
        found = records_of(path, file, batch)
    except KafkaError as error:
        return [*problems, f"{where}: {error.message}"]
    if len(found) != header.record_count:
        problems.append(f"{where}: {len(found)} records instead of {header.record_count}")
    return problems


def _index_problems(
    path: Path, base_offset: int, places: dict[int, int], unread: int
) -> Iterator[str]:
    """Check that indexes grow and point at batches that are there, below the offset ``unread``."""
    for relative, position in _entries(path.with_suffix(".index"), OFFSET_ENTRY):
        if base_offset + relative >= unread:
            break
        if places.get(position) != base_offset + relative:
            yield f"offset index: no batch with last offset {base_offset + relative} at {position}"
    last_offsets = set(places.values())
    before_ms = -1
    for timestamp_ms, relative in _entries(path.with_suffix(".timeindex"), TIME_ENTRY):
        if base_offset + relative >= unread:
            break
        if base_offset + relative not in last_offsets:
            yield f"time index: no batch ends at offset {base_offset + relative}"
        if timestamp_ms < before_ms:
            yield f"time index: {timestamp_ms} comes after {before_ms}"
        before_ms = timestamp_ms


def _txn_index_problems(path: Path, aborts: dict[int, int], unread: int) -> Iterator[str]:
    """Check that the index of aborted transactions grows and names markers that are there."""
    before = -1
    for aborted in aborted_entries(path.with_suffix(TXN_INDEX)):
        offset = aborted.last_offset
        if offset >= unread:
            break
        if aborts.get(offset) != aborted.producer_id:
            yield f"transaction index: no ABORT of producer {aborted.producer_id} at {offset}"
        if not aborted.first_offset < offset or offset <= before:
            yield f"transaction index: {aborted.first_offset} to {offset} after {before}"
        before = offset


def aborted_entries(path: Path) -> list[AbortedTransaction]:
    """Return the entries of an index of aborted transactions; most segments have none."""
    return unpack_aborted(path.read_bytes()) if path.exists() else []


def _entries(path: Path, entry: Any) -> Iterator[tuple[int, int]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    yield from entry.iter_unpack(data[: len(data) // entry.size * entry.size])


def index_entries(path: Path) -> list[tuple[int, int]]:
    """Return the entries of an index file, as they are in it."""
    return list(_entries(path, OFFSET_ENTRY if path.suffix == ".index" else TIME_ENTRY))


def verify_documents(paths: Sequence[Path]) -> list[str]:
    """Return what is wrong with the small JSON files beside the logs."""
    problems: list[str] = []
    for folder in (p for p in paths if p.is_dir()):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in {LOG, *INDEXES} and path.name != "journal":
                problem = _document_problem(path)
                if problem:
                    problems.append(f"{path}: {problem}")
    return problems


def _document_problem(path: Path) -> str | None:
    data = path.read_bytes()
    if not data.startswith(b'{"kind"'):
        return None
    try:
        document = json.loads(data)
        decode_document(data, document["kind"], document["version"])
    except (ValueError, KeyError, TypeError):
        return "not a document"
    except CorruptDocumentError as error:
        return str(error)
    return None
