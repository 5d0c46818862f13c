"""OffsetCommit, OffsetFetch, OffsetDelete, in all their versions."""

from typing import Any

import pytest

from quorate.broker.groups.records import (
    NO_EXPIRY,
    Committed,
    offset_key,
    offset_prefix,
    offset_value,
)
from quorate.broker.handlers.group_offsets import offset_commit, offset_delete, offset_fetch
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.errors import ErrorCode
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from quorate.quorum.metadata import records as r
from quorate.setting_fields import LONG_MAX
from tests.unit.broker.handlers.grouping import (
    commit,
    committing,
    coordinator_of,
    fetched,
    join,
    leave,
    new_coordinator,
)
from tests.unit.broker.harness import NOW_MS, Node, new_node, now, over, waits
from tests.unit.broker.replication.cluster import Cluster

NONE = int(ErrorCode.NONE)


def under_way(node: Node, partition: int = 0) -> None:
    """Let a transaction be under way that commits an offset."""
    value = offset_value(Committed(77, -1, "", NOW_MS, NO_EXPIRY))
    key = offset_key(offset_prefix("g", "t"), partition)
    coordinator_of(node).replay_pending(5, key, value)


# --- commits -------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 10))
def test_consumers_that_choose_their_partitions_commit_without_a_group(version: int) -> None:
    node = new_coordinator()
    assert commit(node, 5, 6, version=version) == [NONE, NONE]
    assert fetched(node) == {("t", 0): 5, ("t", 1): 6}


def test_topics_are_named_by_their_ids_from_version_10_on() -> None:
    node = new_coordinator()
    topic_id = node.replicas.image.topics["t"].topic_id
    partition = OffsetCommitRequestPartition(partition_index=2, committed_offset=9)
    topics = [
        OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition]),
        OffsetCommitRequestTopic(topic_id=b"?" * 16, partitions=[partition]),
    ]
    request = OffsetCommitRequest(group_id="g", topics=topics)
    known, unknown = now(offset_commit(node.broker, request, over(10))).topics
    assert (known.topic_id, known.partitions[0].error_code) == (topic_id, NONE)
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched(node) == {("t", 2): 9}


def test_what_does_not_exist_is_refused_and_the_rest_taken() -> None:
    node = new_coordinator()
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert commit(node, 1, 2, 3, 4) == [NONE, NONE, NONE, unknown]
    assert commit(node, 1, topic="no such topic") == [unknown]
    assert len(fetched(node)) == 3


def test_metadata_that_are_too_long_are_refused() -> None:
    node = new_coordinator(offset_metadata_max_bytes="10")
    assert commit(node, 1, metadata="x" * 10) == [NONE]
    assert commit(node, 2, metadata="x" * 11) == [int(ErrorCode.OFFSET_METADATA_TOO_LARGE)]
    assert fetched(node) == {("t", 0): 1}


