"""Who may have which port."""

import socket
from contextlib import closing

from quorate.tools.clusters.layout import HOST
from quorate.tools.port_claims import PortClaims


def test_a_port_that_another_has_chosen_is_not_chosen_until_that_one_lets_go_of_it() -> None:
    with closing(PortClaims()) as first, closing(PortClaims()) as second:
        port = next(port for port in range(15_000, 30_000) if first.claim(port))
        assert first.claim(port)  # it may ask again
        assert not second.claim(port)
        first.close()
        assert second.claim(port)


def test_a_port_that_somebody_listens_on_is_nobodys() -> None:
    with socket.create_server((HOST, 0)) as listener, closing(PortClaims()) as claims:
        assert not claims.claim(listener.getsockname()[1])
