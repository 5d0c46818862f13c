"""Damage beside the log: indexes, snapshots, a lock that cannot be taken, writes cut short."""

import errno
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH, DirectoryError
from quorate.broker.log.documents import CorruptDocumentError, read_document
from quorate.broker.log.files import SYNC_ONE_BY_ONE_MAX, OsFileSystem, replace_file
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from quorate.broker.log.log import Log
from quorate.broker.log.segment import SEGMENT_SUFFIXES
from quorate.broker.log.store import open_store
from quorate.broker.log.times import TimestampOffset
from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.records.batch import HEADER, HEADER_BYTES, parse_header
from quorate.records.checksum import crc32c
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk, SimLock
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    bytes_of,
    find_time,
    make_batch,
    new_disk,
    new_log,
    open_data,
    read_all,
)

FOLDER = f"/data/{PARTITION}"


def closed_disk() -> tuple[SimDisk, dict[int, bytes]]:
    """Return a disk with a log that has index entries and was closed cleanly."""
    disk = new_disk()
    store = open_data(disk)
    config = TopicConfig(index_interval_bytes=100)
    log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
    for _ in range(10):
        append(log, bytes(60))
    store.close(clean=True, now_ms=NOW_MS)
    return disk, read_all(log)


def reopen(disk: SimDisk) -> Log:
    disk.restart()
    return open_data(disk).logs[PARTITION]


