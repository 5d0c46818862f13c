"""The data directory: whose it is, what a crash leaves of creating and deleting, checkpoints."""

from pathlib import Path

import pytest

from quorate.broker.log.directory import DirectoryError, cluster_of_directory
from quorate.broker.log.documents import encode_document
from quorate.broker.log.files import FatalStorageError, OsFileSystem, read_file, replace_file
from quorate.broker.log.naming import parse_name
from quorate.broker.log.store import LogStore, open_store
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    find_time,
    flush,
    new_disk,
    open_data,
    read_all,
)

OTHER = TopicPartition("dbLogs", 3)


def create(store: LogStore, partition: TopicPartition = PARTITION) -> None:
    store.create(partition, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)


def sync(store: LogStore, high_watermarks: dict[TopicPartition, int]) -> None:
    for logs in store.take_dirty():
        started = store.start_checkpoint(logs)
        started.run()
        store.finish_flush(started)
    store.checkpoint(high_watermarks)


def test_a_new_directory_becomes_this_nodes_and_stays_it() -> None:
    disk = new_disk()
    first = open_data(disk)
    first.close(clean=True, now_ms=NOW_MS)

    second = open_data(disk)

    assert second.meta == first.meta
    assert (second.meta.cluster_id, second.meta.node_id) == ("cluster", 1)
    assert not first.was_clean
    assert second.was_clean


def test_a_directory_of_another_cluster_or_node_is_refused() -> None:
    disk = new_disk()
    open_data(disk).close(clean=True, now_ms=NOW_MS)

    with pytest.raises(DirectoryError, match="belongs to cluster cluster, not to other"):
        open_store(disk, "/data", cluster_id="other", node_id=1, now_ms=NOW_MS)
    with pytest.raises(DirectoryError, match="belongs to node 1, not to node 2"):
        open_store(disk, "/data", cluster_id="cluster", node_id=2, now_ms=NOW_MS)
    assert open_data(disk).was_clean


def test_whose_directory_it_is_can_be_asked_before_the_cluster_is_known() -> None:
    disk = new_disk()
    assert not cluster_of_directory(disk, "/data", node_id=2), "it is nobody's"
    open_data(disk).close(clean=True, now_ms=NOW_MS)

    assert cluster_of_directory(disk, "/data", node_id=1) == "cluster"
    with pytest.raises(DirectoryError, match="belongs to node 1, not to node 2"):
        cluster_of_directory(disk, "/data", node_id=2)


def test_a_directory_in_use_is_refused() -> None:
    disk = new_disk()
    open_data(disk)

    with pytest.raises(DirectoryError, match="in use by another process"):
        open_data(disk)


def test_a_directory_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DirectoryError, match="/nowhere: no such directory"):
        open_store(new_disk(), "/nowhere", cluster_id="c", node_id=1, now_ms=NOW_MS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"not json",
        encode_document("something", 1, {}),
        encode_document("quorate-directory", 9, {}),
    ],
)
def test_a_damaged_or_newer_directory_is_refused(content: bytes) -> None:
    disk = new_disk()
    open_data(disk).close(clean=False, now_ms=NOW_MS)
    replace_file(disk, "/data/meta.json", content)

    with pytest.raises(DirectoryError, match=r"meta\.json"):
        open_data(disk)


def test_a_full_disk_is_a_clear_error_on_opening() -> None:
    disk = new_disk()
    disk.capacity_bytes = 0

    with pytest.raises(DirectoryError, match="No space left"):
        open_data(disk)
    assert disk.locks == set()


def test_logs_are_found_again_with_their_topic_ids() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    create(store, OTHER)
    append(store.logs[PARTITION], b"v")
    append(store.logs[OTHER], b"v")
    store.close(clean=True, now_ms=NOW_MS)

    reopened = open_data(disk)

    assert set(reopened.logs) == {PARTITION, OTHER}
    assert reopened.topic_ids[OTHER] == TOPIC_ID
    assert reopened.logs[OTHER].log_end_offset == 1
    assert reopened.get(TopicPartition("none", 0)) is None


