"""A controller with several brokers: who is gone, who leads again, what moves."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from quorate.control import messages as m
from quorate.control.partition_messages import (
    AlterPartition,
    AlterReassignments,
    ChangeBroker,
    Election,
    ElectLeaders,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import RequestTimedOutError
from quorate.model import Endpoint
from quorate.net.looking import all_refuse
from quorate.quorum.control import brokers, elections
from quorate.quorum.control.decision import Decision
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.directory import open_controller_directory
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.features import SUPPORTED
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from quorate.quorum.raft_node import in_thread
from quorate.settings import NodeConfig

pytestmark = pytest.mark.integration

CONFIG = NodeConfig(broker_session_timeout_ms=60_000, leader_imbalance_check_interval_seconds=1)


@asynccontextmanager
async def controller(path: Path, config: NodeConfig = CONFIG) -> AsyncGenerator[Controller, None]:
    directory = open_controller_directory(path, 1, cluster_id=None)
    if not directory.meta.is_formatted:
        directory.found_alone(None, NO_LISTENER)
    running = Controller(directory, config, Random(1), alone(in_thread, 2))
    async with trio.open_nursery() as nursery:
        await nursery.start(running.run)
        yield running
        nursery.cancel_scope.cancel()
    directory.close()


async def free_endpoint() -> Endpoint:
    """Return an address that nobody listens at."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    return Endpoint("127.0.0.1", port)


async def listening() -> tuple[trio.SocketListener, Endpoint]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return listener, Endpoint("127.0.0.1", listener.socket.getsockname()[1])


async def join(service: Controller, broker_id: int, endpoint: Endpoint) -> int:
    request = m.RegisterBroker(
        broker_id,
        bytes([broker_id]) * 16,
        {"PLAINTEXT": endpoint},
        directory_id=bytes([broker_id]) * 16,
        features=tuple(SUPPORTED.values()),
    )
    epoch = (await service.handle(request)).broker_epoch
    beat = m.BrokerHeartbeat(broker_id, epoch, service.image.version)
    assert not (await service.handle(beat)).fenced
    return epoch


async def wait_until(service: Controller, condition: Callable[[MetadataImage], bool]) -> None:
    with trio.fail_after(10):
        while not condition(service.image):
            await service.raft.wait_for_version_after(service.image.version)


async def create(service: Controller, *replicas: int) -> None:
    topic = m.NewTopic("t", assignment={0: replicas})
    answer = await service.handle(m.CreateTopics((topic,)))
    assert [t.failure for t in answer.topics] == [m.DONE]


def state(image: MetadataImage) -> PartitionState:
    return image.topics["t"].partitions[0]


async def test_a_broker_whose_process_is_gone_is_fenced_long_before_its_session_expires(
    tmp_path: Path,
) -> None:
    async with controller(tmp_path) as service, trio.open_nursery() as nursery:
        listener, here = await listening()
        doomed, there = await listening()
        await join(service, 1, there)
        await join(service, 2, here)
        await create(service, 1, 2)
        news = m.FetchMetadata(service.image.version, 60_000, broker_id=1)
        connection = trio.CancelScope()

        async def wait_for_news() -> None:
            with connection:
                await service.handle(news, 60)

        nursery.start_soon(wait_for_news)
        await trio.sleep(0.5)
        assert service.image.live_broker_ids() == {1, 2}, "it waits for news"
        began_s = trio.current_time()
        await doomed.aclose()
        connection.cancel()
        await wait_until(service, lambda image: image.brokers[1].fenced)
        assert trio.current_time() - began_s < 2
        assert state(service.image).leader_id == 2
        await trio.sleep(1.5)
        assert service.image.live_broker_ids() == {2}, "somebody listens there"
        await join(service, 1, here)
        await listener.aclose()


async def test_a_broker_that_the_controller_cannot_reach_where_its_clients_do_is_not_gone(
    tmp_path: Path,
) -> None:
    async with controller(tmp_path) as service:
        await join(service, 1, await free_endpoint())
        for _ in range(3):
            with trio.move_on_after(0.5):
                await service.handle(m.FetchMetadata(service.image.version, 60_000, 1), 60)
            await trio.sleep(0.5)  # it is busy with what came
        assert service.image.live_broker_ids() == {1}


async def test_brokers_that_vanish_together_are_fenced_together(tmp_path: Path) -> None:
    doomed = range(1, 21)
    doomed_ids = frozenset(doomed)
    async with controller(tmp_path) as service:
        listener, here = await listening()
        theirs, there = await listening()
        for broker_id in doomed:
            await join(service, broker_id, there)
        await join(service, 21, here)
        await create(service, *doomed, 21)
        version = service.image.version
        async with trio.open_nursery() as connections:
            for broker_id in doomed:
                news = m.FetchMetadata(version, 60_000, broker_id=broker_id)
                connections.start_soon(service.handle, news, 60)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await theirs.aclose()
            connections.cancel_scope.cancel()
        await wait_until(service, lambda image: not doomed_ids & image.live_broker_ids())
        assert state(service.image).leader_id == 21
        batches = service.raft.machine.since(version).batches
        causes = {record.cause for batch in batches for record in decode_batch(batch.records)}
        assert len(causes) < 5, "they are not fenced one after the other"
        await listener.aclose()


async def test_only_who_says_no_is_gone() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    here = Endpoint("127.0.0.1", listener.socket.getsockname()[1])
    gone = await free_endpoint()
    assert await all_refuse([gone])
    assert not await all_refuse([gone, here])
    assert not await all_refuse([])
    assert not await all_refuse([Endpoint("no-such-host.invalid", 1)])
    await listener.aclose()
    assert await all_refuse([gone, here])


