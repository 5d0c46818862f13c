"""First starts: controllers that hear each other become one cluster, over memory streams."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from quorate.control.frames import Frame
from quorate.control.messages import Answer, DescribeQuorum, Hello, HelloAnswer, Member, Purpose
from quorate.errors import ErrorCode, KafkaError, NetworkError, NotControllerError
from quorate.model import Endpoint
from quorate.net.control import (
    ControlService,
    ControlStream,
    ReceiveBudget,
    introduce,
    serve_control_connection,
)
from quorate.quorum.directory import ControllerDirectory, open_controller_directory
from quorate.quorum.forming import Forming, FormingError, FormingPlan
from quorate.quorum.raft.forming import cluster_id_for
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet


def at(node_id: int) -> Endpoint:
    return Endpoint("host", node_id)


ALL = [at(1), at(2), at(3)]


class Network:
    """Who answers at which address; nobody, unless a test says so."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.services: dict[Endpoint, ControlService] = {}

    async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        service = self.services.get(endpoint)
        if service is None:
            raise NetworkError(f"nobody at {endpoint}")
        ours, theirs = memory_stream_pair()
        budget = ReceiveBudget(2**20)
        self.nursery.start_soon(serve_control_connection, theirs, service, budget)
        return ours


@asynccontextmanager
async def a_network() -> AsyncGenerator[Network]:
    async with trio.open_nursery() as nursery:
        yield Network(nursery)
        nursery.cancel_scope.cancel()


class Starting:
    """A controller at its first start."""

    def __init__(
        self,
        network: Network,
        path: Path,
        node_id: int,
        addresses: Sequence[Endpoint] = ALL,
        cluster_id: str | None = None,
    ) -> None:
        self.directory: ControllerDirectory = open_controller_directory(
            path, node_id, cluster_id=None
        )
        plan = FormingPlan(addresses, cluster_id, at(node_id))
        self.forming = Forming(self.directory, plan, network.connect)
        network.services[at(node_id)] = self.forming

    async def run(self) -> None:
        try:
            await self.forming.run()
        finally:
            self.directory.close()


class Formatted:
    """A controller that is in a cluster already, as far as others hear."""

    def __init__(self, answer: HelloAnswer) -> None:
        self._answer = answer

    def greet(self, hello: Hello) -> HelloAnswer:
        return self._answer

    def begin(self, frame: Frame) -> None:
        pass

    async def answer(self, frame: Frame) -> Answer:
        raise NotControllerError

    async def serve_mesh(self, hello: Hello, frames: ControlStream) -> None:
        raise AssertionError("nobody gets that far")


async def test_three_that_start_together_found_one_cluster(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        one = Starting(network, tmp_path / "1", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            await trio.sleep(10)
            assert not one.directory.meta.is_formatted, "one alone does not know"
            two = Starting(network, tmp_path / "2", 2)
            nursery.start_soon(two.run)
            await trio.sleep(10)
            assert not two.directory.meta.is_formatted
            three = Starting(network, tmp_path / "3", 3)
            nursery.start_soon(three.run)
        metas = [c.directory.meta for c in (one, two, three)]
        (cluster_id,) = {meta.cluster_id for meta in metas}
        assert cluster_id == cluster_id_for(meta.key for meta in metas)
        assert metas[0].founders == metas[1].founders == metas[2].founders
        assert [v.endpoint for v in metas[0].founders.voters] == ALL


async def test_a_founder_that_missed_it_becomes_one_after_all(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        late = Starting(network, tmp_path / "3", 3)
        keys = [ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16), late.directory.meta.key]
        founders = tuple(Member(k.node_id, k.directory_id, at(k.node_id)) for k in keys)
        cluster_id = cluster_id_for(keys)
        network.services[at(1)] = Formatted(
            HelloAnswer(cluster_id, 1, 1, keys[0].directory_id, at(1), founders)
        )
        await late.run()
        assert late.directory.meta.cluster_id == cluster_id
        assert late.directory.meta.founders.keys == tuple(keys)


async def test_a_newcomer_joins_the_cluster_that_there_is(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        network.services[at(1)] = Formatted(HelloAnswer("there", 1, 1, b"1" * 16, at(1)))
        newcomer = Starting(network, tmp_path / "4", 4)
        await newcomer.run()
        assert newcomer.directory.meta.cluster_id == "there"
        assert newcomer.directory.meta.founders == NO_VOTERS


@pytest.mark.parametrize(
    "answer",
    [
        HelloAnswer("there", 1, 1, b"short", at(1)),
        HelloAnswer("there", 1, 1, b"1" * 16),
        HelloAnswer("there", 1, 1, b"1" * 16, Endpoint("a..b", 1)),
    ],
)
async def test_who_does_not_say_who_it_is_is_not_listened_to(
    answer: HelloAnswer, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        network.services[at(1)] = Formatted(answer)
        newcomer = Starting(network, tmp_path / "4", 4)
        with trio.move_on_after(60):
            await newcomer.run()
        assert not newcomer.directory.meta.is_formatted


async def test_what_will_not_work_out_is_told(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_network() as network:
        one = Starting(network, tmp_path / "1", 1)
        twin = Starting(network, tmp_path / "twin", 1)
        network.services[at(1)], network.services[at(2)] = one.forming, twin.forming
        with pytest.raises(FormingError, match="two controllers have the id 1"):
            await one.run()
        assert not one.directory.meta.is_formatted
        twin.directory.close()


async def test_it_says_for_whom_it_waits(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_network() as network:
        one = Starting(network, tmp_path / "1", 1)
        with trio.move_on_after(60):
            await one.run()
        (told,) = [r.getMessage() for r in caplog.records if "waiting" in r.getMessage()]
        assert "host:2, host:3" in told
        assert "host:1" not in told


async def test_who_recovers_is_in_its_cluster_for_whoever_lost_a_disk_meanwhile(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        recovering = [Starting(network, tmp_path / str(n), n) for n in (1, 2)]
        keys = [*(c.directory.meta.key for c in recovering), ReplicaKey(3, b"o" * 16)]
        founders = VoterSet.of(Voter(key, at(key.node_id)) for key in keys)
        for controller in recovering:
            controller.directory.format(cluster_id_for(keys), founders)
        wiped = Starting(network, tmp_path / "3", 3)
        await wiped.run()
        assert wiped.directory.meta.cluster_id == cluster_id_for(keys)
        assert wiped.directory.meta.founders == NO_VOTERS, "it joins, and does not vote"
        _, answer = await introduce(
            await network.connect(at(1)), Hello("", 4, directory_id=b"4" * 16, endpoint=at(4))
        )
        assert [member.node_id for member in answer.founders] == [1, 2, 3]
        for controller in recovering:
            controller.directory.close()


async def test_meanwhile_brokers_wait_and_controllers_hear_who_it_is(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        one = Starting(network, tmp_path / "1", 1)
        network.nursery.start_soon(one.run)

        async def greeted(hello: Hello) -> HelloAnswer:
            frames, answer = await introduce(await network.connect(at(1)), hello)
            await frames.aclose()
            return answer

        key = one.directory.meta.key
        asking = Hello("", 2, directory_id=b"2" * 16, endpoint=at(2))
        assert await greeted(asking) == HelloAnswer("", 1, 1, key.directory_id, at(1))
        with pytest.raises(NotControllerError):
            await greeted(Hello("", 100))
        with pytest.raises(KafkaError) as caught:
            await greeted(Hello("c", 2, directory_id=b"2" * 16, purpose=Purpose.MESH))
        assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
        with pytest.raises(NotControllerError):
            await one.forming.answer(Frame(1, DescribeQuorum()))
