"""Which ports the nodes of a new cluster may have: free ones that no other command has chosen."""

import socket
from typing import Final

from quorate.tools.clusters.layout import HOST

CLAIM: Final = "\0quorate-port-{}"
"""The name of a claim: of an abstract socket, which goes with the process that has it."""


class PortClaims:
    """Owns the ports that this process has chosen for nodes, until it is closed.

    A node listens seconds after its port was found free. So that commands which start clusters at
    the same time do not choose the same ones, each claims those that it chooses.
    """

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}

    def claim(self, port: int) -> bool:
        """Whether a node could listen on a port now, and nobody else has chosen it: it is ours."""
        if not _is_free(port):
            return False
        if port in self._claims:
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(CLAIM.format(port))
        except OSError:
            claim.close()
            return False
        self._claims[port] = claim
        return True

    def close(self) -> None:
        """Let go of all of them."""
        while self._claims:
            self._claims.popitem()[1].close()


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
