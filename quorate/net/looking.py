"""Trio shell: finds out that nobody listens at an address any more."""

import errno
import socket
from collections.abc import Iterable

import trio

from quorate.model import Endpoint

LOOK_S = 1.0
"""Whoever takes longer may be slow, or far away: that says nothing."""


async def all_refuse(endpoints: Iterable[Endpoint]) -> bool:
    """Return whether the hosts are there and say at once that nobody listens at the endpoints.

    A killed process's host says so. Silence says nothing, nor does a host that nobody knows.
    """
    known = list(endpoints)
    return bool(known) and all([await _refuses(endpoint) for endpoint in known])


async def _refuses(endpoint: Endpoint) -> bool:
    with trio.move_on_after(LOOK_S):
        try:
            addresses = await trio.socket.getaddrinfo(
                endpoint.host, endpoint.port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):  # nobody knows the host, or nobody can
            return False
        return all([await _address_refuses(family, address) for family, *_, address in addresses])
    return False


async def _address_refuses(family: int, address: tuple[object, ...]) -> bool:
    try:
        # Already this fails where there is no such family, or no descriptor left: that is about us.
        with trio.socket.socket(family, socket.SOCK_STREAM) as sock:
            await sock.connect(address)
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return False
