"""Consumers in groups: what they are told, what they commit, and how they come and go."""

import re
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock

from quorate.client import (
    ClosedError,
    Commit,
    CommitFailedError,
    Consumer,
    FencedInstanceError,
    NotAssignedError,
    RebalanceListener,
    Record,
    TopicPartition,
)
from quorate.client.groups.results import OffsetAndMetadata
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
)
from tests.shell.fake_cluster import DROP, HANG, LOSE, FakeCluster
from tests.shell.fake_groups import FakeGroup
from tests.shell.test_client_consumer import cluster_of, places, read, write

if TYPE_CHECKING:
    from collections.abc import Callable

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Heard(RebalanceListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.done: dict[TopicPartition, int] = {}
        self.on: Callable[[str], Any] = lambda _: None

    async def _hear(self, kind: str, partitions: frozenset[TopicPartition]) -> None:
        self.events.append((kind, sorted(p.partition for p in partitions)))
        outcome = self.on(kind)
        if outcome is not None:
            await outcome

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await self._hear("assigned", partitions)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._hear("revoked", partitions)

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await self._hear("lost", partitions)


def member(cluster: FakeCluster, **settings: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "dial": cluster.dial,
        "group_id": "g",
    }
    return Consumer(cluster.bootstrap, **{**defaults, **settings})


async def poll_for(c: Consumer, seconds: float) -> list[Record]:
    """Poll as long as that."""
    records: list[Record] = []
    end_s = trio.current_time() + seconds
    while (left_s := end_s - trio.current_time()) > 0:
        records += await c.poll(timeout_ms=min(500, int(left_s * 1000) + 1))
    return records


async def test_a_member_reads_what_is_assigned_commits_it_and_leaves(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=3)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster) as c:
        c.subscribe("t", listener=heard)
        assert len(await read(c, 60)) == 60
        assert c.assignment == {T0, T1, T2}
        assert c.subscription == {"t"}
        assert c.group_metadata.member_id == group.member == "member-1"
        assert [c.lag(p) for p in (T0, T1, T2)] == [0, 0, 0]
    assert group.committed == {("t", number): (20, 0) for number in range(3)}
    assert group.member == ""
    assert group.reasons[-1] == "left: the consumer was closed"
    assert heard.events == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]


async def test_who_comes_later_goes_on_at_the_committed_offset(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster, committed={("t", 0): (7, 0)})
    async with member(cluster) as c:
        c.subscribe(["t"])
        assert places(await c.poll(max_records=1, timeout_ms=60_000)) == [(0, 7)]
        committed = await c.committed([T0, T1])
        assert committed == {T0: OffsetAndMetadata(7, 0), T1: None}
    assert group.committed["t", 0] == (8, 0)


async def test_a_record_is_processed_when_its_user_comes_back_for_more(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=100)
    group = FakeGroup(cluster)
    async with member(cluster, auto_commit_interval_ms=100) as c:
        c.subscribe("t")
        records = await read(c, 10)
        assert records[-1].offset == 9
        await trio.sleep(1)
        assert group.committed.get(("t", 0), (0, -1))[0] < 10
        await c.poll(max_records=5)
        await trio.sleep(1)
        assert group.committed["t", 0] == (10, 0)
        async for record in c:
            await trio.sleep(1)
            assert group.committed["t", 0][0] == record.offset
            if record.offset == 20:
                break
    assert group.committed["t", 0][0] == 21


async def test_what_its_user_has_committed_is_not_taken_back_by_commits_of_its_own(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=100)
    group = FakeGroup(cluster)

    async def poll() -> None:
        async with member(cluster, auto_commit_interval_ms=100) as c:
            c.subscribe("t")
            await read(c, 10)
            await c.commit()
            await trio.sleep(1)
            assert group.committed["t", 0] == (10, 0)
            await c.poll(max_records=5)
            await c.commit({T0: 12})
            await trio.sleep(1)
            assert group.committed["t", 0][0] == 12
            raise ZeroDivisionError

    async def iterate() -> None:
        async with member(cluster) as c:
            c.subscribe("t")
            async for record in c:
                if record.offset == 20:
                    await c.commit()
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await poll()
    assert group.committed["t", 0][0] == 12
    with pytest.raises(ZeroDivisionError):
        await iterate()
    assert group.committed["t", 0][0] == 21


