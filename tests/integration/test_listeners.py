"""The reactor and the TLS server over real sockets: order, back pressure, files, limits."""

# pyright: reportUnknownMemberType=false

import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
import trustme

from quorate.errors import NetworkError
from quorate.model import Endpoint
from quorate.net import reactor, rpc, tls
from quorate.net.connection import FRESH_BUFFER_BYTES, Connection, Limits, Part, Service
from quorate.net.reactor import Reactor
from quorate.net.tls import TlsServer
from quorate.records.slices import FileSlice

pytestmark = pytest.mark.integration

LIMITS = Limits(
    request_bytes_max=8 << 20,
    small_request_bytes_max=4096,
    in_flight_max=8,
    in_flight_bytes_max=1 << 20,
    unsent_bytes_max=65536,
    wide_send_bytes=0,
)

Answerer = Callable[[bytes], list[Part]]


class Server:
    """A listener whose requests are answered by a function, in the turn in which they come."""

    def __init__(self, answer: Answerer, *, connections_max: int, idle_max_ms: int) -> None:
        self.answer = answer
        self.service = Service(
            self.dispatch,
            self.begin_turn,
            self.end_turn,
            limits=LIMITS,
            connections_max=connections_max,
            idle_max_ms=idle_max_ms,
        )
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.reactor: Reactor | None = None
        self.in_turn = False
        self.last: Connection | None = None
        self.clients: list[trio.SocketStream] = []

    def begin_turn(self) -> int:
        self.in_turn = True
        return int(trio.current_time() * 1000)

    def dispatch(self, connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        assert self.in_turn, "a request would be served at the time of some earlier turn"
        self.last = connection
        connection.open_slot().fill(self.answer(bytes(buffer[start:end])))

    def end_turn(self) -> None:
        while self.service.answered:
            self.service.answered.pop().flush()
        self.in_turn = False

    async def run(self, context: ssl.SSLContext | None) -> None:
        if context is None:
            self.reactor = Reactor(self.service)
            self.reactor.listen([self.listener])
            await self.reactor.run()
        else:
            sock = trio.socket.from_stdlib_socket(self.listener)
            await TlsServer([trio.SocketListener(sock)], context, self.service).run()


@asynccontextmanager
async def serving(
    answer: Answerer,
    *,
    context: ssl.SSLContext | None = None,
    connections_max: int = 10,
    idle_max_ms: int = 60_000,
) -> AsyncGenerator[Server]:
    server = Server(answer, connections_max=connections_max, idle_max_ms=idle_max_ms)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, context)
            yield server
            for client in server.clients:
                await trio.aclose_forcefully(client)
            nursery.cancel_scope.cancel()


def frame(body: bytes) -> bytes:
    return struct.pack(">ih", len(body) + 2, 0) + body


def echo(request: bytes) -> list[Part]:
    return [request[2:]]


