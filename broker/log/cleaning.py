"""Retention: which of the oldest segments have served their time (Kafka: ``UnifiedLog``)."""

from quorate.broker.log.lookup import LogSegment
from quorate.broker.log.segments import Segments
from quorate.errors import StorageError
from quorate.model import NO_TIMESTAMP
from quorate.settings import TopicConfig


def segments_expired(segments: Segments, config: TopicConfig, deletable: int, now_ms: int) -> int:
    """Return how many of the oldest segments the topic's limits of age and size let go.

    Args:
        segments: of one log.
        config: ``retention_ms`` and ``retention_bytes``, -1 for no limit; a log that is only to be
            compacted has none.
        deletable: how many of the oldest may go at all, because they lie below the high watermark.
        now_ms: the time.

    Raises:
        StorageError: how old they are, or how large, cannot be read now.
    """
    if not config.deletes:
        return 0
    try:
        return max(
            _too_old(segments, config.retention_ms, deletable, now_ms),
            _too_much(segments, config.retention_bytes, deletable),
        )
    except OSError as error:
        raise StorageError(f"cannot look at old segments: {error.strerror}") from error


def _too_old(segments: Segments, retention_ms: int, deletable: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    for number in range(deletable):
        if now_ms - _newest_ms(segments.at(number)) <= retention_ms:
            return number
    return deletable


def _newest_ms(segment: LogSegment) -> int:
    """The time of the newest record; records without a time are as new as their file."""
    timestamp_ms = segment.largest.timestamp_ms
    return segment.modified_ms if timestamp_ms == NO_TIMESTAMP else timestamp_ms


def _too_much(segments: Segments, retention_bytes: int, deletable: int) -> int:
    if retention_bytes < 0:
        return 0
    surplus_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    for number in range(deletable):
        surplus_bytes -= segments.at(number).size_bytes
        if surplus_bytes < 0:
            return number
    return deletable
