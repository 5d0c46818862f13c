"""Of each key the last record stays, at its offset; everything else about the log is as before."""

# pyright: reportPrivateUsage=false

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.log.compacting import BufferTooSmallError, Compaction
from quorate.broker.log.compaction_steps import LogChangedError, compaction_steps
from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.log import Log
from quorate.broker.log.rewriting import read_batches
from quorate.errors import CorruptRecordError, QuorateError, StorageError
from quorate.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, BatchHeader
from quorate.records.record import NO_PRODUCER, ProducerStamp, Record
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    bytes_of,
    find_time,
    headers_of,
    make_batch,
    new_disk,
    new_log,
    open_data,
    read_all,
)
from tests.unit.broker.log.compacting import (
    COMPACT,
    checkpoint,
    compact,
    put,
    records_of,
    table_of,
)

DAY_MS = 86_400_000
DIRECTORY = f"/data/{PARTITION}"


def filled(disk: SimDisk, *, config: TopicConfig = COMPACT, codec: int = 0) -> Log:
    """A log of twelve records of three keys in closed segments, and one in the active segment."""
    log = new_log(disk, config)
    for number in range(12):
        put(log, (b"k%d" % (number % 3), b"%d" % number + bytes(200)), codec=codec)
    log.roll(NOW_MS)
    put(log, (b"k0", b"head"))
    checkpoint(log)
    return log


def headers(log: Log) -> list[BatchHeader]:
    return [header for batch in read_all(log).values() for header in headers_of(batch)]


def offsets_and_keys(log: Log) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.key) for record in records_of(log)]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_of_each_key_the_last_record_stays_at_its_offset(codec: int) -> None:
    disk = new_disk()
    log = filled(disk, codec=codec)
    before = {record.offset: record for record in records_of(log)}
    segments = log.segment_count

    outcome = compact(disk, log)

    # The newest k0 is in the active segment, which has no say and stays as it is.
    assert offsets_and_keys(log) == [(9, b"k0"), (10, b"k1"), (11, b"k2"), (12, b"k0")]
    assert all(before[record.offset] == record for record in records_of(log))
    assert (outcome.keys, outcome.records_before, outcome.records_after) == (3, 12, 3)
    assert outcome.bytes_after == sum(s.size_bytes for s in log._segments.closed)
    assert log.segment_count == segments
    assert log.cleaned.offset == 12
    assert log.log_end_offset == 13
    assert log.log_start_offset == 0


def test_batches_follow_each_other_without_a_gap() -> None:
    disk = new_disk()
    log = filled(disk)
    compact(disk, log)
    found = headers(log)
    for before, after in pairwise(found):
        assert before.next_offset == after.base_offset
    assert (found[0].base_offset, found[-1].next_offset) == (0, 13)
    assert sum(header.record_count for header in found) == 4


def test_a_fetch_at_an_offset_that_was_removed_gives_the_next_record_that_was_not() -> None:
    disk = new_disk()
    log = filled(disk)
    compact(disk, log)
    for offset in range(10):
        taken = log.read(offset, max_bytes=1 << 20, limit_offset=13, at_least_one=True)
        assert taken is not None
        found = headers_of(bytes_of(taken))
        assert found[0].base_offset <= offset <= found[0].last_offset
    found_time = find_time(log, NOW_MS)
    assert found_time is not None
    assert found_time.offset == 9


def test_it_is_the_same_after_a_restart_clean_or_not() -> None:
    disk = new_disk()
    log = filled(disk)
    compact(disk, log)
    expected = read_all(log)
    for cut in (False, True):
        if cut:
            disk.lose_power()
        disk.restart()
        log = open_data(disk).logs[PARTITION]
        assert read_all(log) == expected
        assert log.cleaned.offset == 12


def test_compacting_again_leaves_nothing_to_do_and_merges_what_became_small() -> None:
    disk = new_disk()
    log = filled(disk)
    compact(disk, log)
    segments, once = log.segment_count, records_of(log)
    compact(disk, log)
    assert log.segment_count < segments
    merged = read_all(log)
    outcome = compact(disk, log)
    assert read_all(log) == merged
    assert outcome.bytes_before == outcome.bytes_after
    assert records_of(log) == once
    assert not [n for n in disk.list_directory(DIRECTORY) if "swap" in n or "cleaned" in n]


