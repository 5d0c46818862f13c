"""The Trio shell around the core: outcomes, durability, a full disk, a broken one."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.quorum.metadata.machine import Committed, Conflict, Refused
from quorate.quorum.metadata.records import ConfigSet, TopicRemoved
from quorate.quorum.raft.core import CommandTooLargeError
from quorate.quorum.raft.proposals import NotLeader, Unknown
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft_node import RaftNode, RunBlocking, in_thread, inline


def config(value: str) -> ConfigSet:
    return ConfigSet("c", 1, "broker", "", "k", value)


@asynccontextmanager
async def running(
    storage: SimulatedStorage, run_blocking: RunBlocking = inline
) -> AsyncGenerator[RaftNode, None]:
    node = RaftNode(1, storage, rng=Random(1), run_blocking=run_blocking)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        yield node
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("run_blocking", [inline, in_thread])
async def test_records_are_committed_once_the_node_runs(run_blocking: RunBlocking) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage, run_blocking) as node:
        assert node.is_leader
        assert await node.propose(0, [config("1")]) == Committed(3)
        assert node.image.version == 3
        assert (node.commit_index, node.last_index, node.term) == (3, 3, 1)
        assert node.snapshot_index == 0
        assert await node.read_barrier()
    async with running(storage, run_blocking) as node:
        assert node.image.version == 3
        assert node.machine.image is node.image


async def test_a_decision_on_an_old_version_conflicts() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        await node.propose(0, [config("1")])
        assert await node.propose(0, [config("2")]) == Conflict(3)


async def test_one_of_two_decisions_on_one_version_wins() -> None:
    outcomes: list[object] = []
    async with running(SimulatedStorage(Random(1))) as node:

        async def propose(value: str) -> None:
            outcomes.append(await node.propose(0, [config(value)]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(propose, "1")
            nursery.start_soon(propose, "2")
    assert set(outcomes) == {Committed(3), Conflict(3)}


async def test_records_that_contradict_the_image_are_refused() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        assert isinstance(await node.propose(0, [TopicRemoved("c", 1, b"i" * 16)]), Refused)


async def test_a_command_that_is_too_large_is_refused() -> None:
    async with running(SimulatedStorage(Random(1))) as node:
        with pytest.raises(CommandTooLargeError):
            await node.propose(0, [config("x" * 5_000_000)])
        assert await node.propose(0, [config("1")]) == Committed(3)


async def test_a_node_that_does_not_run_is_not_the_leader() -> None:
    node = RaftNode(1, SimulatedStorage(Random(1)), rng=Random(1), run_blocking=inline)
    assert await node.propose(0, [config("1")]) == NotLeader()
    assert not await node.read_barrier()


async def test_followers_are_woken_by_commits() -> None:
    woken: list[int] = []
    async with running(SimulatedStorage(Random(1))) as node, trio.open_nursery() as nursery:

        async def follow() -> None:
            await node.wait_for_version_after(0)
            woken.append(node.image.version)

        nursery.start_soon(follow)
        await wait_all_tasks_blocked()
        assert woken == []
        await node.propose(0, [config("1")])
        await wait_all_tasks_blocked()
        assert woken == [3]


async def test_proposals_wait_for_space_and_are_then_committed(autojump_clock: MockClock) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage) as node, trio.open_nursery() as nursery:
        outcomes: list[object] = []

        async def propose() -> None:
            outcomes.append(await node.propose(0, [config("1")]))

        storage.full = True
        nursery.start_soon(propose)
        await trio.sleep(30)
        assert outcomes == []
        assert node.image.version == 0
        storage.full = False
        await trio.sleep(2)
        assert outcomes == [Committed(3)]


class BrokenDiskError(OSError):
    """What a disk says that fails to sync."""


async def test_a_disk_that_fails_stops_the_node_and_leaves_nobody_waiting() -> None:
    broken = False

    async def run_blocking(work: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        if broken:
            raise BrokenDiskError
        work()

    node = RaftNode(1, SimulatedStorage(Random(1)), rng=Random(1), run_blocking=run_blocking)
    outcomes: list[object] = []

    async def propose() -> None:
        outcomes.append(await node.propose(0, [config("1")]))

    async with trio.open_nursery() as outer:
        with pytest.RaisesGroup(BrokenDiskError):
            async with trio.open_nursery() as nursery:
                await nursery.start(node.run)
                broken = True
                outer.start_soon(propose)
    assert outcomes == [Unknown()]
    assert await node.propose(0, [config("2")]) == NotLeader()


async def test_proposals_under_way_when_the_node_is_stopped_are_unknown() -> None:
    release = trio.Event()

    async def run_blocking(work: Callable[[], None]) -> None:
        if node_started:
            await release.wait()
        work()
        await trio.lowlevel.checkpoint()

    node_started = False
    node = RaftNode(1, SimulatedStorage(Random(1)), rng=Random(1), run_blocking=run_blocking)
    outcomes: dict[str, object] = {}

    async def propose(name: str) -> None:
        outcomes[name] = await node.propose(0, [config(name)])

    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        await nursery.start(node.run)
        node_started = True
        outer.start_soon(propose, "first")
        await wait_all_tasks_blocked()
        outer.start_soon(propose, "second")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert outcomes == {"first": Unknown(), "second": NotLeader()}
