"""Shard: a coordinator's machine on a partition led here: append, wait for the watermark, tell."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from quorate.broker.log.verification import Guard
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.leader import ACKS_ALL, LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.shards.effects import Done, Effects, Entry, Machine, Writer
from quorate.broker.shards.loading import Aside, Loader
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError
from quorate.records.batch import NO_SEQUENCE, TRANSACTIONAL_BIT, seal_batch
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, ProducerStamp, RecordBatchBuilder, record_bytes_max

if TYPE_CHECKING:
    from quorate.broker.replication.deadlines import Deadline

logger = logging.getLogger(__name__)

RELOAD_MS: Final = 10_000
"""How long after a failure a partition is read again."""

_TOLD: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What clients hear of an append that failed (Kafka: ``CoordinatorOperationExceptionHelper``)."""

M = TypeVar("M", bound=Machine)


@dataclass(frozen=True, slots=True)
class ShardHost:
    """What shards stand in.

    Attributes:
        leads: whether this broker leads a partition still, in that replica's epoch.
        aside: does what takes the disk.
        now_ms: the wall clock, as of this turn of the loop.
        commit_timeout_ms: how long a write may wait to be replicated.
    """

    leads: Callable[[Replica], bool]
    aside: Aside
    deadlines: Deadlines
    now_ms: Callable[[], int]
    commit_timeout_ms: int


class _Waiting(NamedTuple):
    """Somebody who waits for an offset to be committed, until a (monotonic) time."""

    offset: int
    deadline_ms: int
    subject: str
    done: Done


