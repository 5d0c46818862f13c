import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trustme
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from quorate.errors import ErrorCode, NetworkError, UnsupportedVersionError
from quorate.model import Endpoint
from quorate.net.bell import Bell
from quorate.net.rpc import AT_ONCE_BYTES_MAX, Connection, VersionRange, connect, wait_for
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import (
    FrameBuffer,
    RequestHeader,
    encode_response,
    read_request_header,
)
from quorate.protocol.messages.data import ProduceRequest
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from quorate.protocol.messages.session import ApiVersion, ApiVersionsResponse
from tests.resolving import every_host_is_at

MINUTE_MS = 60_000
SPOKEN: dict[int, VersionRange] = {
    ApiKey.METADATA: VersionRange(0, 9),
    ApiKey.PRODUCE: VersionRange(0, 9),
}


class Peer:
    """The other end of a connection, which answers when a test says so."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.frames = FrameBuffer(1 << 20)

    async def next_request(self) -> RequestHeader:
        while (frame := self.frames.next_frame()) is None:
            self.frames.feed(await self.stream.receive_some())
        header, _ = read_request_header(frame, 0, len(frame))
        return header

    async def answer(self, header: RequestHeader, body: Any, version: int | None = None) -> None:
        version = header.api_version if version is None else version
        parts: list[Any] = encode_response(
            APIS[header.api_key], version, header.correlation_id, body
        )
        await self.stream.send_all(b"".join(parts))


@pytest.fixture
async def ends(nursery: trio.Nursery) -> tuple[Connection, Peer]:
    ours, theirs = memory_stream_pair()
    connection = Connection(ours, peer="broker at b:1", client_id="me")
    connection.versions = dict(SPOKEN)
    await nursery.start(connection.run)
    return connection, Peer(theirs)


def cluster_named(name: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=name)


async def test_requests_are_pipelined_and_answered_in_order(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, peer = ends
    promises = [
        connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
        for _ in range(3)
    ]
    headers = [await peer.next_request() for _ in range(3)]
    assert [header.correlation_id for header in headers] == [0, 1, 2]
    assert {(header.api_version, header.client_id) for header in headers} == {(9, "me")}
    assert connection.in_flight == 3
    for header in headers:
        await peer.answer(header, cluster_named(f"c{header.correlation_id}"))
    answers = [await wait_for(promise) for promise in promises]
    assert [answer.cluster_id for answer in answers] == ["c0", "c1", "c2"]
    assert (await wait_for(promises[0])).cluster_id == "c0"


async def test_versions_are_agreed_on(
    ends: tuple[Connection, Peer], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    connection, peer = ends

    async def serve() -> None:
        header = await peer.next_request()
        assert header.api_version == APIS[ApiKey.API_VERSIONS].max_version
        spoken = [ApiVersion(api_key=ApiKey.METADATA, min_version=3, max_version=99)]
        await peer.answer(header, ApiVersionsResponse(api_keys=spoken))

    nursery.start_soon(serve)
    await connection.negotiate(timeout_ms=MINUTE_MS)
    assert connection.versions == {ApiKey.METADATA: VersionRange(3, 99)}
    assert connection.version_of(ApiKey.METADATA) == APIS[ApiKey.METADATA].max_version
    assert connection.version_of(ApiKey.METADATA, version_max=7) == 7


async def test_a_broker_that_is_older_than_our_question_is_asked_again(
    ends: tuple[Connection, Peer], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    connection, peer = ends
    spoken = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)]
    asked: list[int] = []

    async def serve() -> None:
        header = await peer.next_request()
        asked.append(header.api_version)
        refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=spoken)
        await peer.answer(header, refused, version=0)
        header = await peer.next_request()
        asked.append(header.api_version)
        await peer.answer(header, ApiVersionsResponse(api_keys=spoken))

    nursery.start_soon(serve)
    await connection.negotiate(timeout_ms=MINUTE_MS)
    assert asked == [APIS[ApiKey.API_VERSIONS].max_version, 2]


async def test_a_broker_that_does_not_say_what_it_speaks_is_not_used(
    ends: tuple[Connection, Peer], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    connection, peer = ends

    async def serve() -> None:
        for _ in range(2):
            header = await peer.next_request()
            refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            await peer.answer(header, refused, version=0)

    nursery.start_soon(serve)
    with pytest.raises(NetworkError, match="refused to say which versions"):
        await connection.negotiate(timeout_ms=MINUTE_MS)


async def test_apis_and_versions_without_overlap_are_named(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, _ = ends
    with pytest.raises(UnsupportedVersionError, match="does not serve Fetch"):
        connection.submit(ApiKey.FETCH, None, timeout_ms=1)
    connection.versions[ApiKey.METADATA] = VersionRange(50, 60)
    with pytest.raises(UnsupportedVersionError, match="speaks Metadata in versions 50 to 60"):
        await connection.call(ApiKey.METADATA, MetadataRequest(), timeout_ms=1)


async def test_a_request_without_an_answer_in_time_ends_the_connection(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, _ = ends
    patient = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
    began = trio.current_time()
    with pytest.raises(NetworkError, match="broker at b:1: no answer to Metadata in time"):
        await connection.call(ApiKey.METADATA, MetadataRequest(), timeout_ms=500)
    assert trio.current_time() - began == pytest.approx(0.5)
    assert isinstance(patient.value, NetworkError)
    later = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=500)
    assert isinstance(later.value, NetworkError)
    unanswered = connection.submit_unanswered(ApiKey.PRODUCE, ProduceRequest())
    assert isinstance(unanswered.value, NetworkError)


async def test_an_answer_in_time_keeps_the_connection_for_slower_ones(
    ends: tuple[Connection, Peer], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    connection, peer = ends

    async def serve() -> None:
        for pause_s in (0.4, 5):
            header = await peer.next_request()
            await trio.sleep(pause_s)
            await peer.answer(header, cluster_named("c"))

    nursery.start_soon(serve)
    await connection.call(ApiKey.METADATA, MetadataRequest(), timeout_ms=500)
    await connection.call(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
    assert connection.closed_because is None


async def test_a_peer_that_hangs_up_fails_what_waits(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, peer = ends
    promise = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
    await peer.stream.aclose()
    with pytest.raises(NetworkError, match="closed by the other side"):
        await wait_for(promise)


async def test_a_connection_that_is_closed_here_fails_what_waits(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, _ = ends
    promise = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
    connection.close("no need of it")
    connection.close("twice is once")
    with pytest.raises(NetworkError, match="no need of it"):
        await wait_for(promise)


def shifted(frame: bytes) -> bytes:
    return frame[:7] + b"\x09" + frame[8:]


def cut(frame: bytes) -> bytes:
    return (len(frame) - 14).to_bytes(4, "big") + frame[4:-10]


def web_server(_frame: bytes) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n"


def too_short(_frame: bytes) -> bytes:
    return b"\x00\x00\x00\x02ab"


def twice(frame: bytes) -> bytes:
    return frame + frame


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (shifted, "a response to 9 instead of 0"),
        (cut, "does not speak the Kafka protocol"),
        (web_server, "does not speak the Kafka protocol"),
        (too_short, "does not speak the Kafka protocol"),
        (twice, "nothing was asked for"),
    ],
)
async def test_peers_that_speak_something_else_are_left(
    ends: tuple[Connection, Peer],
    autojump_clock: MockClock,
    spoil: Callable[[bytes], bytes],
    why: str,
) -> None:
    connection, peer = ends
    promise = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
    header = await peer.next_request()
    parts: list[Any] = encode_response(
        APIS[ApiKey.METADATA], header.api_version, header.correlation_id, cluster_named("c")
    )
    await peer.stream.send_all(spoil(b"".join(parts)))
    while connection.closed_because is None:
        await trio.lowlevel.checkpoint()
    assert why in str(connection.closed_because)
    assert await peer.stream.receive_some() == b""
    assert promise.resolved


async def test_requests_without_an_answer_are_done_when_they_are_sent(
    ends: tuple[Connection, Peer], autojump_clock: MockClock
) -> None:
    connection, peer = ends
    promise = connection.submit_unanswered(ApiKey.PRODUCE, ProduceRequest(acks=0))
    assert await wait_for(promise) is None
    assert (await peer.next_request()).api_key == ApiKey.PRODUCE
    assert connection.in_flight == 0


async def test_a_peer_that_goes_away_while_we_send_is_noticed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.receive_stream.aclose()
    connection = Connection(ours, peer="b", client_id=None)
    connection.versions = dict(SPOKEN)
    await nursery.start(connection.run)
    with pytest.raises(NetworkError, match="the connection broke"):
        await connection.call(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)


async def test_a_cancelled_connection_fails_what_waits(autojump_clock: MockClock) -> None:
    ours, _theirs = memory_stream_pair()
    connection = Connection(ours, peer="b", client_id=None)
    connection.versions = dict(SPOKEN)
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)
        promise = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
        nursery.cancel_scope.cancel()
    assert isinstance(promise.value, NetworkError)


async def test_a_bell_wakes_whoever_waits_and_keeps_one_ring(autojump_clock: MockClock) -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    await bell.wait()
    await bell.wait_until(trio.current_time() + 1)
    assert trio.current_time() == 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bell.wait)
        await wait_all_tasks_blocked()
        bell.ring()


# Real sockets


async def test_nobody_listening_is_said_in_the_systems_words() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(
        NetworkError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"
    ):
        await connect(Endpoint("127.0.0.1", port), ssl_context=None, timeout_ms=5_000)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "☃.example"])
async def test_a_host_that_cannot_be_looked_up_is_an_error_of_the_network(host: str) -> None:
    with pytest.raises(NetworkError, match=f"cannot connect to {host}:9092: "):
        await connect(Endpoint(host, 9092), ssl_context=None, timeout_ms=5_000)


@pytest.mark.parametrize("host", ["", "h." * 2500 + "h"])
async def test_a_host_that_tls_cannot_ask_for_is_an_error_of_the_network(host: str) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    async with listener:
        with every_host_is_at(socket.AF_INET, ("127.0.0.1", port)), pytest.raises(NetworkError):
            await connect(
                Endpoint(host, port), ssl_context=ssl.create_default_context(), timeout_ms=5_000
            )
        with trio.fail_after(5):
            async with await listener.accept() as accepted:
                assert await accepted.receive_some() == b"", "it hung up"


async def test_tls_is_spoken_with_peers_we_trust_and_no_others(nursery: trio.Nursery) -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate = authority.issue_cert("127.0.0.1")
    certificate.configure_cert(server)  # pyright: ignore[reportUnknownMemberType]
    trusting, strange = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(trusting)  # pyright: ignore[reportUnknownMemberType]

    async def echo(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await stream.send_all(await stream.receive_some())
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await trio.open_ssl_over_tcp_listeners(0, server, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, echo, listeners)
    transport = listeners[0].transport_listener
    assert isinstance(transport, trio.SocketListener)
    port: int = transport.socket.getsockname()[1]
    endpoint = Endpoint("127.0.0.1", port)
    stream = await connect(endpoint, ssl_context=trusting, timeout_ms=5_000)
    await stream.send_all(b"hello")
    assert await stream.receive_some() == b"hello"
    await trio.aclose_forcefully(stream)
    with pytest.raises(NetworkError, match=r"no TLS with .*certificate"):
        await connect(endpoint, ssl_context=strange, timeout_ms=5_000)


async def test_a_peer_that_never_finishes_the_handshake_is_given_up(
    nursery: trio.Nursery,
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    with pytest.raises(NetworkError, match="did not answer within 50 ms"):
        await connect(
            Endpoint("127.0.0.1", port), ssl_context=ssl.create_default_context(), timeout_ms=50
        )
    await listener.aclose()


@asynccontextmanager
async def over_sockets() -> AsyncGenerator[tuple[Connection, Peer]]:
    """A connection whose tasks do not run yet."""
    ours, theirs = map(trio.socket.from_stdlib_socket, socket.socketpair())
    async with trio.SocketStream(ours) as stream, trio.SocketStream(theirs) as far:
        connection = Connection(stream, peer="broker at b:1", client_id="me")
        connection.versions = dict(SPOKEN)
        yield connection, Peer(far)


async def test_a_small_request_leaves_as_it_is_submitted() -> None:
    async with over_sockets() as (connection, peer):
        connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
        assert (await peer.next_request()).correlation_id == 0


async def test_requests_keep_their_order_when_not_all_can_leave_at_once(
    nursery: trio.Nursery,
) -> None:
    names = [MetadataRequestTopic(name="t" * size) for size in (AT_ONCE_BYTES_MAX, 1)]
    large, small = (MetadataRequest(topics=[name]) for name in names)
    async with over_sockets() as (connection, peer):
        requests = [small, large, *[small] * 1_000, large, small] * 2
        for request in requests:
            connection.submit(ApiKey.METADATA, request, timeout_ms=MINUTE_MS)
        await nursery.start(connection.run)
        headers = [await peer.next_request() for _ in requests]
        assert [header.correlation_id for header in headers] == list(range(len(requests)))
        await wait_all_tasks_blocked()
        connection.submit(ApiKey.METADATA, small, timeout_ms=MINUTE_MS)
        assert (await peer.next_request()).correlation_id == len(requests)
        connection.close("that was all")


async def test_a_small_request_to_a_peer_that_is_gone_fails(nursery: trio.Nursery) -> None:
    async with over_sockets() as (connection, peer):
        await nursery.start(connection.run)
        await peer.stream.aclose()
        promise = connection.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=MINUTE_MS)
        with pytest.raises(NetworkError):
            await wait_for(promise)
