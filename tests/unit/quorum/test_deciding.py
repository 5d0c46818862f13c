"""Requests that wait are decided one after the other and committed together."""

import math
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.control import messages as m
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
)
from quorate.model import Endpoint
from quorate.quorum import deciding
from quorate.quorum.control.decision import Decision
from quorate.quorum.deciding import CROWD_MIN, CROWD_S, TOGETHER_MAX, Asked, Decide, Decider
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from quorate.quorum.metadata.records import BrokerRegistered, ConfigSet, TopicRemoved
from quorate.quorum.raft.outcomes import NotLeader, ReadOutcome, Unknown
from quorate.quorum.raft.rules import PRODUCTION_RULES
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_node import RaftNode, RaftPlan

ME = ReplicaKey(1, b"d" * 16)
ALL = ConfigResource("broker", "")
DONE = m.UnregisterBrokerAnswer()


class World:
    """A Raft node alone, a decider on it, and a gate in front of the disk."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.gate.set()
        self.deposed = False
        plan = RaftPlan(
            ME, VoterSet.of([Voter(ME, Endpoint("h", 1))]), PRODUCTION_RULES, self.run_blocking
        )
        self.raft = RaftNode(plan, SimulatedStorage(Random(1)), lambda _: None, Random(1))
        self.decider = Decider(self.raft, self.refusal, lambda: 5)
        self.outcomes: list[m.Answer | KafkaError] = []
        self.seen: list[int] = []

    async def run_blocking(self, work: Callable[[], None]) -> None:
        await self.gate.wait()
        await trio.lowlevel.checkpoint()
        work()

    def refusal(self) -> NotControllerError | None:
        return NotControllerError("deposed") if self.deposed else None

    @property
    def values(self) -> dict[str, str]:
        return dict(self.raft.image.config(ALL))

    async def ask(
        self, decide: Decide[m.Answer], request_id: bytes = b"", timeout_s: float = math.inf
    ) -> None:
        asked = Asked(request_id, trio.current_time() + timeout_s)
        try:
            self.outcomes.append(await self.decider.carry_out(decide, asked))
        except KafkaError as error:
            self.outcomes.append(error)

    def count(self, image: MetadataImage) -> Decision[m.Answer]:
        """Count one further, and tell how far it is in the answer."""
        number = int(image.config(ALL).get("n", "0")) + 1
        record = ConfigSet("c", 1, "broker", "", "n", str(number))
        return Decision((record,), m.RegisterBrokerAnswer(number))


@asynccontextmanager
async def a_world() -> AsyncGenerator[World, None]:
    world = World()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.raft.run)
        nursery.start_soon(world.decider.run)
        yield world
        nursery.cancel_scope.cancel()


async def all_of(world: World, decisions: Iterable[Decide[m.Answer]]) -> None:
    async with trio.open_nursery() as asking:
        for decide in decisions:
            asking.start_soon(world.ask, decide)


def numbers(world: World) -> list[int]:
    return sorted(a.broker_epoch for a in world.outcomes if isinstance(a, m.RegisterBrokerAnswer))


async def test_each_request_is_decided_on_what_those_before_it_make() -> None:
    async with a_world() as world:
        await all_of(world, [world.count] * 50)
        assert numbers(world) == list(range(1, 51))
        assert world.values == {"n": "50"}


async def test_what_was_decided_together_is_what_its_records_make_of_the_image() -> None:
    async with a_world() as world:
        async with trio.open_nursery() as asking:
            for number in range(20):
                asking.start_soon(world.ask, world.count, b"%d" % number)
        assert numbers(world) == list(range(1, 21))
        image = EMPTY_IMAGE
        for batch in world.raft.machine.since(0).batches:
            image = apply_records(image, batch.version, decode_batch(batch.records))
        assert image == world.raft.image
        assert list(image.answers) == list(world.raft.image.answers)
        assert len(image.answers) == 20


async def test_requests_that_wait_for_the_disk_become_one_command() -> None:
    async with a_world() as world, trio.open_nursery() as asking:
        before = world.raft.rounds.last_index
        world.gate = trio.Event()
        asking.start_soon(world.ask, world.count)
        await wait_all_tasks_blocked()
        for _ in range(TOGETHER_MAX):
            asking.start_soon(world.ask, world.count)
        await wait_all_tasks_blocked()
        assert world.outcomes == []
        world.gate.set()
        await wait_all_tasks_blocked()
        assert numbers(world) == list(range(1, TOGETHER_MAX + 2))
        assert world.raft.rounds.last_index == before + 2


async def test_those_who_were_answered_together_are_waited_for(autojump_clock: MockClock) -> None:
    async def ask_twice(world: World, turns: int) -> None:
        await world.ask(world.count)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        await world.ask(world.count)

    async with a_world() as world:
        await world.ask(world.count)
        before = world.raft.rounds.last_index
        async with trio.open_nursery() as asking:
            for turns in range(2 * CROWD_MIN):
                asking.start_soon(ask_twice, world, turns)
        assert numbers(world) == list(range(1, 4 * CROWD_MIN + 2))
        assert world.raft.rounds.last_index == before + 2


async def test_nobody_waits_long_for_those_who_do_not_come(autojump_clock: MockClock) -> None:
    async with a_world() as world:
        await world.ask(world.count)
        await all_of(world, [world.count] * CROWD_MIN)
        for waited_s in (CROWD_S, 0):
            begun_s = trio.current_time()
            await world.ask(world.count)
            assert trio.current_time() - begun_s == pytest.approx(waited_s)


async def test_large_decisions_are_not_made_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "RECORDS_TOGETHER_MAX", 10)
    async with a_world() as world:
        before = world.raft.rounds.last_index
        await all_of(world, [world.count] * 50)
        assert numbers(world) == list(range(1, 51))
        assert world.raft.rounds.last_index - before >= 5

        def larger(_: MetadataImage) -> Decision[m.Answer]:
            return Decision(
                tuple(ConfigSet("c", 1, "broker", "", "x", "x") for _ in range(11)), DONE
            )

        await world.ask(larger)
        assert world.outcomes[-1] == DONE
        assert world.values["x"] == "x"


def refuse(_: MetadataImage) -> Decision[m.Answer]:
    raise TopicAlreadyExistsError


async def test_one_that_is_refused_does_not_hold_up_the_others() -> None:
    async with a_world() as world:
        await all_of(world, [world.count, refuse, world.count])
        assert numbers(world) == [1, 2]
        (error,) = (o for o in world.outcomes if isinstance(o, KafkaError))
        assert error.code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_refusal_rests_on_what_a_majority_confirms() -> None:
    async with a_world() as world:
        world.gate = trio.Event()
        async with trio.open_nursery() as asking:
            asking.start_soon(world.ask, refuse)
            await wait_all_tasks_blocked()
            world.gate.set()
        assert [o.code for o in world.outcomes if isinstance(o, KafkaError)] == [
            ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        world.deposed = True
        await world.ask(refuse)
        assert isinstance(world.outcomes[-1], NotControllerError)


async def test_an_answer_without_a_record_rests_on_the_newest_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(image: MetadataImage) -> Decision[m.Answer]:
        return Decision((), m.RegisterBrokerAnswer(int(image.config(ALL).get("n", "0"))))

    async with a_world() as world:
        read = world.raft.read

        async def read_late(deadline_s: float) -> ReadOutcome:
            """Confirm that we lead only after somebody else's change."""
            monkeypatch.undo()
            record = ConfigSet("c", 1, "broker", "", "n", "7")
            await world.raft.propose(world.raft.image.version, [record], math.inf)
            return await read(deadline_s)

        monkeypatch.setattr(world.raft, "read", read_late)
        await world.ask(look)
        assert numbers(world) == [7]


