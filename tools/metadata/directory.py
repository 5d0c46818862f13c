"""What a controller's directory holds: read only, whether the controller runs or not."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from quorate.quorum.directory import SUBDIRECTORY
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.machine import decode_command
from quorate.quorum.metadata.snapshot import decode_image
from quorate.quorum.raft.configurations import decode_voters_entry
from quorate.quorum.raft.engine import REGULAR, VOTERS
from quorate.quorum.raft.journal_file import FILE_NAME, Entry, JournalDamagedError
from quorate.quorum.raft.recovery import Recovery
from quorate.quorum.raft.snapshots import FILE_NAME as SNAPSHOT
from quorate.quorum.raft.snapshots import decode_snapshot
from quorate.quorum.raft.watermark import FILE_NAME as WATERMARK
from quorate.tools.metadata.decided import Batch, VotersChanged
from quorate.tools.problems import CommandError

TRIES: Final = 5


class ReadOnlyFiles:
    """Files of a folder, each as it was when it was first read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._content: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or ``None`` if there is no such file."""
        if name not in self._content:
            try:
                self._content[name] = (self._folder / name).read_bytes()
            except FileNotFoundError:
                return None
        return self._content[name]


def controller_folder(path: Path) -> Path:
    """Return the folder with the journal: the path itself, the file's, or one inside it.

    In the directory of a cluster it is that of the controller that wrote last.

    Raises:
        CommandError: there is none.
    """
    folder = path.parent if path.is_file() else path
    for candidate in (folder, folder / SUBDIRECTORY):
        if (candidate / FILE_NAME).is_file():
            return candidate
    journals = [*folder.glob(f"*/{FILE_NAME}"), *folder.glob(f"*/{SUBDIRECTORY}/{FILE_NAME}")]
    if journals:
        return max(journals, key=lambda journal: journal.stat().st_mtime_ns).parent
    raise CommandError(
        f"{path} has no controller's journal",
        why="no such file",
        hint="the --dir of a controller, or of a cluster that quorate up made",
    )


def controller_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders with a journal among the paths and below them."""
    return sorted({journal.parent for path in paths for journal in path.rglob(FILE_NAME)})


def batches_of(folder: Path) -> Iterator[Batch]:
    """Yield the snapshot, if there is one, and the batches that the journal has after it.

    The last entries of a journal may not be committed: a directory alone does not tell.

    Raises:
        JournalDamagedError, SnapshotDamagedError: what is there is not what was written.
    """
    snapshot, entries = _consistent(folder)
    version = 0
    if snapshot is not None:
        version = snapshot.offset
        yield snapshot
    for entry in entries:
        batch = _batch_of(entry, version)
        if batch is not None:
            if batch.voters is None:
                version = batch.offset
            yield batch


def _consistent(folder: Path) -> tuple[Batch | None, list[Entry]]:
    """Read snapshot and journal, again if a running controller replaced one of them meanwhile."""
    for tries_left in reversed(range(TRIES)):
        files = ReadOnlyFiles(folder)
        files.read(WATERMARK)  # before the journal, which it must not be ahead of
        data = files.read(SNAPSHOT)
        snapshot = None if data is None else decode_snapshot(data)
        end = snapshot.end if snapshot else None
        try:
            entries = Recovery(files, end).log
        except JournalDamagedError:
            if not tries_left:
                raise
            continue
        if snapshot is None:
            return None, entries
        last = snapshot.end.last
        image = decode_image(snapshot.state)
        later = [entry for entry in entries if entry.log_index > last.log_index]
        return Batch(image.version, last.term, image=image), later
    raise AssertionError("the last try returns or raises")


def _batch_of(entry: Entry, version: int) -> Batch | None:
    """Return what an entry changes; nothing if it was decided on another version than that."""
    if entry.command[:1] == VOTERS:
        voters = {str(v.key): v.endpoint for v in decode_voters_entry(entry).voters}
        change = VotersChanged("the voters changed", voters)
        return Batch(entry.log_index, entry.term, voters=change)
    if entry.command[:1] != REGULAR:
        return None
    expected_version, records = decode_command(entry.command[len(REGULAR) :])
    if expected_version != version:
        return None
    return Batch(entry.log_index, entry.term, tuple(decode_batch(records)))
