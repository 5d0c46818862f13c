"""Records how Apache Kafka loses records with acks=1, as a history for the log checker.

``python -m tests.robustness.kafka_loss HISTORY``

Three nodes of Kafka, producers and readers of the harness's append workload.  Followers are stopped
for a moment, so that a leader alone has what it acknowledges; then it is killed, and one of them
leads.  That is no bug of Kafka: it is what acks=1 means.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from quorate.jepsen.clients.wire import Client, create_topic
from quorate.jepsen.history import Kind
from quorate.jepsen.judging import allowed_for
from quorate.jepsen.lab.against import Against
from quorate.jepsen.recorder import NEMESIS, Recorder, Scribe
from quorate.jepsen.workloads.append import APPEND
from quorate.jepsen.workloads.workload import Context, TopicOptions, Workload
from tests.compat.peers import java
from tests.robustness.replication_cluster import Replicated, kafka

SEED: Final = 1
BROKERS: Final = 3
PARTITIONS: Final = 2
RATE_PER_S: Final = 20
TOPIC: Final = "append"
PROPERTIES: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "600",
    "auto.create.topics.enable": "false",
}
ALONE_S: Final = 1.0
CALM_S: Final = 1.5
STATE_S_MAX: Final = 90.0
POLL_S: Final = 0.05


def header() -> dict[str, Any]:
    """Return what the history says of itself."""
    return {
        "seed": SEED,
        "workloads": [APPEND.name],
        "faults": ["sleeping followers, killed leader"],
        "version": f"Apache Kafka {java.KAFKA_VERSION}",
        "brokers": BROKERS,
        "controllers": BROKERS,
        "replication_factor": BROKERS,
        "min_insync": 1,
        "acks": "1",
        "idempotent": False,
        "client": "own",
        "against": True,
        "durability": "page-cache",
        "allowed": allowed_for(acks="1", idempotent=False),
        "quotas": {},
    }


def wait(is_so: Callable[[], bool], what: str) -> None:
    """Wait for a state."""
    deadline_s = time.monotonic() + STATE_S_MAX
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(POLL_S)


def lose(cluster: Replicated, scribe: Scribe) -> None:
    """Let a leader alone acknowledge records, and kill it before anybody else has them."""
    victim = cluster.broker(cluster.leaders(TOPIC)[0])
    others = [host for host in cluster.brokers if host is not victim]
    name = f"broker-{victim.node_id}"
    scribe.begin("fault", {"fault": "kill:leader", "targets": [name], "detail": {}})
    for host in others:
        host.pause()
    time.sleep(ALONE_S)
    victim.kill()
    for host in others:
        host.resume()
    wait(lambda: cluster.leaders(TOPIC).get(0, -1) in {h.node_id for h in others}, "no leader")
    scribe.end(Kind.OK, "fault", {"verified": "another leads"})
    scribe.begin("heal", {"fault": "kill:leader"})
    cluster.start()
    wait(lambda: cluster.is_whole(TOPIC), "not all replicas are in sync")
    scribe.end(Kind.OK, "heal", {})


def record(cluster: Replicated, path: Path, folder: Path) -> None:
    """Run the workload, lose something, and write it all down."""
    recorder = Recorder(path, header())
    options = TopicOptions(PARTITIONS, BROKERS, {"min.insync.replicas": "1"})
    context = Context(
        bootstrap=cluster.bootstrap,
        recorder=recorder,
        rng=Random(SEED),
        client="own",
        rate_per_s=RATE_PER_S,
        acks="1",
        topic_options=options,
        lab=Against(cluster.bootstrap),
        folder=folder,
    )
    workload: Workload = APPEND.make(context)
    scribe = Scribe(recorder, NEMESIS)
    scribe.tell("phase", "load")
    workload.start()
    time.sleep(CALM_S)
    lose(cluster, scribe)
    time.sleep(CALM_S)
    workload.stop()
    scribe.tell("phase", "final")
    workload.final()
    workload.close()
    assert not workload.errors(), workload.errors()
    scribe.tell("phase", "end")
    recorder.close()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.kafka_loss", description=__doc__)
    parser.add_argument("history", type=Path)
    path = parser.parse_args().history
    with tempfile.TemporaryDirectory() as work, kafka(Path(work), PROPERTIES) as cluster:
        cluster.start()

        def is_created() -> bool:
            with Client(cluster.brokers[0].port) as client:
                code = create_topic(client, TOPIC, PARTITIONS, {}, replicas=BROKERS)
            return code == 0

        wait(is_created, "the topic cannot be created")
        wait(lambda: cluster.is_whole(TOPIC), "not all replicas are in sync")
        record(cluster, path, Path(work))


if __name__ == "__main__":
    main()
