"""Transactions in one partition: who writes them, who ends them, who reads what is committed.

The coordinator is one that never fails (those that do are tested elsewhere): it knows of each
producer how its transactions end. What is looked at here is what leaders and followers make of it.
"""

from dataclasses import dataclass, field
from typing import Final

from quorate.broker.replication.replica import Replica
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    READ_COMMITTED,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorate.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.control import find_end_marker
from quorate.records.record import ProducerStamp
from tests.simulation.replication.clients import ACKS_ALL, Client, Consumer
from tests.simulation.replication.ledger import READ_BYTES, Batch, batches_of, split
from tests.simulation.trace import Trace
from tests.unit.broker.log.batches import bytes_of, make_batch

BATCHES_MAX: Final = 4
ABORTED: Final = 0.4
IMPATIENT: Final = 0.15
"""How often a producer aborts, and how often it does so while an answer is on its way."""
VERSION: Final = 2

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True)
class Standing:
    """How a producer stands: its epoch, whether the partition takes part, how all others ended."""

    epoch: int = 0
    takes_part: bool = False
    ending: bool = False
    fates: dict[int, bool] = field(default_factory=dict[int, bool])
    """By epoch: whether it was decided to commit."""


class Coordinator:
    """Owns how transactions end, and finds out whether somebody shows another end, or too soon."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.producers: dict[int, Standing] = {}

    def vouch(self, producer_id: int, epoch: int) -> ErrorCode:
        """Let the partition take part in a producer's transaction, if it has one in that epoch."""
        standing = self.producers[producer_id]
        if standing.ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if epoch != standing.epoch:
            return ErrorCode.PRODUCER_FENCED
        standing.takes_part = True
        return ErrorCode.NONE

    def shown(self, who: str, batch: Batch, *, committed: bool) -> None:
        """See that a batch is shown, or called aborted, as it was decided before."""
        header = batch.header
        if self._fate(batch) is not committed:
            raise self._trace.violated(
                "only_decided_transactions_are_shown",
                f"{who}: {header} is shown as {committed=}, decided {self._fate(batch)}",
            )

    def _fate(self, batch: Batch) -> bool | None:
        return self.producers[batch.header.producer_id].fates.get(batch.header.producer_epoch)

    def replicas_know(self, who: str, replica: Replica) -> None:
        """See that a replica knows what is stable and what was aborted, as its log says."""
        open_at: dict[int, int] = {}
        aborted: list[tuple[int, int, int]] = []
        for header, data in batches_of(replica.log, 0, replica.high_watermark):
            if header.is_control:
                marker = find_end_marker(data, header)
                first = open_at.pop(header.producer_id, None)
                if first is not None and marker is not None and not marker.committed:
                    aborted.append((header.producer_id, first, header.base_offset))
            elif header.is_transactional:
                open_at.setdefault(header.producer_id, header.base_offset)
        stable = min(open_at.values(), default=replica.high_watermark)
        known = replica.last_stable_offset, _aborted_of(replica, replica.last_stable_offset)
        if known != (stable, [each for each in aborted if each[1] < stable]):
            raise self._trace.violated(
                "replicas_agree_on_transactions", f"{who}: {known}, not {stable} {aborted}"
            )


def _aborted_of(replica: Replica, stable: int) -> list[tuple[int, int, int]]:
    """Return what readers are told, piece by piece; of what a piece has not, they may be told."""
    log, found = replica.log, set[tuple[int, int, int]]()
    offset = log.log_start_offset
    while offset < stable:
        piece = log.read(offset, max_bytes=READ_BYTES, limit_offset=stable, at_least_one=True)
        assert piece is not None, "it is committed"
        for each in log.aborted_in(piece, offset, limit_offset=stable, may_wait=True):
            found.add((each.producer_id, each.first_offset, each.last_offset))
        offset = split(bytes_of(piece))[-1].header.next_offset
    return sorted(found, key=lambda each: each[2])


