"""Whether nobody listens at an address any more: only who says so counts."""

import socket

import pytest

from quorate.model import Endpoint
from quorate.net.looking import all_refuse
from tests.resolving import every_host_is_at


@pytest.mark.parametrize("host", ["broker1..example.com", "x" * 64, "☃.example"])
async def test_a_host_that_cannot_be_looked_up_does_not_say_that_nobody_listens(host: str) -> None:
    assert not await all_refuse([Endpoint(host, 9092)])


async def test_a_host_that_we_have_no_socket_for_does_not_say_that_nobody_listens() -> None:
    family = socket.AF_APPLETALK  # of which no kernel here is
    with every_host_is_at(family, ("address", 1)):
        assert not await all_refuse([Endpoint("far.example", 9092)])
