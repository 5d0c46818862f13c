"""By the clock: deadlines are met, old segments deleted, checkpoints written; and logs synced."""

import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from quorate.broker.groups.coordinator import EXPIRED_AT_ONCE
from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.produce import produce
from quorate.broker.housekeeping import Housekeeping
from quorate.broker.log.files import FatalStorageError
from quorate.broker.syncer import Syncer
from quorate.errors import ErrorCode, StorageError
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.handlers.grouping import commit, coordinator_of, new_coordinator
from tests.unit.broker.harness import NOW_MS, Node, new_node, now, over, waits
from tests.unit.broker.log.batches import make_batch, open_data

CALLER = over(12)


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """A clock that jumps when nothing happens; not at once, because threads may be at work."""
    return trio.testing.MockClock(autojump_threshold=0.01)


class Turns:
    """The turns of a broker whose wall clock is Trio's."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def begin(self) -> int:
        now_ms = int(trio.current_time() * 1000)
        self.node.broker.deadlines.now_ms = now_ms
        self.node.broker.now_ms = NOW_MS + now_ms
        return now_ms

    def end(self) -> None:
        self.node.replicas.settle()


async def end_rounds(syncer: Syncer, turns: Turns) -> None:
    """End the rounds that have run, as the reactor does."""
    while True:
        await trio.lowlevel.wait_readable(syncer.done_fd)
        turns.begin()
        syncer.end_round()
        turns.end()


@asynccontextmanager
async def keeping(node: Node) -> AsyncGenerator[Turns, None]:
    turns = Turns(node)
    syncer = Syncer(node.broker, turns.begin, turns.end)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(syncer.run)
        nursery.start_soon(end_rounds, syncer, turns)
        nursery.start_soon(Housekeeping(node.broker, turns.begin, turns.end).run)
        yield turns
        nursery.cancel_scope.cancel()


async def answered(promise: object) -> None:
    assert isinstance(promise, Promise)
    awaited: Promise[Any] = promise  # pyright: ignore[reportUnknownVariableType]
    event = trio.Event()

    def resolved(_answer: object) -> None:
        event.set()

    awaited.when_resolved(resolved)
    await event.wait()


def send(node: Node, timeout_ms: int = 30_000) -> object:
    data = PartitionProduceData(index=0, records=make_batch([b"a"]))
    topic = TopicProduceData(name="appLogs", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])
    answer = produce(node.broker, request, CALLER)
    node.replicas.settle()
    return answer


def long_poll(node: Node, max_wait_ms: int) -> object:
    partition = FetchPartition(partition=0, partition_max_bytes=1000)
    topic = FetchTopic(topic="appLogs", partitions=[partition])
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])
    return fetch(node.broker, request, CALLER)


@pytest.mark.parametrize("wait_ms", [1, 57, 1009])
async def test_a_long_poll_ends_when_its_time_has_come(
    wait_ms: int, clock: trio.testing.MockClock
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    async with keeping(node) as turns:
        await trio.sleep(1.2345)
        turns.begin()
        before_s = trio.current_time()
        await answered(long_poll(node, wait_ms))
        assert 0 <= trio.current_time() - before_s - wait_ms / 1000 <= 0.002


async def test_an_earlier_deadline_is_met_first(clock: trio.testing.MockClock) -> None:
    node = new_node()
    node.create_topic("appLogs")
    async with keeping(node):
        late, early = long_poll(node, 5000), long_poll(node, 100)
        await answered(early)
        assert trio.current_time() < 1
        await answered(late)
        assert 5 <= trio.current_time() < 5.1


async def test_records_that_count_once_synced_are_synced_at_once(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    async with keeping(node):
        for end_offset in (1, 2, 3):
            await answered(send(node))
            assert node.leader().log.flushed_offset == end_offset
        assert trio.current_time() < 1


class SlowSync:
    """The next sync of a node, which takes until it may end."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self._sync_files = node.disk.sync_files
        monkeypatch.setattr(node.disk, "sync_files", self._sync)

    def _sync(self, *files: Any, hurry: bool) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.may_end.wait(10)
        self._sync_files(*files, hurry=hurry)