def test_only_what_is_below_the_high_watermark_and_synced_is_touched() -> None:
    disk = new_disk()
    log = filled(disk)
    assert log.closed_part(0).segments == []
    assert compact(disk, log, high_watermark=5).keys == 3
    assert log.cleaned.offset <= 5
    fresh = new_log(new_disk(), COMPACT)
    for _ in range(9):
        put(fresh, (b"k", bytes(200)))
    assert fresh.closed_part(9).segments == []


def test_a_batch_loses_some_of_its_records_and_keeps_its_offsets() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    stamps = ProducerStamp(7, 0, 0)
    put(log, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), producer=stamps)
    put(log, (b"c", b"5"))
    log.roll(NOW_MS)
    put(log, (b"z", b"9"), producer=ProducerStamp(7, 0, 4))
    checkpoint(log)
    compact(disk, log)
    first = headers(log)[0]
    assert [(r.offset, r.key) for r in records_of(log)][:2] == [(1, b"b"), (2, b"a")]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert (first.base_sequence, first.last_sequence, first.producer_id) == (0, 3, 7)


def test_the_last_batch_of_a_producer_stays_to_say_so() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    put(log, (b"a", b"1"), producer=ProducerStamp(7, 3, 0))
    put(log, (b"a", b"2"), producer=ProducerStamp(7, 3, 1))
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    compact(disk, log)
    kept = [header for header in headers(log) if header.producer_id == 7]
    assert [(h.base_offset, h.record_count, h.last_sequence) for h in kept] == [(1, 0, 1)]
    # It is still the last one, and stays; when its producer goes on, it goes.
    compact(disk, log)
    assert [h.producer_id for h in headers(log)].count(7) == 1
    put(log, (b"y", b"9"), producer=ProducerStamp(7, 3, 2))
    log.roll(NOW_MS)
    put(log, (b"x", b"9"))
    checkpoint(log)
    compact(disk, log)
    assert [h.base_offset for h in headers(log) if h.producer_id == 7] == [4]


def test_leader_epochs_of_removed_records_are_still_told_by_the_log() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, COMPACT, now_ms=NOW_MS)
    for epoch in range(5):
        put(log, (b"k", b"v"), leader_epoch=epoch)
        put(log, (b"k", b"v"), leader_epoch=epoch)
    log.roll(NOW_MS)
    put(log, (b"z", b"9"), leader_epoch=5)
    checkpoint(log)
    store.checkpoint({})
    before = log.leader_epochs.entries
    compact(disk, log)
    assert [(h.base_offset, h.leader_epoch) for h in headers(log)] == [
        (0, 0), (2, 1), (4, 2), (6, 3), (8, 4), (9, 4), (10, 5)
    ]  # fmt: skip
    disk.remove(f"{DIRECTORY}/leader-epochs")
    disk.restart()
    assert open_data(disk).logs[PARTITION].leader_epochs.entries == before


def test_a_tombstone_goes_when_it_was_there_for_delete_retention_ms() -> None:
    disk = new_disk()
    log = new_log(disk, replace(COMPACT, delete_retention_ms=DAY_MS))
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"), timestamp_ms=NOW_MS - 5)
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    compact(disk, log, now_ms=NOW_MS)
    marked = headers(log)[1]
    assert marked.attributes & DELETE_HORIZON_BIT
    assert (marked.base_timestamp_ms, marked.max_timestamp_ms) == (NOW_MS + DAY_MS, NOW_MS - 5)
    assert [(r.key, r.value, r.timestamp_ms) for r in records_of(log)][1:3] == [
        (b"a", None, NOW_MS - 5),
        (b"c", b"1", NOW_MS - 5),
    ]
    # The time counts from the first compaction that met it, and is not set anew by others.
    compact(disk, log, now_ms=NOW_MS + DAY_MS - 1)
    assert b"a" in {record.key for record in records_of(log)}
    compact(disk, log, now_ms=NOW_MS + DAY_MS)
    assert offsets_and_keys(log) == [(1, b"b"), (3, b"c"), (4, b"z")]
    assert [r.timestamp_ms for r in records_of(log)] == [NOW_MS, NOW_MS - 5, NOW_MS]


def test_records_with_the_brokers_time_keep_it() -> None:
    disk = new_disk()
    log = new_log(disk, replace(COMPACT, message_timestamp_type="LogAppendTime"))
    put(log, (b"a", None), (b"b", b"1"), (b"b", b"2"), timestamp_ms=5)
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    compact(disk, log)
    assert [r.timestamp_ms for r in records_of(log)] == [NOW_MS] * 3


