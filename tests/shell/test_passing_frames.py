import random
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from quorate.net import passing_frames
from quorate.net.passing_frames import FRESH_BYTES, WORTH_WAKING_BYTES, PassingFrames
from quorate.protocol.primitives import DecodeError

BYTES_MAX = 4 << 20


@asynccontextmanager
async def ends(kind: str) -> AsyncGenerator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    """Give who reads and who writes, over a socket or over memory."""
    reads: trio.abc.Stream
    writes: trio.abc.Stream
    if kind == "memory":
        reads, writes = memory_stream_pair()
    else:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listener.socket.getsockname()[:2]
        reads = await trio.open_tcp_stream(host, port)
        writes = await listener.accept()
        await listener.aclose()
    async with reads, writes:
        yield reads, writes


KINDS = pytest.mark.parametrize("kind", ["memory", "socket"])


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def next_body(reader: PassingFrames) -> bytes:
    frame = await reader.next_frame()
    assert frame is not None
    buffer, begin, end = frame
    return bytes(buffer[begin:end])


@KINDS
@pytest.mark.parametrize("seed", range(3))
async def test_frames_of_any_size_come_whole_and_in_order_however_they_are_cut(
    kind: str, seed: int
) -> None:
    chance = random.Random(seed)
    sizes = [0, 1, FRESH_BYTES - 4, FRESH_BYTES, WORTH_WAKING_BYTES + 5, 3 << 20, 7, 0]
    bodies = [chance.randbytes(size) for size in sizes for _ in range(2)]
    chance.shuffle(bodies)
    sent = b"".join(map(framed, bodies))

    async def write(stream: trio.abc.Stream) -> None:
        position = 0
        while position < len(sent):
            size_bytes = chance.choice([1, 3, 5000, 70_000, 2 << 20])
            await stream.send_all(sent[position : position + size_bytes])
            position += size_bytes

    async with ends(kind) as (reads, writes), trio.open_nursery() as nursery:
        nursery.start_soon(write, writes)
        reader = PassingFrames(reads, BYTES_MAX)

        for body in bodies:
            assert await next_body(reader) == body


@KINDS
async def test_a_frame_stays_where_it_is_until_the_next_one_is_asked_for(kind: str) -> None:
    async with ends(kind) as (reads, writes):
        reader = PassingFrames(reads, BYTES_MAX)
        await writes.send_all(framed(b"first") + framed(b"second") + b"\0\0")

        frame = await reader.next_frame()
        assert frame is not None
        buffer, begin, end = frame
        view = memoryview(buffer)[begin:end]

        assert bytes(view) == b"first"
        assert await next_body(reader) == b"second"


@KINDS
async def test_large_frames_use_one_buffer_again_and_again(kind: str) -> None:
    async with ends(kind) as (reads, writes), trio.open_nursery() as nursery:
        reader = PassingFrames(reads, BYTES_MAX)
        nursery.start_soon(writes.send_all, 3 * framed(bytes(1 << 20)))

        buffers = [frame[0] for _ in range(3) if (frame := await reader.next_frame()) is not None]

        assert len(buffers) == 3
        assert buffers[0] is buffers[1] is buffers[2]


async def test_a_size_that_is_announced_takes_no_memory_before_something_comes() -> None:
    async with ends("memory") as (reads, writes):
        reader = PassingFrames(reads, BYTES_MAX)
        await writes.send_all(struct.pack(">i", BYTES_MAX) + b"little")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.next_frame)
            await wait_all_tasks_blocked()

            assert reader.memory_bytes == FRESH_BYTES
            nursery.cancel_scope.cancel()


async def test_a_large_buffer_is_given_back_when_frames_have_been_small_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passing_frames, "SMALL_FRAMES_MAX", 5)
    async with ends("memory") as (reads, writes):
        reader = PassingFrames(reads, BYTES_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writes.send_all, framed(bytes(1 << 20)))
            await next_body(reader)
        large = reader.memory_bytes

        sizes: list[int] = []
        for number in range(8):
            await writes.send_all(framed(bytes([number])))
            assert await next_body(reader) == bytes([number])
            sizes.append(reader.memory_bytes)

        assert large > 1 << 20
        assert sizes[0] == large
        assert sizes[-1] == FRESH_BYTES


@pytest.mark.parametrize(
    ("missing_bytes", "expected"),
    [
        (FRESH_BYTES - 1, 1),
        (FRESH_BYTES, FRESH_BYTES),
        (2 * WORTH_WAKING_BYTES, 2 * WORTH_WAKING_BYTES),
        (2 * WORTH_WAKING_BYTES + 1, WORTH_WAKING_BYTES),
    ],
)
async def test_the_end_of_a_large_frame_is_not_woken_up_for_by_itself(
    missing_bytes: int, expected: int
) -> None:
    async with ends("socket") as (reads, _):
        assert isinstance(reads, trio.SocketStream)
        reader = PassingFrames(reads, BYTES_MAX)
        reader._wake_for(reads, missing_bytes)  # pyright: ignore[reportPrivateUsage]
        assert reads.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == expected


@KINDS
@pytest.mark.parametrize("size_bytes", [-1, BYTES_MAX + 1])
async def test_an_impossible_size_is_refused(kind: str, size_bytes: int) -> None:
    async with ends(kind) as (reads, writes):
        await writes.send_all(struct.pack(">i", size_bytes))

        with pytest.raises(DecodeError, match=f"{size_bytes} bytes"):
            await PassingFrames(reads, BYTES_MAX).next_frame()


@KINDS
@pytest.mark.parametrize("begun", [b"", b"\0\0", struct.pack(">i", 10) + b"half"])
async def test_a_stream_that_ends_within_a_frame_has_ended(kind: str, begun: bytes) -> None:
    async with ends(kind) as (reads, writes):
        await writes.send_all(begun + b"")
        await writes.aclose()

        assert await PassingFrames(reads, BYTES_MAX).next_frame() is None


async def test_a_connection_that_was_reset_is_broken() -> None:
    async with ends("socket") as (reads, writes):
        assert isinstance(writes, trio.SocketStream)
        writes.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await writes.aclose()

        with pytest.raises(trio.BrokenResourceError):
            await PassingFrames(reads, BYTES_MAX).next_frame()


async def test_a_connection_that_is_closed_here_is_no_longer_read() -> None:
    async with ends("socket") as (reads, _writes), trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await PassingFrames(reads, BYTES_MAX).next_frame()

        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        await reads.aclose()
