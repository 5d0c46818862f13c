"""Finding records by offset and by time, in whole batches, within limits."""

import sys
from random import Random

import pytest

from quorate.broker.log.active import RECENT_BATCHES_MAX
from quorate.broker.log.log import Log
from quorate.errors import CorruptRecordError
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    bytes_of,
    find_time,
    headers_of,
    make_batch,
    new_disk,
    new_log,
    open_data,
    read_all,
)

SMALL_SEGMENTS = TopicConfig(segment_bytes=4000, index_interval_bytes=400)


def spans(log: Log, offset: int, *, max_bytes: int, limit_offset: int) -> list[tuple[int, int]]:
    taken = log.read(offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=True)
    if taken is None:
        return []
    return [(header.base_offset, header.last_offset) for header in headers_of(bytes_of(taken))]


def test_a_read_gives_whole_batches_up_to_its_size() -> None:
    log = new_log()
    for _ in range(4):
        append(log, b"ab", b"cd")  # 79 bytes each
    size_bytes = log.size_bytes // 4

    assert spans(log, 0, max_bytes=1000, limit_offset=8) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert spans(log, 2, max_bytes=2 * size_bytes, limit_offset=8) == [(2, 3), (4, 5)]
    assert spans(log, 2, max_bytes=2 * size_bytes - 1, limit_offset=8) == [(2, 3)]
    assert spans(log, 3, max_bytes=1, limit_offset=8) == [(2, 3)]


def test_a_first_batch_that_is_too_large_is_given_only_on_demand() -> None:
    log = new_log()
    append(log, bytes(100))

    assert log.read(0, max_bytes=10, limit_offset=1, at_least_one=False) is None
    taken = log.read(0, max_bytes=10, limit_offset=1, at_least_one=True)
    assert taken is not None
    assert len(taken) == log.size_bytes


def test_nothing_at_or_behind_the_limit_is_given() -> None:
    log = new_log()
    for _ in range(3):
        append(log, b"a", b"b")

    assert spans(log, 0, max_bytes=1000, limit_offset=4) == [(0, 1), (2, 3)]
    assert spans(log, 0, max_bytes=1000, limit_offset=3) == [(0, 1)]
    assert spans(log, 2, max_bytes=1000, limit_offset=3) == []
    assert spans(log, 4, max_bytes=1000, limit_offset=4) == []