async def read_exactly(stream: trio.abc.ReceiveStream, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        chunk = await stream.receive_some()
        assert chunk, f"closed after {len(data)} of {size_bytes} bytes"
        data += chunk
    return bytes(data)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is the point
        await trio.sleep(0.01)


async def connect(server: Server) -> trio.SocketStream:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    server.clients.append(stream)
    return stream


async def assert_closed(stream: trio.abc.ReceiveStream) -> None:
    with suppress(trio.BrokenResourceError):  # cut off without a goodbye
        assert await stream.receive_some() == b""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(params=["plain", "tls"])
def contexts(
    request: pytest.FixtureRequest, authority: trustme.CA
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    if request.param == "plain":
        return None, None
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


Contexts = tuple[ssl.SSLContext | None, ssl.SSLContext | None]


async def open_stream(server: Server, contexts: Contexts) -> trio.abc.Stream:
    stream = await connect(server)
    if contexts[1] is None:
        return stream
    return trio.SSLStream(stream, contexts[1], server_hostname="127.0.0.1")


async def test_pipelined_requests_are_answered_in_order(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        sent = [b"%010d" % index for index in range(500)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"".join(map(frame, sent)))
            assert await read_exactly(stream, 5000) == b"".join(sent)


async def test_a_request_of_megabytes_arrives_whole(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        body = os.urandom(5 << 20)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, frame(body))
            assert await read_exactly(stream, len(body)) == body


async def test_file_slices_are_sent_between_other_parts(tmp_path: Path, contexts: Contexts) -> None:
    path = tmp_path / "log"
    content = os.urandom(3 << 20)
    path.write_bytes(content)
    with path.open("rb") as file:
        fd = file.fileno()

        def answer(_request: bytes) -> list[Part]:
            return [b"head", FileSlice(fd, 100, 2 << 20, file), b"tail"]

        async with serving(answer, context=contexts[0]) as server:
            stream = await open_stream(server, contexts)
            await stream.send_all(frame(b"12345678") * 2)
            expected = b"head" + content[100 : 100 + (2 << 20)] + b"tail"
            assert await read_exactly(stream, 2 * len(expected)) == expected * 2
            if server.reactor is not None:
                assert server.reactor.traffic.sendfile_bytes == 2 * (2 << 20)


async def test_file_bytes_that_are_not_in_memory_are_loaded_off_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "log"
    content = os.urandom(4 << 20)
    path.write_bytes(content)
    with path.open("r+b") as file:
        fd = file.fileno()
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        async with serving(lambda _: [FileSlice(fd, 0, len(content), file)]) as server:
            stream = await connect(server)
            await stream.send_all(frame(b"12345678"))
            assert await read_exactly(stream, len(content)) == content


async def test_a_peer_that_does_not_read_is_not_read_from_and_loses_nothing(
    contexts: Contexts,
) -> None:
    answered = 0

    def answer(_request: bytes) -> list[Part]:
        nonlocal answered
        answered += 1
        return [bytes(100_000)]

    async with serving(answer, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        requests = 400
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, frame(b"12345678") * requests)
            await trio.sleep(0.3)
            assert answered < requests, "answers piled up although nobody took them"
            assert await read_exactly(stream, requests * 100_000) == bytes(requests * 100_000)
        assert answered == requests


async def test_who_sends_many_requests_that_take_long_lets_others_have_their_turns(
    contexts: Contexts,
) -> None:
    slow = 0

    def answer(request: bytes) -> list[Part]:
        nonlocal slow
        if request.endswith(b"slow"):
            slow += 1
            time.sleep(0.01)  # the loop is what it takes
        return echo(request)

    async with serving(answer, context=contexts[0]) as server:
        other = await open_stream(server, contexts)
        await other.send_all(frame(b"-- quick"))
        assert await read_exactly(other, 8) == b"-- quick"
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"---- slow") * 100)
        await until(lambda: slow > 0)
        await other.send_all(frame(b"-- quick"))
        assert await read_exactly(other, 8) == b"-- quick"
        assert slow < 20
        assert await read_exactly(stream, 900) == b"---- slow" * 100


async def test_a_frame_that_is_refused_closes_the_connection(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await assert_closed(stream)


async def test_a_flood_of_connections_that_are_closed_does_not_fill_the_log(
    contexts: Contexts, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, context=contexts[0]) as server:
        for _ in range(40):
            stream = await open_stream(server, contexts)
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await assert_closed(stream)
            await until(lambda: server.service.connection_count == 0)
    assert caplog.text.count("closing the connection from 127.0.0.1") == 10


async def test_a_silent_connection_is_closed(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0], idle_max_ms=200) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678"))
        assert await read_exactly(stream, 8) == b"12345678"
        await assert_closed(stream)


async def test_a_peer_that_takes_no_answers_is_given_up(contexts: Contexts) -> None:
    answer: list[Part] = [bytes(8 << 20)]
    async with serving(lambda _: answer, context=contexts[0], idle_max_ms=200) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678"))
        while not server.service.connection_count:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.01)
        while server.service.connection_count:  # noqa: ASYNC110 - nor here
            await trio.sleep(0.01)


async def test_a_file_that_cannot_be_read_costs_its_reader_the_connection(
    tmp_path: Path, contexts: Contexts
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"records")
    with path.open("wb") as file:  # not for reading
        lost = FileSlice(file.fileno(), 0, 100_000, file)
        answers: dict[bytes, list[Part]] = {b"lost----": [lost], b"echo----": [b"echo----"]}
        async with serving(lambda sent: answers[sent[2:]], context=contexts[0]) as server:
            other = await open_stream(server, contexts)
            stream = await open_stream(server, contexts)
            await stream.send_all(frame(b"lost----"))
            await assert_closed(stream)
            await other.send_all(frame(b"echo----"))
            assert await read_exactly(other, 8) == b"echo----"


async def test_connections_beyond_the_maximum_are_closed_at_once(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0], connections_max=1) as server:
        first = await open_stream(server, contexts)
        await first.send_all(frame(b"12345678"))
        await read_exactly(first, 8)
        second = await connect(server)
        await assert_closed(second)
        await first.send_all(frame(b"87654321"))
        assert await read_exactly(first, 8) == b"87654321"
        await trio.aclose_forcefully(first)
        while server.service.connection_count:  # noqa: ASYNC110 - nobody tells when it is closed
            await trio.sleep(0.01)
        third = await open_stream(server, contexts)
        await third.send_all(frame(b"12345678"))
        assert await read_exactly(third, 8) == b"12345678"


