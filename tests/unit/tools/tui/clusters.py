"""Snapshots of clusters that never ran, for tests of what is shown of them."""

from dataclasses import replace
from pathlib import Path

from quorate.client.admin_results import (
    BrokerDescription,
    ConfigEntry,
    LogDirReplica,
    PartitionDescription,
    TopicDescription,
)
from quorate.client.groups.results import GroupDescription, MemberDescription, OffsetAndMetadata
from quorate.client.transactions.describing import TransactionDescription, TransactionListing
from quorate.jepsen.store import RunFolder
from quorate.model import Endpoint, TopicPartition
from quorate.quorum.metadata import records as r
from quorate.records.record import Record
from quorate.tools.groups.lag import Bounds, PartitionLag
from quorate.tools.metadata.decided import Decided
from quorate.tools.quorum.view import FOLLOWER, LEADER, OwnState, QuorumView, Replica
from quorate.tools.tui.views.snapshot import Measures, Snapshot, measures_of
from quorate.tools.verify_runs import Run

NOW_MS = 1_795_000_000_000


def broker(broker_id: int, *, fenced: bool = False, is_draining: bool = False) -> BrokerDescription:
    endpoint, rack = Endpoint("127.0.0.1", 9090 + broker_id), "abc"[broker_id - 1]
    return BrokerDescription(broker_id, endpoint, rack, fenced, is_draining=is_draining)


def partition(number: int, replicas: tuple[int, ...], isr: tuple[int, ...] | None = None,
              leader: int | None = None) -> PartitionDescription:  # fmt: skip
    isr = replicas if isr is None else isr
    leader = replicas[0] if leader is None else leader
    return PartitionDescription(number, leader, 3, replicas, isr, ())


