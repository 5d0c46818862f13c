"""One outgoing connection: pipelined requests, correlation ids, timeouts, version negotiation.

Two tasks move the bytes, one for each direction, and nothing else about a request costs a task:
:meth:`Connection.submit` returns a promise that the reading task resolves.
"""

import os
import ssl
from collections import deque
from math import inf
from typing import Any, Final

import trio

from quorate.dataclass import dataclass
from quorate.errors import (
    ErrorCode,
    NetworkError,
    QuorateError,
    UnsupportedVersionError,
    known_code,
)
from quorate.model import Endpoint
from quorate.net.bell import Bell
from quorate.net.frame_reader import FrameReader
from quorate.net.gathering import send_parts
from quorate.net.handshake import shake_hands
from quorate.promise import Promise
from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.frames import (
    CORRELATION_ID_MASK,
    RESPONSE_BYTES_MAX,
    RequestPart,
    read_response_header,
    request_parts,
)
from quorate.protocol.message import decoder
from quorate.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from quorate.protocol.primitives import DecodeError

AT_ONCE_BYTES_MAX: Final = 16 * 1024
"""A request that is not larger leaves as it is submitted, if nothing is to leave before it: to wake
up a task for it costs more than to send it, and who submitted it may be busy before that task."""

SOFTWARE_NAME: Final = "quorate"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions of one API that a peer speaks, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request whose response has not come yet."""

    api: Api
    version: int
    correlation_id: int
    deadline_s: float
    promise: Promise[Any]


async def connect(
    endpoint: Endpoint, *, ssl_context: ssl.SSLContext | None, timeout_ms: int
) -> trio.abc.Stream:
    """Open a byte stream to a broker, with TLS if there is a context for it.

    Raises:
        NetworkError: Nothing answers there, not in time, or not with TLS that the context accepts;
            or there can be no such host.
    """
    try:
        with trio.fail_after(timeout_ms / 1000):
            stream: trio.abc.Stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
            if ssl_context is None:
                return stream
            try:
                secured = trio.SSLStream(stream, ssl_context, server_hostname=endpoint.host)
                await shake_hands(secured)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
            return secured
    except trio.TooSlowError:
        raise NetworkError(f"{endpoint} did not answer within {timeout_ms} ms") from None
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        cause = error.__cause__ or error
        raise NetworkError(f"no TLS with {endpoint}: {cause}") from None
    except OSError as error:
        raise NetworkError(f"cannot connect to {endpoint}: {_reason(error)}") from None
    except ValueError as error:  # of a name that cannot be encoded, or that TLS cannot ask for
        raise NetworkError(f"cannot connect to {endpoint}: {error}") from None


def _reason(error: OSError) -> str:
    """Return why, in the words of the system, without Trio's wrapping of several attempts."""
    cause: BaseException | None = error.__cause__
    while attempts := getattr(cause, "exceptions", None):
        cause = attempts[0]
    inner = cause if isinstance(cause, OSError) else error
    return os.strerror(inner.errno) if inner.errno and inner.errno > 0 else str(inner)


