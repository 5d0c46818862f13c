"""The cleaner compacts the filthiest log first, no faster than it may, and gives up what is bad."""

# pyright: reportPrivateUsage=false

import errno
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from quorate.broker.cleaner import WINDOW_S, Cleaner, CleanerStoppedError, Throttle
from quorate.quorum.metadata import records as r
from tests.simulation.disk import SimFile
from tests.unit.broker.harness import NOW_MS, Node, new_node
from tests.unit.broker.log.batches import make_batch
from tests.unit.broker.log.compacting import checkpoint, put, records_of

DEADLINE_S = 60


@asynccontextmanager
async def cleaning(node: Node) -> AsyncGenerator[None, None]:
    def begin_turn() -> int:
        node.broker.now_ms = NOW_MS
        return NOW_MS

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Cleaner(node.broker, begin_turn).run)
        with trio.fail_after(DEADLINE_S):
            yield
        nursery.cancel_scope.cancel()


def topic(node: Node, name: str, dirty: int, clean: int = 0, ratio: str = "0.5") -> None:
    """Create a compacted topic with so many small segments to compact, of which some are clean."""
    node.create_topic(
        name, cleanup_policy="compact", segment_bytes="1024", min_cleanable_dirty_ratio=ratio
    )
    log = node.leader(name).log
    for number in range(clean + dirty):
        put(log, (b"%d" % (number % 2), bytes(600)))
        log.roll(NOW_MS)
    put(log, (b"head", b""))
    node.leader(name).advance()
    log.cleaned.offset = clean


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - worker threads are at it
        await trio.sleep(0.01)


def compacted(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.name.endswith("cleaner")]
    return [line.split("compacted ")[1].split(":")[0] for line in told if "compacted " in line]


async def test_the_filthiest_log_is_compacted_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "10"})
    for name, dirty in (("two", 2), ("nine", 9), ("five", 5), ("one", 1)):
        topic(node, name, dirty, 10 - dirty, "0.15")
    async with cleaning(node):
        await until(lambda: len(compacted(caplog)) >= 3)
    assert compacted(caplog) == ["nine-0", "five-0", "two-0"]
    assert len(records_of(node.leader("nine").log)) == 3
    assert len(records_of(node.leader("one").log)) == 11


async def test_what_is_damaged_is_told_once_and_others_are_compacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "10", "log.cleaner.threads": "2"})
    topic(node, "bad", 9)
    topic(node, "good", 5)
    log = node.leader("bad").log
    node.disk.open(f"{log.directory}/{0:020d}.log", create=False).write_at(b"?", 100)
    async with cleaning(node):
        await until(lambda: bool(compacted(caplog)) and "cannot be compacted" in caplog.text)
        await trio.sleep(0.1)
    assert compacted(caplog) == ["good-0"]
    assert caplog.text.count("cannot be compacted") == 1


async def test_a_full_disk_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "10"})
    topic(node, "t", 9)
    log = node.leader("t").log
    checkpoint(log)
    node.disk.capacity_bytes = node.disk.used_bytes() + 10
    async with cleaning(node):
        await until(lambda: "trying again" in caplog.text)
        node.disk.capacity_bytes = None
        await until(lambda: bool(compacted(caplog)))
    assert len(records_of(log)) == 3