class Transactor(Client):
    """Writes transactions, one after the other, and has each ended by a marker.

    Attributes:
        acknowledged: how many transactions were ended.
    """

    def __init__(self, producer_id: int, coordinator: Coordinator, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._producer_id = producer_id
        self._standing = coordinator.producers[producer_id] = Standing()
        self._left = 0
        self._sequence = 0
        self.acknowledged = 0
        self.later(self._begin)

    def settled_in(self, topic_id: bytes) -> int:
        """Return up to which offset of a topic nothing of it will be asked about again."""
        del topic_id
        return 0

    def _begin(self) -> None:
        self._left = self.rng.randint(1, BATCHES_MAX)
        self._sequence = 0
        self._send()

    def _send(self) -> None:
        epoch = self._standing.epoch
        records = make_batch(
            [b"%d.%d.%d;" % (self._producer_id, epoch, self._sequence)],
            producer=ProducerStamp(self._producer_id, epoch, self._sequence),
            attributes=TRANSACTIONAL_BIT,
        )
        topic, number = self.partition
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=number, records=records)]
        )
        request = ProduceRequest(
            transactional_id=self.name, acks=ACKS_ALL, timeout_ms=500, topic_data=[data]
        )
        if self.rng.random() < IMPATIENT:
            self.ask(request, _ignored)
            self.later(lambda: self._end(committed=False))
        else:
            self.ask(request, self._answered)

    def _answered(self, answer: object) -> None:
        code = ErrorCode.REQUEST_TIMED_OUT
        if isinstance(answer, ProduceResponse):
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code == ErrorCode.NONE:
            self._sequence += 1
            self._left -= 1
            if self._left:
                self.later(self._send)
            else:
                self._end(committed=self.rng.random() >= ABORTED)
            return
        self.trace.counts[code.name] += 1
        self.elsewhere()
        if code in _AGAIN:
            self.later(self._send)
        else:
            self.later(lambda: self._end(committed=False))

    def _end(self, *, committed: bool) -> None:
        """Decide, which nobody takes back; then tell the leader until it has written that."""
        standing = self._standing
        standing.fates[standing.epoch] = committed
        standing.ending = True
        if standing.takes_part:
            self._mark()
        else:
            self._ended()

    def _mark(self) -> None:
        standing = self._standing
        topic, number = self.partition
        marker = WritableTxnMarker(
            producer_id=self._producer_id,
            producer_epoch=standing.epoch + 1,
            transaction_result=standing.fates[standing.epoch],
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[number])],
            coordinator_epoch=0,
            transaction_version=VERSION,
        )
        self.ask(WriteTxnMarkersRequest(markers=[marker]), self._marked)

    def _marked(self, answer: object) -> None:
        if isinstance(answer, WriteTxnMarkersResponse):
            code = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
            if code == ErrorCode.NONE:
                self._ended()
                return
            self.trace.counts[code.name] += 1
        self.elsewhere()
        self.later(self._mark)

    def _ended(self) -> None:
        standing = self._standing
        standing.epoch += 1
        standing.takes_part = standing.ending = False
        self.acknowledged += 1
        self.later(self._begin)


class CommittedReader(Consumer):
    """Reads what is committed from the beginning to the end, again and again."""

    ISOLATION_LEVEL = READ_COMMITTED
    ANEW = 0.05

    def __init__(self, coordinator: Coordinator, *args: object) -> None:
        super().__init__(*args)
        self._coordinator = coordinator

    def _take(self, data: PartitionData, batches: list[Batch]) -> None:
        """Leave out what was aborted, as all consumers do (KIP-98)."""
        to_come = sorted(
            data.aborted_transactions or (), key=lambda each: each.first_offset, reverse=True
        )
        aborted: set[int] = set()
        for batch in batches:
            header = batch.header
            self.ledger.consumed(self.named, self.position, [batch])
            while to_come and to_come[-1].first_offset <= header.last_offset:
                aborted.add(to_come.pop().producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif header.is_transactional:
                is_aborted = header.producer_id in aborted
                self._coordinator.shown(self.name, batch, committed=not is_aborted)
                self.trace.counts["aborted batches" if is_aborted else "committed batches"] += 1
            self.position = header.next_offset


def _ignored(_answer: object) -> None:
    """Nobody waits for the answer any more."""