class Connection:
    """A connection to one broker that carries many requests at once.

    Invariants: requests leave in the order of :meth:`submit`, and the broker answers in that order;
    every promise is resolved exactly once, at the latest when the connection ends.
    Promises get the response, or the error for which there is none.
    """

    def __init__(self, stream: trio.abc.Stream, *, peer: str, client_id: str | None) -> None:
        self.peer = peer
        self.client_id = client_id
        self.closed_because: NetworkError | None = None
        self.versions: dict[int, VersionRange] = {}
        self.finalized_features: dict[str, int] = {}
        """The levels that the cluster agreed on (KIP-584), as of ``features_epoch``."""

        self.features_epoch = -1
        self.is_silent = False
        """Whether somebody lost patience with the other side, which has said nothing since."""

        self._stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[RequestPart] = []
        self._sending: list[Promise[Any]] = []
        self._unsent_bell = Bell()
        self._next_correlation_id = 0
        self._reading = trio.CancelScope()

    @property
    def in_flight(self) -> int:
        """How many requests wait for their response."""
        return len(self._waiting)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Move bytes in both directions until the connection ends; then fail what still waits."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                task_status.started()
                await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self._fail_waiting()
            await trio.aclose_forcefully(self._stream)

    def close(self, why: str) -> None:
        """End the connection; requests that wait get a NetworkError that says why."""
        if self.closed_because is None:
            self.closed_because = NetworkError(f"{self.peer}: {why}")
            self._reading.cancel()

    async def negotiate(self, *, timeout_ms: int) -> None:
        """Ask which versions the broker speaks; to be done first.

        Raises:
            NetworkError: The connection broke, or the peer speaks something else.
        """
        api = APIS[ApiKey.API_VERSIONS]
        version = api.max_version
        response = await self._api_versions(version, timeout_ms)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # Then the response is in version 0, and says what the broker would have understood.
            ranges = {entry.api_key: entry for entry in response.api_keys}
            known = ranges.get(ApiKey.API_VERSIONS)
            version = 0 if known is None else min(known.max_version, version)
            response = await self._api_versions(version, timeout_ms)
        if response.error_code != ErrorCode.NONE:
            code = known_code(response.error_code)
            raise NetworkError(f"{self.peer} refused to say which versions it speaks: {code.name}")
        self.versions = {
            entry.api_key: VersionRange(entry.min_version, entry.max_version)
            for entry in response.api_keys
        }
        self.features_epoch = response.finalized_features_epoch
        self.finalized_features = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }

    async def _api_versions(self, version: int, timeout_ms: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version="0"
        )
        promise = self._submit(APIS[ApiKey.API_VERSIONS], version, request, timeout_ms)
        response: ApiVersionsResponse = await wait_for(promise)
        return response

    def version_of(self, api_key: int, *, version_max: int | None = None) -> int:
        """Return the highest version of an API that both sides speak.

        Raises:
            UnsupportedVersionError: There is none.
        """
        api = APIS[api_key]
        theirs = self.versions.get(api_key)
        if theirs is None:
            raise UnsupportedVersionError(f"{self.peer} does not serve {api.name}")
        last = min(theirs.last, api.max_version)
        if version_max is not None:
            last = min(last, version_max)
        first = max(theirs.first, api.min_version)
        if first > last:
            message = (
                f"{self.peer} speaks {api.name} in versions {theirs.first} to {theirs.last}, this"
                f" client in {api.min_version} to {version_max or api.max_version}"
            )
            raise UnsupportedVersionError(message)
        return last

    async def call(
        self,
        api_key: int,
        request: Any,
        *,
        timeout_ms: int,
        version_max: int | None = None,
        patience_s: float = inf,
    ) -> Any:
        """Send a request and return the response.

        Args:
            api_key: Which API.
            request: What to ask.
            timeout_ms: How long it may take to answer; the connection ends if it does not.
            version_max: The highest version of the API to use.
            patience_s: How long to wait before somebody else is asked; the connection goes on.

        Raises:
            NetworkError: The connection broke, or no answer came in time.
            UnsupportedVersionError: The two sides have no version of the API in common.
        """
        promise = self.submit(api_key, request, timeout_ms=timeout_ms, version_max=version_max)
        with trio.move_on_after(patience_s):
            return await wait_for(promise)
        self.is_silent = True
        name = APIS[api_key].name
        raise NetworkError(f"{self.peer} has not answered {name} within {patience_s:g} s")

    def submit(
        self, api_key: int, request: Any, *, timeout_ms: int, version_max: int | None = None
    ) -> Promise[Any]:
        """Queue a request and return a promise of the response, or of a QuorateError.

        Records in it leave from where they lie, and may not change before the promise is resolved.
        An answer that does not come in time ends the connection, because nothing behind it could
        come either.

        Raises:
            UnsupportedVersionError: The two sides have no version of the API in common.
        """
        version = self.version_of(api_key, version_max=version_max)
        return self._submit(APIS[api_key], version, request, timeout_ms)

    def submit_unanswered(
        self, api_key: int, request: Any, *, version_max: int | None = None
    ) -> Promise[Any]:
        """Queue a request to which there is no response (Produce with acks=0); see :meth:`submit`.

        Returns:
            A promise of None for when it is sent, or of a QuorateError.

        Raises:
            UnsupportedVersionError: The two sides have no version of the API in common.
        """
        version = self.version_of(api_key, version_max=version_max)
        promise: Promise[Any] = Promise()
        if self.closed_because is not None:
            promise.resolve(self.closed_because)
        else:
            self._sending.append(promise)
            parts, _ = self._parts_of(APIS[api_key], version, request)
            self._enqueue(parts)
        return promise

    def _submit(self, api: Api, version: int, request: Any, timeout_ms: int) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        if self.closed_because is not None:
            promise.resolve(self.closed_because)
            return promise
        deadline_s = trio.current_time() + timeout_ms / 1000
        parts, correlation_id = self._parts_of(api, version, request)
        if not self._sends_at_once(parts):
            self._enqueue(parts)
        self._waiting.append(_Waiting(api, version, correlation_id, deadline_s, promise))
        self._reading.deadline = min(self._reading.deadline, deadline_s)
        return promise

    def _parts_of(self, api: Api, version: int, request: Any) -> tuple[list[RequestPart], int]:
        """Return a request as a frame in parts, and its correlation id."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & CORRELATION_ID_MASK
        return request_parts(api, version, correlation_id, self.client_id, request), correlation_id

    def _sends_at_once(self, parts: list[RequestPart]) -> bool:
        """Send a small request if nothing is to leave before it; whether that was done."""
        if self._socket is None or self._unsent or sum(map(len, parts)) > AT_ONCE_BYTES_MAX:
            return False
        frame = b"".join(parts)
        try:
            sent_bytes = os.write(self._socket.fileno(), frame)
        except OSError:
            return False  # the task that writes will wait, or see what is wrong
        if sent_bytes < len(frame):
            self._enqueue([frame[sent_bytes:]])
        return True

    def _enqueue(self, parts: list[RequestPart]) -> None:
        self._unsent += parts
        self._unsent_bell.ring()

    async def _write(self) -> None:
        try:
            while True:
                await self._unsent_bell.wait()
                parts, sending = len(self._unsent), len(self._sending)
                await send_parts(self._stream, self._unsent[:parts])
                del self._unsent[:parts]
                sent, self._sending = self._sending[:sending], self._sending[sending:]
                for promise in sent:
                    promise.resolve(None)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.close(f"the connection broke ({error.__cause__ or error})")

    async def _read(self) -> None:
        frames = FrameReader(self._stream, RESPONSE_BYTES_MAX)
        try:
            while self.closed_because is None:
                with trio.CancelScope(deadline=self._next_deadline_s()) as self._reading:
                    await self._read_frames(frames)
                if self._waiting and self._next_deadline_s() <= trio.current_time():
                    name = self._waiting[0].api.name
                    self.close(f"no answer to {name} in time")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.close(f"the connection broke ({error.__cause__ or error})")
        except DecodeError as error:
            self.close(f"the peer does not speak the Kafka protocol ({error})")

    def _next_deadline_s(self) -> float:
        return min((waiting.deadline_s for waiting in self._waiting), default=float("inf"))

    async def _read_frames(self, frames: FrameReader) -> None:
        while (frame := await frames.next_frame()) is not None:
            self._answer(frame)
        self.close("the connection was closed by the other side")

    def _answer(self, frame: bytearray) -> None:
        if not self._waiting:
            raise DecodeError("a response that nothing was asked for")
        waiting = self._waiting[0]
        api, version, end = waiting.api, waiting.version, len(frame)
        correlation_id, position = read_response_header(frame, 0, end, api, version)
        if correlation_id != waiting.correlation_id:
            raise DecodeError(f"a response to {correlation_id} instead of {waiting.correlation_id}")
        response, _ = _decode_response(api, version, frame, position)
        self._waiting.popleft()
        self.is_silent = False
        waiting.promise.resolve(response)

    def _fail_waiting(self) -> None:
        self.close("the connection was closed")
        assert self.closed_because is not None
        waiting, self._waiting = self._waiting, deque()
        sending, self._sending = self._sending, []
        for promise in [*sending, *(request.promise for request in waiting)]:
            promise.resolve(self.closed_because)


def _decode_response(api: Api, version: int, frame: bytearray, position: int) -> tuple[Any, int]:
    if api.key == ApiKey.API_VERSIONS:
        # Brokers that do not know the version asked for answer in version 0 (KIP-511).
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
    return decoder(api.response, version)(frame, position, len(frame))


async def wait_for(promise: Promise[Any]) -> Any:
    """Return what a promise gets, or raise it if it is an error of ours."""
    if not promise.resolved:
        event = trio.Event()
        promise.when_resolved(lambda _: event.set())
        await event.wait()
    else:
        await trio.lowlevel.checkpoint()
    if isinstance(promise.value, QuorateError):
        raise promise.value
    return promise.value
