"""Why groups rebalance and are behind, from what the metadata and the groups' own log say."""

import pytest

from quorate.broker.groups.consumer_members import Profile
from quorate.broker.groups.consumer_records import EpochFact, GroupEpoch, ProfileFact, write_fact
from quorate.broker.groups.records import (
    NO_EXPIRY,
    Committed,
    GroupMetadataValue,
    KeyType,
    MemberMetadata,
    names_key,
    offset_key,
    offset_prefix,
    offset_value,
)
from quorate.broker.shards.formats import encode_value
from quorate.client.groups.results import GroupDescription, MemberDescription, OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.records.record import Record
from quorate.tools.groups.lag import Bounds, PartitionLag
from quorate.tools.why.answer import METADATA, Answer
from quorate.tools.why.answers import why_lag, why_rebalance
from quorate.tools.why.groups import (
    Commit,
    Generation,
    GroupReader,
    coordinating_partition,
    diffs_of,
)
from tests.unit.tools.why.telling import NOBODY, TOPIC_ID, Diary, check_citations, texts

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PLACE = TopicPartition("__consumer_offsets", 0)
LOG = "__consumer_offsets-0"
OFFSETS_ID = b"o" * 16
MEMBER = MemberDescription("m-1", None, "c", "/h", (T0,))
GROUP = GroupDescription("g", "Classic", "consumer", "Stable", "range", (MEMBER,), 1)
EMPTY = GroupDescription("g", "Classic", "consumer", "Empty", "", (), 1)


@pytest.fixture
def diary() -> Diary:
    diary = Diary()
    diary.topic((1, 2), (2, 1))
    diary.topic((1, 2), name="__consumer_offsets", topic_id=OFFSETS_ID)
    return diary


def record(offset: int, key: bytes | None, value: bytes | None, time_ms: int = 0) -> Record:
    return Record(PLACE, offset, time_ms or 1_000 * offset, key, value, ())


def classic(offset: int, generation: int, *members: str, group: str = "g") -> Record:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        members=[
            MemberMetadata(member_id=m, client_id=f"c-{m}", client_host="/h", session_timeout=1)
            for m in members
        ],
    )
    return record(offset, names_key(KeyType.GROUP_METADATA, group), encode_value(value, 3))


def commit(offset: int, committed: int | None, group: str = "g") -> Record:
    key = offset_key(offset_prefix(group, "t"), 0)
    value = None if committed is None else offset_value(Committed(committed, 0, "", 1, NO_EXPIRY))
    return record(offset, key, value)


def read(*records: Record) -> GroupReader:
    reader = GroupReader("g")
    for each in records:
        reader.take(each)
    return reader


def checked(answer: Answer, diary: Diary, records: tuple[Record, ...]) -> Answer:
    """Check that all lines cite what is there, in the metadata or in the log of groups."""
    check_citations(answer, diary.decided())
    there = {(each.offset, each.timestamp_ms) for each in records}
    for line in answer.lines:
        if line.log == LOG:
            assert (line.offset, line.time_ms) in there
        else:
            assert line.log in (METADATA, "t-0")
    return answer


# --- reading the log


def test_generations_of_classic_groups_are_read_and_other_groups_passed_over() -> None:
    reader = read(
        classic(1, 1, "a"),
        classic(2, 1, "x", group="other"),
        classic(3, 2, "a", "b"),
        record(4, names_key(KeyType.GROUP_METADATA, "g"), None),
        record(5, None, b""),
        record(6, names_key(KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, "g"), b""),
    )
    assert [(g.offset, g.number, sorted(g.ids)) for g in reader.generations] == [
        (1, 1, ["a"]),
        (3, 2, ["a", "b"]),
    ]


def test_epochs_of_consumer_groups_are_read_with_the_members_of_that_time() -> None:
    def fact(offset: int, told: EpochFact | ProfileFact) -> Record:
        entry = write_fact(told)
        return record(offset, entry.key, entry.value)

    profile = Profile(client_id="c", client_host="/h")
    reader = read(
        fact(1, ProfileFact("g", "a", profile)),
        fact(2, EpochFact("g", GroupEpoch(1, 0))),
        fact(3, ProfileFact("other", "x", profile)),
        fact(4, ProfileFact("g", "b", profile)),
        fact(5, EpochFact("g", GroupEpoch(2, 0))),
        fact(6, ProfileFact("g", "a", None)),
        fact(7, EpochFact("g", GroupEpoch(3, 0))),
        fact(8, EpochFact("g", None)),
    )
    assert [(g.number, sorted(g.ids)) for g in reader.generations] == [
        (1, ["a"]),
        (2, ["a", "b"]),
        (3, ["b"]),
    ]


def test_the_newest_commit_counts_and_a_forgotten_one_does_not() -> None:
    assert read(commit(1, 5), commit(2, 7), commit(3, 9, "other")).commits == {
        T0: Commit(LOG, 2, 2_000, T0, 7)
    }
    assert read(commit(1, 5), commit(2, None)).commits == {}


def test_a_record_that_cannot_be_read_is_passed_over() -> None:
    assert read(record(1, b"", None), record(2, b"\x00\x02\x00\x09g", b"")).generations == []


def test_a_generation_tells_who_came_and_who_went() -> None:
    def generation(number: int, *members: str) -> Generation:
        return Generation(LOG, number, number, number, tuple((m, f"c-{m}") for m in members))

    told = diffs_of([generation(1, "a"), generation(2, "b", "c"), generation(3, "b", "c")])
    assert [diff.reason for diff in told] == [
        "c-a joined",
        "c-b, c-c joined and c-a left",
        "with the same members",
    ]
    assert told[0].line().text == "generation 1, 1 member: c-a joined"


