"""What seldom happens to a log: errors midway, leftovers of crashes, others being quicker."""

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from quorate.broker.log.appended import AppendResult
from quorate.broker.log.checkpoints import load_checkpoints
from quorate.broker.log.context import MUCH_ROOM, REFUSED_MS, ROOM_BYTES
from quorate.broker.log.files import FatalStorageError, OpenFiles, replace_file
from quorate.broker.log.index import FIRST, TIME_ENTRY, Index
from quorate.broker.log.log import Log
from quorate.broker.log.store import LogStore
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.records.control import EndMarker, TransactionEnd
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    find_time,
    flush,
    join,
    make_batch,
    new_disk,
    open_data,
    read_all,
)
from tests.unit.broker.log.moody import MoodyDisk

FOLDER = f"/data/{PARTITION}"
FIVE_PER_SEGMENT = TopicConfig(segment_bytes=400)


def create(store: LogStore, topic_id: bytes = TOPIC_ID, config: TopicConfig | None = None) -> Log:
    return store.create(PARTITION, topic_id, config or TopicConfig(), now_ms=NOW_MS)


def checkpoint(store: LogStore) -> None:
    for logs in store.take_dirty():
        started = store.start_checkpoint(logs)
        started.run()
        store.finish_flush(started)


def reopened(disk: SimDisk) -> Log:
    disk.restart()
    return open_data(disk).logs[PARTITION]


# --- a topic of the same name --------------------------------------------------------------------


def test_a_topic_made_again_during_a_long_flush_gets_nothing_of_the_old_one() -> None:
    disk = new_disk()
    store = open_data(disk)
    old = create(store)
    stamp = ProducerStamp(7, 0, 0)
    old.append(make_batch([b"old"] * 3, producer=stamp), leader_epoch=0, now_ms=NOW_MS)
    late = store.start_checkpoint([old])
    store.delete(PARTITION)
    new = create(store, topic_id=b"n" * 16)
    append(new, b"new", b"new", b"new")
    late.run()
    store.finish_flush(late)
    assert new.flushed_offset == 0, "nothing of the new log was flushed"
    assert f"{3:020d}.snapshot" in disk.list_directory(FOLDER), "written into another's directory"
    flush(new)

    log = reopened(disk)

    assert log.log_end_offset == 3
    assert log.producers.get(7) is None, "a producer of the old log"


# --- checkpoints that overtake each other --------------------------------------------------------


def test_a_checkpoint_that_is_late_does_not_bring_back_what_was_taken_back() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    checkpoint(store)
    late = store.prepare_checkpoint({})
    log.truncate_to(1, now_ms=NOW_MS)
    late.run()
    append(log, b"other", b"other", b"other", leader_epoch=1)

    log = reopened(disk)

    assert list(read_all(log)) == [0, 1]
    assert log.recovery_point == 1, "nothing is known of the other records"


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints-urgent"])
def test_if_one_file_of_checkpoints_is_damaged_the_other_is_not_believed(name: str) -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    for _ in range(3):
        append(log, b"v")
    checkpoint(store)
    store.checkpoint({PARTITION: 3})
    log.truncate_to(2, now_ms=NOW_MS)
    replace_file(disk, f"/data/{name}", b"damaged")
    for _ in range(2):
        disk.restart()
        store = open_data(disk)
        assert store.high_watermark(PARTITION) == 0
        assert store.logs[PARTITION].log_end_offset == 2


# --- errors --------------------------------------------------------------------------------------


def test_a_full_disk_refuses_until_there_is_room_though_nobody_writes() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    append(log, b"a")
    refusals = store.refusals
    assert not refusals.go_on(0)
    disk.capacity_bytes = disk.used_bytes()
    assert not refusals.go_on(0), "nobody has tried"
    for _ in range(2):
        with pytest.raises(StorageError, match="No space left on device"):
            append(log, b"b")
    assert [refusals.go_on(n * REFUSED_MS) for n in range(3)] == [True] * 3
    disk.capacity_bytes = disk.used_bytes() + ROOM_BYTES - 1
    assert refusals.go_on(3 * REFUSED_MS)
    disk.capacity_bytes += 1
    assert not refusals.go_on(3 * REFUSED_MS), "there is much room on a disk that small"
    assert append(log, b"b") == 1
    assert refusals.count == 2


