"""How many files a node keeps open, and what happens when it may open no more."""

import errno
import os
import weakref
from random import Random

import pytest

from quorate.broker.log.log import Log
from quorate.broker.log.store import OPEN_FILES_MAX, LogStore
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk, SimFile
from tests.unit.broker.log.batches import NOW_MS, TOPIC_ID, append, open_data, read_all


class CountingDisk(SimDisk):
    """Knows which files are open, and may open no more."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.files: weakref.WeakSet[SimFile] = weakref.WeakSet()
        self.out_of_descriptors = False
        self.make_directory("/data")

    def open(self, path: str, *, create: bool) -> SimFile:
        if self.out_of_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        file = super().open(path, create=create)
        self.files.add(file)
        return file


def many_logs(store: LogStore) -> list[Log]:
    return [
        store.create(TopicPartition("t", index), TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
        for index in range(2 * OPEN_FILES_MAX)
    ]


def checkpoint(store: LogStore) -> None:
    for logs in store.take_dirty():
        flush = store.start_checkpoint(logs)
        flush.run()
        store.finish_flush(flush)


def test_idle_logs_keep_no_file_open() -> None:
    disk = CountingDisk()
    store = open_data(disk)
    logs = many_logs(store)
    for log in logs:
        append(log, b"v")
    checkpoint(store)
    assert len(disk.files) > len(logs), "they have just been written to"

    checkpoint(store)

    assert len(disk.files) <= OPEN_FILES_MAX + 1, "the lock, too, is a file"
    for log in logs:
        assert append(log, b"w") == 1
        assert len(read_all(log)) == 2


def test_logs_open_without_keeping_their_files_open() -> None:
    disk = CountingDisk()
    store = open_data(disk)
    for log in many_logs(store):
        append(log, b"v")
    store.close(clean=True, now_ms=NOW_MS)
    disk.restart()
    disk.files.clear()

    store = open_data(disk)

    assert len(disk.files) <= OPEN_FILES_MAX
    for log in store.logs.values():
        assert len(read_all(log)) == 1
        assert append(log, b"w") == 1
        assert len(read_all(log)) == 2


def test_a_log_whose_file_cannot_be_opened_now_takes_records_later() -> None:
    disk = CountingDisk()
    store = open_data(disk)
    log, *others = many_logs(store)
    append(log, b"v")
    for _ in range(2):
        checkpoint(store)
    for other in others:
        append(other, b"v")
    disk.out_of_descriptors = True

    for _ in range(2):
        with pytest.raises(StorageError):
            append(log, b"w")
        with pytest.raises(OSError, match="Too many open files"):
            read_all(log)

    disk.out_of_descriptors = False
    assert append(log, b"w") == 1
    assert len(read_all(log)) == 2
