"""Frames off a byte stream: large ones are received straight to where they stay."""

import os
from collections import deque
from typing import Final

import trio

from quorate.protocol.frames import FrameBuffer

RECEIVE_BYTES: Final = 64 * 1024
HEAD_BYTES: Final = 4 * 1024
"""After a large frame, so much is received of what follows: another large one, usually, and what is
received together with its size is copied once more."""

TURN_BYTES: Final = 1024 * 1024
"""So much may be received before others get their turn."""

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
    to keep a memoryview, or a copy.
    """

    def __init__(self, stream: trio.abc.Stream, frame_bytes_max: int) -> None:
        self.stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._buffer = FrameBuffer(frame_bytes_max)
        self._large: bytearray | None = None
        self._received_bytes = 0
        self._receive_bytes = RECEIVE_BYTES
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
                self._receive_bytes = RECEIVE_BYTES
                return frame
            if self._socket is not None and self._buffer.awaited_bytes >= LARGE_BYTES:
                if not self._kept:
                    have_memory_kept()
                self._large = self._room_for(self._buffer.awaited_bytes)
                self._received_bytes = self._buffer.move_into(self._large)
                continue
            chunk = await self.stream.receive_some(self._receive_bytes)
            if not chunk:
                return None
            self._buffer.feed(chunk)

    async def _rest_of(self, frame: bytearray, socket: trio.socket.SocketType) -> bytearray | None:
        with memoryview(frame) as view:
            while self._received_bytes < len(frame):
                at = self._received_bytes
                with view[at : at + TURN_BYTES] as room:
                    try:
                        count = os.readv(socket.fileno(), [room])
                    except BlockingIOError:
                        await trio.lowlevel.wait_readable(socket)
                        continue
                    except OSError as error:
                        raise trio.BrokenResourceError(f"receiving failed: {error}") from error
                if not count:
                    return None
                self._received_bytes += count
                if count == TURN_BYTES:
                    await trio.lowlevel.checkpoint()
        self._large = None
        self._receive_bytes = HEAD_BYTES
        if len(frame) <= KEPT_BYTES_MAX:
            self._kept.append(frame)
        return frame

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
        room = bytearray(-(-size_bytes // ROUNDED_TO_BYTES) * ROUNDED_TO_BYTES)
        del room[size_bytes:]
        return room


def have_memory_kept() -> None:
    """Let what is decoded from one large frame take the memory of what came from the last one.

    It would go back to the system in between, and cost a tenth of the time that reading takes.
    """
    block = bytes(HINT_BYTES)  # of pages that are never touched
    del block