def test_a_disk_that_was_full_and_has_little_room_now_is_spared_for_a_while() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    for _ in range(2 * MUCH_ROOM):
        append(log, b"a" * (ROOM_BYTES // 2))
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(StorageError):
        append(log, b"b")
    assert store.refusals.go_on(1000)
    disk.capacity_bytes += ROOM_BYTES
    assert store.refusals.go_on(1000 + REFUSED_MS - 1)
    assert not store.refusals.go_on(1000 + REFUSED_MS)


def test_a_disk_that_refused_something_though_it_has_room_is_spared_for_a_while() -> None:
    refusals = open_data(new_disk()).refusals
    refusals.note()
    assert refusals.go_on(1000)
    assert refusals.go_on(1000 + REFUSED_MS - 1)
    refusals.note()
    assert [refusals.go_on(1000 + n * REFUSED_MS) for n in (1, 2)] == [True, False]


def test_a_disk_that_cannot_tell_its_space_is_spared_for_a_while_when_it_refuses() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    disk.capacity_bytes = disk.used_bytes()
    disk.refused["space", "/data"] = errno.EIO
    with pytest.raises(StorageError):
        append(log, b"a")
    assert [store.refusals.go_on(ms) for ms in (0, REFUSED_MS - 1)] == [True, True]
    assert not store.refusals.go_on(REFUSED_MS)


def test_a_full_disk_takes_no_snapshot_but_the_records_are_safe() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    checkpoint(store)
    append(log, b"w")
    disk.refused["create", ".tmp"] = errno.ENOSPC

    checkpoint(store)

    assert (log.flushed_offset, log.recovery_point) == (2, 1)
    disk.refused.clear()
    checkpoint(store)
    assert log.recovery_point == 2


@pytest.mark.parametrize(
    "refused", [("create", ".tmp"), ("rename", ".snapshot"), ("sync_directory", FOLDER)]
)
def test_a_disk_that_fails_under_a_checkpoint_ends_all_logs(refused: tuple[str, str]) -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    other = store.create(TopicPartition("other", 0), TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    append(log, b"v")
    append(other, b"v")
    disk.refused[refused] = errno.EIO

    with pytest.raises(FatalStorageError):
        checkpoint(store)

    assert log.failure is not None
    assert other.failure is not None


def test_a_folder_that_cannot_be_synced_for_want_of_space_is_synced_later() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    disk.refused["sync_directory", FOLDER] = errno.ENOSPC

    with pytest.raises(StorageError):
        checkpoint(store)
    assert log.flushed_offset == 0

    disk.refused.clear()
    checkpoint(store)
    assert log.flushed_offset == 1


def delete_records(store: LogStore) -> None:
    store.logs[PARTITION].delete_records_before(6)


def delete_log(store: LogStore) -> None:
    store.delete(PARTITION)


def close(store: LogStore) -> None:
    store.close(clean=True, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("refused", "operation"),
    [
        (("rename", ".deleted"), delete_records),
        (("rename", "-delete"), delete_log),
        (("sync_directory", "/data"), delete_log),
        (("rename", ".clean"), close),
        (("rename", "checkpoints"), close),
    ],
)
def test_an_error_of_the_disk_is_told(
    refused: tuple[str, str], operation: Callable[[LogStore], None]
) -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store, config=FIVE_PER_SEGMENT)
    for _ in range(8):
        append(log, b"v")
    disk.refused[refused] = errno.EIO

    with pytest.raises(FatalStorageError):
        operation(store)


# A full disk may refuse a new name, and so a rename.


@pytest.mark.parametrize("checkpointed_at", range(23))
def test_a_name_that_could_not_be_taken_away_leaves_no_hole(checkpointed_at: int) -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store, config=FIVE_PER_SEGMENT)
    for number in range(22):
        append(log, b"v")
        if number + 1 == checkpointed_at:
            checkpoint(store)
            store.checkpoint({})
    flush(log)
    disk.refused["rename", f"{5:020d}.log.deleted"] = errno.ENOSPC
    for offset in (10, 16):
        with pytest.raises(StorageError):
            log.delete_records_before(offset)
        assert log.log_start_offset == offset
    assert log.failure is None
    assert append(log, b"v") == 22
    flush(log)

    log = reopened(disk)

    assert log.log_end_offset == 23
    assert list(read_all(log)) == list(range(log.log_start_offset, 23))


def test_names_that_could_not_be_taken_away_are_with_the_next_retention() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store, config=replace(FIVE_PER_SEGMENT, file_delete_delay_ms=0))
    for _ in range(22):
        append(log, b"v")
    disk.refused["rename", ".deleted"] = errno.ENOSPC
    with pytest.raises(StorageError):
        log.delete_records_before(16)
    disk.refused.clear()

    log.apply_retention(high_watermark=22, now_ms=NOW_MS)
    store.remove_paths(store.empty_trash(NOW_MS))

    logs = [name for name in disk.list_directory(FOLDER) if name.endswith(".log")]
    assert logs == [f"{15:020d}.log", f"{20:020d}.log"]


