import trio
from trio.testing import wait_all_tasks_blocked

from quorate.net.exchange import Exchange
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import FrameBuffer, encode_response, read_request_header
from quorate.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

VERSIONS = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=3, max_version=3)]
)
LARGE_NAME = "x" * (4 << 20)
"""More than a socket takes at once that nobody reads from."""


async def answer(stream: trio.abc.Stream, requests: int) -> list[int]:
    """Answer so many requests; return how large they were."""
    frames = FrameBuffer(64 << 20)
    sizes: list[int] = []
    while len(sizes) < requests:
        while (frame := frames.next_frame()) is None:
            frames.feed(await stream.receive_some())
        header, _ = read_request_header(frame, 0, len(frame))
        sizes.append(len(frame))
        api = APIS[header.api_key]
        parts = encode_response(api, header.api_version, header.correlation_id, VERSIONS)
        await stream.send_all(b"".join(map(bytes, parts)))  # type: ignore[arg-type]  # no files
    return sizes


async def connected() -> tuple[Exchange, trio.SocketStream]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    host, port = listener.socket.getsockname()[:2]
    stream = await trio.open_tcp_stream(host, port)
    theirs = await listener.accept()
    await listener.aclose()
    return Exchange(stream, peer="them", client_id="us"), theirs


async def test_requests_that_the_socket_has_no_room_for_leave_whole_and_in_order() -> None:
    exchange, theirs = await connected()
    sizes: list[int] = []

    async def read() -> None:
        sizes.extend(await answer(theirs, 4))

    async def send(name: str) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        await exchange.send(ApiKey.API_VERSIONS, request)

    async with theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, theirs, 1)
            await exchange.negotiate((ApiKey.API_VERSIONS,))
        async with trio.open_nursery() as nursery:
            for name in (LARGE_NAME, "small", LARGE_NAME, "small, too"):
                nursery.start_soon(send, name)  # all but the first have to wait for others
                await wait_all_tasks_blocked()
            nursery.start_soon(read)
            answers = [await exchange.receive() for _ in range(4)]

    await exchange.close()
    assert answers == [VERSIONS] * 4
    assert sizes[0] == sizes[2] > len(LARGE_NAME) > sizes[3] > sizes[1]
