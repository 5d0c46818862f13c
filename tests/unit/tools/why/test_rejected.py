"""Why writes and commits are refused: by leaders, by coordinators, by settings."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from quorate.broker.shards.topics import TRANSACTIONS_TOPIC
from quorate.broker.transactions.records import transaction_key, transaction_value
from quorate.broker.transactions.transaction import Transaction, TxnState
from quorate.client.admin_results import ConfigEntry
from quorate.client.groups.results import GroupDescription, MemberDescription
from quorate.client.transactions.describing import TransactionDescription
from quorate.errors import NotLeaderOrFollowerError, QuorateError
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import TOPIC
from quorate.records.record import Record
from quorate.tools.why.answer import Answer
from quorate.tools.why.groups import Generation
from quorate.tools.why.looks import Reached
from quorate.tools.why.past import pasts_of
from quorate.tools.why.producers import (
    TransactionReader,
    why_rejected_commits,
    why_rejected_producer,
)
from quorate.tools.why.rejected import why_rejected
from tests.unit.tools.why.telling import (
    NOBODY,
    Diary,
    check_citations,
    check_measured,
    texts,
)

NOW_MS = 60_000
APIS = ("ListOffsets", "DescribeLogDirs", "DescribeTransactions", "DescribeGroups")
ANSWERS = {(f"broker-{n}/{api}", NOW_MS) for n in (1, 2, 3) for api in APIS}
ANSWERS.add(("brokers/DescribeConfigs", NOW_MS))
FINE = {0: Reached(1, NOW_MS), 1: Reached(2, NOW_MS)}
LARGER = "configured: larger batches are refused (MESSAGE_TOO_LARGE)"
CLOCK = "the broker's clock are refused"
PLACE = TopicPartition(TRANSACTIONS_TOPIC, 0)
COMMON = {
    "max.message.bytes": "1000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
}


@pytest.fixture
def diary() -> Diary:
    diary = Diary()
    diary.topic((1, 2, 3), (2, 3, 1))
    return diary


def settings(**changed: str) -> dict[str, ConfigEntry]:
    values = COMMON | {name.replace("_", "."): value for name, value in changed.items()}
    return {
        name: ConfigEntry(
            name, value, 5, is_read_only=False, is_sensitive=False, documentation=None
        )
        for name, value in values.items()
    }


def asked(
    diary: Diary,
    reached: Mapping[int, Reached],
    number: int | None = None,
    topic: str = "t",
    **changed: str,
) -> Answer:
    decided = diary.decided()
    pasts = pasts_of(decided, topic, number)
    answer = why_rejected(decided, topic, pasts, reached, settings(**changed), NOW_MS)
    check_citations(answer, decided)
    check_measured(answer, ANSWERS)
    return answer


def test_a_topic_that_is_well_tells_what_its_settings_forbid(diary: Diary) -> None:
    diary.write(r.ConfigSet("by User:a", diary.now_ms, TOPIC, "t", "max.message.bytes", "1000"))
    answer = asked(diary, FINE)
    assert answer.headline.startswith("Writes to t are not refused now")
    elsewhere = "any other broker answers NOT_LEADER_OR_FOLLOWER; CreateTopics by User:a"
    after = "message.timestamp.after.max.ms=3600000"
    assert texts(answer) == [
        f"t-0 is written at broker 1, in epoch 0: {elsewhere}",
        f"t-1 is written at broker 2, in epoch 0: {elsewhere}",
        f"{LARGER}: max.message.bytes=1000; by User:a",
        "broker 1 answers as the leader of t-0",
        "broker 2 answers as the leader of t-1",
        f"configured: records further ahead of {CLOCK} (INVALID_TIMESTAMP): {after}",
    ]
    assert [line.citation for line in answer.lines][2:] == [
        "metadata@11", "broker-1/ListOffsets", "broker-2/ListOffsets", "brokers/DescribeConfigs",
    ]  # fmt: skip


def test_every_setting_that_can_refuse_a_record_is_told(diary: Diary) -> None:
    told = "\n".join(
        texts(asked(diary, FINE, cleanup_policy="compact", message_timestamp_before_max_ms="5"))
    )
    assert "records without a key are refused (INVALID_RECORD): cleanup.policy=compact" in told
    assert "records further behind the broker's clock" in told
    told = "\n".join(
        texts(asked(diary, FINE, message_timestamp_type="LogAppendTime", min_insync_replicas="2"))
    )
    assert "the broker dates records, none is refused for its time" in told
    assert "with fewer in sync, acks=all is refused" in told
    assert "clock" not in told


def test_too_few_in_sync_and_nobody_who_leads_refuse(diary: Diary) -> None:
    diary.write(r.ConfigSet("by User:a", diary.now_ms, TOPIC, "t", "min.insync.replicas", "2"))
    diary.fence(
        2,
        diary.change(1, 0, (1,), "2 is gone"),
        diary.change(NOBODY, 1, (), "2 is gone", partition=1),
    )
    answer = asked(diary, {0: Reached(1, NOW_MS)}, min_insync_replicas="2")
    assert answer.headline == (
        "2 of 2 partitions of t refuse writes with acks=all to t-0 (NOT_ENOUGH_REPLICAS): "
        "1 in sync, and min.insync.replicas is 2; all writes to t-1 (LEADER_NOT_AVAILABLE): "
        "nobody leads it."
    )
    assert texts(answer)[:3] == [
        "min.insync.replicas=2: by User:a",
        "in sync with t-0: 1; 2 is gone",
        "nobody leads t-1 since epoch 1: 2 is gone",
    ]
    assert answer.hint == "quorate why isr t:0"
    assert asked(diary, {}, 1).headline == (
        "Refused now are all writes to t-1 (LEADER_NOT_AVAILABLE): nobody leads it."
    )


@pytest.mark.parametrize(
    ("reached", "code"),
    [
        (Reached(1, NOW_MS, NotLeaderOrFollowerError()), "NOT_LEADER_OR_FOLLOWER"),
        (Reached(1, NOW_MS, QuorateError("no answer in 3 s")), "no answer"),
        (Reached(1, NOW_MS, disk="/d: gone"), "KAFKA_STORAGE_ERROR"),
    ],
)
def test_a_leader_that_does_not_lead_is_told_as_it_answered(
    diary: Diary, reached: Reached, code: str
) -> None:
    answer = asked(diary, {0: reached}, 0)
    assert f"all writes to t-0 ({code})" in answer.headline
    assert texts(answer)[0] == "broker 1 leads t-0 since epoch 0: CreateTopics by User:a"
    assert any(line.citation.startswith("broker-1/") for line in answer.lines)


def test_a_leader_whose_disk_is_full_refuses_what_finds_no_room(diary: Diary) -> None:
    answer = asked(diary, {0: Reached(1, NOW_MS, full="/d: 0 B free"), 1: Reached(2, NOW_MS)})
    assert answer.headline == (
        "1 of 2 partitions of t refuse writes that find no room to t-0 (KAFKA_STORAGE_ERROR): "
        "the disk of broker 1 is full."
    )
    assert "its directory: /d: 0 B free" in texts(answer)
    assert "broker-1/DescribeLogDirs" in [line.citation for line in answer.lines]
    assert answer.hint == "make room there: a shorter retention.ms, a larger disk"


def test_nobody_writes_to_internal_topics(diary: Diary) -> None:
    diary.topic((1,), name=PLACE.topic, topic_id=b"i" * 16)
    assert "INVALID_TOPIC_EXCEPTION" in asked(diary, FINE, topic=PLACE.topic).headline


def test_a_large_topic_tells_some_of_its_partitions(diary: Diary) -> None:
    diary = Diary()
    diary.topic(*[(1, 2)] * 9)
    changes = [diary.change(NOBODY, 1, (), "gone", partition=n) for n in range(7)]
    diary.fence(1, *changes)
    answer = asked(diary, {7: Reached(1, NOW_MS), 8: Reached(1, NOW_MS)})
    assert "7 of 9 partitions of t refuse all writes to t-0, t-1, t-2, t-3, t-4 and 2 more" in (
        answer.headline
    )
    assert len([text for text in texts(answer) if text.startswith("nobody leads")]) == 5


# --- transactional ids


def written(offset: int, transaction: Transaction | None, name: str = "pay") -> Record:
    value = None if transaction is None else transaction_value(transaction)
    return Record(PLACE, offset, 1_000 * offset, transaction_key(name), value, ())


def stood(state: TxnState, epoch: int, *places: TopicPartition) -> Transaction:
    return Transaction(
        producer_id=7, previous_producer_id=-1, next_producer_id=-1, producer_epoch=epoch,
        last_producer_epoch=-1, timeout_ms=60_000, state=state, partitions=frozenset(places),
        start_ms=2_000, update_ms=2_000, version=2,
    )  # fmt: skip


T0 = TopicPartition("t", 0)
LOG = (
    written(1, stood(TxnState.EMPTY, 0)),
    written(2, stood(TxnState.ONGOING, 0, T0)),
    written(3, stood(TxnState.EMPTY, 9), "other"),
    Record(PLACE, 4, 4_000, b"\x00\x00\x00\x09", b"", ()),
    Record(PLACE, 5, 5_000, None, b"", ()),
    written(6, stood(TxnState.PREPARE_ABORT, 1, T0)),
)
PAY = TransactionDescription("pay", 1, 7, 1, "PrepareAbort", 60_000, 2_000, (T0,))


def asked_of_producer(diary: Diary, told: TransactionDescription, *records: Record) -> Answer:
    reader = TransactionReader("pay")
    for record in records:
        reader.take(record)
    decided = diary.decided()
    (past,) = pasts_of(decided, *PLACE)
    place = past, Reached(1, NOW_MS)
    answer = why_rejected_producer(decided, told, reader.written, place, NOW_MS)
    check_citations(answer, decided)
    check_measured(answer, ANSWERS, records)
    return answer


@pytest.fixture
def coordinated(diary: Diary) -> Diary:
    diary.topic((1, 2), name=PLACE.topic, topic_id=b"i" * 16)
    return diary


def test_a_transactional_id_tells_its_epoch_and_how_it_came_to_it(coordinated: Diary) -> None:
    answer = asked_of_producer(coordinated, PAY, *LOG)
    assert "unless they come from producer 7 in epoch 1 (else INVALID_PRODUCER_EPOCH" in (
        answer.headline
    )
    assert "Its transaction is PrepareAbort: until it has ended everywhere" in answer.headline
    assert answer.hint == "quorate why rejected t:0"
    assert texts(answer) == [
        "pay: Empty, producer 7, epoch 0",
        "pay: Ongoing, producer 7, epoch 0, in t-0",
        "broker 1 leads __transaction_state-0 since epoch 0: CreateTopics by User:a",
        "pay: PrepareAbort, producer 7, epoch 1, in t-0",
        "PrepareAbort, producer 7, epoch 1, open since 1970-01-01T00:00:02.000Z, timeout 60000 ms",
    ]


def test_a_producer_that_began_anew_has_fenced_the_one_before(coordinated: Diary) -> None:
    done = replace(PAY, state="Empty", producer_epoch=2, started_ms=None, partitions=())
    begun = written(8, stood(TxnState.EMPTY, 2))
    answer = asked_of_producer(coordinated, done, *LOG, begun, written(9, None))
    assert answer.headline.endswith(
        "At 1970-01-01T00:00:08.000Z a producer began with pay: whoever had it before is fenced."
    )
    assert "pay: forgotten" in texts(answer)
    assert "fenced" not in asked_of_producer(coordinated, done).headline.lower().split(").")[-1]


def test_a_coordinator_without_replicas_cannot_go_on(coordinated: Diary) -> None:
    coordinated.fence(1, coordinated.change(NOBODY, 1, (), topic_id=b"i" * 16))
    answer = asked_of_producer(coordinated, PAY)
    assert answer.headline.startswith(
        f"Its coordinator cannot go on (LEADER_NOT_AVAILABLE), {PLACE}: nobody leads it."
    )
    assert answer.hint == "quorate why offline __transaction_state:0"


# --- groups


def test_commits_are_for_members_of_the_present_generation(coordinated: Diary) -> None:
    decided = coordinated.decided()
    (past,) = pasts_of(decided, *PLACE)
    member = MemberDescription("m", None, "c", "/h", (T0,))
    group = GroupDescription(
        "g", "Classic", "consumer", "Stable", "range", (member,), 1, generation_id=4
    )
    generation = Generation("__consumer_offsets-0", 9, 9_000, 4, (("m", "c (h)"),))
    place = past, Reached(1, NOW_MS)
    answer = why_rejected_commits(decided, group, [generation], place, NOW_MS)
    check_citations(answer, decided)
    assert "but from its 1 members in generation 4" in answer.headline
    assert {line.citation for line in answer.lines} == {
        "metadata@11", "__consumer_offsets-0@9", "broker-1/DescribeGroups",
    }  # fmt: skip
    empty = replace(group, members=())
    answer = why_rejected_commits(decided, empty, [], place, NOW_MS)
    assert answer.headline == "Commits to g are not refused: it has no members."
    coordinated.fence(1, coordinated.change(NOBODY, 1, (), topic_id=b"i" * 16))
    decided = coordinated.decided()
    (past,) = pasts_of(decided, *PLACE)
    answer = why_rejected_commits(decided, empty, [], (past, None), NOW_MS)
    assert answer.headline == "Commits of g are refused, __transaction_state-0: nobody leads it."