def test_what_a_crash_left_before_the_start_of_a_log_goes_with_the_next_retention() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store, config=FIVE_PER_SEGMENT)
    for _ in range(22):
        append(log, b"v")
    flush(log)
    disk.refused["rename", ".deleted"] = errno.ENOSPC
    with pytest.raises(StorageError):
        log.delete_records_before(16)
    checkpoint(store)
    store.checkpoint({})
    disk.refused.clear()
    disk.restart()
    store = open_data(disk)
    log = store.logs[PARTITION]
    log.config = FIVE_PER_SEGMENT

    assert log.log_start_offset == 16
    assert log.apply_retention(high_watermark=22, now_ms=NOW_MS) == 3
    assert log.apply_retention(high_watermark=22, now_ms=NOW_MS) == 0
    assert list(read_all(log)) == list(range(16, 22))


def test_a_log_begins_anew_only_when_the_names_of_deleted_segments_are_gone() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store, config=FIVE_PER_SEGMENT)
    for _ in range(22):
        append(log, b"v")
    disk.refused["rename", f"{5:020d}.log.deleted"] = errno.ENOSPC
    for change in (
        partial(log.delete_records_before, 16),
        partial(log.reset_to, 40, now_ms=NOW_MS),
    ):
        with pytest.raises(StorageError):
            change()
    disk.refused.clear()
    assert append(log, b"v") == 40
    flush(log)

    assert list(read_all(reopened(disk))) == [40]


def test_a_deleted_log_that_could_not_be_renamed_is_later() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    append(create(store, config=TopicConfig(file_delete_delay_ms=0)), b"v")
    disk.refused["rename", "-delete"] = errno.ENOSPC
    with pytest.raises(StorageError):
        store.delete(PARTITION)
    assert not store.empty_trash(NOW_MS)
    disk.refused.clear()

    store.remove_paths(store.empty_trash(NOW_MS))

    assert str(PARTITION) not in disk.list_directory("/data")
    assert not any(name.endswith("-delete") for name in disk.list_directory("/data"))


def deleted_in_place() -> tuple[MoodyDisk, LogStore]:
    """Return a disk that does not let logs be renamed, and a store that has deleted one there."""
    disk = MoodyDisk()
    store = open_data(disk)
    append(create(store), b"old")
    disk.refused["rename", "-delete"] = errno.ENOSPC
    with pytest.raises(StorageError):
        store.delete(PARTITION)
    return disk, store


