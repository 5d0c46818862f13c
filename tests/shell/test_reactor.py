"""The reactor where the system refuses: no descriptors, no room, bytes that are not in memory."""

import errno
import os
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from quorate.net import reactor as reactor_module
from quorate.net.bell import Bell
from quorate.net.connection import (
    AnswerSlot,
    Connection,
    FrameRefusedError,
    Limits,
    Part,
    Service,
)
from quorate.net.reactor import (
    BUFFER_USUAL_BYTES,
    CHUNK_BYTES,
    PlainConnection,
    Reactor,
    is_cached,
    peer_name,
    read_if_short,
)
from quorate.records.slices import FileSlice

LIMITS = Limits(
    request_bytes_max=4096,
    small_request_bytes_max=4096,
    in_flight_max=2,
    in_flight_bytes_max=1 << 20,
    unsent_bytes_max=65536,
    wide_send_bytes=0,
)


class FullListener(socket.socket):
    """A listener whose process is out of file descriptors for a while."""

    refusals = 0
    asked = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


class Server:
    """A reactor whose requests a function answers, or a test later."""

    def __init__(self, answer: Callable[[bytes], Sequence[Part] | None]) -> None:
        self.answer = answer
        self.open: list[AnswerSlot] = []
        self._opened = Bell()
        self.service = Service(
            self.dispatch,
            lambda: int(trio.current_time() * 1000),
            self.end_turn,
            limits=LIMITS,
            connections_max=2,
            idle_max_ms=60_000,
        )
        self.listener = FullListener()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.setblocking(False)
        self.reactor = Reactor(self.service)
        self.reactor.listen([self.listener])

    def dispatch(self, connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        parts = self.answer(bytes(buffer[start:end]))
        slot = connection.open_slot()
        if parts is None:
            self.open.append(slot)
            self._opened.ring()
        else:
            slot.fill(parts)

    def end_turn(self) -> None:
        while self.service.answered:
            self.service.answered.pop().flush()

    async def unanswered(self, count: int) -> None:
        """Wait until so many requests came that are not answered yet."""
        while len(self.open) < count:
            await self._opened.wait()

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.listener.getsockname())


@asynccontextmanager
async def serving(
    answer: Callable[[bytes], Sequence[Part] | None],
) -> AsyncGenerator[Server, None]:
    server = Server(answer)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.reactor.run)
            yield server
            nursery.cancel_scope.cancel()


def frame(body: bytes) -> bytes:
    return struct.pack(">ih", len(body) + 8, 3) + bytes(6) + body


def echo(request: bytes) -> list[Part]:
    return [request[8:]]


def unanswered(_request: bytes) -> None:
    return None


def never_cached(_fd: int, _position: int) -> bool:
    return False