@pytest.mark.parametrize("unsubscribes", [False, True])
async def test_what_was_read_before_the_end_is_not_taken_back_while_the_listener_works(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    unsubscribes: bool,  # or the block ends
) -> None:
    cluster = cluster_of(nursery, records=10)
    group, heard = FakeGroup(cluster), Heard()

    async def work() -> None:
        await trio.sleep(1)

    heard.on = lambda kind: work() if kind == "revoked" else None
    async with member(cluster, auto_commit_interval_ms=100) as c:
        c.subscribe("t", listener=heard)
        assert len(await read(c, 10)) == 10
        if unsubscribes:
            await c.unsubscribe()
    assert heard.events[-1] == ("revoked", [0])
    assert group.committed["t", 0][0] == 10


async def test_who_commits_less_than_it_was_given_has_the_rest_in_hand(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=100)
    group = FakeGroup(cluster)
    async with member(cluster, auto_commit_interval_ms=100) as c:
        c.subscribe("t")
        await read(c, 10)
        await c.poll(max_records=5)
        await trio.sleep(1)
        await c.commit({T0: 3})
        assert group.committed["t", 0][0] == 3
        await c.poll(max_records=5)
        await c.commit({T0: 999})
        await c.poll(max_records=1)
        await trio.sleep(1)
        assert group.committed["t", 0][0] == 20


