"""Offsets have 64 bits: a log that is trillions of records old works as a young one does."""

import pytest

from quorate.broker.log.log import Log
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    append,
    find_time,
    flush,
    new_disk,
    new_log,
    open_data,
    read_all,
)

OLD = 2**40
FIVE_PER_SEGMENT = TopicConfig(segment_bytes=1024, retention_ms=-1, file_delete_delay_ms=1000)


def old_log(disk: SimDisk, first: int) -> Log:
    """Return a log of 17 records, five to a segment, the first of which has that offset."""
    log = new_log(disk, FIVE_PER_SEGMENT)
    log.reset_to(first, now_ms=NOW_MS)
    for number in range(17):
        append(log, bytes(130), timestamp_ms=NOW_MS + number, leader_epoch=number // 9)
    return log


@pytest.mark.parametrize("first", [OLD, 2**32 - 8, 2**63 - 100])
def test_records_of_an_old_log_are_written_found_and_deleted(first: int) -> None:
    disk = new_disk()
    log = old_log(disk, first)
    assert (log.log_start_offset, log.log_end_offset) == (first, first + 17)
    assert list(read_all(log)) == list(range(first, first + 17))
    found = find_time(log, NOW_MS + 12)
    assert found is not None
    assert found.offset == first + 12
    assert log.leader_epochs.entries == ((0, first), (1, first + 9))
    assert log.delete_records_before(first + 12) == 2
    assert list(read_all(log)) == list(range(first + 12, first + 17))
    log.truncate_to(first + 14, now_ms=NOW_MS)
    assert append(log, b"v", leader_epoch=2) == first + 14


@pytest.mark.parametrize("first", [OLD, 2**32 - 8])
def test_an_old_log_is_there_again_after_a_crash(first: int) -> None:
    disk = new_disk()
    flush(old_log(disk, first))
    disk.lose_power()
    disk.restart()
    log = open_data(disk).logs[PARTITION]
    assert (log.log_start_offset, log.log_end_offset) == (first, first + 17)
    assert list(read_all(log)) == list(range(first, first + 17))
    assert log.leader_epochs.entries == ((0, first), (1, first + 9))
