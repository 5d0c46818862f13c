"""The metrics port over real sockets: it answers, says no, and bears with bad clients."""

import trio

from quorate.model import Endpoint
from quorate.settings import node_config
from quorate.tools.metrics_server import NodeMetrics, serving_metrics

CONFIG = node_config({"quorate.metrics.listener": "127.0.0.1:0"})


async def ask(endpoint: Endpoint, *parts: bytes) -> bytes:
    """Send a request in pieces; return everything up to the end of the connection."""
    async with await trio.open_tcp_stream(endpoint.host, endpoint.port) as stream:
        for part in parts:
            await stream.send_all(part)
        received = b""
        async for data in stream:
            received += data
        return received


async def test_a_node_answers_over_http_one_request_a_connection() -> None:
    async with serving_metrics(CONFIG, NodeMetrics("broker", 7)) as endpoint:
        assert endpoint is not None
        shown = await ask(endpoint, b"GET /metr", b"ics HTTP/1.1\r\n", b"Host: a\r\n\r\n")
        assert shown.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b'quorate_build_info{node_id="7",role="broker"' in shown
        assert b"quorate_event_loop_lag_seconds" in shown
        assert (await ask(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nok\n")
        assert (await ask(endpoint, b"HEAD /healthz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert b" 503 " in await ask(endpoint, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert b" 400 " in await ask(endpoint, b"\x16\x03\x01\r\n\r\n")


async def test_a_client_that_hangs_up_harms_nobody() -> None:
    async with serving_metrics(CONFIG, NodeMetrics("broker", 7)) as endpoint:
        assert endpoint is not None
        async with await trio.open_tcp_stream(endpoint.host, endpoint.port) as stream:
            await stream.send_all(b"GET /met")
        assert b" 200 " in await ask(endpoint, b"GET /healthz HTTP/1.1\r\n\r\n")


async def test_without_the_property_nothing_listens() -> None:
    async with serving_metrics(node_config({}), NodeMetrics("broker", 7)) as endpoint:
        assert endpoint is None
