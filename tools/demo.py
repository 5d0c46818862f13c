"""The demo: real log lines through a real cluster and back, every byte compared.

Half-way it kills the broker that leads the busiest partition.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import NewTopic
from quorate.client.consumer import Consumer
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.demo_cluster import DemoCluster, demo_cluster
from quorate.tools.demo_failover import Failover, Recovery, fail_over, recover
from quorate.tools.demo_ledger import Ledger, Sent, Tally, differing, make_ledger, tally_records
from quorate.tools.log_lines import (
    APP,
    TOPICS,
    GrowingFile,
    Source,
    find_sources,
    read_lines,
)
from quorate.tools.problems import CommandError

if TYPE_CHECKING:
    from quorate.client.delivery import Delivery

PARTITIONS: Final = 4
REPLICAS: Final = 3
MIN_ISR: Final = {"min.insync.replicas": "2"}
NODE_LOG_KEY: Final = b"quorate/node"
LOG_FOLDER: Final = Path("/var/log")
RECORDS_TARGET: Final = 150_000
"""Files are streamed again and again until about so many records were sent."""

ROUNDS_MAX: Final = 200
POLL_RECORDS: Final = 5000
READ_TIMEOUT_S: Final = 30.0
CLOCK_TICK_S: Final = 0.002
"""More than the millisecond that timestamps tell apart."""

EXIT_TERMINATED: Final = 128 + signal.SIGTERM
ALL_PARTITIONS: Final = tuple(TopicPartition(t, p) for t in TOPICS for p in range(PARTITIONS))


@dataclass(frozen=True, slots=True)
class Passage:
    """One way of reading back: what was expected of each partition, what came, how fast."""

    name: str
    expected: dict[TopicPartition, Tally]
    found: dict[TopicPartition, Tally]
    seconds: float

    @property
    def wrong(self) -> list[TopicPartition]:
        """The partitions in which something else came than was sent."""
        return list(differing(self.expected, self.found))


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo saw."""

    start_s: float
    sources: Sequence[Source]
    rounds: int
    ledger: Ledger
    send_seconds: float
    passages: Sequence[Passage]
    failover: Failover
    recovery: Recovery

    @property
    def ok(self) -> bool:
        """Whether every record came back as it was sent, each time, and replicas are the same."""
        same = self.ledger.gaps == 0 and not any(passage.wrong for passage in self.passages)
        return same and self.recovery.ok


async def run_demo() -> DemoReport:
    """Run the demo; nothing of it is left afterwards, even if it is told to stop.

    Raises:
        QuorateError: something did not work at all.
        SystemExit: it was told to stop by SIGTERM.
    """
    reports: list[DemoReport] = []
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop_when_told() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(stop_when_told)
            reports.append(await _run())
            nursery.cancel_scope.cancel()
    if not reports:
        raise SystemExit(EXIT_TERMINATED)
    return reports[0]


async def _run() -> DemoReport:
    async with demo_cluster() as cluster:
        await _create_topics(cluster)
        sources = find_sources(LOG_FOLDER, TOPICS)
        begin_s = trio.current_time()
        stream, failover = await _stream(cluster, sources)
        send_seconds = trio.current_time() - begin_s
        ledger = make_ledger(stream.sent(), ALL_PARTITIONS)
        passages = await _read_back(cluster, ledger, stream.middle_ms)
        recovery = await recover(cluster, TOPICS)
    return DemoReport(
        cluster.start_s, sources, stream.rounds, ledger, send_seconds, passages, failover, recovery
    )


