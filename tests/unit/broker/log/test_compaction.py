"""Which logs are compacted, which first, and which segments become one."""

# pyright: reportPrivateUsage=false

from dataclasses import replace

import pytest

from quorate.broker.log.compaction import ClosedPart, Filth, filth_of, filthiest, group_segments
from quorate.broker.log.files import OpenFiles
from quorate.broker.log.key_offsets import SECRET_BYTES, KeyOffsets
from quorate.broker.log.log import Log
from quorate.model import NO_TIMESTAMP
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import NOW_MS, PARTITION, TOPIC_ID, new_disk, new_log, open_data
from tests.unit.broker.log.compacting import COMPACT, checkpoint, compact, put


def two_segments(disk: SimDisk, config: TopicConfig = COMPACT) -> Log:
    """Four old records in one segment, four of an hour later in the next, and the active one."""
    log = new_log(disk, config)
    for _ in range(4):
        put(log, (b"k", bytes(100)), timestamp_ms=NOW_MS - 7_200_000)
    log.roll(NOW_MS)
    for _ in range(4):
        put(log, (b"k", bytes(100)), timestamp_ms=NOW_MS - 3_600_000)
    log.roll(NOW_MS)
    put(log, (b"k", b"head"))
    checkpoint(log)
    return log


def look(disk: SimDisk, log: Log, now_ms: int = NOW_MS) -> Filth:
    return filth_of(log.closed_part(log.log_end_offset), OpenFiles(disk, 8), now_ms)


def test_what_was_not_compacted_yet_is_dirty() -> None:
    disk = new_disk()
    log = two_segments(disk)
    sizes = [segment.size_bytes for segment in log._segments.closed]
    assert (look(disk, log).dirty_bytes, look(disk, log).dirty_ratio) == (sum(sizes), 1.0)
    log.cleaned.offset = 4
    assert look(disk, log).dirty_bytes == sizes[1]
    assert look(disk, log).total_bytes == sum(sizes)
    log.cleaned.offset = 8
    clean = look(disk, log)
    assert (clean.dirty_bytes, clean.is_due) == (0, False)
    assert Filth(ClosedPart([], 0, 0, COMPACT), 0, 0, False).dirty_ratio == 0.0


def test_a_log_is_due_when_it_is_filthier_than_its_topic_bears() -> None:
    disk = new_disk()
    log = two_segments(disk)
    log.cleaned.offset = 4
    ratio = look(disk, log).dirty_ratio
    for limit, due in ((ratio - 0.01, True), (ratio, False)):
        log.config = replace(COMPACT, min_cleanable_dirty_ratio=limit)
        assert look(disk, log).is_due == due


def test_records_that_are_too_young_are_left_alone() -> None:
    disk = new_disk()
    log = two_segments(disk)
    for lag_ms, end_offset in ((3_600_000, 8), (3_600_001, 4), (7_200_001, 0)):
        log.config = replace(COMPACT, min_compaction_lag_ms=lag_ms)
        assert look(disk, log).part.end_offset == end_offset
    log.cleaned.offset = 4  # what is compacted already is not too young any more
    assert look(disk, log).part.end_offset == 4


def test_records_that_have_waited_too_long_are_due_whatever_the_ratio() -> None:
    disk = new_disk()
    log = two_segments(disk)
    log.cleaned.offset = 4
    for lag_ms, due in ((3_600_000, False), (3_599_999, True)):
        log.config = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=lag_ms)
        assert look(disk, log).is_due == due


def test_records_behind_younger_ones_or_such_without_a_time_have_waited_too_long_all_the_same() -> (
    None
):
    for first_ms in (NO_TIMESTAMP, NOW_MS):
        disk = new_disk()
        log = new_log(disk, replace(COMPACT, min_cleanable_dirty_ratio=1.0))
        for timestamp_ms in (first_ms, NOW_MS - 3_600_000):
            put(log, (b"k", b""), timestamp_ms=timestamp_ms)
            log.roll(NOW_MS)
        checkpoint(log)
        for lag_ms, due in ((3_600_000, False), (3_599_999, True)):
            log.config = replace(log.config, max_compaction_lag_ms=lag_ms)
            assert look(disk, log).is_due == due


def test_the_filthiest_log_comes_first() -> None:
    part = ClosedPart([], 0, 0, replace(COMPACT, min_cleanable_dirty_ratio=0.1))
    filths = [Filth(part, dirty, 100, False) for dirty in (20, 90, 50, 10)]
    order: list[int] = []
    while (chosen := filthiest(filths)) is not None:
        order.append(chosen.dirty_bytes)
        filths.remove(chosen)
    assert order == [90, 50, 20]
    overdue = Filth(part, 1, 100, True)
    assert filthiest([overdue]) is overdue


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        (replace(COMPACT, segment_bytes=100_000), [[0, 4]]),
        (COMPACT, [[0], [4]]),
        (replace(COMPACT, segment_bytes=100_000, segment_index_bytes=16), [[0], [4]]),
    ],
)
def test_neighbours_are_grouped_as_long_as_one_segment_can_hold_them(
    config: TopicConfig, groups: list[list[int]]
) -> None:
    disk = new_disk()
    log = two_segments(disk)
    log.config = config
    found = group_segments(log.closed_part(9))
    assert [[segment.base_offset for segment in each.segments] for each in found] == groups
    assert [each.end_offset for each in found][-1] == 8
    assert group_segments(ClosedPart([], 0, 0, config)) == []


def test_offsets_that_are_too_far_apart_are_not_in_one_segment() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    log.reset_to(0, now_ms=NOW_MS)
    part = two_segments(new_disk(), COMPACT).closed_part(9)
    far = ClosedPart(part.segments, 2**31 + 1, 0, replace(COMPACT, segment_bytes=1 << 30))
    assert [each.end_offset for each in group_segments(far)] == [4, 2**31 + 1]
    near = ClosedPart(part.segments, 2**31, 0, replace(COMPACT, segment_bytes=1 << 30))
    assert len(group_segments(near)) == 1


def test_how_far_a_log_was_compacted_is_forgotten_if_it_cannot_be_read() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, COMPACT, now_ms=NOW_MS)
    for _ in range(9):
        put(log, (b"k", bytes(100)))
    log.roll(NOW_MS)
    put(log, (b"k", b"head"))
    checkpoint(log)
    compact(disk, log)
    assert (log.cleaned.offset, log.cleaned.reach) == (9, 9)
    disk.restart()
    assert open_data(disk).logs[PARTITION].cleaned.offset == 9
    disk.open(f"{log.directory}/cleaner-offset", create=True).write_at(b"{}", 0)
    disk.restart()
    assert open_data(disk).logs[PARTITION].cleaned.offset == 0


def test_of_each_key_the_last_offset_is_known_whatever_collides() -> None:
    table = KeyOffsets(bytes(SECRET_BYTES), buffer_bytes=24 * 40, keys_max=1000)
    assert table.count_max == 30
    known: dict[bytes, int] = {}
    for offset in range(300):
        key = b"%d" % (offset * 7919 % 30)
        table.put(key, offset)
        known[key] = offset
    assert table.is_full
    assert {key: table.get(key) for key in known} == known
    assert table.get(b"another") is None
    assert KeyOffsets(bytes(SECRET_BYTES), buffer_bytes=0, keys_max=0).count_max == 1


def test_a_table_is_no_larger_than_the_keys_there_can_be() -> None:
    for keys in range(1, 40):  # all of one batch, or it could never be compacted
        table = KeyOffsets(bytes(SECRET_BYTES), buffer_bytes=1 << 30, keys_max=keys)
        assert keys <= table.count_max <= keys + 1
