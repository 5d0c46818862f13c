"""Who may have which port."""

import socket
from contextlib import closing

from quorate.net.ports import CLAIMS_MAX, LOOPBACK, UNASSIGNED, PortClaims, free_ports


def test_a_port_that_another_has_chosen_is_not_chosen_until_that_one_lets_go_of_it() -> None:
    with closing(PortClaims()) as first, closing(PortClaims()) as second:
        port = next(port for port in UNASSIGNED if first.claim(port))
        assert not first.claim(port)
        assert not second.claim(port)
        first.close()
        assert second.claim(port)


def test_a_port_that_somebody_listens_on_is_nobodys() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener, closing(PortClaims()) as claims:
        assert not claims.claim(listener.getsockname()[1])


def test_only_the_newest_claims_are_kept() -> None:
    with closing(PortClaims()) as first, closing(PortClaims()) as second:
        ports = [port for port in UNASSIGNED[: 2 * CLAIMS_MAX] if first.claim(port)]
        assert len(ports) > CLAIMS_MAX
        assert not second.claim(ports[-1])
        assert not second.claim(ports[-CLAIMS_MAX])
        assert second.claim(ports[-CLAIMS_MAX - 1])


def test_no_port_is_given_out_twice_although_nobody_listens_on_it() -> None:
    given = [port for _ in range(20) for port in free_ports(4)]
    assert len(set(given)) == 80
    with closing(PortClaims()) as others:
        assert not any(others.claim(port) for port in given)
