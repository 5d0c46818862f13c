"""What a consumer group tells others: who may commit, what it is, which records it has."""

import pytest

from quorate.broker.groups.committing import TopicCommit
from quorate.broker.groups.consumer_records import (
    EpochFact,
    GroupEpoch,
    OldTopicsFact,
    TargetEpoch,
    TargetEpochFact,
    write_fact,
)
from quorate.broker.groups.group import CommitSender, GroupIdNotFoundError
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
)
from tests.unit.broker.groups.consumers import GROUP, World, parts


@pytest.fixture
def world() -> World:
    made = World()
    made.set_topic("a", 2)
    made.set_topic("b", 1)
    return made


def commits(
    world: World,
    member_id: str,
    epoch: int,
    *partitions: int,
    topic: str = "a",
    instance_id: str | None = None,
    transactional: bool = False,
    version: int = 9,
) -> ErrorCode:
    """Commit offsets of these partitions, or of the first."""
    sender = CommitSender(member_id, instance_id, epoch, transactional, version)
    asked = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        for number in partitions or (0,)
    ]
    answers = [OffsetCommitResponsePartition(partition_index=p.partition_index) for p in asked]
    told: list[ErrorCode] = []
    try:
        world.offsets.commit(
            GROUP, sender, [TopicCommit(topic, asked, answers)], retention_ms=-1,
            done=told.append,
        )  # fmt: skip
    except KafkaError as error:
        return error.code
    (code,) = told
    return code


