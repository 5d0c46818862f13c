"""What ``quorate quorum`` and ``quorate metadata`` do with what controllers say."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio

from quorate.control import messages as m
from quorate.control.frames import Frame
from quorate.errors import ErrorCode, KafkaError, NetworkError, NotControllerError
from quorate.model import Endpoint
from quorate.net.control import ControlStream
from quorate.net.control_server import ControlServer
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.codec import encode_batch
from quorate.quorum.metadata.machine import MetadataMachine, encode_command
from quorate.tools import quorum_work
from quorate.tools.arguments import GlobalOptions
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata_feed import follow_feed, read_feed
from quorate.tools.problems import CommandError, RefusedError, UnreachableError
from quorate.tools.quorum.plans import plan_add, plan_remove
from tests.unit.tools.quorum.pictures import CLUSTER, DISK, replica, said

NOBODY = "127.0.0.1:1"
SET = r.ConfigSet("test", 1, "broker", "", "k", "v")
AnAnswer = m.Answer | KafkaError | Callable[[Any], m.Answer | KafkaError]


class FakeController:
    """Answers with what the test says; requests are kept."""

    def __init__(self, node_id: int, cluster_id: str = CLUSTER) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.requests: list[Any] = []
        self.answers: dict[type[Any], AnAnswer] = {m.DescribeQuorum: said(node_id).answer}
        self.endpoint = Endpoint("", 0)

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listener.socket.getsockname()
        self.endpoint = Endpoint(host, port)
        task_status.started()
        await ControlServer(self, None).run([listener])

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        assert hello.node_id == m.NO_NODE, "a tool is no node"
        return m.HelloAnswer(self.cluster_id, self.node_id, 1, DISK[self.node_id])

    def begin(self, frame: Frame) -> None:
        pass

    async def answer(self, frame: Frame) -> m.Answer:
        await trio.lowlevel.checkpoint()
        self.requests.append(frame.message)
        answer = self.answers[type(frame.message)]
        if callable(answer):
            answer = answer(frame.message)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def serve_mesh(self, hello: m.Hello, frames: ControlStream) -> None:
        raise AssertionError(f"no tool is a controller: {hello}, {frames}")


async def start(nursery: trio.Nursery, *controllers: FakeController) -> GlobalOptions:
    for controller in controllers:
        await nursery.start(controller.serve)
    return options_for([str(controller.endpoint) for controller in controllers])


def options_for(addresses: Sequence[str], timeout_s: float = 5) -> GlobalOptions:
    return GlobalOptions(bootstrap="", controllers=",".join(addresses), timeout_s=timeout_s)


async def test_controllers_that_answer_are_one_picture(nursery: trio.Nursery) -> None:
    options = await start(nursery, FakeController(2), FakeController(1))
    view = await quorum_work.look(options_for([*options.controllers.split(","), NOBODY]))
    assert (view.cluster_id, view.leader_id, view.leader_epoch) == (CLUSTER, 1, 5)
    assert [view.lag(r) for r in view.replicas] == [0, 0, 5]
    assert [r.node_id for r in view.silent] == [3]


async def test_one_controller_is_enough_to_find_the_others(nursery: trio.Nursery) -> None:
    first, second = FakeController(1), FakeController(2)
    options = await start(nursery, second)
    await start(nursery, first)
    endpoints = {1: first.endpoint, 2: second.endpoint, 3: Endpoint("127.0.0.1", 1)}
    for controller in (first, second):
        answer = said(controller.node_id).answer
        voters = tuple(
            m.QuorumReplica(v.node_id, v.log_end_offset, v.directory_id, endpoints[v.node_id])
            for v in answer.voters
        )
        controller.answers[m.DescribeQuorum] = m.DescribeQuorumAnswer(
            1, 5, 9, voters, 8, node_id=controller.node_id, last_index=8
        )
    view = await quorum_work.look(options)
    assert first.requests == second.requests == [m.DescribeQuorum(local=True)]
    assert [r.node_id for r in view.silent] == [3]


async def test_nobody_there_is_told_with_every_address() -> None:
    with pytest.raises(UnreachableError, match="none of 2 controllers answers") as failed:
        await quorum_work.look(options_for([NOBODY, "127.0.0.1:2"]))
    assert "127.0.0.1:1:" in failed.value.why
    assert "127.0.0.1:2:" in failed.value.why


async def test_controllers_of_two_clusters_are_no_quorum(nursery: trio.Nursery) -> None:
    options = await start(nursery, FakeController(1), FakeController(2, "another"))
    with pytest.raises(CommandError, match="not of one cluster"):
        await quorum_work.look(options)


async def test_changes_name_the_replica_in_full(nursery: trio.Nursery) -> None:
    controller = FakeController(1)
    observer = replica(4, 1235)
    controller.answers |= {
        m.DescribeQuorum: said(1, observers=(observer,)).answer,
        m.AddVoter: m.AddVoterAnswer(()),
        m.RemoveVoter: m.RemoveVoterAnswer(()),
    }
    options = await start(nursery, controller)
    view = await quorum_work.look(options)
    await quorum_work.carry_out(options, plan_add(view, "4", None))
    await quorum_work.carry_out(options, plan_remove(view, "3", None))
    assert controller.requests[-2:] == [
        m.AddVoter(4, DISK[4], observer.endpoint), m.RemoveVoter(3, DISK[3]),
    ]  # fmt: skip


async def test_a_refusal_is_told_in_the_controllers_words(nursery: trio.Nursery) -> None:
    controller = FakeController(1)
    reason = "of then 2 voters only 1 answer; 2 have to"
    controller.answers |= {
        m.RemoveVoter: KafkaError(reason, code=ErrorCode.INVALID_REQUEST),
        m.TransferLeadership: KafkaError("no other voter answers", code=ErrorCode.INVALID_REQUEST),
    }
    options = await start(nursery, controller)
    view = await quorum_work.look(options)
    with pytest.raises(RefusedError, match="controller 3 was not removed") as refused:
        await quorum_work.carry_out(options, plan_remove(view, "3", None))
    assert refused.value.why == f"INVALID_REQUEST: {reason}"
    with pytest.raises(RefusedError, match="was not handed over"):
        await quorum_work.transfer(options, view, 2)


async def test_a_change_that_nobody_may_decide_now_is_no_refusal(nursery: trio.Nursery) -> None:
    controller = FakeController(1)
    options = await start(nursery, controller)
    view = await quorum_work.look(options)
    controller.answers[m.RemoveVoter] = NotControllerError("an election is under way")
    soon = options_for([options.controllers], timeout_s=0.2)
    with pytest.raises(KafkaError) as failed:
        await quorum_work.carry_out(soon, plan_remove(view, "3", None))
    assert failed.value.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


async def test_a_hand_over_is_over_when_somebody_leads_in_a_newer_term(
    nursery: trio.Nursery,
) -> None:
    controller = FakeController(1)
    options = await start(nursery, controller)
    before = await quorum_work.look(options)
    later = [
        said(1).answer,
        said(1, leader_id=m.NO_NODE, term=6).answer,
        said(1, leader_id=2, term=6).answer,
    ]
    controller.answers |= {
        m.TransferLeadership: m.TransferLeadershipAnswer(2),
        m.DescribeQuorum: lambda _: later.pop(0) if len(later) > 1 else later[0],
    }
    after = await quorum_work.transfer(options, before, None)
    assert (after.leader_id, after.leader_epoch) == (2, 6)
    assert m.TransferLeadership(m.NO_NODE) in controller.requests


# --- the feed


def machine_with(count: int) -> MetadataMachine:
    machine = MetadataMachine()
    for index in range(1, count + 1):
        machine.apply(index, 3, encode_command(machine.image.version, [SET]))
    return machine


async def test_all_that_is_committed_is_read_and_no_more_waited_for(nursery: trio.Nursery) -> None:
    controller = FakeController(1)
    machine = machine_with(3)
    controller.answers[m.FetchMetadata] = lambda request: machine.since(request.from_version)
    await start(nursery, controller)
    batches: list[Batch] = []
    await read_feed([controller.endpoint], 5, batches.append, None)
    assert [(b.offset, b.term, b.changes) for b in batches] == [(n, 3, (SET,)) for n in (1, 2, 3)]


async def test_what_is_older_than_the_batches_comes_as_a_snapshot(nursery: trio.Nursery) -> None:
    controller = FakeController(1)
    machine = MetadataMachine()
    machine.load(machine_with(3).dump())
    machine.apply(4, 3, encode_command(3, [SET]))
    controller.answers[m.FetchMetadata] = lambda request: machine.since(request.from_version)
    await start(nursery, controller)
    batches: list[Batch] = []
    await read_feed([controller.endpoint], 5, batches.append, None)
    assert batches[0].image is not None
    assert batches[-1].applied_to(batches[0].image).version == 4


async def test_a_feed_is_followed_through_trouble_which_is_told_once(
    nursery: trio.Nursery,
) -> None:
    controller = FakeController(1)
    batch = m.MetadataBatch(1, encode_batch([SET]), 3)
    waiting = m.FetchMetadataAnswer(2)
    script: list[m.Answer | KafkaError] = [
        m.FetchMetadataAnswer(1, (batch,)),
        KafkaError("gone", code=ErrorCode.REQUEST_TIMED_OUT),
        m.FetchMetadataAnswer(2, (m.MetadataBatch(2, encode_batch([SET]), 4),)),
    ]
    controller.answers[m.FetchMetadata] = lambda _: script.pop(0) if script else waiting
    await start(nursery, controller)
    seen: list[int] = []
    done = trio.Event()

    def take(got: Batch) -> None:
        seen.append(got.offset)
        if got.offset == 2:
            done.set()

    troubles: list[KafkaError] = []
    nursery.start_soon(follow_feed, [controller.endpoint], take, troubles.append, None)
    with trio.fail_after(20):
        await done.wait()
    assert seen == [1, 2]
    assert len(troubles) <= 1


async def test_a_feed_that_nobody_serves_fails_in_time() -> None:
    with pytest.raises((NetworkError, KafkaError)):
        await read_feed([Endpoint("127.0.0.1", 1)], 0.3, lambda _: None, None)
