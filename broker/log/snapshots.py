"""Producer snapshots: which offsets of a log have one, and which of them are still of use."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from quorate.broker.log.aborted import IndexMark
from quorate.broker.log.documents import CorruptDocumentError
from quorate.broker.log.epochs import LeaderEpochs
from quorate.broker.log.files import FileSystem, read_file
from quorate.broker.log.producers import Origin, ProducerStates, decode_producers

SNAPSHOT_SUFFIX: Final = ".snapshot"
SNAPSHOTS_KEPT: Final = 2


class Snapshot(NamedTuple):
    """A snapshot that is to be written."""

    end_offset: int
    path: str
    data: bytes


class Snapshots:
    """The snapshot files of one log, by the offset they describe the producers at."""

    __slots__ = ("_directory", "_fs", "_offsets", "_topic_id")

    def __init__(
        self, fs: FileSystem, directory: str, topic_id: bytes, offsets: Iterable[int]
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._topic_id = topic_id
        self._offsets = sorted(offsets)

    def take(
        self, producers: ProducerStates, epochs: LeaderEpochs, index_mark: IndexMark
    ) -> Snapshot:
        """Return a snapshot of the producers as they are.

        Args:
            producers: of the log.
            epochs: of the log.
            index_mark: of the index of aborted transactions of the active segment.
        """
        end_offset = producers.end_offset
        data = producers.encode(self._origin_of(end_offset, epochs), index_mark)
        return Snapshot(end_offset, self._path(end_offset), data)

    def load(self, end_offset: int, epochs: LeaderEpochs) -> ProducerStates | None:
        """Return the latest readable snapshot at or before the offset that is of this log."""
        for offset in reversed(self._offsets):
            assert offset <= end_offset, "what was cut off took its snapshots along"
            try:
                states, origin = decode_producers(read_file(self._fs, self._path(offset)))
            except (CorruptDocumentError, OSError):
                continue
            if states.end_offset == offset and origin == self._origin_of(offset, epochs):
                return states
        return None

    def note(self, offset: int) -> None:
        """A snapshot was written; older ones than the last few are removed, now or next time."""
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])
        with suppress(OSError):
            self._remove(self._offsets[:-SNAPSHOTS_KEPT])

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the snapshots behind the offset: they describe what is no longer in the log.

        Raises:
            OSError: of one, which is still there, and maybe others; tried again, it goes on.
        """
        self._remove([offset for offset in self._offsets if offset > end_offset])

    def _origin_of(self, end_offset: int, epochs: LeaderEpochs) -> Origin:
        return Origin(self._topic_id, epochs.epoch_before(end_offset))

    def _remove(self, offsets: Iterable[int]) -> None:
        for offset in list(offsets):
            with suppress(FileNotFoundError):
                self._fs.remove(self._path(offset))
            self._offsets.remove(offset)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