def test_the_coordinator_is_who_leads_the_partition_that_the_name_stands_for(diary: Diary) -> None:
    assert coordinating_partition(diary.decided(), "g") == PLACE
    assert coordinating_partition([], "g") == PLACE
    for number in range(1, 50):
        diary.grow(number, 1, 2, topic_id=OFFSETS_ID)
    assert coordinating_partition(diary.decided(), "g").partition == ord("g") % 50


# --- rebalance


def test_a_rebalance_is_told_with_members_coordinator_and_topics(diary: Diary) -> None:
    records = (classic(1, 1, "a"), classic(3, 2, "a", "b"))
    reader = read(*records)
    diary.fence(1, diary.change(2, 1, (2,), "broker 1 is gone", topic_id=OFFSETS_ID))
    diary.grow(2, 1, 2)
    diary.write(r.TopicRemoved("DeleteTopics", diary.now_ms, TOPIC_ID))
    answer = why_rebalance(diary.decided(), GROUP, reader.generations, PLACE)
    checked(answer, diary, records)
    assert answer.headline == (
        "Group g rebalanced last into generation 2, at 1970-01-01T00:00:03.000Z: c-b (h) joined."
    )
    assert texts(answer) == [
        "generation 1, 1 member: c-a (h) joined",
        "topic t got partitions: CreateTopics by User:a",
        "generation 2, 2 members: c-b (h) joined",
        "the coordinator moved from broker 1 to broker 2: broker 1 is gone",
        "topic t got partitions: CreatePartitions by User:a",
        "topic t was deleted: DeleteTopics",
    ]


def test_what_the_coordinator_says_of_the_reason_comes_first(diary: Diary) -> None:
    group = GroupDescription(
        "g", "Classic", "consumer", "Stable", "range", (), 1, rebalance_reason="it was time"
    )
    records = (classic(4, 2, "a"), classic(9, 3, "a"))
    diary.fence(1, diary.change(2, 1, (2,), topic_id=OFFSETS_ID))
    answer = checked(
        why_rebalance(diary.decided(), group, read(*records).generations, PLACE), diary, records
    )
    assert answer.headline.endswith(": it was time.")
    assert texts(answer)[1:] == ["generation 3, 1 member: with the same members"]


def test_a_group_that_never_had_members_has_not_rebalanced(diary: Diary) -> None:
    answer = why_rebalance(diary.decided(), EMPTY, [], PLACE)
    assert answer.headline.startswith("Group g has not rebalanced")
    assert why_rebalance([], EMPTY, [], PLACE).lines == ()


# --- lag


def lag(
    committed: int,
    end: int,
    partition: TopicPartition = T0,
    owner: MemberDescription | None = MEMBER,
    since_ms: int | None = 4_000,
) -> PartitionLag:
    return PartitionLag(
        "g", partition, OffsetAndMetadata(committed), Bounds(0, end), owner, since_ms
    )


RECORDS = (classic(1, 1, "a"), commit(2, 5))


def lag_answer(diary: Diary, group: GroupDescription, *lags: PartitionLag) -> Answer:
    reader = read(*RECORDS)
    answer = why_lag(diary.decided(), group, lags, reader.generations, reader.commits)
    return checked(answer, diary, RECORDS)


def test_a_group_without_lag_tells_its_commits(diary: Diary) -> None:
    answer = lag_answer(diary, GROUP, lag(5, 5))
    assert answer.headline == "Group g is not behind."
    assert texts(answer) == ["committed last that it has read t-0 up to 5"]
    assert texts(lag_answer(diary, GROUP, lag(5, 5, T1))) == []


def test_a_group_without_members_stands_still(diary: Diary) -> None:
    answer = lag_answer(diary, EMPTY, lag(5, 6), lag(0, 0, T1))
    assert answer.headline == "Group g is 1 record behind in 1 of 2 partitions: it has no members."
    assert [(line.log, line.offset, line.time_ms) for line in answer.lines] == [
        (LOG, 1, 1_000),
        (LOG, 2, 2_000),
        ("t-0", 5, 4_000),
    ]


def test_a_partition_that_nobody_leads_or_reads_is_why(diary: Diary) -> None:
    answer = lag_answer(diary, GROUP, lag(5, 9), lag(0, 5, T1, owner=None, since_ms=None))
    assert answer.headline.endswith("9 records behind in 2 of 2 partitions: no member reads t-1.")
    diary.fence(1, diary.change(NOBODY, 1, (), "broker 1 is gone"))
    answer = lag_answer(diary, GROUP, lag(5, 9))
    assert answer.headline.endswith("nobody leads t-0.")
    assert "nobody leads t-0: broker 1 is gone" in texts(answer)
    assert answer.hint == "quorate why offline t:0"


def test_members_that_are_slow_are_why_else(diary: Diary) -> None:
    reader = read(commit(2, 5))
    answer = why_lag(diary.decided(), GROUP, [lag(5, 9)], [], reader.commits)
    assert answer.headline.endswith("its members read and commit more slowly than is written.")
    elsewhere = lag(5, 9, TopicPartition("unknown", 0))
    assert why_lag(diary.decided(), GROUP, [elsewhere], [], {}).headline.endswith("is written.")