def test_who_claims_a_generation_of_no_group_is_told_in_words_it_knows() -> None:
    node = new_coordinator()
    generation = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(node, 1, version=8, **generation) == [int(ErrorCode.ILLEGAL_GENERATION)]
    assert commit(node, 1, version=9, **generation) == [int(ErrorCode.GROUP_ID_NOT_FOUND)]
    assert fetched(node) == {}
    assert commit(node, 1) == [NONE]  # now there is a group, as in Kafka; it has no members
    for version in (8, 9):
        told = commit(node, 2, version=version, **generation)
        assert told == [int(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert fetched(node) == {("t", 0): 1}


def test_only_members_of_this_generation_commit() -> None:
    node = new_coordinator()
    member_id = join(node).member_id

    def commit_as(member_id: str, generation: int) -> list[int]:
        return commit(
            node, 1, member_id=member_id, generation_id_or_member_epoch=generation, version=8
        )

    assert commit_as(member_id, 1) == [NONE]
    assert commit_as(member_id, 0) == [int(ErrorCode.ILLEGAL_GENERATION)]
    assert commit_as("somebody", 1) == [int(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert commit_as("", -1) == [int(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_a_commit_of_another_coordinators_group_is_sent_there() -> None:
    node = new_coordinator()
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)
    assert commit(node, 1) == [int(ErrorCode.NOT_COORDINATOR)]
    assert commit(new_node(), 1, topic="t") == [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_commit_that_the_disk_refuses_changes_nothing() -> None:
    node = new_coordinator()
    node.disk.capacity_bytes = 0
    assert commit(node, 1) == [int(ErrorCode.NOT_COORDINATOR)]
    node.disk.capacity_bytes = None
    assert fetched(node) == {}


def test_a_commit_is_answered_when_it_is_replicated() -> None:
    cluster = Cluster((1, 2))
    node = cluster.nodes[1]
    topic_id = GROUPS_TOPIC.encode().ljust(16, b"\2")[:16]
    cluster.apply(
        r.TopicCreated("test", 0, GROUPS_TOPIC, topic_id),
        r.PartitionCreated("test", 0, topic_id, 0, (1, 2), (1, 2), 1),
    )
    first = offset_commit(node.broker, committing(5, topic="appLogs"), over(8))
    refused = offset_commit(node.broker, committing(5, topic="gone"), over(8))
    read = offset_fetch(
        node.broker,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        over(9),
    )
    assert waits(first)
    assert not waits(refused)
    assert waits(read)
    cluster.replicate()
    assert now(first).topics[0].partitions[0].error_code == NONE
    assert now(read).groups[0].topics[0].partitions[0].committed_offset == 5
    second = offset_commit(node.broker, committing(6, topic="appLogs"), over(8))
    cluster.apply(r.PartitionChanged("test", 0, topic_id, 0, 2, 2, (1, 2)))
    assert now(second).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_read_of_what_is_lost_meanwhile_is_asked_for_again() -> None:
    cluster = Cluster((1, 2))
    node = cluster.nodes[1]
    topic_id = GROUPS_TOPIC.encode().ljust(16, b"\2")[:16]
    cluster.apply(
        r.TopicCreated("test", 0, GROUPS_TOPIC, topic_id),
        r.PartitionCreated("test", 0, topic_id, 0, (1, 2), (1, 2), 1),
    )
    offset_commit(node.broker, committing(5, topic="appLogs"), over(8))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    read = offset_fetch(node.broker, request, over(9))
    cluster.apply(r.PartitionChanged("test", 0, topic_id, 0, 2, 2, (1, 2)))
    (group,) = now(read).groups
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_an_offset_may_expire_at_a_time_of_its_own() -> None:
    node = new_coordinator()
    commit(node, 5, version=4, retention_time_ms=60_000)
    commit(node, 5, version=4, topic="t", group_id="h")
    found = coordinator_of(node).keeper.offsets.find("g", "t", 0)
    assert found is not None
    assert found.expire_timestamp_ms == NOW_MS + 60_000


def test_an_offset_that_is_to_be_kept_for_ever_is() -> None:
    node = new_coordinator()
    assert commit(node, 5, version=4, retention_time_ms=LONG_MAX) == [NONE]
    found = coordinator_of(node).keeper.offsets.find("g", "t", 0)
    assert found is not None
    assert found.expire_timestamp_ms == LONG_MAX


# --- fetches -------------------------------------------------------------------


def fetch_one(node: Node, version: int, topic: str = "t", *indexes: int, **more: Any) -> Any:
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(indexes or (0,)))]
    request = OffsetFetchRequest(group_id="g", topics=topics, **more)
    return now(offset_fetch(node.broker, request, over(version)))


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_is_told_what_it_has_read(version: int) -> None:
    node = new_coordinator()
    commit(node, 5, metadata="note")
    answer = fetch_one(node, version, "t", 0, 1)
    known, unknown = answer.topics[0].partitions
    assert (known.committed_offset, known.metadata, known.error_code) == (5, "note", NONE)
    assert (unknown.committed_offset, unknown.metadata, unknown.error_code) == (-1, "", NONE)
    request = OffsetFetchRequest(group_id="g", topics=None)
    (everything,) = now(offset_fetch(node.broker, request, over(version))).topics
    assert [p.partition_index for p in everything.partitions] == [0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_of_another_coordinator_is_said_where_clients_look(version: int) -> None:
    node = new_coordinator()
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)
    answer = fetch_one(node, version)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    codes = [p.error_code for topic in answer.topics for p in topic.partitions]
    assert codes == ([int(ErrorCode.NOT_COORDINATOR)] if version == 1 else [])


def test_many_groups_are_told_at_once_each_for_itself() -> None:
    node = new_coordinator(2)
    commit(node, 5, group_id="a")
    commit(node, 6, group_id="b")
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)  # of "b"
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 2])]
    groups = [OffsetFetchRequestGroup(group_id=g, topics=topics) for g in ("b", "a", "empty?")]
    answer = now(offset_fetch(node.broker, OffsetFetchRequest(groups=groups), over(9)))
    b, a, _ = answer.groups
    assert (b.group_id, b.error_code, b.topics) == ("b", ErrorCode.NOT_COORDINATOR, [])
    assert [p.committed_offset for p in a.topics[0].partitions] == [5, -1]
    assert now(offset_fetch(node.broker, OffsetFetchRequest(), over(9))).groups == []


