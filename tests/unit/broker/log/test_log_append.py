"""What a leader accepts, and what becomes of it."""

import errno
from random import Random
from typing import Any

import pytest

from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.validation import RECORDS_MAX, KeylessRecordsError
from quorate.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    StorageError,
    UnsupportedCompressionTypeError,
)
from quorate.records.batch import HEADER, TIMESTAMP_TYPE_BIT, behind_room, parse_header, seal_batch
from quorate.records.checksum import crc32c
from quorate.records.compression import Codec, compress
from quorate.records.record import ProducerStamp, read_records
from quorate.settings import TopicConfig
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    append,
    find_time,
    flush,
    headers_of,
    join,
    make_batch,
    new_disk,
    new_log,
    read_all,
)


def reseal(batch: memoryview, **changes: int) -> memoryview:
    """Change header fields of a batch and give it the checksum that fits."""
    header = parse_header(batch, 0)._replace(**changes)
    HEADER.pack_into(batch, 0, *header)
    HEADER.pack_into(batch, 0, *header._replace(crc=crc32c(batch[21:])))
    return batch


def test_offsets_are_dense_and_records_come_back_unchanged() -> None:
    log = new_log()

    bases = [append(log, *values) for values in ([b"a", b"b"], [b""], [b"c", b"d", b"e"])]

    assert bases == [0, 2, 3]
    assert log.log_end_offset == 6
    records = [
        (record.offset, record.value)
        for batch in read_all(log).values()
        for record in read_records(batch, parse_header(batch, 0), PARTITION, bytes_max=1 << 20)
    ]
    assert records == [(0, b"a"), (1, b"b"), (2, b""), (3, b"c"), (4, b"d"), (5, b"e")]


def test_an_append_tells_where_it_is_and_writes_its_epoch() -> None:
    log = new_log()
    append(log, b"first")

    result = log.append(make_batch([b"a", b"b"]), leader_epoch=4, now_ms=NOW_MS)

    assert (result.base_offset, result.last_offset, result.duplicate) == (1, 2, False)
    assert result.log_append_time_ms == -1
    stored = [headers_of(batch)[0] for batch in read_all(log).values()]
    assert [header.base_offset for header in stored] == [0, 1]
    assert [header.leader_epoch for header in stored] == [0, 4]


@pytest.mark.parametrize("time_type", ["CreateTime", "LogAppendTime"])
def test_who_writes_does_not_say_that_times_are_the_brokers(time_type: str) -> None:
    log = new_log(config=TopicConfig(message_timestamp_type=time_type))
    batch = make_batch([b"v"], attributes=TIMESTAMP_TYPE_BIT)
    with pytest.raises(InvalidTimestampError):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)


def test_append_time_is_given_to_all_records_and_told() -> None:
    log = new_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))

    result = log.append(
        make_batch([b"a", b"b"], timestamps_ms=[5, 9]), leader_epoch=0, now_ms=NOW_MS
    )

    assert result.log_append_time_ms == NOW_MS
    (batch,) = read_all(log).values()
    header = parse_header(batch, 0)
    assert header.is_log_append_time
    assert header.max_timestamp_ms == NOW_MS
    assert header.crc == crc32c(batch[21:])
    assert find_time(log, None) == (NOW_MS, 0, 0)


def damaged(batch: memoryview) -> memoryview:
    batch[-1] ^= 1
    return batch


def many_records(count: int) -> memoryview:
    """So many records of nothing, in some hundreds of bytes."""
    sealed = seal_batch(
        behind_room(compress(Codec.ZSTD, bytes((12, 0, 0, 0, 1, 1, 0)) * count)),
        attributes=Codec.ZSTD,
        record_count=count,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        producer=ProducerStamp(-1, -1, -1),
    )
    return memoryview(sealed)


