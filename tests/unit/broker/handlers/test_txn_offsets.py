"""Offsets of transactions count when those commit, and are asked for in the meantime."""

from typing import Any

import pytest

from quorate.broker.handlers.group_offsets import offset_fetch
from quorate.broker.handlers.table import serve_own
from quorate.broker.shards.topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.broker.handlers.grouping import (
    beat,
    commit,
    coordinator_of,
    fetched,
    join,
    leave,
)
from tests.unit.broker.handlers.transacting import (
    PID,
    add_offsets,
    commit_offsets,
    end,
    init,
    new_transactions,
)
from tests.unit.broker.harness import Node, now, over, waits

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def codes(answer: Any) -> list[ErrorCode]:
    return [ErrorCode(p.error_code) for t in now(answer).topics for p in t.partitions]


def begun(**texts: str) -> Node:
    """Return a broker with a producer whose transaction commits offsets of ``g``."""
    node = new_transactions(**texts)
    init(node)
    assert now(add_offsets(node)).error_code == 0
    return node


def stable(node: Node, *, required: bool = True) -> list[tuple[int, ErrorCode]]:
    """Return what is told of the first partition of ``t`` to who wants no offset of before."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=required)
    (told,) = now(offset_fetch(node.broker, request, over(9))).groups
    return [
        (p.committed_offset, ErrorCode(p.error_code)) for t in told.topics for p in t.partitions
    ]


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_when_their_transaction_commits(commits: bool) -> None:
    node = begun()
    assert commit(node, 5) == [NONE]
    assert codes(commit_offsets(node, 7, 8)) == [NONE, NONE]
    assert (fetched(node), stable(node)) == ({("t", 0): 5}, [(-1, UNSTABLE)])
    assert stable(node, required=False) == [(5, NONE)]
    assert now(end(node, commit=commits)).error_code == 0
    expected = {("t", 0): 7, ("t", 1): 8} if commits else {("t", 0): 5}
    assert (fetched(node), stable(node)) == (expected, [(expected["t", 0], NONE)])


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_coordinator_of_the_group_knows_the_same(commits: bool) -> None:
    node = begun()
    commit(node, 5)
    commit_offsets(node, 7)
    node.lead(GROUPS_TOPIC, 0, 1)
    assert (fetched(node), stable(node)) == ({("t", 0): 5}, [(-1, UNSTABLE)])
    end(node, commit=commits)
    before = fetched(node)
    assert before == {("t", 0): 7 if commits else 5}
    node.lead(GROUPS_TOPIC, 0, 2)
    assert (fetched(node), stable(node)) == (before, [(before["t", 0], NONE)])


def test_from_version_5_on_the_groups_partition_need_not_be_added_before() -> None:
    node = new_transactions()
    init(node)
    assert codes(commit_offsets(node, 7, version=5)) == [NONE]
    assert now(end(node, version=5)).producer_epoch == 1
    assert fetched(node) == {("t", 0): 7}
    assert codes(commit_offsets(node, 8, epoch=1, version=5)) == [NONE]
    assert now(end(node, epoch=1, version=5)).producer_epoch == 2
    assert fetched(node) == {("t", 0): 8}


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_before_version_5_it_must_be(version: int, code: ErrorCode) -> None:
    node = new_transactions()
    init(node)
    assert codes(commit_offsets(node, 7, version=version)) == [code]
    assert codes(commit_offsets(node, 7, version=version, producer_id=PID + 1)) == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ]
    assert codes(commit_offsets(node, 7, version=version, epoch=1)) == [
        ErrorCode.INVALID_PRODUCER_EPOCH
    ]
    assert node.leader(GROUPS_TOPIC).log.log_end_offset == 0


def test_an_old_producer_commits_no_more() -> None:
    node = begun()
    commit_offsets(node, 7)
    assert now(init(node)).producer_epoch == 3
    assert fetched(node) == {}
    assert codes(commit_offsets(node, 8)) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_partitions_that_do_not_exist_are_refused_alone() -> None:
    node = begun()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(commit_offsets(node, 1, 2, 3, 4)) == [NONE, NONE, NONE, unknown]
    assert codes(commit_offsets(node, 1, topic="nowhere")) == [unknown]


def test_a_group_has_a_name() -> None:
    node = begun()
    assert codes(commit_offsets(node, 1, group_id="")) == [ErrorCode.INVALID_GROUP_ID]


def test_members_are_checked_and_old_producers_cannot_say_who_they_are() -> None:
    node = begun()
    joined = join(node)
    assert codes(commit_offsets(node, 1)) == [NONE]
    right = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    assert codes(commit_offsets(node, 2, **right)) == [NONE]
    stale = {**right, "generation_id": joined.generation_id - 1}
    assert codes(commit_offsets(node, 3, **stale)) == [ErrorCode.ILLEGAL_GENERATION]
    stranger: dict[str, Any] = {**right, "member_id": "stranger"}
    assert codes(commit_offsets(node, 3, **stranger)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    leave(node, joined.member_id)
    nobody = commit_offsets(node, 3, version=5, generation_id=5, group_id="nobody")
    assert codes(nobody) == [ErrorCode.ILLEGAL_GENERATION]
    assert codes(commit_offsets(node, 3, version=5, group_id="alone")) == [NONE]
    alone = commit_offsets(node, 3, version=5, generation_id=5, group_id="alone")
    assert codes(alone) == [ErrorCode.UNKNOWN_MEMBER_ID]
    end(node)
    assert fetched(node) == {("t", 0): 2}


def test_at_another_epoch_than_the_groups_a_generation_is_illegal() -> None:
    """As in Kafka: transactional producers do not know STALE_MEMBER_EPOCH."""
    node = begun()
    assert beat(node).member_epoch == 1
    assert codes(commit_offsets(node, 1, member_id="m1", generation_id=1)) == [NONE]
    early = commit_offsets(node, 2, member_id="m1", generation_id=2)
    assert codes(early) == [ErrorCode.ILLEGAL_GENERATION]
    end(node)
    assert fetched(node) == {("t", 0): 1}


def test_a_group_with_offsets_under_way_does_not_expire() -> None:
    node = new_transactions(offsets_retention_minutes="1")
    init(node, transaction_timeout_ms=600_000)
    commit(node, 5, 6)
    add_offsets(node)
    commit_offsets(node, 7)
    node.wait(120_000)
    for _ in coordinator_of(node).expire():
        pass
    assert fetched(node) == {("t", 0): 5}
    assert coordinator_of(node).keeper.offsets.is_pending("g", "t", 0)


def test_who_coordinates_the_group_no_more_says_so() -> None:
    node = begun()
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)
    assert codes(commit_offsets(node, 7)) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_a_coordinator_that_does_not_answer_is_asked_again_later(
    version: int, code: ErrorCode
) -> None:
    node = begun()
    never: Promise[Any] = Promise()
    node.broker.serve_own = lambda _key, _request: never
    answer = commit_offsets(node, 7, version=version)
    assert waits(answer)
    never.resolve(None)
    assert codes(answer) == [code]


def test_the_broker_that_coordinates_the_transaction_is_asked() -> None:
    node, other, asked = new_transactions(), new_transactions(), list[int]()
    init(other)

    def ask(broker_id: int, api_key: int, request: Any) -> Promise[Any]:
        asked.append(broker_id)
        return serve_own(other.broker, api_key, request)

    node.broker.ask_peer = ask
    node.join(2, port=9093)
    for partition in range(2):
        node.lead(TRANSACTIONS_TOPIC, partition, 1, leader_id=2)
    assert codes(commit_offsets(node, 7, version=5)) == [NONE]
    assert asked == [2]
    assert stable(node) == [(-1, UNSTABLE)]
    assert codes(commit_offsets(node, 7, version=5, group_id="other", epoch=1)) == [
        ErrorCode.INVALID_PRODUCER_EPOCH
    ]


def test_an_answer_about_a_transaction_that_has_ended_since_is_asked_for_again() -> None:
    node = begun()
    serve, late = node.broker.serve_own, Promise[Any]()
    assert serve is not None
    told = list[Any]()

    def answer_late(api_key: int, request: Any) -> Promise[Any]:
        serve(api_key, request).when_resolved(told.append)
        return late

    node.broker.serve_own = answer_late
    answer = commit_offsets(node, 7)
    node.broker.serve_own = serve
    assert now(end(node)).error_code == 0
    late.resolve(*told)
    assert codes(answer) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert (fetched(node), stable(node)) == ({}, [(-1, NONE)])


def test_without_verification_nobody_is_asked() -> None:
    node = begun(transaction_partition_verification_enable="false")
    node.broker.serve_own = None
    guarded = commit_offsets(node, 7, version=4)
    assert codes(guarded) == [NONE]


def test_the_end_of_the_last_transaction_may_come_in_between() -> None:
    node = new_transactions()
    init(node)
    commit_offsets(node, 7, version=5)
    serve, asked = node.broker.serve_own, list[Any]()
    assert serve is not None

    def later(api_key: int, request: Any) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        asked.append((api_key, request, promise))
        return promise

    node.broker.serve_own = later
    assert now(end(node, version=5)).error_code == 0
    (marker,) = asked
    node.broker.serve_own = serve
    assert not fetched(node)
    next_one = commit_offsets(node, 8, epoch=1, version=5)
    assert waits(next_one)
    serve(*marker[:2]).when_resolved(marker[2].resolve)
    assert codes(next_one) == [NONE]
    assert fetched(node) == {("t", 0): 7}
    end(node, epoch=1, version=5)
    assert fetched(node) == {("t", 0): 8}
