"""Replica: what leaders and followers have in common: a log, and how much of it is committed."""

from typing import Protocol

from quorate.broker.log.epochs import EpochEnd
from quorate.broker.log.log import Log
from quorate.broker.log.times import TimeLookup, TimestampOffset
from quorate.broker.log.transactions import AbortedTransaction
from quorate.broker.replication.host import Host
from quorate.errors import (
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownLeaderEpochError,
)
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition
from quorate.quorum.metadata.image import PartitionState
from quorate.records.slices import FileSlice
from quorate.settings import TopicConfig


class Waiter(Protocol):
    """Somebody who wants to know when there is more to read."""

    def on_progress(self) -> None:
        """Look again: the high watermark moved."""
        ...

    def on_closed(self) -> None:
        """Wait no longer: this broker does not host the partition in that epoch any more."""
        ...


class Replica:
    """One partition that this broker hosts, in one leader epoch.

    State: the high watermark, and who waits for it to move. Invariant: ``log_start_offset <=
    high_watermark <= log_end_offset``, and what lies below it is committed.
    """

    __slots__ = (
        "_host",
        "_news",
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
        host: Host,
        high_watermark: int,
    ) -> None:
        """Host a partition; what is known to be committed already lies below the watermark."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.state = state
        self.log = log
        self.high_watermark = high_watermark
        self.bound_high_watermark()
        self._note_replicated()
        self.read_waiters: dict[Waiter, None] = {}
        self.waits_for_sync = False
        """Whether records count only once they are synced to disk."""
        self._host = host
        self._news = host.news

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader, which this broker is or follows."""
        return self.state.leader_epoch

    def advance(self) -> None:
        """Move the high watermark to what is committed, if that is for this replica to say."""

    def configure(self, config: TopicConfig) -> None:
        """Go by these settings of the topic from now on."""
        self.log.config = config
        self.waits_for_sync = config.flush_messages == 1

    def bound_high_watermark(self) -> None:
        """Keep the high watermark within the log, after that was cut at either end."""
        log = self.log
        self.high_watermark = min(
            max(self.high_watermark, log.log_start_offset), log.log_end_offset
        )

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

    def diverging(self, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        """Return the end of what a reader's log has in common with ours, if that lies before it.

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
        """Return the largest epoch at most the one asked for, and where it ends here."""
        return self.log.leader_epochs.end_offset_for(leader_epoch, self.log.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """What lies below is committed, and decided if it is part of a transaction."""
        transactions = self.log.producers.transactions
        if transactions is None:
            return self.high_watermark
        return max(transactions.first_unstable(self.high_watermark), self.log.log_start_offset)

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        at_least_one: bool,
        may_wait: bool = True,
        stable: bool = False,
    ) -> FileSlice | None:
        """Return committed batches from ``offset`` on, or None when there is none yet.

        Args:
            offset: of the first record wanted.
            max_bytes: how much at most.
            at_least_one: whether a first batch larger than ``max_bytes`` is given all the same.
            may_wait: whether the disk may be waited for.
            stable: whether nothing behind the last stable offset is wanted.

        Raises:
            ColdError: the disk may not be waited for, but would have to be.
            OffsetOutOfRangeError: see :meth:`check_readable`.
            StorageError: the log could not be read now.
        """
        self.check_readable(offset)
        limit_offset = self.last_stable_offset if stable else self.high_watermark
        if offset >= limit_offset:
            return None
        try:
            return self.log.read(
                offset,
                max_bytes=max_bytes,
                limit_offset=limit_offset,
                at_least_one=at_least_one,
                may_wait=may_wait,
            )
        except OSError as error:
            raise self._unreadable(error) from error

    def bytes_from(
        self, piece: FileSlice, offset: int, *, may_wait: bool, stable: bool
    ) -> int | None:
        """Return how much there is to read from the beginning of a slice on, as in the log.

        Args:
            piece: what :meth:`read` returned.
            offset: from where on it was asked for.
            may_wait: whether the disk may be waited for.
            stable: whether nothing behind the last stable offset is wanted.

        Raises:
            ColdError: the disk may not be waited for, but would have to be.
            StorageError: the log could not be read now.
        """
        limit_offset = self.last_stable_offset if stable else self.high_watermark
        try:
            return self.log.bytes_from(piece, offset, limit_offset=limit_offset, may_wait=may_wait)
        except OSError as error:
            raise self._unreadable(error) from error

    def aborted_in(
        self, piece: FileSlice, offset: int, *, may_wait: bool
    ) -> list[AbortedTransaction]:
        """Return the transactions that were aborted with records in what was read as stable.

        Raises:
            ColdError: the disk may not be waited for, but would have to be.
            StorageError: the log could not be read now.
        """
        limit_offset = self.last_stable_offset
        try:
            return self.log.aborted_in(piece, offset, limit_offset=limit_offset, may_wait=may_wait)
        except OSError as error:
            raise self._unreadable(error) from error

    def _note_replicated(self) -> None:
        """Take note that the high watermark moved: markers below it are replicated."""
        transactions = self.log.producers.transactions
        if transactions is not None:
            transactions.replicated(self.high_watermark)

    def committed(self, lookup: TimeLookup, *, stable: bool = False) -> TimestampOffset | None:
        """Return what was found in the log by time, if it is committed, or stable.

        Raises:
            KafkaError: the log could not be read.
        """
        try:
            found = lookup.result()
        except OSError as error:
            raise self._unreadable(error) from error
        limit_offset = self.last_stable_offset if stable else self.high_watermark
        return found if found is not None and found.offset < limit_offset else None

    def _unreadable(self, error: OSError) -> StorageError:
        """Return what clients are told; out of file descriptors, say, does not last."""
        return StorageError(f"cannot read the log of {self.topic_partition}: {error.strerror}")

    def close(self) -> None:
        """Host the partition no more, in this epoch: whoever waits here has to ask again."""
        self._news.progressed.pop(self, None)
        for waiter in list(self.read_waiters):
            waiter.on_closed()
