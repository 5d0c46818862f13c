"""Controllers connect to each other, in memory: who is let in, what gets through, what breaks."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from quorate.control.frames import LENGTH_BYTES, Frame, encode_frame
from quorate.control.messages import Answer, Hello, HelloAnswer, Member, Purpose
from quorate.errors import ErrorCode, KafkaError, NetworkError
from quorate.model import Endpoint
from quorate.net.control import ControlStream, ReceiveBudget, introduce, serve_control_connection
from quorate.quorum.raft.messages import (
    SNAPSHOT_CHUNK_BYTES,
    Heartbeat,
    RaftMessage,
    SnapshotChunk,
    Vote,
    encode_message,
)
from quorate.quorum.raft.rounds import Outgoing
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_mesh import (
    QUEUE_BYTES_MAX,
    RECONNECT_MAX_S,
    TWIN_S,
    Identity,
    RaftMesh,
    TwinError,
)

CLUSTER = "cluster"


def key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id if directory is None else directory]) * 16)


def at(node_id: int) -> Endpoint:
    return Endpoint("host", node_id)


def identity(who: ReplicaKey, where: Endpoint | None = None, incarnation: bytes = b"i") -> Identity:
    return Identity(who, CLUSTER, where or at(who.node_id), incarnation)


class Peer:
    """A controller: its mesh, its door, and what its Raft node would hear."""

    def __init__(
        self, network: "Network", who: Identity, bootstrap: Iterable[Endpoint] = ()
    ) -> None:
        self.network = network
        self.identity = who
        self.mesh = RaftMesh(who, network.connect, Random(1), bootstrap=tuple(bootstrap))
        self.heard: list[tuple[ReplicaKey, RaftMessage]] = []
        self.connected: list[ReplicaKey] = []
        self.connections = 0
        network.peers[who.endpoint] = self

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        self.heard.append((source, message))

    def peer_connected(self, key: ReplicaKey) -> None:
        assert key not in self.connected, "one connection each"
        self.connected.append(key)
        self.connections += 1

    def peer_disconnected(self, key: ReplicaKey) -> None:
        self.connected.remove(key)

    def send(self, target: ReplicaKey, *messages: RaftMessage) -> None:
        self.mesh.send([Outgoing(target, message) for message in messages])

    # --- its door

    def greet(self, hello: Hello) -> HelloAnswer:
        if hello.purpose is Purpose.MESH:
            self.mesh.admit(hello)
        me = self.identity
        voters = self.mesh.voters.voters
        told = tuple(Member(v.key.node_id, v.key.directory_id, v.endpoint) for v in voters)
        return HelloAnswer(
            me.cluster_id, me.key.node_id, 1, me.key.directory_id, me.endpoint, voters=told
        )

    def begin(self, frame: Frame) -> None:
        pass

    async def answer(self, frame: Frame) -> Answer:
        raise KafkaError(code=ErrorCode.NOT_CONTROLLER)

    async def serve_mesh(self, hello: Hello, frames: ControlStream) -> None:
        await self.mesh.serve(hello, frames)


class Network:
    """Connects by memory streams; keeps them, so that a test can cut or stop them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.peers: dict[Endpoint, Peer] = {}
        self.streams: list[tuple[Endpoint, Any]] = []
        self.dials = Counter[Endpoint]()

    async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.dials[endpoint] += 1
        peer = self.peers.get(endpoint)
        if peer is None:
            raise NetworkError(f"nobody at {endpoint}")
        ours, theirs = memory_stream_pair()
        self.streams.append((endpoint, ours))
        budget = ReceiveBudget(2**20)
        self.nursery.start_soon(serve_control_connection, theirs, peer, budget)
        return ours

    async def cut(self) -> None:
        streams, self.streams = self.streams, []
        for _, stream in streams:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def a_network() -> AsyncGenerator[Network, None]:
    async with trio.open_nursery() as nursery:
        yield Network(nursery)
        nursery.cancel_scope.cancel()


async def started(network: Network, *peers: Peer, voters: VoterSet = NO_VOTERS) -> None:
    for peer in peers:
        await network.nursery.start(peer.mesh.run, peer)
        peer.mesh.follow(voters)
    await trio.sleep(1)


