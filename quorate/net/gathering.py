"""Sends what lies in several places without copying it together first."""

from collections.abc import Sequence
from typing import Final

import trio

from quorate.protocol.frames import RequestPart

PARTS_MAX: Final = 512
"""In one call; Linux takes 1,024."""


async def send_parts(stream: trio.abc.SendStream, parts: Sequence[RequestPart]) -> None:
    """Send all parts, in their order; none may change until then.

    Raises:
        trio.BrokenResourceError, trio.ClosedResourceError: The connection is gone.
    """
    if not isinstance(stream, trio.SocketStream):
        await stream.send_all(b"".join(parts))
        return
    left = [memoryview(part) for part in parts if part]
    begin = 0
    try:
        while begin < len(left):
            sent_bytes = await stream.socket.sendmsg(left[begin : begin + PARTS_MAX])
            while begin < len(left) and sent_bytes >= len(left[begin]):
                sent_bytes -= len(left[begin])
                begin += 1
            if sent_bytes:
                left[begin] = left[begin][sent_bytes:]
    except OSError as error:
        raise trio.BrokenResourceError(str(error)) from error