def test_creating_twice_gives_the_same_log_with_the_new_settings() -> None:
    store = open_data(new_disk())
    create(store)
    append(store.logs[PARTITION], b"v")

    again = store.create(PARTITION, TOPIC_ID, TopicConfig(retention_ms=5), now_ms=NOW_MS)

    assert again.log_end_offset == 1
    assert again.config.retention_ms == 5


def test_a_log_of_a_deleted_topic_of_the_same_name_is_not_taken_over() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    append(store.logs[PARTITION], b"old")

    fresh = store.create(PARTITION, bytes(16), TopicConfig(), now_ms=NOW_MS)

    assert fresh.log_end_offset == 0
    assert f"{PARTITION}.{TOPIC_ID.hex()}-delete" in disk.list_directory("/data")


def deleted_after_a_checkpoint(disk: SimDisk) -> LogStore:
    """Return a store whose only log is gone; checkpoints were written that say it begins at 3."""
    store = open_data(disk)
    create(store)
    for _ in range(5):
        append(store.logs[PARTITION], b"old")
    store.logs[PARTITION].delete_records_before(3)
    sync(store, {PARTITION: 5})
    store.delete(PARTITION)
    return store


def test_checkpoints_of_a_deleted_topic_say_nothing_of_another_one_of_its_name() -> None:
    disk = new_disk()
    store = deleted_after_a_checkpoint(disk)
    log = store.create(PARTITION, bytes(16), TopicConfig(), now_ms=NOW_MS)
    append(log, b"new")
    append(log, b"new")
    disk.restart()  # the process is killed

    reopened = open_data(disk)

    assert len(read_all(reopened.logs[PARTITION])) == 2
    assert reopened.high_watermark(PARTITION) == 0


def test_a_power_cut_soon_after_a_topic_was_made_again_keeps_nobody_from_starting() -> None:
    for seed in range(50):
        disk = new_disk(seed)
        store = deleted_after_a_checkpoint(disk)
        log = store.create(PARTITION, bytes(16), TopicConfig(), now_ms=NOW_MS)
        append(log, b"new")
        disk.lose_power()

        assert set(open_data(disk).logs) <= {PARTITION}


def test_checkpoints_on_their_way_to_the_disk_do_not_bring_a_deleted_topics_back() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    append(store.logs[PARTITION], b"old")
    store.logs[PARTITION].delete_records_before(1)
    sync(store, {})
    write = store.prepare_checkpoint({})
    store.delete(PARTITION)
    append(store.create(PARTITION, bytes(16), TopicConfig(), now_ms=NOW_MS), b"new")
    write.run()
    disk.restart()

    assert len(read_all(open_data(disk).logs[PARTITION])) == 1


def test_nobody_else_took_away_the_files_of_a_log_that_was_deleted() -> None:
    store = open_data(new_disk())
    create(store)
    log = store.logs[PARTITION]
    append(log, b"v")
    ((dirty,),) = store.take_dirty()
    store.delete(PARTITION)  # while others were synced
    assert dirty.changed_path() is None


def test_a_deleted_log_is_gone_at_once_and_its_files_later() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    log = store.logs[PARTITION]
    append(log, b"v")
    taken = log.read(0, max_bytes=100, limit_offset=1, at_least_one=True)

    store.delete(PARTITION)

    assert store.get(PARTITION) is None
    with pytest.raises(StorageError, match="was deleted"):
        append(log, b"w")
    disk.lose_power()
    reopened = open_data(disk)
    assert reopened.get(PARTITION) is None
    reopened.remove_paths(reopened.empty_trash(NOW_MS))
    assert sorted(disk.list_directory("/data")) == ["meta.json"]
    assert taken is not None
    assert len(taken.owner.read_at(1000, 0)) == log.size_bytes  # type: ignore[attr-defined]


