"""Frames off a byte stream: large ones are received straight to where they stay."""

import os
from collections import deque
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import Final

import trio

from quorate.protocol.frames import SIZE_BYTES, FrameBuffer

RECEIVE_BYTES: Final = 64 * 1024
TURN_BYTES: Final = 1024 * 1024
"""So much may be received before others get their turn. Of a large frame so much, or all that it
lacks, is waited for at once: to wake up for a part of it costs more than to copy it."""

LARGE_BYTES: Final = 128 * 1024
"""A frame that is as large, and does not come whole, is received into memory of its own."""

KEPT: Final = 4
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""So many large frames, each of so many bytes at most, are kept to be filled again.

Memory that a process gets anew costs more than all that is done with the bytes in it.
"""

ROUNDED_TO_BYTES: Final = 256 * 1024

HINT_BYTES: Final = 4 * 1024 * 1024
"""glibc gives memory at the end of its heap back to the system, unless it has seen a larger block
come and go: then it keeps up to twice as much as that (mallopt(3), M_TRIM_THRESHOLD)."""


class FrameReader:
    """Reads one frame after the other; being cancelled loses nothing of them.

    State: the frame that is being received, and those that were given out last. One of the latter
    is filled again when nobody has a view into it any more: so whoever keeps bytes of a frame has
    to keep a memoryview, or a copy. After a large frame another one like it is expected, whose size
    is received together with what follows it.
    """

    def __init__(self, stream: trio.abc.Stream, frame_bytes_max: int) -> None:
        self.stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._buffer = FrameBuffer(frame_bytes_max)
        self._large: bytearray | None = None
        self._received_bytes = 0
        self._expected_bytes = 0
        self._wakes_for_bytes = 1
        self._kept: deque[bytearray] = deque(maxlen=KEPT)

    async def next_frame(self) -> bytearray | None:
        """Return the next frame, without its size; None at the end of the stream.

        Raises:
            DecodeError: the stream is beyond repair.
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: it was closed here; within a large frame it may look broken.
        """
        while True:
            if self._socket is not None and self._large is not None:
                return await self._rest_of(self._large, self._socket)
            frame = self._buffer.next_frame()
            if frame is not None:
                self._expected_bytes = 0
                return frame
            if self._socket is not None and self._buffer.awaited_bytes >= LARGE_BYTES:
                if not self._kept:
                    have_memory_kept()
                self._large = self._room_for(self._buffer.awaited_bytes)
                self._received_bytes = self._buffer.move_into(self._large)
            elif not await self._receive():
                return None

    async def _receive(self) -> int:
        """Receive the beginning of a frame, or more of a small one; return how many bytes."""
        if self._socket is not None and self._expected_bytes and not self._buffer:
            return await self._receive_expected(self._socket)
        chunk = await self.stream.receive_some(RECEIVE_BYTES)
        self._buffer.feed(chunk)
        return len(chunk)

    async def _receive_expected(self, socket: trio.socket.SocketType) -> int:
        """Receive a size and what follows it: to where it stays, if it is as large as expected."""
        await trio.lowlevel.wait_readable(socket)
        size, room = bytearray(SIZE_BYTES), self._room_for(self._expected_bytes)
        with memoryview(room) as view, view[:TURN_BYTES] as begin:
            count = await self._receive_into(socket, [size, begin], wakes_for_bytes=1)
            size_bytes = int.from_bytes(size, "big") if count >= SIZE_BYTES else 0
            received_bytes = max(0, count - SIZE_BYTES)
            fits = max(LARGE_BYTES, received_bytes) <= size_bytes <= len(room)
            if not fits:
                self._buffer.feed(size[:count])
                self._buffer.feed(begin[:received_bytes])
        if fits:
            del room[size_bytes:]
            self._large, self._received_bytes = room, received_bytes
        else:
            self._kept.append(room)
        return count

    async def _rest_of(self, frame: bytearray, socket: trio.socket.SocketType) -> bytearray | None:
        with memoryview(frame) as view:
            while self._received_bytes < len(frame):
                at = self._received_bytes
                with view[at : at + TURN_BYTES] as room:
                    count = await self._receive_into(socket, [room], wakes_for_bytes=len(room))
                if not count:
                    return None
                self._received_bytes += count
                if count == TURN_BYTES:
                    await trio.lowlevel.checkpoint()
        self._wake_for(socket, 1)
        self._large = None
        self._expected_bytes = 0
        if len(frame) <= KEPT_BYTES_MAX:
            self._kept.append(frame)
            self._expected_bytes = min(_rounded(len(frame)), self._buffer.frame_bytes_max)
        return frame

    async def _receive_into(
        self,
        socket: trio.socket.SocketType,
        rooms: list[bytearray | memoryview],
        *,
        wakes_for_bytes: int,
    ) -> int:
        """Receive what is there, once something is; return how many bytes, 0 at the end."""
        while True:
            try:
                return os.readv(socket.fileno(), rooms)
            except BlockingIOError:
                self._wake_for(socket, wakes_for_bytes)
                await trio.lowlevel.wait_readable(socket)
            except OSError as error:
                raise trio.BrokenResourceError(f"receiving failed: {error}") from error

    def _wake_for(self, socket: trio.socket.SocketType, size_bytes: int) -> None:
        if size_bytes != self._wakes_for_bytes:
            self._wakes_for_bytes = size_bytes
            socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, size_bytes)

    def _room_for(self, size_bytes: int) -> bytearray:
        for kept in self._kept:
            if not len(kept) // 2 <= size_bytes <= len(kept) + ROUNDED_TO_BYTES:
                continue
            try:
                kept.append(0)
            except BufferError:
                continue  # somebody has a view into it
            if len(kept) < size_bytes:
                kept.extend(bytes(size_bytes - len(kept)))
            del kept[size_bytes:]
            self._kept.remove(kept)
            return kept
        room = bytearray(_rounded(size_bytes))
        del room[size_bytes:]
        return room


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // ROUNDED_TO_BYTES) * ROUNDED_TO_BYTES


def have_memory_kept() -> None:
    """Let what is decoded from one large frame take the memory of what came from the last one.

    It would go back to the system in between, and cost a tenth of the time that reading takes.
    """
    block = bytes(HINT_BYTES)  # of pages that are never touched
    del block
