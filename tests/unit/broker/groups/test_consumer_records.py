"""The records of consumer groups: Kafka's bytes, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_members import (
    ClassicMembership,
    ClassicProtocol,
    MemberState,
    Profile,
    Standing,
)
from quorate.broker.groups.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    EpochFact,
    Expression,
    ExpressionFact,
    Fact,
    GroupEpoch,
    HeldPartitions,
    OldTopicsFact,
    ProfileFact,
    StandingFact,
    TargetEpoch,
    TargetEpochFact,
    TargetFact,
    read_fact,
    write_fact,
)
from quorate.broker.groups.records import KeyType, names_key
from quorate.broker.shards.formats import encode_value, leading_number
from quorate.errors import CorruptRecordError

names = st.text(max_size=8)
numbers = st.integers(0, 2**31 - 1)
partitions = st.builds(TopicIdPartition, st.binary(min_size=16, max_size=16), numbers)
holdings = st.dictionaries(partitions, numbers, max_size=5)
classic = st.builds(
    ClassicMembership,
    numbers,
    st.lists(st.builds(ClassicProtocol, names, st.binary(max_size=5)), min_size=1, max_size=3).map(
        tuple
    ),
)
profiles = st.builds(
    Profile,
    st.none() | names,
    st.none() | names,
    names,
    names,
    st.frozensets(names, max_size=3),
    st.none() | names,
    st.integers(-1, 2**31 - 1),
    st.none() | names,
    st.none() | classic,
)
standings = st.builds(
    Standing,
    st.integers(-2, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.sampled_from(MemberState),
    holdings,
    holdings,
)
longs = st.integers(0, 2**63 - 1)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(EpochFact, names, st.none() | st.builds(GroupEpoch, numbers, longs)),
    st.builds(ProfileFact, names, names, st.none() | profiles),
    st.builds(TargetEpochFact, names, st.none() | st.builds(TargetEpoch, numbers, longs)),
    st.builds(TargetFact, names, names, st.none() | st.frozensets(partitions, max_size=5)),
    st.builds(StandingFact, names, names, st.none() | standings),
    st.builds(
        ExpressionFact,
        names,
        names,
        st.none() | st.builds(Expression, st.frozensets(names, max_size=3), longs, longs),
    ),
    st.just(OldTopicsFact("g", value=False)),
)


@given(facts)
def test_what_is_written_is_read(fact: Fact) -> None:
    entry = write_fact(fact)
    assert read_fact(leading_number(entry.key), entry.key, entry.value) == fact


def written(fact: Fact) -> tuple[str, str]:
    entry = write_fact(fact)
    return entry.key.hex(), (entry.value or b"").hex()


def test_the_bytes_are_kafkas() -> None:
    """As Kafka 4.3.1 writes them: read from its log, and shortened."""
    topic = b"\1" * 16
    part = TopicIdPartition(topic, 2)
    assert written(EpochFact("g", GroupEpoch(3, 0))) == ("0003000167", "00000000000300")
    assert written(EpochFact("g", GroupEpoch(3, 5))) == (
        "0003000167",
        "000000000003" + "01" + "00" + "08" + "0000000000000005",
    )
    assert written(TargetEpochFact("g", TargetEpoch(3, 0))) == ("0006000167", "00000000000300")
    assert written(TargetFact("g", "m", frozenset({part}))) == (
        "000700016700016d",
        "0000" + "02" + topic.hex() + "02" + "00000002" + "00" + "00",
    )
    assert written(StandingFact("g", "m", Standing(3, 2, MemberState.STABLE, {part: 1}))) == (
        "000800016700016d",
        "0000" + "00000003" + "00000002" + "00"
        + "02" + topic.hex() + "02" + "00000002" + "01" + "00" + "05" + "02" + "00000001"
        + "01" + "00",
    )  # fmt: skip
    assert written(ExpressionFact("g", "a.*", Expression(frozenset({"ab"}), 1, 2))) == (
        "00100001670003612e2a",
        "0000" + "02" + "03" + "6162" + "0000000000000001" + "0000000000000002" + "00",
    )
    assert written(OldTopicsFact("g", value=False)) == ("0004000167", "")


def test_members_are_written_as_kafka_writes_them() -> None:
    """It says of a member of the new protocol that it has no classic one: a tag with a null."""
    new = Profile(
        client_id="wire",
        client_host="/127.0.0.1",
        topic_names=frozenset({"t"}),
        topic_regex="",
        rebalance_timeout_ms=1_500,
    )
    head = "0000000005776972650b2f3132372e302e302e3102027401000005dc00"
    assert written(ProfileFact("g", "m1", new)) == ("000500016700026d31", head + "01000100")
    subscription = bytes.fromhex("000300000001000174ffffffff00000000ffffffffffff")
    classic = ClassicMembership(30_000, (ClassicProtocol("range", subscription),))
    assert written(ProfileFact("g", "m1", replace(new, classic=classic)))[1] == (
        head + "0100260100007530020672616e676518" + subscription.hex() + "0000"
    )


def current(value: ConsumerGroupCurrentMemberAssignmentValue) -> Fact:
    key = names_key(KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "g", "m")
    return read_fact(8, key, encode_value(value, 0))


def test_partitions_of_older_brokers_were_given_at_the_members_epoch() -> None:
    held = [HeldPartitions(topic_id=b"\1" * 16, partitions=[4])]
    fact = current(
        ConsumerGroupCurrentMemberAssignmentValue(member_epoch=7, assigned_partitions=held)
    )
    assert isinstance(fact, StandingFact)
    assert fact.value is not None
    assert fact.value.assigned == {TopicIdPartition(b"\1" * 16, 4): 7}


def test_what_contradicts_itself_is_corrupt() -> None:
    held = [HeldPartitions(topic_id=b"\1" * 16, partitions=[4], assignment_epochs=[])]
    for wrong in (
        ConsumerGroupCurrentMemberAssignmentValue(state=9),
        ConsumerGroupCurrentMemberAssignmentValue(assigned_partitions=held),
    ):
        with pytest.raises(CorruptRecordError):
            current(wrong)
    key = names_key(KeyType.CONSUMER_GROUP_MEMBER_METADATA, "g", "m")
    told = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata())
    with pytest.raises(CorruptRecordError):
        read_fact(5, key, encode_value(told, 0))


def test_facts_in_the_order_of_a_compacted_log_make_the_same_group() -> None:
    """A member's standing may be older than its profile, and tombstones of who is gone may stay."""
    part = TopicIdPartition(b"\1" * 16, 0)
    group = ConsumerGroup("g")
    for fact in (
        StandingFact("g", "gone", None),
        StandingFact("g", "m", Standing(2, 1, MemberState.STABLE, {part: 2})),
        ProfileFact("g", "gone", None),
        ProfileFact("g", "m", Profile(instance_id="i")),
        TargetFact("g", "left-over", frozenset({part})),
        OldTopicsFact("g", value=True),
        EpochFact("g", GroupEpoch(2, 0)),
        TargetEpochFact("g", TargetEpoch(2, 0)),
    ):
        group.apply(fact)
    assert set(group.members) == {"m"}
    assert group.owner_of(part) == "m"
    assert group.instances == {"i": "m"}
    keys = [(leading_number(entry.key), entry.value) for entry in group.tombstones()]
    assert keys == [(kind, None) for kind in (8, 7, 5, 7, 6, 4, 3)]
    for last in group.farewell():
        group.apply(last)
    assert (group.is_empty, group.owner_of(part), group.instances) == (True, None, {})


def test_an_instance_id_that_somebody_else_has_by_now_stays_with_them() -> None:
    group = ConsumerGroup("g")
    group.apply(ProfileFact("g", "old", Profile(instance_id="i")))
    group.apply(ProfileFact("g", "new", Profile(instance_id="i")))
    group.apply(ProfileFact("g", "old", None))
    assert group.instances == {"i": "new"}


def test_a_partition_that_somebody_else_has_by_now_stays_with_them() -> None:
    part = TopicIdPartition(b"\1" * 16, 0)
    group = ConsumerGroup("g")
    group.apply(StandingFact("g", "old", Standing(1, 0, MemberState.STABLE, {part: 1})))
    group.apply(StandingFact("g", "new", Standing(2, 0, MemberState.STABLE, {part: 2})))
    group.apply(StandingFact("g", "old", None))
    assert group.owner_of(part) == "new"