def test_a_log_that_comes_back_is_deleted_again_beside_what_is_left_of_it(tmp_path: Path) -> None:
    # As when a partition moves away, back and away again: on a real file system, which refuses it.
    data = str(tmp_path)
    store = open_store(OsFileSystem(), data, cluster_id="cluster", node_id=1, now_ms=NOW_MS)
    for value in (b"1", b"2", b"3"):
        create(store)
        append(store.logs[PARTITION], value)
        store.delete(PARTITION)
    left = {f"{PARTITION}.{TOPIC_ID.hex()}{again}-delete" for again in ("", ".2", ".3")}
    assert {path.name for path in tmp_path.iterdir()} >= left
    store.close(clean=True, now_ms=NOW_MS)
    reopened = open_store(OsFileSystem(), data, cluster_id="cluster", node_id=1, now_ms=NOW_MS)
    reopened.remove_paths(reopened.empty_trash(NOW_MS))
    assert left.isdisjoint(path.name for path in tmp_path.iterdir())
    reopened.close(clean=True, now_ms=NOW_MS)


def test_what_is_half_created_is_removed() -> None:
    disk = new_disk()
    open_data(disk).close(clean=True, now_ms=NOW_MS)
    disk.make_directory("/data/appLogs-0")
    disk.open("/data/appLogs-0/partition.json", create=True)

    store = open_data(disk)

    assert store.logs == {}
    assert "appLogs-0" not in disk.list_directory("/data")
    disk.make_directory("/data/appLogs-0")
    create(store)
    assert append(store.logs[PARTITION], b"v") == 0


def test_neither_the_first_record_of_a_partition_nor_its_recovery_waits_for_a_sync() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    disk.syncs_fail = True
    append(store.logs[PARTITION], b"v", leader_epoch=3)
    disk.restart()  # the process ends: nothing is lost by that
    log = open_data(disk).logs[PARTITION]
    assert log.log_end_offset == 1
    assert log.leader_epochs.entries == ((3, 0),)


def test_a_log_that_was_flushed_once_is_there_after_a_power_cut() -> None:
    for seed in range(50):
        disk = new_disk(seed)
        store = open_data(disk)
        create(store)
        append(store.logs[PARTITION], b"v", leader_epoch=3)
        flush(store.logs[PARTITION])
        append(store.logs[PARTITION], b"w", leader_epoch=3)
        disk.lose_power()
        log = open_data(disk).logs[PARTITION]
        assert log.log_end_offset >= 1
        assert log.leader_epochs.entries == ((3, 0),)
        assert open_data_again(disk).topic_ids[PARTITION] == TOPIC_ID


def open_data_again(disk: SimDisk) -> LogStore:
    disk.restart()
    return open_data(disk)


def test_logs_of_which_nobody_says_whose_they_are_are_refused() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    append(store.logs[PARTITION], b"v")
    store.close(clean=True, now_ms=NOW_MS)
    meta = read_file(disk, "/data/meta.json")
    disk.remove("/data/meta.json")
    for _ in range(2):
        disk.restart()
        with pytest.raises(DirectoryError, match=r"/data has logs, but no meta\.json"):
            open_data(disk)
    replace_file(disk, "/data/meta.json", meta)
    disk.restart()
    assert open_data(disk).logs[PARTITION].log_end_offset == 1


def test_a_log_that_cannot_say_whose_it_is_is_refused() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    append(store.logs[PARTITION], b"v")
    store.close(clean=True, now_ms=NOW_MS)
    disk.remove("/data/appLogs-0/partition.json")

    with pytest.raises(DirectoryError, match=r"partition\.json"):
        open_data(disk)


def test_a_log_has_files_once_it_has_had_a_record() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    create(store, OTHER)
    log = store.logs[OTHER]
    log.reset_to(7, now_ms=NOW_MS)
    nothing = disk.list_directory("/data")
    assert str(OTHER) in nothing
    for operation in (
        lambda: store.logs[PARTITION].truncate_to(0, now_ms=NOW_MS),
        lambda: store.logs[PARTITION].delete_records_before(0),
        lambda: store.logs[PARTITION].apply_retention(high_watermark=0, now_ms=NOW_MS),
        lambda: store.logs[PARTITION].roll(NOW_MS),
        lambda: flush(store.logs[PARTITION]),
        lambda: find_time(store.logs[PARTITION], 0),
        lambda: find_time(store.logs[PARTITION], None),
        store.logs[PARTITION].complete,
        lambda: sync(store, {}),
        lambda: store.delete(PARTITION),
    ):
        operation()
        assert set(disk.list_directory("/data")) - {"checkpoints"} == set(nothing)
    store.close(clean=True, now_ms=NOW_MS)
    assert open_data(disk).logs[OTHER].log_end_offset == 7


