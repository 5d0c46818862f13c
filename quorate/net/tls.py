"""Serves connections under TLS: a Trio task per connection feeds the same plain object.

Slower than the reactor by what TLS and a task per connection cost; answers from files are read and
encrypted here instead of going from file to socket in the kernel.
"""

import logging
import os
import ssl
from typing import Final

import trio

from quorate.net.bell import Bell
from quorate.net.connection import Connection, FrameRefusedError, Part, Service
from quorate.net.handshake import is_refusal, shake_hands
from quorate.net.reactor import SWEEP_INTERVAL_S, is_cached, peer_name
from quorate.records.slices import FileSlice

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
LAST_ANSWERS_S: Final = 1.0
CHUNK_BYTES: Final = 256 * 1024


class TlsConnection(Connection):
    """A connection whose bytes come and go through an SSL stream.

    ``sendable`` rings when there may be something to send, ``readable`` when the peer has taken
    something, so that there may be room to read more. ``life`` is what serves it.
    """

    __slots__ = ("life", "readable", "sendable")

    def __init__(self, peer: str, service: Service) -> None:
        super().__init__(peer, service)
        self.sendable = Bell()
        self.readable = Bell()
        self.life = trio.CancelScope()

    def flush(self) -> None:
        """Wake the task that sends, if there is something to send, and who reads, if it may."""
        if self.collect():
            self.sendable.ring()
        elif self.may_read:
            self.readable.ring()

    def hang_up(self) -> None:
        """End it now, also if the peer does not take what is being sent."""
        self.life.cancel()


class TlsServer:
    """Accepts and serves TLS connections until it is cancelled."""

    def __init__(
        self, listeners: list[trio.SocketListener], context: ssl.SSLContext, service: Service
    ) -> None:
        """Serve ``listeners`` with the certificates of ``context``."""
        self._listeners = listeners
        self._context = context
        self._service = service

    async def run(self) -> None:
        """Serve until cancelled; then close every connection and listener."""
        await trio.serve_listeners(self._handle, self._listeners)

    async def _handle(self, transport: trio.SocketStream) -> None:
        if not self._service.admit():
            await trio.aclose_forcefully(transport)
            return
        peer = peer_name(transport.socket)
        stream = trio.SSLStream(transport, self._context, server_side=True)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                await self._shake_hands(stream, peer)
            await self._serve(stream, TlsConnection(peer, self._service))
        except* (trio.BrokenResourceError, trio.TooSlowError) as errors:
            error = errors.exceptions[0]
            logger.info("closing the TLS connection from %s: %s", peer, error.__cause__ or error)
        except* FrameRefusedError as errors:
            self._service.note_closing(peer, errors.exceptions[0])
        except* OSError as errors:
            logger.warning("closing the connection to %s: %s", peer, errors.exceptions[0])
        finally:
            self._service.connection_count -= 1
            await trio.aclose_forcefully(stream)

    async def _shake_hands(self, stream: "trio.SSLStream[trio.SocketStream]", peer: str) -> None:
        try:
            await shake_hands(stream)
        except trio.BrokenResourceError as error:
            if is_refusal(error):
                self._service.note_refusal(f"no TLS with {peer}: {error.__cause__}")
            raise

    async def _serve(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection
    ) -> None:
        with connection.life:
            await self._converse(stream, connection)

    async def _converse(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection
    ) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, stream, connection)
            try:
                await self._receive(stream, connection)
            except FrameRefusedError:
                with trio.move_on_after(LAST_ANSWERS_S):  # to what came before that frame
                    while connection.unsent_bytes:
                        await connection.readable.wait()
                raise
            finally:
                connection.abandon()
            nursery.cancel_scope.cancel()

    async def _receive(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection
    ) -> None:
        service = self._service
        while True:
            while connection.stalled or not connection.may_read:
                if not connection.may_read:
                    if not await self._waited_for_room(connection):
                        return
                    continue
                await trio.lowlevel.checkpoint()  # others had to wait while that turn took long
                service.begin_requests()
                self._dispatch(connection, 0)
            chunk = await self._next_bytes(stream, connection)
            if chunk is None and connection.slots:
                continue  # it was silent because we owe it answers
            if not chunk:
                return
            connection.space()[: len(chunk)] = chunk
            connection.last_active_ms = service.begin_requests()
            self._dispatch(connection, len(chunk))

    async def _next_bytes(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection
    ) -> bytes | bytearray | None:
        """Return what comes; None if that is nothing for as long as a connection may be idle.

        Who is silent for a while gives a large buffer back.
        """
        idle_s = self._service.idle_max_ms / 1000
        with trio.move_on_after(min(SWEEP_INTERVAL_S, idle_s)):
            return await stream.receive_some(len(connection.space()))
        connection.shrink()
        with trio.move_on_after(idle_s - SWEEP_INTERVAL_S):
            return await stream.receive_some(len(connection.space()))
        return None

    def _dispatch(self, connection: TlsConnection, size_bytes: int) -> None:
        """Dispatch what so many new bytes complete, and end the turn, though a frame be refused.

        Those before it may have made something ready, for others, too.
        """
        try:
            connection.received(size_bytes)
        except FrameRefusedError:
            self._service.end_turn()
            raise
        self._service.end_turn()

    async def _waited_for_room(self, connection: TlsConnection) -> bool:
        """Wait until the peer has taken some more; return whether it does, or we owe it answers."""
        with trio.move_on_after(self._service.idle_max_ms / 1000):
            await connection.readable.wait()
            return True
        return bool(connection.slots)

    async def _send(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection
    ) -> None:
        while True:
            await connection.sendable.wait()
            while connection.out:
                part = connection.out.popleft()
                await self._send_part(stream, connection, part)
                connection.unsent_bytes -= len(part)
                connection.readable.ring()
            connection.readable.ring()

    async def _send_part(
        self, stream: "trio.SSLStream[trio.SocketStream]", connection: TlsConnection, part: Part
    ) -> None:
        if not isinstance(part, FileSlice):
            await stream.send_all(part)
            return
        position, end = part.position, part.position + part.size_bytes
        while position < end:
            chunk = await read_chunk(part.fd, position, min(CHUNK_BYTES, end - position))
            await stream.send_all(chunk)
            position += len(chunk)
            connection.readable.ring()


async def read_chunk(fd: int, position: int, size_bytes: int) -> bytes:
    """Read from a file, in a thread when that means waiting for the disk."""
    if is_cached(fd, position) and is_cached(fd, position + size_bytes - 1):
        chunk = os.pread(fd, size_bytes, position)
    else:
        chunk = await trio.to_thread.run_sync(os.pread, fd, size_bytes, position)
    if not chunk:
        raise trio.BrokenResourceError("the log file is shorter than its records")
    return chunk