def test_a_log_that_took_the_place_of_a_deleted_one_stays() -> None:
    disk, store = deleted_in_place()
    append(create(store, topic_id=b"n" * 16), b"new")
    disk.refused.clear()

    assert not store.empty_trash(NOW_MS)

    (batch,) = read_all(reopened(disk)).values()
    assert b"new" in batch


@pytest.mark.parametrize("name", ["partition.json", ".log", ".timeindex"])
def test_of_files_that_could_not_all_be_made_none_stays(name: str) -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    disk.refused["create", name] = errno.ENOSPC

    with pytest.raises(StorageError):
        append(log, b"v")

    assert str(PARTITION) not in disk.list_directory("/data")
    disk.refused.clear()
    assert append(log, b"v") == 0
    assert list(read_all(reopened(disk))) == [0]


def test_a_deleted_log_whose_place_another_one_tried_to_take_is_gone() -> None:
    disk, store = deleted_in_place()
    disk.refused["create", ".log"] = errno.ENOSPC
    with pytest.raises(StorageError):
        append(create(store, topic_id=b"n" * 16), b"new")
    disk.refused.clear()

    store.delete(PARTITION)

    assert not store.empty_trash(NOW_MS)
    assert str(PARTITION) not in disk.list_directory("/data")


def test_a_log_that_took_the_place_of_a_deleted_one_is_deleted_too() -> None:
    disk, store = deleted_in_place()
    append(create(store, topic_id=b"n" * 16), b"new")
    disk.refused.clear()

    store.delete(PARTITION)

    assert str(PARTITION) not in disk.list_directory("/data")


def test_files_that_do_not_get_their_name_do_not_pile_up_on_a_full_disk() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    for refused in ("rename", "leader-epoch-checkpoint"), ("rename", "checkpoints"):
        disk.refused[refused] = errno.ENOSPC
    for _ in range(10):
        with suppress(StorageError):
            append(log, b"v", leader_epoch=1)
        with pytest.raises(StorageError):
            store.checkpoint({})
    disk.refused.clear()
    disk.capacity_bytes = disk.used_bytes()
    for _ in range(10):
        with pytest.raises(StorageError):
            append(log, b"v", leader_epoch=1)
        with pytest.raises(StorageError):
            store.checkpoint({})

    names = [*disk.list_directory("/data"), *disk.list_directory(FOLDER)]
    assert not [name for name in names if name.endswith(".tmp")]


def test_an_old_snapshot_that_cannot_be_removed_is_removed_with_the_next() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    disk.refused["remove", ".snapshot"] = errno.ENOSPC
    for _ in range(4):
        append(log, b"v")
        checkpoint(store)
    assert log.recovery_point == 4
    with pytest.raises(StorageError):
        log.truncate_to(2, now_ms=NOW_MS)  # those behind its end must not outlive it
    assert log.log_end_offset == 4
    disk.refused.clear()
    log.truncate_to(3, now_ms=NOW_MS)
    append(log, b"w")
    checkpoint(store)

    snapshots = [name for name in disk.list_directory(FOLDER) if name.endswith(".snapshot")]
    assert snapshots == [f"{3:020d}.snapshot", f"{4:020d}.snapshot"]


def test_checkpoints_that_were_acted_on_stand() -> None:
    for seed in range(20):
        disk = MoodyDisk(seed)
        store = open_data(disk)
        config = TopicConfig(segment_bytes=3000, index_interval_bytes=300)
        log = create(store, config=config)
        for number in range(60):
            log.append(
                make_batch([b"v"], timestamps_ms=[NOW_MS + number]), leader_epoch=0, now_ms=NOW_MS
            )
        checkpoint(store)
        store.checkpoint({})
        disk.refused["sync_directory", "/data"] = errno.ENOSPC
        with pytest.raises(StorageError):
            log.truncate_to(2, now_ms=NOW_MS)  # and the process ends there
        disk.refused.clear()
        disk.restart()
        open_data(disk)
        disk.lose_power()

        log = open_data(disk).logs[PARTITION]

        for number in range(log.log_end_offset):
            found = find_time(log, NOW_MS + number)
            assert found is not None
            assert found.offset == number