def disk_of_segments() -> tuple[SimDisk, dict[int, bytes]]:
    """Return a disk with a log of three segments that was closed cleanly: 5, 5 and 2 batches."""
    disk = new_disk()
    store = open_data(disk)
    config = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
    log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
    for number in range(12):
        producer = ProducerStamp(7, 0, number)
        batch = make_batch([bytes([number]) * 100], producer=producer)
        log.append(batch, leader_epoch=number // 4, now_ms=NOW_MS)
    store.close(clean=True, now_ms=NOW_MS)
    return disk, read_all(log)


def overwrite(disk: SimDisk, base: int, suffix: str, position: int, data: bytes) -> None:
    disk.open(f"{FOLDER}/{base:020d}{suffix}", create=False).write_at(data, position)


@pytest.mark.parametrize("entry", [(2, 0), (2, 900), (2, -1), (2, 10), (0, 173 * 3)])
def test_an_index_of_a_closed_segment_that_lies_misleads_nobody(entry: tuple[int, int]) -> None:
    disk, batches = disk_of_segments()
    for base in (0, 5):
        for number in range(3):
            overwrite(disk, base, ".index", number * OFFSET_ENTRY.size, OFFSET_ENTRY.pack(*entry))

    log = reopen(disk)

    assert read_all(log) == batches
    for base, batch in batches.items():
        taken = log.read(base, max_bytes=400, limit_offset=12, at_least_one=True)
        assert taken is not None
        assert bytes_of(taken).startswith(batch)
        assert len(taken) in (len(batch), 2 * len(batch))


def test_what_stands_before_a_damaged_batch_can_be_read_and_it_itself_is_refused() -> None:
    disk, batches = disk_of_segments()
    size_bytes = len(batches[0])
    overwrite(disk, 5, ".log", 2 * size_bytes, bytes(HEADER_BYTES))
    log = reopen(disk)

    def read(offset: int) -> bytes:
        max_bytes = 3 * size_bytes - 1
        taken = log.read(offset, max_bytes=max_bytes, limit_offset=12, at_least_one=True)
        assert taken is not None
        return bytes_of(taken)

    assert read(5) == batches[5] + batches[6]
    with pytest.raises(InvalidRecordError):
        read(7)
    assert log.log_end_offset == 12


@pytest.mark.parametrize("suffix", [".log", ""])
def test_who_reads_what_is_gone_is_told_and_does_not_wait_for_ever(suffix: str) -> None:
    disk, batches = disk_of_segments()
    if suffix:
        disk.open(f"{FOLDER}/{5:020d}.log", create=False).truncate(len(batches[5]))
    else:
        for each in SEGMENT_SUFFIXES:
            disk.remove(f"{FOLDER}/{5:020d}{each}")
    log = reopen(disk)

    with pytest.raises(CorruptRecordError, match="nothing holds offset 7"):
        log.read(7, max_bytes=1000, limit_offset=12, at_least_one=True)
    assert log.read(7, max_bytes=1000, limit_offset=12, at_least_one=False) is None


def test_a_log_goes_on_behind_a_damaged_batch_that_was_synced() -> None:
    disk, batches = disk_of_segments()
    overwrite(disk, 10, ".log", 0, bytes(HEADER_BYTES))
    index = disk.open(f"{FOLDER}/{10:020d}.index", create=True)
    index.write_at(OFFSET_ENTRY.pack(1, len(batches[10])), 0)
    log = reopen(disk)

    assert append(log, b"more", leader_epoch=2) == 12
    with pytest.raises(InvalidRecordError):
        log.read(10, max_bytes=1, limit_offset=13, at_least_one=True)


def test_a_log_that_does_not_end_where_it_was_closed_is_recovered() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    append(log, b"a", b"b", b"c")
    store.close(clean=True, now_ms=NOW_MS)
    overwrite(disk, 0, ".log", 23, bytes(4))  # how many offsets the batch has

    assert reopen(disk).log_end_offset == 0


@pytest.mark.parametrize(("base", "told"), [(5, [0, 1, 2, 3, 4, 5, 10, 11]), (10, range(10))])
def test_producers_and_epochs_are_read_from_what_is_whole_of_a_log(
    base: int, told: Sequence[int]
) -> None:
    disk, batches = disk_of_segments()
    position = len(batches[0]) if base == 5 else 0
    overwrite(disk, base, ".log", position, bytes(HEADER_BYTES))
    if base == 10:
        index = disk.open(f"{FOLDER}/{10:020d}.index", create=True)
        index.write_at(OFFSET_ENTRY.pack(1, len(batches[10])), 0)
    for name in disk.list_directory(FOLDER):
        if name.endswith((".snapshot", "leader-epochs")):
            disk.remove(f"{FOLDER}/{name}")
    disk.restart()
    store = open_data(disk)
    log = store.logs[PARTITION]
    producer = log.producers.get(7)

    assert log.log_end_offset == 12
    assert producer is not None
    assert [batch.base_offset for batch in producer.batches] == list(told)[-5:]
    assert log.leader_epochs.entries == ((0, 0), (1, 4), (2, 10 if base == 5 else 8))
    assert store.previous_broker_epoch == UNKNOWN_BROKER_EPOCH


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_epochs_that_are_lost_before_the_first_checkpoint_take_no_record_along(
    damage: bytes | None,
) -> None:
    disk = new_disk()
    log = new_log(disk)
    for leader_epoch in (3, 3, 5):
        append(log, b"v", leader_epoch=leader_epoch)
    batches = read_all(log)
    if damage is None:
        disk.remove(f"{FOLDER}/leader-epochs")
    else:
        replace_file(disk, f"{FOLDER}/leader-epochs", damage)

    log = reopen(disk)

    assert read_all(log) == batches
    assert log.leader_epochs.entries == ((3, 0), (5, 2))


@pytest.mark.parametrize("entry", [(3, 400), (5, 128), (-1, 0), (2**31 - 1, 2**31 - 1)])
def test_an_index_that_lies_is_not_believed(entry: tuple[int, int]) -> None:
    disk, batches = closed_disk()
    file = disk.open(f"{FOLDER}/{0:020d}.index", create=False)
    file.truncate(0)
    file.write_at(OFFSET_ENTRY.pack(*entry), 0)

    assert read_all(reopen(disk)) == batches


def test_an_index_that_points_at_another_batch_is_not_believed() -> None:
    disk, batches = closed_disk()
    headers = [parse_header(batch, 0) for batch in batches.values()]
    file = disk.open(f"{FOLDER}/{0:020d}.index", create=False)
    file.truncate(0)
    file.write_at(OFFSET_ENTRY.pack(7, headers[0].size_bytes), 0)

    assert read_all(reopen(disk)) == batches


@pytest.mark.parametrize("torn", [(NOW_MS + 4, 0), (NOW_MS + 9, 16)])
def test_an_entry_of_a_time_index_that_was_torn_is_not_believed(torn: tuple[int, int]) -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    for number in range(10):
        append(log, b"1", b"2", timestamp_ms=NOW_MS + number // 2)
    written = store.start_checkpoint(store.take_dirty()[0])
    written.run()
    store.finish_flush(written)
    store.checkpoint({})
    file = disk.open(f"{FOLDER}/{0:020d}.timeindex", create=True)
    file.truncate(0)
    file.write_at(TIME_ENTRY.pack(*torn), 0)

    log = reopen(disk)
    assert log.flushed_offset == 20
    log.roll(NOW_MS)
    assert find_time(log, None) == TimestampOffset(NOW_MS + 4, 16, 0)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(("closed", "base"), [(closed_disk, 0), (disk_of_segments, 5)])
def test_an_index_that_is_gone_is_made_again(
    closed: Callable[[], tuple[SimDisk, dict[int, bytes]]], base: int, suffix: str
) -> None:
    disk, batches = closed()
    disk.remove(f"{FOLDER}/{base:020d}{suffix}")

    log = reopen(disk)

    assert read_all(log) == batches
    assert find_time(log, NOW_MS) == (NOW_MS, 0, 0)


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_producers_are_read_from_the_log_if_their_snapshot_is_of_no_use(
    damage: bytes | None,
) -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    for sequence in range(3):
        stamp = ProducerStamp(7, 0, sequence)
        log.append(make_batch([b"v"], producer=stamp), leader_epoch=0, now_ms=NOW_MS)
    store.close(clean=True, now_ms=NOW_MS)
    path = f"{FOLDER}/{3:020d}.snapshot"
    if damage is None:
        disk.remove(path)
    else:
        replace_file(disk, path, damage)

    producer = reopen(disk).producers.get(7)

    assert producer is not None
    assert [batch.base_offset for batch in producer.batches] == [0, 1, 2]


def test_snapshots_that_are_gone_already_need_not_be_removed() -> None:
    disk = new_disk()
    log = new_log(disk, TopicConfig(segment_bytes=1024))
    for _ in range(4):
        append(log, bytes(900))
        flush = log.start_checkpoint()
        flush.run()
        log.finish_flush(flush)
        for name in disk.list_directory(FOLDER):
            if name.endswith(".snapshot"):
                disk.remove(f"{FOLDER}/{name}")
    assert log.recovery_point == 4


def test_a_batch_of_another_epoch_than_is_noted_is_damaged() -> None:
    disk = new_disk()
    log = new_log(disk)
    for leader_epoch in (3, 5, 5):
        append(log, b"v", leader_epoch=leader_epoch)
    size_bytes = len(read_all(log)[0])
    overwrite(disk, 0, ".log", 2 * size_bytes + 12, (6).to_bytes(4, "big"))

    assert list(read_all(reopen(disk))) == [0, 1]


def test_negative_attributes_are_not_taken_for_plain_ones() -> None:
    log = new_log()
    batch = make_batch([b"v"])
    header = parse_header(batch, 0)._replace(attributes=-(2**15) | 0x20)
    HEADER.pack_into(batch, 0, *header)
    HEADER.pack_into(batch, 0, *header._replace(crc=crc32c(batch[21:])))

    with pytest.raises(InvalidRecordError, match="control"):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)


class ReadOnlyDisk(SimDisk):
    def lock(self, path: str) -> SimLock | None:
        raise PermissionError(errno.EACCES, "Permission denied", path)


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    disk = ReadOnlyDisk(Random(0))
    disk.make_directory("/data")

    with pytest.raises(DirectoryError, match="/data cannot be written: Permission denied"):
        open_store(disk, "/data", cluster_id="c", node_id=1, now_ms=NOW_MS)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"kind": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_refused(content: bytes) -> None:
    disk = SimDisk(Random(0))
    replace_file(disk, "/x", content)
    with pytest.raises(CorruptDocumentError):
        read_document(disk, "/x", "x", 1)


def test_a_write_that_the_system_cuts_short_goes_on_and_says_why_it_ends(tmp_path: Path) -> None:
    file = OsFileSystem().open(f"{tmp_path}/file", create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.write_at(bytes(1500), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.size_bytes() == 1000


def test_an_error_of_syncing_everything_is_told() -> None:
    class Gone:
        fd = -1

    with pytest.raises(OSError, match="Bad file descriptor"):
        OsFileSystem().sync_files([Gone()] * (SYNC_ONE_BY_ONE_MAX + 1), [], hurry=True)  # type: ignore[list-item]
