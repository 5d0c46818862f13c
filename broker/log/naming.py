"""A log's directory: its name, whose log it is, and how it comes about.

A log is made in the middle of an append, so nothing waits for the disk then: the log's first flush
syncs its directory, too, and seals it.  Until then nothing was promised that a power cut could
break, and what one leaves of the directory may be thrown away if it cannot say whose it is.
"""

import re
from contextlib import suppress
from typing import Any, Final, NamedTuple

from quorate.broker.log.directory import META_NAME, DirectoryError
from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, remove_tree
from quorate.broker.log.segment import LOG_SUFFIX
from quorate.model import UNKNOWN_EPOCH, TopicPartition

PARTITION_NAME: Final = "partition.json"
PARTITION_KIND: Final = "partition"
PARTITION_VERSION: Final = 1
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
"""Of a log of which the metadata did not know the topic (as Kafka names them)."""
NAME_BYTES_MAX: Final = 255
"""Of a file or folder, as file systems have it; topic names may take 249 of them."""
_ASIDE: Final = re.compile(rf"(.+-\d+)\.[0-9a-f]+(\.\d+)?({DELETE_SUFFIX}|{STRAY_SUFFIX})")


class DirectoryMaker:
    """Makes the directory of one log when its first record comes."""

    __slots__ = ("_fs", "_parent", "_topic_partition", "topic_id")

    def __init__(
        self, fs: FileSystem, parent: str, topic_partition: TopicPartition, topic_id: bytes
    ) -> None:
        self._fs = fs
        self._parent = parent
        self._topic_partition = topic_partition
        self.topic_id = topic_id

    def make(self, leader_epoch: int) -> None:
        """Make it, not yet durably.

        Args:
            leader_epoch: of the first record, or UNKNOWN_EPOCH.

        Raises:
            OSError: there is none, or the remains of one: see :meth:`unmake`.
        """
        fs = self._fs
        path = f"{self._parent}/{self._topic_partition}"
        if fs.exists(path):
            # Of an attempt that a crash cut short, or of a deleted log that could not be renamed.
            remove_tree(fs, path)
        fs.make_directory(path)
        body = {"topic_id": self.topic_id.hex(), "leader_epoch": leader_epoch}
        document = encode_document(PARTITION_KIND, PARTITION_VERSION, body)
        fs.open(f"{path}/{PARTITION_NAME}", create=True).write_at(document, 0)

    def unmake(self) -> None:
        """Remove the remains of an attempt that failed, as far as the disk lets us.

        The next attempt would, but if the topic is deleted there is none.
        """
        with suppress(OSError):
            remove_tree(self._fs, f"{self._parent}/{self._topic_partition}")


class Birth(NamedTuple):
    """What a log's directory says of its beginning."""

    topic_id: bytes
    leader_epoch: int
    """Of the first record ever, at offset 0; UNKNOWN_EPOCH if the log did not begin there."""


def read_birth(fs: FileSystem, path: str) -> Birth:
    """Return whose log's directory this is, and how it began.

    Raises:
        DirectoryError: it does not say.
    """
    try:
        body: Any = read_document(fs, f"{path}/{PARTITION_NAME}", PARTITION_KIND, PARTITION_VERSION)
        return Birth(bytes.fromhex(body["topic_id"]), int(body.get("leader_epoch", UNKNOWN_EPOCH)))
    except (CorruptDocumentError, FileNotFoundError, KeyError, ValueError, TypeError) as error:
        raise DirectoryError(f"{path}: {PARTITION_NAME}: {error}") from error


def has_segments(fs: FileSystem, path: str) -> bool:
    """Whether a log's directory has files with records."""
    return any(name.endswith(LOG_SUFFIX) for name in fs.list_directory(path))


def parse_name(name: str) -> TopicPartition | None:
    """Return the partition that a directory of this name is the log of, or None."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))


def path_beside(parent: str, topic_partition: TopicPartition, suffix: str) -> str:
    """Return a path beside a log's own; of a long topic name, only as much as fits."""
    ending = f"-{topic_partition.partition}{suffix}"
    return f"{parent}/{topic_partition.topic[: NAME_BYTES_MAX - len(ending)]}{ending}"


def name_before(name: str) -> str:
    """Return the name that a log's directory had before it was set aside, or still has."""
    aside = _ASIDE.fullmatch(name)
    return aside[1] if aside else name


def check_claimed(fs: FileSystem, directory: str) -> None:
    """Refuse logs of nobody: to the cluster, whose they seem to be would have lost its disk.

    Raises:
        DirectoryError: there are some.
    """
    if fs.exists(f"{directory}/{META_NAME}"):
        return
    names = filter(parse_name, fs.list_directory(directory))
    if any(fs.exists(f"{directory}/{name}/{PARTITION_NAME}") for name in names):
        raise DirectoryError(f"{directory} has logs, but no {META_NAME} to say whose they are")