def test_a_read_ends_at_the_end_of_its_segment() -> None:
    log = new_log()
    append(log, b"a")
    log.roll(NOW_MS)
    append(log, b"b")

    assert spans(log, 0, max_bytes=1000, limit_offset=2) == [(0, 0)]
    assert spans(log, 1, max_bytes=1000, limit_offset=2) == [(1, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_every_read_agrees_with_a_plain_search(seed: int) -> None:
    rng = Random(seed)
    log = new_log(config=SMALL_SEGMENTS)
    ends: list[int] = []
    while log.log_end_offset < 4000:
        append(log, *[bytes(rng.randint(0, 50)) for _ in range(rng.randint(1, 5))])
        ends.append(log.log_end_offset)
    assert len(ends) > RECENT_BATCHES_MAX
    starts = [0, *ends[:-1]]

    for _ in range(300):
        offset = rng.randrange(log.log_end_offset)
        limit_offset = rng.randrange(log.log_end_offset + 1)
        found = spans(log, offset, max_bytes=rng.randint(1, 3000), limit_offset=limit_offset)
        first = next(number for number, end in enumerate(ends) if end > offset)
        if ends[first] > limit_offset:
            assert found == []
        else:
            count = len(found)
            assert count > 0
            expected = zip(starts[first : first + count], ends[first : first + count], strict=True)
            assert found == [(start, end - 1) for start, end in expected]
            assert ends[first + count - 1] <= limit_offset


def test_the_index_of_the_active_segment_finds_what_is_no_longer_in_memory() -> None:
    log = new_log(config=TopicConfig(index_interval_bytes=500))
    for _ in range(3 * RECENT_BATCHES_MAX):
        append(log, b"value")

    for offset in range(0, log.log_end_offset, 7):
        assert spans(log, offset, max_bytes=1, limit_offset=log.log_end_offset) == [
            (offset, offset)
        ]
        two = spans(log, offset, max_bytes=146, limit_offset=offset + 2)
        assert two[0] == (offset, offset)


def test_the_active_segment_knows_an_offset_behind_whatever_begins_before_a_position() -> None:
    log = new_log(config=TopicConfig(index_interval_bytes=500))
    for _ in range(2 * RECENT_BATCHES_MAX):
        append(log, b"value")
    active = log._segments.active  # pyright: ignore[reportPrivateUsage]
    position = 0
    for offset, batch in read_all(log).items():
        behind = active.offset_behind(position, log.log_end_offset)
        assert offset <= behind <= min(offset + 10, log.log_end_offset)
        position += len(batch)


@pytest.mark.parametrize("codec", range(5))
def test_a_time_is_found_to_the_record_in_every_compression(codec: int) -> None:
    log = new_log()
    for start in range(0, 50, 10):
        stamps = [1000 + number for number in range(start, start + 10)]
        log.append(
            make_batch([b"v"] * 10, timestamps_ms=stamps, codec=codec),
            leader_epoch=2,
            now_ms=NOW_MS,
        )

    for number in (0, 7, 10, 33, 49):
        assert find_time(log, 1000 + number) == (1000 + number, number, 2)
    assert find_time(log, 0) == (1000, 0, 2)
    assert find_time(log, 1050) is None
    assert find_time(log, None) == (1049, 49, 2)


@pytest.mark.parametrize("seed", range(5))
def test_every_time_gives_the_first_record_that_is_not_older(seed: int) -> None:
    rng = Random(seed)
    log = new_log(config=SMALL_SEGMENTS)
    stamps: list[int] = []
    for _ in range(400):
        batch = [
            NOW_MS + len(stamps) * 10 + rng.randint(-500, 500) for _ in range(rng.randint(1, 4))
        ]
        log.append(
            make_batch([b"value"] * len(batch), timestamps_ms=batch), leader_epoch=0, now_ms=NOW_MS
        )
        stamps += batch
    log.delete_records_before(57)

    for _ in range(300):
        wanted = NOW_MS + rng.randint(-1000, len(stamps) * 10 + 1000)
        offset = next(
            (offset for offset in range(57, len(stamps)) if stamps[offset] >= wanted), None
        )
        found = find_time(log, wanted)
        assert (found and found.offset) == offset
    largest = find_time(log, None)
    assert largest is not None
    assert largest.offset == stamps.index(max(stamps[57:]), 57)


def test_a_log_without_times_has_no_offset_for_any() -> None:
    log = new_log()
    assert find_time(log, None) is None
    append(log, b"v", timestamp_ms=-1)

    assert find_time(log, 0) is None
    assert find_time(log, None) is None


def test_a_log_that_is_cut_while_a_time_is_searched_for_is_corrupt_at_worst() -> None:
    log = new_log(config=TopicConfig(index_interval_bytes=1))
    for number in range(20):
        append(log, b"v", timestamp_ms=NOW_MS + number)
    log.start_checkpoint()
    lookup = log.start_time_lookup(NOW_MS + 15)

    log.truncate_to(2, now_ms=NOW_MS)
    lookup.run()

    with pytest.raises(CorruptRecordError):
        lookup.result()


def test_many_segments_are_opened_and_searched_without_reading_them() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(segment_bytes=1024), now_ms=NOW_MS)
    for _ in range(300):
        append(log, bytes(900))
    assert log.segment_count == 300
    store.close(clean=True, now_ms=NOW_MS)
    before = disk.reads
    reopened = open_data(disk).get(PARTITION)
    assert reopened is not None
    assert disk.reads - before < 20

    before = disk.reads
    assert spans(reopened, 123, max_bytes=10, limit_offset=300) == [(123, 123)]
    assert disk.reads - before < 10


def test_what_a_lookup_takes_does_not_grow_with_the_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No directory is listed, and no more is called or read, with 1,500 of them than with 150."""
    taken: list[set[tuple[int, int]]] = []
    for count in (150, 1_500):
        disk = new_disk()
        store = open_data(disk)
        batch = make_batch([b"v"])
        config = TopicConfig(segment_bytes=len(batch))
        log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
        for _ in range(count):
            log.append(batch, leader_epoch=0, now_ms=NOW_MS)
        assert log.segment_count == count
        monkeypatch.setattr(disk, "list_directory", None)
        offsets = [count * part // 10 for part in range(1, 10)]
        taken.append({cost_of_reading(disk, log, offset) for offset in offsets})
    assert max(taken[1]) <= max(taken[0])


def cost_of_reading(disk: SimDisk, log: Log, offset: int) -> tuple[int, int]:
    """Return how many functions were called, in Python, and how many reads made, for one offset."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = disk.reads
    sys.setprofile(count)
    try:
        taken = log.read(offset, max_bytes=10, limit_offset=1 << 40, at_least_one=True)
    finally:
        sys.setprofile(None)
    assert taken is not None
    assert [h.base_offset for h in headers_of(bytes_of(taken))] == [offset]
    return calls, disk.reads - before
