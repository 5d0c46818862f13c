"""Why partitions are as they are: who leads, who is in sync, who could lead."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.tools.metadata.decided import Batch, Decided, Reader
from quorate.tools.problems import CommandError
from quorate.tools.why.answer import Answer, Line, in_order
from quorate.tools.why.answers import why_isr, why_leader, why_offline
from tests.unit.tools.why.telling import (
    NOBODY,
    TOPIC_ID,
    Diary,
    check_citations,
    registered,
    texts,
)

T0 = TopicPartition("t", 0)
PLACED = "t-0 has replicas 1,2,3, of which 1 is preferred as leader: CreateTopics by User:a"


@pytest.fixture
def diary() -> Diary:
    diary = Diary()
    diary.write(r.ClusterFormatted("formatted", 0, "c"))
    diary.topic((1, 2, 3))
    return diary


def asked(answer: Answer, diary: Diary) -> Answer:
    check_citations(answer, diary.decided())
    return answer


# --- leader


def test_a_preferred_leader_leads_since_its_topic_was_created(diary: Diary) -> None:
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert answer.headline == "Broker 1 leads t-0, as preferred, since it was created."
    assert texts(answer) == [PLACED]


def test_a_leader_that_died_is_told_with_its_successor(diary: Diary) -> None:
    diary.fence(1, diary.change(2, 1, (2, 3), "broker 1 is gone"))
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert answer.headline == "Broker 2 leads t-0, not 1, which is preferred, since epoch 1."
    assert texts(answer) == [
        PLACED,
        "broker 1 went out of service: broker 1 is gone",
        "leader: broker 1 -> broker 2, in epoch 1, in sync: 2,3; broker 1 is gone",
    ]
    assert [line.offset for line in answer.lines] == [11, 12, 12]
    assert answer.hint == "start broker 1; it leads again once it is in sync"


def test_a_preferred_leader_that_came_back_is_told_step_by_step(diary: Diary) -> None:
    diary.fence(1, diary.change(2, 1, (2, 3), "broker 1 is gone"))
    diary.write(registered(1, diary.now_ms))
    diary.unfence(1)
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert texts(answer)[-1] == "broker 1 came into service: broker 1 has caught up"
    assert answer.hint.startswith("quorate why isr t:0")
    diary.write(diary.change(2, 1, (1, 2, 3), "AlterPartition by leader 2"))
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert texts(answer)[-1] == (
        "broker 1 is in sync with t-0 again; its leader, 2, asked for it (AlterPartition)"
    )
    assert answer.hint == "quorate partitions elect t:0 makes 1 lead"
    diary.write(diary.change(1, 2, (1, 2, 3), "preferred leaders lead again"))
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert answer.headline == "Broker 1 leads t-0, as preferred, since epoch 2."
    assert answer.hint == ""


def test_a_leader_that_was_drained_is_told(diary: Diary) -> None:
    diary.write(
        r.BrokerChanged("broker 1 was drained by User:a", diary.now_ms, 1, 5, draining=True),
        diary.change(2, 1, (1, 2, 3), "broker 1 was drained by User:a"),
    )
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert answer.hint == "quorate partitions elect t:0 makes 1 lead"
    assert "broker 1 was drained by User:a" in texts(answer)[-1]


def test_the_newest_three_changes_of_leader_are_told(diary: Diary) -> None:
    for epoch in range(1, 6):
        diary.write(diary.change(1 + epoch % 2, epoch, (1, 2, 3)))
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert [text.partition(", in sync")[0] for text in texts(answer)[1:]] == [
        "leader: broker 2 -> broker 1, in epoch 2",
        "leader: broker 1 -> broker 2, in epoch 3",
        "leader: broker 2 -> broker 1, in epoch 4",
        "leader: broker 1 -> broker 2, in epoch 5",
    ][1:]


def test_nobody_leads_while_all_replicas_are_gone(diary: Diary) -> None:
    diary.fence(1, diary.change(NOBODY, 1, (), elr=(1, 2, 3), last=1))
    answer = asked(why_leader(diary.decided(), T0), diary)
    assert answer.headline.startswith("Nobody leads t-0")
    assert answer.hint == "quorate why offline t:0"


# --- isr


def test_a_complete_isr_tells_how_it_became_so(diary: Diary) -> None:
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert answer == Answer("All replicas of t-0 are in sync: 1,2,3.", (Line(PLACED, 11, 2_000),))
    diary.write(diary.change(1, 0, (1, 2), "AlterPartition by leader 1"))
    diary.write(diary.change(1, 0, (1, 2, 3), "AlterPartition by leader 1"))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert texts(answer)[1:] == [
        "3 came into the ISR, now 1,2,3: its leader, 1, asked for it (AlterPartition)"
    ]


def test_a_replica_that_did_not_keep_up_is_told(diary: Diary) -> None:
    diary.write(diary.change(1, 0, (1, 2), "AlterPartition by leader 1"))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert answer.headline == "In sync with t-0: 1,2. Of its replicas 1,2,3, 3 is missing."
    assert texts(answer)[-1] == (
        "3 left the ISR, 1,2 remained: it had not kept up for replica.lag.time.max.ms, so its "
        "leader, 1, asked for it (AlterPartition)"
    )
    assert answer.hint.startswith("quorate partitions describe")


def test_a_replica_that_could_not_write_is_told(diary: Diary) -> None:
    full = r.BrokerChanged("broker 3 cannot write", diary.now_ms, 3, 0, cannot_write=True)
    diary.write(full)
    diary.write(diary.change(1, 0, (1, 2), "AlterPartition by leader 1"))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert texts(answer)[-2:] == [
        "broker 3 is read-only: broker 3 cannot write",
        (
            "3 left the ISR, 1,2 remained: it could not write what it lacked, so its leader, 1, "
            "asked for it (AlterPartition)"
        ),
    ]
    assert answer.hint == "make room on the disk of broker 3, or look at its log"
    diary.write(replace(full, cause="broker 3 can write again", cannot_write=False))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert texts(answer)[-1] == "broker 3 is read-only no more: broker 3 can write again"
    assert answer.hint.startswith("quorate partitions describe")


def test_replicas_whose_brokers_died_are_told_and_what_acks_all_does(diary: Diary) -> None:
    diary.write(r.ConfigSet("AlterConfigs", diary.now_ms, "topic", "t", "min.insync.replicas", "2"))
    diary.fence(3, diary.change(1, 0, (1, 2), "broker 3 is gone"))
    diary.fence(2, diary.change(1, 0, (1,), "broker 2 is gone"))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert answer.headline == (
        "In sync with t-0: 1. Of its replicas 1,2,3, 2,3 are missing. "
        "Fewer than min.insync.replicas=2: acks=all is refused."
    )
    assert "min.insync.replicas=2: AlterConfigs" in texts(answer)
    assert answer.hint == "start brokers 2,3"
    diary.write(registered(2, diary.now_ms, cause="broker 2 registered after an unclean stop"))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert texts(answer)[-1] == (
        "broker 2 registered, and is to catch up before it serves: "
        "broker 2 registered after an unclean stop"
    )


def test_a_default_of_min_insync_replicas_has_no_record_to_cite(diary: Diary) -> None:
    diary.write(r.ConfigSet("A", diary.now_ms, "broker", "", "min.insync.replicas", "3"))
    diary.fence(3, diary.change(1, 0, (1, 2)))
    assert "min.insync.replicas=3" in asked(why_isr(diary.decided(), T0), diary).headline
    diary.write(r.ConfigDeleted("A", diary.now_ms, "broker", "", "min.insync.replicas"))
    diary.write(r.ConfigSet("A", diary.now_ms, "topic", "t", "retention.ms", "3"))
    assert "min.insync" not in asked(why_isr(diary.decided(), T0), diary).headline
    diary.fence(1, diary.change(NOBODY, 1, (), elr=(1,), last=1))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert "Fewer than min.insync.replicas=1" in answer.headline
    assert not [text for text in texts(answer) if text.startswith("min.insync")]


def test_a_replica_that_is_being_added_was_never_in_sync(diary: Diary) -> None:
    change = diary.change(1, 0, (1, 2, 3), "AlterPartitionReassignments by User:a")
    diary.write(replace(change, replicas=(1, 2, 3, 4), adding_replicas=(4,), removing_replicas=()))
    answer = asked(why_isr(diary.decided(), T0), diary)
    assert "4 has not been in sync yet, but is a replica: AlterPartition" in texts(answer)[-1]


def test_what_was_set_for_a_topic_goes_with_it(diary: Diary) -> None:
    diary.write(r.ConfigSet("A", diary.now_ms, "topic", "t", "min.insync.replicas", "3"))
    diary.write(r.TopicRemoved("DeleteTopics by User:a", diary.now_ms, TOPIC_ID))
    diary.topic((1, 2, 3), topic_id=bytes(15) + b"\x01")
    diary.fence(3, diary.change(1, 0, (1, 2), topic_id=bytes(15) + b"\x01"))
    assert "min.insync" not in asked(why_isr(diary.decided(), T0), diary).headline


# --- offline


def test_a_partition_that_is_led_is_not_offline(diary: Diary) -> None:
    answer = asked(why_offline(diary.decided(), T0), diary)
    assert answer.headline == "t-0 is not offline: broker 1 leads it."
    diary.fence(1, diary.change(2, 1, (2, 3), "broker 1 is gone"))
    answer = asked(why_offline(diary.decided(), T0), diary)
    assert texts(answer) == ["broker 2 leads in epoch 1: broker 1 is gone"]


def test_who_can_lead_an_offline_partition_is_told(diary: Diary) -> None:
    diary.fence(2, diary.change(1, 0, (1, 3), "broker 2 is gone"))
    diary.fence(3, diary.change(1, 0, (1,), "broker 3 is gone"))
    diary.fence(1, diary.change(NOBODY, 1, (), "broker 1 is gone", elr=(1,), last=1))
    answer = asked(why_offline(diary.decided(), T0), diary)
    assert answer.headline == (
        "t-0 is offline: nobody leads it. 1 can lead it, but is not in service."
    )
    assert texts(answer) == [
        PLACED,
        "broker 2 went out of service: broker 2 is gone",
        "broker 3 went out of service: broker 3 is gone",
        "broker 1 went out of service: broker 1 is gone",
        "leader: broker 1 -> nobody, in epoch 1, in sync: none; broker 1 is gone",
    ]
    assert answer.hint.startswith("start broker 1:")


def test_what_an_unclean_election_may_lose_is_told(diary: Diary) -> None:
    diary.fence(1, diary.change(NOBODY, 1, (), last=1))
    answer = asked(why_offline(diary.decided(), T0), diary)
    assert answer.headline.endswith("1 led last, and may have lost what it had not on disk.")
    assert answer.hint == (
        "start broker 1; or quorate partitions elect --unclean t:0: committed records may be lost"
    )
    diary.write(diary.change(NOBODY, 1, (), last=NOBODY))
    answer = asked(why_offline(diary.decided(), T0), diary)
    assert answer.headline == "t-0 is offline: nobody leads it."
    assert answer.hint.startswith("quorate partitions elect --unclean t:0")


# --- what is not there


@pytest.mark.parametrize("ask", [why_leader, why_isr, why_offline])
def test_a_topic_that_was_deleted_is_told_and_one_made_again_is_another(
    ask: Callable[[Sequence[Decided], TopicPartition], Answer], diary: Diary
) -> None:
    diary.write(r.TopicRemoved("DeleteTopics by User:a", diary.now_ms, TOPIC_ID))
    answer = asked(ask(diary.decided(), T0), diary)
    assert answer.headline == "There is no t-0 any more."
    assert texts(answer) == ["topic t was deleted: DeleteTopics by User:a"]
    diary.topic((3, 1), topic_id=bytes(15) + b"\x01")
    assert asked(ask(diary.decided(), T0), diary).lines[0].offset == 13
    with pytest.raises(CommandError) as caught:
        ask(diary.decided(), TopicPartition("t", 7))
    assert caught.value.why == "topic t has partitions 0 to 0"
    with pytest.raises(CommandError) as caught:
        ask(diary.decided(), TopicPartition("other", 0))
    assert caught.value.why == "the metadata has no record of a topic other"


def test_facts_of_a_snapshot_have_an_offset_and_no_time(diary: Diary) -> None:
    image = EMPTY_IMAGE
    for batch in diary.batches:
        image = apply_records(image, batch.offset, batch.changes)
    decided = read(Batch(30, None, image=image))
    answer = why_leader(decided, T0)
    (line,) = answer.lines
    assert (line.offset, line.time_ms) == (30, None)
    assert line.text.endswith("as a snapshot has it, which forgets why and when")
    check_citations(answer, decided)


def read(*batches: Batch) -> list[Decided]:
    reader = Reader()
    return [decided for batch in batches for decided in reader.read(batch)]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (registered(3, 5, fenced=False), "is in service: broker 3 registered"),
        (r.BrokerUnregistered("U", 5, 3, 5), "was unregistered: U"),
        (r.BrokerChanged("S", 5, 3, 5, shutting_down=True), "began to shut down: S"),
        (
            r.BrokerChanged("D", 5, 3, 5, draining=True),
            "is drained: it leads only what nobody else can lead: D",
        ),
        (r.BrokerChanged("D", 5, 3, 5, draining=False), "is drained no more: D"),
    ],
)
def test_all_that_happens_to_brokers_has_words(
    diary: Diary, record: r.MetadataRecord, text: str
) -> None:
    diary.write(diary.change(1, 0, (1, 2), "AlterPartition by leader 1"))
    diary.write(record)
    assert texts(asked(why_isr(diary.decided(), T0), diary))[-1] == f"broker 3 {text}"


# --- how answers look


def test_answers_cite_a_log_an_offset_and_a_time() -> None:
    answer = Answer(
        "Because.", (Line("a", 7, None), Line("b", 1234, 1_500, "__consumer_offsets-3")), "wait"
    )
    assert answer.text() == (
        "Because.\n"
        "  -                         metadata@7                 a\n"
        "  1970-01-01T00:00:01.500Z  __consumer_offsets-3@1234  b\n"
        "  try: wait\n"
    )
    document = answer.document("lag", "g")
    assert (document["kind"], document["version"], document["hint"]) == ("why", 1, "wait")
    assert [line["time"] for line in document["lines"]] == [None, "1970-01-01T00:00:01.500Z"]
    assert Answer("No.", ()).text() == "No.\n"


def test_lines_are_told_once_and_in_order() -> None:
    a, b = Line("a", 2, 5), Line("b", 1, 9)
    assert in_order([a, b, a]) == (b, a), "of one log: by offset"
    other = Line("c", 0, 7, "t-0")
    assert in_order([b, other, a]) == (a, other, b), "of several: by time"
