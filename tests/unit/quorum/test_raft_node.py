"""The Trio shell around the rounds: outcomes, durability, a full disk, a broken one."""

import errno
import math
import os
import re
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.model import Endpoint
from quorate.quorum.metadata.machine import Committed, Conflict, Refused
from quorate.quorum.metadata.records import ConfigSet, TopicRemoved
from quorate.quorum.raft import snapshots
from quorate.quorum.raft.outcomes import NotLeader, ReadDone, Unknown
from quorate.quorum.raft.rounds import CommandTooLargeError
from quorate.quorum.raft.rules import PRODUCTION_RULES
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.storage import StorageFullError
from quorate.quorum.raft.timing import PRODUCTION_TIMING
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_node import Outcome, RaftNode, RaftPlan, RunBlocking, in_thread, inline

ME = ReplicaKey(1, b"d" * 16)
ALONE = VoterSet.of([Voter(ME, Endpoint("h", 1))])


def config(value: str) -> ConfigSet:
    return ConfigSet("c", 1, "broker", "", "k", value)


def new_node(storage: SimulatedStorage, run_blocking: RunBlocking = inline) -> RaftNode:
    plan = RaftPlan(ME, ALONE, PRODUCTION_RULES, run_blocking)
    return RaftNode(plan, storage, lambda _: None, Random(1))


async def propose(node: RaftNode, version: int, *values: str) -> Outcome:
    return await node.propose(version, [config(value) for value in values], math.inf)


@asynccontextmanager
async def running(
    storage: SimulatedStorage, run_blocking: RunBlocking = inline
) -> AsyncGenerator[RaftNode, None]:
    node = new_node(storage, run_blocking)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        yield node
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("run_blocking", [inline, in_thread])
async def test_records_are_committed_once_the_node_runs(run_blocking: RunBlocking) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage, run_blocking) as node:
        assert node.is_leader
        assert await propose(node, 0, "1") == Committed(3)
        assert node.image.version == 3
        assert (node.rounds.commit_index, node.rounds.last_index, node.term) == (3, 3, 1)
        assert await node.read(math.inf) == ReadDone(3)
    async with running(storage, run_blocking) as node:
        assert node.image.version == 3
        assert node.machine.image is node.image


def test_pysyncobj_leaves_the_socket_module_as_it_was() -> None:
    assert socket.inet_ntop(socket.AF_INET, b"\x7f\0\0\1") == "127.0.0.1"


async def test_a_decision_on_an_old_version_conflicts() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        await propose(node, 0, "1")
        assert await propose(node, 0, "2") == Conflict(3)


