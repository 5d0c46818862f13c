"""Durable snapshots of the state machine: CBOR and a CRC, replaced atomically."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.control.codec import DecodeError, as_array, dump_cbor, load_cbor
from quorate.errors import QuorateError
from quorate.quorum.raft.journal import Entry, SnapshotEnd

if TYPE_CHECKING:
    from quorate.quorum.raft.storage import Storage

FILE_NAME: Final = "snapshot"
FORMAT: Final = 1
_CRC_BYTES: Final = 4


class SnapshotDamagedError(QuorateError):
    """The snapshot is not what was written; refuse to start."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine's bytes, and how much of the log they stand for."""

    end: SnapshotEnd
    voters: tuple[str, ...]
    state: bytes


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes."""
    end = [list(snapshot.end.previous), list(snapshot.end.last)]
    body = dump_cbor([FORMAT, end, list(snapshot.voters), snapshot.state])
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
        content = as_array(load_cbor(body))
    except DecodeError as error:
        raise SnapshotDamagedError(f"the snapshot cannot be read: {error}") from error
    match content:
        case [1, [previous, last], voters, bytes() as state]:
            end = SnapshotEnd(Entry(*as_array(previous)), Entry(*as_array(last)))
            return Snapshot(end, tuple(as_array(voters)), state)
        case _:
            raise SnapshotDamagedError("the snapshot has an unknown format")


@dataclass(frozen=True, slots=True)
class SnapshotFlush:
    """A snapshot on its way to the disk; ``run`` may block, and may be repeated."""

    storage: "Storage"
    snapshot: Snapshot

    def run(self) -> None:
        """Replace the file durably."""
        self.storage.put(FILE_NAME, encode_snapshot(self.snapshot))


class SnapshotStore:
    """Owns the newest durable snapshot, and one that is being made durable.

    A snapshot is ``taken`` (in memory), flushed, and only then ``finished``: the journal may be
    trimmed after that and not before.
    """

    def __init__(self, storage: "Storage") -> None:
        """Read the durable snapshot, if there is one.

        Raises:
            SnapshotDamagedError: it is not what was written.
        """
        self._storage = storage
        data = storage.read(FILE_NAME)
        self.durable: Snapshot | None = None if data is None else decode_snapshot(data)
        self._taken: Snapshot | None = None
        self._when_durable: Callable[[], None] | None = None

    def take(self, snapshot: Snapshot, when_durable: Callable[[], None]) -> None:
        """Keep a snapshot to be flushed; call back when it is durable."""
        assert self._taken is None, "one snapshot at a time"
        self._taken, self._when_durable = snapshot, when_durable

    def start_flush(self) -> SnapshotFlush | None:
        """Return the work that makes the taken snapshot durable, if there is one."""
        return None if self._taken is None else SnapshotFlush(self._storage, self._taken)

    def finish_flush(self, flush: SnapshotFlush) -> None:
        """Note that a flush has run."""
        assert self._taken is flush.snapshot, "another snapshot was taken meanwhile"
        assert self._when_durable is not None
        self.durable, self._taken = self._taken, None
        self._when_durable()
