"""What a store finds after a crash, and what it promises about it."""

import pytest

from quorate.broker.log.directory import DirectoryError
from quorate.settings import TopicConfig
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    new_disk,
    open_data,
    read_all,
)


def test_what_a_killed_process_left_is_durable_once_the_store_is_open() -> None:
    disk = new_disk()
    log = open_data(disk).create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    append(log, b"answered for")
    disk.restart()
    recovered = open_data(disk).logs[PARTITION]
    assert recovered.flushed_offset == recovered.log_end_offset == 1
    disk.lose_power()
    assert list(read_all(open_data(disk).logs[PARTITION])) == [0]


def test_a_disk_that_cannot_keep_what_was_recovered_is_refused() -> None:
    disk = new_disk()
    log = open_data(disk).create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    append(log, b"answered for")
    disk.restart()
    disk.syncs_fail = True
    with pytest.raises(DirectoryError, match="Input/output error"):
        open_data(disk)
    assert not disk.locks
