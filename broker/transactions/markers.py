"""Markers: the ends of transactions on their way to the leaders of all partitions that took part.

State: which partitions of which transactions have no marker yet, each either waiting for a leader,
for a while after a failure, for its turn, or for an answer. Bounded by the transactions that there
are: each transactional id has at most one that ends.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.transactions.telling import tell
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, known_code
from quorate.model import NO_LEADER, TopicPartition
from quorate.promise import Promise
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorate.quorum.metadata.image import MetadataImage

if TYPE_CHECKING:
    from quorate.broker.replication.deadlines import Deadline

AskBroker = Callable[[int, int, Any], Promise[Any]]
"""Sends a broker a request with an API key; the promise is of its answer, or of a KafkaError if
there will be none."""

RETRY_MIN_MS: Final = 20
RETRY_MAX_MS: Final = 1_000
"""After a failure a partition waits so long, twice as long each time."""
FAILURES_TOLD: Final = 7
"""After so many failures, some three seconds, it is told that a partition gets no marker."""
IN_FLIGHT_MAX: Final = 5
"""So many requests are under way to one broker."""
PARTITIONS_PER_REQUEST: Final = 2_000
"""About so many markers are sent in one request."""

_GONE: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(slots=True, eq=False)
class Ending:
    """One transaction that ends.

    Attributes:
        remaining: the partitions that have no marker yet.
        done: called once, when all have one.
        is_over: there is nothing more to do, or another coordinator does it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    version: int
    remaining: set[TopicPartition]
    done: Callable[[], None]
    is_over: bool = False
    failures: Counter[TopicPartition] = field(default_factory=Counter[TopicPartition])


class _Marker(NamedTuple):
    """One partition's end of a transaction."""

    ending: Ending
    partition: TopicPartition


class _Sent(NamedTuple):
    broker_id: int
    markers: dict[int, list[_Marker]]
    """By producer."""


