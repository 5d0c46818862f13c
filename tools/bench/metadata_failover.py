"""How soon three controllers act that hold a very large cluster's metadata.

Another one, when their leader ends; and all of them, when a rack of brokers vanishes.
"""

import socket
import statistics
import threading
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from quorate.control import messages as m
from quorate.control.frames import Frame, encode_frame
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import QuorumClient
from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.features import SUPPORTED
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.quorum_cluster import SETTLE_S, Quorum, quorum
from quorate.tools.bench.quorum_scenarios import (
    CREATION_S_MAX,
    FAILOVER_S_MAX,
    FailOver,
    scenarios,
)
from tests.compat.peers import nodes

FAR_VERSION = 1 << 40
SESSION_MS = 600_000
BACKLOG = 1024
POLL_MS = 1000
BROKERS_PER_CONNECTION = 50


@contextmanager
def somebody_listening() -> Generator[int]:
    """Give a port where all brokers seem to be.

    A new leader looks for those that do not ask it for metadata, and fences whose port is closed.
    """
    with socket.create_server((nodes.HOST, 0), backlog=BACKLOG) as listener:

        def accept() -> None:
            with suppress(OSError):  # closed
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@dataclass(frozen=True, slots=True)
class Load:
    """What three controllers are given: brokers in racks, and topics of so many partitions each."""

    brokers: int
    racks: int
    partitions: int
    per_topic: int
    replicas: int

    def rack_of(self, broker_id: int) -> int:
        """Return the rack that a broker is in."""
        return broker_id % self.racks


def measure(load: Load) -> dict[str, float]:
    """Load the metadata through the leader, end leaders, one after the other, and lose a rack.

    Raises:
        MeasurementFailedError: the metadata could not be loaded, or nobody took over.
    """
    figures: dict[str, float] = {}
    properties = {"broker.session.timeout.ms": str(SESSION_MS)}
    with somebody_listening() as port, ExitStack() as rack, quorum(properties) as running:
        doomed_port = rack.enter_context(somebody_listening())
        begun_s = time.monotonic()
        _fill(running, load, (doomed_port, *[port] * (load.racks - 1)))
        figures["controllers_loaded_ms"] = 1000 * (time.monotonic() - begun_s)
        # First: later leaders would look for all the brokers, which do not ask for metadata here.
        figures |= _lose_rack(running, load, rack)
        for scenario in scenarios():
            if isinstance(scenario, FailOver):
                sample = scenario.measure(running, 0.0)
                name = scenario.name.replace("-", "_")
                figures |= {f"controllers_{name}_{k}": v for k, v in sample.figures.items()}
        rss_mib = [node.memory().rss_bytes / 2**20 for node in running.nodes]
        figures["controllers_rss_mib"] = statistics.median(rss_mib)
    return figures


def _fill(running: Quorum, load: Load, ports: Sequence[int]) -> None:
    """Register brokers, which seem to be at their racks' ports, and create topics."""
    with QuorumClient(running.ports, running.leader()) as client:
        ask = partial(client.ask, request_id=b"", timeout_s=CREATION_S_MAX)
        for broker_id in range(1, 1 + load.brokers):
            rack = load.rack_of(broker_id)
            registered = ask(
                m.RegisterBroker(
                    broker_id,
                    uuid.uuid4().bytes,
                    {"PLAINTEXT": Endpoint(nodes.HOST, ports[rack])},
                    rack=f"rack-{rack}",
                    directory_id=uuid.uuid4().bytes,
                    features=tuple(SUPPORTED.values()),
                ),
                m.RegisterBrokerAnswer,
            )
            beat = m.BrokerHeartbeat(broker_id, registered.broker_epoch, registered.broker_epoch)
            ask(beat, m.BrokerHeartbeatAnswer)
        for number in range(load.partitions // load.per_topic):
            topic = m.NewTopic(f"large-{number}", load.per_topic, load.replicas)
            answer = ask(m.CreateTopics((topic,)), m.CreateTopicsAnswer)
            if answer.topics[0].failure.code != ErrorCode.NONE:
                raise MeasurementFailedError(str(answer.topics[0].failure))


@contextmanager
def _waiting_for_metadata(port: int, brokers: Sequence[int]) -> Generator[None]:
    """Have brokers wait for metadata, as they always do; afterwards their connections end."""
    with ExitStack() as connections:
        for first in range(0, len(brokers), BROKERS_PER_CONNECTION):
            sock = connections.enter_context(socket.create_connection((nodes.HOST, port)))
            sock.sendall(encode_frame(Frame(0, m.Hello("", m.NO_NODE))))
            for broker_id in brokers[first : first + BROKERS_PER_CONNECTION]:
                news = m.FetchMetadata(FAR_VERSION, SESSION_MS, broker_id)
                sock.sendall(encode_frame(Frame(broker_id, news)))
        yield


def _lose_rack(running: Quorum, load: Load, rack: ExitStack) -> dict[str, float]:
    """Have the brokers of rack 0 vanish, and follow the metadata until all of them are fenced."""
    doomed = {b for b in range(1, 1 + load.brokers) if load.rack_of(b) == 0}
    place, moved, commands = running.leader(), 0, 0
    rack.enter_context(_waiting_for_metadata(running.ports[place], sorted(doomed)))
    time.sleep(SETTLE_S)
    with QuorumClient(running.ports, place) as client:
        ask = partial(client.ask, request_id=b"", timeout_s=FAILOVER_S_MAX)
        version = ask(m.DescribeQuorum(), m.DescribeQuorumAnswer).metadata_version
        used_s, begun_s = running.cpu_seconds()[place], time.monotonic()
        rack.close()
        while doomed and time.monotonic() < begun_s + FAILOVER_S_MAX:
            news = ask(m.FetchMetadata(version, POLL_MS), m.FetchMetadataAnswer)
            version = news.version
            for batch in news.batches:
                records = decode_batch(batch.records)
                doomed -= {f.broker_id for f in records if isinstance(f, r.BrokerFenced)}
                moved += sum(isinstance(record, r.PartitionChanged) for record in records)
                commands += 1
        took_s = time.monotonic() - begun_s
        cpu_s = running.cpu_seconds()[place] - used_s
    if doomed:
        raise MeasurementFailedError(f"{len(doomed)} brokers are not fenced")
    name = "controllers_rack_failover"
    return {
        f"{name}_ms": 1000 * took_s,
        f"{name}_leader_cpu_ms": 1000 * cpu_s,
        f"{name}_partitions": moved,
        f"{name}_commands": commands,
    }
