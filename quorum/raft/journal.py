"""The durable Raft log of one controller: entries, term and vote, in memory and on their way."""

from typing import TYPE_CHECKING, Final

from quorate.dataclass import dataclass
from quorate.quorum.raft.journal_file import (
    FILE_NAME,
    RESET,
    Content,
    Entry,
    SnapshotEnd,
    encode_header,
    encode_records,
    entry_added,
    term_begun,
    truncated_from,
)
from quorate.quorum.raft.recovery import Recovery
from quorate.quorum.raft.watermark import Watermark

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.storage import Storage

RETAINED_BYTES_MAX: Final = 2**20
"""However many entries are to be retained for slow followers, not more than this much of them."""


@dataclass(frozen=True, slots=True)
class AppendFlush:
    """Records on their way to the end of the file; ``run`` may block, and may be repeated."""

    storage: "Storage"
    position: int
    data: bytes
    watermark: Watermark

    def run(self) -> None:
        """Write and sync."""
        self.storage.write_at(FILE_NAME, self.position, self.data)
        self.storage.sync(FILE_NAME)
        self.watermark.write(self.storage)

    @property
    def end(self) -> int:
        """Where the file ends afterwards."""
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class ReplaceFlush:
    """A new generation on its way to the disk; ``run`` may block, and may be repeated."""

    storage: "Storage"
    data: bytes
    watermark: Watermark

    def run(self) -> None:
        """Replace the file durably."""
        self.storage.put(FILE_NAME, self.data)
        self.watermark.write(self.storage)

    @property
    def end(self) -> int:
        """Where the file ends afterwards."""
        return len(self.data)


Flush = AppendFlush | ReplaceFlush


