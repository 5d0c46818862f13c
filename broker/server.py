"""Trio shell: a frame in, the handler's answer or promise out, in the turns of the event loop."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import time_ns
from typing import Any, Final, cast

from quorate.broker.handlers.context import Broker, Caller, CloseConnectionError
from quorate.broker.handlers.large_requests import LargeRequest, LargeRequests, new_lines
from quorate.broker.handlers.produce import single_produce
from quorate.broker.handlers.table import API_VERSIONS_HANDLER, HANDLERS, Handler
from quorate.broker.replication.sessions import follower_of
from quorate.broker.request_times import NOT_YET, ApiTimes, RequestTimes
from quorate.dataclass import dataclass
from quorate.net.connection import (
    SMALL_BYTES_MAX,
    Connection,
    FrameRefusedError,
    Limits,
    Part,
    Service,
)
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import (
    REQUEST_START_BYTES,
    read_request_start,
    request_body_at,
    response_encoder,
)
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import FetchRequest
from quorate.protocol.primitives import DecodeError

logger = logging.getLogger(__name__)

UNSENT_BYTES_MAX: Final = 1 << 20

FOLLOWER_SEND_BYTES: Final = 512 * 1024
"""Send buffer towards a follower, who reads a megabyte at a time; see docs/decisions/0013."""

MEMBERS_MADE_BY: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT})
"""The requests whose handlers are told who calls."""

VERSION_AT: Final = 3
"""Where a request has the low byte of its version."""

VERSIONS_MAX: Final = 256

Decode = Callable[[bytearray, int, int], tuple[Any, int]]
Encode = Callable[[int, Any], Sequence[Part]]


def wall_clock_ms() -> int:
    """Return the time of day."""
    return time_ns() // 1_000_000


@dataclass(slots=True)
class _Route:
    """What one version of one API needs on the way in and out, and how often it was asked for."""

    api_key: int
    decode: Decode
    handler: Handler
    caller: Caller
    encode: Encode
    flexible: bool
    remembers_client: bool
    line: LargeRequests | None
    times: ApiTimes
    requests: int = 0


class RequestServer:
    """Dispatches the requests of all listeners to the handlers, and ends the turns of the loop.

    A turn is: note the time, dispatch the requests that came, wake the fetches for which there is
    something now, send the answers that are ready. Whoever changes replicas outside the requests of
    a turn, such as the task that syncs logs, calls :meth:`end_turn` afterwards.
    """

    def __init__(self, broker: Broker, current_time: Callable[[], float]) -> None:
        """Serve; ``current_time`` is that of Trio's clock, which tells it quicker than Trio."""
        self._broker = broker
        self._services: list[Service] = []
        self._dispatchers: list[_Dispatcher] = []
        self._times = RequestTimes()
        self._lines = new_lines()
        self._current_time = current_time
        self._settle = broker.replicas.settle

    @property
    def connection_count(self) -> int:
        """How many connections there are."""
        return sum(service.connection_count for service in self._services)

    def request_counts(self) -> dict[tuple[int, int], int]:
        """Return how many requests came, by API key and version."""
        counts = Counter[tuple[int, int]]()
        for dispatcher in self._dispatchers:
            counts.update(dispatcher.request_counts())
        return counts

    def request_times(self) -> Mapping[str, ApiTimes]:
        """Return how long requests took, by Kafka's names of them."""
        return self._times.by_name()

    def service(self, listener: str) -> Service:
        """Return what the connections of a listener share."""
        config = self._broker.config
        limits = Limits(
            request_bytes_max=config.socket_request_max_bytes,
            small_request_bytes_max=min(
                config.small_request_max_bytes, config.socket_request_max_bytes
            ),
            in_flight_max=config.max_in_flight_requests,
            in_flight_bytes_max=config.max_in_flight_bytes,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            wide_send_bytes=_wide_send_bytes(config.socket_send_buffer_bytes),
        )
        dispatcher = _Dispatcher(self._broker, listener, self._times, self._lines)
        self._dispatchers.append(dispatcher)
        service = Service(
            dispatcher.dispatch,
            self.begin_turn,
            self.end_turn,
            limits=limits,
            connections_max=config.max_connections,
            idle_max_ms=config.connections_max_idle_ms,
        )
        self._services.append(service)
        return service

    def begin_turn(self) -> int:
        """Note the time of the turn; return the monotonic time in ms."""
        broker = self._broker
        broker.now_ms = time_ns() // 1_000_000
        self._times.began_s = now_s = self._current_time()
        now_ms = int(now_s * 1000)
        broker.deadlines.now_ms = broker.replicas.host.now_ms = now_ms
        return now_ms

    def end_turn(self) -> None:
        """Wake waiting fetches and send what is ready, until nothing more becomes ready."""
        settle = self._settle
        settle()
        more = True
        while more:
            more = False
            for service in self._services:
                answered = service.answered
                if answered:
                    more = True
                    if len(answered) == 1:
                        answered.pop().flush()
                    else:
                        connections = tuple(answered)
                        answered.clear()
                        for connection in connections:
                            connection.flush()
                    settle()
        times = self._times
        if times.others:
            times.end_turn(self._current_time())
        elif times.short:
            # As ``end_short_turn``, in line: a call would take half of all this.
            took_s, requests = self._current_time() - times.began_s, times.short
            times.short, produce = 0, times.produce
            if not produce.run_low_s < took_s <= produce.run_high_s:
                produce.begin_run(took_s)
            produce.run += requests
            produce.total_s += took_s * requests
            produce.local_s += took_s


