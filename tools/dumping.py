"""Prints what is in log files, and what is wrong with them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from quorate.broker.log.files import File
from quorate.broker.log.scan import PlacedBatch
from quorate.errors import KafkaError, QuorateError
from quorate.records.record import Record
from quorate.tools.arguments import GlobalOptions
from quorate.tools.log_files import (
    INDEXES,
    LOG,
    TXN_INDEX,
    aborted_entries,
    base_offset_of,
    batches_of,
    describe_batch,
    describe_marker,
    find_files,
    index_entries,
    marker_of,
    records_of,
    verify_documents,
    verify_segment,
)
from quorate.tools.metadata.decided import Filter
from quorate.tools.metadata.directory import batches_of as decisions_of
from quorate.tools.metadata.directory import controller_folders
from quorate.tools.metadata_reading import Directory, print_records
from quorate.tools.output import Column, Table, bytes_text
from quorate.tools.problems import ProblemFoundError
from quorate.tools.record_text import record_json
from quorate.tools.session import note, print_table, say

BATCH_FIELDS_OF_FEW: Final = frozenset({"producer_id", "producer_epoch", "base_sequence"})
"""What most batches do not have; -1 then."""

_LOG_HINT: Final = "a node that starts on this directory cuts torn tails and rebuilds indexes"
_JOURNAL_HINT: Final = "put the file back, or, if others have the metadata, replace this controller"


def dump(options: GlobalOptions, paths: Sequence[Path], out: TextIO, *, with_records: bool) -> None:
    """Print batches and, if wanted, records; entries of index files.

    Raises:
        ProblemFoundError: a file goes on with something that is no batch.
    """
    as_json = options.format in {"json", "jsonl"}
    problems: list[str] = []
    files = find_files(paths, (LOG,))
    if not files:
        note(options, "no segments yet; --metadata prints what controllers decided")
    for path in files:
        if not as_json:
            out.write(f"{path}\n")
        if path.suffix in INDEXES:
            _dump_index(path, out, as_json=as_json)
            continue
        try:
            lines = _dump_segment(path, with_records=with_records, as_json=as_json)
            out.writelines(line + "\n" for line in lines)
        except KafkaError as error:
            problems.append(f"{path}: {error.message}")
    if problems:
        raise ProblemFoundError(
            problems[0], why="CORRUPT_MESSAGE", hint="quorate log verify says where"
        )


def _dump_segment(path: Path, *, with_records: bool, as_json: bool) -> Iterator[str]:
    for file, batch in batches_of(path):
        yield from batch_lines(path, file, batch, with_records=with_records, as_json=as_json)


def batch_lines(
    path: Path, file: File, batch: PlacedBatch, *, with_records: bool, as_json: bool
) -> Iterator[str]:
    """Yield a line for a batch of a segment, then, if wanted, one for each of its records.

    Raises:
        KafkaError: the records cannot be read.
    """
    fields = describe_batch(batch)
    marker = marker_of(file, batch)
    if marker is not None:
        fields |= describe_marker(marker)
    if as_json:
        yield json.dumps({"kind": "batch", "file": str(path), **fields})
    else:
        yield "batch  " + _fields_text(fields)
    if with_records and marker is None:
        for record in records_of(path, file, batch):
            yield _record_line(record, as_json=as_json)


def _fields_text(fields: dict[str, Any]) -> str:
    shown = (
        (name, value)
        for name, value in fields.items()
        if not (name in BATCH_FIELDS_OF_FEW and value == -1) and value is not False
    )
    return " ".join(f"{name}={value}" for name, value in shown)


def _record_line(record: Record, *, as_json: bool) -> str:
    fields = record_json(record)
    if as_json:
        return json.dumps({"kind": "record", **fields}, ensure_ascii=False)
    headers = f" headers={fields['headers']!r}" if fields["headers"] else ""
    return (
        f"  record offset={record.offset} timestamp_ms={record.timestamp_ms}"
        f" key={fields['key']!r} value={fields['value']!r}{headers}"
    )


def _dump_index(path: Path, out: TextIO, *, as_json: bool) -> None:
    for aborted in aborted_entries(path) if path.suffix == TXN_INDEX else ():
        fields = aborted._asdict()
        out.write((json.dumps(fields) if as_json else "entry  " + _fields_text(fields)) + "\n")
    if path.suffix == TXN_INDEX:
        return
    base_offset = base_offset_of(path)
    for first, second in index_entries(path):
        if path.suffix == ".index":
            entry = {"last_offset": base_offset + first, "position": second}
        else:
            entry = {"timestamp_ms": first, "last_offset": base_offset + second}
        out.write((json.dumps(entry) if as_json else "entry  " + _fields_text(entry)) + "\n")


def dump_metadata(options: GlobalOptions, paths: Sequence[Path], out: TextIO) -> None:
    """Print what controllers decided, one record a line.

    Raises:
        QuorateError: there is no journal, or it is damaged.
    """
    for path in paths:
        print_records(options, Directory(path), Filter(), out, follow=False)


def verify(options: GlobalOptions, paths: Sequence[Path]) -> None:
    """Check segments with their indexes, the documents beside them, and journals of controllers.

    Raises:
        ProblemFoundError: something is not as it should be.
    """
    reports = [verify_segment(path) for path in find_files(paths, (LOG,))]
    decisions, damaged = _verify_journals(paths)
    columns = (
        Column("segment"),
        Column("first_offset"),
        Column("next_offset"),
        Column("batches"),
        Column("records"),
        Column("size_bytes"),
        Column("problems"),
    )
    rows = tuple(
        (str(r.path), r.first_offset, r.next_offset, r.batches, r.records, r.size_bytes,
         list(r.problems) if options.format not in {"table", "wide"} else len(r.problems))
        for r in reports
    )  # fmt: skip
    print_table(options, Table("segments", columns, rows))
    problems = [f"{r.path}: {text}" for r in reports for text in r.problems]
    problems += verify_documents(paths) + damaged
    for text in problems:
        say(options, f"problem: {text}")
    if problems:
        raise ProblemFoundError(
            f"{len(problems)} problem(s) found",
            why=problems[0],
            hint=_JOURNAL_HINT if damaged else _LOG_HINT,
        )
    records, size_bytes = sum(r.records for r in reports), sum(r.size_bytes for r in reports)
    metadata = f", {decisions} records of metadata" if decisions else ""
    say(options, f"{records} records, {bytes_text(size_bytes)}{metadata}: all as it should be")


def _verify_journals(paths: Sequence[Path]) -> tuple[int, list[str]]:
    """Return how many records of metadata stand in journals, and which journals are damaged."""
    decisions = 0
    problems: list[str] = []
    for folder in controller_folders(paths):
        try:
            decisions += sum(len(list(batch.records())) for batch in decisions_of(folder))
        except QuorateError as error:
            problems.append(f"{folder}: {error}")
    return decisions, problems
