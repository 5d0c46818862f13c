"""A server times requests by its turns, whichever way they take."""

import pytest

from quorate.broker.server import RequestServer
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
from quorate.protocol.messages.data import (
    FetchRequest,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.shell.test_produce_shortcut import new_cluster, replicate
from tests.shell.test_server import connect
from tests.unit.broker.log.batches import make_batch


class Clock:
    """Goes on by 1 ms each time somebody looks."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


def test_requests_are_timed_by_the_turns_in_which_they_come_and_are_answered() -> None:
    node = new_cluster()
    server = RequestServer(node.broker, Clock())
    wire = connect(server)
    data = [PartitionProduceData(index=0, records=make_batch([b"a"]))]

    def produce(topic: str, acks: int, times: int = 1) -> None:
        topics = [TopicProduceData(name=topic, partition_data=data)]
        body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
        api = APIS[ApiKey.PRODUCE]
        wire.receive(times * encode_request(api, 9, 0, "test", body))

    produce("appLogs", -1, times=2)
    produce("appLogs", 0)  # not by the short way
    produce("shared", -1)
    times = server.request_times()
    assert {name: sum(each.counts) for name, each in times.items()} == {"Produce": 3}
    assert times["Produce"].total_s == pytest.approx(0.003)
    assert times["Produce"].local_s == pytest.approx(0.003)
    replicate(node)
    server.begin_turn()
    server.end_turn()
    assert sum(times["Produce"].counts) == 4
    assert times["Produce"].remote_s == pytest.approx(0.002)
    fetch = FetchRequest(max_bytes=1, max_wait_ms=0)
    wire.request(ApiKey.FETCH, fetch)
    fetch.replica_id = 2
    other = connect(server)
    other.request(ApiKey.FETCH, fetch)
    other.request(ApiKey.FETCH, fetch)
    times = server.request_times()
    counts = {name: sum(each.counts) for name, each in times.items()}
    assert counts == {"Produce": 4, "Fetch": 3, "FetchConsumer": 1, "FetchFollower": 2}
