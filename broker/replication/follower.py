"""FollowerReplica: one partition that this broker follows: where to fetch, when to truncate.

The rules are Kafka's (classes ``AbstractFetcherThread`` and ``ReplicaFetcherThread``; KIP-101,
KIP-279, KIP-320, KIP-595): histories are compared by leader epoch, never by high watermark.
"""

import logging
from typing import cast

from quorate.broker.log.epochs import EpochEnd
from quorate.broker.replication.replica import Replica
from quorate.errors import ErrorCode, KafkaError, known_code
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from quorate.protocol.messages.data import FetchPartition, PartitionData
from quorate.records.batch import HEADER_BYTES, parse_header
from quorate.records.compacting import empty_batch, is_empty_batch

logger = logging.getLogger(__name__)


class FollowerReplica(Replica):
    """One partition that this broker follows, in one leader epoch.

    The high watermark is what the leader said, as far as we have the log; it goes back only if the
    log does.
    """

    __slots__ = ()

    @property
    def is_unsynced(self) -> bool:
        """Whether a sync is due before we may say that we have what we have."""
        log = self.log
        return log.log_end_offset - log.flushed_offset >= log.config.flush_messages

    def position(self, max_bytes: int) -> FetchPartition:
        """Return where to go on, and the word that everything below is here."""
        log, anew_from = self.log, self.log.anew_from
        latest_epoch = log.leader_epochs.latest_epoch
        return FetchPartition(
            partition=self.topic_partition.partition,
            current_leader_epoch=self.state.leader_epoch,
            fetch_offset=log.log_end_offset if anew_from is None else anew_from,
            last_fetched_epoch=latest_epoch if anew_from is None else UNKNOWN_EPOCH,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
        )

    def take(self, data: PartitionData, now_ms: int) -> bool:
        """Take what the leader sent for our position; return whether the position changed.

        Raises:
            KafkaError: it is an error, does not continue our log, or our disk refuses it.
        """
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._restart(data, now_ms)
            return True
        if data.error_code:
            raise KafkaError(code=known_code(data.error_code))
        if data.diverging_epoch is not None:
            end = EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._truncate(end, now_ms)
            return True
        anew_from = self.log.anew_from
        if anew_from is not None:
            self._reset(anew_from, now_ms)  # which is what we asked for
        records = cast("memoryview | None", data.records)
        appended = False
        if records:
            before = self.log.log_end_offset
            fitting = self._fit(records, data.log_start_offset, now_ms)
            self.log.append_replicated(fitting, now_ms=now_ms)
            appended = self.log.log_end_offset != before
        self._learn(data)
        return appended

    def _fit(self, records: memoryview, leader_start: int, now_ms: int) -> memoryview:
        """Return records that continue our log, if the leader's begin with a batch that we are in.

        After DeleteRecords a log that is empty, or has only what the leader has deleted, begins
        where that batch does; what is too much is forgotten again once the leader's log start is
        learnt.  Then what we have need not be what the leader had: it does not know any more.  A
        batch that compaction left for offsets without records may reach over our end: we take the
        rest of it.
        """
        log = self.log
        if len(records) < HEADER_BYTES:
            return records
        first = parse_header(records, 0)
        if not first.base_offset < log.log_end_offset < first.next_offset:
            return records
        if max(log.log_start_offset, leader_start) >= log.log_end_offset:
            self._reset(first.base_offset, now_ms)
        elif is_empty_batch(first):
            rest = empty_batch(log.log_end_offset, first.last_offset, first.leader_epoch)
            return memoryview(rest + records[first.size_bytes :])
        return records

    def _learn(self, data: PartitionData) -> None:
        """Take over the leader's high watermark, as far as we have the log, and its log start."""
        log = self.log
        committed = min(data.high_watermark, log.log_end_offset)
        if committed > self.high_watermark:
            self.high_watermark = committed
            self._note_replicated()
            if self.read_waiters:
                self._news.progressed[self] = None
        if log.log_start_offset < data.log_start_offset <= self.high_watermark:
            log.delete_records_before(data.log_start_offset)
        self.bound_high_watermark()

    def _truncate(self, leader_end: EpochEnd, now_ms: int) -> None:
        """Cut off what the leader's log does not have (KIP-279).

        If we do not know the epoch that the leader names, we cut down to the one before it, and
        ask again from there.
        """
        log = self.log
        offset = min(leader_end.end_offset, log.log_end_offset)
        if leader_end.leader_epoch != UNKNOWN_EPOCH:
            ours = log.leader_epochs.end_offset_for(leader_end.leader_epoch, log.log_end_offset)
            if ours.end_offset != UNKNOWN_OFFSET:
                offset = min(ours.end_offset, offset)
        if offset < self.high_watermark:
            logger.warning(
                "%s: truncating to %d, below the high watermark %d",
                self.topic_partition, offset, self.high_watermark,
            )  # fmt: skip
        logger.info(
            "%s: truncating from %d to %d, where our log and that of leader %d part ways",
            self.topic_partition, log.log_end_offset, offset, self.state.leader_id,
        )  # fmt: skip
        try:
            log.truncate_to(max(offset, 0), now_ms=now_ms)
        finally:  # what is cut off is, though the disk may have refused to finish
            self.bound_high_watermark()
        self._note_replicated()  # as far as it is: what was cut off made all markers be read again

    def _restart(self, data: PartitionData, now_ms: int) -> None:
        """Go on where the leader's log begins: it does not reach to ours, or not back to ours.

        Raises:
            KafkaError: the leader does not say where, or our disk refuses.
        """
        offset = data.log_start_offset
        if offset < 0:
            raise KafkaError("the leader does not say where its log begins")
        logger.warning(
            "%s: beginning anew at %d: the leader has nothing that continues %d to %d",
            self.topic_partition, offset, self.log.log_start_offset, self.log.log_end_offset,
        )  # fmt: skip
        self._reset(offset, now_ms)

    def _reset(self, offset: int, now_ms: int) -> None:
        """Go on at the offset without a record."""
        try:
            self.log.reset_to(offset, now_ms=now_ms)
        finally:
            self.bound_high_watermark()
