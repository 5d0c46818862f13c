"""The little of HTTP that a metrics port speaks."""

import pytest

from quorate.tools.metrics.http import HEAD_BYTES_MAX, Asked, Told, parse_head, said


def test_a_request_is_known_once_its_head_has_ended() -> None:
    assert parse_head(b"GET /metrics HTTP/1.1\r\nHost: a\r\n") is None
    assert parse_head(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n") == Asked("/metrics")
    assert parse_head(b"HEAD / HTTP/1.0\r\n\r\n") == Asked("/", head_only=True)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01 TLS\r\n\r\n", 400),
        (b"GET / SPDY/3\r\n\r\n", 400),
        (b"a" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_what_is_no_request_is_told_so(data: bytes, status: int) -> None:
    told = parse_head(data)
    assert isinstance(told, Told)
    assert told.status == status
    assert (b"Allow: GET" in told.encoded()) == (status == 405)


def test_an_answer_says_how_long_it_is_and_that_it_is_the_last() -> None:
    told = said(503, "not ready")
    head, _, body = told.encoded().partition(b"\r\n\r\n")
    assert body == b"not ready\n"
    assert head.splitlines() == [
        b"HTTP/1.1 503 Service Unavailable",
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: 10",
        b"Connection: close",
    ]
    assert told.encoded(head_only=True).endswith(b"\r\n\r\n")
