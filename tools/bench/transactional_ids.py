"""`python -m quorate.tools.bench.transactional_ids`: many of them, each with an open transaction.

Each producer has its id, one partition in its transaction, and one record in that: what a node
needs for 10,000 of them, and how long it takes until those of a coordinator that was killed can be
committed elsewhere. The producers are plain sockets in this process.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.errors import ErrorCode
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from quorate.records.batch import TRANSACTIONAL_BIT, seal_batch
from quorate.records.record import ProducerStamp, RecordBatchBuilder, record_bytes_max
from quorate.tools.bench import command_line, topics
from quorate.tools.bench.clusters import Cluster, three_brokers_and_three_controllers
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.group_load import FIND, NOT_READY, POLL_S, Wire, checked
from quorate.tools.bench.measuring import Bench, MeasurementFailedError, wait_until_quiet
from quorate.tools.bench.runner import FAILURES
from quorate.tools.bench.topics import Address
from quorate.tools.bench.transactions import three_kraft_nodes
from tests.compat.peers import java, nodes
from tests.compat.peers.nodes import Node

IDS: Final = 10_000
WARM_UPS: Final = 100
ASKED: Final = 200
"""Of so many ids, spread over all, the transactions are committed after the failover."""
TOPIC: Final = "bench"
PARTITIONS: Final = 6
TRANSACTION_KEY: Final = 1
TIMEOUT_MS: Final = 900_000
SETTLE_S: Final = 1.0
FAILOVER_TIMEOUT_S: Final = 120.0
INIT, ADD, PRODUCE, END = 4, 3, 11, 4
BUSY: Final = (*NOT_READY, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass(frozen=True, slots=True)
class Kind:
    """Whose brokers: one alone, and three of them."""

    name: str
    version: str
    node: Callable[[], AbstractContextManager[Node]]
    cluster: Callable[[], AbstractContextManager[Cluster]]


def kinds(*, with_kafka: bool) -> list[Kind]:
    """Return ours, and Kafka's; raises PeerUnavailableError where it cannot be had."""
    ours = Kind("quorate", quorate.__version__, nodes.quorate, three_brokers_and_three_controllers)
    if not with_kafka:
        return [ours]
    java.kafka_folder()
    return [ours, Kind("kafka", java.KAFKA_VERSION, nodes.kafka, three_kraft_nodes)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to be measured on each kind."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Kind], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Opened:
    """A producer with a transaction under way."""

    name: str
    producer_id: int
    epoch: int


def ask(wire: Wire, key: ApiKey, version: int, body: Any, told: Callable[[Any], Any]) -> Any:
    """Ask until the broker is ready; return the part of the answer that has the error.

    Raises:
        MeasurementFailedError: it is refused.
    """
    deadline_s = time.monotonic() + FAILOVER_TIMEOUT_S
    while True:
        answer = told(wire.ask(key, version, body))
        code = getattr(answer, "partition_error_code", None)
        code = answer.error_code if code is None else code
        if code not in BUSY or time.monotonic() > deadline_s:
            if code:
                raise MeasurementFailedError(f"{key.name}: {ErrorCode(code).name}")
            return answer
        time.sleep(POLL_S)


def open_one(coordinator: Wire, name: str, number: int) -> Opened:
    """Begin a transaction that one partition takes part in."""
    body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    made = ask(coordinator, ApiKey.INIT_PRODUCER_ID, INIT, body, lambda answer: answer)
    topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=[number % PARTITIONS])
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=made.producer_id,
        v3_and_below_producer_epoch=made.producer_epoch,
        v3_and_below_topics=[topic],
    )
    ask(
        coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, ADD, added,
        lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0],
    )  # fmt: skip
    return Opened(name, made.producer_id, made.producer_epoch)


def produce(leader: Wire, opened: Opened, number: int) -> None:
    """Write one record."""
    now_ms = time.time_ns() // 1_000_000
    builder = RecordBatchBuilder()
    builder.append(now_ms, None, b"v", b"", record_bytes_max(None, b"v", b""))
    batch = seal_batch(
        builder.encode(),
        attributes=TRANSACTIONAL_BIT,
        record_count=1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer=ProducerStamp(opened.producer_id, opened.epoch, 0),
    )
    data = PartitionProduceData(index=number % PARTITIONS, records=memoryview(batch))
    body = ProduceRequest(
        transactional_id=opened.name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    ask(
        leader, ApiKey.PRODUCE, PRODUCE, body,
        lambda answer: answer.responses[0].partition_responses[0],
    )  # fmt: skip


def homes_of(wire: Wire, names: Sequence[str]) -> dict[Address, list[str]]:
    """Return which ids each broker coordinates."""
    homes: dict[Address, list[str]] = {}
    body = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=list(names))
    deadline_s = time.monotonic() + FAILOVER_TIMEOUT_S
    while True:
        found = wire.ask(ApiKey.FIND_COORDINATOR, FIND, body).coordinators
        if all(told.error_code == ErrorCode.NONE for told in found):
            break
        if time.monotonic() > deadline_s:
            checked(found[0])
        time.sleep(POLL_S)
    for told in found:
        homes.setdefault(Address(told.host, told.port), []).append(told.key)
    return homes