def test_a_full_disk_takes_the_first_record_when_there_is_space() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    disk.capacity_bytes = disk.used_bytes()

    with pytest.raises(StorageError):
        append(store.logs[PARTITION], b"v")
    assert not store.logs[PARTITION].has_files

    disk.capacity_bytes = None
    assert append(store.logs[PARTITION], b"v") == 0


def test_high_watermarks_are_those_last_written_down() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    create(store, OTHER)
    for _ in range(5):
        append(store.logs[PARTITION], b"v")
    sync(store, {PARTITION: 3})
    store.checkpoint({OTHER: 0})
    disk.lose_power()

    reopened = open_data(disk)

    assert reopened.high_watermark(PARTITION) == 3
    assert reopened.high_watermark(OTHER) == 0
    assert reopened.high_watermark(TopicPartition("none", 1)) == 0


def test_a_damaged_checkpoint_costs_time_and_no_records() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    append(store.logs[PARTITION], b"v")
    sync(store, {PARTITION: 1})
    replace_file(disk, "/data/checkpoints", b"garbage")
    disk.lose_power()

    reopened = open_data(disk)

    assert reopened.logs[PARTITION].log_end_offset == 1
    assert reopened.high_watermark(PARTITION) == 0


def test_recovery_reads_nothing_below_the_recovery_point() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    log = store.logs[PARTITION]
    log.config = TopicConfig(segment_bytes=50_000)
    for _ in range(900):
        append(log, bytes(500))
    sync(store, {})
    for _ in range(3):
        append(log, bytes(500))
    disk.restart()
    before = disk.reads

    reopened = open_data(disk)

    assert reopened.logs[PARTITION].log_end_offset == 903
    assert disk.reads - before < 60
    assert len(read_all(reopened.logs[PARTITION])) == 903


def test_one_flush_serves_many_logs() -> None:
    disk = new_disk()
    store = open_data(disk)
    for partition in range(12):
        create(store, TopicPartition("t", partition))
    for log in store.logs.values():
        append(log, b"v")
    gone = TopicPartition("t", 5)

    started = store.start_flush(store.logs.values())
    started.run()
    store.delete(gone)
    store.finish_flush(started)

    assert {log.flushed_offset for log in store.logs.values()} == {1}
    assert len(store.logs) == 11


def test_a_failed_sync_gives_the_whole_directory_up() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    create(store, OTHER)
    append(store.logs[PARTITION], b"v")
    disk.syncs_fail = True
    started = store.start_flush([store.logs[PARTITION]])
    started.run()

    with pytest.raises(FatalStorageError):
        store.finish_flush(started)

    for log in store.logs.values():
        with pytest.raises(FatalStorageError):
            append(log, b"v")
    with pytest.raises(StorageError):
        store.checkpoint({})
    with pytest.raises(StorageError):
        store.close(clean=True, now_ms=NOW_MS)
    disk.syncs_fail = False
    assert not open_data(disk).was_clean


def test_an_unclean_stop_is_known_even_if_the_next_start_fails_half_way() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    store.close(clean=True, now_ms=NOW_MS)
    assert open_data(disk).was_clean
    disk.lose_power()

    assert not open_data(disk).was_clean


def test_a_damaged_marker_is_no_clean_stop() -> None:
    disk = new_disk()
    open_data(disk).close(clean=True, now_ms=NOW_MS)
    replace_file(disk, "/data/.clean", b"?")

    assert not open_data(disk).was_clean


def test_a_log_that_changed_behind_a_clean_stop_is_recovered() -> None:
    disk = new_disk()
    store = open_data(disk)
    create(store)
    for _ in range(3):
        append(store.logs[PARTITION], b"v")
    store.close(clean=True, now_ms=NOW_MS)
    path = f"/data/{PARTITION}/{0:020d}.log"
    disk.open(path, create=False).truncate(disk.size_bytes(path) - 1)

    reopened = open_data(disk)

    assert reopened.logs[PARTITION].log_end_offset == 2
    assert append(reopened.logs[PARTITION], b"w") == 2


