"""What the file of a controller's Raft log says, told from what a crash or damage left of it."""

from typing import Final

from quorate.control.codec import as_array, load_cbor
from quorate.quorum.raft.journal_file import (
    FILE_NAME,
    Entry,
    JournalDamagedError,
    Record,
    RecordType,
    SnapshotEnd,
    added_entry,
    decode_header,
    record_at,
    records_behind,
    truncation,
)
from quorate.quorum.raft.watermark import Readable, read_watermarks


class Recovery:
    """Replays the file when it is made; changes nothing.

    What it finds need not be durable: bytes that a killed process wrote are seen before they are
    on the disk.
    """

    def __init__(
        self, storage: Readable, snapshot_end: SnapshotEnd | None, *, align: bool = True
    ) -> None:
        """Read the file, up to a torn tail.

        Args:
            storage: where the file is.
            snapshot_end: what the durable snapshot covers, if there is one.
            align: whether to make the log fit the snapshot.

        Raises:
            JournalDamagedError: what is found cannot be the outcome of a crash.
        """
        self.log: list[Entry] = []
        self.term = 0
        self.vote: str | None = None
        self.watermarks: Final = read_watermarks(storage)
        content = storage.read(FILE_NAME)
        self.size_bytes: Final = 0 if content is None else len(content)
        """How large the file is, with a torn tail."""

        self._records_read = 0
        if content is not None:
            self._replay(content)
        elif snapshot_end is not None or self.watermarks:
            _refuse_to_forget(snapshot_end)
        if snapshot_end is not None:
            if align:
                self._align(snapshot_end)
        elif self.log and self.log[0].log_index != 1:
            first = self.log[0].log_index
            raise JournalDamagedError(f"the journal starts at {first}, but there is no snapshot")

    @property
    def _last_index(self) -> int:
        return self.log[-1].log_index if self.log else 0

    def _replay(self, content: bytes) -> None:
        salt, position = decode_header(content)
        while record := record_at(content, position, salt):
            self._replay_record(record)
            self._records_read += 1
            position = record.end
        self._refuse_damage(content, position, salt)

    def _replay_record(self, record: Record) -> None:
        match record.type:
            case RecordType.ENTRY:
                self._replay_entry(added_entry(record.payload))
            case RecordType.TRUNCATE:
                if self.log:
                    del self.log[max(0, truncation(record.payload) - self.log[0].log_index) :]
            case RecordType.TERM:
                self.term, self.vote = as_array(load_cbor(record.payload))
            case RecordType.RESET:
                self.log = []
            case _:
                raise JournalDamagedError(f"unknown record type {record.type} in the journal")

    def _replay_entry(self, entry: Entry) -> None:
        if self.log and entry.log_index != self._last_index + 1:
            raise JournalDamagedError(
                f"the journal has a hole between {self._last_index} and {entry.log_index}"
            )
        self.log.append(entry)

    def _refuse_damage(self, content: bytes, torn_at: int, salt: int) -> None:
        """Refuse a tail that was synced, as a valid record behind it or a watermark says."""
        name = (
            f"the journal's record {self._records_read + 1}, at byte {torn_at}, "
            f"behind entry {self._last_index}"
        )
        if any(record.synced_end > torn_at for record in records_behind(content, torn_at, salt)):
            raise JournalDamagedError(f"{name} is damaged, although it was synced")
        if any(mark.salt == salt and mark.synced_end > torn_at for mark in self.watermarks):
            raise JournalDamagedError(f"{name} is damaged or missing, although it was synced")

    def _align(self, snapshot_end: SnapshotEnd) -> None:
        """Make the log start with the snapshot's last two entries.

        A crash between writing a snapshot and trimming the journal leaves older entries; PySyncObj
        would take that for a mismatch and throw the whole journal away, acknowledged entries too.
        """
        log, last = self.log, snapshot_end.last
        first_index = log[0].log_index if log else 0
        if first_index > last.log_index + 1:
            raise JournalDamagedError(
                f"there is a hole between snapshot {last.log_index} and journal {first_index}"
            )
        held = first_index <= last.log_index <= self._last_index
        if held and log[last.log_index - first_index].term == last.term:
            self.log = [*snapshot_end, *log[last.log_index - first_index + 1 :]]
        elif not held and self._last_index > last.log_index:
            raise JournalDamagedError(f"the journal lacks the snapshot's end {last.log_index}")
        else:
            self.log = list(snapshot_end)


def _refuse_to_forget(snapshot_end: SnapshotEnd | None) -> None:
    # No crash leaves this: both are written only when the journal's file is durable.
    found = "a watermark" if snapshot_end is None else "a snapshot"
    raise JournalDamagedError(
        f"there is {found}, but no journal: without it this controller would forget what it"
        " acknowledged and for whom it voted, and do so again; put the file back, or, if"
        " other controllers have the metadata, let this one join them with an empty"
        " directory"
    )
