"""How brokers and tools find the controller that leads, among controllers of the test."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from quorate.control import messages as m
from quorate.control.frames import Frame
from quorate.errors import ErrorCode, KafkaError, NotControllerError, RequestTimedOutError
from quorate.model import Endpoint
from quorate.net.control import ControlStream
from quorate.net.control_server import ControlServer
from quorate.tools import controllers
from quorate.tools.controllers import RemoteController, ask_once

QUORUM = m.DescribeQuorumAnswer(1, 2, 3, (), 4)
TOPICS = m.CreateTopics((m.NewTopic("t"),))
CREATED = m.CreateTopicsAnswer(())


class Fake:
    """A controller that says what the test wants; ``endpoint`` is known once it is started."""

    def __init__(self) -> None:
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.frames: list[Frame] = []
        self.asked_twice = trio.Event()
        self.leader: Fake | None = None
        self.errors: list[KafkaError] = []
        self.silent = 0
        self.cluster_id = "c"

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        if not self.cluster_id:
            raise NotControllerError("not in a cluster yet")
        if hello.cluster_id not in {"", self.cluster_id}:
            raise KafkaError("of another cluster", code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        return m.HelloAnswer(self.cluster_id, 1, 1)

    def begin(self, frame: Frame) -> None:
        pass

    async def answer(self, frame: Frame) -> m.Answer:
        self.frames.append(frame)
        if len(self.frames) == 2:
            self.asked_twice.set()
        if self.silent:
            self.silent -= 1
            await trio.sleep_forever()
        if self.errors:
            raise self.errors.pop(0)
        if self.leader is None:
            raise NotControllerError
        if self.leader is not self:
            raise NotControllerError(leader_id=2, leader_endpoint=self.leader.endpoint)
        return QUORUM if isinstance(frame.message, m.DescribeQuorum) else CREATED

    async def serve_mesh(self, hello: m.Hello, frames: ControlStream) -> None:
        raise AssertionError("tools do not do that")


@asynccontextmanager
async def serving(*fakes: Fake) -> AsyncGenerator[RemoteController]:
    """Start them all, and something that may ask them in this order."""
    async with trio.open_nursery() as nursery:
        for fake in fakes:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            fake.endpoint = Endpoint("127.0.0.1", listener.socket.getsockname()[1])
            nursery.start_soon(ControlServer(fake, None).run, [listener])
        remote = RemoteController(endpoints(fakes), 7)
        await nursery.start(remote.run)
        yield remote
        nursery.cancel_scope.cancel()


def endpoints(fakes: Sequence[Fake]) -> list[Endpoint]:
    return [fake.endpoint for fake in fakes]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "TRY_S", 0.2)


async def test_the_leader_is_followed_wherever_it_is() -> None:
    a, b = Fake(), Fake()
    a.leader = b.leader = b
    async with serving(a, b) as remote:
        for _ in range(3):
            assert await remote.call(m.DescribeQuorum()) == QUORUM
        assert len(a.frames) == 1, "and stayed with"
        a.leader = b.leader = a
        assert await remote.call(m.DescribeQuorum()) == QUORUM
        assert len(a.frames) == 2


async def test_a_controller_of_another_cluster_is_passed_over() -> None:
    follower, foreign, leader = Fake(), Fake(), Fake()
    leader.leader = leader
    async with serving(follower, foreign, leader) as remote:
        assert await remote.find_cluster() == "c"
        foreign.cluster_id = "another"
        assert await remote.call(m.DescribeQuorum(), 20) == QUORUM
        leader.cluster_id, leader.leader, follower.cluster_id = "another", None, "another"
        with pytest.raises(RequestTimedOutError, match=r"not our controller, .* of another"):
            await remote.call(m.DescribeQuorum(), 1)


async def test_while_nobody_leads_it_asks_again_until_somebody_does() -> None:
    a, b = Fake(), Fake()
    answers: list[Any] = []
    async with serving(a, b) as remote, trio.open_nursery() as nursery:

        async def ask() -> None:
            answers.append(await remote.call(m.DescribeQuorum(), 30))

        nursery.start_soon(ask)
        await a.asked_twice.wait()
        await b.asked_twice.wait()
        a.leader = b.leader = b
    assert answers == [QUORUM]


async def test_when_time_is_over_it_says_that_nobody_leads() -> None:
    async with serving(Fake()) as remote:
        with pytest.raises(RequestTimedOutError, match=r"no controller leads .* nothing was done"):
            await remote.call(TOPICS, 0.3)
    doubtful = Fake()
    doubtful.silent = 1
    async with serving(doubtful) as remote:
        with pytest.raises(RequestTimedOutError, match=r"no controller leads .* may be done"):
            await remote.call(TOPICS, 1)
    doubtful.silent = 1
    async with serving(doubtful) as remote:
        with pytest.raises(RequestTimedOutError, match=r"no controller leads [^;]* now [^;]*$"):
            await remote.call(m.DescribeQuorum(), 1)


async def test_a_retry_has_the_id_of_the_first_try_and_less_time() -> None:
    leader = Fake()
    leader.leader = leader
    leader.silent = 1
    async with serving(leader) as remote:
        assert await remote.call(TOPICS, 20) == CREATED
        assert await remote.call(TOPICS, 20) == CREATED
        first, again, other = leader.frames
        assert first.request_id == again.request_id != other.request_id
        assert len(first.request_id) == 16
        assert 0 < again.timeout_ms < first.timeout_ms <= 20_000


async def test_what_may_be_repeated_needs_no_id() -> None:
    leader = Fake()
    leader.leader = leader
    async with serving(leader) as remote:
        await remote.call(m.DescribeQuorum())
        assert leader.frames[0].request_id == b""


async def test_a_change_of_voters_is_not_tried_again() -> None:
    leader = Fake()
    leader.leader = leader
    leader.silent = 1
    async with serving(leader) as remote:
        with pytest.raises(RequestTimedOutError):
            await remote.call(m.RemoveVoter(1), 0.5)
        assert len(leader.frames) == 1


async def test_a_silent_controller_is_left_for_the_next() -> None:
    stopped, leader = Fake(), Fake()
    stopped.leader = leader.leader = leader
    stopped.silent = 100
    async with serving(stopped, leader) as remote:
        assert await remote.call(m.DescribeQuorum(), 20) == QUORUM
        assert len(leader.frames) == 1


async def test_a_leader_that_is_gone_already_is_looked_for_elsewhere() -> None:
    a, b, gone = Fake(), Fake(), Fake()
    gone.endpoint = Endpoint("127.0.0.1", 1)
    a.leader, b.leader = gone, b
    async with serving(a, b) as remote:
        assert await remote.call(m.DescribeQuorum(), 20) == QUORUM


async def test_refusals_are_told_at_once() -> None:
    leader = Fake()
    leader.leader = leader
    leader.errors = [KafkaError("no", code=ErrorCode.POLICY_VIOLATION)]
    async with serving(leader) as remote:
        with pytest.raises(KafkaError) as caught:
            await remote.call(TOPICS)
        assert caught.value.code == ErrorCode.POLICY_VIOLATION
        assert len(leader.frames) == 1


async def test_a_cluster_is_found_once_a_controller_is_in_one() -> None:
    fake = Fake()
    fake.cluster_id = ""
    async with serving(fake) as remote, trio.open_nursery() as nursery:
        found: list[str] = []

        async def find() -> None:
            found.append(await remote.find_cluster())

        nursery.start_soon(find)
        await trio.sleep(0.3)
        assert found == []
        fake.cluster_id = "c"
    assert found == ["c"]


async def test_the_cluster_that_is_known_is_looked_for_at_all_addresses_first() -> None:
    foreign, young, ours = Fake(), Fake(), Fake()
    foreign.cluster_id, young.cluster_id = "another", ""
    async with serving(foreign, young, ours) as remote:
        assert await remote.find_cluster("c") == "c"
    async with serving(foreign) as remote:
        assert await remote.find_cluster("c") == "another", "for the directory to refuse"


async def test_tools_ask_once_and_hear_errors_plainly() -> None:
    leader = Fake()
    leader.leader = leader
    async with serving(leader):
        assert await ask_once([leader.endpoint], m.DescribeQuorum(), 20) == QUORUM
        leader.errors = [KafkaError("no", code=ErrorCode.POLICY_VIOLATION)]
        with pytest.raises(KafkaError) as caught:
            await ask_once([leader.endpoint], TOPICS, 20)
        assert caught.value.code == ErrorCode.POLICY_VIOLATION
