"""What controllers decided: the records of a controller's snapshot and journal, read offline."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from quorate.control.codec import DecodeError, load_cbor
from quorate.quorum.directory import SUBDIRECTORY
from quorate.quorum.metadata.codec import decode_image, decode_record
from quorate.quorum.metadata.image import image_records
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.raft.journal import FILE_NAME, Entry, Journal
from quorate.quorum.raft.snapshots import SnapshotStore
from quorate.tools.problems import CommandError

SNAPSHOT_CAUSE: Final = "snapshot"
COMMAND_TYPE_BYTES: Final = 1
"""In front of every command, the Raft library's own mark."""


class ReadOnlyFiles:
    """Files of a folder that are read from disk and written to memory only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or ``None`` if there is no such file."""
        if name in self._written:
            return self._written[name]
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Keep a file's new content in memory."""
        self._written[name] = data

    def write_at(self, name: str, position: int, data: bytes) -> None:
        """Change a file's content in memory."""
        content = self.read(name) or b""
        self._written[name] = content[:position] + data

    def sync(self, name: str) -> None:
        """Do nothing: nothing of it is to last."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """A record, and the index of the log entry that made it a fact."""

    index: int
    record: MetadataRecord

    def fields(self) -> dict[str, Any]:
        """Return the record as an object of JSON."""
        values = {
            field.name: _plain(getattr(self.record, field.name))
            for field in dataclasses.fields(self.record)
        }
        return {"index": self.index, "type": type(self.record).__name__, **values}


def _plain(value: object) -> Any:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {str(k): _plain(v) for k, v in cast("dict[object, object]", value).items()}
        case tuple():
            return [_plain(item) for item in cast("tuple[object, ...]", value)]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def decided_records(path: Path) -> Iterator[Decided]:
    """Yield what a controller's directory holds: first the snapshot's facts, then the journal's.

    The directory is only read, and may be in use.

    Raises:
        CommandError: there is no controller's journal.
        JournalDamagedError, SnapshotDamagedError: what is there is not what was written.
    """
    folder = path.parent if path.is_file() else path
    if not (folder / FILE_NAME).is_file():
        folder /= SUBDIRECTORY
    if not (folder / FILE_NAME).is_file():
        raise CommandError(
            f"{path} has no controller's journal", why="no such file", hint="the node's --dir"
        )
    files = ReadOnlyFiles(folder)
    snapshot = SnapshotStore(files).durable
    after = 0
    if snapshot is not None:
        after = snapshot.end.last.log_index
        for record in image_records(decode_image(snapshot.state), SNAPSHOT_CAUSE, 0):
            yield Decided(after, record)
    end = snapshot.end if snapshot else None
    journal = Journal(files, end, rng=Random(0), retained_entries=0)  # noqa: S311 - a salt that nobody keeps
    for entry in journal.entries:
        if entry.log_index > after:
            yield from _records_of(entry)


def _records_of(entry: Entry) -> Iterator[Decided]:
    """Yield the records of a command; the Raft library's own commands have none."""
    try:
        command = load_cbor(entry.command[COMMAND_TYPE_BYTES:])
    except DecodeError:
        return
    match command:
        case [int(), [*encoded]] if all(isinstance(item, bytes) for item in encoded):
            for item in encoded:
                yield Decided(entry.log_index, decode_record(item))
        case _:
            return
