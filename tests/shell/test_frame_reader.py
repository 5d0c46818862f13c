"""Frames come whole, in order, and into memory of their own if they are large."""

import platform
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from quorate.net import frame_reader
from quorate.net.frame_reader import KEPT_BYTES_MAX, LARGE_BYTES, RECEIVE_BYTES, FrameReader
from quorate.protocol.primitives import DecodeError

FRAME_BYTES_MAX = 64 << 20
SIZES = (1, LARGE_BYTES, 3, 5 * LARGE_BYTES, 0, KEPT_BYTES_MAX + 1, LARGE_BYTES + 7, 70_000, 2)


def framed(size_bytes: int) -> bytes:
    content = (size_bytes % 251).to_bytes(1, "big") * size_bytes
    return size_bytes.to_bytes(4, "big") + content


@asynccontextmanager
async def pair() -> AsyncGenerator[tuple[trio.SocketStream, FrameReader]]:
    ours, theirs = map(trio.socket.from_stdlib_socket, socket.socketpair())
    async with trio.SocketStream(theirs) as sending, trio.SocketStream(ours) as receiving:
        yield sending, FrameReader(receiving, FRAME_BYTES_MAX)


async def next_bytes(reader: FrameReader) -> bytes:
    frame = await reader.next_frame()
    assert frame is not None
    return bytes(frame)


async def test_frames_of_all_sizes_come_in_order() -> None:
    async with pair() as (sending, reader), trio.open_nursery() as nursery:
        nursery.start_soon(sending.send_all, b"".join(map(framed, SIZES)))
        for size in SIZES:
            assert await next_bytes(reader) == framed(size)[4:]
        await sending.aclose()
        assert await reader.next_frame() is None


async def test_memory_is_filled_again_once_nobody_has_a_view_into_it() -> None:
    sizes = [2 * LARGE_BYTES + n for n in (0, 100, 50, 100)]
    frames: list[bytearray] = []
    views: list[memoryview] = []
    async with pair() as (sending, reader), trio.open_nursery() as nursery:
        nursery.start_soon(sending.send_all, b"".join(map(framed, sizes)))
        for size in sizes:
            frame = await reader.next_frame()
            assert frame is not None
            assert frame == framed(size)[4:]
            frames.append(frame)
            if len(frames) == 2:
                views[0].release()
            views.append(memoryview(frame)[10:20])
    assert frames[1] is not frames[0]
    assert frames[2] is frames[0]
    assert frames[3] is not frames[1]
    for size, view in zip(sizes[1:], views[1:], strict=True):
        assert view == framed(size)[14:24]


@pytest.mark.parametrize("size", [0, 3, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES])
@pytest.mark.parametrize("piece", [1, 2, 100, 1 << 20])
async def test_what_follows_a_large_frame_may_be_of_any_size_and_come_in_pieces(
    size: int, piece: int
) -> None:
    follow = framed(size) + framed(5)
    async with pair() as (sending, reader), trio.open_nursery() as nursery:
        nursery.start_soon(sending.send_all, framed(2 * LARGE_BYTES))
        assert await next_bytes(reader) == framed(2 * LARGE_BYTES)[4:]
        waiting_for: list[bytes] = []

        async def receive() -> None:
            waiting_for.append(await next_bytes(reader))
            waiting_for.append(await next_bytes(reader))

        nursery.start_soon(receive)
        for begin in (0, piece):
            await wait_all_tasks_blocked()
            await sending.send_all(follow[begin : begin + piece])
        nursery.start_soon(sending.send_all, follow[2 * piece :])
    assert waiting_for == [framed(size)[4:], framed(5)[4:]]


async def send_and_end(sending: trio.SocketStream, what: bytes) -> None:
    await sending.send_all(what)
    await sending.aclose()


