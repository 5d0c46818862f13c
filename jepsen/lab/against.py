"""Somebody else's cluster: clients and the watcher see it, faults have no hold on it."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from quorate.errors import QuorateError
from quorate.jepsen.lab import views
from quorate.jepsen.lab.cluster import ClusterView
from quorate.jepsen.lab.hosts import Host, NeverCameUpError
from quorate.model import Endpoint

ANSWER_S_MAX: Final = 10.0
AGAIN_S: Final = 0.2
NO_HOST: Final[Host | None] = None


class AddressError(QuorateError):
    """What was given is no list of ``host:port``."""


class Against:
    """A cluster that runs already; it is never started, stopped or broken by us.

    State: the brokers that it had when somebody last asked.
    """

    def __init__(self, bootstrap: str) -> None:
        """Find its brokers.

        Raises:
            AddressError: these are no addresses.
            NeverCameUpError: nobody answers.
        """
        self._bootstrap = bootstrap
        self._eyes = views.Eyes()
        self._known = _endpoints(bootstrap)
        self._count = 0
        self._find_brokers()

    @property
    def bootstrap(self) -> str:
        """The addresses that were given."""
        return self._bootstrap

    @property
    def brokers(self) -> Sequence[Host]:
        """None that we could act on."""
        return ()

    @property
    def controllers(self) -> Sequence[Host]:
        """None that we could act on."""
        return ()

    @property
    def equipment(self) -> None:
        """Nothing of ours lies below it."""
        return

    @property
    def broker_count(self) -> int:
        """How many brokers it had."""
        return self._count

    def start(self) -> None:
        """Do nothing: it runs."""

    def view(self) -> ClusterView:
        """Return what its brokers say now."""
        said = self._look()
        controller = self._eyes.quorum_leader(self._known)
        return views.merged(said, controller)

    def host(self, node_id: int) -> Host | None:
        """Return nobody."""
        del node_id
        return NO_HOST

    def leader_of(self, partition: str) -> Host | None:
        """Return nobody."""
        del partition
        return NO_HOST

    def isr_of(self, partition: str) -> list[Host]:
        """Return nobody."""
        del partition
        return []

    def active_controller(self) -> Host | None:
        """Return nobody."""
        return NO_HOST

    def coordinator_of(self, group: str) -> Host | None:
        """Return nobody."""
        del group
        return NO_HOST

    def is_whole(self, topics: Iterable[str]) -> bool:
        """Whether all brokers agree that all replicas of these topics are in sync."""
        return views.are_whole(self._look(), topics, len(self._known))

    def check_alive(self) -> None:
        """Do nothing: its processes are not ours."""

    def stop(self) -> None:
        """Do nothing: it goes on."""

    def close(self) -> None:
        """Hang up."""
        self._eyes.close()

    def _look(self) -> list[views.BrokerSaid]:
        said = self._eyes.look(self._known)
        if said:
            found = {endpoint for each in said for endpoint in each.brokers.values()}
            self._known = sorted(found, key=lambda endpoint: (endpoint.host, endpoint.port))
        return said

    def _find_brokers(self) -> None:
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while not (said := self._look()):
            if time.monotonic() > deadline_s:
                raise NeverCameUpError(f"no broker answers at {self._bootstrap}")
            time.sleep(AGAIN_S)
        self._count = max(len(each.brokers) for each in said)


def _endpoints(bootstrap: str) -> list[Endpoint]:
    found: list[Endpoint] = []
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise AddressError(f"{text!r} is no host:port")
        found.append(Endpoint(host, int(port)))
    return found
