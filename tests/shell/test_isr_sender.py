"""Changes of ISRs reach the controller, whatever it takes, and its answers the leaders."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorate.broker import isr_sender
from quorate.broker.isr_sender import PROPOSALS_MAX, RETRY_S, IsrSender
from quorate.control.frames import FRAME_BYTES_MAX, Frame, encode_frame
from quorate.control.messages import DONE, Failure
from quorate.control.partition_messages import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionAnswer,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import ErrorCode, KafkaError
from tests.unit.broker.replication.cluster import Cluster


class Controller:
    """Accepts every change, unless it refuses all, or fails."""

    def __init__(self) -> None:
        self.heard: list[AlterPartition] = []
        self.heard_at_s: list[float] = []
        self.failures: list[KafkaError] = []
        self.verdict = DONE

    async def call(self, request: Any, /, timeout_s: float = 30.0) -> Any:
        self.heard.append(request)
        self.heard_at_s.append(trio.current_time())
        await trio.sleep(0.01)
        if self.failures:
            raise self.failures.pop()
        return AlterPartitionAnswer(
            tuple(
                AlteredPartition(
                    change.topic_id, change.partition, self.verdict, request.broker_id,
                    change.leader_epoch, change.partition_epoch + 1,
                    tuple(member.broker_id for member in change.isr),
                )
                for change in request.partitions
            )
        )  # fmt: skip


@pytest.fixture
def cluster() -> Cluster:
    return Cluster((1, 2), isr=(1,), partitions=3)


@pytest.fixture
async def controller(
    cluster: Cluster, nursery: trio.Nursery, autojump_clock: MockClock
) -> Controller:
    made, node = Controller(), cluster.nodes[1]
    sender = IsrSender(node.broker, made.call, lambda: 0, node.replicas.settle)
    nursery.start_soon(sender.run)
    await trio.testing.wait_all_tasks_blocked()
    return made


def proposed(cluster: Cluster) -> list[tuple[int, ...] | None]:
    return [cluster.leader(partition=index).isr.proposed for index in range(3)]


async def test_all_that_is_proposed_in_a_turn_goes_in_one_request(
    cluster: Cluster, controller: Controller, autojump_clock: MockClock
) -> None:
    cluster.fetch(2)
    await trio.sleep(0.1)
    (request,) = controller.heard
    assert (request.broker_id, request.broker_epoch) == (1, cluster.epochs[1])
    assert [change.partition for change in request.partitions] == [0, 1, 2]
    assert proposed(cluster) == [(1, 2)] * 3, "it is so when the metadata say so"


async def test_so_much_goes_in_one_request_that_a_controller_takes_it(
    cluster: Cluster,
    controller: Controller,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isr_sender, "PROPOSALS_MAX", 2)
    cluster.fetch(2)
    await trio.sleep(0.1)
    numbers = [[change.partition for change in heard.partitions] for heard in controller.heard]
    assert numbers == [[0, 1], [2]]
    assert controller.heard_at_s[1] - controller.heard_at_s[0] < RETRY_S
    large = PartitionAlteration(
        bytes(16), 2**31 - 1, 2**31 - 1, 2**31 - 1, (InSyncReplica(2**31 - 1, 2**63 - 1),) * 20
    )
    request = AlterPartition(2**31 - 1, 2**63 - 1, (large,) * PROPOSALS_MAX)
    assert len(encode_frame(Frame(2**31 - 1, request, bytes(16), 10_000))) < FRAME_BYTES_MAX


async def test_leaders_hear_what_the_controller_refuses(
    cluster: Cluster, controller: Controller, autojump_clock: MockClock
) -> None:
    controller.verdict = Failure(int(ErrorCode.INELIGIBLE_REPLICA), "not now")
    cluster.fetch(2)
    await trio.sleep(0.1)
    assert proposed(cluster) == [None] * 3


async def test_what_the_controller_did_not_answer_is_sent_again_a_little_later(
    cluster: Cluster, controller: Controller, autojump_clock: MockClock
) -> None:
    controller.failures = [KafkaError(code=ErrorCode.NOT_CONTROLLER)] * 2
    cluster.fetch(2)
    await trio.sleep(1)
    assert len(controller.heard) == 3
    assert controller.heard[0].partitions == controller.heard[2].partitions
    first_s, second_s, _ = controller.heard_at_s
    assert second_s - first_s >= RETRY_S
    assert proposed(cluster) == [(1, 2)] * 3


async def test_it_is_sent_in_the_registration_that_the_broker_has_by_then(
    cluster: Cluster, controller: Controller, autojump_clock: MockClock
) -> None:
    host = cluster.nodes[1].replicas.host
    known, host.broker_epoch = host.broker_epoch, -1
    controller.failures = [KafkaError(code=ErrorCode.STALE_BROKER_EPOCH)]
    cluster.fetch(2)
    await trio.sleep(RETRY_S / 2)
    host.broker_epoch = known
    await trio.sleep(1)
    assert [request.broker_epoch for request in controller.heard] == [-1, known]


async def test_a_leader_that_leads_no_more_is_not_told(
    cluster: Cluster, controller: Controller, autojump_clock: MockClock
) -> None:
    cluster.fetch(2)
    await trio.sleep(0.001)
    before = cluster.leader()
    cluster.change(2, 1, (1, 2))
    await trio.sleep(0.1)
    assert before.isr.committed == (1,)
