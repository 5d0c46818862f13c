"""LeaderReplica: appends, serves reads, moves the high watermark of one partition.

This version keeps one replica per partition; followers will join here.
"""

import logging
from collections import deque
from typing import Final, Protocol

from quorate.broker.log.log import AppendResult, Log
from quorate.broker.log.times import TimeLookup, TimestampOffset
from quorate.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownLeaderEpochError,
)
from quorate.model import UNKNOWN_EPOCH, TopicPartition
from quorate.quorum.metadata.image import PartitionState
from quorate.records.compression import Codec, codec_named
from quorate.records.recompress import recompressed
from quorate.records.slices import FileSlice
from quorate.settings import TopicConfig

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1
PRODUCERS_CHOICE: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"


class Waiter(Protocol):
    """Somebody who wants to know when there is more to read."""

    def on_progress(self) -> None:
        """Look again: the high watermark moved."""
        ...

    def on_closed(self) -> None:
        """Wait no longer: this broker does not lead the partition in that epoch any more."""
        ...


class CommitWaiter(Protocol):
    """Somebody who wants to know when an offset is committed."""

    def __call__(self, *, committed: bool) -> None:
        """Go on: it is, or this broker stopped leading and will never know."""
        ...


class News:
    """What happened to replicas in this turn of the loop, for the shell to act on at its end.

    Attributes:
        progressed: those whose readers shall look again.
        unsynced: those with as many unsynced records as ``flush.messages`` allows.
    """

    __slots__ = ("progressed", "unsynced")

    def __init__(self) -> None:
        self.progressed: set[LeaderReplica] = set()
        self.unsynced: set[LeaderReplica] = set()


class LeaderReplica:
    """One partition that this broker leads, in one leader epoch.

    State: the high watermark, who waits for it to move, and who waits for records. Invariant:
    ``log_start_offset <= high_watermark <= log_end_offset``, and the high watermark never goes
    back. With ``flush.messages=1`` only synced records count as replicated, so the high watermark
    stays at or below what survives a power cut.
    """

    __slots__ = (
        "_codec",
        "_commit_waiters",
        "_flush_messages",
        "_news",
        "_refused",
        "high_watermark",
        "log",
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
        news: News,
    ) -> None:
        """Lead with ``state``; ``news`` is shared by all replicas of the broker."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.state = state
        self.log = log
        self.high_watermark = log.log_start_offset
        self.read_waiters: set[Waiter] = set()
        self._commit_waiters: deque[tuple[int, CommitWaiter]] = deque()
        self._news = news
        self._refused = False
        self._flush_messages = 0
        self._codec: Codec | None = None
        self.waits_for_sync = False
        """Whether records count only once they are synced to disk."""
        self.configure(log.config)
        self.advance()
        if self.waits_for_sync and log.flushed_offset < log.log_end_offset:
            # What a crash left behind would be seen by nobody until the next append.
            news.unsynced.add(self)

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads."""
        return self.state.leader_epoch

    def configure(self, config: TopicConfig) -> None:
        """Go by these settings of the topic from now on."""
        self.log.config = config
        self._flush_messages = config.flush_messages
        self._codec = _codec(config.compression_type)
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
        if acks == ACKS_ALL:
            self._check_in_sync()
        log = self.log
        if self._codec is not None:
            records = recompressed(records, self._codec)
        try:
            result = log.append(records, leader_epoch=self.state.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            self._disk_refused(error)
            raise
        if self._refused:
            self._refused = False
            logger.info("%s takes records again", self.topic_partition)
        self.advance()
        if log.log_end_offset - log.flushed_offset >= self._flush_messages:
            self._news.unsynced.add(self)
        return result

    def _disk_refused(self, error: StorageError) -> None:
        """Say once why records are refused, however many are."""
        if not self._refused:
            self._refused = True
            logger.warning("%s takes no records: %s", self.topic_partition, error)

    def _check_in_sync(self) -> None:
        needed = min(self.log.config.min_insync_replicas, len(self.state.replicas))
        if len(self.state.isr) < needed:
            raise NotEnoughReplicasError

    def advance(self) -> None:
        """Move the high watermark to what all in-sync replicas have, and tell who waited for it."""
        log = self.log
        replicated = log.flushed_offset if self.waits_for_sync else log.log_end_offset
        if replicated <= self.high_watermark:
            return
        self.high_watermark = replicated
        waiters = self._commit_waiters
        while waiters and waiters[0][0] <= replicated:
            waiters.popleft()[1](committed=True)
        if self.read_waiters:
            self._news.progressed.add(self)

    def when_committed(self, offset: int, waiter: CommitWaiter) -> None:
        """Call back when the high watermark reaches ``offset``, in the order of offsets and calls.

        It must lie behind the high watermark.
        """
        assert offset > self.high_watermark, "what is committed is not waited for"
        waiters = self._commit_waiters
        if not waiters or waiters[-1][0] <= offset:
            waiters.append((offset, waiter))
            return
        # A duplicate is answered with offsets of old: it stands between younger ones.
        place = sum(waiting <= offset for waiting, _ in waiters)
        waiters.insert(place, (offset, waiter))

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
        for waiter in list(self.read_waiters):
            waiter.on_closed()
        waiters, self._commit_waiters = self._commit_waiters, deque()
        for _, commit_waiter in waiters:
            commit_waiter(committed=False)


def _codec(compression_type: str) -> Codec | None:
    """Return the codec that a topic's batches must have; None if it is the producer's choice."""
    if compression_type == PRODUCERS_CHOICE:
        return None
    return Codec.NONE if compression_type == UNCOMPRESSED else codec_named(compression_type)
