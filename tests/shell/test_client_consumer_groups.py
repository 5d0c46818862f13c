"""Consumers in groups whose coordinator assigns (KIP-848): what they say, do, and leave behind."""

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorate.client import (
    CommitFailedError,
    Consumer,
    FencedInstanceError,
    Record,
    SubscriptionPattern,
    TopicPartition,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.shell.fake_cluster import DROP, HANG, LOSE, FakeCluster
from tests.shell.fake_consumer_groups import FakeConsumerGroup
from tests.shell.test_client_consumer import cluster_of, read, write
from tests.shell.test_client_groups import CancelAt, Heard, at_least_once, poll_for

T0, T1 = (TopicPartition("t", number) for number in range(2))
BOTH = {("t", 0), ("t", 1)}


def member(cluster: FakeCluster, **settings: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "dial": cluster.dial,
        "group_id": "g",
        "group_protocol": "consumer",
    }
    return Consumer(cluster.bootstrap, **{**defaults, **settings})


async def test_a_member_reads_what_is_assigned_commits_it_and_leaves(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group, heard = FakeConsumerGroup(cluster, BOTH), Heard()
    async with member(cluster, group_remote_assignor="range", client_rack="r1") as c:
        c.subscribe("t", listener=heard)
        assert len(await read(c, 40)) == 40
        assert c.assignment == {T0, T1}
        assert c.group_metadata.member_id == group.member != ""
        assert c.group_metadata.generation_id == group.books.generation
        await poll_for(c, 5)
    assert group.committed == {("t", 0): (20, 0), ("t", 1): (20, 0)}
    assert group.member == ""
    assert heard.events == [("assigned", [0, 1]), ("revoked", [0, 1])]
    first, second, *others, last = group.heartbeats
    assert (first.member_epoch, first.server_assignor, first.rack_id) == (0, "range", "r1")
    assert second.topic_partitions is not None
    assert [each.topic_partitions for each in others] == [None] * len(others)
    assert 4 <= len(others) <= 6
    assert last.member_epoch == -1


async def test_partitions_are_given_up_when_their_user_waits(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20, partitions=2)
    group, heard = FakeConsumerGroup(cluster, BOTH), Heard()
    async with member(cluster) as c:
        c.subscribe("t", listener=heard)
        await read(c, 40)
        group.target = {("t", 0)}
        beats = len(group.heartbeats)
        await trio.sleep(10)
        # The user has records in hand: nobody takes partitions away under it.
        assert heard.events == [("assigned", [0, 1])]
        assert group.owned == BOTH
        assert len(group.heartbeats) - beats >= 9
        await poll_for(c, 5)
        assert c.assignment == {T0}
        assert group.owned == {("t", 0)}
        assert group.committed["t", 1] == (20, 0)
        group.target = {("t", 1)}
        await poll_for(c, 5)
        assert c.assignment == {T1}
    assert heard.events == [
        *(("assigned", [0, 1]), ("revoked", [1]), ("revoked", [0])),
        *(("assigned", [1]), ("revoked", [1])),
    ]


async def test_a_rebalance_that_is_late_at_the_end_of_the_block_ends_with_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    FakeConsumerGroup(cluster, {("t", 0)})
    async with member(cluster) as c:
        c.subscribe("t")
        await read(c, 20)
    # A task that was about to run when the block ended: it wakes nobody, and that is no error.
    with trio.move_on_after(1) as scope:
        async with c._turns.taken():  # pyright: ignore[reportPrivateUsage]
            raise AssertionError("nobody grants anything any more")
    assert scope.cancelled_caught


@pytest.mark.parametrize("fenced", [False, True])
async def test_a_member_that_was_put_out_loses_its_partitions_and_joins_again(
    nursery: trio.Nursery, autojump_clock: MockClock, *, fenced: bool
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeConsumerGroup(cluster, {("t", 0)}), Heard()
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        if fenced:
            group.books.generation += 5
        else:
            group.forget_member()
        with pytest.raises(CommitFailedError, match="has gone on without this member"):
            await c.commit()
        await trio.sleep(5)
        with pytest.raises(CommitFailedError, match="no member"):
            await c.commit()
        assert len(await read(c, 20)) == 20  # nothing was committed
        assert group.member == c.group_metadata.member_id
    lives = [("assigned", [0]), ("lost", [0]), ("assigned", [0]), ("revoked", [0])]
    assert heard.events == lives


async def test_a_commit_waits_for_the_epoch_that_the_member_is_about_to_hear_of(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeConsumerGroup(cluster, {("t", 0)})
    stale = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=0, error_code=ErrorCode.STALE_MEMBER_EPOCH
                    )
                ],
            )
        ]
    )
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t")
        await read(c, 20)
        cluster.script(OffsetCommitRequest, stale, stale)
        await c.commit()
        assert group.committed["t", 0] == (20, 0)