CORRUPT = damaged(make_batch([b"value"]))
TRUNCATED = make_batch([b"value"])[:-1]


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (memoryview(b""), InvalidRecordError),
        (memoryview(bytes(60)), CorruptRecordError),
        (CORRUPT, CorruptRecordError),
        (TRUNCATED, CorruptRecordError),
        (join([make_batch([b"a"]), make_batch([b"b"])]), InvalidRecordError),
        (join([make_batch([b"a"]), TRUNCATED]), InvalidRecordError),
        (reseal(make_batch([b"v"]), magic=1), InvalidRecordError),
        (reseal(make_batch([b"v"]), record_count=2), InvalidRecordError),
        (reseal(make_batch([b"v"]), record_count=0), InvalidRecordError),
        (reseal(make_batch([b"v"]), last_offset_delta=7), InvalidRecordError),
        (reseal(make_batch([b"v"]), attributes=0x20), InvalidRecordError),
        (reseal(make_batch([b"v"]), attributes=5), UnsupportedCompressionTypeError),
        (reseal(make_batch([b"v"]), attributes=0x08), InvalidTimestampError),
        (reseal(make_batch([b"v"]), producer_id=1, base_sequence=-1), InvalidRecordError),
        (reseal(make_batch([b"v"]), producer_id=1, base_sequence=0), InvalidRecordError),
        (make_batch([b"v"], timestamps_ms=[NOW_MS + 3_600_001]), InvalidTimestampError),
        (make_batch([bytes(1_048_588)]), MessageTooLargeError),
        (many_records(RECORDS_MAX + 1), MessageTooLargeError),
        (join([make_batch([bytes(600_000)])] * 2), InvalidRecordError),
    ],
)
def test_what_is_not_acceptable_is_refused_and_nothing_written(
    batch: memoryview, error: type[KafkaError]
) -> None:
    log = new_log()
    append(log, b"before")

    with pytest.raises(error):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)

    assert log.log_end_offset == 1
    assert append(log, b"after") == 1


def test_a_record_may_be_as_far_ahead_as_the_topic_allows() -> None:
    log = new_log()

    assert append(log, b"v", timestamp_ms=NOW_MS + 3_600_000) == 0


def test_records_older_than_the_topic_allows_are_refused_one_by_one() -> None:
    log = new_log(config=TopicConfig(message_timestamp_before_max_ms=1000))
    append(log, b"v", timestamp_ms=NOW_MS - 1000)
    append(log, b"v", timestamp_ms=-1)

    with pytest.raises(InvalidTimestampError, match="too far behind"):
        log.append(
            make_batch([b"a", b"b"], timestamps_ms=[NOW_MS, NOW_MS - 1001], codec=4),
            leader_epoch=0,
            now_ms=NOW_MS,
        )


def test_so_many_records_are_a_batch_and_no_more() -> None:
    log = new_log()
    log.append(many_records(RECORDS_MAX), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == RECORDS_MAX


def test_records_that_fit_into_no_segment_are_refused() -> None:
    log = new_log(config=TopicConfig(segment_bytes=1024))

    with pytest.raises(RecordListTooLargeError):
        append(log, bytes(1000))


def test_a_batch_above_both_limits_is_too_large_a_message() -> None:
    """Producers send such a batch in parts, and give up one that fits into no segment."""
    log = new_log(config=TopicConfig(segment_bytes=1024, max_message_bytes=1100))
    batch = make_batch([bytes(600), bytes(600)])

    with pytest.raises(MessageTooLargeError, match="the limit is 1100"):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(MessageTooLargeError):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, header=parse_header(batch, 0))


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (damaged(make_batch([bytes(1000)])), CorruptRecordError),
        (make_batch([bytes(1000)], timestamps_ms=[NOW_MS + 3_600_001]), InvalidTimestampError),
        (make_batch([bytes(1000)]), KeylessRecordsError),
        (make_batch([bytes(1000)], keys=[b"k"]), RecordListTooLargeError),
    ],
)
def test_that_no_segment_takes_a_batch_is_told_when_nothing_else_is_wrong_with_it(
    batch: memoryview, error: type[KafkaError]
) -> None:
    log = new_log(config=TopicConfig(segment_bytes=1024, cleanup_policy=("compact",)))

    with pytest.raises(error):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)


def test_an_idempotent_producers_records_get_the_brokers_time_too() -> None:
    log = new_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
    batch = make_batch([b"v"], timestamps_ms=[NOW_MS + 10**9], producer=ProducerStamp(7, 0, 0))
    result = log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert result.log_append_time_ms == NOW_MS


def test_settings_may_change_while_the_log_is_open() -> None:
    log = new_log()
    append(log, bytes(500))

    log.config = TopicConfig(max_message_bytes=100, segment_bytes=1024)

    with pytest.raises(MessageTooLargeError):
        append(log, bytes(500))
    log.config = TopicConfig(segment_bytes=1024)
    append(log, bytes(500))
    assert log.segment_count == 2


def test_a_full_disk_refuses_appends_until_there_is_space_again() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"before")
    disk.capacity_bytes = disk.used_bytes() + 100

    for _ in range(3):
        with pytest.raises(StorageError) as caught:
            append(log, bytes(200))
        assert not isinstance(caught.value, FatalStorageError)
    assert log.failure is None
    assert log.log_end_offset == 1
    assert append(log, b"small") == 1

    disk.capacity_bytes = None
    assert append(log, bytes(200)) == 2
    assert [len(batch) for batch in read_all(log).values()] == [74, 73, 270]


