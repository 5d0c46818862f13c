"""Three controllers on this machine, with real disks, and nothing between them."""

import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from quorate.control import messages as m
from quorate.dataclass import dataclass
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.net.ports import free_ports
from quorate.tools.bench.measuring import MeasurementFailedError
from tests.compat.peers import nodes
from tests.compat.peers.nodes import Node

QUORATE = (sys.executable, "-m", "quorate.tools.cli")
CONTROLLERS = 3
FORMING_S_MAX = 30.0
SETTLE_S = 1.0
LOOK_S = 0.1
CATCH_UP_S_MAX = 120.0


def property_words(properties: Mapping[str, str]) -> list[str]:
    """Return the words of a command line that give a node properties."""
    return [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]


@dataclass(frozen=True, slots=True)
class Quorum:
    """Controllers by their place; a node that was ended stays in the list until it is replaced."""

    folder: Path
    ports: tuple[int, ...]
    nodes: list[Node]
    properties: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def bootstrap(self) -> str:
        """The addresses for brokers."""
        return ",".join(f"{nodes.HOST}:{port}" for port in self.ports)

    def start(self, place: int) -> Node:
        """Start a controller, for the first time or again, without waiting for it."""
        listen = f"{nodes.HOST}:{self.ports[place]}"
        name = f"controller-{place + 1}"
        words = ["start", "--id", str(place + 1), "--listen", listen, "--join", self.bootstrap]
        options = property_words(self.properties)
        return nodes.launch(
            name,
            [*QUORATE, "controller", *words, "--dir", str(self.folder / name), *options],
            port=self.ports[place],
            directory=self.folder / name,
            cores="",
            env=nodes.QUORATE_ENV,
        )

    def leader(self) -> int:
        """Return the place of the leader, waiting until there is one.

        Raises:
            MeasurementFailedError: there is none for a long time.
        """
        return self._describe().leader_id - 1

    def wait_until_all_have_caught_up(self) -> None:
        """Wait until every voter has what the leader has: one that was started again reads first.

        Raises:
            MeasurementFailedError: it takes too long.
        """
        deadline_s = time.monotonic() + CATCH_UP_S_MAX
        while time.monotonic() < deadline_s:
            seen = self._describe()
            if all(voter.log_end_offset >= seen.high_watermark for voter in seen.voters):
                return
            time.sleep(LOOK_S)
        raise MeasurementFailedError("a controller does not catch up")

    def _describe(self) -> m.DescribeQuorumAnswer:
        with QuorumClient(self.ports, 0) as client:
            try:
                return client.ask(
                    m.DescribeQuorum(),
                    m.DescribeQuorumAnswer,
                    request_id=b"",
                    timeout_s=FORMING_S_MAX,
                )
            except (NotDoneError, MaybeDoneError) as error:
                tails = "\n".join(node.log_tail() for node in self.nodes)
                raise MeasurementFailedError(f"no leader: {error}\n{tails}") from error

    def cpu_seconds(self) -> list[float]:
        """Return the CPU time that each has used so far."""
        return [node.cpu_seconds() for node in self.nodes]


@contextmanager
def quorum(properties: Mapping[str, str] | None = None) -> Generator[Quorum]:
    """Run three controllers on fresh disks, with all defaults but these."""
    with nodes.temporary_folder() as folder:
        running = Quorum(folder, free_ports(CONTROLLERS), [], properties or {})
        try:
            for place in range(CONTROLLERS):
                running.nodes.append(running.start(place))
            running.leader()
            time.sleep(SETTLE_S)
            yield running
        finally:
            for node in running.nodes:
                node.stop()
