"""What nodes log of elections, brokers that come and go, and what that does to partitions."""

import json
import logging

import pytest

from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_those, encode_batch
from quorate.quorum.metadata.delta import difference
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_node import Standing
from quorate.tools.log_format import STORY, JsonFormatter, event_text, tell, tell_stories
from quorate.tools.story import (
    TOLD,
    Event,
    broker_events,
    decision_events,
    leading_events,
    may_be_told,
    standing_events,
)

TOPIC_ID = bytes(16)
VOTERS = VoterSet.of(
    [Voter(ReplicaKey(n, bytes(16)), Endpoint("127.0.0.1", 9190 + n)) for n in (1, 2, 3)]
)


def image_of(*batches: tuple[r.MetadataRecord, ...]) -> MetadataImage:
    image = EMPTY_IMAGE
    first = (r.FeatureLevelSet("c", 0, "metadata.version", 3),)
    for version, records in enumerate((first, *batches), 1):
        image = apply_records(image, version, records)
    return image


def registered(broker_id: int) -> r.BrokerRegistered:
    endpoints = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
    return r.BrokerRegistered("c", 0, broker_id, 2, bytes(16), b"", endpoints, None, fenced=False)


BROKERS = (registered(1), registered(2))
TOPIC = (
    r.TopicCreated("c", 0, "t", TOPIC_ID),
    r.PartitionCreated("c", 0, TOPIC_ID, 0, (1, 2), (1, 2), 1),
    r.PartitionCreated("c", 0, TOPIC_ID, 1, (2, 1), (2, 1), 2),
)
GONE = (
    r.BrokerFenced("broker 2 is gone", 0, 2, 2),
    r.PartitionChanged("broker 2 is gone", 0, TOPIC_ID, 0, 1, 0, (1,)),
    r.PartitionChanged("broker 2 is gone", 0, TOPIC_ID, 1, 1, 1, (1,)),
)


def standing(term: int, leader: int | None, voters: VoterSet = VOTERS) -> Standing:
    key = None if leader is None else ReplicaKey(leader, bytes(16))
    return Standing(7, term, key, is_leader=False, voters=voters)


def test_an_election_is_told_from_its_first_look_to_its_winner() -> None:
    first = list(standing_events(None, standing(1, 1)))
    assert first == [Event("quorum-leader", {"leader": 1, "term": 1, "was": "none", "metadata": 7})]
    (lost,) = standing_events(standing(1, 1), standing(2, None))
    assert (lost.fields["leader"], lost.fields["was"]) == ("none", 1)
    assert list(standing_events(standing(2, 2), standing(2, 2))) == []
    fewer = VoterSet(VOTERS.voters[:1])
    assert list(standing_events(standing(2, 2), standing(2, 2, fewer))) == [
        Event("quorum-voters", {"voters": [1]})
    ]


def test_a_broker_that_dies_is_told_with_what_that_did() -> None:
    before, after = image_of(BROKERS, TOPIC), image_of(BROKERS, TOPIC, GONE)
    delta = difference(before, after)
    assert list(broker_events(delta)) == [
        Event("broker-out-of-service", {"broker": 2, "metadata": 4})
    ]
    assert list(leading_events(delta, 1)) == [
        Event("leading", {"took": 1, "lost": 0, "metadata": 4}),
        Event("isr-shrunk", {"partitions": 1, "first": "t-0", "metadata": 4}),
    ]
    assert [event.name for event in leading_events(delta, 2)] == ["leading"]
    back = difference(after, before)
    assert [event.name for event in broker_events(back)] == ["broker-in-service"]
    assert [event.name for event in leading_events(back, 1)] == ["leading", "isr-grown"]
    assert list(leading_events(difference(before, before), 1)) == []


def test_decisions_are_told_with_their_cause_once() -> None:
    offline = r.PartitionChanged("another", 0, TOPIC_ID, 1, NO_LEADER, 2, ())
    events = list(decision_events((*GONE, offline), 14))
    assert [event.name for event in events] == ["broker-fenced", "partitions-changed"]
    assert events[1].fields == {
        "partitions": 3, "offline": 1, "cause": "broker 2 is gone; another", "metadata": 14,
    }  # fmt: skip
    assert list(decision_events(TOPIC, 3)) == []


def test_only_records_that_are_told_of_are_decoded_for_it() -> None:
    encoded = encode_batch((*TOPIC, *GONE, *BROKERS))
    assert decode_those(encoded, TOLD) == [*GONE, *BROKERS]


def test_what_is_about_neither_brokers_nor_partitions_is_not_looked_at() -> None:
    before = image_of(BROKERS, TOPIC)
    version = before.version + 1
    set_one = (r.ConfigSet("c", 0, "broker", "1", "log.retention.ms", "1000"),)
    assert not may_be_told(before, apply_records(before, version, set_one))
    assert may_be_told(before, apply_records(before, version, GONE[:1]))
    assert may_be_told(before, apply_records(before, version, GONE[1:]))


def test_events_are_names_and_values_as_text_and_as_json(caplog: pytest.LogCaptureFixture) -> None:
    assert event_text("e", {"a": 1, "b": "x y", "c": [1, 2], "d": [], "f": ""}) == (
        'event=e a=1 b="x y" c=1,2 d=none f=""'
    )
    with caplog.at_level(logging.INFO, STORY):
        tell("e", a=1)
    document = json.loads(JsonFormatter().format(caplog.records[0]))
    assert (document["event"], document["a"], document["message"]) == ("e", 1, "event=e a=1")
    assert (document["level"], document["logger"]) == ("INFO", STORY)


def test_errors_in_json_have_their_traceback() -> None:
    error = ValueError("invalid")
    info = (ValueError, error, None)
    record = logging.LogRecord("l", logging.ERROR, "p", 1, "failed", None, info)
    assert "ValueError: invalid" in json.loads(JsonFormatter().format(record))["exception"]


def test_stories_are_printed_whatever_the_level() -> None:
    logger = logging.getLogger(STORY)
    before = logger.level
    try:
        tell_stories()
        assert logger.isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(before)
        for name in ("quorate.broker.groups", "quorate.quorum.controller"):
            logging.getLogger(name).setLevel(logging.NOTSET)