def test_promises_that_cannot_be_lowered_are_not_broken() -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    for _ in range(3):
        append(log, b"v")
    checkpoint(store)
    store.checkpoint({})
    disk.refused["rename", "checkpoints-urgent"] = errno.ENOSPC

    for _ in range(2):
        with pytest.raises(StorageError):
            log.truncate_to(1, now_ms=NOW_MS)
        assert log.log_end_offset == 3

    disk.refused.clear()
    log.truncate_to(1, now_ms=NOW_MS)
    assert load_checkpoints(disk, "/data").logs[PARTITION].recovery_point <= 1
    assert reopened(disk).log_end_offset == 1


@pytest.mark.parametrize("deleted_before", [1, 3, 5])
def test_what_stands_in_checkpoints_of_a_deleted_topic_is_forgotten_before_it_could_be_believed(
    deleted_before: int,
) -> None:
    disk = MoodyDisk()
    store = open_data(disk)
    log = create(store)
    for _ in range(5):
        append(log, b"old")
    log.delete_records_before(deleted_before)
    checkpoint(store)
    store.checkpoint({PARTITION: 5})
    disk.refused["rename", "checkpoints-urgent"] = errno.ENOSPC
    store.delete(PARTITION)
    log = create(store, topic_id=b"n" * 16)
    acknowledged = 0
    for refused in (True, True, False, False):
        if not refused:
            disk.refused.clear()
        with suppress(StorageError):
            append(log, b"new")
            acknowledged += 1
    disk.restart()  # the process is killed

    store = open_data(disk)

    assert len(read_all(store.logs[PARTITION])) == acknowledged >= 2
    assert store.high_watermark(PARTITION) == 0


def test_a_sync_that_failed_is_not_believed_when_it_is_tried_again() -> None:
    disk = new_disk()
    log = create(open_data(disk))
    append(log, b"v")
    disk.syncs_fail = True
    with pytest.raises(FatalStorageError):
        flush(log)
    disk.syncs_fail = False  # the system tells of an error once

    with pytest.raises(FatalStorageError, match="Input/output error"):
        flush(log)

    assert log.flushed_offset == 0


@pytest.mark.parametrize("told_first", [False, True])
def test_a_sync_beside_one_that_failed_is_not_believed(*, told_first: bool) -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    failing, other = store.start_checkpoint([log]), store.start_flush([log])
    disk.syncs_fail = True
    failing.run()
    disk.syncs_fail = False
    other.run()

    for flushed in (failing, other) if told_first else (other, failing):
        with pytest.raises(FatalStorageError):
            store.finish_flush(flushed)

    assert log.flushed_offset == 0
    with pytest.raises(FatalStorageError):
        store.start_flush([log])


# --- what a crash leaves -------------------------------------------------------------------------


def test_leftovers_of_a_crash_are_removed() -> None:
    disk = new_disk()
    store = open_data(disk)
    append(create(store), b"v")
    store.close(clean=True, now_ms=NOW_MS)
    names = set(disk.list_directory(FOLDER))
    for name in ("7.tmp", f"{5:020d}.index", f"{0:020d}.log.deleted"):
        disk.open(f"{FOLDER}/{name}", create=True)
    disk.open(f"{store.directory}/8.tmp", create=True)
    disk.restart()

    store = open_data(disk)
    store.remove_paths(store.empty_trash(NOW_MS))

    assert set(disk.list_directory(FOLDER)) == names
    assert "8.tmp" not in disk.list_directory(store.directory)


def test_a_log_that_lost_all_its_files_begins_where_it_is_known_to() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v", b"w")
    checkpoint(store)
    log.delete_records_before(2)
    store.checkpoint({})
    disk.remove(f"{FOLDER}/{0:020d}.log")

    log = reopened(disk)

    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert append(log, b"x") == 2


