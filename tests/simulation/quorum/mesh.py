"""Who is connected to whom, as the processes come to know it: what TCP would tell them."""

from random import Random

from tests.simulation.quorum.network import Link, Network
from tests.simulation.quorum.process import Process
from tests.simulation.timeline import Timeline

DIAL_MIN_S, DIAL_MAX_S = 0.02, 0.3
NOTICED_MAX_S = 2.0


class Mesh:
    """Owns the connections: each process dials every other for its own messages.

    A reset is noticed after a while, then the process dials again until somebody answers.
    """

    def __init__(self, timeline: Timeline, rng: Random, network: Network) -> None:
        self._timeline = timeline
        self._rng = rng
        self._network = network
        self._running = dict[int, Process]()
        self._connections = dict[Link, Process]()
        self._unnoticed = set[Link]()
        network.when_reset = self._broken

    def started(self, process: Process) -> None:
        self._running[process.key.node_id] = process
        for host in sorted(self._running):
            if host != process.key.node_id:
                self._dial_soon(process, host)
                self._dial_soon(self._running[host], process.key.node_id)

    def ended(self, process: Process) -> None:
        gone = process.key.node_id
        del self._running[gone]
        self._unnoticed = {link for link in self._unnoticed if link.source != gone}
        for link in sorted(self._connections):
            if link.source == gone:
                del self._connections[link]
            elif link.target == gone:
                self._network.reset(link)
                self._broken(link)

    def _broken(self, link: Link) -> None:
        peer = self._connections.pop(link, None)
        process = self._running.get(link.source)
        if peer is not None and process is not None:
            self._unnoticed.add(link)
            noticed_s = self._rng.uniform(0, NOTICED_MAX_S)
            self._timeline.after(noticed_s, lambda: self._noticed(link, process, peer))

    def _noticed(self, link: Link, process: Process, peer: Process) -> None:
        if process.alive:
            self._unnoticed.remove(link)
            process.peer_disconnected(peer.key)
            self._dial_soon(process, peer.key.node_id)

    def _dial_soon(self, process: Process, host: int) -> None:
        delay_s = self._rng.uniform(DIAL_MIN_S, DIAL_MAX_S)
        self._timeline.after(delay_s, lambda: self._dial(process, host))

    def _dial(self, process: Process, host: int) -> None:
        link = Link(process.key.node_id, host)
        peer = self._running.get(host)
        if not process.alive or peer is None:
            return  # whoever starts there is dialled then
        if link in self._connections or link in self._unnoticed:
            return
        if self._network.fifo and not self._network.passes(link):
            self._dial_soon(process, host)
            return
        self._connections[link] = peer
        process.peer_connected(peer.key)
