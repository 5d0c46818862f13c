"""Control connections are taken up to a number, and only if TLS comes about where it is wanted."""

import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trustme

from quorate.net import control_server
from quorate.net.control_server import ControlServer, notice_dead_peers

if TYPE_CHECKING:
    from quorate.net.control import ControlService

NOBODY = cast("ControlService", None)
"""These connections never come so far as to ask a service."""


@asynccontextmanager
async def serving(context: ssl.SSLContext | None) -> AsyncGenerator[tuple[str, int], None]:
    server = ControlServer(NOBODY, context)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, listeners)
            yield listeners[0].socket.getsockname()
            nursery.cancel_scope.cancel()


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    return context


async def test_connections_beyond_the_limit_are_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(control_server, "CONNECTIONS_MAX", 1)
    async with (
        serving(None) as address,
        await trio.open_tcp_stream(*address),
        await trio.open_tcp_stream(*address) as second,
    ):
        with pytest.raises(trio.BrokenResourceError):
            await ended(second)
    assert "refused 1 new connections: there are 1 control connections" in caplog.text


async def ended(stream: trio.SocketStream) -> None:
    """Wait until the other side has closed, in whichever way."""
    if not await stream.receive_some():
        raise trio.BrokenResourceError


async def test_who_does_not_speak_tls_is_closed_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        serving(server_context()) as address,
        await trio.open_tcp_stream(*address) as stream,
    ):
        await stream.send_all(b"\0\0\0\x05hello, no TLS here")
        await stream.send_eof()
        while await stream.receive_some():
            continue  # an alert, maybe
    assert "refused 1 new connections: no TLS with 127.0.0.1" in caplog.text


async def test_who_never_begins_tls_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "HANDSHAKE_TIMEOUT_S", 0.01)
    async with (
        serving(server_context()) as address,
        await trio.open_tcp_stream(*address) as stream,
    ):
        with pytest.raises(trio.BrokenResourceError):
            await ended(stream)


@pytest.mark.skipif(sys.platform != "linux", reason="named so on Linux")
async def test_a_host_that_is_gone_is_noticed_below_tls_too() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()) as stream:
        notice_dead_peers(trio.SSLStream(stream, server_context(), server_side=True))

        assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