def topic(name: str, *partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription(
        name, name.encode().ljust(16, b"."), is_internal=False, partitions=partitions
    )


def replica(end: int, watermark: int | None = None) -> LogDirReplica:
    mark = end if watermark is None else watermark
    return LogDirReplica(
        end * 10, 0, is_future=False, log_end_offset=end, high_watermark=mark, log_start_offset=0
    )


def controller(
    node_id: int, role: str, end: int, *, silent: bool = False, disk_full: bool = False
) -> Replica:
    own = None if silent else OwnState(4_000, 0, 0, 60_000, disk_full)
    heard = NOW_MS - 100 if role == FOLLOWER else -1
    return Replica(
        node_id,
        bytes([node_id]) * 16,
        Endpoint("127.0.0.1", 9200 + node_id),
        role,
        end,
        heard,
        heard - (0 if end == 50 else 7_000),
        own,
    )


def quorum(leader: int | None = 102) -> QuorumView:
    replicas = (
        controller(101, FOLLOWER, 50),
        controller(102, LEADER if leader == 102 else FOLLOWER, 50),
        controller(103, FOLLOWER, 42, silent=True),
    )
    return QuorumView("the-cluster", leader, 7, 50, 1, replicas, NOW_MS)


def record(
    offset: int, value: bytes | None, *, number: int = 0, key: bytes | None = None
) -> Record:
    return Record(
        TopicPartition("orders", number),
        offset,
        NOW_MS + offset,
        key,
        value,
        (("trace", b"t%d" % offset),),
    )


def group(group_id: str, state: str = "Stable", members: int = 1) -> GroupDescription:
    reads = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    told = tuple(
        MemberDescription(
            f"{group_id}-{n}", None, f"client-{n}", "/127.0.0.1", reads if n == 0 else ()
        )
        for n in range(members)
    )
    return GroupDescription(
        group_id, "Classic", "consumer", state, "range", told, 1, state_since_ms=NOW_MS - 5_000
    )


def lag(
    group_id: str, number: int, committed: int, end: int, since_ms: int | None = None
) -> PartitionLag:
    place = TopicPartition("orders", number)
    return PartitionLag(
        group_id,
        place,
        OffsetAndMetadata(committed),
        Bounds(0, end),
        group(group_id).owners.get(place),
        since_ms,
    )


def transaction(
    number: int, state: str, open_ms: int | None, *parts: int
) -> TransactionDescription:
    places = tuple(TopicPartition("orders", part) for part in parts)
    started = None if open_ms is None else NOW_MS - open_ms
    return TransactionDescription(
        f"pay-{number}", 1, 4_000 + number, 3, state, 60_000, started, places
    )


def entry(name: str, value: str, source: int = 5) -> ConfigEntry:
    return ConfigEntry(
        name,
        value,
        source,
        is_read_only=False,
        is_sensitive=False,
        documentation=f"What {name} means.",
    )


def decided(offset: int, made: r.MetadataRecord, about: str | None = None) -> Decided:
    return Decided(offset, 7, in_snapshot=False, topic=about, record=made)


ORDERS = topic(
    "orders",
    partition(0, (1, 2, 3)),
    partition(1, (2, 3, 1), isr=(2, 1)),
    partition(2, (3, 1, 2), isr=(), leader=-1),
)
CLICKS = topic("clicks", partition(0, (1, 2)))
PAYMENTS = topic("payments", partition(0, (2, 1), isr=(2,)))


def run(number: int, validity: str = "", *anomalies: str) -> Run:
    """A run of verify, judged if it has a verdict."""
    folder = RunFolder(Path(f"quorate-verify/20261122T1020{number:02}-append-{number}"))
    header = {
        "started": f"2026-11-22T10:20:{number:02}+00:00", "workloads": ["append"], "seed": number,
        "faults": ["kill", "pause"], "client": "own", "commit": "abc",
    }  # fmt: skip
    quotas = [{"name": "acks", "got": 2_591, "needed": 100, "met": True}]
    verdict = {
        "validity": validity, "anomalies": dict.fromkeys(anomalies, 1), "operations": 4_780,
        "seconds": 6.5, "faults_bit": 2, "quotas": quotas,
    }  # fmt: skip
    repeat = f"quorate verify run append --seed {number}"
    return Run(folder, header, verdict if validity else {}, repeat)


def snapshot() -> Snapshot:
    """A cluster in trouble: broker 3 is out of service."""
    on_brokers = {
        1: {
            TopicPartition("orders", 0): replica(100),
            TopicPartition("orders", 1): replica(60),
            TopicPartition("clicks", 0): replica(5),
        },
        2: {
            TopicPartition("orders", 0): replica(100),
            TopicPartition("orders", 1): replica(70, 60),
            TopicPartition("payments", 0): replica(0),
        },
    }
    settings = (entry("cleanup.policy", "delete"), entry("retention.ms", "1000", 1))
    lags = (
        lag("billing", 0, 40, 100, NOW_MS - 90_000),
        lag("billing", 1, 70, 70),
        lag("idle", 0, 100, 100),
    )
    return Snapshot(
        now_ms=NOW_MS,
        cluster_id="the-cluster",
        bootstrap="127.0.0.1:9091",
        brokers=(broker(1), broker(2, is_draining=True), broker(3, fenced=True)),
        topics=(CLICKS, ORDERS, PAYMENTS),
        min_isr={"orders": 2, "payments": 2},
        on_brokers=on_brokers,
        quorum=quorum(),
        groups=(group("billing"), group("idle", "Empty", 0), group("moving", "PreparingRebalance")),
        lags=lags,
        transactions=(
            TransactionListing("pay-1", 1, 4_001, "Ongoing"),
            TransactionListing("pay-2", 1, 4_002, "PrepareCommit"),
            TransactionListing("pay-3", 1, 4_003, "CompleteCommit"),
            TransactionListing("pay-4", 1, 4_004, "Empty"),
            TransactionListing("pay-5", 1, 4_005, "Ongoing"),
        ),
        transactions_told={
            "pay-1": transaction(1, "Ongoing", 40_000, 0, 1),
            "pay-2": transaction(2, "PrepareCommit", 1_000, 0),
        },
        configs={"topic/orders": {each.name: each for each in settings}},
        records=(
            record(1, b'{"a":1}', key=b"k1"),
            record(2, None, key=b"k2"),
            record(3, b"\xff\x00"),
        ),
        events=(decided(11, r.TopicRemoved("DeleteTopics by User:ann", NOW_MS, b"x" * 16), "old"),),
        runs=(
            run(40),
            run(30, "unknown"),
            run(20, "invalid-safety", "lost-write", "realtime-order"),
            run(10, "valid"),
        ),
        answered_ms=NOW_MS,
        earlier=Measures(NOW_MS - 10_000),
    )


def later(before: Snapshot) -> Snapshot:
    """The same cluster ten seconds later."""
    return replace(before, now_ms=before.now_ms + 10_000, earlier=measures_of(before))


def large(topics: int = 200, partitions: int = 10) -> Snapshot:
    """A healthy cluster of very many partitions, each of three replicas."""
    told = tuple(
        topic(
            f"topic-{t:04}",
            *(partition(n, tuple((n + i) % 3 + 1 for i in range(3))) for n in range(partitions)),
        )
        for t in range(topics)
    )
    places = [TopicPartition(t.name, p.partition) for t in told for p in t.partitions]
    on_brokers = {
        b: {place: replica(1_000 + i) for i, place in enumerate(places)} for b in (1, 2, 3)
    }
    return replace(
        snapshot(), topics=told, on_brokers=on_brokers, brokers=tuple(broker(b) for b in (1, 2, 3))
    )