class Markers:
    """Sends markers until they are written.

    Each broker is sent a few requests at a time, so that a partition whose followers are slow does
    not keep others from their end; what waits meanwhile goes into the next one together.
    """

    def __init__(
        self, deadlines: Deadlines, image: Callable[[], MetadataImage], ask: AskBroker
    ) -> None:
        self._deadlines = deadlines
        self._image = image
        self._ask = ask
        self._queues: dict[int, list[_Marker]] = {}
        self._in_flight = Counter[int]()
        self._leaderless: list[_Marker] = []
        self._pausing: dict[int, list[_Marker]] = {}
        """By how long they wait, in ms."""
        self._pauses: dict[int, Deadline] = {}
        self.written_count = 0
        self.failed_count = 0

    @property
    def waiting_count(self) -> int:
        """How many markers are not even under way."""
        queued = sum(map(len, self._queues.values()))
        return queued + len(self._leaderless) + sum(map(len, self._pausing.values()))

    def send(self, ending: Ending) -> None:
        """Have the end of a transaction written to all of its partitions."""
        markers = [_Marker(ending, partition) for partition in sorted(ending.remaining)]
        if not markers:
            ending.done()
            return
        self._route(markers)

    def metadata_changed(self) -> None:
        """Look again where those partitions are led that had no leader."""
        waiting, self._leaderless = self._leaderless, []
        self._route(waiting)

    # --- out ------------------------------------------------------------------

    def _route(self, markers: Iterable[_Marker]) -> None:
        """Queue markers for the leaders of their partitions, as far as there are any."""
        topics = self._image().topics
        touched: dict[int, None] = {}
        gone: list[_Marker] = []
        for marker in markers:
            if marker.ending.is_over:
                continue
            name, index = marker.partition
            topic = topics.get(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                gone.append(marker)
                continue
            leader_id = topic.partitions[index].leader_id
            if leader_id == NO_LEADER:
                self._leaderless.append(marker)
                continue
            self._queues.setdefault(leader_id, []).append(marker)
            touched[leader_id] = None
        for marker in gone:
            tell(
                "txn-marker-dropped",
                transactional_id=marker.ending.transactional_id,
                partition=marker.partition,
                reason="deleted",
            )
            self._written(marker)
        for broker_id in touched:
            self._send_next(broker_id)

    def _send_next(self, broker_id: int) -> None:
        if self._in_flight[broker_id] >= IN_FLIGHT_MAX:
            return
        queue = [m for m in self._queues.pop(broker_id, ()) if not m.ending.is_over]
        if not queue:
            return
        now, later = queue[:PARTITIONS_PER_REQUEST], queue[PARTITIONS_PER_REQUEST:]
        if later:
            self._queues[broker_id] = later
        self._in_flight[broker_id] += 1
        sent = _Sent(broker_id, {})
        for marker in now:
            sent.markers.setdefault(marker.ending.producer_id, []).append(marker)
        request = WriteTxnMarkersRequest(markers=[_wire(each) for each in sent.markers.values()])
        answer = self._ask(broker_id, ApiKey.WRITE_TXN_MARKERS, request)
        answer.when_resolved(lambda response: self._answered(sent, response))

    # --- in -------------------------------------------------------------------

    def _answered(self, sent: _Sent, response: object) -> None:
        self._in_flight[sent.broker_id] -= 1
        told: dict[tuple[int, TopicPartition], ErrorCode] = {}
        if isinstance(response, WriteTxnMarkersResponse):
            told = {
                (each.producer_id, TopicPartition(topic.name, p.partition_index)): known_code(
                    p.error_code
                )
                for each in response.markers
                for topic in each.topics
                for p in topic.partitions
            }
        again: list[_Marker] = []
        for producer_id, markers in sent.markers.items():
            for marker in markers:
                code = told.get((producer_id, marker.partition), ErrorCode.NETWORK_EXCEPTION)
                if not marker.ending.is_over and not self._settled(marker, code):
                    again.append(marker)
        self._pause(again)
        self._send_next(sent.broker_id)

    def _settled(self, marker: _Marker, code: ErrorCode) -> bool:
        """Act on what became of a marker; return whether there is nothing more to do about it."""
        ending = marker.ending
        if code == ErrorCode.NONE or code in _GONE:
            self._written(marker)
            return True
        self.failed_count += 1
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # A newer epoch wrote there: what this one had open, if anything, has ended before.
            self._written(marker)
            return True
        if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            ending.is_over = True
            return True
        if ending.failures[marker.partition] == FAILURES_TOLD:
            tell(
                "txn-marker-delayed",
                transactional_id=ending.transactional_id,
                producer=ending.producer_id,
                partition=marker.partition,
                code=code.name,
            )
        return False

    def _written(self, marker: _Marker) -> None:
        ending = marker.ending
        self.written_count += 1
        ending.remaining.discard(marker.partition)
        if not ending.remaining and not ending.is_over:
            ending.is_over = True
            ending.done()

    def _pause(self, markers: Iterable[_Marker]) -> None:
        """Try again in a while; the leader may be another one by then."""
        for marker in markers:
            failures = marker.ending.failures
            pause_ms = min(RETRY_MIN_MS << min(failures[marker.partition], 10), RETRY_MAX_MS)
            failures[marker.partition] += 1
            self._pausing.setdefault(pause_ms, []).append(marker)
            if pause_ms not in self._pauses:
                self._pauses[pause_ms] = self._deadlines.after(
                    pause_ms, partial(self._resume, pause_ms)
                )

    def _resume(self, pause_ms: int) -> None:
        del self._pauses[pause_ms]
        self._route(self._pausing.pop(pause_ms))


def _wire(markers: list[_Marker]) -> WritableTxnMarker:
    """Return one producer's end as it is sent."""
    ending = markers[0].ending
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for _, (topic, partition) in markers:
        if topic not in topics:
            topics[topic] = WritableTxnMarkerTopic(name=topic)
        topics[topic].partition_indexes.append(partition)
    return WritableTxnMarker(
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        transaction_result=ending.commit,
        topics=list(topics.values()),
        coordinator_epoch=ending.coordinator_epoch,
        transaction_version=ending.version,
    )
