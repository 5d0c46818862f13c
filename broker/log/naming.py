"""A log's directory: its name, whose log it is, and how it comes about whole or not at all."""

from typing import Any, Final

from quorate.broker.log.directory import DirectoryError
from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, remove_tree, replace_file
from quorate.model import TopicPartition

PARTITION_NAME: Final = "partition.json"
PARTITION_KIND: Final = "partition"
PARTITION_VERSION: Final = 1
NEW_SUFFIX: Final = ".new"
DELETE_SUFFIX: Final = "-delete"
NAME_BYTES_MAX: Final = 255
"""Of a file or folder, as file systems have it; topic names may take 249 of them."""


class DirectoryMaker:
    """Makes the directory of one log; called once its first record comes."""

    __slots__ = ("_fs", "_parent", "_topic_id", "_topic_partition")

    def __init__(
        self, fs: FileSystem, parent: str, topic_partition: TopicPartition, topic_id: bytes
    ) -> None:
        self._fs = fs
        self._parent = parent
        self._topic_partition = topic_partition
        self._topic_id = topic_id

    def make(self) -> None:
        """Make it under another name first, so that it appears complete.

        Raises:
            OSError: there is none, or the remains of one, which the next attempt removes.
        """
        fs = self._fs
        path = f"{self._parent}/{self._topic_partition}"
        new_path = path_beside(self._parent, self._topic_partition, NEW_SUFFIX)
        for leftover in (new_path, path):
            # Of an attempt that failed half-way, or of a deleted log that could not be renamed.
            if fs.exists(leftover):
                remove_tree(fs, leftover)
        fs.make_directory(new_path)
        body = {"topic_id": self._topic_id.hex()}
        document = encode_document(PARTITION_KIND, PARTITION_VERSION, body)
        replace_file(fs, f"{new_path}/{PARTITION_NAME}", document)
        fs.rename(new_path, path)


def read_topic_id(fs: FileSystem, path: str) -> bytes:
    """Return the id of the topic whose partition's directory this is.

    Raises:
        DirectoryError: it does not say.
    """
    try:
        body: Any = read_document(fs, f"{path}/{PARTITION_NAME}", PARTITION_KIND, PARTITION_VERSION)
        return bytes.fromhex(body["topic_id"])
    except (CorruptDocumentError, FileNotFoundError, KeyError, ValueError, TypeError) as error:
        raise DirectoryError(f"{path}: {PARTITION_NAME}: {error}") from error


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