async def _create_topics(cluster: DemoCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        wanted = [NewTopic(topic, PARTITIONS, REPLICAS, MIN_ISR) for topic in TOPICS]
        raise_first(await admin.create_topics(wanted))


class Stream:
    """Sends lines and remembers what became of each.

    Records sent after :meth:`begin_second_half` have timestamps of ``middle_ms`` or later, those
    before it earlier ones.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._deliveries: list[tuple[Delivery, bytes, bytes, bool]] = []
        self.handed_over: list[Delivery] = []
        self.middle_ms = 0
        self.rounds = 0

    @property
    def count(self) -> int:
        """How many records were handed over."""
        return len(self._deliveries)

    async def send(self, topic: str, key: bytes, lines: Sequence[bytes]) -> None:
        """Hand lines of one source to the producer."""
        in_second_half = self.middle_ms > 0
        for line in lines:
            delivery = await self._producer.enqueue(topic, line, key=key)
            self._deliveries.append((delivery, key, line, in_second_half))
            self.handed_over.append(delivery)

    async def begin_second_half(self) -> None:
        """Draw the line between the halves in time: the clock must tick first."""
        await trio.sleep(CLOCK_TICK_S)
        self.middle_ms = time.time_ns() // 1_000_000

    def sent(self) -> list[Sent]:
        """Return the records as acknowledged.

        Raises:
            QuorateError: one was not.
        """
        return [
            Sent(place.topic_partition, place.offset, key, line, late)
            for delivery, key, line, late in self._deliveries
            for place in [delivery.metadata]
        ]


async def _stream(cluster: DemoCluster, sources: Sequence[Source]) -> tuple[Stream, Failover]:
    """Send all sources, again and again, and a broker's own log as it grows; kill a leader."""
    lines = {source: read_lines(source.path) for source in sources}
    per_round = max(1, sum(map(len, lines.values())))
    rounds = max(2, min(ROUNDS_MAX, RECORDS_TARGET // per_round))
    node_log = GrowingFile(cluster.log)
    failovers: list[Failover] = []

    async def kill_a_leader() -> None:
        failovers.append(await fail_over(cluster, stream.handed_over))

    async with Producer(cluster.bootstrap) as producer, trio.open_nursery() as nursery:
        stream = Stream(producer)
        for number in range(rounds):
            if number == rounds // 2:
                await stream.begin_second_half()
                nursery.start_soon(kill_a_leader)
            await stream.send(APP, NODE_LOG_KEY, node_log.new_lines())
            for source, texts in lines.items():
                await stream.send(source.topic, source.key, texts)
            stream.rounds += 1
        await stream.send(APP, NODE_LOG_KEY, node_log.new_lines())
        await producer.flush()
    return stream, failovers[0]


async def _read_back(cluster: DemoCluster, ledger: Ledger, middle_ms: int) -> list[Passage]:
    """Read everything three ways."""
    async with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign(ALL_PARTITIONS)
        consumer.seek_to_beginning()
        to_the_end = await _passage(consumer, "to the end", ledger.whole)
        for partition, offset in ledger.middle_offsets.items():
            consumer.seek(partition, offset)
        by_offset = await _passage(consumer, "by offset", ledger.tail)
        await consumer.seek_to_time(middle_ms)
        by_time = await _passage(consumer, "by time", ledger.later)
    return [to_the_end, by_offset, by_time]


async def _passage(consumer: Consumer, name: str, expected: dict[TopicPartition, Tally]) -> Passage:
    """Read from where the consumer stands to the ends of the partitions."""
    found = {partition: Tally() for partition in ALL_PARTITIONS}
    ends = await consumer.end_offsets(ALL_PARTITIONS)
    begin_s = trio.current_time()
    with trio.move_on_after(READ_TIMEOUT_S) as deadline:
        unread = set(ALL_PARTITIONS)
        while unread:
            for partition in list(unread):
                if await consumer.position(partition) >= ends[partition]:
                    unread.remove(partition)
            if unread:
                records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=1000)
                tally_records(records, found)
    if deadline.cancelled_caught:
        raise CommandError(
            f"reading {name} took more than {READ_TIMEOUT_S:.0f} s",
            why="records that were acknowledged did not come",
            hint="report this with the output of quorate demo --debug",
        )
    return Passage(name, expected, found, trio.current_time() - begin_s)