async def test_a_peer_that_resets_takes_nobody_with_it(contexts: Contexts) -> None:
    async with serving(lambda _: [bytes(1 << 20)], context=contexts[0]) as server:
        other = await open_stream(server, contexts)
        for _ in range(20):
            stream = await open_stream(server, contexts)
            await stream.send_all(frame(b"12345678") * 5)
            reset = struct.pack("ii", 1, 0)
            client = server.clients[-1]
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.socket.close()
        await other.send_all(frame(b"12345678"))
        assert await read_exactly(other, 1 << 20) == bytes(1 << 20)


async def test_a_turn_ends_even_if_a_frame_is_refused_behind_others(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678") + b"GET / HTTP/1.1\r\n\r\n")
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        assert not server.in_turn


async def test_a_connection_can_be_hung_up_from_here(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678"))
        assert await read_exactly(stream, 8) == b"12345678"
        assert server.last is not None
        server.last.hang_up()
        await assert_closed(stream)
        assert server.service.connection_count == 0


async def test_a_peer_that_takes_no_answers_can_be_hung_up_on_too(contexts: Contexts) -> None:
    async with serving(lambda _: [bytes(8 << 20)], context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678"))
        await until(lambda: server.last is not None and server.last.unsent_bytes > 0)
        assert server.last is not None
        server.last.hang_up()
        await until(lambda: server.service.connection_count == 0)


async def test_the_buffer_of_who_is_silent_is_given_back(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactor, "SWEEP_INTERVAL_S", 0.1)
    monkeypatch.setattr(tls, "SWEEP_INTERVAL_S", 0.1)
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(bytes(1 << 20)))
        await read_exactly(stream, 1 << 20)
        assert server.last is not None
        connection = server.last
        assert len(connection.buffer) > 1 << 20
        await until(lambda: len(connection.buffer) == FRESH_BUFFER_BYTES)
        await stream.send_all(frame(b"12345678"))
        assert await read_exactly(stream, 8) == b"12345678"


async def test_requests_that_waited_while_bytes_were_loaded_are_served_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(100_000))

    def never(_fd: int, _position: int) -> bool:
        return False

    monkeypatch.setattr(reactor, "is_cached", never)
    with path.open("rb") as file:
        parts: list[Part] = [b"head", FileSlice(file.fileno(), 0, 100_000, file)]
        async with serving(lambda _: parts) as server:
            stream = await connect(server)
            requests = LIMITS.in_flight_max + 2
            await stream.send_all(frame(b"12345678") * requests)
            assert len(await read_exactly(stream, requests * 100_004)) == requests * 100_004


async def test_what_was_answered_before_a_frame_that_is_refused_is_sent(contexts: Contexts) -> None:
    async with serving(echo, context=contexts[0]) as server:
        stream = await open_stream(server, contexts)
        await stream.send_all(frame(b"12345678") + b"GET / HTTP/1.1\r\n\r\n")
        assert await read_exactly(stream, 8) == b"12345678"
        await assert_closed(stream)


VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shown", ["nothing", "a foreign certificate"])
async def test_who_shows_no_certificate_that_is_trusted_is_told_so_and_so_is_the_log(
    authority: trustme.CA, version: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    stranger = ssl.create_default_context()
    authority.configure_trust(stranger)
    stranger.minimum_version = stranger.maximum_version = VERSIONS[version]
    if shown != "nothing":
        trustme.CA().issue_cert("stranger").configure_cert(stranger)
    async with serving(echo, context=context) as server:
        stream = trio.SSLStream(await connect(server), stranger, server_hostname="127.0.0.1")
        with pytest.raises(trio.BrokenResourceError) as raised:
            await stream.receive_some()
        reason = getattr(raised.value.__cause__, "reason", raised.value.__cause__)
        assert "ALERT" in str(reason)
        await until(lambda: server.service.connection_count == 0)
    assert "refused 1 new connections: no TLS with 127.0.0.1" in caplog.text


async def test_who_goes_during_the_handshake_is_no_news(
    authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(echo, context=context) as server:
        await trio.aclose_forcefully(await connect(server))
        stream = await connect(server)
        await stream.send_all(b"\x16\x03\x01")
        await stream.send_eof()
        while await stream.receive_some():
            pass
    assert not caplog.records


async def test_a_server_hears_why_a_client_does_not_trust_it(
    authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(echo, context=context) as server:
        with pytest.raises(NetworkError, match="certificate verify failed"):
            await rpc.connect(
                Endpoint("127.0.0.1", server.port),
                ssl_context=ssl.create_default_context(),
                timeout_ms=5_000,
            )
        await until(lambda: server.service.connection_count == 0)
    assert "alert unknown ca" in caplog.text