def voters_of(*peers: Peer) -> VoterSet:
    return VoterSet.of(Voter(peer.identity.key, peer.identity.endpoint) for peer in peers)


async def trio_of_voters(network: Network) -> list[Peer]:
    peers = [Peer(network, identity(key(node_id))) for node_id in (1, 2, 3)]
    await started(network, *peers, voters=voters_of(*peers))
    return peers


# --- what gets through


async def test_voters_connect_each_to_every_other(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        peers = await trio_of_voters(network)
        for peer in peers:
            others = {other.identity.key for other in peers if other is not peer}
            assert set(peer.connected) == others
            assert peer.connections == 2


async def test_messages_arrive_in_order_and_only_where_they_should(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        a, b, c = await trio_of_voters(network)
        a.send(key(2), Vote(1), Vote(2), Vote(3))
        a.send(key(9), Vote(4))
        c.send(key(2), Heartbeat(5, 0))
        await wait_all_tasks_blocked()
        assert [h for h in b.heard if h[0] == key(1)] == [(key(1), Vote(n)) for n in (1, 2, 3)]
        assert (key(3), Heartbeat(5, 0)) in b.heard
        assert a.heard == []
        assert c.heard == []


async def test_an_observer_finds_a_voter_and_is_found(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        voters = await trio_of_voters(network)
        observer = Peer(network, identity(key(4)), [at(1), at(2), at(3), at(4)])
        await started(network, observer)
        assert set(observer.connected) == {key(1), key(2), key(3)}
        assert all(key(4) in voter.connected for voter in voters)
        voters[0].send(key(4), Vote(1))
        observer.send(key(1), Vote(2))
        await wait_all_tasks_blocked()
        assert observer.heard == [(key(1), Vote(1))]
        assert (key(4), Vote(2)) in voters[0].heard
        assert voters[0].mesh.endpoint_of(key(4)) == at(4)
        observer.mesh.follow(voters_of(*voters))
        await trio.sleep(5)
        assert set(observer.connected) == {key(1), key(2), key(3)}


async def test_who_joins_hears_of_voters_whose_addresses_it_was_not_given(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        first, second, lost = (Peer(network, identity(key(n))) for n in (1, 2, 3))
        voters = voters_of(first, second, lost)
        await started(network, first, second, voters=voters)
        replacing = Peer(network, identity(key(3, directory=9)), bootstrap=(at(1),))
        await started(network, replacing)
        assert sorted(replacing.connected) == [key(1), key(2)]
        assert key(3, directory=9) in second.connected
        replacing.mesh.follow(voters)
        await trio.sleep(1)
        assert sorted(replacing.connected) == [key(1), key(2)]


async def test_connections_stay_when_the_same_controller_is_known_by_two_addresses(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        voters = await trio_of_voters(network)
        network.peers[Endpoint("alias", 1)] = voters[0]
        observer = Peer(network, identity(key(4)), [Endpoint("alias", 1)])
        await started(network, observer)
        await trio.sleep(5)
        before = network.dials.copy()
        await trio.sleep(60)
        assert sorted(observer.connected) == [key(1), key(2), key(3)]
        assert network.dials == before


async def test_a_new_disk_under_an_old_address_keeps_its_connections(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        a, b = (Peer(network, identity(key(node_id))) for node_id in (1, 2))
        lost = Voter(key(3), at(3))
        voters = voters_of(a, b).with_voter(lost)
        fresh = Peer(network, identity(key(3, directory=9), at(3)), [at(1), at(2), at(3)])
        await started(network, a, b, voters=voters)
        await started(network, fresh)
        await trio.sleep(10)
        before = network.dials.copy()
        await trio.sleep(60)
        assert set(a.connected) == {key(2), key(3, directory=9)}
        assert set(fresh.connected) == {key(1), key(2)}
        assert network.dials == before


# --- what breaks


async def test_connections_that_break_are_made_anew_soon(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        a, b, _ = await trio_of_voters(network)
        await network.cut()
        await trio.sleep(2 * RECONNECT_MAX_S)
        assert set(a.connected) == {key(2), key(3)}
        a.send(key(2), Vote(7))
        await wait_all_tasks_blocked()
        assert (key(1), Vote(7)) in b.heard


async def test_a_peer_that_takes_nothing_loses_its_connection_not_our_memory(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        a, _, _ = await trio_of_voters(network)

        async def stuck() -> None:
            await trio.sleep_forever()

        for endpoint, stream in network.streams:
            if endpoint == at(2):
                stream.send_stream.send_all_hook = stuck
        a.send(key(2), Vote(1))
        await wait_all_tasks_blocked()
        assert key(2) in a.connected
        chunk = SnapshotChunk(1, 1, 1, 10**9, 0, 0, bytes(SNAPSHOT_CHUNK_BYTES))
        a.send(key(2), *[chunk] * (QUEUE_BYTES_MAX // SNAPSHOT_CHUNK_BYTES + 1))
        await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert key(2) not in a.connected
        await trio.sleep(2 * RECONNECT_MAX_S)
        assert key(2) in a.connected


async def test_a_voter_that_is_removed_is_not_dialed_any_more(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        a, b = (Peer(network, identity(key(node_id))) for node_id in (1, 2))
        both, lost = voters_of(a, b), Voter(key(3), at(3))
        await started(network, a, b, voters=both.with_voter(lost))
        assert network.dials[at(3)] > 2
        assert a.mesh.endpoint_of(key(3)) == at(3)
        a.mesh.follow(both)
        b.mesh.follow(both)
        before = network.dials.copy()
        await trio.sleep(60)
        assert network.dials == before
        assert (a.connected, b.connected) == ([key(2)], [key(1)])
        assert a.mesh.endpoint_of(key(3)) is None


@pytest.mark.parametrize(
    "sent", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x01\xff", b"\0\0\0\x02\xa1"]
)
async def test_what_is_no_raft_frame_ends_the_connection_and_nothing_else(
    sent: bytes, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        a, b, _ = await trio_of_voters(network)
        stranger = await network.connect(at(1))
        await stranger.send_all(encode_frame(Frame(0, identity(key(8)).hello(Purpose.MESH))))
        await wait_all_tasks_blocked()
        await stranger.send_all(sent)
        with trio.move_on_after(40):
            while await stranger.receive_some():
                pass
        assert trio.current_time() < 40
        b.send(key(1), Vote(3))
        await wait_all_tasks_blocked()
        assert (key(2), Vote(3)) in a.heard


# --- who is let in


async def refusal_of(network: Network, hello: Hello) -> KafkaError:
    stream = await network.connect(at(1))
    with pytest.raises(KafkaError) as caught:
        await introduce(stream, hello)
    return caught.value


@pytest.mark.parametrize(
    "hello",
    [
        Hello("other", 4, directory_id=b"d" * 16, purpose=Purpose.MESH, endpoint=at(4)),
        Hello("", 4, directory_id=b"d" * 16, purpose=Purpose.MESH, endpoint=at(4)),
        Hello(CLUSTER, 4, directory_id=b"d" * 16, purpose=Purpose.MESH),
        Hello(CLUSTER, -1, directory_id=b"d" * 16, purpose=Purpose.MESH, endpoint=at(4)),
        Hello(CLUSTER, 4, directory_id=b"d" * 15, purpose=Purpose.MESH, endpoint=at(4)),
        Hello(CLUSTER, 4, purpose=Purpose.MESH, endpoint=at(4)),
        Hello(
            CLUSTER, 4, directory_id=b"d" * 16, purpose=Purpose.MESH, endpoint=Endpoint("a..b", 4)
        ),
        Hello(CLUSTER, 4, directory_id=b"d" * 16, purpose=Purpose.MESH, endpoint=at(0)),
    ],
)
async def test_whoever_is_no_controller_of_the_cluster_is_refused(
    hello: Hello, autojump_clock: MockClock
) -> None:
    async with a_network() as network:
        await trio_of_voters(network)
        assert (await refusal_of(network, hello)).code == ErrorCode.INVALID_REQUEST


async def test_who_has_the_id_of_a_living_controller_gives_up_and_no_voter_does(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        voters = await trio_of_voters(network)
        twin = Peer(network, identity(key(1, directory=9), Endpoint("host", 9)), [at(2), at(3)])
        with pytest.RaisesGroup(pytest.RaisesExc(TwinError, match="the id 1")):
            await twin.mesh.run(twin)
        assert TWIN_S <= trio.current_time() < TWIN_S + 5
        assert all(len(voter.connected) == 2 for voter in voters)


async def test_who_comes_back_is_let_in_once_others_notice_that_it_had_gone(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        await trio_of_voters(network)
        before = Peer(network, identity(key(4), Endpoint("host", 4)), [at(1), at(2), at(3)])
        life = trio.CancelScope()
        network.nursery.start_soon(_run_in, life, before)
        await trio.sleep(1)
        again = Peer(
            network, identity(key(4, directory=9), Endpoint("host", 5)), [at(1), at(2), at(3)]
        )
        await network.nursery.start(again.mesh.run, again)
        await trio.sleep(TWIN_S / 2)
        assert again.connected == []
        life.cancel()
        await network.cut()
        await trio.sleep(TWIN_S)
        assert set(again.connected) == {key(1), key(2), key(3)}


async def _run_in(scope: trio.CancelScope, peer: Peer) -> None:
    with scope:
        await peer.mesh.run(peer)


async def test_two_controllers_with_one_id_are_refused_and_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_network() as network:
        await trio_of_voters(network)
        for twin in (key(1, directory=9), key(2, directory=9)):
            hello = identity(twin, at(9)).hello(Purpose.MESH)
            await refusal_of(network, hello)
            refusal = await refusal_of(network, hello)
            assert refusal.code == ErrorCode.DUPLICATE_VOTER
            assert f"two controllers have the id {twin.node_id}" in refusal.message
            assert caplog.text.count(refusal.message) == 1, "it comes again and again"


async def test_a_stranger_with_the_id_of_a_voter_does_not_keep_it_out(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        a, b, c = [Peer(network, identity(key(node_id))) for node_id in (1, 2, 3)]
        await started(network, a, b, voters=voters_of(a, b, c))
        stream = await network.connect(at(1))
        await introduce(stream, identity(key(3, directory=9), at(9)).hello(Purpose.MESH))
        await wait_all_tasks_blocked()
        assert a.mesh.endpoint_of(key(3, directory=9)) == at(9)
        await started(network, c, voters=voters_of(a, b, c))
        assert key(1) in c.connected
        c.send(key(1), Vote(1))
        await wait_all_tasks_blocked()
        assert a.heard == [(key(3), Vote(1))]


async def test_strangers_that_come_and_go_are_not_remembered(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        a, _, _ = await trio_of_voters(network)
        for node_id in range(100, 120):
            stream = await network.connect(at(1))
            await introduce(stream, identity(key(node_id)).hello(Purpose.MESH))
            await trio.sleep(RECONNECT_MAX_S)
            await stream.aclose()
            await trio.sleep(RECONNECT_MAX_S)
        assert len(a.mesh._tried) <= 3  # pyright: ignore[reportPrivateUsage]


async def test_a_copy_of_a_controller_is_refused_while_that_one_is_heard(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        a, b, _ = await trio_of_voters(network)
        await trio.sleep(60)
        b.send(key(1), Vote(1))
        await wait_all_tasks_blocked()
        copy = identity(key(2), at(9), incarnation=b"copy").hello(Purpose.MESH)
        assert (await refusal_of(network, copy)).code == ErrorCode.DUPLICATE_VOTER
        await trio.sleep(60)
        stream = await network.connect(at(1))
        await introduce(stream, copy)
        assert a.mesh.endpoint_of(key(2)) == at(2), "until the newcomer says something"
        body = encode_message(Vote(2))
        await stream.send_all(len(body).to_bytes(LENGTH_BYTES, "big") + body)
        await wait_all_tasks_blocked()
        assert a.mesh.endpoint_of(key(2)) == at(9)


async def test_a_controller_that_does_not_run_yet_lets_nobody_in(autojump_clock: MockClock) -> None:
    async with a_network() as network:
        Peer(network, identity(key(1)))
        refusal = await refusal_of(network, identity(key(2)).hello(Purpose.MESH))
        assert refusal.code == ErrorCode.NETWORK_EXCEPTION


async def test_a_controller_that_is_told_its_own_address_does_not_talk_to_itself(
    autojump_clock: MockClock,
) -> None:
    async with a_network() as network:
        lonely = Peer(network, identity(key(1)), [at(1), Endpoint("alias", 1)])
        network.peers[Endpoint("alias", 1)] = lonely
        await started(network, lonely)
        await trio.sleep(10)
        assert lonely.connected == []