class _Dispatcher:
    """Starts the requests of one listener."""

    __slots__ = (
        "_broker",
        "_fetch_by_followers",
        "_lines",
        "_listener",
        "_routes",
        "_short",
        "_shortcut",
        "_times",
    )

    def __init__(
        self,
        broker: Broker,
        listener: str,
        times: RequestTimes,
        lines: Mapping[int, LargeRequests],
    ) -> None:
        self._broker = broker
        self._times = times
        self._lines = lines
        self._fetch_by_followers = times.of(ApiKey.FETCH, by_follower=True)
        self._listener = listener
        self._shortcut = single_produce(broker, listener)
        self._routes: dict[tuple[int, int], _Route] = {}
        self._short = [0] * VERSIONS_MAX
        """How many Produce requests of each version went the short way."""

    def request_counts(self) -> dict[tuple[int, int], int]:
        """Return how many requests came over this listener, by API key and version."""
        counts = Counter({key: route.requests for key, route in self._routes.items()})
        for version, requests in enumerate(self._short):
            counts[ApiKey.PRODUCE, version] += requests
        return +counts

    def dispatch(self, connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        """Decode one request, handle it, and have its answer sent in its turn.

        Raises:
            FrameRefusedError: it is no request of ours, or it failed; the connection must be
                closed.
        """
        if end - start < REQUEST_START_BYTES:
            raise FrameRefusedError(f"a request of {end - start} bytes")
        try:
            frame = self._shortcut(buffer, start, end)
            if frame is None:
                self._dispatch(connection, buffer, start, end)
                return
            self._short[buffer[start + VERSION_AT]] += 1
            if isinstance(frame, bytes):
                self._times.short += 1
                connection.answer_now((frame,))
            else:
                _promise_frame(connection, frame, self._times)
        except Exception as error:
            api_key, version, _, _ = read_request_start(buffer, start)
            raise _refusal(error, api_key, version) from error

    def _dispatch(self, connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        api_key, version, correlation_id, id_bytes = read_request_start(buffer, start)
        route = self._routes.get((api_key, version))
        if route is None:
            route = self._route(api_key, version)
            if route is None:
                self._answer_unsupported(connection, correlation_id)
                return
        route.requests += 1
        id_at = start + REQUEST_START_BYTES
        position = request_body_at(buffer, id_at, end, id_bytes, flexible=route.flexible)
        caller = route.caller
        if route.remembers_client:
            client_id = buffer[id_at : id_at + max(id_bytes, 0)]
            caller = _identified(caller, client_id, connection.peer)
        if route.line is not None and end - start > SMALL_BYTES_MAX:
            self._stand_in(route.line, connection, route, correlation_id, buffer[position:end])
            return
        # Bytes behind the request are ignored, as Kafka does: librdkafka sends some (Metadata).
        request, _ = route.decode(buffer, position, end)
        api_times = route.times
        if api_key == ApiKey.FETCH:
            if not connection.fetches:
                self._first_fetch(connection, request)
            if connection.follows:
                api_times = self._fetch_by_followers
        answer = route.handler(self._broker, request, caller)
        self._answer(connection, route, correlation_id, answer, api_times)

    def _stand_in(
        self,
        line: LargeRequests,
        connection: Connection,
        route: _Route,
        correlation_id: int,
        body: bytearray,
    ) -> None:
        """Handle a large request once it is its turn; till then it is kept as it came.

        Once it has begun it is in work to its end, though the client be gone: it takes memory.
        """
        later: Promise[Any] = Promise()
        dispatching = True

        def begin() -> None:
            try:
                message, _ = route.decode(body, 0, len(body))
                answer = route.handler(self._broker, message, route.caller)
            except Exception as error:
                line.ended(request)
                if dispatching:
                    raise
                refusal = _refusal(error, route.api_key, route.caller.api_version)
                connection.service.note_closing(connection.peer, refusal)
                connection.hang_up()
                return
            if isinstance(answer, Promise):
                answer.when_resolved(ended)  # pyright: ignore[reportUnknownMemberType]
            else:
                ended(answer)

        def ended(response: Any) -> None:
            later.resolve(response)
            line.ended(request)

        request = LargeRequest(len(body), begin)
        later.on_abandoned = request.forget
        line.add(request)
        dispatching = False
        self._promise(connection, route, correlation_id, later, route.times)

    def _first_fetch(self, connection: Connection, request: FetchRequest) -> None:
        connection.fetches = True
        if follower_of(request)[0] >= 0:
            connection.follows = True
            connection.widen()

    def _answer(
        self,
        connection: Connection,
        route: _Route,
        correlation_id: int,
        answer: Any,
        api_times: ApiTimes,
    ) -> None:
        if isinstance(answer, Promise):
            promise: Promise[Any] = answer  # pyright: ignore[reportUnknownVariableType]
            self._promise(connection, route, correlation_id, promise, api_times)
            return
        if answer is not None:
            parts = route.encode(correlation_id, answer)
            if len(parts[0]) > SMALL_BYTES_MAX:
                connection.open_slot().fill(parts)  # it counts until its turn comes
            else:
                connection.answer_now(parts)
        self._times.others.append((api_times, self._times.began_s))

    def _promise(
        self,
        connection: Connection,
        route: _Route,
        correlation_id: int,
        promise: Promise[Any],
        api_times: ApiTimes,
    ) -> None:
        encode, times = route.encode, self._times
        slot = connection.open_slot()
        slot.on_abandoned = promise.abandon
        times.others.append((api_times, NOT_YET))
        owed = (api_times, times.began_s)

        def resolved(response: Any) -> None:
            try:
                parts = encode(correlation_id, response)
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001 - as for answers that are known at once
                _tell_bug(route.api_key, route.caller.api_version, error)
                connection.hang_up()
                return
            slot.fill(parts)
            slot.on_abandoned = None  # it keeps what the answer was made of
            times.others.append(owed)

        promise.when_resolved(resolved)

    def _route(self, api_key: int, version: int) -> _Route | None:
        """Return the route of a version met for the first time; None for unknown ApiVersions."""
        api = APIS.get(api_key)
        handler = HANDLERS.get(api_key)
        if api is None or handler is None:
            raise FrameRefusedError(f"API key {api_key} is not served here")
        if not api.min_version <= version <= api.max_version:
            if api_key == ApiKey.API_VERSIONS:
                return None
            raise FrameRefusedError(
                f"{api.name} version {version} is not supported; "
                f"there are {api.min_version} to {api.max_version}"
            )
        route = _Route(
            api_key=api_key,
            decode=decoder(api.request, version),
            handler=handler,
            caller=Caller(self._listener, version),
            encode=cast("Encode", response_encoder(api, version)),
            flexible=api.is_flexible(version),
            remembers_client=api_key in MEMBERS_MADE_BY,
            line=self._lines.get(api_key),
            times=self._times.of(api_key),
        )
        self._routes[api_key, version] = route
        return route

    def _answer_unsupported(self, connection: Connection, correlation_id: int) -> None:
        # A client newer than us learns from this answer which versions to use (KIP-511).
        api = APIS[ApiKey.API_VERSIONS]
        encode = cast("Encode", response_encoder(api, 0))
        connection.answer_now(encode(correlation_id, API_VERSIONS_HANDLER.unsupported()))


def _wide_send_bytes(send_buffer_bytes: int) -> int:
    """Return the send buffer towards followers; 0 if the system chooses it for everybody."""
    return max(send_buffer_bytes, FOLLOWER_SEND_BYTES) if send_buffer_bytes > 0 else 0


def _promise_frame(connection: Connection, frame: Promise[bytes], times: RequestTimes) -> None:
    """Answer the Produce request that was just dispatched with what will be a frame."""
    slot = connection.open_slot()
    slot.on_abandoned = frame.abandon
    owed = (times.produce, times.began_s)
    times.others.append((times.produce, NOT_YET))

    def resolved(known: bytes) -> None:
        slot.fill((known,))
        times.others.append(owed)

    frame.when_resolved(resolved)


def _identified(caller: Caller, client_id: bytearray, peer: str) -> Caller:
    """Return the caller with its name and host.

    Raises:
        DecodeError: the name is not UTF-8.
    """
    try:
        name = client_id.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"client_id: {error}") from None
    return replace(caller, client_id=name, client_host=f"/{peer.rpartition(':')[0].strip('[]')}")


def _refusal(error: Exception, api_key: int, version: int) -> FrameRefusedError:
    """Return why the connection must be closed.

    An error that nobody foresaw is a bug that this request brought to light. It costs the client
    its connection, and the others nothing: otherwise one request, sent again and again, would keep
    the whole broker down. A failed assertion is another matter: our own state is not what we
    guarantee, and going on might spread that, so it ends the process.
    """
    if isinstance(error, AssertionError):
        raise error
    if isinstance(error, FrameRefusedError):
        return error
    if isinstance(error, DecodeError):
        return FrameRefusedError(f"cannot decode a request with API key {api_key}: {error}")
    if isinstance(error, CloseConnectionError):
        return FrameRefusedError(str(error))
    _tell_bug(api_key, version, error)
    return FrameRefusedError("the request met a bug in this broker")


def _tell_bug(api_key: int, version: int, error: Exception) -> None:
    logger.error("a request with API key %d, version %d failed", api_key, version, exc_info=error)
