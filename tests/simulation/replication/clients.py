"""Producers and consumers: they go on whatever happens, and remember what they were told."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from quorate.errors import ErrorCode
from quorate.model import UNKNOWN_EPOCH, TopicPartition
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
from tests.simulation.replication.ledger import Batch, Ledger, Named, split
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


Leads = Callable[[str, bytes | None], bool]
"""Whether a broker leads the partition of the topic with that id, or of the one there is."""


class Client:
    """Asks one broker after the other until it finds the leader.

    Attributes:
        topic_id: that of the topic it means; None: the topic that has the name.
    """

    alive = True
    paused_until_s = 0.0
    topic_id: bytes | None = None

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

    @property
    def named(self) -> Named:
        """What it means by its partition."""
        return Named(self.partition, self.topic_id)

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
    """

    def __init__(self, producer_id: int, leads: Leads, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._producer_id = producer_id
        self._leads = leads
        self._epoch = 0
        self._sequence = 0
        self._values: list[bytes] = []
        self.acknowledged = 0
        self._settled = 0
        self._settled_in: list[bytes] = []
        self.later(self._next)

    def settled_in(self, topic_id: bytes) -> int:
        """Return up to which offset of a topic nothing of it will be sent again."""
        return self._settled if topic_id in self._settled_in else 0

    def _next(self) -> None:
        count = self.rng.randint(1, RECORDS_MAX)
        first = self._sequence
        self._values = [self._value(first + n) for n in range(count)]
        self._send()

    def _value(self, sequence: int) -> bytes:
        return b"%d.%d;" % (self._producer_id, sequence)

    def _send(self) -> None:
        records = make_batch(
            self._values, producer=ProducerStamp(self._producer_id, self._epoch, self._sequence)
        )
        topic, number = self.partition
        data = TopicProduceData(
            partition_data=[PartitionProduceData(index=number, records=records)]
        )
        if self.topic_id is None:
            data.name = topic
        else:
            data.topic_id = self.topic_id
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=500, topic_data=[data])
        self.ask(request, self._answered)

    def _answered(self, answer: object) -> None:
        if not isinstance(answer, ProduceResponse):
            self._again()
            return
        response = answer.responses[0].partition_responses[0]
        code = ErrorCode(response.error_code)
        if code != ErrorCode.NONE:
            self.trace.counts[code.name] += 1
            self._refused(code)
            return
        # A broker may answer a duplicate with the batch's place alone.
        offset, value = response.base_offset, self._values[0]
        self._settled_in = self.ledger.acknowledged(self.named, offset, value)
        self._settled = offset
        self.acknowledged += len(self._values)
        self._sequence += len(self._values)
        self.later(self._next)

    def _refused(self, code: ErrorCode) -> None:
        leads = self._leads(self._broker, self.topic_id)
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and leads:
            # A leader that was deposed without knowing it may well lack what others have.
            raise self.trace.violated(
                "sequences_have_no_gap_or_repeat", f"{self.name}: {self._sequence} is refused"
            )
        self._again()

    def _in_new_epoch(self) -> None:
        """Begin with the first sequence, as somebody whom no old record can be confused with."""
        self._epoch += 1
        self._sequence = 0

    def _again(self) -> None:
        """Try again, maybe elsewhere."""
        self.elsewhere()
        self.later(self._send)


class Consumer(Client):
    """Reads a partition from its beginning to its end, again and again.

    Attributes:
        position: of the next record.
        leader_epoch: the one that it knows, or UNKNOWN_EPOCH.
    """

    ISOLATION_LEVEL = READ_UNCOMMITTED
    ANEW = 0.02
    """How often it begins anew."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.position = 0
        self.leader_epoch = UNKNOWN_EPOCH
        self.later(self._fetch)

    def _fetch(self) -> None:
        topic, number = self.partition
        partition = FetchPartition(
            partition=number,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.position,
            partition_max_bytes=READ_BYTES,
        )
        named = FetchTopic(partitions=[partition])
        if self.topic_id is None:
            named.topic = topic
        else:
            named.topic_id = self.topic_id
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=READ_BYTES,
            isolation_level=self.ISOLATION_LEVEL,
            topics=[named],
        )
        self.ask(request, self._answered)

    def _answered(self, answer: object) -> None:
        if isinstance(answer, FetchResponse) and answer.responses:
            data = answer.responses[0].partitions[0]
            if data.error_code:
                self.trace.counts[ErrorCode(data.error_code).name] += 1
                self._refused(data)
            else:
                records: Any = data.records
                self._take(data, split(bytes(records or b"")))
        else:
            self.elsewhere()
        if self.rng.random() < self.ANEW:
            self.position = 0
        self.later(self._fetch)

    def _refused(self, data: PartitionData) -> None:
        """Try elsewhere, or from where the log begins."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = max(self.position, data.log_start_offset)
        self.elsewhere()

    def _take(self, data: PartitionData, batches: list[Batch]) -> None:
        del data
        self.ledger.consumed(self.named, self.position, batches, self.leader_epoch)
        if batches:
            self.position = batches[-1].header.next_offset