async def test_one_of_two_decisions_on_one_version_wins() -> None:
    outcomes: list[object] = []
    async with running(SimulatedStorage(Random(1))) as node:

        async def propose_one(value: str) -> None:
            outcomes.append(await propose(node, 0, value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(propose_one, "1")
            nursery.start_soon(propose_one, "2")
    assert set(outcomes) == {Committed(3), Conflict(3)}


async def test_records_that_contradict_the_image_are_refused() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        removal = TopicRemoved("c", 1, b"i" * 16)
        assert isinstance(await node.propose(0, [removal], math.inf), Refused)


async def test_a_command_that_is_too_large_is_refused() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        with pytest.raises(CommandTooLargeError):
            await propose(node, 0, "x" * 5_000_000)
        assert await propose(node, 0, "1") == Committed(3)


async def test_a_node_that_does_not_run_is_not_the_leader() -> None:
    node = new_node(SimulatedStorage(Random(1)))
    assert await propose(node, 0, "1") == NotLeader()
    assert await node.read(math.inf) == NotLeader()
    assert not node.is_leader


async def test_followers_are_woken_by_commits() -> None:
    woken: list[int] = []
    async with running(SimulatedStorage(Random(1))) as node, trio.open_nursery() as nursery:

        async def follow() -> None:
            await node.wait_for_version_after(0)
            woken.append(node.image.version)

        nursery.start_soon(follow)
        await wait_all_tasks_blocked()
        assert woken == []
        await propose(node, 0, "1")
        await wait_all_tasks_blocked()
        assert woken == [3]


async def test_a_full_disk_ends_leading_until_there_is_space(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage) as node, trio.open_nursery() as nursery:
        outcomes: list[object] = []

        async def propose_one() -> None:
            outcomes.append(await propose(node, 0, "1"))

        storage.full = True
        nursery.start_soon(propose_one)
        await trio.sleep(30)
        assert "waiting for space" in caplog.text
        assert not node.is_leader
        assert node.image.version == 0
        assert await propose(node, 0, "2") == NotLeader()
        storage.full = False
        await node.wait_until(lambda standing: standing.is_leader)
        assert outcomes in ([Unknown()], [Committed(3)])
        assert isinstance(await propose(node, node.image.version, "3"), Committed)


async def test_a_full_disk_is_told_when_it_begins_each_minute_and_when_it_ends(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage) as node, trio.open_nursery() as nursery:
        assert not node.disk_full
        for _ in range(2):  # each time anew
            caplog.clear()
            storage.full = True
            nursery.start_soon(propose, node, node.image.version, "1")
            await trio.sleep(150)
            assert node.disk_full
            assert node.log_full
            assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
            assert "No space left on device" in caplog.records[-1].getMessage()
            storage.full = False
            await node.wait_until(lambda standing: standing.is_leader)
            assert not node.disk_full
            (ended,) = caplog.records[3:]
            assert ended.levelname == "WARNING"
            assert re.fullmatch(
                r"metadata can be written again, after 15\d s without space", ended.getMessage()
            )


async def happens(condition: Callable[[], bool]) -> None:
    """Wait until something is so that nobody is woken for."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(1)


class FullForSnapshots(SimulatedStorage):
    """A disk with room for the log only."""

    room = False

    def put(self, name: str, data: bytes) -> None:
        if name == snapshots.FILE_NAME and not self.room:
            raise StorageFullError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        super().put(name, data)


async def test_a_snapshot_for_which_there_is_no_room_is_a_full_disk_too(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FullForSnapshots(Random(1))
    timing = replace(PRODUCTION_TIMING, snapshot_entries=3, retained_entries=0)
    rules = replace(PRODUCTION_RULES, timing=timing)
    node = RaftNode(RaftPlan(ME, ALONE, rules, inline), storage, lambda _: None, Random(1))
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        await node.wait_until(lambda standing: standing.is_leader)
        for value in ("1", "2", "3", "4"):
            assert isinstance(await propose(node, node.image.version, value), Committed)
        begin_s = trio.current_time()
        await happens(lambda: len(caplog.records) == 2)
        assert trio.current_time() - begin_s >= 60
        why = "[Errno 28] No space left on device: 'snapshot'"
        assert {record.getMessage() for record in caplog.records} == {
            f"a snapshot cannot be written, waiting for space: {why}"
        }
        assert node.disk_full
        assert node.is_leader, "its log has room"
        assert not node.log_full
        storage.room = True
        await happens(lambda: not node.disk_full)
        assert "a snapshot can be written again" in caplog.records[-1].getMessage()
        nursery.cancel_scope.cancel()


class BrokenDiskError(OSError):
    """What a disk says that fails to sync."""


async def test_a_disk_that_fails_stops_the_node_and_leaves_nobody_waiting() -> None:
    broken = False

    async def run_blocking(work: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        if broken:
            raise BrokenDiskError
        work()

    node = new_node(SimulatedStorage(Random(1)), run_blocking)
    outcomes: list[object] = []

    async def propose_one() -> None:
        outcomes.append(await propose(node, 0, "1"))

    async with trio.open_nursery() as outer:
        with pytest.RaisesGroup(BrokenDiskError, flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                await nursery.start(node.run)
                broken = True
                outer.start_soon(propose_one)
    assert outcomes == [Unknown()]
    assert await propose(node, 0, "2") == NotLeader()


async def test_proposals_under_way_when_the_node_is_stopped_are_unknown() -> None:
    release = trio.Event()

    async def run_blocking(work: Callable[[], None]) -> None:
        if node_started:
            await release.wait()
        work()
        await trio.lowlevel.checkpoint()

    node_started = False
    node = new_node(SimulatedStorage(Random(1)), run_blocking)
    outcomes: dict[str, object] = {}

    async def propose_one(name: str) -> None:
        outcomes[name] = await propose(node, 0, name)

    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        await nursery.start(node.run)
        node_started = True
        outer.start_soon(propose_one, "first")
        await wait_all_tasks_blocked()
        outer.start_soon(propose_one, "second")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert outcomes == {"first": Unknown(), "second": NotLeader(ME)}
