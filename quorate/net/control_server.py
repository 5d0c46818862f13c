"""Accepts control connections, with or without TLS, and hands them to a service."""

import logging
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Any, Final

import trio

from quorate.control.frames import Frame
from quorate.control.messages import Answer, Hello, HelloAnswer
from quorate.errors import KafkaError
from quorate.net.control import (
    ControlService,
    ControlStream,
    ReceiveBudget,
    serve_control_connection,
)
from quorate.net.handshake import is_refusal, shake_hands
from quorate.net.reactor import peer_name
from quorate.net.refusals import Refusals
from quorate.promise import Promise

logger: Final = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 2000
RECEIVE_BYTES_MAX: Final = 64 * 2**20
HANDSHAKE_TIMEOUT_S: Final = 10.0
KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
UNSENT_TIMEOUT_MS: Final = 2000


class ControlServer:
    """Serves everybody who connects, with whatever ``service`` is at the time.

    So those who connected while a controller was starting need not connect again.
    """

    def __init__(self, service: ControlService, context: ssl.SSLContext | None) -> None:
        self.service = service
        self._context = context
        self._connections = 0
        self._budget = ReceiveBudget(RECEIVE_BYTES_MAX)
        self._refusals = Refusals()

    async def run(self, listeners: Sequence[trio.abc.Listener[Any]]) -> None:
        """Serve until cancelled."""
        await trio.serve_listeners(self._serve, list(listeners))

    # --- the service, as connections see it

    def greet(self, hello: Hello) -> HelloAnswer:
        """Return who we are."""
        return self.service.greet(hello)

    def begin(self, frame: Frame) -> Promise[Answer | KafkaError] | None:
        """Carry out a request that needs no task of its own."""
        return self.service.begin(frame)

    async def answer(self, frame: Frame) -> Answer:
        """Carry out a request."""
        return await self.service.answer(frame)

    async def serve_mesh(self, hello: Hello, frames: ControlStream) -> None:
        """Take in the Raft frames of another controller."""
        await self.service.serve_mesh(hello, frames)

    # --- connections

    async def _serve(self, stream: trio.abc.Stream) -> None:
        if self._connections >= CONNECTIONS_MAX:
            why = f"there are {self._connections} control connections"
            self._refusals.note(why, int(trio.current_time() * 1000))
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            notice_dead_peers(stream)
            secured = await self._secured(stream)
            if secured is not None:
                await serve_control_connection(secured, self, self._budget)
        finally:
            self._connections -= 1

    async def _secured(self, stream: trio.abc.Stream) -> trio.abc.Stream | None:
        """Return the stream under TLS, if that is wanted and comes about."""
        if self._context is None:
            return stream
        secured = trio.SSLStream(stream, self._context, server_side=True)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                await shake_hands(secured)
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            why = f"no TLS with {_peer_of(stream)}: {error.__cause__ or error}"
            if is_refusal(error):
                self._refusals.note(why, int(trio.current_time() * 1000))
            else:
                logger.info(why)
            await trio.aclose_forcefully(stream)
            return None
        return secured


def _peer_of(stream: trio.abc.Stream) -> str:
    return peer_name(stream.socket) if isinstance(stream, trio.SocketStream) else "a peer"


def notice_dead_peers(stream: trio.abc.Stream) -> None:
    """Let a connection break soon after the other host is gone: silent ones by keepalive."""
    if isinstance(stream, trio.SSLStream):
        notice_dead_peers(stream.transport_stream)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    elif isinstance(stream, trio.SocketStream) and sys.platform == "linux":
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_TIMEOUT_MS)
