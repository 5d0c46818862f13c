"""`python -m quorate.tools.bench.groups`: groups on this machine, beside Apache Kafka's.

Members are plain sockets in this process, the same for both; each sample has fresh brokers.
"""

import statistics
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.net.ports import free_ports
from quorate.protocol.apis import ApiKey
from quorate.protocol.consumer_protocol import Subscription, encode_assignment, encode_subscription
from quorate.protocol.messages.groups import ListGroupsRequest
from quorate.tools.bench import command_line, figures, group_load, topics
from quorate.tools.bench.clusters import (
    BROKERS,
    Cluster,
    format_kraft_nodes,
    three_brokers_and_three_controllers,
)
from quorate.tools.bench.command import allow_many_connections
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.group_load import Wire, answer, checked, exchange, framed
from quorate.tools.bench.measuring import (
    Bench,
    MeasurementFailedError,
    generator,
    run_generator,
    wait_until_quiet,
)
from quorate.tools.bench.runner import FAILURES
from quorate.tools.bench.topics import Address
from tests.compat.peers import java, nodes
from tests.compat.peers.nodes import Node

CONSOLE_COLUMNS = 160
GROUP: Final = "bench"
TOPIC: Final = "bench"
SETTLE_S: Final = 1.0
HEARD_S: Final = 0.02
"""Enough for a request to arrive before others that are sent later, usually."""
LIST_GROUPS: Final = 4
PREPARING: Final = "PreparingRebalance"
WARM_UPS: Final = 100
CONSUME_S: Final = 60
FAILOVER_TIMEOUT_S: Final = 120.0

ALIKE: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "8"}
"""What `quorate up` does by itself: for measurements, nobody waits for more members."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Whose brokers: one alone, and three of them."""

    name: str
    version: str
    node: Callable[[], AbstractContextManager[Node]]
    cluster: Callable[[], AbstractContextManager[Cluster]]


@contextmanager
def kafka_cluster() -> Generator[Cluster]:
    """Run three nodes of Kafka that keep groups on all three."""
    with nodes.temporary_folder() as folder, ExitStack() as stack:
        ports, controller_ports = free_ports(BROKERS), free_ports(BROKERS)
        settings = {"offsets.topic.replication.factor": "3"}
        brokers: list[Node] = []
        for port, file in zip(
            ports, format_kraft_nodes(folder, ports, controller_ports, settings), strict=True
        ):
            brokers.append(nodes.launch_kafka(file, port=port, directory=file.parent, cores=""))
            stack.callback(brokers[-1].stop)
        for broker in brokers:
            broker.wait_until_it_listens(nodes.START_TIMEOUT_S)
        yield Cluster(tuple(brokers), ())


