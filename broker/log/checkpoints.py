"""Checkpoints: a small file that says how far each log is durable, committed and deleted."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem
from quorate.dataclass import dataclass
from quorate.model import TopicPartition

FILE_NAME: Final = "checkpoints"
URGENT_NAME: Final = "checkpoints-urgent"
"""Written on the loop before a log takes back what it promised.  A file of its own, because one of
the regular checkpoints may be on its way to the disk then, and get there later."""
FILE_NAMES: Final = (FILE_NAME, URGENT_NAME)
KIND: Final = "checkpoints"
VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class LogCheckpoint:
    """What was last written down about a log."""

    recovery_point: int
    log_start_offset: int
    high_watermark: int

    @property
    def promise(self) -> int:
        """What is said of the log holds as long as that reaches to this offset unchanged."""
        return max(self.recovery_point, self.log_start_offset)


NO_CHECKPOINT: Final = LogCheckpoint(0, 0, 0)


class SavedCheckpoints(NamedTuple):
    """All that was last written down; a higher number was decided on later."""

    number: int
    logs: Mapping[TopicPartition, LogCheckpoint]


NOTHING_SAVED: Final = SavedCheckpoints(0, {})


def encode_checkpoints(saved: SavedCheckpoints) -> bytes:
    """Return the document's bytes."""
    logs = [
        [
            topic_partition.topic,
            topic_partition.partition,
            checkpoint.recovery_point,
            checkpoint.log_start_offset,
            checkpoint.high_watermark,
        ]
        for topic_partition, checkpoint in saved.logs.items()
    ]
    return encode_document(KIND, VERSION, {"number": saved.number, "logs": logs})


def promises_of(logs: Mapping[TopicPartition, LogCheckpoint]) -> dict[TopicPartition, int]:
    """Return the offset that each log has to reach at least."""
    return {partition: checkpoint.promise for partition, checkpoint in logs.items()}


def load_checkpoints(fs: FileSystem, directory: str) -> SavedCheckpoints:
    """Return what was last written down.

    A damaged file counts as none: then logs are read whole, and begin where their files begin.

    Raises:
        OSError: the disk fails.
    """
    try:
        found = [_load(fs, f"{directory}/{name}") for name in FILE_NAMES]
    except (CorruptDocumentError, KeyError, TypeError, ValueError):
        # The other file may be the older one, and must not be believed the next time, either.
        for name in FILE_NAMES:
            if fs.exists(f"{directory}/{name}"):
                fs.remove(f"{directory}/{name}")
        fs.sync_directory(directory)
        return NOTHING_SAVED
    saved = max(found, key=lambda saved: saved.number)
    if saved is not NOTHING_SAVED:
        # What is done by them must not outlive them: a power cut could bring older ones back.
        fs.sync_directory(directory)
    return saved


def _load(fs: FileSystem, path: str) -> SavedCheckpoints:
    if not fs.exists(path):
        return NOTHING_SAVED
    body: Any = read_document(fs, path, KIND, VERSION)
    logs = {
        TopicPartition(topic, partition): LogCheckpoint(recovery_point, start, high_watermark)
        for topic, partition, recovery_point, start, high_watermark in body["logs"]
    }
    return SavedCheckpoints(int(body["number"]), logs)
