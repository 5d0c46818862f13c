"""Answers to look-ups of hosts, without asking anybody."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import trio


class _Resolver(trio.abc.HostnameResolver):
    """Says of every name that it is at one address."""

    def __init__(self, family: int, address: tuple[str, int]) -> None:
        self._found = (family, socket.SOCK_STREAM, 6, "", address)

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - its name is Trio's
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        del host, port, family, type, proto, flags
        await trio.lowlevel.checkpoint()
        return [self._found]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


@contextmanager
def every_host_is_at(family: int, address: tuple[str, int]) -> Generator[None]:
    """Have every name found there, by who looks it up in this run of Trio."""
    before = trio.socket.set_custom_hostname_resolver(_Resolver(family, address))
    try:
        yield
    finally:
        trio.socket.set_custom_hostname_resolver(before)