async def test_preferred_leaders_lead_again_by_themselves(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        epochs = {b: await join(service, b, await free_endpoint()) for b in (1, 2)}
        await create(service, 1, 2)
        await service.handle(ChangeBroker(1, draining=True))
        assert state(service.image).leader_id == 2
        assert epochs[1] == service.image.brokers[1].broker_epoch
        await trio.sleep(1.2)
        assert state(service.image).leader_id == 2, "it is drained"
        await service.handle(ChangeBroker(1, draining=False))
        await wait_until(service, lambda image: state(image).leader_id == 1)


async def test_leaders_are_left_where_they_are_if_that_is_asked_for(tmp_path: Path) -> None:
    config = NodeConfig(
        broker_session_timeout_ms=60_000,
        auto_leader_rebalance_enable=False,
        leader_imbalance_check_interval_seconds=1,
    )
    async with controller(tmp_path, config) as service:
        for broker_id in (1, 2):
            await join(service, broker_id, await free_endpoint())
        await create(service, 1, 2)
        await service.handle(ChangeBroker(1, draining=True))
        await service.handle(ChangeBroker(1, draining=False))
        await trio.sleep(1.5)
        assert state(service.image).leader_id == 2
        await service.handle(ElectLeaders(Election.PREFERRED, {"t": (0,)}))
        assert state(service.image).leader_id == 1


async def test_a_partition_moves_from_one_broker_to_another(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        epochs = {b: await join(service, b, await free_endpoint()) for b in (1, 2)}
        await create(service, 1)
        answer = await service.handle(AlterReassignments({"t": {0: (2,)}}))
        assert [p.failure for p in answer.partitions] == [m.DONE]
        moving = state(service.image)
        assert (moving.replicas, moving.adding_replicas) == ((2, 1), (2,))
        in_sync = tuple(InSyncReplica(b, epoch) for b, epoch in epochs.items())
        topic_id = service.image.topics["t"].topic_id
        grown = PartitionAlteration(
            topic_id, 0, moving.leader_epoch, moving.partition_epoch, in_sync
        )
        await service.handle(AlterPartition(1, epochs[1], (grown,)))
        arrived = state(service.image)
        assert (arrived.replicas, arrived.leader_id, arrived.is_moving) == ((2,), 2, False)


async def restart(service: Controller, incarnation: int) -> None:
    """Let another process of broker 1 register."""
    now = service.image.brokers[1]
    request = m.RegisterBroker(
        1,
        bytes([incarnation]) * 16,
        now.endpoints,
        directory_id=now.directory_id,
        features=now.features,
    )
    epoch = (await service.handle(request)).broker_epoch
    beat = m.BrokerHeartbeat(1, epoch, service.image.version)
    assert not (await service.handle(beat)).fenced


def all_are_led(image: MetadataImage) -> bool:
    return not image.topics["t"].leaderless


async def create_ten(service: Controller) -> None:
    """Create partitions that only broker 1 has."""
    topic = m.NewTopic("t", assignment=dict.fromkeys(range(10), (1,)))
    await service.handle(m.CreateTopics((topic,)))


def nothing(*_: object) -> tuple[()]:
    return ()


def move_at_a_time(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module in (brokers, elections):
        monkeypatch.setattr(module, "MOVED_TOGETHER_MAX", count)


async def test_a_broker_that_holds_too_much_for_one_command_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_at_a_time(monkeypatch, 3)
    async with controller(tmp_path) as service:
        await join(service, 1, await free_endpoint())
        await create_ten(service)
        version = service.image.version
        await restart(service, 2)
        await wait_until(service, all_are_led)
        batches = service.raft.machine.since(version).batches
        assert max(len(decode_batch(batch.records)) for batch in batches) == 4
        monkeypatch.setattr(brokers, "lead_what_waits", nothing)
        await restart(service, 3)
        await trio.sleep(0.3)
        assert service.image.topics["t"].leaderless == 7
    monkeypatch.undo()
    async with controller(tmp_path) as service:
        await wait_until(service, all_are_led)


async def test_a_broker_whose_successor_gives_up_halfway_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = brokers.register

    def register_half(image: MetadataImage, *asked: Any) -> Decision[m.RegisterBrokerAnswer]:
        if image.topics["t"].leaderless:
            raise RequestTimedOutError
        return register(image, *asked)

    move_at_a_time(monkeypatch, 3)
    async with controller(tmp_path) as service:
        await join(service, 1, await free_endpoint())
        await create_ten(service)
        monkeypatch.setattr(brokers, "register", register_half)
        with pytest.raises(RequestTimedOutError):
            await restart(service, 2)
        await wait_until(service, lambda image: image.brokers[1].fenced)
        assert service.image.topics["t"].leaderless == 10


async def test_a_cluster_begins_with_the_rules_that_its_controller_was_started_with(
    tmp_path: Path,
) -> None:
    async with controller(tmp_path) as service:
        (properties,) = service.image.configs.values()
        assert properties == {"min.insync.replicas": "2"}


async def test_who_can_write_again_leads_at_once_what_nobody_could_write(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        endpoint = await free_endpoint()
        epochs = {broker_id: await join(service, broker_id, endpoint) for broker_id in (1, 2)}
        await create(service, 1, 2)

        async def beat(broker_id: int, *, cannot_write: bool) -> None:
            await service.handle(
                m.BrokerHeartbeat(
                    broker_id, epochs[broker_id], service.image.version, cannot_write=cannot_write
                )
            )

        await beat(1, cannot_write=True)
        await beat(2, cannot_write=True)
        assert state(service.image).leader_id == 2
        await beat(1, cannot_write=False)
        await beat(2, cannot_write=True)
        assert state(service.image).leader_id == 1