def test_a_log_that_lost_what_lies_behind_its_start_begins_there_again() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    append(log, b"w")
    checkpoint(store)
    log.delete_records_before(2)
    store.checkpoint({})
    disk.open(f"{FOLDER}/{0:020d}.log", create=False).truncate(0)

    log = reopened(disk)

    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert disk.exists(f"{FOLDER}/{2:020d}.log")
    assert not disk.exists(f"{FOLDER}/{0:020d}.log")


@pytest.mark.parametrize("damage", [b"damaged", None])
def test_epochs_that_are_lost_are_read_from_the_log(damage: bytes | None) -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store, config=FIVE_PER_SEGMENT)
    for leader_epoch in (3, 3, 5, 5, 9):
        append(log, bytes(100), leader_epoch=leader_epoch)
    checkpoint(store)
    store.checkpoint({})
    entries = log.leader_epochs.entries
    if damage is None:
        disk.remove(f"{FOLDER}/leader-epochs")
    else:
        replace_file(disk, f"{FOLDER}/leader-epochs", damage)

    assert reopened(disk).leader_epochs.entries == entries == ((3, 0), (5, 2), (9, 4))


def test_a_log_on_disk_starts_over_too() -> None:
    disk = new_disk()
    log = create(open_data(disk))
    append(log, b"v")
    flush(log)
    log.reset_to(9, now_ms=NOW_MS)
    disk.lose_power()
    log = open_data(disk).logs[PARTITION]
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)


def test_snapshots_of_what_was_cut_off_are_of_no_use() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    for sequence in range(4):
        stamp = ProducerStamp(7, 0, sequence)
        log.append(make_batch([b"v"], producer=stamp), leader_epoch=0, now_ms=NOW_MS)
        if sequence in (1, 3):
            checkpoint(store)
    assert f"{4:020d}.snapshot" in disk.list_directory(FOLDER)
    snapshot = disk.open(f"{FOLDER}/{4:020d}.snapshot", create=False)
    data = snapshot.read_at(10_000, 0)
    log.truncate_to(3, now_ms=NOW_MS)
    for number in (2, 4):  # one says what it is not, the other lies beyond the end
        disk.open(f"{FOLDER}/{number:020d}.snapshot", create=True).write_at(data, 0)

    log = reopened(disk)

    known = log.producers.get(7)
    assert known is not None
    assert known.next_sequence == 3


# --- parts ---------------------------------------------------------------------------------------


def test_an_index_is_cut_in_its_file_or_in_memory() -> None:
    files = OpenFiles(new_disk(), 4)
    files.put("/data/x", files.fs.open("/data/x", create=True))
    index = Index(files, "/data/x", TIME_ENTRY, count=0)
    for number in range(1, 6):
        index.append(number * 10, number)
        if number == 3:
            index.write_out()
    index.truncate_before(50, FIRST)
    assert (len(index), index.last, index.pending_bytes) == (4, (40, 4), 12)
    index.truncate_before(20, FIRST)
    assert (len(index), index.last, index.pending_bytes) == (1, (10, 1), 0)
    assert index.file.size_bytes() == 12
    index.truncate_before(0, FIRST)
    assert (len(index), index.last) == (0, None)


def test_a_file_that_was_parked_is_opened_once_however_often_it_is_used() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = create(store)
    append(log, b"v")
    for _ in range(2):
        checkpoint(store)
    parked = log._segments.active.file  # pyright: ignore[reportPrivateUsage]
    opened = log._segments.active.reopen()  # pyright: ignore[reportPrivateUsage]
    assert parked.size_bytes() == opened.size_bytes() == log.size_bytes
    assert parked.read_at(10, 0) == opened.read_at(10, 0)


