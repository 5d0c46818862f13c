"""A connection for one task that asks and listens, such as a follower's to its leader.

Requests leave at once, and answers come in their order. There are no tasks behind it: who waits for
an answer is who reads it from the socket, so that an answer costs one wake-up.
"""

import os
from collections import deque
from typing import Any, Final

import trio

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, NetworkError, UnsupportedVersionError
from quorate.net.passing_frames import PassingFrames
from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.frames import (
    CORRELATION_ID_MASK,
    RESPONSE_BYTES_MAX,
    encode_request,
    read_response_header,
)
from quorate.protocol.message import decoder
from quorate.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from quorate.protocol.primitives import DecodeError

API_VERSIONS_ASKED: Final = 0
"""Every broker answers this one, and all that we want from the answer is in it."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request whose answer has not come yet."""

    api: Api
    version: int
    correlation_id: int


class Exchange:
    """Owns a byte stream to one broker; to be closed by who made it.

    Invariant: answers come in the order of requests. One task sends at a time, one receives.
    """

    def __init__(self, stream: trio.abc.Stream, *, peer: str, client_id: str) -> None:
        self.peer = peer
        self._stream = stream
        self._client_id = client_id
        self._sent: deque[_Sent] = deque()
        self._frames = PassingFrames(stream, RESPONSE_BYTES_MAX)
        self._versions: dict[int, int] = {}
        self._correlation_id = 0
        self._sending = trio.Lock()

    async def negotiate(self, keys: tuple[int, ...]) -> None:
        """Learn which versions of these APIs both sides speak; to be done first.

        Raises:
            NetworkError: the connection broke, or the peer speaks something else.
            UnsupportedVersionError: there is no version in common.
        """
        await self._send(APIS[ApiKey.API_VERSIONS], API_VERSIONS_ASKED, ApiVersionsRequest())
        answer: ApiVersionsResponse = await self.receive()
        if answer.error_code != ErrorCode.NONE:
            raise NetworkError(f"{self.peer} does not say which versions it speaks")
        theirs = {entry.api_key: entry for entry in answer.api_keys}
        for key in keys:
            api, found = APIS[key], theirs.get(key)
            last = -1 if found is None else min(found.max_version, api.max_version)
            if found is None or last < max(found.min_version, api.min_version):
                raise UnsupportedVersionError(f"{self.peer} speaks no version of {api.name}")
            self._versions[key] = last

    async def send(self, api_key: int, request: Any) -> None:
        """Send a request; at once and without a turn of the loop if there is room for it.

        Raises:
            NetworkError: the connection broke.
        """
        await self._send(APIS[api_key], self._versions[api_key], request)

    async def _send(self, api: Api, version: int, request: Any) -> None:
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MASK
        self._sent.append(_Sent(api, version, self._correlation_id))
        frame = encode_request(api, version, self._correlation_id, self._client_id, request)
        try:
            sent_bytes = 0 if self._sending.locked() else _send_now(self._stream, frame)
            if sent_bytes < len(frame):
                async with self._sending:
                    await self._stream.send_all(frame[sent_bytes:])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._broken(error) from None

    async def receive(self) -> Any:
        """Return the answer to the oldest request that has none yet.

        Its records are views of memory that the next call uses again.

        Raises:
            NetworkError: the connection broke, or the peer speaks something else.
        """
        try:
            frame = await self._frames.next_frame()
            if frame is None:
                raise NetworkError(f"{self.peer}: closed by the other side")
            return self._read(*frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._broken(error) from None
        except DecodeError as error:
            raise NetworkError(f"{self.peer} does not speak the Kafka protocol: {error}") from None

    def _read(self, buffer: bytearray, begin: int, end: int) -> Any:
        if not self._sent:
            raise DecodeError("an answer that nothing was asked for")
        sent = self._sent.popleft()
        correlation_id, position = read_response_header(buffer, begin, end, sent.api, sent.version)
        if correlation_id != sent.correlation_id:
            raise DecodeError(f"an answer to {correlation_id} instead of {sent.correlation_id}")
        answer, _ = decoder(sent.api.response, sent.version)(buffer, position, end)
        return answer

    def _broken(self, error: Exception) -> NetworkError:
        return NetworkError(f"{self.peer}: the connection broke ({error.__cause__ or error})")

    async def close(self) -> None:
        """Close the connection, without waiting for anything."""
        await trio.aclose_forcefully(self._stream)


def _send_now(stream: trio.abc.Stream, frame: bytes) -> int:
    """Send what there is room for, without waiting; return how many bytes."""
    if not isinstance(stream, trio.SocketStream):
        return 0
    try:
        return os.write(stream.socket.fileno(), frame)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError(str(error)) from error