def send_for_ever(sock: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        while True:
            sock.sendall(data)


async def read(stream: trio.SocketStream, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        chunk = await stream.receive_some(size_bytes - len(data))
        assert chunk
        data += chunk
    return data


async def test_out_of_descriptors_new_connections_wait_and_the_processor_idles(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(echo) as server:
        server.listener.refusals = 3
        async with await server.connect() as stream:
            await stream.send_all(frame(b"hello"))
            assert await read(stream, 5) == b"hello"
        assert server.listener.asked <= 6
        assert caplog.text.count("had new connections wait 1 times: [Errno 24]") == 1


async def test_what_is_watched_is_called_in_turns_that_send_what_it_answers() -> None:
    async with serving(unanswered) as server:
        fd = os.eventfd(0, os.EFD_NONBLOCK)

        def answer() -> None:
            os.eventfd_read(fd)
            server.open.pop().fill([b"known by now"])

        server.reactor.watch(fd, answer)
        async with await server.connect() as stream:
            for _ in range(20):  # beside Trio, in the end
                await stream.send_all(frame(b"hello"))
                await server.unanswered(1)
                await trio.to_thread.run_sync(os.eventfd_write, fd, 1)
                assert await read(stream, 12) == b"known by now"
        os.close(fd)


@pytest.mark.parametrize("wide_send_bytes", [0, 300_000])
async def test_a_connection_is_widened_if_its_buffer_is_ours_to_choose(
    monkeypatch: pytest.MonkeyPatch, wide_send_bytes: int
) -> None:
    async with serving(unanswered) as server:
        limits = replace(LIMITS, wide_send_bytes=wide_send_bytes)
        monkeypatch.setattr(server.service, "limits", limits)
        async with await server.connect() as stream:
            await stream.send_all(frame(b"hello"))
            await server.unanswered(1)
            connection = server.open[0].connection
            assert isinstance(connection, PlainConnection)
            before = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            connection.widen()
            after = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert after >= wide_send_bytes if wide_send_bytes else after == before


async def test_connections_beyond_the_limit_are_turned_away() -> None:
    async with serving(echo) as server:
        async with await server.connect() as first, await server.connect() as second:
            for stream in (first, second):
                await stream.send_all(frame(b"hello"))
                await read(stream, 5)
            async with await server.connect() as third:
                assert await third.receive_some() == b""
        assert (server.reactor.traffic.accepted, server.reactor.traffic.refused) == (2, 1)


async def test_a_frame_that_cannot_be_closes_its_connection_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        serving(echo) as server,
        await server.connect() as stream,
        await server.connect() as other,
    ):
        await stream.send_all(struct.pack(">ihh", -1, 3, 9))
        assert await stream.receive_some() == b""
        assert "closing the connection from 127.0.0.1" in caplog.text
        await other.send_all(frame(b"hello"))
        assert await read(other, 5) == b"hello"


async def test_who_is_silent_too_long_is_disconnected_unless_an_answer_is_owed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.05
    server = Server(lambda request: None if request[8:] == b"slow" else echo(request))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.reactor.run)
        async with await server.connect() as owed, await server.connect() as silent:
            await owed.send_all(frame(b"slow"))
            await silent.send_all(frame(b"hello"))
            assert await read(silent, 5) == b"hello"
            began_s = trio.current_time()

            assert await silent.receive_some() == b""

            assert trio.current_time() - began_s >= server.service.idle_max_ms / 1000
            server.open[0].fill([b"at last"])
            server.end_turn()
            assert await read(owed, 7) == b"at last"
        nursery.cancel_scope.cancel()


def test_a_peer_that_is_gone_has_no_address() -> None:
    with socket.socket() as never_connected:
        assert peer_name(never_connected) == "a peer that is gone"


async def test_a_request_that_is_refused_once_it_is_taken_up_closes_the_connection() -> None:
    def refuse(request: bytes) -> Sequence[Part] | None:
        if request[8:] == b"bad":
            raise FrameRefusedError("no")
        return None

    async with serving(refuse) as server, await server.connect() as stream:
        await stream.send_all(frame(b"a") + frame(b"b") + frame(b"bad"))
        await server.unanswered(2)
        for slot in server.open:
            slot.fill([b"ok"])
        server.end_turn()
        assert await read(stream, 4) == b"okok"
        assert await stream.receive_some() == b""


async def test_a_large_answer_leaves_as_it_is_read() -> None:
    answer = bytes(range(256)) * (32 << 10)
    async with serving(lambda _: [answer]) as server, await server.connect() as stream:
        await stream.send_all(frame(b"all"))
        assert await read(stream, len(answer)) == answer
        await stream.send_all(frame(b"again"))
        assert await read(stream, len(answer)) == answer


async def test_who_goes_on_sending_is_sent_its_answers_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = bytes(range(256)) * (32 << 10)
    waits = frame(b"waits")
    async with serving(lambda request: [answer] if request[8:] == b"all" else []) as server:
        limits = replace(LIMITS, in_flight_max=1 << 30, unsent_bytes_max=1 << 30)
        monkeypatch.setattr(server.service, "limits", limits)

        async with await server.connect() as stream:
            await stream.send_all(frame(b"all"))
            with socket.socket(fileno=os.dup(stream.socket.fileno())) as busy, suppress(OSError):
                busy.settimeout(10)
                sends_on = threading.Thread(target=send_for_ever, args=(busy, waits * 5000))
                sends_on.start()
                try:
                    assert await read(stream, len(answer)) == answer
                    # Else what it sends is taken first, as much as comes.
                    assert server.reactor.traffic.received_bytes < len(answer) // 4
                finally:
                    busy.shutdown(socket.SHUT_RDWR)
                    sends_on.join()


async def test_who_has_sent_a_very_large_request_does_not_keep_its_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reactor_module, "SWEEP_INTERVAL_S", 0.05)
    async with serving(unanswered) as server:
        limits = replace(LIMITS, small_request_bytes_max=8 << 20, in_flight_bytes_max=16 << 20)
        monkeypatch.setattr(server.service, "limits", limits)
        async with await server.connect() as stream:
            await stream.send_all(frame(bytes(BUFFER_USUAL_BYTES)))
            await server.unanswered(1)
            slot = server.open[0]
            assert len(slot.connection.buffer) > BUFFER_USUAL_BYTES
            slot.fill([b"ok"])
            server.end_turn()
            assert await read(stream, 2) == b"ok"
            for number in range(2, 2000):
                await stream.send_all(frame(b"small"))
                await server.unanswered(number)
                server.open[-1].fill([b"ok"])
                server.end_turn()
                assert await read(stream, 2) == b"ok"
                if len(slot.connection.buffer) < BUFFER_USUAL_BYTES:
                    break
            else:
                pytest.fail("it keeps it as long as it sends anything")


