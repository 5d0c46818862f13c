"""Durable snapshots of the state machine: CBOR and a CRC, replaced atomically."""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.control.codec import DecodeError, as_array, dump_cbor, load_cbor
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.voters import VoterSet, decode_voters, encode_voters

if TYPE_CHECKING:
    from quorate.quorum.raft.storage import Storage

FILE_NAME: Final = "snapshot"
FORMAT: Final = 2
SNAPSHOT_BYTES_MAX: Final = 2**30
_CRC_BYTES: Final = 4


class SnapshotDamagedError(QuorateError):
    """The snapshot is not what was written; refuse to start."""


class Configuration(NamedTuple):
    """The voter set that a log says since an index; 0 for the bootstrap set, which no log says."""

    log_index: int
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine's bytes, how much of the log they stand for, and who voted then."""

    end: SnapshotEnd
    configuration: Configuration
    state: bytes


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes."""
    end = [list(snapshot.end.previous), list(snapshot.end.last)]
    since, voters = snapshot.configuration
    body = dump_cbor([FORMAT, end, [since, encode_voters(voters)], snapshot.state])
    return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")


def decode_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot of some bytes.

    Raises:
        SnapshotDamagedError: the CRC is wrong, or the content is of another format.
    """
    body, crc = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "little")
    if zlib.crc32(body) != crc:
        raise SnapshotDamagedError("the snapshot's checksum is wrong")
    try:
        match as_array(load_cbor(body)):
            case [2, [previous, last], [int() as since, voters], bytes() as state]:
                end = SnapshotEnd(_entry(previous), _entry(last))
                return Snapshot(end, Configuration(since, decode_voters(voters)), state)
            case _:
                raise SnapshotDamagedError("the snapshot has an unknown format")
    except DecodeError as error:
        raise SnapshotDamagedError(f"the snapshot cannot be read: {error}") from error


def _entry(value: Any) -> Entry:
    match value:
        case [bytes() as command, int() as log_index, int() as term]:
            return Entry(command, log_index, term)
        case _:
            raise DecodeError("expected [command, index, term]")


class SnapshotHead(NamedTuple):
    """A durable snapshot without its state."""

    end: SnapshotEnd
    configuration: Configuration
    size_bytes: int


@dataclass(slots=True)
class SnapshotFlush:
    """A snapshot of this node's own state on its way to the disk; ``run`` may be repeated."""

    storage: "Storage"
    end: SnapshotEnd
    configuration: Configuration
    frozen: Callable[[], bytes]
    data: bytes = b""

    def run(self) -> None:
        """Encode the state, and replace the file durably."""
        if not self.data:
            self.data = encode_snapshot(Snapshot(self.end, self.configuration, self.frozen()))
        self.storage.put(FILE_NAME, self.data)


@dataclass(slots=True)
class InstallFlush:
    """A leader's snapshot on its way to the disk and to the state; ``run`` may be repeated."""

    storage: "Storage"
    snapshot: Snapshot
    data: bytes
    prepare: Callable[[bytes], Callable[[], None]]
    prepared: Callable[[], None] | None = None

    def run(self) -> None:
        """Decode the state, and replace the file durably."""
        if self.prepared is None:
            self.prepared = self.prepare(self.snapshot.state)
        self.storage.put(FILE_NAME, self.data)

    def take_over(self) -> None:
        """Let the state machine have the state."""
        assert self.prepared is not None, "the flush has run"
        self.prepared()


class SnapshotStore:
    """Owns the newest durable snapshot, and one that is being made durable.

    A snapshot is ``taken`` (in memory), flushed, and only then ``finished``: the journal may be
    trimmed after that and not before.  While one is being written, no other is.
    """

    def __init__(self, storage: "Storage") -> None:
        """Read the durable snapshot, if there is one.

        Raises:
            SnapshotDamagedError: it is not what was written.
        """
        self._storage = storage
        data = storage.read(FILE_NAME)
        self.found: Snapshot | None = None if data is None else decode_snapshot(data)
        """What the node starts from; set to ``None`` once it is loaded, to free the memory."""
        self.durable: SnapshotHead | None = None
        if data is not None and self.found is not None:
            self.durable = _head(self.found, data)
        self._taken: SnapshotFlush | None = None
        self._writing = False

    @property
    def busy(self) -> bool:
        """Whether a snapshot of this node's own state is being written."""
        return self._writing

    @property
    def pending(self) -> bool:
        """Whether a snapshot of this node's own state is taken, but not durable."""
        return self._taken is not None

    def read(self) -> tuple[SnapshotHead, bytes]:
        """Return the snapshot that is on the disk, to be sent to a follower.

        Raises:
            SnapshotDamagedError: it is not what was written.
        """
        data = self._storage.read(FILE_NAME)
        assert data is not None, "logs are trimmed behind snapshots only"
        return _head(decode_snapshot(data), data), data

    # --- a snapshot of this node's own state

    def take(
        self, end: SnapshotEnd, configuration: Configuration, frozen: Callable[[], bytes]
    ) -> None:
        """Keep a snapshot to be written."""
        assert self._taken is None, "one snapshot at a time"
        self._taken = SnapshotFlush(self._storage, end, configuration, frozen)

    def start_flush(self) -> SnapshotFlush | None:
        """Return the work that makes the taken snapshot durable, if it has not begun."""
        if self._taken is None or self._writing:
            return None
        self._writing = True
        return self._taken

    def finish_flush(self, flush: SnapshotFlush) -> None:
        """Note that a flush has run."""
        assert self._taken is flush, "one snapshot at a time"
        self.durable = SnapshotHead(flush.end, flush.configuration, len(flush.data))
        self._taken, self._writing = None, False

    # --- a snapshot of the leader's

    def start_install(
        self, snapshot: Snapshot, data: bytes, prepare: Callable[[bytes], Callable[[], None]]
    ) -> InstallFlush:
        """Return the work that makes it durable; a snapshot that was only taken is forgotten."""
        assert not self._writing, "one file, one writer"
        self._taken = None
        return InstallFlush(self._storage, snapshot, data, prepare)

    def finish_install(self, flush: InstallFlush) -> None:
        """Note that the flush has run."""
        self.durable = _head(flush.snapshot, flush.data)


def _head(snapshot: Snapshot, data: bytes) -> SnapshotHead:
    return SnapshotHead(snapshot.end, snapshot.configuration, len(data))
