"""LeaderReplica: appends, serves reads, tracks followers, moves the high watermark.

The rules are Kafka's (class ``Partition``), the follower's side of them is in ``follower``.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.log.epochs import EpochEnd
from quorate.broker.log.log import AppendResult, Log
from quorate.broker.log.times import TimeLookup, TimestampOffset
from quorate.broker.replication.host import Host
from quorate.broker.replication.isr import (
    LONG_AGO_MS,
    Follower,
    InSyncReplicas,
    Visits,
    without,
)
from quorate.control.partition_messages import (
    AlteredPartition,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownLeaderEpochError,
    known_code,
)
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition
from quorate.quorum.metadata.image import PartitionState
from quorate.records.compression import Codec, codec_named
from quorate.records.recompress import recompressed
from quorate.records.slices import FileSlice
from quorate.settings import TopicConfig

if TYPE_CHECKING:
    from quorate.broker.replication.sessions import SessionPartition

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1
PRODUCERS_CHOICE: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

NEVER_HAPPENED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Refusals of an ISR that say that the leader's view was right, and that nothing was changed."""

NEWS_UNDERWAY: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Refusals of an ISR that say that the metadata are ahead of us: they will tell what is true."""


class Waiter(Protocol):
    """Somebody who wants to know when there is more to read."""

    def on_progress(self) -> None:
        """Look again: the high watermark moved."""
        ...

    def on_closed(self) -> None:
        """Wait no longer: this broker does not host the partition in that epoch any more."""
        ...


CommitWaiter = Callable[[ErrorCode], None]
"""Somebody who wants to know when an offset is committed: NONE when it is, or why one will never
know."""


class LeaderReplica:
    """One partition that this broker leads, in one leader epoch.

    State: the followers, the ISR, the high watermark, who waits for it to move, and who waits for
    records. Invariant: ``log_start_offset <= high_watermark <= log_end_offset``, and the high
    watermark never goes back: every member of the maximal ISR has what lies below it. With
    ``flush.messages=1`` only synced records count as replicated, so the high watermark stays at or
    below what survives a power cut.
    """

    __slots__ = (
        "_codec",
        "_commit_waiters",
        "_flush_messages",
        "_host",
        "_min_isr",
        "_news",
        "_refused",
        "_sync_waiters",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "isr",
        "log",
        "parts",
        "read_waiters",
        "state",
        "topic_id",
        "topic_partition",
        "waits_for_sync",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        state: PartitionState,
        log: Log,
        host: Host,
        high_watermark: int,
    ) -> None:
        """Lead with ``state``; what is known to be committed already lies below the watermark."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.state = state
        self.log = log
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.epoch_start_offset = log.log_end_offset
        """Where our epoch begins: what lies below may be committed without our knowing it."""
        self.read_waiters: set[Waiter] = set()
        self.followers: dict[int, Follower] = {}
        self.isr = InSyncReplicas(state.isr, state.partition_epoch)
        self.parts: list[SessionPartition] = []
        """The followers' fetches that wait here for records."""
        self._commit_waiters: deque[tuple[int, CommitWaiter]] = deque()
        self._sync_waiters: deque[tuple[int, CommitWaiter]] = deque()
        self._host = host
        self._news = host.news
        self._refused = False
        self._flush_messages = 0
        self._min_isr = 1
        self._codec: Codec | None = None
        self.waits_for_sync = False
        """Whether records count only once they are synced to disk."""
        self._count_followers(host.now_ms)
        self.configure(log.config)
        self.advance()
        if self.waits_for_sync and log.flushed_offset < log.log_end_offset:
            # What a crash left behind would be seen by nobody until the next append.
            self._news.unsynced.add(self)

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads."""
        return self.state.leader_epoch

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for anything to be committed (KIP-966)."""
        return len(self.isr.committed) < self._min_isr

    def configure(self, config: TopicConfig) -> None:
        """Go by these settings of the topic from now on."""
        self.log.config = config
        self._flush_messages = config.flush_messages
        self._codec = _codec(config.compression_type)
        self._min_isr = min(config.min_insync_replicas, len(self.state.replicas))
        self.waits_for_sync = config.flush_messages == 1

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a request that was made for another epoch (KIP-320); -1 fits any.

        Raises:
            FencedLeaderEpochError: the client's metadata is older than ours.
            UnknownLeaderEpochError: the client's metadata is newer than ours.
        """
        if current_leader_epoch in (UNKNOWN_EPOCH, self.state.leader_epoch):
            return
        if current_leader_epoch < self.state.leader_epoch:
            raise FencedLeaderEpochError
        raise UnknownLeaderEpochError

    def append(self, records: memoryview, *, acks: int, now_ms: int) -> AppendResult:
        """Append batches as the leader; they are patched in place.

        Raises:
            NotEnoughReplicasError: ``acks`` is all, and too few replicas are in sync.
            KafkaError: the log refused the records.
        """
        if acks == ACKS_ALL and len(self.isr.committed) < self._min_isr:
            raise NotEnoughReplicasError
        log = self.log
        if self._codec is not None:
            records = recompressed(records, self._codec)
        if self.followers:
            self._note_who_is_caught_up()
        try:
            result = log.append(records, leader_epoch=self.state.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            self._disk_refused(error)
            raise
        if self._refused:
            self._refused = False
            logger.info("%s takes records again", self.topic_partition)
        self.advance()
        for part in self.parts:
            part.on_append()
        if log.log_end_offset - log.flushed_offset >= self._flush_messages:
            self._news.unsynced.add(self)
        return result

    def _disk_refused(self, error: StorageError) -> None:
        """Say once why records are refused, however many are."""
        if not self._refused:
            self._refused = True
            logger.warning("%s takes no records: %s", self.topic_partition, error)

    def _note_who_is_caught_up(self) -> None:
        end_offset = self.log.log_end_offset
        for follower in self.followers.values():
            if follower.log_end_offset == end_offset:
                follower.leader_appends()

    # --- what is committed ----------------------------------------------------

    def advance(self) -> None:
        """Move the high watermark to what all in-sync replicas have, and tell who waited for it."""
        log = self.log
        own = log.flushed_offset if self.waits_for_sync else log.log_end_offset
        if self._sync_waiters:
            _serve(self._sync_waiters, own)
        if own <= self.high_watermark:
            return
        replicated = self._replicated(own) if self.followers else own
        if replicated <= self.high_watermark:
            return
        self.high_watermark = replicated
        _serve(self._commit_waiters, replicated)
        if self.read_waiters:
            self._news.progressed.add(self)
        for part in self.parts:
            part.on_high_watermark()

    def _replicated(self, own: int) -> int:
        """Return up to where everybody has the log who is in sync, or is just about to be.

        Those who have caught up but are not in the ISR yet are waited for, or else they would never
        reach a high watermark that runs ahead with the leader.
        """
        if len(self.isr.committed) < self._min_isr:
            return self.high_watermark
        host, maximal = self._host, self.isr.maximal
        end_offset = self.log.log_end_offset
        lowest = own
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                broker_id in maximal
                or (
                    follower.is_caught_up(end_offset, host.now_ms, host.lag_time_max_ms)
                    and host.may_join_isr(broker_id, follower.broker_epoch)
                )
            ):
                lowest = follower.log_end_offset
        return lowest

    def when_committed(self, offset: int, waiter: CommitWaiter) -> None:
        """Call back when the high watermark reaches ``offset``, in the order of offsets and calls.

        It must lie behind the high watermark.
        """
        assert offset > self.high_watermark, "what is committed is not waited for"
        _insert(self._commit_waiters, offset, waiter)

    def when_synced(self, offset: int, waiter: CommitWaiter) -> None:
        """Call back when everything below ``offset`` is on our disk."""
        assert offset > self.log.flushed_offset, "what is synced is not waited for"
        _insert(self._sync_waiters, offset, waiter)

    # --- followers ------------------------------------------------------------

    def update(self, state: PartitionState) -> None:
        """Lead on in the same epoch, with what the metadata say by now."""
        self.state = state
        self._count_followers(self._host.now_ms)
        self._min_isr = min(self.log.config.min_insync_replicas, len(state.replicas))
        self.isr.commit(state.isr, state.partition_epoch)
        self._isr_changed()

    def _count_followers(self, now_ms: int) -> None:
        """Have a follower for each replica but ours."""
        known = self.followers
        self.followers = {
            broker_id: known.get(broker_id)
            or Follower(
                broker_id, caught_up_ms=now_ms if broker_id in self.state.isr else LONG_AGO_MS
            )
            for broker_id in self.state.replicas
            if broker_id != self._host.node_id
        }

    def acknowledge(
        self,
        broker_id: int,
        broker_epoch: int,
        fetch: "SessionPartition",
        visits: Visits,
    ) -> EpochEnd | None:
        """Take a follower's fetch as its word that it has everything below.

        Returns:
            Where its log and ours part ways, if they do: then it has to truncate, and said nothing.

        Raises:
            UnknownLeaderEpochError: we do not know (yet) that it is a replica of ours.
            NotLeaderOrFollowerError: as before, from one that does not tell its epoch; or its
                broker was registered again since (KIP-903).
            OffsetOutOfRangeError: we do not have that offset, or not any more.
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            if fetch.current_leader_epoch == UNKNOWN_EPOCH:
                raise NotLeaderOrFollowerError
            raise UnknownLeaderEpochError
        diverging = self._diverging(fetch.offset, fetch.last_fetched_epoch)
        if diverging is not None:
            return diverging
        self.check_readable(fetch.offset)
        if self._host.is_stale(broker_id, broker_epoch):
            raise NotLeaderOrFollowerError(f"broker {broker_id} was registered again since")
        before = follower.log_end_offset
        follower.visits(visits, broker_epoch)
        follower.fetched(
            fetch.offset,
            fetch.log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=self._host.now_ms,
        )
        if broker_id not in self.isr.committed:
            self._consider(follower)
        if fetch.offset != before:
            self.advance()
        return None

    def _diverging(self, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Return the end of what a follower's log has in common with ours, if that lies before it.

        Raises:
            OffsetOutOfRangeError: it cannot be told, or our log begins later.
        """
        if last_fetched_epoch == UNKNOWN_EPOCH:
            return None
        end = self.epoch_end(last_fetched_epoch)
        if end.end_offset == UNKNOWN_OFFSET:
            raise OffsetOutOfRangeError(f"{self.topic_partition} has no epoch {last_fetched_epoch}")
        if offset < self.log.log_start_offset:
            self.check_readable(offset)
        if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """Return the largest epoch at most the one asked for, and where it ends here.

        Our own begins where the log ended when we began to lead, even if nothing was written in it.
        """
        log = self.log
        latest_epoch = log.leader_epochs.latest_epoch
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, log.log_end_offset)
        if latest_epoch < leader_epoch < self.leader_epoch:
            known = leader_epoch if latest_epoch == UNKNOWN_EPOCH else latest_epoch
            return EpochEnd(known, self.epoch_start_offset)
        return log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)

    # --- the ISR --------------------------------------------------------------

    def review(self) -> None:
        """Propose to leave out of the ISR who lags for too long, else to take in who caught up."""
        if self.isr.in_flight:
            return
        host, end_offset = self._host, self.log.log_end_offset
        lagging = [
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.isr.committed
            and not follower.is_caught_up(end_offset, host.now_ms, host.lag_time_max_ms)
        ]
        if lagging:
            logger.info("%s: out of sync are %s", self.topic_partition, lagging)
            self._propose(without(self.isr.committed, lagging))
            return
        for follower in self.followers.values():
            if follower.broker_id not in self.isr.committed:
                self._consider(follower)

    def _consider(self, follower: Follower) -> None:
        """Propose a follower for the ISR if it has all that is, or may be, committed."""
        needed = max(self.high_watermark, self.epoch_start_offset)
        if (
            not self.isr.in_flight
            and follower.log_end_offset >= needed
            and self._host.may_join_isr(follower.broker_id, follower.broker_epoch)
        ):
            members = {*self.isr.committed, follower.broker_id}
            self._propose(tuple(b for b in self.state.replicas if b in members))

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.isr.propose(isr)
        self._news.alterations.add(self)

    def alteration(self) -> PartitionAlteration | None:
        """Return the change of the ISR that the controller is to make, if one is in flight."""
        if self.isr.proposed is None:
            return None
        epochs = {b: f.broker_epoch for b, f in self.followers.items()}
        epochs[self._host.node_id] = self._host.broker_epoch
        return PartitionAlteration(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=tuple(
                InSyncReplica(b, UNKNOWN_BROKER_EPOCH if (e := epochs.get(b)) is None else e)
                for b in self.isr.proposed
            ),
        )

    def altered(self, sent: PartitionAlteration, answer: AlteredPartition) -> None:
        """Take note of what became of our change (Kafka: ``handleAlterPartitionError``).

        What nobody knows the outcome of is proposed again: it counts with the larger ISR until
        the metadata or an answer say which one is true.
        """
        isr = self.isr
        if isr.proposed is None or sent.partition_epoch != isr.partition_epoch:
            return  # the metadata were quicker
        code = known_code(answer.failure.code)
        if code == ErrorCode.NONE:
            if answer.leader_epoch != self.leader_epoch:
                return  # the metadata are under way, and we do not lead any more
            if not isr.commit(answer.isr, answer.partition_epoch):
                isr.give_up()
            self._isr_changed()
        elif code in NEVER_HAPPENED:
            logger.info("%s: the ISR stays: %s", self.topic_partition, answer.failure.message)
            isr.give_up()
            self.advance()
        elif code not in NEWS_UNDERWAY:
            self._news.alterations.add(self)

    def retry_alteration(self) -> None:
        """Propose again what nobody knows the outcome of."""
        if self.isr.in_flight:
            self._news.alterations.add(self)

    def _isr_changed(self) -> None:
        self.advance()
        if self.is_under_min_isr and self._commit_waiters:
            # Nothing is committed now, maybe for long; who waits is told what is known.
            waiters, self._commit_waiters = self._commit_waiters, deque()
            for _, waiter in waiters:
                waiter(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        for follower in self.followers.values():
            if follower.broker_id not in self.isr.committed:
                self._consider(follower)

    # --- reading --------------------------------------------------------------

    def check_readable(self, offset: int) -> None:
        """Refuse an offset that consumers cannot read from.

        Raises:
            OffsetOutOfRangeError: it was deleted, or lies beyond the high watermark's future.
        """
        log = self.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic_partition}: the log has"
                f" {log.log_start_offset} to {log.log_end_offset}"
            )

    def read(
        self, offset: int, *, max_bytes: int, at_least_one: bool, may_wait: bool = True
    ) -> FileSlice | None:
        """Return committed batches from ``offset`` on, or None when there is none yet.

        Raises:
            ColdError: the disk may not be waited for, but would have to be.
            OffsetOutOfRangeError: see :meth:`check_readable`.
            StorageError: the log could not be read now.
        """
        self.check_readable(offset)
        if offset >= self.high_watermark:
            return None
        try:
            return self.log.read(
                offset,
                max_bytes=max_bytes,
                limit_offset=self.high_watermark,
                at_least_one=at_least_one,
                may_wait=may_wait,
            )
        except OSError as error:
            raise self._unreadable(error) from error

    def read_for_follower(
        self, offset: int, *, max_bytes: int, at_least_one: bool
    ) -> FileSlice | None:
        """Return batches from ``offset`` on, committed or not, or None when there is none yet.

        Raises:
            OffsetOutOfRangeError: see :meth:`check_readable`.
            StorageError: the log could not be read now.
        """
        try:
            return self.log.read(
                offset,
                max_bytes=max_bytes,
                limit_offset=self.log.log_end_offset,
                at_least_one=at_least_one,
            )
        except OSError as error:
            raise self._unreadable(error) from error

    def committed(self, lookup: TimeLookup) -> TimestampOffset | None:
        """Return what was found in the log by time, if it is committed.

        Raises:
            KafkaError: the log could not be read.
        """
        try:
            found = lookup.result()
        except OSError as error:
            raise self._unreadable(error) from error
        return found if found is not None and found.offset < self.high_watermark else None

    def _unreadable(self, error: OSError) -> StorageError:
        """Return what clients are told; out of file descriptors, say, does not last."""
        return StorageError(f"cannot read the log of {self.topic_partition}: {error.strerror}")

    def close(self) -> None:
        """Stop leading: nobody waits here any longer, and nothing is synced for us."""
        self._news.progressed.discard(self)
        self._news.unsynced.discard(self)
        self._news.alterations.discard(self)
        for waiter in list(self.read_waiters):
            waiter.on_closed()
        for part in list(self.parts):
            part.on_closed()
        for waiters in (self._commit_waiters, self._sync_waiters):
            gone = list(waiters)
            waiters.clear()
            for _, commit_waiter in gone:
                commit_waiter(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _insert(waiters: deque[tuple[int, CommitWaiter]], offset: int, waiter: CommitWaiter) -> None:
    if not waiters or waiters[-1][0] <= offset:
        waiters.append((offset, waiter))
        return
    # A duplicate is answered with offsets of old: it stands between younger ones.
    place = sum(waiting <= offset for waiting, _ in waiters)
    waiters.insert(place, (offset, waiter))


def _serve(waiters: deque[tuple[int, CommitWaiter]], offset: int) -> None:
    while waiters and waiters[0][0] <= offset:
        waiters.popleft()[1](ErrorCode.NONE)


def _codec(compression_type: str) -> Codec | None:
    """Return the codec that a topic's batches must have; None if it is the producer's choice."""
    if compression_type == PRODUCERS_CHOICE:
        return None
    return Codec.NONE if compression_type == UNCOMPRESSED else codec_named(compression_type)
