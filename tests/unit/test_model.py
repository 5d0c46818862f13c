"""What can be the host and the port of an endpoint, and what cannot."""

import pytest

from quorate.model import Endpoint, is_host

NO_HOSTS = [
    "", "a..b", ".a", ".", "x" * 64 + ".example", "h." * 126 + "hh", "h." * 2500 + "h", "é" * 63,
    "\ud800", "a\0b", "a b", "a\nb",
]  # fmt: skip
"""None of these can be looked up; with most of them, trying to ends in an error of its own."""


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_cannot_be_encoded_is_no_host(text: str) -> None:
    assert not is_host(text)
    assert not Endpoint(text, 9092).can_be_dialed


@pytest.mark.parametrize(
    "text",
    [
        "localhost", "broker-1.example.com", "broker_1", "example.com.", "x" * 63 + ".example",
        "h." * 126 + "h", "bücher.example", "127.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1",
    ],
)  # fmt: skip
def test_names_and_addresses_are_hosts(text: str) -> None:
    assert is_host(text)
    assert Endpoint(text, 9092).can_be_dialed


@pytest.mark.parametrize(
    ("port", "possible"), [(-1, False), (0, False), (1, True), (65_535, True), (65_536, False)]
)
def test_somebody_may_listen_at_ports_from_1_to_65535(port: int, possible: bool) -> None:
    assert Endpoint("localhost", port).can_be_dialed is possible