def test_a_preallocated_segment_is_as_long_as_its_records_once_closed() -> None:
    disk = new_disk()
    store = open_data(disk)
    config = TopicConfig(preallocate=True, segment_bytes=4000)
    log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
    path = f"/data/{PARTITION}/{0:020d}.log"
    append(log, b"v")
    assert disk.size_bytes(path) == 4000
    flush(log)
    disk.lose_power()
    log = open_data(disk).logs[PARTITION]
    assert disk.size_bytes(path) == log.size_bytes
    log.config = config
    append(log, b"w")
    log.roll(NOW_MS)
    assert disk.size_bytes(f"/data/{PARTITION}/{2:020d}.log") == 4000
    append(log, b"x")
    log.complete()
    assert disk.size_bytes(f"/data/{PARTITION}/{2:020d}.log") == 69


def test_a_preallocated_segment_is_cut_to_its_records_whatever_is_set_when_it_is_closed() -> None:
    disk = new_disk()
    store = open_data(disk)
    reserving, other = (TopicConfig(preallocate=each, segment_bytes=4000) for each in (True, False))
    log = store.create(PARTITION, TOPIC_ID, reserving, now_ms=NOW_MS)
    for _ in range(3):
        append(log, b"v")
    log.config = other
    log.roll(NOW_MS)
    append(log, b"w")

    taken = log.read(0, max_bytes=1000, limit_offset=4, at_least_one=True)

    assert taken is not None
    assert taken.size_bytes == disk.size_bytes(f"/data/{PARTITION}/{0:020d}.log") == 3 * 69
    assert list(read_all(log)) == [0, 1, 2, 3]


def test_a_preallocated_segment_is_cut_to_its_records_by_a_clean_stop() -> None:
    disk = new_disk()
    store = open_data(disk)
    reserving, other = (TopicConfig(preallocate=each, segment_bytes=4000) for each in (True, False))
    log = store.create(PARTITION, TOPIC_ID, reserving, now_ms=NOW_MS)
    append(log, b"v")
    sync(store, {})
    log.config = other

    store.close(clean=True, now_ms=NOW_MS)

    assert disk.size_bytes(f"/data/{PARTITION}/{0:020d}.log") == 69


def test_a_log_without_a_record_needs_no_space_and_no_closing() -> None:
    disk = new_disk()
    store = open_data(disk)
    config = TopicConfig(preallocate=True, segment_bytes=4000)
    store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
    store.close(clean=True, now_ms=NOW_MS)
    assert open_data(disk).logs == {}


def test_a_segment_rolled_after_a_checkpoint_is_synced_by_the_next() -> None:
    disk = new_disk(seed=4)
    store = open_data(disk)
    create(store)
    log = store.logs[PARTITION]
    append(log, b"v")
    sync(store, {})
    log.roll(NOW_MS)
    assert log.is_dirty
    sync(store, {})
    assert not log.is_dirty
    disk.lose_power()
    assert open_data(disk).logs[PARTITION].segment_count == 2


def test_a_segment_that_cannot_be_preallocated_is_used_all_the_same() -> None:
    disk = new_disk()
    store = open_data(disk)
    disk.capacity_bytes = disk.used_bytes() + 2000
    config = TopicConfig(preallocate=True, segment_bytes=4000)

    log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)

    assert append(log, b"v") == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("appLogs-0", PARTITION),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("checkpoints", None),
        ("a-", None),
        ("-1", None),
        ("a-x", None),
        ("a-1.new", None),
    ],
)
def test_directories_are_named_by_topic_and_partition(
    name: str, expected: TopicPartition | None
) -> None:
    assert parse_name(name) == expected


def test_a_disk_can_be_locked_by_one_only() -> None:
    disk = SimDisk(new_disk().rng)
    lock = disk.lock("x")
    assert lock is not None
    assert disk.lock("x") is None
    lock.release()
    assert disk.lock("x") is not None
