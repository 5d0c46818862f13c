"""Other brokers are asked over one connection for each API, and what cannot be asked fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from quorate.broker import conversing, peers
from quorate.broker.listeners import BetweenBrokers
from quorate.broker.peers import (
    ANSWER_S_MAX,
    RECONNECT_MAX_S,
    RECONNECT_MIN_S,
    WAITING_MAX,
    Peers,
)
from quorate.errors import KafkaError, NetworkError
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import FrameBuffer, read_request_header, response_encoder
from quorate.protocol.message import decoder
from quorate.protocol.messages.session import ApiVersion, ApiVersionsResponse
from quorate.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    WriteTxnMarkersRequest,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, new_node

ADD = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=1, max_version=APIS[key].max_version)
        for key in peers.APIS_ASKED
    ]
)


class Other:
    """Broker 2, in memory: connections that a test can break, refuse, or leave without answers."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.asked: list[str] = []
        self.tried_at_s: list[float] = []
        self.refuses = False
        self.answers = True
        self.silent_about: set[int] = set()
        self._nursery = nursery
        self._streams: list[trio.abc.Stream] = []

    async def connect(self, _endpoint: Any, **_options: Any) -> trio.abc.Stream:
        self.tried_at_s.append(trio.current_time())
        if self.refuses:
            raise NetworkError("connection refused")
        ours, theirs = memory_stream_pair()
        self._streams.append(theirs)
        self._nursery.start_soon(self._serve, theirs)
        return ours

    async def cut(self) -> None:
        for stream in self._streams:
            await stream.aclose()
        self._streams.clear()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        frames = FrameBuffer(1 << 20)
        try:
            while True:
                while (frame := frames.next_frame()) is None:
                    chunk = await stream.receive_some(1 << 16)
                    if not chunk:
                        return
                    frames.feed(chunk)
                answer = self._answer(frame)
                if answer:
                    await stream.send_all(answer)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return

    def _answer(self, frame: bytearray) -> bytes:
        header, position = read_request_header(frame, 0, len(frame))
        api = APIS[header.api_key]
        answer: Any = VERSIONS
        if header.api_key in self.silent_about:
            return b""
        if header.api_key == ADD:
            request, _ = decoder(api.request, header.api_version)(frame, position, len(frame))
            ids = [each.transactional_id for each in request.transactions]
            self.asked += ids
            if not self.answers:
                return b""
            results = [AddPartitionsToTxnResult(transactional_id=each) for each in ids]
            answer = AddPartitionsToTxnResponse(results_by_transaction=results)
        parts: list[Any] = response_encoder(api, header.api_version)(header.correlation_id, answer)
        return b"".join(bytes(part) for part in parts)


class World:
    """A broker that asks, and who is asked."""

    def __init__(self, nursery: trio.Nursery, node: Node) -> None:
        self.node = node
        self.other = Other(nursery)
        self.turns = 0
        self.peers = Peers(
            node.broker, self._begin, lambda: None, BetweenBrokers("PLAINTEXT", None)
        )

    def _begin(self) -> int:
        self.turns += 1
        return 0

    def ask(self, name: str, broker_id: int = 2) -> Promise[Any]:
        transactions = [AddPartitionsToTxnTransaction(transactional_id=name)]
        return self.peers.ask(broker_id, ADD, AddPartitionsToTxnRequest(transactions=transactions))


@asynccontextmanager
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    node = new_node()
    node.join(1)
    node.join(2, port=9093)
    async with trio.open_nursery() as nursery:
        made = World(nursery, node)
        monkeypatch.setattr(conversing, "connect", made.other.connect)
        nursery.start_soon(made.peers.run)
        yield made
        nursery.cancel_scope.cancel()


async def heard(promise: Promise[Any]) -> Any:
    event = trio.Event()
    promise.when_resolved(lambda _: event.set())
    await event.wait()
    return promise.value


def name_of(answer: Any) -> str:
    assert isinstance(answer, AddPartitionsToTxnResponse)
    (result,) = answer.results_by_transaction
    return result.transactional_id


async def test_one_connection_serves_all_questions_in_their_order(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        promises = [asking.ask(name) for name in "abc"]
        assert [name_of(await heard(promise)) for promise in promises] == ["a", "b", "c"]
        assert name_of(await heard(asking.ask("d"))) == "d"
        assert len(asking.other.tried_at_s) == 1
        assert asking.turns == 4


async def test_who_cannot_be_asked_is_told_and_tried_again_for_the_next_question(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        asking.other.refuses = True
        for name in "abcdefghij":
            assert isinstance(await heard(asking.ask(name)), KafkaError)
        tried = asking.other.tried_at_s
        pauses = [round(after - before, 3) for before, after in pairwise(tried)]
        assert pauses == sorted(pauses)
        assert pauses[-1] == pytest.approx(RECONNECT_MAX_S)
        asking.other.refuses = False
        assert name_of(await heard(asking.ask("k"))) == "k"
        assert isinstance(await heard(asking.ask("l", broker_id=9)), NetworkError)


async def test_what_was_asked_over_a_connection_that_breaks_fails(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        asking.other.answers = False
        lost = [asking.ask("a"), asking.ask("b")]
        await trio.sleep(1)
        assert asking.other.asked == ["a", "b"]
        await asking.other.cut()
        assert [isinstance(await heard(promise), NetworkError) for promise in lost] == [True, True]
        asking.other.answers = True
        assert name_of(await heard(asking.ask("c"))) == "c"
        assert asking.other.asked == ["a", "b", "c"]


async def test_markers_that_wait_do_not_keep_other_questions_waiting(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        asking.other.silent_about = {ApiKey.WRITE_TXN_MARKERS}
        marker = asking.peers.ask(2, ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[]))
        await trio.sleep(1)
        begin_s = trio.current_time()
        assert name_of(await heard(asking.ask("a"))) == "a"
        assert trio.current_time() - begin_s < 1
        assert not marker.resolved


async def test_a_connection_that_was_of_use_is_soon_made_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        for name in "abcdefghij":
            assert name_of(await heard(asking.ask(name))) == name
            await asking.other.cut()
            await trio.sleep(RECONNECT_MIN_S / 2)
        tried = asking.other.tried_at_s
        assert max(after - before for before, after in pairwise(tried)) < 2 * RECONNECT_MIN_S


async def test_who_is_silent_for_long_is_given_up_but_only_if_something_was_asked(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        assert name_of(await heard(asking.ask("a"))) == "a"
        await trio.sleep(10 * ANSWER_S_MAX)
        assert len(asking.other.tried_at_s) == 1
        asking.other.answers = False
        begin_s = trio.current_time()
        assert isinstance(await heard(asking.ask("b")), NetworkError)
        assert trio.current_time() - begin_s == pytest.approx(ANSWER_S_MAX)


async def test_who_is_silent_and_goes_out_of_service_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        asking.other.answers = False
        begin_s = trio.current_time()
        asked = asking.ask("a")
        await wait_all_tasks_blocked()
        epoch = asking.node.replicas.image.brokers[2].broker_epoch
        asking.node.apply(r.BrokerFenced("test", 0, 2, epoch))
        assert isinstance(await heard(asked), NetworkError)
        assert trio.current_time() == begin_s


async def test_not_more_waits_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with world(monkeypatch) as asking:
        promises = [asking.ask("a") for _ in range(WAITING_MAX + 1)]
        assert isinstance(promises[-1].value, NetworkError)
        assert not promises[-2].resolved
        assert name_of(await heard(promises[-2])) == "a"
