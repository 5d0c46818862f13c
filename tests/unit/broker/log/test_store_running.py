"""What a broker may say when it is back: whether records of it can be lost, by how it ended."""

from pathlib import Path

import pytest

from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.log.files import FatalStorageError, OsFileSystem, remove_tree, replace_file
from quorate.broker.log.store import LogStore, open_store
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import NOW_MS, TOPIC_ID, append, make_batch, new_disk, open_data

EPOCH = 7
PARTITION = TopicPartition("t", 0)
LOG_FILE = "/data/t-0/00000000000000000000.log"


def running(config: TopicConfig | None = None) -> tuple[SimDisk, LogStore]:
    """A registered broker with three batches, none of them synced."""
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, config or TopicConfig(), now_ms=NOW_MS)
    store.registered(EPOCH - 1)
    store.registered(EPOCH)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    return disk, store


def after_a_kill(disk: SimDisk) -> LogStore:
    disk.restart()
    return open_data(disk)


def damage(disk: SimDisk, position: int) -> None:
    file = disk.open(LOG_FILE, create=False)
    file.write_at(bytes([file.read_at(1, position)[0] ^ 1]), position)


def test_who_was_killed_has_all_that_it_wrote() -> None:
    disk, _ = running()
    store = after_a_kill(disk)
    assert (store.previous_broker_epoch, store.was_clean) == (EPOCH, False)
    assert store.logs[PARTITION].log_end_offset == 3


def test_it_can_say_so_once() -> None:
    disk, _ = running()
    after_a_kill(disk)
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_who_was_stopped_before_it_was_registered_again_says_so_too() -> None:
    disk, _ = running()
    after_a_kill(disk).close(clean=True, now_ms=NOW_MS)
    store = open_data(disk)
    assert (store.previous_broker_epoch, store.was_clean) == (EPOCH, True)


def test_after_a_power_cut_nobody_knows() -> None:
    disk, store = running()
    store.checkpoint({})
    disk.sync_directory("/data")
    disk.open("/data/.running", create=False).sync()
    disk.lose_power()
    assert disk.exists("/data/.running")
    assert open_data(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_a_machine_without_a_boot_id_never_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_disk: SimDisk) -> str:
        return ""

    monkeypatch.setattr(SimDisk, "boot_id", none)
    disk, _ = running()
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_a_damaged_note_says_nothing() -> None:
    disk, _ = running()
    replace_file(disk, "/data/.running", b"?")
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


@pytest.mark.parametrize("kept_bytes", [10, -1])
def test_a_batch_that_was_just_being_written_is_no_loss(kept_bytes: int) -> None:
    disk, _ = running()
    file, torn = disk.open(LOG_FILE, create=False), make_batch([b"torn"])[:kept_bytes]
    file.write_at(torn, file.size_bytes())
    store = after_a_kill(disk)
    assert (store.previous_broker_epoch, store.logs[PARTITION].log_end_offset) == (EPOCH, 3)


RESERVING = TopicConfig(preallocate=True, segment_bytes=10_000)


def test_space_that_was_reserved_and_not_used_is_no_loss() -> None:
    disk, _ = running(RESERVING)
    assert disk.size_bytes(LOG_FILE) == RESERVING.segment_bytes
    store = after_a_kill(disk)
    assert (store.previous_broker_epoch, store.logs[PARTITION].log_end_offset) == (EPOCH, 3)


def test_what_stands_behind_zeros_is_damaged() -> None:
    disk, _ = running(RESERVING)
    damage(disk, RESERVING.segment_bytes - 1)
    store = after_a_kill(disk)
    assert store.previous_broker_epoch == UNKNOWN_BROKER_EPOCH
    assert store.logs[PARTITION].log_end_offset == 3


@pytest.mark.parametrize(
    "position",
    [pytest.param(-1, id="a value of the last batch"), pytest.param(16, id="the first magic")],
)
def test_damage_is_a_loss(position: int) -> None:
    disk, _ = running()
    size_bytes = disk.size_bytes(LOG_FILE)
    damage(disk, position % size_bytes)
    store = after_a_kill(disk)
    assert store.previous_broker_epoch == UNKNOWN_BROKER_EPOCH
    assert store.logs[PARTITION].log_end_offset < 3


