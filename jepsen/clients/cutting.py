"""A client's connections, which break as if its process had died: nothing goes out any more."""

import contextlib
from typing import Final, cast

import trio

from quorate.errors import NetworkError
from quorate.model import Endpoint
from quorate.net.rpc import connect

CONNECT_TIMEOUT_MS: Final = 2_000


class Line:
    """Dials for a client of ours, until it is cut."""

    def __init__(self) -> None:
        self._streams: list[trio.SocketStream] = []
        self._is_cut = False

    async def dial(self, endpoint: Endpoint) -> trio.abc.Stream:
        """Connect, as long as the client is alive."""
        if self._is_cut:
            raise NetworkError("this client has died")
        stream = await connect(endpoint, ssl_context=None, timeout_ms=CONNECT_TIMEOUT_MS)
        self._streams.append(cast("trio.SocketStream", stream))
        return stream

    def cut(self) -> None:
        """Die."""
        self._is_cut = True
        for stream in self._streams:
            with contextlib.suppress(OSError):  # it is closed already
                stream.socket.shutdown(trio.socket.SHUT_RDWR)
