"""Truncation, retention, deletion of records: what goes, what stays, what a crash finds."""

# pyright: reportPrivateUsage=false

import errno
import os
from pathlib import Path

import pytest

from quorate.broker.log.files import FatalStorageError, OsFileSystem
from quorate.broker.log.log import Log
from quorate.broker.log.store import open_store
from quorate.errors import StorageError
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    make_batch,
    new_disk,
    new_log,
    open_data,
    read_all,
)

HOUR_MS = 3_600_000
FIVE_PER_SEGMENT = TopicConfig(segment_bytes=1024, retention_ms=-1, file_delete_delay_ms=1000)


def grow(log: Log, count: int, *, timestamp_ms: int = NOW_MS) -> None:
    """Append records of which five fill a segment."""
    for _ in range(count):
        append(log, bytes(130), timestamp_ms=timestamp_ms)


def names(disk: SimDisk, suffix: str) -> list[int]:
    found = disk.list_directory(f"/data/{PARTITION}")
    return sorted(int(name[:20]) for name in found if name.endswith(suffix))


def test_segments_are_named_by_their_first_offset_and_nearly_full() -> None:
    disk = new_disk()
    log = new_log(disk, FIVE_PER_SEGMENT)
    grow(log, 17)

    for suffix in (".log", ".index", ".timeindex"):
        assert names(disk, suffix) == [0, 5, 10, 15]
    for segment in log._segments.closed:
        assert segment.size_bytes <= 1024 < segment.size_bytes + 200


def test_a_segment_is_rolled_by_the_time_of_its_records() -> None:
    log = new_log(config=TopicConfig(segment_ms=1000, message_timestamp_after_max_ms=10**12))
    append(log, b"v", timestamp_ms=NOW_MS)
    append(log, b"v", timestamp_ms=NOW_MS + 1000)
    assert log.segment_count == 1
    append(log, b"v", timestamp_ms=NOW_MS + 1001)
    assert log.segment_count == 2


def test_a_segment_of_records_without_time_is_rolled_by_the_clock() -> None:
    log = new_log(config=TopicConfig(segment_ms=1000, segment_jitter_ms=1))
    append(log, b"v", timestamp_ms=-1)
    batch = make_batch([b"v"], timestamps_ms=[-1])
    log.append(batch, leader_epoch=0, now_ms=NOW_MS + 1001)
    assert log.segment_count == 2


def test_a_segment_is_rolled_when_an_index_is_full() -> None:
    log = new_log(config=TopicConfig(segment_index_bytes=24, index_interval_bytes=1))
    for _ in range(9):
        append(log, b"v", timestamp_ms=-1)
    assert [segment.base_offset for segment in log._segments] == [0, 4, 8]


def test_an_empty_segment_is_not_rolled() -> None:
    log = new_log()
    log.roll(NOW_MS)
    assert log.segment_count == 1


@pytest.mark.parametrize("offset", range(18))
def test_after_a_truncation_the_rest_is_unchanged_and_the_log_goes_on(offset: int) -> None:
    disk = new_disk()
    log = new_log(disk, FIVE_PER_SEGMENT)
    grow(log, 17)
    before = read_all(log)

    log.truncate_to(offset, now_ms=NOW_MS)

    end_offset = min(offset, 17)
    assert log.log_end_offset == end_offset
    assert read_all(log) == {base: data for base, data in before.items() if base < end_offset}
    assert log.producers.end_offset == end_offset
    grow(log, 7)
    assert log.log_end_offset == end_offset + 7
    assert list(read_all(log)) == list(range(end_offset + 7))


def test_a_truncation_inside_a_batch_removes_the_batch() -> None:
    log = new_log()
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")

    log.truncate_to(3, now_ms=NOW_MS)

    assert log.log_end_offset == 2


def test_leader_epochs_are_truncated_with_the_log() -> None:
    log = new_log()
    for epoch in (1, 2, 5):
        append(log, b"v", leader_epoch=epoch)

    log.truncate_to(1, now_ms=NOW_MS)

    assert log.leader_epochs.entries == ((1, 0),)
    append(log, b"v", leader_epoch=3)
    assert log.leader_epochs.end_offset_for(1, log.log_end_offset) == (1, 1)


def test_a_follower_too_far_behind_starts_over() -> None:
    disk = new_disk()
    log = new_log(disk, FIVE_PER_SEGMENT)
    grow(log, 12)

    log.reset_to(1000, now_ms=NOW_MS)

    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (1000, 1000, 1000)
    assert names(disk, ".log") == [1000]
    append(log, b"v", leader_epoch=4)
    assert list(read_all(log)) == [1000]


def test_deleted_records_cannot_be_read_and_whole_segments_go() -> None:
    disk = new_disk()
    log = new_log(disk, FIVE_PER_SEGMENT)
    grow(log, 17)

    assert log.delete_records_before(12) == 2
    assert log.delete_records_before(3) == 0

    assert log.log_start_offset == 12
    assert list(read_all(log)) == [12, 13, 14, 15, 16]
    assert names(disk, ".log") == [10, 15]
    assert log.leader_epochs.entries == ((0, 12),)
    assert log.delete_records_before(17) == 1
    assert append(log, b"v") == 17


