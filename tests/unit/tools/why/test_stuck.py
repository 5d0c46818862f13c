"""Why partitions stand still: their high watermark, their last stable offset, their moves."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from quorate.client.admin_results import LogDirReplica
from quorate.client.transactions.describing import ProducerDescription, TransactionDescription
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import TOPIC
from quorate.records.record import Record
from quorate.tools.why.answer import Answer
from quorate.tools.why.looks import Look, Opened, Standing
from quorate.tools.why.stuck import why_stuck
from tests.unit.tools.why.telling import (
    NOBODY,
    TOPIC_ID,
    Diary,
    check_citations,
    check_measured,
    texts,
)

T0 = TopicPartition("t", 0)
BEFORE_MS, AFTER_MS = 50_000, 51_000
DIRS = tuple(f"broker-{n}/DescribeLogDirs" for n in (1, 2, 3))
ANSWERS = (*DIRS, "broker-1/ListOffsets", "broker-1/DescribeProducers",
           "broker-2/DescribeTransactions")  # fmt: skip
FIRST = Record(T0, 80, 40_000, None, b"x", ())


@pytest.fixture
def diary() -> Diary:
    diary = Diary()
    diary.topic((1, 2, 3))
    return diary


def replica(end: int, watermark: int) -> LogDirReplica:
    return LogDirReplica(
        0, 0, is_future=False, log_end_offset=end, high_watermark=watermark, log_start_offset=0
    )


def look(ends: Mapping[int, int], watermark: int, stable: int | None = None) -> Look:
    """What brokers say; those whose ends are not told are silent."""
    replicas = {broker_id: replica(end, watermark) for broker_id, end in ends.items()}
    stable = watermark if stable is None else stable
    return Look(AFTER_MS, replicas, frozenset({1, 2, 3} - set(ends)), stable)


def asked(diary: Diary, after: Look, before: Look | None = None, *opened: Opened) -> Answer:
    before = replace(before or after, now_ms=BEFORE_MS)
    answer = why_stuck(diary.decided(), T0, Standing(before, after, opened))
    check_citations(answer, diary.decided())
    times = ((api, ms) for api in ANSWERS for ms in (BEFORE_MS, AFTER_MS))
    check_measured(answer, times, [FIRST])
    return answer


def test_what_is_committed_or_goes_on_is_not_stuck(diary: Diary) -> None:
    answer = asked(diary, look({1: 90, 2: 90, 3: 90}, 90))
    assert answer.headline == "t-0 is not stuck: all that is written to it is committed."
    assert texts(answer) == ["log end 90, high watermark 90"] * 2
    answer = asked(diary, look({1: 95, 2: 90, 3: 95}, 90), look({1: 90, 2: 80, 3: 90}, 80))
    assert answer.headline == "t-0 is not stuck: 10 records were committed in 1.0 s."


def test_who_is_in_sync_and_behind_holds_the_high_watermark(diary: Diary) -> None:
    answer = asked(diary, look({1: 95, 2: 90, 3: 95}, 90))
    assert answer.headline == (
        "The high watermark of t-0 stands at 90, 5 short: broker 2, in sync, must have it first."
    )
    assert texts(answer)[0] == "in sync: 1,2,3; CreateTopics by User:a"
    assert texts(answer)[-1] == "broker 2, in sync, has it up to 90: 5 short"
    answer = asked(diary, look({1: 95, 2: 90}, 90))
    assert "brokers 2,3, in sync, must have it first" in answer.headline
    assert texts(answer)[-1] == "broker 3 does not answer, and is in sync by the metadata"
    assert answer.hint.startswith("look at brokers 2,3")


def test_what_no_answer_tells_is_not_guessed(diary: Diary) -> None:
    answer = asked(diary, look({1: 95, 2: 95, 3: 95}, 90))
    assert "no answer tells which" in answer.headline


def test_too_few_in_sync_commit_nothing(diary: Diary) -> None:
    diary.write(r.ConfigSet("by User:a", diary.now_ms, TOPIC, "t", "min.insync.replicas", "2"))
    diary.fence(2, diary.change(1, 0, (1,), "broker 2 is gone"))
    answer = asked(diary, look({1: 95}, 90))
    assert answer.headline == (
        "The high watermark of t-0 stands at 90, 5 short: 1 in sync, and min.insync.replicas is 2."
    )
    assert texts(answer)[:2] == ["min.insync.replicas=2: by User:a", "in sync: 1; broker 2 is gone"]
    assert answer.hint == "quorate why isr t:0 tells who is missing"


def test_a_leader_that_is_gone_or_silent_is_told(diary: Diary) -> None:
    answer = asked(diary, look({2: 95, 3: 95}, 90))
    assert "broker 1 leads it and does not answer" in answer.headline
    assert texts(answer) == [
        "broker 1 leads t-0 since epoch 0: CreateTopics by User:a",
        "broker 1 does not answer, but leads",
    ]
    diary.fence(1, diary.change(NOBODY, 1, (), elr=(1,), last=1))
    answer = why_stuck(diary.decided(), T0, None)
    check_citations(answer, diary.decided())
    assert texts(answer) == ["nobody leads t-0 since epoch 1: a cause"]
    assert answer.hint == "quorate why offline t:0"


def opened(state: str = "Ongoing", *, hangs: bool = False) -> Opened:
    producer = ProducerDescription(7, 3, 0, 5, 41_000, 80)
    told = TransactionDescription("pay", 2, 7, 3, state, 60_000, 39_000, (T0,))
    return Opened(producer, None if hangs else told, hangs, FIRST.timestamp_ms)


def test_an_open_transaction_holds_the_last_stable_offset(diary: Diary) -> None:
    seen = look({1: 90, 2: 90, 3: 90}, 90, 80)
    answer = asked(diary, seen, None, opened())
    since = "1970-01-01T00:00:39.000Z"
    assert answer.headline == (
        f"The last stable offset of t-0 stands at 80: a transaction of pay is open since {since}."
    )
    told = texts(answer)
    assert told[0] == "the first record of producer 7 in its open transaction"
    assert told[3] == "last stable offset 80: of what is committed, 10 hidden from read_committed"
    assert "producer 7, epoch 3, has a transaction open from offset 80 on" in told[4]
    assert (
        told[5] == f"producer 7 is that of pay: Ongoing since {since}, transaction.timeout.ms=60000"
    )
    assert answer.hint == (
        "quorate txns abort pay; without, it is aborted after 1970-01-01T00:01:39.000Z"
    )
    answer = asked(diary, seen, None, opened("PrepareCommit"))
    assert f"pay is PrepareCommit since {since}, and not ended here yet" in answer.headline
    assert answer.hint == "quorate why rejected --transactional-id pay"
    answer = asked(diary, seen, None, opened(hangs=True))
    assert "producer 7 has a transaction open that no coordinator knows of" in answer.headline
    assert answer.hint == "quorate txns abort --topic t -p 0 --start-offset 80"
    assert "has ended meanwhile" in asked(diary, seen).headline


def moving(diary: Diary) -> None:
    change = diary.change(
        1, 0, (1, 2), "AlterPartitionReassignments by User:a", replicas=(1, 2, 3), adding=(3,)
    )
    diary.write(change)
    diary.write(diary.change(1, 0, (1, 2), "another cause"))


def test_a_move_tells_who_has_still_to_get_what(diary: Diary) -> None:
    moving(diary)
    answer = asked(diary, look({1: 90, 2: 90, 3: 40}, 90), look({1: 90, 2: 90, 3: 10}, 90))
    assert answer.headline == "The move of t-0 goes on: 3 must be in sync before it ends."
    assert texts(answer)[0] == "is to be on 3, too: AlterPartitionReassignments by User:a"
    assert texts(answer)[-1] == "broker 3 has it up to 40, 50 short; 30 more in 1.0 s"
    diary.write(
        r.ConfigSet(
            "by User:b", diary.now_ms, TOPIC, "t", "follower.replication.throttled.replicas", "*"
        )
    )
    answer = asked(diary, look({1: 90, 2: 90, 3: 40}, 90))
    assert "does not progress: 3 got nothing in 1.0 s" in answer.headline
    assert (
        "its copies are throttled: follower.replication.throttled.replicas=*; by User:b"
        in texts(answer)
    )
    answer = asked(diary, look({1: 90, 2: 90}, 90))
    assert texts(answer)[-1] == "broker 3 does not answer, and is to get a replica"


def test_a_move_to_a_broker_that_is_read_only_tells_so(diary: Diary) -> None:
    moving(diary)
    full = r.BrokerChanged("broker 3 cannot write", diary.now_ms, 3, 0, cannot_write=True)
    diary.write(full)
    answer = asked(diary, look({1: 90, 2: 90, 3: 40}, 90))
    assert "does not progress: 3 got nothing in 1.0 s" in answer.headline
    assert "broker 3 is read-only: broker 3 cannot write" in texts(answer)
    assert answer.hint == (
        "make room on the disk of broker 3; quorate partitions reassign cancel ends it as it was"
    )
    diary.write(replace(full, cause="broker 3 can write again", cannot_write=False))
    answer = asked(diary, look({1: 90, 2: 90, 3: 40}, 90))
    assert not any("read-only" in text for text in texts(answer))


def test_a_topic_that_was_deleted_is_told(diary: Diary) -> None:
    diary.write(r.TopicRemoved("DeleteTopics by User:a", diary.now_ms, TOPIC_ID))
    assert why_stuck(diary.decided(), T0, None).headline == "There is no t-0 any more."
