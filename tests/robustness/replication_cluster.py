"""Three brokers and their controllers, of ours or of Kafka's, which can be ended in any way."""

import hashlib
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from quorate.jepsen.clients.wire import LATEST, Client, ClosedError, find_offset
from quorate.jepsen.lab.native import build_library
from quorate.jepsen.lab.network import REDIRECT_C, Network, Pair, free_ports
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.tools.bench.clusters import (
    BROKERS,
    FIRST_BROKER_ID,
    format_kraft_nodes,
    launch_broker,
)
from quorate.tools.bench.quorum_cluster import Quorum
from quorate.tools.log_files import batches_of, find_files, records_of
from tests.compat.peers import nodes
from tests.compat.peers.nodes import HOST, Node
from tests.robustness.replication_history import Batch, Value
from tests.robustness.replication_load import decode

DATA: Final = "data"
START_S_MAX: Final = 60.0
METADATA_VERSION: Final = 9

# Kafka's own broker cannot be told to use IPv4 otherwise, and redirect.c knows nothing else.
KAFKA_OPTIONS: Final = (
    *("-Xmx512M", "-Xms512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true", "-Dquorate.log.level=INFO"),
)


class DiedError(Exception):
    """A node ended by itself, or not as it should."""


class PartitionView(NamedTuple):
    """What a broker says of a partition."""

    leader: int
    leader_epoch: int
    in_sync: frozenset[int]


class Host:
    """A place where a node runs, is ended, and is started again over the same data.

    State: ``node``, a process unless it was ended here; whether that is paused.
    """

    def __init__(self, node_id: int, folder: Path, launch: Callable[[], Node]) -> None:
        self.node_id: Final = node_id
        self.folder: Final = folder
        self.node: Node | None = None
        self.paused = False
        self._launch = launch

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self.node is not None
        return self.node.port

    @property
    def answers(self) -> bool:
        """Whether there is a process that can be asked."""
        return self.node is not None and not self.paused

    def start(self) -> None:
        """Start a process, without waiting for it."""
        assert self.node is None
        self.node = self._launch()

    def kill(self) -> None:
        """End it with kill -9, if it runs."""
        if self.node is not None:
            self.check_alive()
            self.node.stop(by=signal.SIGKILL)
            self.node = None
            self.paused = False

    def stop(self) -> None:
        """End it properly.

        Raises:
            DiedError: it did not end, or not well.
        """
        assert self.node is not None
        node, self.node = self.node, None
        node.stop()
        if node.popen.returncode not in (0, 128 + signal.SIGTERM):  # Java's way to end well
            raise DiedError(f"{node.name} ended with {node.popen.returncode}: {node.log_tail()}")

    def pause(self) -> None:
        """Stop the process where it is; its connections stay."""
        assert self.node is not None
        self.paused = True
        self.node.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, as if no time had passed."""
        assert self.node is not None
        self.node.popen.send_signal(signal.SIGCONT)
        self.paused = False

    def wipe(self) -> None:
        """Give it an empty disk; its log stays."""
        assert self.node is None
        shutil.rmtree(self.folder / DATA)

    def check_alive(self) -> None:
        """See that the process that should run does.

        Raises:
            DiedError: it does not.
        """
        if self.node is not None and self.node.popen.poll() is not None:
            code = self.node.popen.returncode
            raise DiedError(f"{self.node.name} ended with {code}: {self.node.log_tail()}")

    def close(self) -> None:
        """End whatever runs."""
        if self.node is not None:
            self.node.stop(by=signal.SIGKILL)
            self.node = None


@dataclass(frozen=True, slots=True)
class Replicated:
    """Hosts by their place, and the network between them.

    Brokers come first in it, then controllers; Kafka's are one behind the other in one process.
    """

    brokers: tuple[Host, ...]
    controllers: tuple[Host, ...]
    network: Network
    pairs: frozenset[Pair]
    bootstrap: str

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All of them."""
        return *self.controllers, *self.brokers

    def start(self) -> None:
        """Start those that do not run; return when brokers listen."""
        for host in self.hosts:
            if host.node is None:
                host.start()
        for host in self.brokers:
            assert host.node is not None
            host.node.wait_until_it_listens(START_S_MAX)

    def isolate(self, broker: Host) -> None:
        """Cut a broker off from all controllers that are not in its own process."""
        place = self.brokers.index(broker)
        own = {place} if self.controllers else {place, place + len(self.brokers)}
        cut = {pair for pair in self.pairs if own & set(pair)}
        self.network.cut(cut | {(target, source) for source, target in cut})

    def broker(self, broker_id: int) -> Host:
        """Return a broker by its id."""
        (found,) = [host for host in self.brokers if host.node_id == broker_id]
        return found

    def views(self, topic: str) -> list[dict[int, PartitionView]]:
        """Return what each broker says that can be asked; nothing of those that have no answer."""
        asked = [host for host in self.brokers if host.answers]
        return [view for host in asked if (view := view_of(host, topic))]

    def leaders(self, topic: str) -> dict[int, int]:
        """Return who leads each partition, as the broker says that knows of the last election."""
        newest: dict[int, PartitionView] = {}
        for view in self.views(topic):
            for partition, state in view.items():
                if partition not in newest or state.leader_epoch > newest[partition].leader_epoch:
                    newest[partition] = state
        return {partition: state.leader for partition, state in newest.items()}

    def is_whole(self, topic: str) -> bool:
        """Whether all brokers agree that all replicas of all partitions are in sync."""
        views = self.views(topic)
        everybody = frozenset(host.node_id for host in self.brokers)
        return (
            len(views) == len(self.brokers)
            and all(view == views[0] for view in views)
            and all(state.in_sync == everybody for state in views[0].values())
        )

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """Return the high watermark of each partition, from its leader."""
        found: dict[int, int] = {}
        for partition, leader in self.leaders(topic).items():
            with Client(self.broker(leader).port) as client:
                found[partition] = find_offset(client, TopicPartition(topic, partition), LATEST)
        return found

    def check_alive(self) -> None:
        """See that nobody ended by itself, or told of an error of ours.

        Raises:
            DiedError: somebody did.
        """
        for host in self.hosts:
            host.check_alive()
            log = host.node.log.read_text(errors="replace") if host.node is not None else ""
            if "Traceback" in log:
                at = log.index("Traceback")
                raise DiedError(f"{host.folder.name}: {log[max(0, at - 300) : at + 3000]}")

    def stop(self) -> None:
        """Stop all properly, brokers first.

        Raises:
            DiedError: somebody did not end well.
        """
        for host in (*self.brokers, *self.controllers):
            host.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for host in self.hosts:
            host.close()
        self.network.close()


