"""Followers fetch as long as there is anything to fetch, over one connection after the other."""

import itertools
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from quorate.broker import conversing
from quorate.broker.listeners import BetweenBrokers
from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.flush import Flush
from quorate.broker.replica_fetcher import (
    ANSWER_S_MAX,
    PATIENCE_STEP_S,
    RECONNECT_MAX_S,
    RECONNECT_MIN_S,
    ReplicaFetchers,
)
from quorate.errors import NetworkError, StorageError
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import FrameBuffer, read_request_header, response_encoder
from quorate.protocol.message import decoder
from quorate.protocol.messages.session import ApiVersion, ApiVersionsResponse
from quorate.quorum.metadata import records as r
from quorate.records.slices import FileSlice
from tests.unit.broker.harness import stored
from tests.unit.broker.replication.cluster import Cluster

FETCH = APIS[ApiKey.FETCH]
VERSIONS = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=ApiKey.FETCH, min_version=13, max_version=FETCH.max_version)]
)


class Leader:
    """The listener of broker 1, in memory: connections that a test can break, or refuse."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery) -> None:
        self.cluster = cluster
        self.tried_at_s: list[float] = []
        self.asked_at_ends: list[int] = []
        """How many fetches were under way whenever the follower ended a turn."""
        self.refuses = False
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
                await stream.send_all(await self._answered(frame))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return

    async def _answered(self, frame: bytearray) -> bytes:
        header, position = read_request_header(frame, 0, len(frame))
        api = APIS[header.api_key]
        answer: Any = VERSIONS
        if header.api_key == ApiKey.FETCH:
            request, _ = decoder(api.request, header.api_version)(frame, position, len(frame))
            answer = await self._fetched(request)
        parts: list[Any] = response_encoder(api, header.api_version)(header.correlation_id, answer)
        return b"".join(stored(p) if isinstance(p, FileSlice) else bytes(p) for p in parts)

    async def _fetched(self, request: Any) -> Any:
        answer = self.cluster.ask(request)
        if not isinstance(answer, Promise):
            return answer
        promise: Promise[Any] = answer  # pyright: ignore[reportUnknownVariableType]
        heard = trio.Event()
        promise.when_resolved(lambda _: heard.set())
        with trio.move_on_after(0.5):
            await heard.wait()
        self.cluster.nodes[1].wait(500)
        return promise.value


@pytest.fixture
async def leader(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> Leader:
    made = Leader(Cluster((1, 2)), nursery)
    monkeypatch.setattr(conversing, "connect", made.connect)
    follower = made.cluster.nodes[2]
    between = BetweenBrokers("PLAINTEXT", None)

    def end_turn() -> None:
        made.asked_at_ends.append(follower.replicas.fetchers[1].in_flight)
        follower.replicas.settle()

    fetchers = ReplicaFetchers(follower.broker, lambda: 0, end_turn, between)
    nursery.start_soon(fetchers.run)
    await trio.sleep(0.1)
    return made


async def test_what_a_leader_appends_its_follower_gets(
    leader: Leader, autojump_clock: MockClock
) -> None:
    leader.cluster.append(b"a")
    await trio.sleep(1)
    leader.cluster.append(b"b")
    await trio.sleep(1)
    assert leader.cluster.follower(2).log.log_end_offset == 2
    assert leader.cluster.leader().high_watermark == 2
    assert len(leader.tried_at_s) == 1, "over one connection"


async def test_a_leader_hears_what_its_follower_has_before_anybody_at_the_follower(
    leader: Leader, autojump_clock: MockClock
) -> None:
    leader.asked_at_ends.clear()
    leader.cluster.append(b"a")
    await trio.sleep(0.1)
    assert leader.asked_at_ends[0] == 1


async def test_a_leader_that_is_silent_is_given_up(
    leader: Leader, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):  # answers, whatever the pauses between them, put it off
        leader.cluster.append(b"a")
        await trio.sleep(0.7)

    async def silent(_frame: bytearray) -> bytes:
        await trio.sleep(3600)
        return b""

    monkeypatch.setattr(leader, "_answered", silent)
    leader.cluster.append(b"b")
    await trio.sleep(ANSWER_S_MAX - PATIENCE_STEP_S - 1)
    assert len(leader.tried_at_s) == 1
    await trio.sleep(2 + PATIENCE_STEP_S)
    assert len(leader.tried_at_s) > 1


async def test_after_a_cut_a_follower_goes_on_where_it_was(
    leader: Leader, autojump_clock: MockClock
) -> None:
    leader.cluster.append(b"a")
    await trio.sleep(1)
    await leader.cut()
    leader.cluster.append(b"b")
    await trio.sleep(2)
    assert leader.cluster.follower(2).log.log_end_offset == 2
    assert len(leader.tried_at_s) == 2


async def outage(leader: Leader) -> None:
    """Have the leader not be there for a while."""
    leader.refuses = True
    await leader.cut()
    await trio.sleep(20)
    leader.refuses = False


async def test_a_leader_that_is_not_there_is_tried_less_and_less_often(
    leader: Leader, autojump_clock: MockClock
) -> None:
    await outage(leader)
    tried = leader.tried_at_s[1:]
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert RECONNECT_MIN_S <= pauses[0] < pauses[-1] <= RECONNECT_MAX_S + 0.01
    leader.cluster.append(b"a")
    await trio.sleep(2 * RECONNECT_MAX_S)
    assert leader.cluster.follower(2).log.log_end_offset == 1


async def test_a_leader_that_was_there_again_is_soon_tried_again_after_the_next_cut(
    leader: Leader, autojump_clock: MockClock
) -> None:
    await outage(leader)
    await trio.sleep(2 * RECONNECT_MAX_S)
    cut_at_s = trio.current_time()
    await leader.cut()
    await trio.sleep(RECONNECT_MAX_S)
    assert leader.tried_at_s[-1] - cut_at_s < 2 * RECONNECT_MIN_S


async def test_who_follows_nobody_any_more_asks_nobody(
    leader: Leader, autojump_clock: MockClock
) -> None:
    leader.cluster.change(2, 1, (1, 2))
    await leader.cut()
    await trio.sleep(10)
    assert len(leader.tried_at_s) <= 2


async def test_records_count_once_they_are_synced_even_if_that_takes_another_connection(
    leader: Leader, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    autojump_clock.autojump_threshold = 0.02  # logs are synced in a thread
    cluster = leader.cluster
    cluster.apply(r.ConfigSet("test", 0, "topic", "appLogs", "flush.messages", "1"))
    log = cluster.follower(2).log
    store = cluster.nodes[2].replicas.store
    told: list[tuple[int, int]] = []
    ask, finish = cluster.ask, store.finish_flush
    failures = iter([StorageError("no space for a moment")] * 2)

    def heard(request: Any) -> Any:
        positions = [p for topic in request.topics for p in topic.partitions]
        told.extend((position.fetch_offset, log.flushed_offset) for position in positions)
        return ask(request)

    def finished(flush: Flush) -> None:
        for failure in failures:
            raise failure
        finish(flush)

    monkeypatch.setattr(cluster, "ask", heard)
    monkeypatch.setattr(store, "finish_flush", finished)
    cluster.append(b"a")
    await trio.sleep(5)
    assert told[-1] == (1, 1)
    assert all(offset <= flushed for offset, flushed in told)


async def test_a_follower_whose_disk_failed_to_sync_does_not_go_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    autojump_clock.autojump_threshold = 0.02  # logs are synced in a thread
    cluster = Cluster((1, 2))
    cluster.apply(r.ConfigSet("test", 0, "topic", "appLogs", "flush.messages", "1"))
    node = cluster.nodes[2]
    run, failures = Flush.run, iter([True])

    def fail_once(flush: Flush) -> None:
        node.disk.syncs_fail = next(failures, False)
        run(flush)
        node.disk.syncs_fail = False

    cluster.append(b"a")
    with pytest.raises(BaseExceptionGroup) as raised:  # noqa: PT012
        async with trio.open_nursery() as nursery:
            monkeypatch.setattr(conversing, "connect", Leader(cluster, nursery).connect)
            monkeypatch.setattr(Flush, "run", fail_once)
            between = BetweenBrokers("PLAINTEXT", None)
            fetchers = ReplicaFetchers(node.broker, lambda: 0, node.replicas.settle, between)
            nursery.start_soon(fetchers.run)
            await trio.sleep(5)
            nursery.cancel_scope.cancel()
    assert raised.group_contains(FatalStorageError, depth=None)
    assert cluster.follower(2).log.flushed_offset == 0
