"""LeaderReplica: appends, serves reads, tracks followers, moves the high watermark.

The rules are Kafka's (class ``Partition``), the follower's side of them is in ``follower``.
"""

import logging
from typing import TYPE_CHECKING, Final

from quorate.broker.log.appended import AppendResult
from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.log.epochs import EpochEnd
from quorate.broker.log.log import Log
from quorate.broker.log.verification import Guard
from quorate.broker.replication.host import Host
from quorate.broker.replication.isr import (
    LONG_AGO_MS,
    NEVER_HAPPENED,
    NEWS_UNDERWAY,
    Follower,
    InSyncReplicas,
    Visits,
    without,
)
from quorate.broker.replication.refusals import Refusals
from quorate.broker.replication.replica import Replica
from quorate.broker.replication.waiting import CommitWaiter, Waiters
from quorate.control.partition_messages import (
    AlteredPartition,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import (
    ErrorCode,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownLeaderEpochError,
    known_code,
)
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition
from quorate.quorum.metadata.image import PartitionState
from quorate.records.batch import BatchHeader
from quorate.records.control import TransactionEnd
from quorate.records.recompress import Recompress, recompression
from quorate.records.slices import FileSlice
from quorate.settings import TopicConfig

if TYPE_CHECKING:
    from quorate.broker.replication.sessions import SessionPartition

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1
SENT_AWAY_MS: Final = 300_000
"""How long a consumer reads where it was sent before it asks us again (``metadata.max.age.ms``)."""


class LeaderReplica(Replica):
    """One partition that this broker leads, in one leader epoch.

    State: the followers, the ISR, the high watermark, who waits for it to move, and who waits for
    records. Invariant: ``log_start_offset <= high_watermark <= log_end_offset``, and the high
    watermark never goes back: every member of the maximal ISR has what lies below it. With
    ``flush.messages=1`` only synced records count as replicated, so the high watermark stays at or
    below what survives a power cut.
    """

    __slots__ = (
        "_flush_messages",
        "_min_isr",
        "_proposal",
        "_recompress",
        "_refusals",
        "_refused",
        "_sent_away_ms",
        "commit_waiters",
        "delete_waiters",
        "epoch_start_bytes",
        "epoch_start_offset",
        "followers",
        "isr",
        "parts",
        "sync_waiters",
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
        super().__init__(topic_partition, topic_id, state, log, host, high_watermark)
        self.epoch_start_offset = log.log_end_offset
        """Where our epoch begins: what lies below may be committed without our knowing it."""
        self.epoch_start_bytes = log.written_bytes
        self.followers: dict[int, Follower] = {}
        self.isr = InSyncReplicas(state.isr, state.partition_epoch)
        self.parts: list[SessionPartition] = []
        """The followers' fetches that wait here for records."""
        self.commit_waiters = Waiters()
        self.sync_waiters = Waiters()
        self.delete_waiters = Waiters()
        self._proposal: tuple[InSyncReplica, ...] = ()
        """Who was proposed for the ISR, each in the registration in which it was found in sync."""
        self._refused = False
        self._refusals = Refusals()
        self._flush_messages = 0
        self._min_isr = 1
        self._recompress: Recompress | None = None
        self._sent_away_ms = LONG_AGO_MS
        self._count_followers(host.now_ms)
        self.configure(log.config)
        self.advance()

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for anything to be committed (KIP-966)."""
        return len(self.isr.committed) < self._min_isr

    def configure(self, config: TopicConfig) -> None:
        """Go by these settings of the topic from now on."""
        super().configure(config)
        self._flush_messages = config.flush_messages
        self._recompress = recompression(config)
        self._min_isr = min(config.min_insync_replicas, len(self.state.replicas))
        if self.waits_for_sync and self.log.flushed_offset < self.log.log_end_offset:
            # Of a crash or of another setting: nobody would see it until the next append.
            self._news.unsynced[self] = None

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        header: BatchHeader | None = None,
        guard: Guard | None = None,
        *,
        by_coordinator: bool = False,
    ) -> AppendResult:
        """Append a batch as the leader; it is patched in place.

        Args:
            records: the batch, writable.
            acks: of the request they came with.
            now_ms: the time.
            header: of the batch, if that is known to be sound.
            guard: if a transaction may begin with it (``ProducerStates.begin_verification``).
            by_coordinator: whether a coordinator wrote it for a producer, without a sequence.

        Raises:
            NotEnoughReplicasError: ``acks`` is all, and too few replicas are in sync.
            KafkaError: the log refused the records.
        """
        if acks == ACKS_ALL and self.is_under_min_isr:
            self._refusals.note(records, ErrorCode.NOT_ENOUGH_REPLICAS, now_ms)
            raise NotEnoughReplicasError
        log = self.log
        if self._refusals.waiting_for:
            self._refusals.check(records, log.producers, now_ms)
        if self._recompress is not None:
            records, header = self._recompress(records), None
        if self.followers:
            self._note_who_is_caught_up()
        try:
            epoch = self.state.leader_epoch
            result = log.append(
                records, epoch, now_ms, header, guard, by_coordinator=by_coordinator
            )
        except StorageError as error:
            self._refusals.note(records, error.code, now_ms)
            self._disk_refused(error)
            raise
        if self._refused:
            self._refused = False
            logger.info("%s takes records again", self.topic_partition)
        # As in _appended, in line: a call would take a twentieth of all this.
        self.advance()
        for part in self.parts:
            part.on_append()
        end_offset, flush_messages = log.log_end_offset, self._flush_messages
        if end_offset >= flush_messages and end_offset - log.flushed_offset >= flush_messages:
            self._news.unsynced[self] = None
        return result

    def append_marker(self, end: TransactionEnd, now_ms: int) -> AppendResult:
        """End a producer's transaction here; one that has ended may be ended again.

        Raises:
            NotEnoughReplicasError: too few replicas are in sync.
            InvalidProducerEpochError: the producer has gone on in a newer epoch.
            TransactionCoordinatorFencedError: a newer coordinator has ended one since.
            StorageError: the disk refuses.
        """
        if self.is_under_min_isr:
            raise NotEnoughReplicasError
        if self.followers:
            self._note_who_is_caught_up()
        result = self.log.append_marker(end, self.state.leader_epoch, now_ms)
        self._appended()
        return result

    def _appended(self) -> None:
        """See to it that everybody hears of what was appended."""
        log = self.log
        self.advance()
        for part in self.parts:
            part.on_append()
        if log.log_end_offset - log.flushed_offset >= self._flush_messages:
            self._news.unsynced[self] = None

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
        if self.sync_waiters:
            self.sync_waiters.serve(own)
        if own <= self.high_watermark:
            return
        replicated = self._replicated(own) if self.followers else own
        if replicated <= self.high_watermark:
            return
        self.high_watermark = replicated
        if log.producers.transactions is not None:
            self._note_replicated()
        if self.commit_waiters:
            self.commit_waiters.serve(replicated)
        if self.read_waiters:
            self._news.progressed[self] = None
        if self.parts:
            hurry = self._host.now_ms - self._sent_away_ms < SENT_AWAY_MS
            for part in self.parts:
                part.on_high_watermark(hurry=hurry)

    def _replicated(self, own: int) -> int:
        """Return up to where everybody has the log who is in sync, or is just about to be.

        Those who have caught up but are not in the ISR yet are waited for, or else they would never
        reach a high watermark that runs ahead with the leader.
        """
        if self.is_under_min_isr:
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
        self.commit_waiters.wait(offset, waiter)

    def when_synced(self, offset: int, waiter: CommitWaiter) -> None:
        """Call back when everything below ``offset`` is on our disk."""
        assert offset > self.log.flushed_offset, "what is synced is not waited for"
        self.sync_waiters.wait(offset, waiter)

    def take_over(self, before: "LeaderReplica") -> None:
        """Have those wait here who wait in an epoch before, which was ours, too, on the same log.

        What they wait for is where it was, so that nobody need send it again (as in Kafka).
        """
        self.sync_waiters.take_over(before.sync_waiters)
        self.commit_waiters.take_over(before.commit_waiters)
        self.delete_waiters.take_over(before.delete_waiters)
        self.commit_waiters.serve(self.high_watermark)
        self._tell_deleted()
        self._isr_changed()

    # --- followers ------------------------------------------------------------

    def update(self, state: PartitionState) -> None:
        """Lead on in the same epoch, with what the metadata say by now."""
        self.state = state
        self._count_followers(self._host.now_ms)
        self._min_isr = min(self.log.config.min_insync_replicas, len(state.replicas))
        self.isr.commit(state.isr, state.partition_epoch)
        self._isr_changed()
        self._tell_deleted()

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
        diverging = self.diverging(fetch.offset, fetch.last_fetched_epoch)
        if diverging is not None:
            return diverging
        self.check_readable(fetch.offset)
        if self._host.is_stale(broker_id, broker_epoch):
            raise NotLeaderOrFollowerError(f"broker {broker_id} was registered again since")
        before, start_before = follower.log_end_offset, follower.log_start_offset
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
        if fetch.log_start_offset != start_before:
            self._tell_deleted()
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

    @property
    def knows_what_is_committed(self) -> bool:
        """Whether the high watermark has reached our epoch (KIP-207).

        Until it has, records may be committed that we cannot tell from others yet.
        """
        return self.high_watermark >= self.epoch_start_offset

    def reader_for(self, rack: str, offset: int) -> int:
        """Return which broker a consumer in that rack shall read from (KIP-392).

        That is us, unless an in-sync follower is nearer than we are, and has that offset.
        """
        brokers, here = self._host.image.brokers, self._host.node_id
        own = brokers.get(here)
        if not rack or own is None or own.rack == rack:
            return here
        near = [
            follower
            for broker_id, follower in self.followers.items()
            if broker_id in self.isr.committed
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and (broker := brokers.get(broker_id)) is not None
            and broker.rack == rack
            and not broker.fenced
        ]
        if not near:
            return here
        self._sent_away_ms = self._host.now_ms
        return max(near, key=lambda follower: follower.log_end_offset).broker_id

    # --- the ISR --------------------------------------------------------------

    def review(self) -> None:
        """Propose to leave out of the ISR who lags for too long, else to take in who caught up.

        Who has gone out of service is not waited for any more by those who deleted records.
        """
        self.advance()  # who was waited for may have gone out of service, or fallen behind
        self._tell_deleted()
        if self.isr.in_flight:
            return
        lagging = self._lagging()
        if lagging:
            logger.info("%s: out of sync are %s", self.topic_partition, lagging)
            self._propose(without(self.isr.committed, lagging))
            return
        for follower in self.followers.values():
            if follower.broker_id not in self.isr.committed:
                self._consider(follower)

    def _lagging(self) -> list[int]:
        """Return who is in sync and has lacked something for too long.

        That is any time for those who cannot write it anyway, as far as others commit without them.
        """
        host, end_offset = self._host, self.log.log_end_offset
        members = [f for b, f in self.followers.items() if b in self.isr.committed]
        late = [
            f.broker_id
            for f in members
            if not f.is_caught_up(end_offset, host.now_ms, host.lag_time_max_ms)
        ]
        unable = [
            f
            for f in members
            if f.broker_id not in late
            and UNKNOWN_OFFSET < f.log_end_offset < end_offset
            and host.cannot_write(f.broker_id)
        ]
        unable.sort(key=lambda f: f.log_end_offset)
        spare = max(0, len(self.isr.committed) - len(late) - self._min_isr)
        return late + [f.broker_id for f in unable[:spare]]

    def _consider(self, follower: Follower) -> None:
        """Propose a follower for the ISR if it has all that is, or may be, committed."""
        needed = max(self.high_watermark, self.epoch_start_offset)
        if (
            not self.isr.in_flight
            and follower.log_end_offset >= needed
            and self._host.may_join_isr(
                follower.broker_id, follower.broker_epoch, in_need=self._needs(follower)
            )
        ):
            members = {*self.isr.committed, follower.broker_id}
            self._propose(tuple(b for b in self.state.replicas if b in members))

    def _needs(self, follower: Follower) -> bool:
        """Whether something is committed again with a follower that would not leave at once."""
        host, end_offset = self._host, self.log.log_end_offset
        return self.is_under_min_isr and follower.is_caught_up(
            end_offset, host.now_ms, host.lag_time_max_ms
        )

    def _propose(self, isr: tuple[int, ...]) -> None:
        epochs = {b: f.broker_epoch for b, f in self.followers.items()}
        epochs[self._host.node_id] = self._host.broker_epoch
        self._proposal = tuple(
            InSyncReplica(b, UNKNOWN_BROKER_EPOCH if (e := epochs.get(b)) is None else e)
            for b in isr
        )
        self.isr.propose(isr)
        self._news.alterations[self] = None

    def alteration(self) -> PartitionAlteration | None:
        """Return the change of the ISR that the controller is to make, if one is in flight.

        It is the same each time, whoever was registered again meanwhile: that one was in sync, but
        need not be any more.
        """
        if self.isr.proposed is None:
            return None
        return PartitionAlteration(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=self._proposal,
        )

    def altered(self, sent: PartitionAlteration, answer: AlteredPartition) -> None:
        """Take note of what became of our change (Kafka: ``handleAlterPartitionError``).

        What nobody knows the outcome of is proposed again: it counts with the larger ISR until
        the metadata say which one is true. So does a change that was made: Kafka's leaders count on
        it at once, but the controller may have made it by a ``min.insync.replicas`` that we do not
        know yet, and call replicas eligible that would lack what we commit by the one before.
        """
        isr = self.isr
        if isr.proposed is None or sent.partition_epoch != isr.partition_epoch:
            return  # the metadata were quicker
        code = known_code(answer.failure.code)
        if code == ErrorCode.NONE:
            if answer.partition_epoch == isr.partition_epoch:  # it was none
                isr.give_up()
                self._isr_changed()
        elif code in NEVER_HAPPENED:
            logger.info("%s: the ISR stays: %s", self.topic_partition, answer.failure.message)
            isr.give_up()
            self.advance()
        elif code not in NEWS_UNDERWAY:
            self._news.alterations[self] = None

    def retry_alteration(self) -> None:
        """Propose again what nobody knows the outcome of."""
        if self.isr.in_flight:
            self._news.alterations[self] = None

    def _isr_changed(self) -> None:
        self.advance()
        if self.is_under_min_isr:
            # Nothing is committed now, maybe for long; who waits is told what is known.
            self.commit_waiters.give_up(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        for follower in self.followers.values():
            if follower.broker_id not in self.isr.committed:
                self._consider(follower)

    # --- deleting -------------------------------------------------------------

    @property
    def low_watermark(self) -> int:
        """What lies before it no replica in service has any more; -1 while one has not said."""
        brokers = self._host.image.brokers
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if (broker := brokers.get(follower.broker_id)) is not None and not broker.fenced
        ]
        return min((self.log.log_start_offset, *starts))

    def delete_records_before(self, offset: int) -> None:
        """Make the offset the first one that can be read, here and by and by on all replicas.

        Raises:
            StorageError: the disk failed.
        """
        self.log.delete_records_before(offset)
        for part in self.parts:
            part.on_log_start()

    def when_deleted(self, offset: int, waiter: CommitWaiter) -> None:
        """Call back when the low watermark reaches ``offset``, or will not while we lead."""
        assert offset > self.low_watermark, "what is deleted is not waited for"
        self.delete_waiters.wait(offset, waiter)

    def _tell_deleted(self) -> None:
        if self.delete_waiters:
            self.delete_waiters.serve(self.low_watermark)

    # --- reading --------------------------------------------------------------

    def read_for_follower(
        self, offset: int, *, max_bytes: int, at_least_one: bool, may_wait: bool
    ) -> FileSlice | None:
        """Return batches from ``offset`` on, committed or not, or None when there is none yet.

        Raises:
            ColdError: the disk may not be waited for, but would have to be.
            OffsetOutOfRangeError: see :meth:`check_readable`.
            StorageError: the log could not be read now.
        """
        try:
            return self.log.read(
                offset,
                max_bytes=max_bytes,
                limit_offset=self.log.log_end_offset,
                at_least_one=at_least_one,
                may_wait=may_wait,
            )
        except OSError as error:
            raise self._unreadable(error) from error

    def close(self) -> None:
        """Stop leading, without followers by now: no client waits any longer, nothing is synced."""
        self._news.unsynced.pop(self, None)
        self._news.alterations.pop(self, None)
        super().close()
        for waiters in (self.commit_waiters, self.sync_waiters, self.delete_waiters):
            waiters.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
