"""Producers and consumers: they go on whatever happens, and remember what they were told."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorate.records.record import ProducerStamp
from tests.simulation.replication.ledger import Batch, Ledger, split
from tests.simulation.replication.network import Network
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace
from tests.unit.broker.log.batches import make_batch

TIMEOUT_S: Final = 1.0
PAUSE_S: Final = 0.06
RECORDS_MAX: Final = 4
ACKS_ALL: Final = -1
READ_UNCOMMITTED: Final = 0
READ_BYTES: Final = 1 << 20


class Client:
    """Asks one broker after the other until it finds the leader."""

    alive = True
    paused_until_s = 0.0

    def __init__(
        self,
        name: str,
        partition: TopicPartition,
        brokers: list[str],
        surroundings: tuple[Timeline, Network, Ledger, Trace],
        rng: Random,
    ) -> None:
        self.name = name
        self.partition = partition
        self.timeline, self.network, self.ledger, self.trace = surroundings
        self.rng = rng
        self._brokers = brokers
        self._broker = rng.choice(brokers)
        self.stopped = False

    def serve(self, source: str, request: object, reply: Callable[[object], None]) -> None:
        raise AssertionError(f"nobody asks clients: {source} {request} {reply}")

    def ask(self, request: object, answered: Callable[[object], None]) -> None:
        self.network.ask((self.name, self), self._broker, request, answered, TIMEOUT_S)

    def elsewhere(self) -> None:
        """Ask another broker from now on."""
        self._broker = self.rng.choice(self._brokers)

    def later(self, action: Callable[[], None]) -> None:
        """Go on in a moment, unless it is over."""
        delay_s = self.rng.uniform(0, PAUSE_S)
        self.timeline.after(delay_s, lambda: None if self.stopped else action())


class Producer(Client):
    """Idempotent, acks=all, one batch at a time, tried again until its fate is known.

    Attributes:
        acknowledged: how many records.
        settled: up to which offset nothing of it will be sent again.
    """

    def __init__(self, producer_id: int, leads: Callable[[str], bool], *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._producer_id = producer_id
        self._leads = leads
        self._sequence = 0
        self._values: list[bytes] = []
        self.acknowledged = 0
        self.settled = 0
        self.later(self._next)

    def _next(self) -> None:
        count = self.rng.randint(1, RECORDS_MAX)
        first = self._sequence
        self._values = [b"%d.%d;" % (self._producer_id, first + n) for n in range(count)]
        self._send()

    def _send(self) -> None:
        records = make_batch(
            self._values, producer=ProducerStamp(self._producer_id, 0, self._sequence)
        )
        topic, number = self.partition
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=number, records=records)]
        )
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=500, topic_data=[data])
        self.ask(request, self._answered)

    def _answered(self, answer: object) -> None:
        if not isinstance(answer, ProduceResponse):
            self.elsewhere()
            self.later(self._send)
            return
        response = answer.responses[0].partition_responses[0]
        code = ErrorCode(response.error_code)
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._leads(self._broker):
            # A leader that was deposed without knowing it may well lack what others have.
            raise self.trace.violated(
                "sequences_have_no_gap_or_repeat", f"{self.name}: {self._sequence} is refused"
            )
        if code != ErrorCode.NONE:
            self.trace.counts[code.name] += 1
            self.elsewhere()
            self.later(self._send)
            return
        # A broker may answer a duplicate with the batch's place alone.
        self.ledger.acknowledged(self.partition, response.base_offset, self._values[0])
        self.settled = response.base_offset
        self.acknowledged += len(self._values)
        self._sequence += len(self._values)
        self.later(self._next)


class Consumer(Client):
    """Reads a partition from its beginning to its end, again and again."""

    ISOLATION_LEVEL = READ_UNCOMMITTED
    ANEW = 0.02
    """How often it begins anew."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.position = 0
        self.later(self._fetch)

    def _fetch(self) -> None:
        topic, number = self.partition
        partition = FetchPartition(
            partition=number, fetch_offset=self.position, partition_max_bytes=READ_BYTES
        )
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=READ_BYTES,
            isolation_level=self.ISOLATION_LEVEL,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        self.ask(request, self._answered)

    def _answered(self, answer: object) -> None:
        if isinstance(answer, FetchResponse) and answer.responses:
            data = answer.responses[0].partitions[0]
            if data.error_code:
                self.trace.counts[ErrorCode(data.error_code).name] += 1
                self.elsewhere()
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.position = max(self.position, data.log_start_offset)
            else:
                records: Any = data.records
                self._take(data, split(bytes(records or b"")))
        else:
            self.elsewhere()
        if self.rng.random() < self.ANEW:
            self.position = 0
        self.later(self._fetch)

    def _take(self, data: PartitionData, batches: Iterable[Batch]) -> None:
        del data
        for batch in batches:
            self.ledger.consumed(self.partition, batch)
            self.position = batch.header.next_offset
