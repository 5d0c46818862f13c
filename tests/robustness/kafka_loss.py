"""Records how Apache Kafka loses records with acks=1, as a history for the log checker.

``python -m tests.robustness.kafka_loss HISTORY``

Three nodes of Kafka, producers and readers of the harness's append workload.  Followers are stopped
for a moment, so that a leader alone has what it acknowledges; then it is killed, and one of them
leads.  That is no bug of Kafka: it is what acks=1 means.
"""

import argparse
import signal
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
from quorate.jepsen.lab.cluster import NOBODY, PartitionView
from quorate.jepsen.recorder import NEMESIS, Recorder, Scribe
from quorate.jepsen.workloads.append import APPEND
from quorate.jepsen.workloads.workload import Context, TopicOptions, Workload
from quorate.tools.bench.clusters import Cluster, three_kraft_nodes
from tests.compat.peers import java

SEED: Final = 1
BROKERS: Final = 3
PARTITIONS: Final = 2
RATE_PER_S: Final = 20
TOPIC_OPTIONS: Final = TopicOptions(PARTITIONS, BROKERS, {"min.insync.replicas": "1"})
PARTITION: Final = f"{APPEND.name}-0"
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


def lose(cluster: Cluster, lab: Against, scribe: Scribe) -> None:
    """Let a leader alone acknowledge records, and kill it before anybody else has them."""
    leader_id = lab.view().partitions[PARTITION].leader
    victim = cluster.brokers[leader_id - 1]  # nodes are numbered from 1 on
    others = [node for node in cluster.brokers if node is not victim]
    value: dict[str, Any] = {"fault": "kill:leader", "targets": [victim.name], "detail": {}}
    scribe.begin("fault", value)
    for node in others:
        node.popen.send_signal(signal.SIGSTOP)
    time.sleep(ALONE_S)
    victim.stop(by=signal.SIGKILL)
    for node in others:
        node.popen.send_signal(signal.SIGCONT)
    wait(lambda: leader_of(lab) not in (NOBODY, leader_id), "nobody else leads")
    alive = frozenset(range(1, BROKERS + 1)) - {leader_id}
    wait(lambda: {state.in_sync for state in ours(lab)} == {alive}, "not both others are in sync")
    scribe.end(Kind.OK, "fault", {"verified": "another leads"})
    scribe.begin("heal", {"fault": "kill:leader"})
    scribe.end(Kind.OK, "heal", {})  # two are enough for the rest


def ours(lab: Against) -> list[PartitionView]:
    """Return what is said of the workload's partitions."""
    return [state for name, state in lab.view().partitions.items() if name.startswith(APPEND.name)]


def leader_of(lab: Against) -> int:
    """Return who leads, as those say who know of the last election."""
    state = lab.view().partitions.get(PARTITION)
    return NOBODY if state is None else state.leader


def record(cluster: Cluster, path: Path, folder: Path) -> None:
    """Run the workload, lose something, and write it all down."""
    lab = Against(cluster.bootstrap)
    recorder = Recorder(path, header())
    context = Context(
        bootstrap=cluster.bootstrap,
        recorder=recorder,
        rng=Random(SEED),
        client="own",
        rate_per_s=RATE_PER_S,
        acks="1",
        topic_options=TOPIC_OPTIONS,
        lab=lab,
        folder=folder,
    )
    workload: Workload = APPEND.make(context)
    scribe = Scribe(recorder, NEMESIS)
    scribe.tell("phase", "load")
    workload.start()
    time.sleep(CALM_S)
    lose(cluster, lab, scribe)
    time.sleep(CALM_S)
    workload.stop()
    scribe.tell("phase", "final")
    workload.final()
    workload.close()
    assert not workload.errors(), workload.errors()
    scribe.tell("phase", "end")
    recorder.close()
    lab.close()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.kafka_loss", description=__doc__)
    parser.add_argument("history", type=Path)
    path = parser.parse_args().history
    with tempfile.TemporaryDirectory() as folder, three_kraft_nodes() as cluster:
        topic = TOPIC_OPTIONS.topic(APPEND.name)

        def is_created() -> bool:
            with Client(cluster.brokers[0].port) as client:
                code = create_topic(client, topic.name, PARTITIONS, {}, replicas=BROKERS)
            return code == 0

        wait(is_created, "the topic cannot be created")
        whole = Against(cluster.bootstrap)
        wait(lambda: whole.is_whole([topic.name]), "not all replicas are in sync")
        whole.close()
        record(cluster, path, Path(folder))


if __name__ == "__main__":
    main()
