"""Snapshots on their way to followers that are too far behind for the log.

A few chunks are under way at a time.  The receiver says how much it has, so a stream goes on where
it was interrupted, and nothing counts before the whole is there and is what was written.
"""

import zlib
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.quorum.raft.engine import NEVER_S, Engine
from quorate.quorum.raft.messages import (
    SNAPSHOT_CHUNK_BYTES,
    RaftMessage,
    SnapshotAnswer,
    SnapshotChunk,
)
from quorate.quorum.raft.snapshots import (
    SNAPSHOT_BYTES_MAX,
    Snapshot,
    SnapshotDamagedError,
    SnapshotHead,
    decode_snapshot,
)
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from quorate.quorum.raft.snapshots import SnapshotStore

WINDOW_CHUNKS: Final = 8
RESEND_HEARTBEATS: Final = 3
"""Without an answer for so many heartbeats, what was not confirmed is sent again."""


@dataclass(slots=True)
class _Outgoing:
    """A stream to one follower: confirmed up to one byte, sent up to another."""

    head: SnapshotHead
    data: bytes
    confirmed: int = 0
    claimed: int = 0
    """What the follower said last; less than ``confirmed`` if it lost what it had."""
    sent: int = 0
    progress_s: float = NEVER_S


class SnapshotSender:
    """Owns the streams to followers; empty unless this replica leads."""

    def __init__(
        self,
        engine: Engine,
        store: "SnapshotStore",
        heartbeat_s: float,
        send: Callable[[ReplicaKey, RaftMessage], None],
    ) -> None:
        self._engine = engine
        self._store = store
        self._resend_s = RESEND_HEARTBEATS * heartbeat_s
        self._send = send
        self._streams: dict[ReplicaKey, _Outgoing] = {}

    def __contains__(self, key: ReplicaKey) -> bool:
        return key in self._streams

    def keep_going(self, target: ReplicaKey) -> None:
        """Begin a stream, or send again what seems to be lost."""
        stream = self._streams.get(target)
        if stream is None:
            stream = self._streams[target] = self._new_stream()
        if self._engine.now_s - stream.progress_s > self._resend_s:
            stream.progress_s = self._engine.now_s
            stream.sent = stream.confirmed = stream.claimed
            self._fill_window(target, stream)

    def _new_stream(self) -> _Outgoing:
        """Begin with the newest snapshot: behind an older one the log may be gone already."""
        for other in self._streams.values():
            if other.head == self._store.durable:
                return _Outgoing(other.head, other.data)
        return _Outgoing(*self._store.read())

    def receive_answer(self, source: ReplicaKey, answer: SnapshotAnswer) -> None:
        """Go on behind what has arrived."""
        stream = self._streams.get(source)
        if stream is None or not _is_about(stream.head, answer.last_index, answer.last_term):
            return
        stream.claimed = min(answer.received_bytes, len(stream.data))
        if stream.claimed > stream.confirmed:
            stream.progress_s = self._engine.now_s
            stream.confirmed = stream.claimed
            stream.sent = max(stream.sent, stream.confirmed)
            self._fill_window(source, stream)

    def finish(self, key: ReplicaKey) -> bool:
        """Forget a stream; return whether there was one."""
        return self._streams.pop(key, None) is not None

    def clear(self) -> None:
        """Forget all streams: somebody else leads."""
        self._streams.clear()

    def _fill_window(self, target: ReplicaKey, stream: _Outgoing) -> None:
        last = stream.head.end.last
        window_end = stream.confirmed + WINDOW_CHUNKS * SNAPSHOT_CHUNK_BYTES
        while stream.sent < min(window_end, len(stream.data)):
            position = stream.sent
            chunk = stream.data[position : position + SNAPSHOT_CHUNK_BYTES]
            self._send(
                target,
                SnapshotChunk(
                    self._engine.term,
                    last.log_index,
                    last.term,
                    len(stream.data),
                    position,
                    zlib.crc32(chunk),
                    chunk,
                ),
            )
            stream.sent += len(chunk)


def _is_about(head: SnapshotHead, last_index: int, last_term: int) -> bool:
    return (head.end.last.log_index, head.end.last.term) == (last_index, last_term)


class _StreamId(NamedTuple):
    source: ReplicaKey
    last_index: int
    last_term: int
    total_bytes: int


@dataclass(slots=True)
class _Incoming:
    id: _StreamId
    data: bytearray = field(default_factory=bytearray)


class ReceivedSnapshot(NamedTuple):
    """A snapshot that has arrived and is what was written."""

    snapshot: Snapshot
    data: bytes


class SnapshotReceiver:
    """Owns the one snapshot that is arriving."""

    def __init__(self, engine: Engine, send: Callable[[ReplicaKey, RaftMessage], None]) -> None:
        self._engine = engine
        self._send = send
        self._incoming: _Incoming | None = None

    def receive_chunk(self, source: ReplicaKey, chunk: SnapshotChunk) -> ReceivedSnapshot | None:
        """Take a chunk, and confirm it; return the snapshot if it is complete.

        Whoever gets the snapshot answers for it. What is not whole is asked for once more.
        """
        stream_id = _StreamId(source, chunk.last_index, chunk.last_term, chunk.total_bytes)
        if chunk.total_bytes > SNAPSHOT_BYTES_MAX or zlib.crc32(chunk.data) != chunk.crc:
            return None
        incoming = self._incoming
        if incoming is None or incoming.id != stream_id:
            incoming = self._incoming = _Incoming(stream_id)
        if chunk.position == len(incoming.data):
            incoming.data += chunk.data
        if len(incoming.data) < chunk.total_bytes:
            self._confirm(source, chunk, len(incoming.data))
            return None
        received = self._complete(bytes(incoming.data), chunk)
        if received is None:
            self.forget()
            self._confirm(source, chunk, 0)
        return received

    def forget(self) -> None:
        """Let go of what has arrived."""
        self._incoming = None

    def _complete(self, data: bytes, chunk: SnapshotChunk) -> ReceivedSnapshot | None:
        try:
            snapshot = decode_snapshot(data)
        except SnapshotDamagedError:
            return None
        last = snapshot.end.last
        if (last.log_index, last.term) != (chunk.last_index, chunk.last_term):
            return None
        return ReceivedSnapshot(snapshot, data)

    def _confirm(self, target: ReplicaKey, chunk: SnapshotChunk, received_bytes: int) -> None:
        about = chunk.last_index, chunk.last_term
        self._send(target, SnapshotAnswer(self._engine.term, *about, received_bytes))
