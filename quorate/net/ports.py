"""Which ports nodes on this machine may have: free ones that no other command has chosen."""

import socket
from random import SystemRandom
from typing import Final

LOOPBACK: Final = "127.0.0.1"
UNASSIGNED: Final = range(10_000, 32_000)
"""Ports below those that the system takes for outgoing connections (Linux: from 32768 on)."""
CLAIM: Final = "\0quorate-port-{}"
"""The name of a claim: of an abstract socket, which goes with the process that has it."""
CLAIMS_MAX: Final = 256
"""Of a process; a claim has to last until the node listens."""


class PortClaims:
    """Owns the ports that this process has chosen for nodes, the last CLAIMS_MAX of them.

    A node listens seconds after its port was found free. So that commands which start clusters at
    the same time do not choose the same ones, each claims those that it chooses.
    """

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}

    def claim(self, port: int) -> bool:
        """Whether a node could listen on a port now, and nobody had chosen it: now we have."""
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(CLAIM.format(port))
        except OSError:
            claim.close()
            return False
        if not is_free(port):  # asked only now: to ask takes the port from others who do
            claim.close()
            return False
        if len(self._claims) == CLAIMS_MAX:
            self._claims.pop(next(iter(self._claims))).close()
        self._claims[port] = claim
        return True

    def close(self) -> None:
        """Let go of all of them."""
        while self._claims:
            self._claims.popitem()[1].close()


def is_free(port: int) -> bool:
    """Whether somebody could listen on a port now."""
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True


_CLAIMS: Final = PortClaims()


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that nobody listens on, and that nobody who asks here is given meanwhile.

    Raises:
        OSError: there are not so many.
    """
    ports: list[int] = []
    for port in SystemRandom().sample(UNASSIGNED, len(UNASSIGNED)):
        if _CLAIMS.claim(port):
            ports.append(port)
        if len(ports) == count:
            return tuple(ports)
    raise OSError(f"there are no {count} free ports on {LOOPBACK}")