def test_less_than_was_synced_is_a_loss() -> None:
    disk, store = running()
    store.checkpoint({})
    flush = store.start_checkpoint(list(store.logs.values()))
    flush.run()
    store.finish_flush(flush)
    store.checkpoint({})
    file = disk.open(LOG_FILE, create=False)
    file.truncate(file.size_bytes() // 2)
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_segments_that_are_gone_are_a_loss() -> None:
    disk, store = running()
    flush = store.start_checkpoint(list(store.logs.values()))
    flush.run()
    store.finish_flush(flush)
    store.checkpoint({})
    disk.remove(LOG_FILE)
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def stopped() -> SimDisk:
    """A broker that was stopped, with a log of several segments."""
    disk, store = running(TopicConfig(segment_bytes=1024))
    for _ in range(30):
        append(store.logs[PARTITION], b"x" * 100)
    store.close(clean=True, now_ms=NOW_MS, broker_epoch=EPOCH)
    return disk


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_folder_is_gone_is_a_loss(
    clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = stopped()
    if not clean:
        open_data(disk).registered(EPOCH)
    remove_tree(disk, "/data/t-0")
    store = after_a_kill(disk)
    assert (store.previous_broker_epoch, store.was_clean) == (UNKNOWN_BROKER_EPOCH, clean)
    assert "t-0" in caplog.text


def test_an_empty_folder_is_as_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = stopped()
    for name in disk.list_directory("/data/t-0"):
        disk.remove(f"/data/t-0/{name}")
    store = after_a_kill(disk)
    assert store.previous_broker_epoch == UNKNOWN_BROKER_EPOCH
    assert PARTITION not in store.logs
    assert "t-0" in caplog.text
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(), now_ms=NOW_MS)
    assert append(log, b"again") == 0


@pytest.mark.parametrize("clean", [True, False])
def test_first_segments_that_are_gone_are_a_loss(clean: bool) -> None:
    disk = stopped()
    if not clean:
        open_data(disk).registered(EPOCH)
    disk.remove(LOG_FILE)
    store = after_a_kill(disk)
    log = store.logs[PARTITION]
    assert (log.lost_from, log.anew_from, log.log_start_offset > 0) == (0, 0, True)
    assert store.previous_broker_epoch == UNKNOWN_BROKER_EPOCH
    log.reset_to(0, now_ms=NOW_MS)
    assert (log.anew_from, log.log_end_offset) == (None, 0)


def test_what_is_missing_is_missed_until_it_is_copied_or_led_without() -> None:
    disk = stopped()
    disk.remove(LOG_FILE)
    open_data(disk).close(clean=True, now_ms=NOW_MS)  # before it followed anybody
    store = open_data(disk)
    store.registered(EPOCH)
    store.checkpoint({})
    store = after_a_kill(disk)
    log = store.logs[PARTITION]
    assert (log.lost_from, store.previous_broker_epoch) == (0, UNKNOWN_BROKER_EPOCH)
    log.lost_from = None  # as who leads does
    store.close(clean=True, now_ms=NOW_MS, broker_epoch=EPOCH)
    store = open_data(disk)
    assert (store.logs[PARTITION].lost_from, store.previous_broker_epoch) == (None, EPOCH)


@pytest.mark.parametrize("clean", [True, False])
def test_segments_that_retention_removed_are_no_loss(clean: bool) -> None:
    disk = stopped()
    store = open_data(disk)
    store.registered(EPOCH)
    log = store.logs[PARTITION]
    log.config = TopicConfig(retention_bytes=2000)
    assert log.apply_retention(high_watermark=log.log_end_offset, now_ms=NOW_MS)
    if clean:
        store.close(clean=True, now_ms=NOW_MS, broker_epoch=EPOCH)
    store = after_a_kill(disk)
    assert store.logs[PARTITION].log_start_offset > 0
    assert (store.logs[PARTITION].anew_from, store.previous_broker_epoch) == (None, EPOCH)


def test_where_logs_began_is_not_known_without_checkpoints() -> None:
    disk = stopped()
    store = open_data(disk)
    store.registered(EPOCH)
    log = store.logs[PARTITION]
    log.config = TopicConfig(retention_bytes=2000)
    assert log.apply_retention(high_watermark=log.log_end_offset, now_ms=NOW_MS)
    store.close(clean=True, now_ms=NOW_MS, broker_epoch=EPOCH)
    disk.open("/data/checkpoints", create=False).write_at(b"damaged", 0)
    store = after_a_kill(disk)
    assert store.logs[PARTITION].log_start_offset > 0
    assert (store.logs[PARTITION].anew_from, store.previous_broker_epoch) == (None, EPOCH)


def test_who_was_stopped_has_all_that_it_wrote() -> None:
    assert after_a_kill(stopped()).previous_broker_epoch == EPOCH


def test_a_topic_that_is_deleted_is_no_loss() -> None:
    disk = stopped()
    store = open_data(disk)
    store.registered(EPOCH)
    store.delete(PARTITION)
    assert after_a_kill(disk).previous_broker_epoch == EPOCH


def test_a_disk_that_failed_may_have_lost_something() -> None:
    disk, store = running()
    store.logs[PARTITION].fail(FatalStorageError("it forgot"))
    store.close(clean=False, now_ms=NOW_MS)
    assert open_data(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_a_full_disk_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    disk, store = running()
    disk.capacity_bytes = 0
    store.registered(EPOCH + 1)
    assert "No space left" in caplog.text
    disk.capacity_bytes = None
    assert after_a_kill(disk).previous_broker_epoch == UNKNOWN_BROKER_EPOCH


def test_what_a_full_disk_had_no_room_for_is_not_missed_after_a_kill() -> None:
    disk, store = running()
    log = store.logs[PARTITION]
    disk.capacity_bytes = disk.used_bytes() + 200
    with pytest.raises(StorageError):
        append(log, b"x" * 500)
    append(log, b"d")
    store = after_a_kill(disk)
    assert store.logs[PARTITION].log_end_offset == 4
    assert store.previous_broker_epoch == EPOCH


def test_this_machine_can_say_when_it_was_started(tmp_path: Path) -> None:
    fs = OsFileSystem()
    if not fs.boot_id():
        pytest.skip("this machine does not tell its boots apart")
    store = open_store(fs, str(tmp_path), cluster_id="c", node_id=1, now_ms=NOW_MS)
    store.registered(EPOCH)
    store.close(clean=False, now_ms=NOW_MS)
    again = open_store(fs, str(tmp_path), cluster_id="c", node_id=1, now_ms=NOW_MS)
    assert again.previous_broker_epoch == EPOCH
    again.close(clean=True, now_ms=NOW_MS)
