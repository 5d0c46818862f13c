"""Parts are sent whole and in order, through full sockets and streams that take one buffer."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import memory_stream_pair

from quorate.net.gathering import PARTS_MAX, send_parts
from quorate.protocol.frames import RequestPart

SMALL_BUFFER_BYTES = 4096


@asynccontextmanager
async def narrow_sockets() -> AsyncGenerator[tuple[trio.SocketStream, trio.SocketStream]]:
    """Two ends between which little fits."""
    ends = socket.socketpair()
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    ours, theirs = map(trio.socket.from_stdlib_socket, ends)
    async with trio.SocketStream(ours) as near, trio.SocketStream(theirs) as far:
        yield near, far


def parts_of_all_sizes(rng: Random) -> list[RequestPart]:
    """More than leave at once, some empty, some larger than what fits between two sockets."""
    parts: list[RequestPart] = []
    for _ in range(3 * PARTS_MAX):
        data = rng.randbytes(rng.choice((0, 1, 7, 500, 500, 20_000)))
        parts.append(rng.choice((bytes, bytearray, memoryview))(data))
    return parts


async def read_to_end(stream: trio.abc.ReceiveStream) -> bytes:
    received = bytearray()
    async for chunk in stream:
        received += chunk
    return bytes(received)


@pytest.mark.parametrize("seed", range(5))
async def test_parts_arrive_in_order_through_a_socket_that_takes_few_bytes(seed: int) -> None:
    parts = parts_of_all_sizes(Random(seed))
    received = bytearray()
    async with narrow_sockets() as (near, far), trio.open_nursery() as nursery:

        async def read() -> None:
            received.extend(await read_to_end(far))

        nursery.start_soon(read)
        await send_parts(near, parts)
        await near.aclose()
    assert received == b"".join(parts)


async def test_parts_arrive_in_order_through_any_other_stream() -> None:
    parts = parts_of_all_sizes(Random(1))
    near, far = memory_stream_pair()
    await send_parts(near, parts)
    await near.aclose()
    assert await read_to_end(far) == b"".join(parts)


async def test_a_peer_that_is_gone_is_a_broken_stream() -> None:
    async with narrow_sockets() as (near, far):
        await far.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await send_parts(near, [b"a", b"b"])


async def test_a_socket_that_was_closed_here_is_one_too() -> None:
    async with narrow_sockets() as (near, _):
        await near.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await send_parts(near, [b"a", b"b"])
