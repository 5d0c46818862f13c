"""The durable Raft log of one controller: entries, term and vote.

One file of records, each with a CRC, appended to and synced in groups.  Truncations and votes are
records too, so nothing that was synced is ever overwritten.  Every start and every trim writes a
new generation (a new salt) that replaces the file atomically, so that no stale bytes lie behind a
torn tail::

    header  magic 8 | salt u64 | crc32(salt) u32
    record  magic 4 | crc32 u32 | length u32 | synced_end u64 | type u8 | payload

``synced_end`` is how much of the file was known to be durable when the record was written.  It
tells a torn tail (cut off silently: nobody was promised anything) from damage to synced bytes
(refused).  What it cannot tell is whether synced bytes at the very end are gone; for that there is
a second file, :class:`Watermark`.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.control.codec import as_array, dump_cbor, load_cbor
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.quorum.raft.watermark import Watermark, open_watermarks

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.storage import Storage

FILE_NAME: Final = "journal"
RETAINED_BYTES_MAX: Final = 2**20
"""However many entries are to be retained for slow followers, not more than this much of them."""

_FILE_MAGIC: Final = b"QRTJRNL1"
_FILE_HEADER: Final = struct.Struct("<8sQI")
_SALT: Final = struct.Struct("<Q")
_RECORD_MAGIC: Final = b"\xa7QrJ"
_RECORD_HEADER: Final = struct.Struct("<4sIIQB")
_RECORD_IDENTITY: Final = struct.Struct("<QQIQB")
_ENTRY_HEADER: Final = struct.Struct("<QQ")
_INDEX: Final = struct.Struct("<Q")


class _Kind(IntEnum):
    ENTRY = 1
    TRUNCATE = 2
    TERM = 3
    RESET = 4


class JournalDamagedError(QuorateError):
    """Bytes that were promised to be durable are not what was written; refuse to start."""


class Entry(NamedTuple):
    """One entry of the Raft log; a tuple of this order, because PySyncObj unpacks it."""

    command: bytes
    log_index: int
    term: int


class SnapshotEnd(NamedTuple):
    """The last two entries that a snapshot covers; PySyncObj keeps both at the log's start."""

    previous: Entry
    last: Entry