def test_a_full_disk_at_a_roll_leaves_the_log_as_it_was() -> None:
    disk = new_disk()
    log = new_log(disk, TopicConfig(segment_bytes=1024, index_interval_bytes=1))
    append(log, bytes(400))
    append(log, bytes(400))
    disk.capacity_bytes = disk.used_bytes()

    with pytest.raises(StorageError):
        append(log, bytes(400))
    assert log.segment_count == 1
    disk.capacity_bytes = None
    assert append(log, bytes(400)) == 2
    assert len(read_all(log)) == 3


def test_a_full_disk_cannot_begin_a_leader_epoch() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"before")
    disk.capacity_bytes = disk.used_bytes()

    with pytest.raises(StorageError):
        append(log, b"after", leader_epoch=1)

    disk.capacity_bytes = None
    assert append(log, b"after", leader_epoch=1) == 1
    assert log.leader_epochs.entries == ((0, 0), (1, 1))


def test_a_write_that_cannot_be_taken_back_ends_the_log() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"before")
    disk.capacity_bytes = disk.used_bytes()
    disk.syncs_fail = True

    with pytest.raises(FatalStorageError):
        append(log, b"after")

    disk.capacity_bytes, disk.syncs_fail = None, False
    with pytest.raises(FatalStorageError):
        append(log, b"after")
    with pytest.raises(FatalStorageError):
        log.append_replicated(make_batch([b"v"]), now_ms=NOW_MS)
    with pytest.raises(FatalStorageError):
        log.complete()


def test_after_a_failed_sync_the_log_accepts_nothing_and_does_not_sync_again() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"v")
    disk.syncs_fail = True
    started = log.start_flush()
    started.run()

    with pytest.raises(FatalStorageError, match="sync failed") as caught:
        log.finish_flush(started)

    disk.syncs_fail = False
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EIO
    assert log.flushed_offset == 0
    with pytest.raises(FatalStorageError):
        append(log, b"w")


def test_flushed_means_what_was_there_when_the_flush_began() -> None:
    log = new_log()
    append(log, b"a")
    started = log.start_flush()
    append(log, b"b")
    started.run()

    log.finish_flush(started)

    assert log.flushed_offset == 1
    flush(log)
    assert log.flushed_offset == 2


def test_a_flush_that_a_truncation_overtook_promises_nothing() -> None:
    log = new_log()
    for _ in range(4):
        append(log, b"a")
    started = log.start_flush()
    started.run()
    log.truncate_to(2, now_ms=NOW_MS)
    append(log, b"b", leader_epoch=1)

    log.finish_flush(started)

    assert log.flushed_offset == 0


def test_flushes_are_due_by_number_and_by_age() -> None:
    log = new_log(config=TopicConfig(flush_messages=3))
    append(log, b"a", b"b")
    assert not log.flush_due(NOW_MS)
    append(log, b"c")
    assert log.flush_due(NOW_MS)
    flush(log)
    assert not log.flush_due(NOW_MS)

    log.config = TopicConfig(flush_ms=100)
    append(log, b"d")
    assert not log.flush_due(NOW_MS)
    assert not log.flush_due(NOW_MS + 99)
    assert log.flush_due(NOW_MS + 100)


def test_a_leader_of_an_older_epoch_than_the_logs_is_fenced() -> None:
    log = new_log()
    append(log, b"v", leader_epoch=3)

    with pytest.raises(FencedLeaderEpochError):
        append(log, b"v", leader_epoch=2)
    assert log.log_end_offset == 1


def test_a_checkpoint_on_a_full_disk_fails_and_the_next_one_succeeds() -> None:
    disk = new_disk()
    log = new_log(disk, TopicConfig(index_interval_bytes=1))
    for _ in range(3):
        append(log, b"v")
    disk.capacity_bytes = disk.used_bytes()

    with pytest.raises(StorageError):
        log.start_checkpoint()
    with pytest.raises(StorageError):
        log.complete()

    disk.capacity_bytes = None
    assert log.complete()
    checkpoint = log.start_checkpoint()
    checkpoint.run()
    log.finish_flush(checkpoint)
    assert log.recovery_point == 3
    assert not log.complete(), "there is nothing left to do"


def test_the_index_is_written_while_the_log_grows() -> None:
    disk = new_disk()
    log = new_log(disk, TopicConfig(index_interval_bytes=1))
    for _ in range(600):
        append(log, b"v")

    assert disk.size_bytes(f"/data/{PARTITION}/{0:020d}.index") > 4000


def test_a_follower_takes_offsets_and_epochs_from_its_leader() -> None:
    leader, follower = new_log(), new_log()
    append(leader, b"a", b"b")
    append(leader, b"c", leader_epoch=3)
    append(leader, b"d", leader_epoch=3)

    sent = join(memoryview(batch) for batch in read_all(leader).values())
    follower.append_replicated(sent, now_ms=NOW_MS)

    assert read_all(follower) == read_all(leader)
    assert follower.leader_epochs.entries == leader.leader_epochs.entries