async def test_a_log_that_the_disk_does_not_let_compact_keeps_no_others_from_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "10"})
    for name, dirty in (("ill", 9), ("sick", 8), ("well", 5), ("good", 3)):
        topic(node, name, dirty, 10 - dirty, "0.15")
    open_file = node.disk.open

    def refuse(path: str, *, create: bool) -> SimFile:
        if path.endswith(".cleaned") and ("/ill-0/" in path or "/sick-0/" in path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return open_file(path, create=create)

    async with cleaning(node):
        with monkeypatch.context() as patch:
            patch.setattr(node.disk, "open", refuse)
            with trio.fail_after(5):
                await until(lambda: len(compacted(caplog)) == 2)
        with trio.fail_after(5):
            await until(lambda: len(compacted(caplog)) == 4)
    assert compacted(caplog)[:2] == ["well-0", "good-0"]
    assert set(compacted(caplog)[2:]) == {"ill-0", "sick-0"}


async def test_a_disk_that_takes_no_swap_for_the_moment_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "10"})
    topic(node, "t", 9)
    log = node.leader("t").log
    checkpoint(log)
    rename = node.disk.rename

    def refuse(old: str, new: str) -> None:
        if new.endswith(".log.swap"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(old, new)

    async with cleaning(node):
        with monkeypatch.context() as patch:
            patch.setattr(node.disk, "rename", refuse)
            await until(lambda: "cannot" in caplog.text)
        with trio.fail_after(5):
            await until(lambda: bool(compacted(caplog)))
    assert len(records_of(log)) == 3


async def test_the_event_loop_gets_its_turn_soon_while_there_are_threads_that_compact() -> None:
    before_s = sys.getswitchinterval()
    async with cleaning(new_node({"log.cleaner.backoff.ms": "10"})):
        await until(lambda: sys.getswitchinterval() <= 0.001)
    assert sys.getswitchinterval() == before_s


async def test_nothing_is_compacted_if_that_is_switched_off() -> None:
    node = new_node({"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "1"})
    topic(node, "t", 9)
    await Cleaner(node.broker, lambda: 0).run()
    assert node.leader("t").log.cleaned.offset == 0


async def test_a_topic_that_is_not_to_be_compacted_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = new_node({"log.cleaner.backoff.ms": "5"})
    node.create_topic("plain", segment_bytes="1024")
    log = node.leader("plain").log
    for _ in range(9):
        log.append(make_batch([bytes(600)]), leader_epoch=0, now_ms=NOW_MS)
    topic(node, "t", 2)
    async with cleaning(node):
        await until(lambda: bool(compacted(caplog)))
    assert compacted(caplog) == ["t-0"]


class Clock:
    """Tells a time that passes only while somebody sleeps or works."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


def seconds_for(size_bytes: int, *, rate: int, work_s: float, every: int = 1) -> float:
    """Return how long it takes to compact so much, if each of so many pieces takes so long."""
    clock, piece_bytes = Clock(), 25_000
    throttle = Throttle(lambda: rate, clock=clock, sleep=clock.pass_s)
    begin_s = clock.now_s
    for piece in range(size_bytes // piece_bytes):
        throttle.charge(piece_bytes)
        clock.pass_s(work_s if piece % every == 0 else 0)
    return clock.now_s - begin_s


@pytest.mark.parametrize("work_s", [0.0, 0.005])
@pytest.mark.parametrize("every", [1, 10])
def test_the_rate_is_kept_within_a_tenth(work_s: float, every: int) -> None:
    took_s = seconds_for(20_000_000, rate=2_000_000, work_s=work_s * every, every=every)
    assert took_s == pytest.approx(10, rel=0.1)


def test_what_was_not_used_for_long_is_not_made_up_for() -> None:
    clock = Clock()
    throttle = Throttle(lambda: 2_000_000, clock=clock, sleep=clock.pass_s)
    throttle.charge(25_000)
    clock.pass_s(3_600)
    begin_s = clock.now_s
    for _ in range(40):
        throttle.charge(25_000)
    assert clock.now_s - begin_s == pytest.approx(0.5 - WINDOW_S, abs=0.02)


def test_a_throttle_that_stops_lets_nobody_wait() -> None:
    throttle = Throttle(lambda: 1)
    throttle.charge(1_000_000)
    throttle.stopped = True
    with pytest.raises(CleanerStoppedError):
        throttle.charge(1)


def test_the_rate_is_that_of_the_broker_else_of_all_else_its_own() -> None:
    node = new_node({"log.cleaner.io.max.bytes.per.second": "5"})
    cleaner = Cleaner(node.broker, lambda: 0)
    rates = [cleaner._bytes_per_second()]
    name = "log.cleaner.io.max.bytes.per.second"
    for broker, value in (("", "6.5"), ("1", "7")):
        node.apply(r.ConfigSet("test", 0, "broker", broker, name, value))
        rates.append(cleaner._bytes_per_second())
    assert rates == [5, 6.5, 7]
