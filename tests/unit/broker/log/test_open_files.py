"""How many files a node keeps open, and what happens when it may open no more."""

import weakref
from random import Random

import pytest

from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.log import Log
from quorate.broker.log.store import LOGS_AT_ONCE, OPEN_FILES_MAX, LogStore
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk, SimFile, out_of_descriptors
from tests.unit.broker.log.batches import NOW_MS, TOPIC_ID, append, flush, open_data, read_all


class CountingDisk(SimDisk):
    """Knows which files are open and were opened, and may open no more."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.files: weakref.WeakSet[SimFile] = weakref.WeakSet()
        self.opened: list[str] = []
        self.out_of_descriptors = False
        self.make_directory("/data")

    def open(self, path: str, *, create: bool) -> SimFile:
        if self.out_of_descriptors:
            out_of_descriptors()
        file = super().open(path, create=create)
        self.files.add(file)
        self.opened.append(path)
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


def without_descriptors() -> tuple[CountingDisk, Log]:
    """Return a log with a record, whose file is closed and cannot be opened for now."""
    disk = CountingDisk()
    store = open_data(disk)
    log, *others = many_logs(store)
    append(log, b"v")
    for _ in range(2):
        checkpoint(store)
    for other in others:
        append(other, b"v")
    disk.out_of_descriptors = True
    return disk, log


def test_a_log_whose_file_cannot_be_opened_now_takes_records_later() -> None:
    disk, log = without_descriptors()

    for _ in range(2):
        with pytest.raises(StorageError):
            append(log, b"w")
        with pytest.raises(OSError, match="Too many open files"):
            read_all(log)

    disk.out_of_descriptors = False
    assert append(log, b"w") == 1
    assert len(read_all(log)) == 2


def test_a_flush_that_cannot_open_its_file_is_made_later() -> None:
    disk, log = without_descriptors()

    with pytest.raises(StorageError) as caught:
        log.start_flush()

    assert not isinstance(caught.value, FatalStorageError)
    disk.out_of_descriptors = False
    append(log, b"w")
    flush(log)
    assert log.flushed_offset == 2


def test_a_checkpoint_without_descriptors_is_made_later() -> None:
    disk = CountingDisk()
    store = open_data(disk)
    log = store.create(TopicPartition("t", 0), TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    append(log, b"v")
    flush = store.start_checkpoint([log])
    disk.out_of_descriptors = True

    flush.run()
    with pytest.raises(StorageError) as caught:
        store.finish_flush(flush)

    assert not isinstance(caught.value, FatalStorageError)
    assert append(log, b"w") == 1
    assert log.flushed_offset == 0
    disk.out_of_descriptors = False
    checkpoint(store)
    assert log.flushed_offset == log.recovery_point == 2


def test_what_runs_beside_the_loop_opens_none_of_its_files() -> None:
    disk = CountingDisk()
    store = open_data(disk)
    for log in many_logs(store):
        append(log, b"v")
    disk.restart()
    store = open_data(disk)

    for logs in store.take_dirty():
        flush = store.start_checkpoint(logs)
        disk.opened.clear()
        flush.run()

        assert not [path for path in disk.opened if path.endswith(".log")]


def test_a_checkpoint_of_many_logs_takes_each_once_and_not_too_many_at_a_time() -> None:
    store = open_data(CountingDisk())
    logs = many_logs(store)
    for log in logs:
        append(log, b"v")

    taken = store.take_dirty()

    assert [log for few in taken for log in few] == logs
    assert max(map(len, taken)) == LOGS_AT_ONCE