def fetches(world: World, member_id: str | None, epoch: int) -> ErrorCode:
    try:
        world.group.check_fetch(member_id, epoch)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_only_members_commit_and_only_at_their_epoch(world: World) -> None:
    world.join("m1", "a")
    assert commits(world, "m1", 1) is ErrorCode.NONE
    assert commits(world, "m1", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commits(world, "m1", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commits(world, "m2", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commits(world, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commits(world, "m1", 1, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commits(world, "m1", 1, version=3, transactional=True) is ErrorCode.NONE
    assert commits(world, "", -1, transactional=True) is ErrorCode.NONE
    for odd in (
        commits(world, "", 1, transactional=True),
        commits(world, "", -1, instance_id="i", transactional=True),
        commits(world, "x", -1, transactional=True),
    ):
        assert odd is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_has_not_heard_of_its_epoch_commits_what_it_had_before(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1))
    assert kept is not None
    ((_, number),) = kept
    given_up = 1 - number
    assert commits(world, "m1", 1, 0, 1) is ErrorCode.NONE
    assert world.beat("m1", 1, kept).member_epoch == 2
    assert commits(world, "m1", 1, number) is ErrorCode.NONE
    assert commits(world, "m1", 1, number, given_up) is ErrorCode.STALE_MEMBER_EPOCH
    assert commits(world, "m1", 0, number) is ErrorCode.STALE_MEMBER_EPOCH
    assert commits(world, "m1", 1, topic="no-such-topic") is ErrorCode.STALE_MEMBER_EPOCH
    assert commits(world, "m2", 1, given_up) is ErrorCode.STALE_MEMBER_EPOCH


def test_who_has_no_members_takes_offsets_of_administrators(world: World) -> None:
    world.join("m1", "a")
    world.beat("m1", -1)
    assert commits(world, "", -1) is ErrorCode.NONE
    assert commits(world, "m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_members_commit_by_generation(world: World) -> None:
    world.join("m1", "a")
    asked = world.join_classic("", "a").value
    joined = world.join_classic(asked.member_id, "a").value
    assert commits(world, joined.member_id, joined.generation_id, version=2) is ErrorCode.NONE
    assert commits(world, joined.member_id, 1) is ErrorCode.ILLEGAL_GENERATION
    assert fetches(world, joined.member_id, 1) is ErrorCode.ILLEGAL_GENERATION


def test_who_says_who_it_is_fetches_only_at_its_epoch(world: World) -> None:
    world.join("m1", "a")
    assert fetches(world, None, -1) is ErrorCode.NONE
    assert fetches(world, "m1", 1) is ErrorCode.NONE
    assert fetches(world, "m1", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetches(world, "m2", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetches(world, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_described_once_that_is_committed(world: World) -> None:
    world.join("m1", "a", instance_id="i", rack_id="r", subscribed_topic_regex="b")
    asked = world.join_classic("", "a").value
    world.writer.commits_at_once = False
    world.join_classic(asked.member_id, "a")
    promise = world.consumer.describe(GROUP)
    assert not promise.resolved
    world.set_topic("b", 0)
    world.writer.settle()
    told = promise.value
    assert (told.error_code, told.group_id, told.group_state) == (0, GROUP, "Reconciling")
    assert (told.group_epoch, told.assignment_epoch, told.assignor_name) == (2, 2, "uniform")
    new, classic = told.members
    assert (new.member_id, new.instance_id, new.rack_id, new.member_epoch) == ("m1", "i", "r", 1)
    assert (new.client_id, new.client_host, new.member_type) == ("client-m1", "/10.0.0.1", 1)
    assert (new.subscribed_topic_names, new.subscribed_topic_regex) == (["a"], "b")
    assert [t.topic_name for t in new.assignment.topic_partitions] == ["a", "b"]
    assert (classic.member_type, classic.subscribed_topic_regex) == (0, "")
    assert classic.target_assignment.topic_partitions
    after = world.consumer.describe(GROUP)
    world.writer.settle()
    assert [t.topic_name for t in after.value.members[0].assignment.topic_partitions] == ["a"]


def test_what_a_member_has_yet_to_give_up_is_described_as_its_own(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    assert world.group.members["m1"].standing.revoking
    first, second = world.consumer.describe(GROUP).value.members
    assert [t.partitions for t in first.assignment.topic_partitions] == [[0, 1]]
    assert len(first.target_assignment.topic_partitions[0].partitions) == 1
    assert second.assignment.topic_partitions == []


def test_who_is_not_there_or_not_known_to_be_is_not_described(world: World) -> None:
    with pytest.raises(GroupIdNotFoundError):
        world.consumer.describe("nobody")
    world.join("m1", "a")
    world.writer.commits_at_once = False
    promise = world.consumer.describe(GROUP)
    world.writer.settle(ErrorCode.NOT_COORDINATOR)
    assert (promise.value.error_code, promise.value.group_id) == (
        ErrorCode.NOT_COORDINATOR,
        GROUP,
    )


def test_what_it_is_and_when_it_was_idle(world: World) -> None:
    world.join("m1", "a")
    group = world.group
    assert (group.group_type, group.protocol_type) == ("consumer", "consumer")
    assert group.idle_since_ms(77) == 77


def test_tombstones_end_a_group(world: World) -> None:
    world.join("m1", "a", subscribed_topic_regex="b")
    world.join("m2", "a")
    world.writer.append(world.group.tombstones())
    assert world.known == {}
    last = {entry.key: entry.value for entry in world.log}
    assert set(last.values()) == {None}
    world.writer.append(world.log[-3:])  # what a compacted log may still have of it
    assert world.known == {}


def test_a_group_of_kafka_4_0_is_read_and_its_old_record_is_taken_back() -> None:
    facts = (
        EpochFact(GROUP, GroupEpoch(5, 0)),
        TargetEpochFact(GROUP, TargetEpoch(5, 0)),
    )
    old = write_fact(OldTopicsFact(GROUP, value=False))._replace(value=b"\0\0\1\0")
    world = World([*(write_fact(fact) for fact in facts), old])
    world.set_topic("a", 2)
    assert world.group.has_old_topics
    assert world.told(world.join("m1", "a")) == parts("a", 0, 1)
    assert world.group.epoch.epoch == 6
    assert not world.group.has_old_topics