async def test_who_breaks_the_connection_off_is_forgotten() -> None:
    async with serving(lambda _: None) as server:
        gone = trio.Event()
        async with await server.connect() as stream:
            await stream.send_all(frame(b"a"))
            await server.unanswered(1)
            server.open[0].on_abandoned = gone.set
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await gone.wait()
        assert server.service.connection_count == 0


async def test_who_hangs_up_is_owed_nothing_and_whoever_works_for_him_is_told() -> None:
    async with serving(lambda _: None) as server:
        gone = trio.Event()
        async with await server.connect() as stream:
            await stream.send_all(frame(b"a"))
            await server.unanswered(1)
            server.open[0].on_abandoned = gone.set
        await gone.wait()
        assert server.service.connection_count == 0
        server.open[0].fill([b"too late"])
        server.end_turn()


async def test_a_short_piece_of_a_file_leaves_with_what_stands_around_it(tmp_path: Path) -> None:
    content = os.urandom(reactor_module.SHORT_SLICE_BYTES)
    path = tmp_path / "segment"
    path.write_bytes(content + b"x")
    with path.open("rb") as file:
        short = FileSlice(file.fileno(), 0, len(content), file)
        long = FileSlice(file.fileno(), 0, len(content) + 1, file)
        parts: list[Part] = [b"head", short, b"middle", long, b"tail"]
        async with serving(lambda _: parts) as server:
            async with await server.connect() as stream:
                await stream.send_all(frame(b"a"))
                sent = b"head" + content + b"middle" + content + b"xtail"
                assert await read(stream, len(sent)) == sent
            assert server.reactor.traffic.sendfile_bytes == len(long)


