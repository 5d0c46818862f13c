"""LeaderEpochs: which epoch began at which offset; answers where two histories diverge."""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any, Final, NamedTuple

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, replace_file
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET

FILE_NAME: Final = "leader-epochs"
KIND: Final = "leader-epochs"
VERSION: Final = 1


class EpochStart(NamedTuple):
    """The first offset that a leader of this epoch wrote (or would have written)."""

    leader_epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The offset behind the last record of an epoch; both fields are -1 if nothing is known."""

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END: Final = EpochEnd(UNKNOWN_EPOCH, UNKNOWN_OFFSET)


class LeaderEpochs:
    """Epochs and their start offsets, in a file beside the segments (Kafka: LeaderEpochFileCache).

    Invariants: epochs and start offsets both increase.  The file is ahead of the log at its end: an
    epoch is durable before the first batch that carries it is written, so recovery can tell a
    damaged epoch in a header from a real one.  It is behind at the log's start: epochs of deleted
    records stay in it until that deletion is known to be durable, because a crash may bring the
    records back.
    """

    __slots__ = (
        "_entries",
        "_fs",
        "_in_file",
        "_path",
        "_start_offset",
        "_written",
        "latest_epoch",
    )

    def __init__(self, fs: FileSystem, path: str, written: list[EpochStart]) -> None:
        self._fs = fs
        self._path = path
        self._written = written
        self._in_file = True
        self._start_offset = 0
        self._entries: list[EpochStart] = []
        self.latest_epoch = UNKNOWN_EPOCH
        self._look()

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """The epochs of the records that are in the log, oldest first."""
        return tuple(self._entries)

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Note durably that the epoch begins at the offset; older epochs and repeats are ignored.

        Raises:
            OSError: it could not be written; then nothing changed.
        """
        if leader_epoch <= self.latest_epoch:
            return
        # An epoch that wrote nothing ends where the next begins: it is as if it had not been.
        kept = [entry for entry in self._written if entry.start_offset < start_offset]
        self.replace([*kept, EpochStart(leader_epoch, start_offset)])

    def begin(self, leader_epoch: int) -> None:
        """Note the epoch of a new log's first record; until ``write_out`` its birth says it."""
        self._written = [EpochStart(leader_epoch, 0)]
        self._in_file = False
        self._look()

    def write_out(self) -> str | None:
        """Write a new log's first epoch to the file, not yet durably; return its path if so.

        Raises:
            OSError: it could not be written.
        """
        if self._in_file:
            return None
        document = encode_document(KIND, VERSION, self._written)
        self._fs.open(self._path, create=True).write_at(document, 0)
        self._in_file = True
        return self._path

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the leader that wrote the offset, or UNKNOWN_EPOCH."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[found - 1].leader_epoch if found else UNKNOWN_EPOCH

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the last record below the offset, or UNKNOWN_EPOCH.

        Of a log whose records are all deleted, it is the one that they end in.
        """
        return self.epoch_for(max(offset - 1, self._start_offset))

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest epoch at most the one asked for, and where it ends in this log."""
        if leader_epoch == UNKNOWN_EPOCH:
            return UNDEFINED_EPOCH_END
        if leader_epoch == self.latest_epoch:
            return EpochEnd(leader_epoch, log_end_offset)
        above = bisect_right(self._entries, leader_epoch, key=lambda entry: entry.leader_epoch)
        if above == len(self._entries):
            return UNDEFINED_EPOCH_END
        end_offset = self._entries[above].start_offset
        if above == 0:
            return EpochEnd(leader_epoch, end_offset)
        return EpochEnd(self._entries[above - 1].leader_epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget, durably, the epochs that begin at or behind the offset."""
        found = bisect_left(self._written, end_offset, key=lambda entry: entry.start_offset)
        if found < len(self._written):
            self.replace(self._written[:found])

    def forget_from(self, end_offset: int) -> None:
        """Forget the epochs that begin at or behind the offset; ``truncate_from_end`` must follow.

        The file goes on having them until then.
        """
        found = bisect_left(self._entries, end_offset, key=lambda entry: entry.start_offset)
        del self._entries[found:]
        self.latest_epoch = self._entries[-1].leader_epoch if self._entries else UNKNOWN_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end at or before the offset; the one it is in begins there."""
        self._start_offset = start_offset
        self._look()

    def forget_deleted(self) -> None:
        """Forget durably, too, what ``truncate_from_start`` did."""
        if self._entries != self._written:
            self.replace(self._entries)

    def replace(self, entries: list[EpochStart]) -> None:
        """Put other epochs in the place of all, durably and in one step."""
        replace_file(self._fs, self._path, encode_document(KIND, VERSION, entries))
        self._written = entries
        self._in_file = True
        self._look()

    def _look(self) -> None:
        """Work out the epochs from the log's start on."""
        start_offset = self._start_offset
        found = bisect_right(self._written, start_offset, key=lambda entry: entry.start_offset)
        self._entries = self._written[found:]
        if found:
            begins = EpochStart(self._written[found - 1].leader_epoch, start_offset)
            self._entries.insert(0, begins)
        self.latest_epoch = self._entries[-1].leader_epoch if self._entries else UNKNOWN_EPOCH


def load_epochs(fs: FileSystem, path: str) -> LeaderEpochs:
    """Read the epochs of a log.

    Raises:
        CorruptDocumentError: the file is damaged; the epochs must be read from the log.
    """
    if not fs.exists(path):
        return LeaderEpochs(fs, path, [])
    body: Any = read_document(fs, path, KIND, VERSION)
    entries = [EpochStart(int(epoch), int(start)) for epoch, start in body]
    for before, after in pairwise(entries):
        if not (
            before.leader_epoch < after.leader_epoch and before.start_offset < after.start_offset
        ):
            raise CorruptDocumentError(f"{path}: epochs out of order")
    return LeaderEpochs(fs, path, entries)