class Shard(Generic[M]):
    """The machine of one partition, in one leader epoch.

    State: whether it is loaded, and that committed; who waits for what was written to be committed.
    Invariant: once loaded, the machine's state is the fold of all records in the log; so nothing
    that was refused needs to be taken back.
    """

    __slots__ = (
        "_closed",
        "_deadline",
        "_host",
        "_is_read",
        "_last",
        "_loader",
        "_make",
        "_registered",
        "_told",
        "_waiting",
        "_writing",
        "is_loaded",
        "machine",
        "replica",
    )

    def __init__(
        self, replica: LeaderReplica, make: Callable[[Writer], M], host: ShardHost
    ) -> None:
        self.replica = replica
        self.machine: M = make(self)
        self.is_loaded = False
        self._is_read = False
        self._make = make
        self._host = host
        self._closed = False
        self._loader: Loader | None = None
        self._waiting: deque[_Waiting] = deque()
        self._registered = False
        """Whether the replica is to call back when more is committed."""
        self._last: dict[str, int] = {}
        """Where the log ended after the last write of a subject, if that may not be committed."""
        self._deadline: Deadline | None = None
        self._writing = False
        self._told: deque[tuple[Done, ErrorCode]] = deque()

    # --- loading --------------------------------------------------------------

    def load(self) -> None:
        """Begin to read what happened before."""
        if not self.is_led:
            return
        self._loader = Loader(self.replica, self.machine, self._host.aside, self._read)
        self._loader.start()

    def _read(self, error: KafkaError | None) -> None:
        partition = self.replica.topic_partition
        if error is not None:
            logger.error("%s: cannot load the state of its coordinator: %s", partition, error)
            self.machine = self._make(self)
            self._host.deadlines.after(RELOAD_MS, self.load)
            return
        self._loader = None
        self._is_read = True
        self._serve_from(self.replica.log.log_end_offset)

    def _serve_from(self, offset: int) -> None:
        """Begin to serve once what was read is committed: it might be lost with this leader yet.

        Nobody may hear of it before, and what needs no write is answered at once.
        """
        if not self.is_led:
            return
        if self.replica.high_watermark < offset:
            # Also if too few are in sync, maybe for long: there is nobody who would rather hear so.
            self.replica.when_committed(offset, lambda _code: self._serve_from(offset))
            return
        self.is_loaded = True
        logger.info("%s: loaded up to offset %d", self.replica.topic_partition, offset)
        self.machine.loaded()

    @property
    def epoch(self) -> int:
        """See :class:`Writer`."""
        return self.replica.leader_epoch

    @property
    def is_led(self) -> bool:
        """Whether this broker leads the partition still."""
        return not self._closed and self._host.leads(self.replica)

    def close(self) -> None:
        """Serve no more: whoever waits for anything here has to ask elsewhere."""
        self._closed = True
        if self._loader is not None:
            self._loader.stop()
        if self._deadline is not None:
            self._host.deadlines.cancel(self._deadline)
        self._fail_all(ErrorCode.NOT_COORDINATOR)
        self.machine.unload()

    # --- writing --------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, adds: bool
    ) -> Guard | None:
        """See :class:`Writer`."""
        return self.replica.log.producers.begin_verification(
            producer_id, producer_epoch, NO_SEQUENCE, adds=adds, now_ms=self._host.now_ms()
        )

    def write(self, effects: Effects) -> bool:
        """See :class:`Writer`."""
        if not effects.entries:
            self.when_committed(effects.subject, effects.done)
            return True
        if not self.is_led:
            self._tell(effects.done, ErrorCode.NOT_COORDINATOR)
            return False
        assert self.is_loaded, "nothing is decided on half a state"
        assert not self._writing, "one after the other"
        self._writing = True
        refused = self._append(effects)
        if refused is None:
            end_offset = self.replica.log.log_end_offset
            self._fold(effects)
            if end_offset <= self.replica.high_watermark:
                self._tell(effects.done, ErrorCode.NONE)
            else:
                self._last[effects.subject] = end_offset
                for subject in effects.also:
                    self._last[subject] = end_offset
                self._wait(end_offset, effects.subject, effects.done)
        else:
            self._tell(effects.done, refused)
        self._writing = False
        while self._told:
            done, code = self._told.popleft()
            done(code)
        return refused is None

    def _fold(self, effects: Effects) -> None:
        transaction = effects.transaction
        for key, value in effects.entries:
            if transaction is None:
                self.machine.replay(key, value)
            else:
                self.machine.replay_pending(transaction.producer_id, key, value)

    def _append(self, effects: Effects) -> ErrorCode | None:
        """Append one batch; return why not, if it was refused."""
        now_ms = self._host.now_ms()
        entries, transaction = effects.entries, effects.transaction
        try:
            if transaction is None:
                records = memoryview(_batch_of(entries, now_ms))
                self.replica.append(records, acks=ACKS_ALL, now_ms=now_ms)
            else:
                producer_id, epoch, guard = transaction
                stamp = ProducerStamp(producer_id, epoch, NO_SEQUENCE)
                records = memoryview(_transactional_batch_of(entries, now_ms, stamp))
                self.replica.append(
                    records, acks=ACKS_ALL, now_ms=now_ms, guard=guard, by_coordinator=True
                )
        except KafkaError as error:
            logger.info("%s takes no records: %s", self.replica.topic_partition, error)
            return _TOLD.get(error.code, error.code)
        return None

    def marker_appended(self, producer_id: int, *, committed: bool) -> None:
        """Take note that the partition has the end of a transaction now, behind all that was read.

        Those who ask for what that changes are answered when the marker is committed.
        """
        if not self._is_read or self._closed:
            return  # it will be read, or nobody asks here
        end_offset = self.replica.log.log_end_offset
        for subject in self.machine.end_transaction(producer_id, committed=committed):
            if end_offset > self.replica.high_watermark:
                self._last[subject] = end_offset

    def when_committed(self, subject: str, done: Done) -> None:
        """See :class:`Writer`."""
        if not self.is_led:
            self._tell(done, ErrorCode.NOT_COORDINATOR)
        elif self._last.get(subject, 0) <= self.replica.high_watermark:
            self._tell(done, ErrorCode.NONE)
        else:
            # Behind all others, which come first anyway, so that who waits stands in order.
            self._wait(self.replica.log.log_end_offset, subject, done)

    # --- waiting --------------------------------------------------------------

    def _wait(self, offset: int, subject: str, done: Done) -> None:
        deadlines, timeout_ms = self._host.deadlines, self._host.commit_timeout_ms
        self._waiting.append(_Waiting(offset, deadlines.now_ms + timeout_ms, subject, done))
        self._register()
        if self._deadline is None:
            self._deadline = deadlines.after(timeout_ms, self._on_deadline)

    def _register(self) -> None:
        """Have the replica call back for the first who waits; once is enough for all."""
        if self._waiting and not self._registered:
            self._registered = True
            self.replica.when_committed(self._waiting[0].offset, self._on_committed)

    def _on_committed(self, code: ErrorCode) -> None:
        """Take note that the high watermark passed whom it was to pass, or never will."""
        if code != ErrorCode.NONE:
            self._registered = False
            self._fail_all(_TOLD.get(code, code))
            return
        # Who is told may write, and so move the watermark; or wait, behind some who are yet to be
        # told, and need no call back.
        while self._waiting and self._waiting[0].offset <= self.replica.high_watermark:
            waiting = self._waiting.popleft()
            if self._last.get(waiting.subject, 0) <= self.replica.high_watermark:
                self._last.pop(waiting.subject, None)
            self._tell(waiting.done, ErrorCode.NONE)
        self._registered = False
        self._register()
        if self.replica.high_watermark >= self.replica.log.log_end_offset:
            self._last.clear()  # of those, too, who did not wait so long

    def _on_deadline(self) -> None:
        """Give up whom it takes too long; what was written may be committed yet."""
        deadlines = self._host.deadlines
        self._deadline = None
        while self._waiting and self._waiting[0].deadline_ms <= deadlines.now_ms:
            self._tell(self._waiting.popleft().done, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._waiting and self._deadline is None:
            left_ms = self._waiting[0].deadline_ms - deadlines.now_ms
            self._deadline = deadlines.after(left_ms, self._on_deadline)

    def _fail_all(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._tell(each.done, code)

    # --- telling --------------------------------------------------------------

    def _tell(self, done: Done, code: ErrorCode) -> None:
        """Tell somebody, but not in the middle of a write: who hears may want to write."""
        if self._writing:
            self._told.append((done, code))
        else:
            done(code)


def _builder_of(entries: Iterable[Entry], now_ms: int) -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    for key, value in entries:
        builder.append(now_ms, key, value, b"", record_bytes_max(key, value, b""))
    return builder


def _batch_of(entries: Iterable[Entry], now_ms: int) -> bytearray:
    return _builder_of(entries, now_ms).build(Codec.NONE, NO_PRODUCER)


def _transactional_batch_of(
    entries: Iterable[Entry], now_ms: int, producer: ProducerStamp
) -> bytearray:
    builder = _builder_of(entries, now_ms)
    return seal_batch(
        builder.encode(),
        attributes=Codec.NONE | TRANSACTIONAL_BIT,
        record_count=builder.count,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer=producer,
    )