@pytest.mark.parametrize(
    ("outcome", "error"), [(NotLeader(), NotControllerError), (Unknown(), RequestTimedOutError)]
)
async def test_an_answer_without_a_record_needs_a_majority_too(
    outcome: ReadOutcome, error: type[KafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(_: float) -> ReadOutcome:
        await trio.lowlevel.checkpoint()
        return outcome

    async with a_world() as world:
        monkeypatch.setattr(world.raft, "read", read)
        await world.ask(lambda _: Decision((), DONE))
        await world.ask(refuse)
        assert [type(o) for o in world.outcomes] == [error, error]


async def test_a_retry_gets_the_answer_of_the_first_try() -> None:
    async with a_world() as world:
        for _ in range(3):
            await world.ask(world.count, b"same")
        await world.ask(world.count, b"other")
        assert [
            a.broker_epoch for a in world.outcomes if isinstance(a, m.RegisterBrokerAnswer)
        ] == [*(1, 1, 1, 2)]


async def test_tries_that_wait_together_are_carried_out_once() -> None:
    async with a_world() as world:
        async with trio.open_nursery() as asking:
            for _ in range(20):
                asking.start_soon(world.ask, world.count, b"same")
        assert numbers(world) == [1] * 20
        assert world.values == {"n": "1"}


async def test_a_bug_in_one_decision_is_told_and_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def wrong(_: MetadataImage) -> Decision[m.Answer]:
        return Decision((TopicRemoved("c", 1, b"i" * 16),), DONE)

    async with a_world() as world:
        await all_of(world, [world.count, world.count, wrong])
        assert numbers(world) == [1, 2]
        (error,) = (o for o in world.outcomes if isinstance(o, KafkaError))
        assert "no topic has the id" in error.message
        assert "this is a bug" in caplog.text


async def test_a_bug_that_one_request_meets_is_told_and_ends_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raises(_: MetadataImage) -> Decision[m.Answer]:
        raise ValueError("nobody thought of that")

    async with a_world() as world:
        await all_of(world, [world.count, raises, world.count])
        assert numbers(world) == [1, 2]
        (error,) = (o for o in world.outcomes if isinstance(o, KafkaError))
        assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "this is a bug in Quorate: ValueError" in error.message
        assert "nobody thought of that" in caplog.text


async def test_epochs_that_one_version_cannot_hold_become_several() -> None:
    def register(image: MetadataImage) -> Decision[m.Answer]:
        epoch = image.version + 1
        record = BrokerRegistered("c", 1, 7, epoch, b"i" * 16, b"", {}, None, fenced=True)
        return Decision((record,), m.RegisterBrokerAnswer(epoch))

    async with a_world() as world:
        # The last of those that wait together is not tried out before it is proposed.
        await all_of(world, [*[register] * 30, lambda _: Decision((), DONE)])
        await all_of(world, [register] * 30)
        epochs = numbers(world)
        assert len(set(epochs)) == 60
        assert world.raft.image.brokers[7].broker_epoch == epochs[-1]


async def test_a_change_that_is_too_large_is_refused_alone() -> None:
    def large(_: MetadataImage) -> Decision[m.Answer]:
        return Decision((ConfigSet("c", 1, "broker", "", "large", "x" * 5_000_000),), DONE)

    async with a_world() as world:
        await all_of(world, [world.count, large, world.count])
        assert numbers(world) == [1, 2]
        (error,) = (o for o in world.outcomes if isinstance(o, KafkaError))
        assert error.code == ErrorCode.POLICY_VIOLATION


async def test_what_is_too_much_for_one_command_is_answered_after_the_last() -> None:
    async with a_world() as world:

        def in_parts(image: MetadataImage) -> Decision[m.Answer]:
            decision = world.count(image)
            return replace(decision, completes=decision.answer == m.RegisterBrokerAnswer(4))

        async with trio.open_nursery() as asking:
            world.gate = trio.Event()
            for decide in (in_parts, world.count):
                asking.start_soon(world.ask, decide, b"large" if decide is in_parts else b"")
                await wait_all_tasks_blocked()
            world.gate.set()
        told = [m.RegisterBrokerAnswer(2), m.RegisterBrokerAnswer(4)]
        assert world.outcomes == told, "others come in between"
        await world.ask(in_parts, b"large")
        assert numbers(world) == [2, 4, 4], "only a whole answer is kept"
        assert world.values == {"n": "4"}


async def test_nobody_waits_longer_than_it_wants(autojump_clock: MockClock) -> None:
    async with a_world() as world, trio.open_nursery() as asking:
        world.gate = trio.Event()
        asking.start_soon(world.ask, world.count, b"", 5)
        await trio.sleep(0.1)
        asking.start_soon(world.ask, world.count, b"", 7)
        await trio.sleep(6)
        assert [type(o) for o in world.outcomes] == [RequestTimedOutError]
        await trio.sleep(2)
        assert len(world.outcomes) == 2
        world.gate.set()
        await world.ask(world.count)
        assert numbers(world) == [2], "the first was under way, the second was given up"


async def test_who_asked_later_and_waits_shorter_is_told_first(autojump_clock: MockClock) -> None:
    async with a_world() as world, trio.open_nursery() as asking:
        world.gate = trio.Event()
        asking.start_soon(world.ask, world.count, b"", 9)
        await trio.sleep(0.1)
        asking.start_soon(world.ask, world.count, b"", 2)
        await trio.sleep(1.9)
        assert not world.outcomes
        await trio.sleep(0.2)
        assert [type(o) for o in world.outcomes] == [RequestTimedOutError]
        await trio.sleep(5)
        world.gate.set()
        await trio.sleep(0.1)
        assert len(world.outcomes) == 2
        assert not isinstance(world.outcomes[1], KafkaError)


async def test_whoever_waits_when_the_controller_stops_is_told() -> None:
    async with trio.open_nursery() as asking, a_world() as world:
        world.gate = trio.Event()
        asking.start_soon(world.ask, world.count)
        await wait_all_tasks_blocked()
        asking.start_soon(world.ask, world.count)
        await wait_all_tasks_blocked()
    assert sorted(type(o).__name__ for o in world.outcomes) == [
        "NotControllerError",
        "RequestTimedOutError",
    ]
