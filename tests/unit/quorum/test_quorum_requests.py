"""Requests about the quorum: who may be asked to vote, and who is told why not."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock

from quorate.control import messages as m
from quorate.errors import ErrorCode, KafkaError, NotControllerError
from quorate.model import Endpoint
from quorate.quorum.deciding import Asked
from quorate.quorum.metadata.records import TopicRemoved
from quorate.quorum.quorum_requests import QuorumRequests
from quorate.quorum.raft.rules import PRODUCTION_RULES
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_mesh import Identity, RaftMesh
from quorate.quorum.raft_node import RaftNode, RaftPlan, inline

ME = ReplicaKey(1, b"d" * 16)
HERE = Endpoint("h", 1)


async def nobody(endpoint: Endpoint) -> trio.abc.Stream:
    raise AssertionError(f"{endpoint} is not to be dialed")


@asynccontextmanager
async def running(storage: SimulatedStorage) -> AsyncGenerator[tuple[RaftNode, QuorumRequests]]:
    """A controller that leads, with nobody else."""
    identity = Identity(ME, "cluster", HERE, b"i" * 16)
    mesh = RaftMesh(identity, nobody, Random(1))
    plan = RaftPlan(ME, VoterSet.of([Voter(ME, HERE)]), PRODUCTION_RULES, inline)
    node = RaftNode(plan, storage, mesh.send, Random(1))
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        await node.read(math.inf)
        yield node, QuorumRequests(node, mesh, identity, lambda: 0)
        nursery.cancel_scope.cancel()


async def refusal(request: m.AddVoter) -> KafkaError:
    async with running(SimulatedStorage(Random(1))) as (_, requests):
        with pytest.raises(KafkaError) as caught:
            await requests.add_voter(request, Asked(b"", trio.current_time() + 5))
    return caught.value


@pytest.mark.parametrize(
    "endpoint", [Endpoint("a..b", 9190), Endpoint("h." * 2500 + "h", 9190), Endpoint("h", 0)]
)
async def test_who_cannot_be_connected_to_does_not_vote(
    endpoint: Endpoint, autojump_clock: MockClock
) -> None:
    error = await refusal(m.AddVoter(2, b"2" * 16, endpoint))
    assert error.code == ErrorCode.INVALID_REQUEST
    assert "nobody can connect to controller 2-" in error.message


@pytest.mark.parametrize("directory_id", [ME.directory_id, b"2" * 16, m.NO_DIRECTORY])
async def test_an_id_votes_with_one_directory(
    directory_id: bytes, autojump_clock: MockClock
) -> None:
    error = await refusal(m.AddVoter(1, directory_id, Endpoint("other", 9190)))
    assert error.code == ErrorCode.DUPLICATE_VOTER, "as Kafka answers, whichever directory it is"


async def test_a_controller_tells_whether_its_disk_is_full(autojump_clock: MockClock) -> None:
    storage = SimulatedStorage(Random(1))
    async with running(storage) as (node, requests), trio.open_nursery() as nursery:
        local, asked = m.DescribeQuorum(local=True), Asked(b"", math.inf)
        assert not (await requests.describe(local, asked)).disk_full
        storage.full = True
        nursery.start_soon(node.propose, 0, [TopicRemoved("c", 1, bytes(16))], math.inf)
        await trio.sleep(5)
        told = await requests.describe(local, asked)
        assert (told.disk_full, told.leader_id) == (True, m.NO_NODE)
        with pytest.raises(NotControllerError, match="this controller's disk is full, and it know"):
            await requests.describe(m.DescribeQuorum(), asked)
        storage.full = False
        await node.wait_until(lambda standing: standing.is_leader)
        assert not (await requests.describe(local, asked)).disk_full