def test_from_version_10_on_topics_are_told_by_their_ids() -> None:
    node = new_coordinator()
    node.create_topic("u")
    commit(node, 5)
    commit(node, 6, topic="u")
    coordinator = coordinator_of(node)
    value = offset_value(Committed(1, -1, "", NOW_MS, NO_EXPIRY))
    coordinator.replay(offset_key(offset_prefix("g", "gone"), 0), value)
    topic_id = node.replicas.image.topics["t"].topic_id
    asked = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0]),
    ]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=asked),
        OffsetFetchRequestGroup(group_id="g", topics=None),
    ]
    some, everything = now(
        offset_fetch(node.broker, OffsetFetchRequest(groups=groups), over(10))
    ).groups
    known, unknown = some.topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (topic_id, 5)
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert len(everything.topics) == 2
    assert fetched(node) == {("t", 0): 5, ("u", 0): 6, ("gone", 0): 1}


def test_an_offset_of_a_transaction_under_way_is_waited_for_by_who_wants_that() -> None:
    node = new_coordinator()
    commit(node, 5)
    under_way(node)
    (stable,) = fetch_one(node, 7, require_stable=True).topics[0].partitions
    (unstable,) = fetch_one(node, 7).topics[0].partitions
    assert (stable.committed_offset, stable.error_code) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert (unstable.committed_offset, unstable.error_code) == (5, NONE)
    coordinator_of(node).end_transaction(5, committed=True)
    (stable,) = fetch_one(node, 7, require_stable=True).topics[0].partitions
    assert (stable.committed_offset, stable.error_code) == (77, NONE)


# --- deletions -----------------------------------------------------------------


def delete(node: Node, topic: str = "t", *indexes: int, group_id: str = "g") -> Any:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes or (0,)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    return now(offset_delete(node.broker, request, over(0)))


def codes_of(answer: Any) -> list[int]:
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def test_offsets_are_forgotten_whether_they_were_there_or_not() -> None:
    node = new_coordinator()
    commit(node, 5, 6)
    assert codes_of(delete(node, "t", 0, 2)) == [NONE, NONE]
    assert fetched(node) == {("t", 1): 6}
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert codes_of(delete(node, "no such topic")) == [unknown]
    assert codes_of(delete(node, "t", 1, 3, -1)) == [NONE, unknown, unknown]
    assert fetched(node) == {}


def test_what_a_transaction_is_about_to_commit_is_forgotten_too() -> None:
    node = new_coordinator()
    under_way(node)
    assert codes_of(delete(node)) == [NONE]
    coordinator_of(node).end_transaction(5, committed=True)
    assert fetched(node) == {}


def test_what_a_group_reads_is_not_forgotten() -> None:
    node = new_coordinator()
    node.create_topic("u")
    commit(node, 5)
    commit(node, 6, topic="u")
    member_id = join(node, topics=("t",)).member_id
    assert codes_of(delete(node)) == [int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    assert codes_of(delete(node, "u")) == [NONE]
    leave(node, member_id)
    assert codes_of(delete(node)) == [NONE]
    assert fetched(node) == {}


def test_nothing_is_forgotten_of_groups_that_may_read_it_or_are_not_there() -> None:
    node = new_coordinator()
    assert delete(node).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(node, group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    commit(node, 5)
    join(node, kind="connect")
    assert delete(node).error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_deletion_that_fails_is_said_for_the_group() -> None:
    node = new_coordinator()
    commit(node, 5)
    node.disk.capacity_bytes = 0
    answer = delete(node)
    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_all_that_a_group_has_read_is_told_once_however_often_it_is_asked_for() -> None:
    node = new_coordinator()
    commit(node, 5, group_id="a")
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [
        OffsetFetchRequestGroup(group_id="a", topics=asked)
        for asked in (None, topics, None, topics)
    ]
    answer = now(offset_fetch(node.broker, OffsetFetchRequest(groups=groups), over(9)))
    assert [group.topics[0].partitions[0].committed_offset for group in answer.groups] == [5, 5, 5]