class _Record(NamedTuple):
    type: int
    payload: bytes
    synced_end: int
    end: int


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
    empty.
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
        """Read the file, cut a torn tail, and start a new generation (durably).

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
        self._log: list[Entry] = []
        self._term = 0
        self._vote: str | None = None
        self._buffer: list[tuple[_Kind, bytes]] = []
        self._replace_pending = False
        self._flushing = False
        self._term_dirty = False
        self._records_read = 0
        self._watermarks = open_watermarks(storage)
        self._syncs = max([mark.number for mark in self._watermarks], default=0)
        self._recover(snapshot_end, align=align)
        self.start_index: Final = snapshot_end.last.log_index if snapshot_end else 1
        self._replace_pending = True
        flush = self.start_flush()
        assert flush is not None
        flush.run()
        self.finish_flush(flush)

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
        self._buffer.append((_Kind.ENTRY, _entry_payload(entry)))

    def truncate_from(self, position: int) -> None:
        """Drop the entries from a place in the log on: another leader's log took their place."""
        if position < len(self._log):
            self._buffer.append((_Kind.TRUNCATE, _INDEX.pack(self._log[position].log_index)))
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
        self._buffer.append((_Kind.RESET, b""))

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
        self._buffer.append((_Kind.TERM, dump_cbor([term, vote])))

    # --- durability

    @property
    def dirty(self) -> bool:
        """Whether something has changed that no flush has begun to write."""
        return bool(self._buffer) or self._replace_pending

    @property
    def term_dirty(self) -> bool:
        """Whether term or vote have changed and are not durable yet."""
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
        data = self._encode(records, self._end, self._synced_end)
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
        self._end = self._synced_end = flush.end

    def _new_generation(self) -> bytes:
        used = {mark.salt for mark in self._watermarks}
        self._salt = next(s for s in iter(self._draw_salt, None) if s not in used)
        salt = _SALT.pack(self._salt)
        header = _FILE_HEADER.pack(_FILE_MAGIC, self._salt, zlib.crc32(salt))
        records = [(_Kind.TERM, dump_cbor([self._term, self._vote]))]
        records += [(_Kind.ENTRY, _entry_payload(entry)) for entry in self._log]
        self._buffer = []
        self._replace_pending = False
        return header + self._encode(records, len(header), 0)

    def _draw_salt(self) -> int:
        return self._rng.getrandbits(64)

    def _encode(self, records: list[tuple[_Kind, bytes]], position: int, synced_end: int) -> bytes:
        """Return records as they stand at a position of the file."""
        parts: list[bytes] = []
        for record_type, payload in records:
            crc = self._crc(position, synced_end, record_type, payload)
            header = _RECORD_HEADER.pack(_RECORD_MAGIC, crc, len(payload), synced_end, record_type)
            parts += (header, payload)
            position += len(header) + len(payload)
        return b"".join(parts)

    def _crc(self, position: int, synced_end: int, record_type: int, payload: bytes) -> int:
        identity = _RECORD_IDENTITY.pack(
            self._salt, position, len(payload), synced_end, record_type
        )
        return zlib.crc32(payload, zlib.crc32(identity))

    # --- recovery

    def _recover(self, snapshot_end: SnapshotEnd | None, *, align: bool) -> None:
        content = self._storage.read(FILE_NAME)
        if content is not None:
            self._replay(content)
        elif snapshot_end is not None or self._watermarks:
            # No crash leaves this: both are written only when the journal's file is durable.
            found = "a watermark" if snapshot_end is None else "a snapshot"
            raise JournalDamagedError(
                f"there is {found}, but no journal: without it this controller would forget what it"
                " acknowledged and for whom it voted, and do so again; put the file back, or, if"
                " other controllers have the metadata, let this one join them with an empty"
                " directory"
            )
        if snapshot_end is not None:
            if align:
                self._align(snapshot_end)
        elif self._log and self._log[0].log_index != 1:
            first = self._log[0].log_index
            raise JournalDamagedError(f"the journal starts at {first}, but there is no snapshot")

    def _replay(self, content: bytes) -> None:
        position = self._read_header(content)
        while record := self._record_at(content, position):
            self._replay_record(record)
            self._records_read += 1
            position = record.end
        self._refuse_damage(content, position)
        for mark in self._watermarks:
            if mark.salt == self._salt and mark.synced_end > position:
                raise JournalDamagedError(
                    f"{self._record_name(position)} is damaged or missing, although it was synced"
                )

    def _record_name(self, position: int) -> str:
        """Return words for the record at a position behind those that could be read."""
        return (
            f"the journal's record {self._records_read + 1}, at byte {position}, "
            f"behind entry {self.last_index}"
        )

    def _read_header(self, content: bytes) -> int:
        if len(content) < _FILE_HEADER.size:
            raise JournalDamagedError("the journal has no header")
        magic, salt, crc = _FILE_HEADER.unpack_from(content)
        if magic != _FILE_MAGIC or crc != zlib.crc32(_SALT.pack(salt)):
            raise JournalDamagedError("the journal's header is damaged, or not one")
        self._salt = salt
        return _FILE_HEADER.size

    def _record_at(self, content: bytes, position: int) -> _Record | None:
        """Return the record at a position, or ``None`` if there is no valid one."""
        start = position + _RECORD_HEADER.size
        if start > len(content):
            return None
        magic, crc, length, synced_end, record_type = _RECORD_HEADER.unpack_from(content, position)
        end = start + length
        if magic != _RECORD_MAGIC or end > len(content):
            return None
        payload = content[start:end]
        if crc != self._crc(position, synced_end, record_type, payload):
            return None
        return _Record(record_type, payload, synced_end, end)

    def _replay_record(self, record: _Record) -> None:
        match record.type:
            case _Kind.ENTRY:
                self._replay_entry(record.payload)
            case _Kind.TRUNCATE:
                (index,) = _INDEX.unpack(record.payload)
                if self._log:
                    del self._log[max(0, index - self._log[0].log_index) :]
            case _Kind.TERM:
                self._term, self._vote = as_array(load_cbor(record.payload))
            case _Kind.RESET:
                self._log = []
            case _:
                raise JournalDamagedError(f"unknown record type {record.type} in the journal")

    def _replay_entry(self, payload: bytes) -> None:
        index, term = _ENTRY_HEADER.unpack_from(payload)
        if self._log and index != self._log[-1].log_index + 1:
            last = self._log[-1].log_index
            raise JournalDamagedError(f"the journal has a hole between {last} and {index}")
        self._log.append(Entry(payload[_ENTRY_HEADER.size :], index, term))

    def _refuse_damage(self, content: bytes, torn_at: int) -> None:
        """Refuse a tail behind which something valid lies that was written after it was synced."""
        position = content.find(_RECORD_MAGIC, torn_at + 1)
        while position >= 0:
            record = self._record_at(content, position)
            if record is not None and record.synced_end > torn_at:
                raise JournalDamagedError(
                    f"{self._record_name(torn_at)} is damaged, although it was synced"
                )
            position = content.find(_RECORD_MAGIC, position + 1)

    def _align(self, snapshot_end: SnapshotEnd) -> None:
        """Make the log start with the snapshot's last two entries.

        A crash between writing a snapshot and trimming the journal leaves older entries; PySyncObj
        would take that for a mismatch and throw the whole journal away, acknowledged entries too.
        """
        log, last = self._log, snapshot_end.last
        if log and log[0].log_index > last.log_index + 1:
            raise JournalDamagedError(
                f"there is a hole between snapshot {last.log_index} and journal {log[0].log_index}"
            )
        held = self.entry_at(last.log_index)
        if held is not None and held.term == last.term:
            self._log = [*snapshot_end, *log[last.log_index - log[0].log_index + 1 :]]
        elif held is None and log and log[-1].log_index > last.log_index:
            raise JournalDamagedError(f"the journal lacks the snapshot's end {last.log_index}")
        else:
            self._log = list(snapshot_end)


def _entry_payload(entry: Entry) -> bytes:
    return _ENTRY_HEADER.pack(entry.log_index, entry.term) + entry.command
