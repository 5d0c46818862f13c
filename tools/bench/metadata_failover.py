"""How soon another controller acts when each of three holds a very large cluster's metadata."""

import socket
import statistics
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import QuorumClient
from quorate.model import Endpoint
from quorate.quorum.metadata.features import SUPPORTED
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.quorum_cluster import quorum
from quorate.tools.bench.quorum_scenarios import CREATION_S_MAX, FailOver, scenarios
from tests.compat.peers import nodes

FAR_VERSION = 1 << 40
SESSION_MS = 600_000
BACKLOG = 1024


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


def measure(brokers: int, partitions: int, per_request: int, replicas: int) -> dict[str, float]:
    """Load the metadata through the leader's listener, then end leaders, one after the other.

    Raises:
        MeasurementFailedError: the metadata could not be loaded, or nobody took over.
    """
    figures: dict[str, float] = {}
    properties = {"broker.session.timeout.ms": str(SESSION_MS)}
    with somebody_listening() as port, quorum(properties) as running:
        begun_s = time.monotonic()
        with QuorumClient(running.ports, running.leader()) as client:
            ask = partial(client.ask, request_id=b"", timeout_s=CREATION_S_MAX)
            for broker_id in range(1, 1 + brokers):
                endpoints = {"PLAINTEXT": Endpoint(nodes.HOST, port)}
                registered = ask(
                    m.RegisterBroker(
                        broker_id,
                        uuid.uuid4().bytes,
                        endpoints,
                        directory_id=uuid.uuid4().bytes,
                        features=tuple(SUPPORTED.values()),
                    ),
                    m.RegisterBrokerAnswer,
                )
                beat = m.BrokerHeartbeat(broker_id, registered.broker_epoch, FAR_VERSION)
                ask(beat, m.BrokerHeartbeatAnswer)
            for number in range(partitions // per_request):
                topic = m.NewTopic(f"large-{number}", per_request, replicas)
                answer = ask(m.CreateTopics((topic,)), m.CreateTopicsAnswer)
                if answer.topics[0].failure.code != ErrorCode.NONE:
                    raise MeasurementFailedError(str(answer.topics[0].failure))
        figures["controllers_loaded_ms"] = 1000 * (time.monotonic() - begun_s)
        for scenario in scenarios():
            if isinstance(scenario, FailOver):
                sample = scenario.measure(running, 0.0)
                name = scenario.name.replace("-", "_")
                figures |= {f"controllers_{name}_{k}": v for k, v in sample.figures.items()}
        rss_mib = [node.memory().rss_bytes / 2**20 for node in running.nodes]
        figures["controllers_rss_mib"] = statistics.median(rss_mib)
    return figures