async def test_who_does_not_poll_leaves_and_comes_back_with_the_next_poll(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeConsumerGroup(cluster, {("t", 0)}), Heard()
    async with member(cluster, max_poll_interval_ms=20_000) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        await poll_for(c, 100)
        assert heard.events == [("assigned", [0])]
        await trio.sleep(30)
        assert group.member == ""
        assert heard.events == [("assigned", [0])]
        await trio.sleep(100)
        assert group.member == ""
        await poll_for(c, 10)
        assert heard.events == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]
        assert group.member != ""


async def test_static_members_leave_for_a_while(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeConsumerGroup(cluster, {("t", 0)})
    async with member(cluster, group_instance_id="i") as c:
        c.subscribe("t")
        await read(c, 20)
    assert {each.instance_id for each in group.heartbeats} == {"i"}
    assert group.heartbeats[-1].member_epoch == -2
    assert group.committed["t", 0] == (20, 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError),
        (ErrorCode.UNRELEASED_INSTANCE_ID, KafkaError),
        (ErrorCode.UNSUPPORTED_VERSION, KafkaError),
    ],
)
async def test_a_group_that_refuses_a_member_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock, code: ErrorCode, error: type[Exception]
) -> None:
    cluster = cluster_of(nursery, records=20)
    FakeConsumerGroup(cluster, {("t", 0)})
    refusal = ConsumerGroupHeartbeatResponse(error_code=code)
    cluster.script(ConsumerGroupHeartbeatRequest, refusal)
    heard = Heard()
    async with member(cluster) as c:
        c.subscribe("t")
        for _ in range(2):
            with pytest.raises(error, match="group 'g': it is refused"):
                await read(c, 1)
        c.subscribe("t", listener=heard)
        assert len(await read(c, 20)) == 20
        cluster.script(ConsumerGroupHeartbeatRequest, refusal)
        with pytest.raises(error, match="refused"):
            await poll_for(c, 10)
        assert c.assignment == frozenset()
    assert heard.events == [("assigned", [0]), ("lost", [0])]


async def test_a_coordinator_that_is_not_ready_or_away_is_asked_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    write(cluster.create("t")[0], 20)
    group, heard = FakeConsumerGroup(cluster, {("t", 0)}), Heard()
    loading = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.script(FindCoordinatorRequest, DROP)
    cluster.script(ConsumerGroupHeartbeatRequest, DROP, loading, None, LOSE, HANG, loading)
    async with member(cluster) as c:
        c.subscribe("t", listener=heard)
        assert len(await read(c, 20)) == 20
        await poll_for(c, 100)
        group.books.broker_id = 2
        await poll_for(c, 10)
        assert group.heartbeats[-1].member_epoch > 0
    assert heard.events == [("assigned", [0]), ("revoked", [0])]
    assert group.member == ""


async def test_names_that_a_broker_does_not_know_yet_are_asked_for_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group = FakeConsumerGroup(cluster, {("t", 0)})
    asked = 0

    def by_id(_broker_id: int, request: MetadataRequest) -> Any:
        nonlocal asked
        if request.topics and request.topics[0].name is None:
            asked += 1
            return DROP if asked == 1 else MetadataResponse() if asked < 4 else None
        return None

    async with member(cluster) as c:
        cluster.script(MetadataRequest, *[by_id] * 20)
        c.subscribe("t")
        assert len(await read(c, 20)) == 20
    assert asked == 4
    assert group.committed["t", 0] == (20, 0)


async def test_subscriptions_change_and_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    for name in ("app-a", "app-b"):
        write(cluster.create(name)[0], 10)
    group = FakeConsumerGroup(cluster)

    def last_interest() -> tuple[list[str] | None, str | None]:
        return next(
            (each.subscribed_topic_names, each.subscribed_topic_regex)
            for each in reversed(group.heartbeats)
            if each.subscribed_topic_names is not None
        )

    async with member(cluster, metadata_max_age_ms=10_000) as c:
        c.subscribe("t")
        await poll_for(c, 1)
        assert last_interest() == (["t"], "")
        c.subscribe(SubscriptionPattern("app-.*"))
        await poll_for(c, 0.5)
        assert last_interest() == ([], "app-.*")
        assert c.subscription == SubscriptionPattern("app-.*")
        c.subscribe(re.compile("app-.*"))
        await poll_for(c, 0.5)
        assert last_interest() == (["app-a", "app-b"], "")
        cluster.create("app-c")
        await poll_for(c, 15)
        assert last_interest() == (["app-a", "app-b", "app-c"], "")
        await c.unsubscribe()
        assert group.member == ""
        c.assign([T0])
        assert len(await read(c, 10)) == 10


