"""AppendRules: what a leader accepts from clients, by the topic's settings.

Kafka's rules (classes ``LogValidator``, ``UnifiedLog``), checked on batch headers; records are
decoded only where a topic limits how old they may be, or needs their keys for compaction.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter, ne
from typing import Final

from quorate.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from quorate.model import NO_TIMESTAMP, TopicPartition
from quorate.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign_append_time,
    check_header,
    crc_matches,
    parse_header,
    read_sound_header,
)
from quorate.records.compression import INSPECTED_BYTES_MAX
from quorate.records.control import MARKER_BYTES_MAX, EndMarker, read_end_marker
from quorate.records.record import read_records
from quorate.setting_fields import LONG_MAX
from quorate.settings import TopicConfig

CODEC_MAX: Final = 4
RECORDS_MAX: Final = 1 << 18
"""Of one batch: a few kilobytes can stand for millions, and who looks for a time reads them all."""

OFFSET: Final = attrgetter("offset")
NOWHERE: Final = TopicPartition("", -1)
SEVERAL: Final = "one record batch is appended at a time, not several"


class KeylessRecordsError(InvalidRecordError):
    """Records without a key in a log that is to be compacted; ``indexes`` says which of a batch."""

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__("a compacted topic takes no records without a key")
        self.indexes = indexes


class AppendRules:
    """Limits of one topic, taken out of its settings once."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_checks_ages",
        "_checks_keys",
        "_checks_records",
        "_message_max_bytes",
        "_segment_bytes",
        "_unchecked_bytes_max",
        "append_time",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.append_time = config.message_timestamp_type == "LogAppendTime"
        self._message_max_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._unchecked_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._checks_ages = self._before_max_ms != LONG_MAX and not self.append_time
        self._checks_keys = config.compacts
        self._checks_records = self._checks_ages or self._checks_keys
        self._after_max_ms = config.message_timestamp_after_max_ms

    def check(self, records: memoryview, now_ms: int) -> BatchHeader:
        """Return the header of the one batch there is, which is acceptable.

        Raises:
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
                INVALID_TIMESTAMP or UNSUPPORTED_COMPRESSION_TYPE.
        """
        if not records:
            raise InvalidRecordError("no record batch")
        if len(records) > self._message_max_bytes:
            raise self._too_large_a_message(records)
        header = read_sound_header(records, 0)
        if header.size_bytes != len(records):
            raise InvalidRecordError(SEVERAL)
        self.check_sound(records, header, now_ms)
        return header

    def check_sound(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Check a batch that was found whole, with the sum that its producer gave it.

        Raises:
            KafkaError: see :meth:`check`.
        """
        if len(batch) > self._unchecked_bytes_max:
            raise self._too_large(batch, header, now_ms)
        # Unpacked, because attributes of a named tuple cost more than the checks.
        _, _, _, _, _, attributes, last_delta, _, latest_ms, producer_id, _, _, count = header
        # In nearly all batches nothing can be wrong with the content.
        if (
            producer_id >= 0
            or not 0 <= attributes <= CODEC_MAX
            or not count - 1 == last_delta < RECORDS_MAX
            or latest_ms - now_ms > self._after_max_ms
        ):
            self._check_content(header, now_ms)
        if self._checks_records:
            self._check_records(batch, header, now_ms)

    def _too_large(self, batch: memoryview, header: BatchHeader, now_ms: int) -> KafkaError:
        """Return why a sound batch of more than the unchecked size is refused.

        That a message is too large is told first, for producers may send it in parts; that it fits
        into no segment, last, as in Kafka (``UnifiedLog.append``).

        Raises:
            KafkaError: something is wrong with its content.
        """
        if len(batch) > self._message_max_bytes:
            return self._too_large_a_message(batch)
        self._check_content(header, now_ms)
        if self._checks_records:
            self._check_records(batch, header, now_ms)
        message = f"{len(batch)} bytes do not fit into a segment of {self._segment_bytes} bytes"
        return RecordListTooLargeError(message)

    def _too_large_a_message(self, records: memoryview) -> KafkaError:
        """Return why more than ``max.message.bytes`` is refused; its sum is not looked at.

        Raises:
            KafkaError: it is not one batch, which is told first.
        """
        size_bytes, header = len(records), parse_header(records, 0)
        check_header(header, size_bytes)
        if header.size_bytes != size_bytes:
            raise InvalidRecordError(SEVERAL)
        message = f"a batch of {size_bytes} bytes, the limit is {self._message_max_bytes}"
        return MessageTooLargeError(message)

    def _check_content(self, header: BatchHeader, now_ms: int) -> None:
        attributes = header.attributes
        if header.record_count > RECORDS_MAX:  # so told, producers send it in parts
            message = f"a batch of {header.record_count} records, the limit is {RECORDS_MAX}"
            raise MessageTooLargeError(message)
        if header.record_count != header.last_offset_delta + 1:
            message = f"{header.record_count} records up to offset delta {header.last_offset_delta}"
            raise InvalidRecordError(message)
        if header.producer_id >= 0 and (
            header.producer_epoch < 0 or (header.base_sequence < 0 and not header.is_transactional)
        ):  # of coordinators, transactional ones have none: the producers' state knows of whom
            message = f"producer {header.producer_id} gives no sequence or epoch"
            raise InvalidRecordError(message)
        if header.is_transactional and header.producer_id < 0:
            raise InvalidRecordError("transactional records of nobody")
        if attributes & COMPRESSION_MASK > CODEC_MAX:
            message = f"there is no compression codec {attributes & COMPRESSION_MASK}"
            raise UnsupportedCompressionTypeError(message)
        if attributes & CONTROL_BIT:
            raise InvalidRecordError("clients must not write control records")
        if attributes & TIMESTAMP_TYPE_BIT:
            raise InvalidTimestampError("producers must not set the timestamp type LogAppendTime")
        if self.append_time:
            return
        if header.max_timestamp_ms - now_ms > self._after_max_ms:
            message = f"timestamp {header.max_timestamp_ms} is too far ahead of {now_ms}"
            raise InvalidTimestampError(message)

    def _check_records(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        data = bytes(batch)
        records = read_records(data, header, NOWHERE, bytes_max=INSPECTED_BYTES_MAX)
        offsets = range(header.base_offset, header.next_offset)
        if any(map(ne, map(OFFSET, records), offsets)):
            raise InvalidRecordError("records whose offsets are not those of their batch, in turn")
        if self._checks_keys:
            keyless = [index for index, record in enumerate(records) if record.key is None]
            if keyless:
                raise KeylessRecordsError(keyless)
        if not self._checks_ages:
            return
        oldest_ms = now_ms - self._before_max_ms
        for record in records:
            if record.timestamp_ms != NO_TIMESTAMP and record.timestamp_ms < oldest_ms:
                message = f"timestamp {record.timestamp_ms} is too far behind {now_ms}"
                raise InvalidTimestampError(message)


def check_replicated(
    records: memoryview, log_end_offset: int, latest_epoch: int
) -> list[BatchHeader]:
    """Return the headers of the whole batches that a leader sent, which continue the log.

    Raises:
        CorruptRecordError: a checksum does not match, or offsets or epochs do not continue.
        InvalidRecordError: not format v2.
    """
    headers: list[BatchHeader] = []
    pos, end = 0, len(records)
    while end - pos >= HEADER_BYTES:
        header = parse_header(records, pos)
        if header.size_bytes > end - pos:
            break
        check_header(header, end - pos)
        if not crc_matches(records, pos, header):
            raise CorruptRecordError("the checksum of a replicated batch does not match")
        if header.base_offset != log_end_offset or header.leader_epoch < latest_epoch:
            message = (
                f"a batch at {header.base_offset} of epoch {header.leader_epoch} does not continue"
                f" {log_end_offset} of epoch {latest_epoch}"
            )
            raise CorruptRecordError(message)
        headers.append(header)
        log_end_offset, latest_epoch = header.next_offset, header.leader_epoch
        pos += header.size_bytes
    return headers


def check_markers(records: memoryview, headers: Sequence[BatchHeader]) -> Mapping[int, EndMarker]:
    """Return how transactions ended, by the control batches among others, by their offsets.

    Raises:
        CorruptRecordError: a control batch cannot be read.
    """
    markers: dict[int, EndMarker] = {}
    pos = 0
    for header in headers:
        if header.attributes & CONTROL_BIT:
            batch = bytes(records[pos : pos + min(header.size_bytes, MARKER_BYTES_MAX)])
            marker = read_end_marker(batch, header)
            if marker is not None:
                markers[header.base_offset] = marker
        pos += header.size_bytes
    return markers


def date_batch(batch: memoryview, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Give all records of a batch the broker's time; return its header as it is then."""
    assign_append_time(batch, 0, header, now_ms)
    return header._replace(max_timestamp_ms=now_ms)
