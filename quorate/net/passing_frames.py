"""Reads the frames of a byte stream into one buffer that is used again and again.

For who is sent much and keeps nothing of it, as followers are: to receive chunks, join them and cut
frames out would copy everything twice, into memory that is new each time.  Whoever keeps frames has
``frame_reader``.
"""

import os
import socket
from struct import Struct
from typing import Final

import trio

from quorate.protocol.frames import SIZE_BYTES, impossible_size

FRESH_BYTES: Final = 1 << 16
GROWTH: Final = 4
WORTH_WAKING_BYTES: Final = 1 << 18
"""Of a large frame so much is waited for at once: to wake up for less costs more than to copy."""
SMALL_FRAMES_MAX: Final = 1000
"""After so many small frames, one after the other, a large buffer is given back."""

_SIZE = Struct(">i").unpack_from


class PassingFrames:
    """Owns what was received of a stream and not given out yet.

    Invariants: ``_buffer[_start:_end]`` is that; memory follows what came, not what a size
    announces. One task reads at a time.
    """

    def __init__(self, stream: trio.abc.Stream, frame_bytes_max: int) -> None:
        self._stream = stream
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(FRESH_BYTES)
        self._start = 0
        self._end = 0
        self._small_frames = 0
        self._wakes_for_bytes = 1

    @property
    def memory_bytes(self) -> int:
        """How large the buffer is."""
        return len(self._buffer)

    async def next_frame(self) -> tuple[bytearray, int, int] | None:
        """Return a buffer and where in it the next frame begins, behind its size, and ends.

        It stays there until the next call. None is the end of the stream.

        Raises:
            DecodeError: the size is impossible; the stream is beyond repair.
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: it was closed here.
        """
        if not await self._fill(SIZE_BYTES):
            return None
        (size_bytes,) = _SIZE(self._buffer, self._start)
        if not 0 <= size_bytes <= self._frame_bytes_max:
            raise impossible_size(size_bytes, self._frame_bytes_max)
        if not await self._fill(SIZE_BYTES + size_bytes):
            return None
        begin = self._start + SIZE_BYTES
        self._start = begin + size_bytes
        self._small_frames = self._small_frames + 1 if size_bytes < FRESH_BYTES else 0
        return self._buffer, begin, self._start

    async def _fill(self, size_bytes: int) -> bool:
        """Receive until so many bytes are there; return whether they are, or the stream ended."""
        while (missing_bytes := size_bytes - (self._end - self._start)) > 0:
            self._make_room(size_bytes)
            received_bytes = await self._receive(missing_bytes)
            if not received_bytes:
                return False
            self._end += received_bytes
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Have room for more of what begins at ``_start`` and will have so many bytes."""
        buffer, start, end = self._buffer, self._start, self._end
        rest_bytes, capacity = end - start, len(buffer)
        if not rest_bytes:
            self._start = self._end = start = end = 0
        if rest_bytes == capacity:
            buffer = bytearray(min(size_bytes, GROWTH * capacity))
        elif self._small_frames > SMALL_FRAMES_MAX and max(rest_bytes, size_bytes) < FRESH_BYTES:
            buffer, self._small_frames = bytearray(FRESH_BYTES), 0
        elif not start or start + size_bytes <= capacity:
            return
        buffer[:rest_bytes] = memoryview(self._buffer)[start:end]
        self._buffer, self._start, self._end = buffer, 0, rest_bytes

    async def _receive(self, missing_bytes: int) -> int:
        """Receive some more; return how many bytes, 0 at the end of the stream."""
        room = memoryview(self._buffer)[self._end :]
        stream = self._stream
        if not isinstance(stream, trio.SocketStream):
            chunk = await stream.receive_some(len(room))
            room[: len(chunk)] = chunk
            return len(chunk)
        self._wake_for(stream, missing_bytes)
        while True:
            await trio.lowlevel.wait_readable(stream.socket)
            try:
                return os.readv(stream.socket.fileno(), [room])
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    def _wake_for(self, stream: trio.SocketStream, missing_bytes: int) -> None:
        wakes_for_bytes = missing_bytes
        if missing_bytes > 2 * WORTH_WAKING_BYTES:
            wakes_for_bytes = WORTH_WAKING_BYTES
        elif missing_bytes < FRESH_BYTES:
            wakes_for_bytes = 1
        if wakes_for_bytes != self._wakes_for_bytes:
            self._wakes_for_bytes = wakes_for_bytes
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wakes_for_bytes)
