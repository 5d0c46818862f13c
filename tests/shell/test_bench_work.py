"""What a benchmark of sending says, when not all is taken."""

import pytest
import trio
from trio.testing import MockClock

from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.data import ProduceRequest
from quorate.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from quorate.protocol.messages.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorate.tools.bench_work import Load, produce
from quorate.tools.topics import Client
from tests.shell.fake_cluster import FakeCluster
from tests.shell.fake_transactions import refused


@pytest.mark.parametrize("turn", [0, 5])
async def test_records_that_are_not_taken_are_no_figure(
    nursery: trio.Nursery, autojump_clock: MockClock, turn: int
) -> None:
    cluster = FakeCluster(nursery)
    cluster.create("load")

    def refuse(_broker_id: int, request: ProduceRequest) -> object:
        topic = request.topic_data[0]
        return refused(ErrorCode.INVALID_RECORD, topic.name, topic.topic_id, 0)

    there = CreatableTopicResult(name="load", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    cluster.handlers[CreateTopicsRequest] = lambda _, __: CreateTopicsResponse(topics=[there])
    cluster.handlers[DescribeClusterRequest] = lambda _, __: DescribeClusterResponse()
    cluster.script(ProduceRequest, None, None, refuse)
    client = Client(cluster.bootstrap, {"dial": cluster.dial})
    load = Load("load", records=20, size=200_000, turn=turn, acks=1, compression="none")
    told: list[int] = []
    with pytest.raises(KafkaError) as caught:
        await produce(client, load, told.append, transactional=False)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert told != [], "somebody who waits is told how far it is"