def test_a_follower_leaves_out_a_batch_that_is_cut_off() -> None:
    leader, follower = new_log(), new_log()
    append(leader, b"a")
    append(leader, bytes(100))
    sent = join(memoryview(batch) for batch in read_all(leader).values())

    follower.append_replicated(sent[:-1], now_ms=NOW_MS)
    assert follower.log_end_offset == 1
    follower.append_replicated(memoryview(b""), now_ms=NOW_MS)
    assert follower.log_end_offset == 1


def test_a_follower_refuses_what_does_not_continue_its_log() -> None:
    leader, follower = new_log(), new_log()
    for epoch in (1, 2):
        append(leader, b"a", leader_epoch=epoch)
    first, second = read_all(leader).values()
    follower.append_replicated(memoryview(first), now_ms=NOW_MS)

    with pytest.raises(CorruptRecordError, match="does not continue"):
        follower.append_replicated(memoryview(first), now_ms=NOW_MS)
    corrupt = bytearray(second)
    corrupt[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        follower.append_replicated(memoryview(corrupt), now_ms=NOW_MS)
    assert follower.log_end_offset == 1


def test_random_values_come_back_by_every_offset() -> None:
    rng = Random(7)
    log = new_log(config=TopicConfig(segment_bytes=20_000, index_interval_bytes=500))
    for _ in range(700):
        append(log, *[rng.randbytes(rng.randint(0, 60)) for _ in range(rng.randint(1, 4))])
    batches = read_all(log)

    for offset in range(log.log_end_offset):
        taken = log.read(offset, max_bytes=1, limit_offset=log.log_end_offset, at_least_one=True)
        assert taken is not None
        owner: Any = taken.owner
        data: bytes = owner.read_at(taken.size_bytes, taken.position)
        (header,) = headers_of(data)
        assert header.base_offset <= offset <= header.last_offset
        assert batches[header.base_offset] == data


def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = new_log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    log.delete_records_before(2)

    for offset in (-1, 0, 1, 5):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, max_bytes=100, limit_offset=4, at_least_one=True)
    assert log.read(4, max_bytes=100, limit_offset=4, at_least_one=True) is None
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(5)


@pytest.mark.parametrize("codec", [0, 4])
def test_a_compacted_log_takes_only_records_with_keys(codec: int) -> None:
    log = new_log(config=TopicConfig(cleanup_policy=("compact", "delete")))
    keyless = make_batch([b"1", b"2"], keys=[b"k", None], codec=codec)
    with pytest.raises(KeylessRecordsError) as refused:
        log.append(keyless, leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.indexes == [1]
    assert log.log_end_offset == 0
    keyed = make_batch([b"1", None], keys=[b"k", b""], codec=codec)
    assert log.append(keyed, leader_epoch=0, now_ms=NOW_MS).last_offset == 1


@pytest.mark.parametrize("deltas", [(0, -(2**62)), (0, 2), (1, 0)])
def test_a_compacted_log_takes_only_records_at_the_offsets_of_their_batch(
    deltas: tuple[int, int],
) -> None:
    log = new_log(config=TopicConfig(cleanup_policy=("compact",)))
    with pytest.raises(InvalidRecordError, match="offsets"):
        log.append(
            make_batch([b"1", b"2"], keys=[b"k", b"l"], offset_deltas=deltas),
            leader_epoch=0,
            now_ms=NOW_MS,
        )


def test_keys_and_ages_are_checked_together() -> None:
    policy = TopicConfig(cleanup_policy=("compact",), message_timestamp_before_max_ms=10)
    log = new_log(config=policy)
    late = make_batch([b"1"], keys=[b"k"], timestamps_ms=[NOW_MS - 11])
    with pytest.raises(InvalidTimestampError):
        log.append(late, leader_epoch=0, now_ms=NOW_MS)
    log.append(make_batch([b"1"], keys=[b"k"]), leader_epoch=0, now_ms=NOW_MS)


def test_the_active_segment_of_a_compacted_log_is_rolled_in_time_to_be_compacted() -> None:
    log = new_log(config=TopicConfig(cleanup_policy=("compact",), max_compaction_lag_ms=1000))
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        batch = make_batch([b"1"], keys=[b"k"], timestamps_ms=[timestamp_ms])
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.segment_count == 2
    log.config = TopicConfig(max_compaction_lag_ms=1000)
    batch = make_batch([b"1"], keys=[b"k"], timestamps_ms=[NOW_MS + 3000])
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.segment_count == 2
