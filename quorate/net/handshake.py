"""TLS handshakes: who is refused is told why, and so is the log."""

import ssl
from contextlib import suppress
from typing import Any, Final

import trio

ALERT_S: Final = 0.5
"""How long an alert may take to be sent, and who is refused to go."""


async def shake_hands(stream: "trio.SSLStream[Any]") -> None:
    """Do the handshake of a stream; who fails in it, at either end, is sent TLS's alert of that.

    Raises:
        trio.BrokenResourceError: the connection broke, or one side does not accept the other.
    """
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            with trio.move_on_after(ALERT_S), suppress(trio.BrokenResourceError):
                await _send_alert(stream)
        raise


async def _send_alert(stream: "trio.SSLStream[Any]") -> None:
    """Send what OpenSSL has left to be sent, and wait until the peer is gone.

    Trio drops it, and gives no public name to where it lies. A connection that is closed with bytes
    of the peer unread is reset, which may overtake the alert.
    """
    left: ssl.MemoryBIO | None = getattr(stream, "_outgoing", None)
    if left is None or not left.pending:
        return
    transport = stream.transport_stream
    await transport.send_all(left.read())
    if isinstance(transport, trio.abc.HalfCloseableStream):
        await transport.send_eof()
        while await transport.receive_some():
            pass


def is_refusal(error: BaseException) -> bool:
    """Whether a handshake failed because one side did not accept what the other one said.

    Otherwise the peer has gone, which it may.
    """
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)