def view_of(host: Host, topic: str) -> dict[int, PartitionView] | None:
    """Return what a broker says of a topic, if it says anything."""
    try:
        with Client(host.port) as client:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            answer = client.ask(ApiKey.METADATA, METADATA_VERSION, request)
    except ClosedError:
        return None
    return {
        each.partition_index: PartitionView(
            each.leader_id, each.leader_epoch, frozenset(each.isr_nodes)
        )
        for each in answer.topics[0].partitions
    }


# --- what is on the disks


def read_batches(host: Host, topic: str, partition: int) -> list[Batch]:
    """Return the batches of a replica, from its files."""
    batches: list[Batch] = []
    for path in _segments(host, topic, partition):
        for file, placed in batches_of(path):
            header = placed.header
            digest = hashlib.sha256(file.read_at(header.size_bytes, placed.position)).digest()
            batches.append(
                Batch(header.base_offset, header.next_offset, header.leader_epoch, digest)
            )
    return batches


def read_values(host: Host, topic: str, partition: int) -> dict[int, Value]:
    """Return the values of a replica by their offsets, from its files."""
    return {
        record.offset: decode(record.value or b"")
        for path in _segments(host, topic, partition)
        for file, placed in batches_of(path)
        for record in records_of(path, file, placed)
    }


def _segments(host: Host, topic: str, partition: int) -> list[Path]:
    folders = list(host.folder.rglob(f"{topic}-{partition}"))
    return find_files(folders, [".log"]) if folders else []


# --- kinds of clusters


def quorate(work: Path, properties: Mapping[str, str]) -> Replicated:
    """Prepare three brokers and three controllers of ours."""
    ports = free_ports(2 * BROKERS)
    pairs = frozenset(product(range(BROKERS), range(BROKERS, 2 * BROKERS)))
    network = Network(ports, pairs)
    quorum = Quorum(work, ports[BROKERS:], [], properties)
    library = build_library(REDIRECT_C, work)

    def broker(place: int) -> Host:
        broker_id = FIRST_BROKER_ID + place

        def launch() -> Node:
            return launch_broker(
                work,
                broker_id,
                ports[place],
                quorum.bootstrap,
                properties=properties,
                env=_redirected(network, place, library),
            )

        return Host(broker_id, work / f"broker-{broker_id}", launch)

    def controller(place: int) -> Host:
        folder = work / f"controller-{place + 1}"
        return Host(place + 1, folder, lambda: quorum.start(place))

    return Replicated(
        tuple(map(broker, range(BROKERS))),
        tuple(map(controller, range(BROKERS))),
        network,
        pairs,
        _addresses(ports[:BROKERS]),
    )


def kafka(work: Path, properties: Mapping[str, str]) -> Replicated:
    """Prepare three nodes of Kafka, each a broker and a controller."""
    ports = free_ports(2 * BROKERS)
    pairs = frozenset((a, BROKERS + b) for a, b in permutations(range(BROKERS), 2))
    network = Network(ports, pairs)
    library = build_library(REDIRECT_C, work)
    configurations = format_kraft_nodes(work, ports[:BROKERS], ports[BROKERS:], properties)

    def node(place: int) -> Host:
        configuration = configurations[place]

        def launch() -> Node:
            return nodes.launch_kafka(
                configuration,
                port=ports[place],
                directory=configuration.parent,
                cores="",
                options=KAFKA_OPTIONS,
                env=_redirected(network, place, library),
            )

        return Host(place + 1, configuration.parent, launch)

    return Replicated(
        tuple(map(node, range(BROKERS))), (), network, pairs, _addresses(ports[:BROKERS])
    )


KINDS: Final[dict[str, Callable[[Path, Mapping[str, str]], Replicated]]] = {
    "quorate": quorate,
    "kafka": kafka,
}


def _redirected(network: Network, place: int, library: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "QUORATE_REDIRECT": network.redirects(place)}


def _addresses(ports: tuple[int, ...]) -> str:
    return ",".join(f"{HOST}:{port}" for port in ports)
