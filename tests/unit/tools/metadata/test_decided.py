"""Records of decisions, told apart and put into words."""

import json

import pytest

from quorate.control.frames import LENGTH_BYTES, Frame, encode_frame
from quorate.control.messages import RegisterBrokerAnswer
from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.tools.metadata.decided import (
    HIDDEN,
    Batch,
    Decided,
    Filter,
    Reader,
    parse_types,
    plain,
)
from quorate.tools.problems import UsageError

ID = bytes(range(16))
CREATED = Batch(
    7,
    3,
    (
        r.TopicCreated("CreateTopics by User:a", 1_700_000_000_123, "appLogs", ID),
        r.PartitionCreated("CreateTopics by User:a", 1_700_000_000_123, ID, 0, (1,), (1,), 1),
        r.ConfigSet("CreateTopics by User:a", 1_700_000_000_123, "topic", "appLogs", "k", "v"),
    ),
)
CHANGED = Batch(8, 3, (r.PartitionChanged("broker 1 died", 5, ID, 0, -1, 1, (1,)),))
REMOVED = Batch(9, 4, (r.TopicRemoved("DeleteTopics by User:a", 6, ID),))
FENCED = Batch(10, 4, (r.BrokerFenced("broker 1 died", 7, 1, 4),))


def read(*batches: Batch) -> list[Decided]:
    reader = Reader()
    return [decided for batch in batches for decided in reader.read(batch)]


def test_a_record_is_told_with_offset_term_time_and_cause() -> None:
    decided = read(CREATED, CHANGED)[-1]
    assert decided.fields() == {
        "offset": 8,
        "term": 3,
        "time": "1970-01-01T00:00:00.005Z",
        "time_ms": 5,
        "type": "PartitionChanged",
        "cause": "broker 1 died",
        "topic": "appLogs",
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partition": 0,
        "leader_id": -1,
        "leader_epoch": 1,
        "isr": [1],
    }
    assert json.loads(json.dumps(decided.fields())) == decided.fields()


def test_a_line_for_people_has_the_topics_name_instead_of_its_id() -> None:
    line = read(CREATED, CHANGED)[-1].line()
    assert line.startswith("      8    3  1970-01-01T00:00:00.005Z  PartitionChanged {")
    assert line.endswith("}  # broker 1 died")
    assert '"topic": "appLogs"' in line
    assert "topic_id" not in line


def test_what_a_topic_is_called_is_known_until_it_is_removed() -> None:
    again = Batch(11, 4, (r.TopicCreated("x", 8, "other", ID),))
    topics = [d.topic for d in read(CREATED, CHANGED, REMOVED, again, CHANGED)]
    assert topics == ["appLogs", "appLogs", "appLogs", "appLogs", "appLogs", "other", "other"]


def test_facts_of_a_snapshot_have_no_time_and_name_their_topics() -> None:
    image = CREATED.applied_to(EMPTY_IMAGE)
    decided = read(Batch(20, None, image=image))
    assert [d.type for d in decided] == ["TopicCreated", "PartitionCreated", "ConfigSet"]
    assert {d.topic for d in decided} == {"appLogs"}
    fields = decided[0].fields()
    assert (fields["time"], fields["term"], fields["cause"]) == (None, None, "snapshot")
    assert decided[0].line().split()[:3] == ["20", "-", "-"]


def test_batches_make_the_image_that_the_controllers_have() -> None:
    image = EMPTY_IMAGE
    for batch in (CREATED, CHANGED):
        image = batch.applied_to(image)
    assert image.version == 8
    assert image.topics["appLogs"].partitions[0].leader_epoch == 1
    snapshot = Batch(8, None, image=image)
    assert snapshot.applied_to(EMPTY_IMAGE) is image


def test_filters_choose_by_type_offset_and_topic() -> None:
    everything = read(CREATED, CHANGED, REMOVED, FENCED)

    def chosen(wanted: Filter) -> list[tuple[int, str]]:
        return [(d.offset, d.type) for d in everything if wanted.wants(d)]

    assert len(chosen(Filter())) == len(everything)
    types = parse_types(["topiccreated,TopicRemoved"])
    assert chosen(Filter(types=types)) == [(7, "TopicCreated"), (9, "TopicRemoved")]
    assert chosen(Filter(since_offset=9)) == [(9, "TopicRemoved"), (10, "BrokerFenced")]
    assert [offset for offset, _ in chosen(Filter(topic="appLogs"))] == [7, 7, 7, 8, 9]
    assert chosen(Filter(types, 8, "appLogs")) == [(9, "TopicRemoved")]


def test_an_unknown_type_of_record_is_refused() -> None:
    with pytest.raises(UsageError, match="'TopicMade' is no type"):
        parse_types(["TopicMade"])


def test_values_become_json() -> None:
    assert plain({1: Endpoint("h", 9), "b": (b"\xff\x00", b"text")}) == {
        "1": "h:9",
        "b": ["ff00", "text"],
    }
    assert plain(CREATED.changes[0])["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"


def test_the_answer_that_a_retry_would_get_is_told_in_full() -> None:
    frame = encode_frame(Frame(1, RegisterBrokerAnswer(77)))[LENGTH_BYTES:]
    answered = Batch(9, 1, (r.RequestAnswered("x", 5, b"\0\1", frame),))
    assert read(answered)[0].body() == {
        "request_id": "0001", "answer": {"type": "RegisterBrokerAnswer", "broker_epoch": 77},
    }  # fmt: skip
    unknown = Batch(9, 1, (r.RequestAnswered("x", 5, b"\0\1", b"\xff"),))
    assert read(unknown)[0].body()["answer"] == "ff"


def test_what_a_password_can_be_guessed_from_is_hidden() -> None:
    assert plain(b"1234567890123456", "stored_key") == HIDDEN
