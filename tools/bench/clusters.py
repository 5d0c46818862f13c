"""Three brokers on this machine, of ours or of Kafka's, and what all their processes cost."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import quorate
from quorate.dataclass import dataclass
from quorate.net.ports import free_ports
from quorate.tools.bench.quorum_cluster import QUORATE, property_words, quorum
from tests.compat.peers import java, nodes, process
from tests.compat.peers.nodes import HOST, Node

BROKERS = 3
FIRST_BROKER_ID = 101


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running processes; clients know the brokers, the costs are those of all."""

    brokers: tuple[Node, ...]
    controllers: tuple[Node, ...]

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(node.bootstrap for node in self.brokers)

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        return sum(node.cpu_seconds() for node in (*self.brokers, *self.controllers))

    def memory(self) -> process.Memory:
        """Return the resident memory."""
        each = [node.memory() for node in (*self.brokers, *self.controllers)]
        return process.Memory(sum(m.rss_bytes for m in each), sum(m.rss_bytes_max for m in each))

    def log_tail(self) -> str:
        """Return the last lines of those that have ended."""
        ended = [n for n in (*self.brokers, *self.controllers) if n.popen.poll() is not None]
        return "\n".join(f"{node.name} ended:\n{node.log_tail()}" for node in ended)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cluster, which can be started any number of times."""

    name: str
    version: str
    running: Callable[[], AbstractContextManager[Cluster]]


def kinds(*, with_kafka: bool) -> list[Kind]:
    """Return ours, and Kafka's; raises PeerUnavailableError where it cannot be had."""
    ours = Kind("quorate", quorate.__version__, three_brokers_and_three_controllers)
    if not with_kafka:
        return [ours]
    java.kafka_folder()
    return [ours, Kind("kafka", java.KAFKA_VERSION, three_kraft_nodes)]


@contextmanager
def three_brokers_and_three_controllers() -> Generator[Cluster]:
    """Run six processes of ours, with all defaults."""
    with quorum() as controllers, ExitStack() as stack:
        ports = free_ports(BROKERS)
        brokers: list[Node] = []
        for n, port in enumerate(ports):
            broker_id = FIRST_BROKER_ID + n
            brokers.append(
                launch_broker(
                    controllers.folder,
                    broker_id,
                    port,
                    controllers.bootstrap,
                    properties={},
                    env={},
                )
            )
            stack.callback(brokers[-1].stop)
        _wait_for_all(brokers)
        yield Cluster(tuple(brokers), tuple(controllers.nodes))


def _wait_for_all(brokers: list[Node]) -> None:
    for broker in brokers:
        broker.wait_until_it_listens(nodes.START_TIMEOUT_S)


def launch_broker(
    folder: Path,
    broker_id: int,
    port: int,
    controllers: str,
    *,
    properties: Mapping[str, str],
    env: Mapping[str, str],
) -> Node:
    """Start a broker, for the first time or again, without waiting for it."""
    name = f"broker-{broker_id}"
    words = ["--id", str(broker_id), "--port", str(port), "--controllers", controllers]
    words += ["--dir", str(folder / name / "data"), *property_words(properties)]
    return nodes.launch(
        name,
        [*QUORATE, "broker", "start", *words],
        port=port,
        directory=folder / name,
        cores="",
        env={**nodes.QUORATE_ENV, **env},
    )


@contextmanager
def three_kraft_nodes() -> Generator[Cluster]:
    """Run three nodes of Kafka, each a broker and a controller, with all defaults."""
    with nodes.temporary_folder() as folder, ExitStack() as stack:
        ports, controller_ports = free_ports(BROKERS), free_ports(BROKERS)
        configurations = format_kraft_nodes(folder, ports, controller_ports, {})
        brokers: list[Node] = []
        for port, configuration in zip(ports, configurations, strict=True):
            brokers.append(
                nodes.launch_kafka(
                    configuration, port=port, directory=configuration.parent, cores=""
                )
            )
            stack.callback(brokers[-1].stop)
        _wait_for_all(brokers)
        yield Cluster(tuple(brokers), ())


def format_kraft_nodes(
    folder: Path,
    ports: Sequence[int],
    controller_ports: Sequence[int],
    properties: Mapping[str, str],
) -> list[Path]:
    """Format nodes of Kafka with ids from 1 on, each a broker and a controller.

    Returns their configurations, in folders named by the ids.
    """
    voters = ",".join(f"{n + 1}@{HOST}:{port}" for n, port in enumerate(controller_ports))
    cluster_id = nodes.new_cluster_id()
    return [
        nodes.format_kafka(
            folder / str(n + 1),
            port=port,
            properties={"node.id": str(n + 1), "controller.quorum.voters": voters, **properties},
            controller_port=controller_ports[n],
            cluster_id=cluster_id,
        )
        for n, port in enumerate(ports)
    ]