def test_records_deleted_before_the_time_asked_for_are_not_found() -> None:
    log = create(open_data(new_disk()))
    batch = make_batch([b"a", b"b"], timestamps_ms=[NOW_MS + 9, NOW_MS])
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    append(log, b"c", timestamp_ms=NOW_MS + 1)
    log.delete_records_before(1)
    assert find_time(log, NOW_MS + 2) is None
    assert find_time(log, NOW_MS + 1) == (NOW_MS + 1, 2, 0)
    assert find_time(log, None) is None


def test_old_segments_that_cannot_be_looked_at_now_are_looked_at_the_next_time() -> None:
    disk = MoodyDisk()
    log = open_data(disk).create(PARTITION, TOPIC_ID, FIVE_PER_SEGMENT, now_ms=NOW_MS)
    for _ in range(17):
        append(log, b"v")
    log._context.files.forget_directory(FOLDER)  # pyright: ignore[reportPrivateUsage]
    log.config = TopicConfig(segment_bytes=1024, retention_ms=1)

    disk.refused["open", ".timeindex"] = errno.EMFILE
    with pytest.raises(StorageError, match="cannot look at old segments"):
        log.apply_retention(high_watermark=17, now_ms=NOW_MS + 2)
    disk.refused.clear()
    assert log.apply_retention(high_watermark=17, now_ms=NOW_MS + 2) > 0


# --- changes that the disk interrupts -------------------------------------------------------------


def write(log: Log, sequence: int, *, leader_epoch: int = 0) -> AppendResult:
    """Append a batch of an idempotent producer, of which five fill a segment."""
    batch = make_batch([b"v"], producer=ProducerStamp(7, 0, sequence))
    return log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