async def test_what_an_error_was_about_is_not_committed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)

    async def iterate() -> None:
        async with member(cluster) as c:
            c.subscribe("t")
            async for record in c:
                assert 1 // (5 - record.offset) < 2

    async def poll() -> None:
        async with member(cluster, max_poll_records=3) as c:
            c.subscribe("t")
            while True:
                for record in await c.poll():
                    assert 1 // (9 - record.offset) < 2

    with pytest.raises(ZeroDivisionError):
        await iterate()
    assert group.committed["t", 0][0] == 5
    assert group.reasons[-1].startswith("left: the consumer ended by ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        await poll()
    assert group.committed["t", 0][0] == 8


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_partitions_go_to_a_newcomer_when_their_user_waits(
    nursery: trio.Nursery, autojump_clock: MockClock, strategy: str
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, partition_assignment_strategy=strategy) as c:
        c.subscribe("t", listener=heard)
        await read(c, 40)
        group.other_joins("other", "t")
        await trio.sleep(10)
        # The user has records in hand: nobody takes partitions away under it.
        assert heard.events == [("assigned", [0, 1])]
        assert group.committed == {} or c.assignment == {T0, T1}
        await poll_for(c, 10)
        assert c.assignment == {T0}
        assert group.committed["t", 1] == (20, 0)
        group.other_leaves("other")
        await poll_for(c, 10)
        assert c.assignment == {T0, T1}
    middle: list[tuple[str, list[int]]] = (
        [("revoked", [0, 1]), ("assigned", [0]), ("revoked", [0]), ("assigned", [0, 1])]
        if strategy == "range"
        else [("revoked", [1]), ("assigned", []), ("assigned", []), ("assigned", [1])]
    )
    assert heard.events == [("assigned", [0, 1]), *middle, ("revoked", [0, 1])]


async def test_cooperative_members_say_what_they_have_and_read_on(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=0, partitions=2)
    group = FakeGroup(cluster)
    async with member(cluster, partition_assignment_strategy="cooperative-sticky") as c:
        c.subscribe("t")
        await poll_for(c, 5)
        cluster.script(JoinGroupRequest, HANG)
        group.other_joins("other", "t")
        await poll_for(c, 5)
        joins = cluster.requests_of(JoinGroupRequest)
        assert set(group.owned_by_member(joins[-1])) == {T0, T1}
        write(cluster.topics["t"][0], 3)
        cluster.appended.unpark_all()
        assert places(await read(c, 3)) == [(0, 0), (0, 1), (0, 2)]


async def test_an_iteration_stops_for_a_rebalance_with_records_left(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1_000, partitions=2)
    group = FakeGroup(cluster)
    seen: list[Record] = []
    async with member(cluster) as c:
        c.subscribe("t")
        async for record in c:
            seen.append(record)
            if len(seen) == 50:
                group.other_joins("other", "t")
            await trio.sleep(0.1)
            if len(seen) > 50 and T1 not in c.assignment:
                break
        theirs = [r for r in seen if r.partition == 1]
        assert group.committed["t", 1][0] == len(theirs)
        assert len(seen) < 300


async def test_offsets_are_committed_when_asked_to_and_in_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group = FakeGroup(cluster)
    told: list[Commit] = []
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t")
        await read(c, 40)
        await c.commit()
        assert group.committed == {("t", 0): (20, 0), ("t", 1): (20, 0)}
        await c.commit({T0: 3, T1: OffsetAndMetadata(4, 0, "why")})
        assert group.committed == {("t", 0): (3, -1), ("t", 1): (4, 0)}
        before = len(cluster.requests_of(OffsetCommitRequest))
        commits = [c.commit_soon({T0: offset}, told.append) for offset in range(10)]
        assert not any(commit.done for commit in commits)
        await commits[-1].result()
        assert group.committed["t", 0] == (9, -1)
        assert len(cluster.requests_of(OffsetCommitRequest)) - before <= 2
        assert len(told) == 10
        assert all(commit.error is None for commit in told)
        with pytest.raises(NotAssignedError):
            await c.commit({("t", 7): 1})  # type: ignore[dict-item]
    assert group.committed["t", 0] == (9, -1)


async def test_commits_find_a_coordinator_that_moved(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    write(cluster.create("t")[0], 20)
    group = FakeGroup(cluster)
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t")
        await read(c, 20)
        group.broker_id = 2
        await c.commit()
        assert group.committed["t", 0] == (20, 0)
        await poll_for(c, 10)
        assert c.group_metadata.generation_id == group.generation == 1


async def test_a_commit_whose_followers_were_late_is_made_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)

    def late(broker_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
        response = group.commit(broker_id, request)
        response.topics[0].partitions[0].error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    async with member(cluster, enable_auto_commit=False, request_timeout_ms=3_000) as c:
        c.subscribe("t")
        await read(c, 20)
        cluster.script(OffsetCommitRequest, late, late)
        await c.commit()
        cluster.script(OffsetCommitRequest, *[late] * 100)
        with pytest.raises(KafkaError) as caught:
            await c.commit()
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_commit_may_be_answered_just_when_the_consumer_has_given_it_up(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    async with member(cluster, enable_auto_commit=False) as c:
        commits = c._commits  # pyright: ignore[reportPrivateUsage]
        assert commits is not None

        def given_up(broker_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
            commits.end()  # and who the answer wakes goes on before it is cancelled
            return group.commit(broker_id, request)

        c.subscribe("t")
        await read(c, 20)
        cluster.script(OffsetCommitRequest, given_up)
        with pytest.raises(ClosedError):
            await c.commit()
        await trio.sleep(1)
        assert group.committed["t", 0] == (20, 0)


async def test_a_commit_that_nobody_answers_is_not_called_done(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    async with member(cluster, enable_auto_commit=False, request_timeout_ms=3_000) as c:
        c.subscribe("t")
        await read(c, 20)
        cluster.script(OffsetCommitRequest, *[HANG] * 100)
        with pytest.raises(KafkaError, match="no coordinator answered"):
            await c.commit()
        assert group.committed == {}


async def test_a_member_that_was_forgotten_loses_its_partitions_and_joins_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        group.forget_member()
        with pytest.raises(CommitFailedError, match="has gone on without this member"):
            await c.commit()
        await trio.sleep(5)
        with pytest.raises(CommitFailedError, match="no member"):
            await c.commit()
        assert len(await read(c, 20)) == 20  # nothing was committed
        assert group.member == "member-2"
    assert heard.events == [
        ("assigned", [0]),
        ("lost", [0]),
        ("assigned", [0]),
        ("revoked", [0]),
    ]


async def test_who_does_not_poll_leaves_with_a_reason_and_comes_back_with_the_next_poll(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, max_poll_interval_ms=20_000) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        await poll_for(c, 100)
        assert group.member == "member-1"
        await trio.sleep(30)
        assert group.member == ""
        assert group.reasons[-1] == "left: no poll within max_poll_interval_ms (20000 ms)"
        await trio.sleep(100)
        assert group.member == ""
        assert heard.events == [("assigned", [0])]
        await poll_for(c, 10)
        assert heard.events == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]
        assert group.member == "member-2"


async def test_a_long_wait_for_records_is_no_silence(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=0)
    group = FakeGroup(cluster)
    async with member(cluster, max_poll_interval_ms=20_000) as c:
        c.subscribe("t")
        assert await c.poll(timeout_ms=200_000) == []
        assert group.member == "member-1"
        with trio.move_on_after(200):
            async for _ in c:
                pass
        assert group.member == "member-1"


async def test_static_members_do_not_leave(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    async with member(cluster, group_instance_id="i") as c:
        c.subscribe("t")
        await read(c, 20)
        assert c.group_metadata.group_instance_id == "i"
    assert group.member == "member-1"
    assert group.committed["t", 0] == (20, 0)
    joins = cluster.requests_of(JoinGroupRequest)
    assert {join.group_instance_id for join in joins} == {"i"}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError),
    ],
)
async def test_a_group_that_refuses_a_member_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock, code: ErrorCode, error: type[Exception]
) -> None:
    cluster = cluster_of(nursery, records=20)
    FakeGroup(cluster)
    cluster.script(JoinGroupRequest, JoinGroupResponse(error_code=code))
    async with member(cluster) as c:
        c.subscribe("t")
        with pytest.raises(error, match="group 'g': it cannot join"):
            await read(c, 1)
        with pytest.raises(error):
            await c.poll()
        c.subscribe("t")
        assert len(await read(c, 20)) == 20
        cluster.script(HeartbeatRequest, HeartbeatResponse(error_code=code))
        with pytest.raises(error, match="is out of the group"):
            await poll_for(c, 10)
        assert c.assignment == frozenset()


async def test_a_coordinator_that_is_not_ready_is_asked_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    loading, moved = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
    nobody = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.script(FindCoordinatorRequest, nobody, DROP)
    cluster.script(JoinGroupRequest, DROP, None, JoinGroupResponse(error_code=loading), LOSE, None)
    cluster.script(
        SyncGroupRequest,
        SyncGroupResponse(error_code=moved),
        SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
        DROP,
    )
    cluster.script(OffsetFetchRequest, DROP)
    cluster.script(HeartbeatRequest, DROP, HeartbeatResponse(error_code=moved), HANG)
    cluster.script(OffsetCommitRequest, DROP)
    async with member(cluster) as c:
        c.subscribe("t")
        assert len(await read(c, 20)) == 20
        await poll_for(c, 100)
        assert group.member != ""
        assert "it was given a member id" in group.reasons
    assert group.committed["t", 0] == (20, 0)


async def test_topics_that_appear_and_grow_are_read(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    FakeGroup(cluster)
    async with member(cluster, metadata_max_age_ms=10_000) as c:
        c.subscribe("t")
        assert await poll_for(c, 5) == []
        write(cluster.create("t")[0], 10)
        assert len(await read(c, 10)) == 10
        logs = cluster.topics["t"]
        logs[1] = type(logs[0])(leader_id=1)
        write(logs[1], 5)
        assert {r.partition for r in await poll_for(c, 30)} == {1}


async def test_a_pattern_finds_topics_whose_whole_name_matches(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    FakeGroup(cluster)
    for name in ("app-a", "my-app-b", "app"):
        write(cluster.create(name)[0], 10)
    pattern = re.compile("app-.*")
    async with member(cluster, metadata_max_age_ms=10_000) as c:
        c.subscribe(pattern)
        assert {r.topic for r in await poll_for(c, 5)} == {"app-a"}
        assert c.subscription == pattern
        write(cluster.create("app-c")[0], 10)
        assert {r.topic for r in await poll_for(c, 30)} == {"app-c"}
        assert {p.topic for p in c.assignment} == {"app-a", "app-c"}


async def test_subscriptions_change_and_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    group, heard = FakeGroup(cluster), Heard()
    write(cluster.create("u")[0], 10)
    async with member(cluster, partition_assignment_strategy="cooperative-sticky") as c:
        c.subscribe("t", listener=heard)
        await read(c, 10)
        c.subscribe("u", listener=heard)
        assert {r.topic for r in await read(c, 10)} == {"u"}
        assert c.assignment == {("u", 0)}
        with pytest.raises(ValueError, match="unsubscribe"):
            c.assign([T0])
        await c.unsubscribe()
        assert group.reasons[-1] == "left: unsubscribed"
        assert not c.assignment
        assert c.subscription == frozenset()
        await c.unsubscribe()
        c.assign([("u", 0)])
        assert await c.position(("u", 0)) == 10
        with pytest.raises(ValueError, match="assigned by hand"):
            c.subscribe("t")
        with pytest.raises(ValueError, match="no topic"):
            c.subscribe([])
    assert heard.events == [
        ("assigned", [0]),
        ("revoked", [0]),
        ("assigned", [0]),
        ("revoked", [0]),
    ]


async def test_partitions_assigned_by_hand_begin_at_the_committed_offset_and_commit(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group = FakeGroup(cluster, committed={("t", 0): (15, -1)})
    async with member(cluster) as c:
        c.assign([T0, T1])
        c.pause(T1)
        assert c.paused == {T1}
        assert [r.offset for r in await read(c, 5)] == [15, 16, 17, 18, 19]
    assert group.committed == {("t", 0): (20, 0), ("t", 1): (0, -1)}
    assert cluster.requests_of(JoinGroupRequest) == []


async def test_a_position_that_the_coordinator_does_not_tell_is_not_waited_for_without_an_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    FakeGroup(cluster)
    cluster.script(OffsetFetchRequest, *[HANG] * 100)
    async with member(cluster, request_timeout_ms=3_000) as c:
        c.assign([T0])
        with trio.fail_after(4), pytest.raises(KafkaError, match="group's coordinator has not"):
            await c.position(T0)


async def test_without_a_committed_offset_and_a_policy_there_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    FakeGroup(cluster)
    async with member(cluster, auto_offset_reset="none") as c:
        c.subscribe("t")
        with pytest.raises(KafkaError, match="group 'g' has no offset of t-0"):
            await poll_for(c, 10)
        c.seek(T0, 4)
        assert [r.offset for r in await read(c, 16)] == list(range(4, 20))


async def test_however_long_a_listener_takes_its_user_does_nothing_beside_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group, heard = FakeGroup(cluster), Heard()
    working = 0

    async def take_long() -> None:
        nonlocal working
        working += 1
        await trio.sleep(3)
        working -= 1

    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 40)
        heard.on = lambda _: take_long()
        group.other_joins("other", "t")
        for _ in range(20):
            await c.poll(timeout_ms=500)
            assert not working
        assert [kind for kind, _ in heard.events] == ["assigned", "revoked", "assigned"]
        heard.on = lambda _: None


@pytest.mark.parametrize(
    "nonsense",
    [
        -1,
        2**63,
        "x",
        OffsetAndMetadata(3, -2),
        OffsetAndMetadata(3, metadata="x" * 40_000),
        OffsetAndMetadata(3, metadata=None),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_offset_is_refused_and_stops_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock, nonsense: Any
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t")
        await read(c, 20)
        with pytest.raises(ValueError, match="t-0"):
            await c.commit({T0: nonsense})
        await c.commit({T0: OffsetAndMetadata(7, 0, "seven")})
    assert group.committed == {("t", 0): (7, 0)}


async def test_a_listener_may_seek_and_commit_but_not_poll(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, enable_auto_commit=False) as c:

        async def assigned() -> None:
            assert await c.position(T0) == 0
            c.seek(T0, 12)
            with pytest.raises(RuntimeError, match="listener cannot ask for records"):
                await c.poll()

        def on(kind: str) -> Any:
            return assigned() if kind == "assigned" else c.commit()

        heard.on = on
        c.subscribe("t", listener=heard)
        assert [r.offset for r in await read(c, 8)] == list(range(12, 20))
        assert await poll_for(c, 1) == []
    assert group.committed["t", 0] == (20, 0)


async def test_what_a_listener_raises_comes_out_of_poll_and_stops_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    async with member(cluster) as c:
        heard.on = lambda _: fail()
        c.subscribe("t", listener=heard)
        with pytest.raises(ZeroDivisionError):
            await c.poll()
        assert len(await read(c, 20)) == 20
        group.other_joins("other", "t")
        with pytest.raises(ZeroDivisionError):
            await poll_for(c, 10)
        heard.on = lambda _: None
    assert group.member == ""


async def test_consumers_without_a_group_say_what_they_lack(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1)
    async with member(cluster, group_id=None) as c:
        with pytest.raises(ValueError, match="needs one to subscribe"):
            c.subscribe("t")
        with pytest.raises(ValueError, match="needs one to commit"):
            await c.commit()
        with pytest.raises(ValueError, match="no group_id"):
            await c.committed([T0])
        with pytest.raises(ValueError, match="no group_id"):
            assert c.group_metadata.group_id == ""
        await c.unsubscribe()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_interval_ms": 50_000}, "must be below session_timeout_ms"),
        ({"max_poll_records": 0}, "max_poll_records is 0"),
        ({"auto_commit_interval_ms": 0}, "auto_commit_interval_ms is 0"),
        ({"partition_assignment_strategy": "best"}, "there is no assignor 'best'"),
        ({"group_id": None, "group_instance_id": "i"}, "it needs a group_id"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    nursery: trio.Nursery, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        member(FakeCluster(nursery), **settings)


def at_least_once(group: FakeGroup, processed: list[int]) -> bool:
    """Whether nothing is committed that was not processed."""
    committed = group.committed.get(("t", 0), (0, -1))[0]
    return set(range(committed)) <= set(processed)


async def lead_a_life(cluster: FakeCluster, processed: list[int]) -> None:
    """Everything that a consumer's user does."""
    heard = Heard()
    async with member(cluster, max_poll_records=7, auto_commit_interval_ms=50) as c:

        async def on(kind: str) -> None:
            if kind == "revoked":
                await c.commit({p: o for p, o in heard.done.items() if p in c.assignment})

        heard.on = on
        c.subscribe("t", listener=heard)
        for _ in range(7):
            for record in await c.poll(timeout_ms=20_000):
                await trio.sleep(0.02)
                processed.append(record.offset)
                heard.done[record.topic_partition] = record.offset + 1
        await c.commit()
        async for record in c:
            await trio.sleep(0.02)
            processed.append(record.offset)
            heard.done[record.topic_partition] = record.offset + 1
            if len(processed) == 60:
                break
        await c.unsubscribe()
        c.subscribe("t")
        await c.poll(timeout_ms=1_000)


class CancelAt(trio.abc.Instrument):
    """Cancels a scope when a task is about to take its n-th step."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task = task
        self._scope = scope
        self.left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self.left -= 1
            if self.left == 0:
                self._scope.cancel()


async def test_cancelling_anywhere_leaves_no_ghost_and_commits_nothing_unread(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    step, phases = 0, set[int]()
    while True:
        step += 1
        cluster = FakeCluster(nursery)
        write(cluster.create("t")[0], 60)
        group, processed = FakeGroup(cluster), list[int]()
        scope = trio.CancelScope()
        instrument = CancelAt(trio.lowlevel.current_task(), scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope:
            await lead_a_life(cluster, processed)
        trio.lowlevel.remove_instrument(instrument)
        assert group.member == "", f"a ghost after {step} steps"
        assert at_least_once(group, processed), (step, group.committed, processed)
        assert len(cluster.requests_of(LeaveGroupRequest)) <= 2
        phases.add(len(processed))
        if instrument.left > 0:
            break
    assert phases == set(range(61))
    assert processed == list(range(60))


async def test_who_is_cancelled_while_it_gets_its_member_id_gives_it_back(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)
    with trio.CancelScope() as scope:

        def cancel(_broker_id: int, _request: Any) -> None:
            scope.cancel()

        cluster.script(JoinGroupRequest, cancel)
        async with member(cluster) as c:
            c.subscribe("t")
            await read(c, 20)
    (leaving,) = cluster.requests_of(LeaveGroupRequest)
    assert [each.member_id for each in leaving.members] == ["member-1"]
    assert group.reasons == ["left: the consumer was cancelled"]


async def test_a_member_that_is_forgotten_while_its_listener_works_loses_what_it_just_got(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group, heard = FakeGroup(cluster), Heard()

    async def be_forgotten() -> None:
        heard.on = lambda _: None
        group.forget_member()
        group.other_joins("other", "t")
        await trio.sleep(10)

    heard.on = lambda _: be_forgotten()
    async with member(cluster) as c:
        c.subscribe("t", listener=heard)
        await poll_for(c, 20)
        assert c.assignment == set(group.assignments["member-2"])
        assert len(c.assignment) == 1
    assert [kind for kind, _ in heard.events] == ["assigned", "lost", "assigned", "revoked"]


async def test_who_is_cancelled_while_it_unsubscribes_reads_nothing_any_more(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        heard.on = lambda _: trio.Event().wait()
        with trio.move_on_after(1) as patience:
            await c.unsubscribe()
        assert patience.cancelled_caught
        assert group.member == ""
        assert c.assignment == c.subscription == frozenset()
        assert await c.poll(timeout_ms=0) == []
        c.subscribe("t")
        assert len(await read(c, 20)) == 20


async def test_who_subscribes_again_hears_all_the_same_why_it_was_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeGroup(cluster), Heard()
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        group.forget_member()
        refusal = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        cluster.script(HeartbeatRequest, refusal)
        await trio.sleep(10)
        c.subscribe("t", listener=heard)
        await trio.sleep(10)
        with pytest.raises(KafkaError, match="is out of the group"):
            await poll_for(c, 10)
        c.subscribe("t", listener=heard)
        assert len(await read(c, 20)) == 20
    assert [kind for kind, _ in heard.events] == ["assigned", "lost", "assigned", "revoked"]


async def test_a_commit_waits_for_the_generation_that_the_member_is_about_to_hear_of(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, joining = FakeGroup(cluster), trio.Event()

    async def answered_late(broker_id: int, request: JoinGroupRequest) -> JoinGroupResponse:
        response = group.join(broker_id, request)
        joining.set()
        await trio.sleep(0.05)
        return response

    settings = {"partition_assignment_strategy": "cooperative-sticky", "enable_auto_commit": False}
    async with member(cluster, **settings) as c:
        c.subscribe("t")
        await read(c, 20)
        cluster.script(JoinGroupRequest, answered_late)
        c.subscribe("t")
        await joining.wait()
        await c.commit()
        assert (group.generation, group.committed) == (2, {("t", 0): (20, 0)})


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])
async def test_a_commit_that_waits_is_not_made_by_who_the_member_has_become(
    nursery: trio.Nursery, autojump_clock: MockClock, code: ErrorCode
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeGroup(cluster)

    def go_on_without_it(broker_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
        group.forget_member()
        response = group.commit(broker_id, request)
        response.topics[0].partitions[0].error_code = code
        return response

    async with member(cluster, enable_auto_commit=False, heartbeat_interval_ms=10) as c:
        c.subscribe("t")
        await read(c, 20)
        cluster.script(OffsetCommitRequest, go_on_without_it)
        commit = c.commit_soon()
        assert len(await read(c, 20)) == 20
        with pytest.raises(CommitFailedError):
            await commit.result()
        assert (group.member, group.committed) == ("member-2", {})