def test_deleted_files_stay_for_their_delay_and_are_then_removed() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, FIVE_PER_SEGMENT, now_ms=NOW_MS)
    grow(log, 7)
    taken = log.read(0, max_bytes=100, limit_offset=7, at_least_one=True)
    log.delete_records_before(5)

    assert store.empty_trash(NOW_MS) == []
    assert len(store.trash) == 3
    due = store.empty_trash(NOW_MS + 1000)
    store.remove_paths(due)

    assert len(due) == 3
    assert names(disk, ".deleted") == []
    assert taken is not None
    assert taken.owner.read_at(4, 57) == b"\0\0\0\1"  # type: ignore[attr-defined]


def test_retention_by_time_keeps_what_is_young_and_what_is_not_committed() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    for hour in range(4):
        grow(log, 5, timestamp_ms=NOW_MS + hour * HOUR_MS - 4 * HOUR_MS)
    log.config = TopicConfig(segment_bytes=1024, retention_ms=2 * HOUR_MS)

    assert log.apply_retention(high_watermark=3, now_ms=NOW_MS) == 0
    assert log.apply_retention(high_watermark=20, now_ms=NOW_MS) == 2
    assert log.log_start_offset == 10
    assert log.apply_retention(high_watermark=20, now_ms=NOW_MS + 1) == 1
    assert log.apply_retention(high_watermark=20, now_ms=NOW_MS + 5 * HOUR_MS) == 1
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert log.apply_retention(high_watermark=20, now_ms=NOW_MS + 9 * HOUR_MS) == 0
    assert append(log, b"v") == 20


def test_a_segment_of_which_nothing_is_left_goes_before_its_time() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    grow(log, 7)
    log.delete_records_before(6)
    assert log.apply_retention(high_watermark=7, now_ms=NOW_MS) == 0
    log.delete_records_before(7)

    assert log.apply_retention(high_watermark=7, now_ms=NOW_MS) == 1
    assert (log.log_start_offset, log.size_bytes) == (7, 0)
    assert log.apply_retention(high_watermark=7, now_ms=NOW_MS) == 0
    assert append(log, b"v") == 7


def test_an_old_record_before_a_young_one_is_kept_with_it() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    grow(log, 5, timestamp_ms=NOW_MS)
    grow(log, 6, timestamp_ms=NOW_MS - 10 * HOUR_MS)
    log.config = TopicConfig(segment_bytes=1024, retention_ms=HOUR_MS)

    assert log.apply_retention(high_watermark=11, now_ms=NOW_MS) == 0


def test_records_without_time_are_as_old_as_their_file() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    grow(log, 6, timestamp_ms=-1)
    log.config = TopicConfig(segment_bytes=1024, retention_ms=HOUR_MS)

    assert log.apply_retention(high_watermark=6, now_ms=HOUR_MS) == 0
    assert log.apply_retention(high_watermark=6, now_ms=HOUR_MS + 1) == 2


def test_a_log_that_is_only_compacted_keeps_its_oldest_records() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    grow(log, 17)
    log.config = TopicConfig(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1)
    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS + HOUR_MS) == 0
    both = ("compact", "delete")
    log.config = TopicConfig(cleanup_policy=both, segment_bytes=1024, retention_ms=1)
    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS + HOUR_MS) > 0


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = new_log(config=FIVE_PER_SEGMENT)
    grow(log, 17)
    segment_bytes = log._segments.at(0).size_bytes
    log.config = TopicConfig(
        segment_bytes=1024, retention_ms=-1, retention_bytes=log.size_bytes - 2 * segment_bytes + 1
    )

    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS) == 1
    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS) == 0
    log.config = TopicConfig(segment_bytes=1024, retention_ms=-1, retention_bytes=0)
    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS) == 3
    assert log.size_bytes == 0


def test_a_disk_that_fails_during_a_truncation_ends_the_log() -> None:
    disk = new_disk()
    log = new_log(disk, FIVE_PER_SEGMENT)
    grow(log, 7)
    disk.syncs_fail = True

    with pytest.raises(FatalStorageError):
        log.truncate_to(6, now_ms=NOW_MS)
    with pytest.raises(FatalStorageError):
        log.reset_to(0, now_ms=NOW_MS)
    with pytest.raises(StorageError):
        append(log, b"v")


def test_a_cut_for_which_the_disk_had_room_for_half_an_index_entry_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(OsFileSystem(), str(tmp_path), cluster_id="c", node_id=1, now_ms=NOW_MS)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(index_interval_bytes=1), now_ms=NOW_MS)
    for number in range(20):
        append(log, b"%d" % number)
    pwrite, room_bytes = os.pwrite, [12, 0]

    def fill(fd: int, data: bytes, position: int) -> int:
        room = room_bytes.pop(0) if room_bytes else len(data)
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, bytes(data)[:room], position)

    monkeypatch.setattr(os, "pwrite", fill)
    with pytest.raises(StorageError, match="No space left") as kept:
        log.truncate_to(10, now_ms=NOW_MS)
    log.truncate_to(10, now_ms=NOW_MS)
    assert isinstance(kept.value.__cause__, OSError), "an error that is kept keeps no view"
    assert log.log_end_offset == 10
    assert append(log, b"more") == 10