class Journal:
    """Owns the log in memory and its file.

    The file, once every flush has finished, replays to exactly the log, term and vote in memory.
    After construction the log starts with the snapshot's last two entries, or at index 1, or is
    empty; nothing of it counts as durable before the first flush has finished, which starts a new
    generation.
    """

    def __init__(
        self,
        storage: "Storage",
        snapshot_end: SnapshotEnd | None,
        *,
        rng: "Random",
        retained_entries: int,
        align: bool = True,
    ) -> None:
        """Read the file, up to a torn tail, and write nothing: the disk may be full.

        Args:
            storage: where the file is.
            snapshot_end: what the durable snapshot covers, if there is one.
            rng: draws the salts.
            retained_entries: how many entries behind the snapshot to keep for slow followers.
            align: whether to make the log fit the snapshot.

        Raises:
            JournalDamagedError: what is found cannot be the outcome of a crash.
        """
        self._storage = storage
        self._rng = rng
        self._retained_entries = retained_entries
        found = Recovery(storage, snapshot_end, align=align)
        self._log = found.log
        self._term, self._vote = found.term, found.vote
        self.start_index: Final = snapshot_end.last.log_index if snapshot_end else 1
        self._used_salts: Final = {mark.salt for mark in found.watermarks}
        self._syncs = max([mark.number for mark in found.watermarks], default=0)
        self._salt = 0
        self._end = found.size_bytes
        self._buffer: list[Content] = []
        self._replace_pending = self._term_dirty = True
        self._flushing = False

    # --- the log

    @property
    def entries(self) -> list[Entry]:
        """The log in memory; read only."""
        return self._log

    @property
    def last_index(self) -> int:
        """The index of the last entry; 0 if there is none."""
        return self._log[-1].log_index if self._log else 0

    def entry_at(self, index: int) -> Entry | None:
        """Return the entry of an index, if the log still or already has it."""
        if not self._log:
            return None
        position = index - self._log[0].log_index
        return self._log[position] if 0 <= position < len(self._log) else None

    def batch_from(self, index: int, bytes_max: int) -> list[Entry]:
        """Return entries from an index on: as many as fit, or one that does not."""
        position = index - self._log[0].log_index if self._log else 0
        if position < 0:
            return []
        batch = self._log[position : position + 1]
        size = len(batch[0].command) if batch else 0
        for position_next in range(position + 1, len(self._log)):
            entry = self._log[position_next]
            size += len(entry.command)
            if size > bytes_max:
                break
            batch.append(entry)
        return batch

    def append(self, entry: Entry) -> None:
        """Add the next entry."""
        assert not self._log or entry.log_index == self._log[-1].log_index + 1, (
            "entries are consecutive"
        )
        self._log.append(entry)
        self._buffer.append(entry_added(entry))

    def truncate_from(self, position: int) -> None:
        """Drop the entries from a place in the log on: another leader's log took their place."""
        if position < len(self._log):
            self._buffer.append(truncated_from(self._log[position].log_index))
            del self._log[position:]

    def trim_to(self, position: int) -> None:
        """Drop the entries before a place in the log, save those retained for slow followers.

        A durable snapshot must cover them.
        """
        dropped = position
        retained_bytes = 0
        while dropped > max(0, position - self._retained_entries):
            retained_bytes += len(self._log[dropped - 1].command)
            if retained_bytes > RETAINED_BYTES_MAX:
                break
            dropped -= 1
        if dropped > 0:
            self._log = self._log[dropped:]
            self._replace_pending = True

    def clear(self) -> None:
        """Drop all entries: a snapshot from elsewhere takes their place."""
        self._log = []
        self._buffer.append(RESET)

    # --- term and vote

    @property
    def term(self) -> int:
        """The newest term this controller took part in."""
        return self._term

    @property
    def vote(self) -> str | None:
        """For whom it voted in that term."""
        return self._vote

    def set_term(self, term: int, vote: str | None) -> None:
        """Begin a term, or vote in it."""
        assert term >= self._term, "terms never go back"
        self._term, self._vote = term, vote
        self._term_dirty = True
        self._buffer.append(term_begun(term, vote))

    # --- durability

    @property
    def dirty(self) -> bool:
        """Whether something has changed that no flush has begun to write."""
        return bool(self._buffer) or self._replace_pending

    @property
    def term_dirty(self) -> bool:
        """Whether term or vote are not known to be durable, as long as they are what they are."""
        return self._term_dirty

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return self._end

    def start_flush(self) -> Flush | None:
        """Return the work that makes all changes so far durable, or ``None`` if there are none.

        Its ``run`` may be called in another thread, and again after a ``StorageFullError``; then
        :meth:`finish_flush` must follow before the next flush.
        """
        assert not self._flushing, "one flush at a time"
        if not self.dirty:
            return None
        self._flushing = True
        if self._replace_pending:
            data = self._new_generation()
            return ReplaceFlush(self._storage, data, self._next_watermark(len(data)))
        records, self._buffer = self._buffer, []
        data = encode_records(records, salt=self._salt, position=self._end, synced_end=self._end)
        mark = self._next_watermark(self._end + len(data))
        return AppendFlush(self._storage, self._end, data, mark)

    def _next_watermark(self, synced_end: int) -> Watermark:
        self._syncs += 1
        return Watermark(self._salt, synced_end, self._syncs)

    def finish_flush(self, flush: Flush) -> None:
        """Note that a flush has run: what it carried is durable."""
        assert self._flushing, "no flush was started"
        self._flushing = False
        self._term_dirty = False
        self._end = flush.end

    def _new_generation(self) -> bytes:
        self._salt = next(s for s in iter(self._draw_salt, None) if s not in self._used_salts)
        header = encode_header(self._salt)
        contents = [term_begun(self._term, self._vote), *map(entry_added, self._log)]
        self._buffer = []
        self._replace_pending = False
        return header + encode_records(
            contents, salt=self._salt, position=len(header), synced_end=0
        )

    def _draw_salt(self) -> int:
        return self._rng.getrandbits(64)
