"""How soon another controller acts when each of three holds a very large cluster's metadata."""

import statistics
import time
import uuid
from functools import partial

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.model import Endpoint
from quorate.quorum.metadata.features import SUPPORTED
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.quorum_cluster import quorum
from quorate.tools.bench.quorum_scenarios import CREATION_S_MAX, FailOver, scenarios
from tests.compat.peers import nodes
from tests.robustness.quorum_client import QuorumClient

FAR_VERSION = 1 << 40
SESSION_MS = 600_000


def measure(brokers: int, partitions: int, per_request: int, replicas: int) -> dict[str, float]:
    """Load the metadata through the leader's listener, then end leaders, one after the other.

    Raises:
        MeasurementFailedError: the metadata could not be loaded, or nobody took over.
    """
    figures: dict[str, float] = {}
    with quorum({"broker.session.timeout.ms": str(SESSION_MS)}) as running:
        begun_s = time.monotonic()
        with QuorumClient(running.ports, running.leader()) as client:
            ask = partial(client.ask, request_id=b"", timeout_s=CREATION_S_MAX)
            for broker_id in range(1, 1 + brokers):
                endpoints = {"PLAINTEXT": Endpoint(nodes.HOST, broker_id)}
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