@pytest.fixture
def corkings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to connections, and to files that are not in memory."""
    done: list[str] = []
    cork, pread = PlainConnection.cork, os.pread

    def noted_cork(connection: PlainConnection, *, corked: bool) -> None:
        cork(connection, corked=corked)
        option = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK)
        done.append("corked" if option else "uncorked")

    def noted_pread(fd: int, size_bytes: int, position: int) -> bytes:
        done.append("loaded")
        return pread(fd, size_bytes, position)

    monkeypatch.setattr(PlainConnection, "cork", noted_cork)
    monkeypatch.setattr(os, "pread", noted_pread)
    return done


@pytest.mark.parametrize(
    ("slices", "cold", "done"),
    [
        (1, (), []),
        (2, (), ["corked", "uncorked"]),
        (3, (), ["corked", "uncorked"]),
        (2, (1,), ["corked", "uncorked", "loaded"]),
        (3, (1,), ["corked", "uncorked", "loaded", "corked", "uncorked"]),
    ],
)
async def test_pieces_of_files_leave_in_full_packets_but_for_the_last(
    slices: int,
    cold: tuple[int, ...],
    done: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    corkings: list[str],
) -> None:
    content = os.urandom(reactor_module.SHORT_SLICE_BYTES + 1)
    path = tmp_path / "segment"
    path.write_bytes(content * slices)
    cold_at = {number * len(content) for number in cold}

    def cached(_fd: int, position: int) -> bool:
        return position not in cold_at

    monkeypatch.setattr(reactor_module, "is_cached", cached)
    with path.open("rb") as file:
        parts: list[Part] = [b"head"]
        for number in range(slices):
            at = number * len(content)
            parts += [FileSlice(file.fileno(), at, len(content), file), b"rest"]
        async with serving(lambda _: parts) as server, await server.connect() as stream:
            await stream.send_all(frame(b"a"))
            sent = b"head" + (content + b"rest") * slices
            assert await read(stream, len(sent)) == sent
    assert corkings == done


def test_only_what_is_short_and_in_memory_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")

    def cold(*_: object) -> int:
        raise BlockingIOError

    with path.open("rb") as file:
        assert read_if_short(FileSlice(file.fileno(), 2, 3, file)) == bytearray(b"234")
        assert read_if_short(FileSlice(file.fileno(), 8, 3, file)) is None
        too_long = FileSlice(file.fileno(), 0, reactor_module.SHORT_SLICE_BYTES + 1, file)
        assert read_if_short(too_long) is None
        monkeypatch.setattr(os, "preadv", cold)
        assert read_if_short(FileSlice(file.fileno(), 2, 3, file)) is None


async def test_what_was_found_in_memory_is_not_looked_for_again_while_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3 * CHUNK_BYTES)
    path = tmp_path / "segment"
    path.write_bytes(content)
    asked: list[int] = []

    def cached(_fd: int, position: int) -> bool:
        asked.append(position)
        return True

    monkeypatch.setattr(reactor_module, "is_cached", cached)
    ends = [at for n in range(3) for at in (n * CHUNK_BYTES, (n + 1) * CHUNK_BYTES - 1)]
    with path.open("rb") as file:
        slice_ = FileSlice(file.fileno(), 0, len(content), file)
        async with serving(lambda _: [slice_]) as server, await server.connect() as stream:
            for repeated in (1, 2):
                await stream.send_all(frame(b"a"))
                assert await read(stream, len(content)) == content
                assert asked == ends * repeated


async def test_bytes_that_are_not_in_memory_are_loaded_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3 << 20)
    path = tmp_path / "segment"
    path.write_bytes(content)
    monkeypatch.setattr(reactor_module, "is_cached", never_cached)

    with path.open("rb") as file:
        slice_ = FileSlice(file.fileno(), 0, len(content), file)
        async with serving(lambda _: [b"head", slice_]) as server:
            async with await server.connect() as stream:
                await stream.send_all(frame(b"a"))
                assert await read(stream, 4 + len(content)) == b"head" + content
            assert server.reactor.traffic.sendfile_bytes == len(content)


async def test_a_file_that_cannot_be_read_closes_the_connection_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"short")

    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with path.open("rb") as file:
        too_long = FileSlice(file.fileno(), 0, 100, file)
        async with serving(lambda _: [too_long]) as server:
            async with await server.connect() as stream:
                await stream.send_all(frame(b"a"))
                assert (await stream.receive_some()).ljust(5) == b"short"
                assert await stream.receive_some() == b""
            assert "the log file is shorter than its records" in caplog.text
            monkeypatch.setattr(reactor_module, "is_cached", never_cached)
            monkeypatch.setattr(os, "pread", broken)
            async with await server.connect() as stream:
                await stream.send_all(frame(b"a"))
                assert await stream.receive_some() == b""


@pytest.mark.parametrize("code", [errno.ENOBUFS, errno.ECONNRESET])
async def test_the_log_says_why_an_answer_cannot_be_sent_unless_its_peer_has_gone(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    async with serving(unanswered) as server, await server.connect() as stream:
        await stream.send_all(frame(b"a"))
        await server.unanswered(1)
        slot = server.open[0]
        assert isinstance(slot.connection, PlainConnection)
        slot.connection.sock_send = broken
        slot.fill([b"answer"])
        server.end_turn()
        assert await stream.receive_some() == b""
    assert (os.strerror(code) in caplog.text) is (code == errno.ENOBUFS)


def test_a_file_system_that_cannot_tell_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"x")

    def answering(error: OSError) -> Callable[..., int]:
        def preadv(*_: object) -> int:
            raise error

        return preadv

    with path.open("rb") as file:
        assert is_cached(file.fileno(), 0)
        monkeypatch.setattr(os, "preadv", answering(OSError(errno.EOPNOTSUPP, "cannot tell")))
        assert is_cached(file.fileno(), 0)
        monkeypatch.setattr(os, "preadv", answering(BlockingIOError()))
        assert not is_cached(file.fileno(), 0)