def memory(ids: int, kind: Kind) -> dict[str, float]:
    """Compare a node's memory before and after so many producers opened a transaction."""
    with kind.node() as node:
        topics.create_topic(node.bootstrap, TOPIC, partitions=PARTITIONS, config={})
        wire = Wire(Address.parse(node.bootstrap))
        homes_of(wire, ["x"])

        def begin(numbers: range) -> None:
            for number in numbers:
                produce(wire, open_one(wire, f"id-{number:06}", number), number)

        begin(range(WARM_UPS))  # what the first ones bring along stays
        time.sleep(SETTLE_S)
        before = node.memory().rss_bytes
        begun_s = time.monotonic()
        begin(range(WARM_UPS, WARM_UPS + ids))
        took_s = time.monotonic() - begun_s
        time.sleep(SETTLE_S)
        after = node.memory().rss_bytes
        wire.close()
    return {"added_bytes": max(0, after - before), "opened_per_s": ids / took_s}


def failover(ids: int, kind: Kind) -> dict[str, float]:
    """Kill who coordinates most ids; time it until its transactions can be committed elsewhere."""
    with kind.cluster() as cluster:
        first = cluster.brokers[0].bootstrap
        topics.create_topic(first, TOPIC, partitions=PARTITIONS, config={}, replicas=3)
        wire = Wire(Address.parse(first))
        homes = homes_of(wire, [f"id-{number:06}" for number in range(ids)])
        wire.close()
        killed = max(homes, key=lambda home: len(homes[home]))
        opened: list[Opened] = []
        for home, names in homes.items():
            wire = Wire(home)
            made = [open_one(wire, name, number) for number, name in enumerate(names)]
            wire.close()
            opened += made if home == killed else []
        victim = next(b for b in cluster.brokers if Address.parse(b.bootstrap).port == killed.port)
        others = [Address.parse(b.bootstrap) for b in cluster.brokers if b is not victim]
        time.sleep(SETTLE_S)
        victim.popen.kill()
        begun_s = time.monotonic()
        for each in opened[:: max(1, len(opened) // ASKED)]:
            commit_somewhere(others[0], each, begun_s + FAILOVER_TIMEOUT_S)
        took_ms = 1e3 * (time.monotonic() - begun_s)
    return {"failover_ms": took_ms, "ids": len(opened)}


def commit_somewhere(address: Address, opened: Opened, deadline_s: float) -> None:
    """Commit at whoever coordinates the id by now.

    Raises:
        MeasurementFailedError: nobody does in time, or it is refused.
    """
    body = EndTxnRequest(
        transactional_id=opened.name,
        producer_id=opened.producer_id,
        producer_epoch=opened.epoch,
        committed=True,
    )
    find = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[opened.name])
    while time.monotonic() < deadline_s:
        try:
            asked = Wire(address)
            (told,) = asked.ask(ApiKey.FIND_COORDINATOR, FIND, find).coordinators
            asked.close()
            if told.error_code == ErrorCode.NONE:
                coordinator = Wire(Address(told.host, told.port))
                code = coordinator.ask(ApiKey.END_TXN, END, body).error_code
                coordinator.close()
                if code not in BUSY:
                    if code:
                        raise MeasurementFailedError(ErrorCode(code).name)
                    return
        except OSError:  # it is the one that is dead
            pass
        time.sleep(POLL_S)
    raise MeasurementFailedError(f"{opened.name} cannot be committed")


SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        "memory",
        f"{IDS:,} transactional ids, each with an open transaction of one record",
        (
            Metric("added_bytes", "added resident memory", "B", "less"),
            Metric("opened_per_s", "opened, one after the other", "/s", "more"),
        ),
        partial(memory, IDS),
    ),
    Scenario(
        "failover",
        f"coordinator of three killed, {IDS:,} open transactions: until its are committed",
        (
            Metric("failover_ms", "", "ms", "less"),
            Metric("ids", "transactional ids that it had", "", "more"),
        ),
        partial(failover, IDS),
    ),
)


def sample_of(scenario: Scenario, kind: Kind, bench: Bench) -> Sample:
    """Measure once; a failure becomes the sample."""
    wait_until_quiet(bench.quiet_wait_s)
    try:
        return Sample(scenario.measure(kind), failure="")
    except FAILURES as error:
        return Sample({}, failure=str(error) or type(error).__name__)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    session = command_line.begin(
        "transactional_ids", __doc__, arguments, SCENARIOS, kinds, rounds=2
    )
    return session.finish(session.one_by_one(sample_of), ids=IDS)


if __name__ == "__main__":
    command_line.run(main)
