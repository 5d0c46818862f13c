"""Checkpoints: one small file that says how far each log is durable, committed and deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem
from quorate.model import TopicPartition

FILE_NAME: Final = "checkpoints"
KIND: Final = "checkpoints"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LogCheckpoint:
    """What was last written down about a log."""

    recovery_point: int
    log_start_offset: int
    high_watermark: int


NO_CHECKPOINT: Final = LogCheckpoint(0, 0, 0)


def encode_checkpoints(checkpoints: Mapping[TopicPartition, LogCheckpoint]) -> bytes:
    """Return the document's bytes."""
    body = [
        [
            topic_partition.topic,
            topic_partition.partition,
            checkpoint.recovery_point,
            checkpoint.log_start_offset,
            checkpoint.high_watermark,
        ]
        for topic_partition, checkpoint in checkpoints.items()
    ]
    return encode_document(KIND, VERSION, body)


def load_checkpoints(fs: FileSystem, path: str) -> dict[TopicPartition, LogCheckpoint]:
    """Return what was last written down.

    A damaged file counts as none: then logs are read whole, and begin where their files begin.
    """
    if not fs.exists(path):
        return {}
    try:
        body: Any = read_document(fs, path, KIND, VERSION)
        return {
            TopicPartition(topic, partition): LogCheckpoint(recovery_point, start, high_watermark)
            for topic, partition, recovery_point, start, high_watermark in body
        }
    except (CorruptDocumentError, TypeError, ValueError):
        return {}