def two_segments(disk: SimDisk) -> Log:
    """Return a log of eight batches, the last three of which are of another leader."""
    log = create(open_data(disk), config=FIVE_PER_SEGMENT)
    for sequence in range(8):
        write(log, sequence, leader_epoch=sequence // 5)
    assert log.segment_count == 2
    return log


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize(
    "refused", [("rename", ".deleted"), ("sync_directory", FOLDER), ("create", ".tmp")]
)
def test_a_cut_that_is_interrupted_is_brought_to_its_end_before_anything_is_written(
    refused: tuple[str, str], code: int
) -> None:
    disk = MoodyDisk()
    log = two_segments(disk)
    before = read_all(log)
    disk.refused[refused] = code
    for _ in range(2):
        with pytest.raises(StorageError):
            log.truncate_to(4, now_ms=NOW_MS)
    with pytest.raises(StorageError):
        write(log, 4)
    assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (4, 0)
    stable_offset = 4 if ".tmp" in refused else 0  # 0 while nobody knows what is decided
    assert log.producers.last_stable_offset(4) == stable_offset
    disk.refused.clear()

    again = write(log, 4, leader_epoch=2)

    assert (again.base_offset, again.duplicate) == (4, False), "what was cut off is not known"
    assert log.failure is None
    after = read_all(log)
    assert list(after) == [0, 1, 2, 3, 4]
    assert all(after[offset] == before[offset] for offset in range(4))
    assert log.leader_epochs.entries == ((0, 0), (2, 4))
    assert read_all(reopened(disk)) == after


def test_no_marker_is_written_before_an_interrupted_cut_is_at_its_end() -> None:
    disk = MoodyDisk()
    log = two_segments(disk)
    disk.refused["rename", ".deleted"] = errno.ENOSPC
    with pytest.raises(StorageError):
        log.truncate_to(4, now_ms=NOW_MS)
    end = TransactionEnd(7, 0, EndMarker(committed=True, coordinator_epoch=0), 1)
    with pytest.raises(StorageError):
        log.append_marker(end, 2, NOW_MS)
    disk.refused.clear()

    assert log.append_marker(end, 2, NOW_MS).base_offset == 4

    assert log.leader_epochs.entries == ((0, 0), (2, 4))
    assert list(read_all(log)) == [0, 1, 2, 3, 4]
    assert read_all(reopened(disk)) == read_all(log)


def test_a_cut_that_cannot_begin_leaves_the_log_as_it_was() -> None:
    disk = MoodyDisk()
    log = two_segments(disk)
    log._context.files.forget_directory(FOLDER)  # pyright: ignore[reportPrivateUsage]
    before = read_all(log)
    disk.refused["open", ".timeindex"] = errno.EMFILE

    with pytest.raises(StorageError):
        log.truncate_to(4, now_ms=NOW_MS)

    assert read_all(log) == before
    disk.refused.clear()
    assert write(log, 8, leader_epoch=1).base_offset == 8


def test_what_is_not_cut_off_after_all_is_synced_like_anything_else() -> None:
    for seed in range(20):
        disk = MoodyDisk(seed)
        store = open_data(disk)
        log = create(store, config=FIVE_PER_SEGMENT)
        write(log, 0)
        write(log, 1)
        checkpoint(store)
        store.checkpoint({})
        for sequence in range(2, 13):
            write(log, sequence)
        disk.refused["create", ".tmp"] = errno.ENOSPC
        with pytest.raises(StorageError):
            log.truncate_to(1, now_ms=NOW_MS)
        disk.refused.clear()
        flush(log)
        assert log.flushed_offset == 13

        disk.lose_power()

        assert open_data(disk).logs[PARTITION].log_end_offset == 13


@pytest.mark.parametrize(
    "refused",
    [
        ("rename", "checkpoints-urgent"),
        ("rename", ".deleted"),
        ("sync_directory", FOLDER),
        ("create", ".log"),
        ("create", f"{FOLDER}/"),
    ],
)
def test_a_log_that_begins_anew_is_empty_even_if_its_files_are_not_yet(
    refused: tuple[str, str],
) -> None:
    disk = MoodyDisk()
    log = two_segments(disk)
    flush(log)
    disk.refused[refused] = errno.ENOSPC
    for _ in range(2):
        with pytest.raises(StorageError):
            log.reset_to(1000, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    with pytest.raises(StorageError):
        write(log, 0)
    disk.refused.clear()

    assert write(log, 0, leader_epoch=2).base_offset == 1000

    assert list(read_all(log)) == [1000]
    assert log.leader_epochs.entries == ((2, 1000),)
    assert read_all(reopened(disk)) == read_all(log)


@pytest.mark.parametrize("sizes", [(4000, 1), (1, 4000)])
def test_a_follower_whose_disk_was_full_goes_on_when_it_has_space_whatever_epochs_were_to_come(
    sizes: tuple[int, int],
) -> None:
    leader = create(open_data(new_disk()))
    for leader_epoch, size_bytes in enumerate((1, *sizes), start=4):
        append(leader, bytes(size_bytes), leader_epoch=leader_epoch)
    sent = [memoryview(batch) for batch in read_all(leader).values()]
    disk = new_disk()
    follower = create(open_data(disk))
    follower.append_replicated(sent[0], now_ms=NOW_MS)
    disk.capacity_bytes = disk.used_bytes() + 2000  # for the epochs, but not for all records

    with pytest.raises(StorageError):
        follower.append_replicated(join(sent[1:]), now_ms=NOW_MS)

    begun, end_offset = follower.leader_epochs.entries, follower.log_end_offset
    disk.capacity_bytes = None
    rest = join(sent[end_offset:])
    follower.append_replicated(rest, now_ms=NOW_MS)
    assert read_all(follower) == read_all(leader)
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert all(entry.start_offset <= end_offset for entry in begun)


def test_old_segments_go_from_a_full_disk_that_has_no_room_for_a_new_one() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(retention_ms=1000), now_ms=NOW_MS)
    for value in (b"a", b"b"):
        append(log, value)
        log.roll(NOW_MS)
    append(log, b"c")
    disk.capacity_bytes = disk.used_bytes()
    later_ms = NOW_MS + 5000
    with pytest.raises(StorageError):
        log.apply_retention(high_watermark=3, now_ms=later_ms)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    disk.capacity_bytes = None
    log.apply_retention(high_watermark=3, now_ms=later_ms)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