def kinds(*, with_kafka: bool) -> list[Kind]:
    """Return ours, and Kafka's; raises PeerUnavailableError where it cannot be had."""
    ours = Kind("quorate", quorate.__version__, nodes.quorate, three_brokers_and_three_controllers)
    if not with_kafka:
        return [ours]
    java.kafka_folder()
    alone = partial(nodes.kafka, properties=ALIKE)
    return [ours, Kind("kafka", java.KAFKA_VERSION, alone, kafka_cluster)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to be measured on each kind."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Kind, Bench], dict[str, float]]


# --- a rebalance --------------------------------------------------------------


def rebalances(members: int, partitions: int, kind: Kind, bench: Bench) -> dict[str, float]:
    """Have the leader ask for a rebalance again and again; time it until the last has synced."""
    with kind.node() as node, ExitStack() as stack:
        address = Address.parse(node.bootstrap)
        topics.create_topic(node.bootstrap, TOPIC, partitions=partitions, config={})
        group_load.coordinator_of(address, GROUP)
        wires = [Wire(address) for _ in range(members)]
        for wire in wires:
            stack.callback(wire.close)
        metadata = encode_subscription(Subscription((TOPIC,)))
        # A new coordinator may move once more; who has committed knows that it stays.
        group_load.commit(wires[0], group_load.commit_body(GROUP, TOPIC, [0], 0))
        ids = [_join_alone(wires[0], metadata)]
        ids += [_told_id(wire, metadata) for wire in wires[1:]]
        bodies = [group_load.join_body(GROUP, member_id, metadata) for member_id in ids]
        joins = [framed(ApiKey.JOIN_GROUP, group_load.JOIN, body) for body in bodies]
        took_ms: list[float] = []
        cpu_s = node.cpu_seconds()
        end_s = time.monotonic() + bench.seconds + bench.warmup_s
        while time.monotonic() < end_s or len(took_ms) < 5:
            took_ms.append(_rebalance(wires, joins, partitions))
        cpu_ms = 1e3 * (node.cpu_seconds() - cpu_s) / len(took_ms)
    took_ms = took_ms[len(took_ms) // 4 :]  # JVMs warm up
    return {"p50_ms": statistics.median(took_ms), "p99_ms": max(took_ms), "cpu_ms": cpu_ms}


def _told_id(wire: Wire, metadata: bytes) -> str:
    told = wire.ask(ApiKey.JOIN_GROUP, group_load.JOIN, group_load.join_body(GROUP, "", metadata))
    if told.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        raise MeasurementFailedError(ErrorCode(told.error_code).name)
    member_id: str = told.member_id
    return member_id


def _join_alone(wire: Wire, metadata: bytes) -> str:
    member_id = _told_id(wire, metadata)
    body = group_load.join_body(GROUP, member_id, metadata)
    joined = checked(wire.ask(ApiKey.JOIN_GROUP, group_load.JOIN, body))
    synced = group_load.sync_body(GROUP, joined, {member_id: b""})
    checked(wire.ask(ApiKey.SYNC_GROUP, group_load.SYNC, synced))
    return member_id


def _rebalance(wires: Sequence[Wire], joins: Sequence[bytes], partitions: int) -> float:
    """Let all join, the leader first: what it asks for is a rebalance.

    Return how long it took from when the others had heard of it, in ms.
    """
    wires[0].sock.sendall(joins[0])
    _wait_until_heard(wires[1])
    begun_s = time.monotonic()
    joined = [
        checked(answer(ApiKey.JOIN_GROUP, group_load.JOIN, frame))
        for frame in exchange(wires, [b"", *joins[1:]])
    ]
    count = len(wires)
    given = {
        told.member_id: encode_assignment(
            tuple(TopicPartition(TOPIC, p) for p in range(n, partitions, count))
        )
        for n, told in enumerate(joined)
    }
    bodies = [
        group_load.sync_body(GROUP, told, given if told.member_id == told.leader else {})
        for told in joined
    ]
    frames = [framed(ApiKey.SYNC_GROUP, group_load.SYNC, body) for body in bodies]
    for frame in exchange(wires, frames):
        checked(answer(ApiKey.SYNC_GROUP, group_load.SYNC, frame))
    return 1e3 * (time.monotonic() - begun_s)


def _wait_until_heard(wire: Wire) -> None:
    """Wait for the group to prepare; who joins it before is told that nothing has changed."""
    deadline_s = time.monotonic() + group_load.TIMEOUT_S
    preparing = ListGroupsRequest(states_filter=[PREPARING])
    while time.monotonic() < deadline_s:
        time.sleep(HEARD_S)
        if wire.ask(ApiKey.LIST_GROUPS, LIST_GROUPS, preparing).groups:
            return
    raise MeasurementFailedError("no rebalance begins")


# --- commits, idle groups, reading --------------------------------------------


def commits(clients: int, kind: Kind, bench: Bench) -> dict[str, float]:
    """Commit an offset at a time on each of so many connections, each in a group of its own."""
    with kind.node() as node, ExitStack() as stack:
        address = Address.parse(node.bootstrap)
        topics.create_topic(node.bootstrap, TOPIC, partitions=1, config={})
        group_load.coordinator_of(address, GROUP)
        wires = [Wire(address) for _ in range(clients)]
        for wire in wires:
            stack.callback(wire.close)
        bodies = [group_load.commit_body(f"{GROUP}-{n}", TOPIC, [0], 1) for n in range(clients)]
        frames = [framed(ApiKey.OFFSET_COMMIT, group_load.COMMIT, body) for body in bodies]
        for wire, body in zip(wires, bodies, strict=True):
            group_load.commit(wire, body)
        group_load.repeat(wires, frames, bench.warmup_s)
        cpu_s, begun_s = node.cpu_seconds(), time.monotonic()
        done = group_load.repeat(wires, frames, bench.seconds)
        took_s, used_s = time.monotonic() - begun_s, node.cpu_seconds() - cpu_s
    return {"requests_per_s": done / took_s, "requests_per_cpu_s": done / max(used_s, 1e-3)}


def idle_groups(groups: int, kind: Kind, _bench: Bench) -> dict[str, float]:
    """Compare a node's memory before and after so many groups of one member and one offset."""
    metadata = encode_subscription(Subscription((TOPIC,)))
    with kind.node() as node:
        address = Address.parse(node.bootstrap)
        topics.create_topic(node.bootstrap, TOPIC, partitions=1, config={})
        group_load.coordinator_of(address, GROUP)
        wire = Wire(address)
        _settle_groups(wire, range(WARM_UPS), metadata)  # what the first ones bring along stays
        time.sleep(SETTLE_S)
        before = node.memory().rss_bytes
        _settle_groups(wire, range(WARM_UPS, WARM_UPS + groups), metadata)
        time.sleep(SETTLE_S)
        cpu_s = node.cpu_seconds()
        time.sleep(2 * SETTLE_S)
        cores = (node.cpu_seconds() - cpu_s) / (2 * SETTLE_S)
        after = node.memory().rss_bytes
        wire.close()
    return {"added_bytes": max(0, after - before), "broker_cores": cores}


def _settle_groups(wire: Wire, numbers: Sequence[int], metadata: bytes) -> None:
    assigned = encode_assignment((TopicPartition(TOPIC, 0),))
    for number in numbers:
        group = f"idle-{number}"
        if number < WARM_UPS:
            group_load.commit(wire, group_load.commit_body(group, TOPIC, [0], 0))
        told = wire.ask(
            ApiKey.JOIN_GROUP, group_load.JOIN, group_load.join_body(group, "", metadata)
        )
        body = group_load.join_body(group, told.member_id, metadata)
        joined = checked(wire.ask(ApiKey.JOIN_GROUP, group_load.JOIN, body))
        synced = group_load.sync_body(group, joined, {joined.member_id: assigned})
        checked(wire.ask(ApiKey.SYNC_GROUP, group_load.SYNC, synced))
        committed = group_load.commit_body(group, TOPIC, [0], number)
        committed.generation_id_or_member_epoch = joined.generation_id
        committed.member_id = joined.member_id
        group_load.commit(wire, committed)


def consume(value_bytes: int, kind: Kind, bench: Bench) -> dict[str, float]:
    """Read through a group with librdkafka; from the first records to the last."""
    records = int(4e6 if value_bytes < 500 else 8e5)
    with kind.node() as node:
        topics.create_topic(node.bootstrap, TOPIC, partitions=6, config={})
        load = ["6", str(value_bytes), "0", "0", str(records), "acks=1"]
        run_generator(bench, node, [generator("produce"), node.bootstrap, TOPIC, *load])
        group = [f"group.id={GROUP}", "auto.offset.reset=earliest"]
        load = ["6", str(records), str(CONSUME_S), *group]
        sample = run_generator(bench, node, [generator("consume"), node.bootstrap, TOPIC, *load])
    return {
        "records_per_s": sample.figures["records_per_s"],
        "cpu_ms": 1e3 * sample.figures["broker_cores"] * sample.figures["seconds"],
    }


# --- another coordinator ------------------------------------------------------


def failover(groups: int, kind: Kind, _bench: Bench) -> dict[str, float]:
    """Kill who coordinates a group; time it until all of its groups can be asked elsewhere."""
    with kind.cluster() as cluster:
        first = Address.parse(cluster.brokers[0].bootstrap)
        topics.create_topic(cluster.brokers[0].bootstrap, TOPIC, partitions=1, config={})
        group_load.coordinator_of(first, GROUP)
        names = [f"moved-{n}" for n in range(groups)]
        homes = group_load.commit_everywhere(first, names, TOPIC)
        killed = max(homes, key=lambda home: len(homes[home]))
        victim = next(b for b in cluster.brokers if Address.parse(b.bootstrap).port == killed.port)
        others = [Address.parse(b.bootstrap) for b in cluster.brokers if b is not victim]
        time.sleep(SETTLE_S)
        victim.popen.kill()
        begun_s = time.monotonic()
        group_load.wait_for_offsets(others[0], homes[killed], TOPIC, FAILOVER_TIMEOUT_S)
        took_ms = 1e3 * (time.monotonic() - begun_s)
    return {"failover_ms": took_ms, "groups": len(homes[killed])}


CPU: Final = Metric("cpu_ms", "CPU time of the broker", "ms", "less")

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "rebalance",
        "rebalance of 100 members on 300 partitions",
        (figures.P50, figures.P99, CPU),
        partial(rebalances, 100, 300),
    ),
    Scenario(
        "commit",
        "OffsetCommit, 10 clients, one request at a time each",
        (
            figures.REQUESTS_PER_S,
            Metric("requests_per_cpu_s", "per CPU second", "requests/s", "more"),
        ),
        partial(commits, 10),
    ),
    Scenario(
        "consume-100",
        "consume through a group, 100 B, 6 partitions",
        (figures.RECORDS_PER_S, CPU),
        partial(consume, 100),
    ),
    Scenario(
        "consume-1024",
        "consume through a group, 1 KiB, 6 partitions",
        (figures.RECORDS_PER_S, CPU),
        partial(consume, 1024),
    ),
    Scenario(
        "idle",
        "5,000 idle groups of one member",
        (
            Metric("added_bytes", "added resident memory", "B", "less"),
            Metric("broker_cores", "CPU", "cores", "less"),
        ),
        partial(idle_groups, 5_000),
    ),
    Scenario(
        "failover",
        "coordinator of three killed, 10,000 groups: until all of its groups are served",
        (
            Metric("failover_ms", "", "ms", "less"),
            Metric("groups", "groups that it had", "", "more"),
        ),
        partial(failover, 10_000),
    ),
)


def sample_of(scenario: Scenario, kind: Kind, bench: Bench) -> Sample:
    """Measure once; a failure becomes the sample."""
    wait_until_quiet(bench.quiet_wait_s)
    try:
        return Sample(scenario.measure(kind, bench), failure="")
    except FAILURES as error:
        return Sample({}, failure=str(error) or type(error).__name__)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    session = command_line.begin("groups", __doc__, arguments, SCENARIOS, kinds, rounds=3)
    allow_many_connections()
    return session.finish(session.one_by_one(sample_of))


if __name__ == "__main__":
    command_line.run(main)