def test_what_compaction_leaves_does_not_keep_old_records_behind_it_from_going() -> None:
    disk = new_disk()
    disk.now_ms = NOW_MS - DAY_MS
    log = new_log(disk, replace(COMPACT, cleanup_policy=("compact", "delete")))
    for key in (b"a", b"b"):
        for _ in range(2):
            put(log, (key, bytes(430)), timestamp_ms=disk.now_ms)
        log.roll(NOW_MS)
    disk.now_ms = NOW_MS
    put(log, (b"a", b"young"))
    log.roll(NOW_MS)
    put(log, (b"head", b""))
    checkpoint(log)
    compact(disk, log)
    assert headers(log)[0].record_count == 0
    assert offsets_and_keys(log) == [(3, b"b"), (4, b"a"), (5, b"head")]
    log.config = replace(log.config, retention_ms=DAY_MS - 1)
    log.apply_retention(high_watermark=log.log_end_offset, now_ms=NOW_MS)
    assert offsets_and_keys(log) == [(4, b"a"), (5, b"head")]


def test_records_without_a_key_go_as_in_kafka() -> None:
    disk = new_disk()
    log = new_log(disk, replace(COMPACT, cleanup_policy=("delete",)))
    log.append(make_batch([b"1", b"2"], keys=[None, b"k"]), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.config = COMPACT
    put(log, (b"z", b"9"))
    checkpoint(log)
    compact(disk, log)
    assert offsets_and_keys(log) == [(1, b"k"), (2, b"z")]


def test_what_does_not_fit_into_the_buffer_stays_for_the_next_time() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    for number in range(40):
        put(log, (b"%d" % (number % 20), b"%d" % number))
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    table = table_of(records_of(log))
    rounds = 0
    while log.cleaned.offset < 40:
        assert compact(disk, log, buffer_bytes=24 * 16).keys <= 12
        assert table_of(records_of(log)) == table
        rounds += 1
    assert rounds > 2
    assert len(records_of(log)) == 21


def test_a_cut_of_the_batch_that_did_not_fit_whole_takes_what_it_had_replaced_along() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    put(log, (b"a", b"old"), (b"b", b"old"))
    half = put(log, (b"a", b"new"), (b"c", b"new"), (b"d", b"new"))
    log.roll(NOW_MS)
    put(log, (b"head", b""))
    checkpoint(log)
    compact(disk, log, buffer_bytes=24 * 4)
    assert log.cleaned.offset == half, "there was no room for all of its keys"
    assert records_of(log)[0].key == b"b", "but for the one that replaced an older record"
    log.truncate_to(half, now_ms=NOW_MS)
    assert log.log_end_offset == 0, "to be fetched again: it lacks a record of its leader's"


def test_a_batch_whose_keys_do_not_fit_is_an_error() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    put(log, *[(b"%d" % number, b"v") for number in range(10)])
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    before = read_all(log)
    with pytest.raises(BufferTooSmallError):
        compact(disk, log, buffer_bytes=24 * 4)
    assert read_all(log) == before


def test_segments_are_merged_up_to_the_limits_of_one() -> None:
    disk = new_disk()
    log = new_log(disk, COMPACT)
    for number in range(60):
        put(log, (b"k%d" % (number % 50), bytes(100)))
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    for _ in range(3):
        compact(disk, log)
    for segment in log._segments.closed:
        assert segment.size_bytes <= 1024
    assert len(records_of(log)) == 51


def test_peak_space_is_one_segment_more() -> None:
    disk = new_disk()
    log = filled(disk)
    used = disk.used_bytes()
    peak = 0

    def look() -> None:
        nonlocal peak
        peak = max(peak, disk.used_bytes() - used)

    compact(disk, log, between=look)
    assert peak <= COMPACT.segment_bytes + 200
    assert disk.used_bytes() < used


# --- what happens meanwhile


def shortened(log: Log) -> list[Callable[[], object]]:
    return [
        lambda: log.truncate_to(4, now_ms=NOW_MS),
        lambda: log.truncate_to(0, now_ms=NOW_MS),
        lambda: log.reset_to(20, now_ms=NOW_MS),
        lambda: log.delete_records_before(6),
        lambda: log.delete_records_before(13),
    ]


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("step", range(1, 18))
def test_a_log_that_is_shortened_meanwhile_is_what_it_would_be(which: int, step: int) -> None:
    disk = new_disk()
    log = filled(disk)
    steps = 0

    def between() -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            shortened(log)[which]()

    try:
        compact(disk, log, between=between)
    except LogChangedError:
        assert steps >= step > 0
    if steps < step:
        return
    plain = filled(new_disk())
    shortened(plain)[which]()
    if log.log_end_offset > log.log_start_offset:
        assert table_of(records_of(log)) == table_of(records_of(plain))
        assert (log.log_start_offset, log.log_end_offset) == (
            plain.log_start_offset,
            plain.log_end_offset,
        )
    else:  # what was cut off had taken others with it
        assert log.log_start_offset == plain.log_start_offset
    assert log.cleaned.offset <= log.log_end_offset
    expected = read_all(log)
    disk.lose_power()
    log = open_data(disk).logs[PARTITION]
    found = read_all(log)
    assert {base: found[base] for base in expected if base in found} == {
        base: batch for base, batch in expected.items() if base in found
    }
    assert log.cleaned.offset <= log.log_end_offset


@pytest.mark.parametrize("step", range(1, 8))
def test_a_log_that_is_deleted_meanwhile_is_let_go(step: int) -> None:
    disk = new_disk()
    log = filled(disk)
    steps = 0

    def between() -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            disk.rename(DIRECTORY, "/data/gone-delete")
            log.fail(StorageError("deleted"))

    with pytest.raises((LogChangedError, OSError)):
        compact(disk, log, between=between)
    assert not disk.exists(DIRECTORY)


@pytest.mark.parametrize("step", range(1, 6))
def test_slices_taken_before_are_whole_after(step: int) -> None:
    disk = new_disk()
    log = filled(disk)
    taken = log.read(0, max_bytes=1 << 20, limit_offset=13, at_least_one=True)
    assert taken is not None
    before = bytes_of(taken)
    lookup = log.start_time_lookup(NOW_MS)
    steps = 0

    def between() -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            assert {r.offset for r in records_of(log)} >= {9, 10, 11, 12}

    compact(disk, log, between=between)
    assert bytes_of(taken) == before
    lookup.run()
    assert lookup.missed


# --- what goes wrong


def test_a_disk_that_is_full_leaves_the_log_as_it_was() -> None:
    disk = new_disk()
    log = filled(disk)
    before = read_all(log)
    disk.capacity_bytes = disk.used_bytes() + 60
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        compact(disk, log)
    assert read_all(log) == before
    assert not [n for n in disk.list_directory(DIRECTORY) if "swap" in n or "cleaned" in n]
    disk.capacity_bytes = None
    compact(disk, log)
    assert len(records_of(log)) == 4


def test_what_is_damaged_is_not_copied() -> None:
    disk = new_disk()
    log = filled(disk)
    before = read_all(log)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log", create=False)
    file.write_at(b"x", HEADER_BYTES + 10)
    with pytest.raises(CorruptRecordError):
        compact(disk, log)
    file.truncate(100)
    with pytest.raises(CorruptRecordError):
        compact(disk, log)
    file.write_at(before[0], 0)
    assert log.failure is None


@pytest.mark.parametrize("deltas", [(0, -(2**62)), (0, 2)])
def test_records_at_offsets_that_their_batch_does_not_have_are_not_copied(
    deltas: tuple[int, int],
) -> None:
    disk = new_disk()
    log = new_log(disk, TopicConfig(segment_bytes=1024))  # which is compacted from now on
    log.append(
        make_batch([b"1", b"2"], keys=[b"k", b"l"], offset_deltas=deltas),
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    log.config = COMPACT
    log.roll(NOW_MS)
    checkpoint(log)
    with pytest.raises(CorruptRecordError, match="offsets behind"):
        compact(disk, log)
    assert log.failure is None


def test_a_batch_that_does_not_follow_is_not_copied() -> None:
    disk = new_disk()
    log = filled(disk)
    disk.open(f"{DIRECTORY}/{0:020d}.log", create=False).write_at(b"\1", 7)
    with pytest.raises(CorruptRecordError, match="was to be next"):
        compact(disk, log)


def test_who_charges_may_give_up() -> None:
    disk = new_disk()
    log = filled(disk)
    charged = 0

    class StopError(QuorateError):
        pass

    def charge(size_bytes: int) -> None:
        nonlocal charged
        charged += size_bytes
        if charged > 4000:
            raise StopError

    before = read_all(log)
    with pytest.raises(StopError):
        compact(disk, log, charge=charge)
    assert read_all(log) == before


@pytest.mark.parametrize("step", [5, 6])
def test_a_disk_that_fails_in_a_swap_ends_the_log(step: int) -> None:
    disk = new_disk()
    log = filled(disk)
    steps = 0

    def between() -> None:
        nonlocal steps
        steps += 1
        disk.syncs_fail = steps == step - 1

    with pytest.raises(FatalStorageError):
        compact(disk, log, between=between)
    assert isinstance(log.failure, FatalStorageError)
    disk.syncs_fail = False
    disk.restart()
    assert table_of(records_of(open_data(disk).logs[PARTITION]))[b"k1"].startswith(b"10")


def test_large_batches_are_read_whole_and_every_byte_once() -> None:
    disk = new_disk()
    log = new_log(disk, replace(COMPACT, segment_bytes=1 << 22))
    for size_bytes in (700_000, 10, 100_000, 40_000, 40_000, 1):
        put(log, (b"a", bytes(size_bytes)))
    log.roll(NOW_MS)
    put(log, (b"z", b"9"))
    checkpoint(log)
    charged: list[int] = []
    segment = log._segments.closed[0]
    assert len(list(read_batches(segment, charged.append))) == 6
    assert sum(charged) == segment.size_bytes


# --- any history

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(max_size=150))
ENTRIES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
HISTORIES = st.lists(st.tuples(ENTRIES, st.integers(0, 4), st.integers(-1, 2)), max_size=25)


@settings(max_examples=150, deadline=None)
@given(HISTORIES, st.lists(st.integers(0, 25), max_size=4), st.integers(3, 30))
def test_the_last_value_of_each_key_is_what_it_was_whatever_was_written(
    history: list[tuple[list[tuple[bytes, bytes | None]], int, int]],
    compacted_after: list[int],
    keys_max: int,
) -> None:
    disk = new_disk()
    log = new_log(disk, replace(COMPACT, delete_retention_ms=50))
    written: dict[int, Record] = {}
    for number, (entries, codec, producer_id) in enumerate(history):
        known = log.producers.get(producer_id)
        stamp = ProducerStamp(producer_id, 0, known.next_sequence if known else 0)
        stamp = NO_PRODUCER if producer_id < 0 else stamp
        put(log, *entries, codec=codec, producer=stamp, leader_epoch=number // 4)
        written.update({record.offset: record for record in records_of(log)})
        for _ in range(compacted_after.count(number)):
            checkpoint(log)
            compact(disk, log, now_ms=NOW_MS + 30 * number, buffer_bytes=24 * max(keys_max, 12) * 2)
    expected = table_of(list(written.values()))
    found = records_of(log)
    assert table_of(found) == expected
    assert all(written[record.offset] == record for record in found)
    batches = headers(log)
    assert not batches or batches[-1].next_offset == log.log_end_offset
    for before, after in pairwise(batches):
        assert before.next_offset == after.base_offset
    epochs = [(h.leader_epoch, h.base_offset) for h in batches]
    starts = {epoch: min(base for e, base in epochs if e == epoch) for epoch, _ in epochs}
    assert starts == {e.leader_epoch: e.start_offset for e in log.leader_epochs.entries}
    producers = {pid: p.batches[-1] for pid, p in log.producers.items()}
    disk.restart()
    for name in disk.list_directory(DIRECTORY) if history else []:
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")
    again = open_data(disk).get(PARTITION)
    if again is not None:
        assert {pid: p.batches[-1] for pid, p in again.producers.items()} == producers
        assert table_of(records_of(again)) == expected


@pytest.mark.parametrize("stop", range(1, 20))
def test_a_broker_that_stops_in_the_midst_finds_it_all_again(stop: int) -> None:
    disk = new_disk()
    log = filled(disk)
    table = table_of(records_of(log))
    part = log.closed_part(13)
    compaction = Compaction(
        disk, part, producers={}, buffer_bytes=1 << 20, now_ms=NOW_MS, charge=lambda _: None
    )
    steps = compaction_steps(log, compaction)
    for step in islice(steps, stop):
        step.run()
    steps.close()
    disk.restart()
    log = open_data(disk).logs[PARTITION]
    log.config = COMPACT
    assert table_of(records_of(log)) == table
    names = disk.list_directory(DIRECTORY)
    assert not [name for name in names if "swap" in name or "cleaned" in name]
    checkpoint(log)
    compact(disk, log)
    assert table_of(records_of(log)) == table