async def test_a_pattern_that_cannot_be_looked_up_is_looked_up_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    group = FakeConsumerGroup(cluster, {("t", 0)})
    async with member(cluster, request_timeout_ms=1_000) as c:
        cluster.script(MetadataRequest, *[HANG] * 3)
        c.subscribe(re.compile("t"))
        assert len(await read(c, 10)) == 10
    assert group.committed["t", 0] == (10, 0)


async def test_brokers_that_do_not_serve_the_protocol_are_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(nursery, records=10)
    FakeConsumerGroup(cluster)
    async with member(cluster) as c:
        inside: Any = c
        connection = await inside._connected().reach(1)
        monkeypatch.delitem(connection.versions, 68)
        c.subscribe("t")
        with pytest.raises(KafkaError, match="group_protocol is 'consumer'") as raised:
            await read(c, 1)
        assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"session_timeout_ms": 1}, "session_timeout_ms does not go with group_protocol"),
        ({"partition_assignment_strategy": "range"}, "group_remote_assignor names an assignor"),
        ({"group_protocol": "best"}, "there is no group_protocol 'best'"),
        ({"group_id": None, "group_instance_id": "i"}, "it needs a group_id"),
        (
            {"group_protocol": "classic", "group_remote_assignor": "range"},
            "needs group_protocol='consumer'",
        ),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    nursery: trio.Nursery, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        member(FakeCluster(nursery), **settings)


async def test_only_coordinators_match_their_patterns(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1)
    FakeConsumerGroup(cluster)
    async with member(cluster, group_protocol="classic") as c:
        with pytest.raises(ValueError, match="needs group_protocol='consumer'"):
            c.subscribe(SubscriptionPattern("t"))


async def lead_a_life(cluster: FakeCluster, group: FakeConsumerGroup, processed: list[int]) -> None:
    """Everything that a consumer's user does."""
    async with member(cluster, max_poll_records=7, auto_commit_interval_ms=50) as c:
        c.subscribe("t")
        for _ in range(4):
            for record in await c.poll(timeout_ms=20_000):
                await process(record, processed)
        await c.commit()
        group.target = set()
        for _ in range(5):
            for record in await c.poll(max_records=2, timeout_ms=400):
                await process(record, processed)
        group.target = {("t", 0)}
        async for record in c:
            await process(record, processed)
            if len(processed) == 40:
                break
        await c.unsubscribe()
        c.subscribe("t")
        await c.poll(timeout_ms=1_000)


async def process(record: Record, processed: list[int]) -> None:
    await trio.sleep(0.02)
    processed.append(record.offset)


async def test_cancelling_anywhere_leaves_no_ghost_and_commits_nothing_unread(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    step, phases = 0, set[int]()
    while True:
        step += 1
        cluster = FakeCluster(nursery)
        write(cluster.create("t")[0], 40)
        group, processed = FakeConsumerGroup(cluster, {("t", 0)}), list[int]()
        scope = trio.CancelScope()
        instrument = CancelAt(trio.lowlevel.current_task(), scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope, trio.fail_after(1_000):
            await lead_a_life(cluster, group, processed)
        trio.lowlevel.remove_instrument(instrument)
        assert group.member == "", f"a ghost after {step} steps"
        assert at_least_once(group.books, processed), (step, group.committed, processed)
        phases.add(len(processed))
        if instrument.left > 0:
            break
    assert phases == set(range(41))
    assert processed == list(range(40))


async def test_who_subscribes_again_hears_all_the_same_why_it_was_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    group, heard = FakeConsumerGroup(cluster, {("t", 0)}), Heard()
    async with member(cluster, enable_auto_commit=False) as c:
        c.subscribe("t", listener=heard)
        await read(c, 20)
        group.forget_member()
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        cluster.script(
            ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse(error_code=code)
        )
        await trio.sleep(10)
        c.subscribe("t", listener=heard)
        await trio.sleep(10)
        with pytest.raises(KafkaError, match="it is refused"):
            await poll_for(c, 10)
        c.subscribe("t", listener=heard)
        assert len(await read(c, 20)) == 20
    assert [kind for kind, _ in heard.events] == ["assigned", "lost", "assigned", "revoked"]