async def test_the_end_of_the_stream_behind_a_large_frame() -> None:
    for part in (b"", framed(LARGE_BYTES)[:3], framed(LARGE_BYTES)[:-1]):
        async with pair() as (sending, reader), trio.open_nursery() as nursery:
            nursery.start_soon(send_and_end, sending, framed(LARGE_BYTES) + part)
            assert await next_bytes(reader) == framed(LARGE_BYTES)[4:]
            assert await reader.next_frame() is None


async def test_of_a_large_frame_all_that_it_lacks_is_waited_for_and_then_any_byte() -> None:
    lacking = 1_000
    async with pair() as (sending, reader), trio.open_nursery() as nursery:
        whole = framed(LARGE_BYTES)
        nursery.start_soon(next_bytes, reader)
        await sending.send_all(whole[:-lacking])
        await wait_all_tasks_blocked(0.01)
        assert wakes_for_bytes(reader) == lacking
        await sending.send_all(whole[-lacking:])
        await wait_all_tasks_blocked(0.01)
        assert wakes_for_bytes(reader) == 1


def wakes_for_bytes(reader: FrameReader) -> int:
    assert isinstance(reader.stream, trio.SocketStream)
    size_bytes = reader.stream.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
    assert isinstance(size_bytes, int)
    return size_bytes


async def test_others_get_their_turn_while_a_large_frame_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_reader, "TURN_BYTES", 10_000)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with pair() as (sending, reader), trio.open_nursery() as nursery:
        await sending.send_all(framed(LARGE_BYTES))
        nursery.start_soon(take_turns)
        await next_bytes(reader)
        # Who comes first in a turn of the loop is chance: the last of theirs may be still to come.
        assert turns >= (LARGE_BYTES - RECEIVE_BYTES) // 10_000 - 1
        nursery.cancel_scope.cancel()


async def test_being_cancelled_loses_nothing() -> None:
    whole = framed(LARGE_BYTES + 1)
    async with pair() as (sending, reader):
        for begin in range(0, len(whole), 50_000):
            with trio.move_on_after(0.001) as waiting:
                await reader.next_frame()
            assert waiting.cancelled_caught
            await sending.send_all(whole[begin : begin + 50_000])
        assert await next_bytes(reader) == whole[4:]


async def test_a_connection_that_ends_or_is_closed_within_a_frame() -> None:
    part = framed(2 * LARGE_BYTES)[:100_000]
    async with pair() as (sending, reader):
        await sending.send_all(part)
        await sending.aclose()
        assert await reader.next_frame() is None
    async with pair() as (sending, reader):
        await sending.send_all(part)
        with trio.move_on_after(0.001):
            await reader.next_frame()
        await trio.aclose_forcefully(reader.stream)
        with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
            await reader.next_frame()


async def test_a_connection_that_breaks_within_a_frame() -> None:
    listener = trio.socket.socket()
    await listener.bind(("127.0.0.1", 0))
    listener.listen()
    async with await trio.open_tcp_stream(*listener.getsockname()) as sending:
        theirs, _ = await listener.accept()
        listener.close()
        async with trio.SocketStream(theirs) as receiving:
            reader = FrameReader(receiving, FRAME_BYTES_MAX)
            await sending.send_all(framed(2 * LARGE_BYTES)[:100_000])
            with trio.move_on_after(0.001):
                await reader.next_frame()
            reset = struct.pack("ii", 1, 0)
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            await sending.aclose()
            with pytest.raises(trio.BrokenResourceError):
                await reader.next_frame()


async def test_what_is_no_frame_ends_it() -> None:
    async with pair() as (sending, reader):
        await sending.send_all((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        with pytest.raises(DecodeError):
            await reader.next_frame()


KEEPING = """
import resource
from quorate.net import frame_reader

frame_reader.have_memory_kept()
for _ in range(20):
    records = [bytes(1_000 + n % 9) for n in range(1_000)]
    if _ == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del records
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others have rules of their own")
def test_memory_that_records_took_is_kept_for_the_next_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1_000  # pages; 18 times a megabyte would be 4,600 of them
