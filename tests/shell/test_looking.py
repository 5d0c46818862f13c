"""Whether nobody listens at an address any more: only who says so counts."""

import socket
from typing import Any

import pytest
import trio

from quorate.model import Endpoint
from quorate.net.looking import all_refuse


@pytest.mark.parametrize("host", ["broker1..example.com", "x" * 64, "☃.example"])
async def test_a_host_that_cannot_be_looked_up_does_not_say_that_nobody_listens(host: str) -> None:
    assert not await all_refuse([Endpoint(host, 9092)])


class _Resolver(trio.abc.HostnameResolver):
    """Says of every name that it is at an address of a family that no kernel here has."""

    async def getaddrinfo(self, *_args: object) -> Any:
        await trio.lowlevel.checkpoint()
        return [(socket.AF_APPLETALK, socket.SOCK_STREAM, 6, "", ("address", 1))]

    async def getnameinfo(self, *_args: object) -> Any:
        raise NotImplementedError


async def test_a_host_that_we_have_no_socket_for_does_not_say_that_nobody_listens() -> None:
    before = trio.socket.set_custom_hostname_resolver(_Resolver())
    try:
        assert not await all_refuse([Endpoint("far.example", 9092)])
    finally:
        trio.socket.set_custom_hostname_resolver(before)