async def test_what_asks_while_logs_are_synced_goes_into_the_next_round_together(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    node.create_topic("dbLogs", flush_messages="1")
    slow = SlowSync(node, monkeypatch)
    async with keeping(node):
        first = send(node)
        assert slow.begun.wait(10)
        later = [send(node), send(node)]
        node.append(b"b", topic="dbLogs")
        assert waits(first)
        slow.may_end.set()
        for answer in (first, *later):
            await answered(answer)
        assert node.leader("dbLogs").high_watermark == 1
        assert node.broker.sync_count == 2


async def test_a_broker_that_ends_brings_the_round_under_way_to_its_end(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    slow = SlowSync(node, monkeypatch)
    async with keeping(node):
        answer = send(node)
        assert slow.begun.wait(10)
        threading.Timer(0.1, slow.may_end.set).start()
    assert node.leader().log.flushed_offset == 1
    assert waits(answer)  # nobody is left to send it, or to act on it
    send(node)  # nobody is there to sync it, nor fails for that
    assert node.leader().log.flushed_offset == 1


async def test_a_disk_that_fails_under_the_last_round_is_no_orderly_end(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    node.disk.syncs_fail = True
    with pytest.raises(BaseExceptionGroup) as raised:
        async with keeping(node):
            send(node)
    assert raised.group_contains(FatalStorageError, depth=None)


async def test_a_log_is_synced_when_its_oldest_unsynced_record_has_the_age(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_ms="2000")
    node.create_topic("dbLogs")
    async with keeping(node):
        node.append(b"a")
        node.append(b"a", topic="dbLogs")
        await trio.sleep(1.9)
        assert node.leader().log.flushed_offset == 0
        await trio.sleep(2)
        assert node.leader().log.flushed_offset == 1
        assert node.leader("dbLogs").log.flushed_offset == 0


async def test_a_log_that_is_deleted_before_it_is_synced_by_age_is_let_go(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_ms="2000")
    async with keeping(node):
        node.append(b"a")
        node.leader().log.park()  # as logs are that a start found
        await trio.sleep(2.3)  # between two looks
        node.apply(r.TopicRemoved("test", 0, node.leader().topic_id))
        await trio.sleep(5)


async def test_logs_that_are_synced_by_age_hold_up_nobody(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node()
    node.create_topic("dbLogs", flush_ms="1000")
    node.create_topic("appLogs", flush_messages="1")
    slow = SlowSync(node, monkeypatch)
    async with keeping(node):
        node.append(b"b", topic="dbLogs")
        assert await trio.to_thread.run_sync(slow.begun.wait, 10)
        asked_s = trio.current_time()
        await answered(send(node))
        assert trio.current_time() - asked_s < 1
        assert node.leader("dbLogs").log.flushed_offset == 0
        slow.may_end.set()
    assert node.leader("dbLogs").log.flushed_offset == 1


async def fail_while(node: Node, act: Callable[[], object]) -> None:
    """Let the disk fail under what is done, and wait for the end of the broker."""
    async with keeping(node):
        node.disk.syncs_fail = True
        act()
        await trio.sleep(100)


async def test_a_disk_that_cannot_sync_ends_the_broker_and_nothing_is_acknowledged(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    answers: list[object] = []
    with pytest.raises(BaseExceptionGroup) as raised:
        await fail_while(node, lambda: answers.append(send(node)))
    assert raised.group_contains(FatalStorageError, depth=None, match="Input/output error")
    assert waits(answers[0])
    with pytest.raises(StorageError):
        node.append(b"b")


async def test_a_disk_that_fails_under_an_append_ends_the_broker(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    node.lead("appLogs", 0, leader_epoch=1)  # the first record of an epoch waits for the disk
    answers: list[object] = []
    with pytest.raises(BaseExceptionGroup) as raised:
        await fail_while(node, lambda: answers.append(send(node)))
    assert raised.group_contains(FatalStorageError, depth=None)
    assert trio.current_time() < 5
    (partition,) = now(answers[0]).responses[0].partition_responses
    assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_disk_too_full_to_finish_a_sync_delays_answers_until_there_is_space(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")

    def full(_path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    node.append(b"a")  # its leader epoch is written while there is space
    async with keeping(node):
        with monkeypatch.context() as patch:
            patch.setattr(node.disk, "sync_directory", full)
            answer = send(node)
            await trio.sleep(5)
            assert waits(answer)
        await answered(answer)
        assert node.leader().high_watermark == 2
    assert 1 < caplog.text.count("trying again") < 10


async def test_a_topic_may_be_deleted_while_it_is_synced(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs", flush_messages="1")
    node.create_topic("dbLogs", flush_messages="1")
    sync_files, token = node.disk.sync_files, trio.lowlevel.current_trio_token()

    def delete_meanwhile(*files: Any, hurry: bool) -> None:
        sync_files(*files, hurry=hurry)
        if "appLogs" in node.replicas.image.topics:
            removed = r.TopicRemoved("test", 0, topic_id)
            trio.from_thread.run_sync(node.apply, removed, trio_token=token)

    async with keeping(node):
        node.append(b"b", topic="dbLogs")
        node.append(b"a")
        monkeypatch.setattr(node.disk, "sync_files", delete_meanwhile)
        await trio.sleep(1)
        assert node.leader("dbLogs").high_watermark == 1
        assert [str(key) for key in node.replicas.store.logs] == ["dbLogs-0"]


async def test_old_segments_are_deleted_and_their_files_later(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node({"log.retention.check.interval.ms": "60000"})
    node.create_topic(
        "appLogs",
        retention_bytes="2000",
        segment_bytes="1024",
        file_delete_delay_ms="30000",
        retention_ms="-1",
    )
    for _ in range(10):
        node.append(b"a" * 700)
    async with keeping(node):
        await trio.sleep(61)
        log = node.leader().log
        assert log.size_bytes < 3500
        assert log.log_start_offset > 5
        files = node.disk.list_directory("/data/appLogs-0")
        assert any(name.endswith(".deleted") for name in files)
        await trio.sleep(60)
        files = node.disk.list_directory("/data/appLogs-0")
        assert not any(name.endswith(".deleted") for name in files)


async def test_retention_that_fails_for_one_log_goes_on_with_the_next(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node({"log.retention.check.interval.ms": "60000"})
    for name in ("appLogs", "dbLogs"):
        node.create_topic(name, retention_bytes="1000", segment_bytes="1024", retention_ms="-1")
        for _ in range(4):
            node.append(b"a" * 700, topic=name)
    rename = node.disk.rename

    def refuse_one(old: str, new: str) -> None:
        if "appLogs" in old and ".deleted" in new:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(old, new)

    monkeypatch.setattr(node.disk, "rename", refuse_one)
    async with keeping(node):
        await trio.sleep(61)
        assert node.leader("dbLogs").log.log_start_offset > 0


async def test_a_topic_that_is_deleted_while_old_segments_are_looked_for_is_left_alone(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = new_node({"log.retention.check.interval.ms": "60000"})
    topic_ids = [node.create_topic(name, retention_bytes="1") for name in ("a", "b")]
    node.append(b"a", topic="a")
    node.append(b"b", topic="b")
    apply_retention = type(node.leader("a").log).apply_retention

    def delete_other(log: object, **options: int) -> int:
        if "b" in node.replicas.image.topics:
            node.apply(r.TopicRemoved("test", 0, topic_ids[1]))
        return apply_retention(log, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(type(node.leader("a").log), "apply_retention", delete_other)
    async with keeping(node):
        await trio.sleep(61)
    assert "cannot delete" not in caplog.text


async def test_checkpoints_say_from_where_a_recovery_has_to_read(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a", b"b")
    async with keeping(node):
        await trio.sleep(90)  # the clock may jump while a thread is at work
        node.append(b"lost, perhaps")
    node.disk.lose_power()
    store = open_data(node.disk)
    (log,) = store.logs.values()
    assert log.log_end_offset >= 2
    assert store.high_watermark(log.topic_partition) == 2


async def test_a_full_disk_delays_checkpoints_and_nothing_else(
    clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    node.disk.capacity_bytes = node.disk.used_bytes()
    async with keeping(node):
        await trio.sleep(61)
        assert node.leader().log.recovery_point == 0
        node.disk.capacity_bytes = None
        await trio.sleep(61)
        assert node.leader().log.recovery_point == 1
    assert "No space left on device" in caplog.text


def _shorten(node: Node) -> None:
    node.disk.open(f"{node.leader().log.directory}/{0:020d}.log", create=False).truncate(10)


def _remove(node: Node) -> None:
    node.disk.remove(f"{node.leader().log.directory}/{0:020d}.log")


async def test_segments_that_were_removed_are_not_missed_by_who_starts_after_a_kill(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node({"log.retention.check.interval.ms": "1000"})
    node.create_topic("appLogs", configs={"retention.bytes": "0", "file.delete.delay.ms": "0"})
    node.replicas.store.registered(7)
    async with keeping(node):
        node.append(b"a")
        await trio.sleep(58)
        assert node.leader().log.log_start_offset == 1
        node.append(b"b")
        await trio.sleep(62)  # a checkpoint
        node.append(b"c")
        await trio.sleep(30)
        assert node.leader().log.log_start_offset == 3
    assert not node.disk.exists(f"{node.leader().log.directory}/{0:020d}.log")
    node.disk.restart()
    store = open_data(node.disk)
    assert store.logs[TopicPartition("appLogs", 0)].lost_from is None
    assert store.previous_broker_epoch == 7


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("harm", [_shorten, _remove])
async def test_files_that_somebody_else_took_away_are_told(
    harm: Callable[[Node], None],
    rolled: bool,
    clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    async with keeping(node):
        node.append(b"a")
        if rolled:
            node.leader().log.roll(NOW_MS)
            node.append(b"b")
        await trio.sleep(61)
        assert caplog.text == ""
        node.append(b"c")
        harm(node)
        await trio.sleep(61)
    # A closed file is not looked into.
    assert ("somebody else changed it" in caplog.text) is not (rolled and harm is _shorten)


async def test_a_folder_that_somebody_else_took_away_ends_the_broker(
    clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    node.disk.rename(node.leader().log.directory, "/data/elsewhere")
    with pytest.raises(BaseExceptionGroup) as raised:
        async with keeping(node):
            await trio.sleep(61)
    assert raised.group_contains(FatalStorageError, depth=None)
    assert (
        f"/data/appLogs-0/{0:020d}.log is gone or too short, somebody else changed it"
        in caplog.text
    )


async def test_a_checkpoint_on_a_failing_disk_ends_the_broker(
    clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    node.disk.syncs_fail = True
    with pytest.raises(BaseExceptionGroup) as raised:
        async with keeping(node):
            await trio.sleep(61)
    assert raised.group_contains(FatalStorageError, depth=None)


async def test_expired_offsets_are_looked_for_in_steps_with_turns_in_between(
    clock: trio.testing.MockClock,
) -> None:
    node = new_coordinator(
        offsets_retention_minutes="1", offsets_retention_check_interval_ms="90000"
    )
    for number in range(EXPIRED_AT_ONCE + 1):
        assert commit(node, 1, group_id=f"g{number}") == [0]
    async with keeping(node):
        await trio.sleep(89)
        assert len(coordinator_of(node).group_ids()) == EXPIRED_AT_ONCE + 1
        await trio.sleep(2)
        assert coordinator_of(node).group_ids() == []
