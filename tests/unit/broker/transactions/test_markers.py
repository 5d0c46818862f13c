"""Markers are sent to the leaders until they are written, whatever happens meanwhile."""

import pytest

from quorate.broker.transactions.markers import (
    IN_FLIGHT_MAX,
    PARTITIONS_PER_REQUEST,
    RETRY_MAX_MS,
    RETRY_MIN_MS,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from tests.unit.broker.transactions.senders import Sender

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def led(*leaders: int, topic: str = "t", image: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    """Return metadata with a topic whose partitions have these leaders."""
    topic_id = topic.encode().ljust(16, b"\1")
    replicas = (1, 2)
    return apply_records(
        image,
        image.version + 1,
        [
            r.TopicCreated("test", 0, topic, topic_id),
            *(
                r.PartitionCreated(
                    "test", 0, topic_id, n, replicas, replicas if leader >= 0 else (), leader
                )
                for n, leader in enumerate(leaders)
            ),
        ],
    )


def moved(image: MetadataImage, leader: int, topic: str = "t") -> MetadataImage:
    """Return metadata in which partition 0 has another leader."""
    topic_id = image.topics[topic].topic_id
    epoch = image.topics[topic].partitions[0].leader_epoch + 1
    changed = r.PartitionChanged("test", 0, topic_id, 0, leader, epoch, (1, 2))
    return apply_records(image, image.version + 1, [changed])


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    sender = Sender(led(1, 2))
    sender.end(7, T0, T1)
    first, second = sender.brokers.take()
    assert [(first.broker_id, first.markers()), (second.broker_id, second.markers())] == [
        (1, {7: ["t-0"]}),
        (2, {7: ["t-1"]}),
    ]
    (marker,) = first.request.markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (
        3,
        True,
        8,
    )
    assert marker.transaction_version == 2
    first.answer()
    assert sender.ended == []
    second.answer()
    assert (sender.ended, sender.markers.written_count) == ([7], 2)


def test_without_partitions_the_end_is_there() -> None:
    sender = Sender(led(1))
    sender.end(7)
    assert (sender.ended, sender.brokers.asked) == ([7], [])


def test_what_waits_for_its_turn_goes_together() -> None:
    sender = Sender(led(1, 1))
    for producer_id in range(IN_FLIGHT_MAX + 3):
        sender.end(producer_id, T0, T1)
    under_way = sender.brokers.take()
    assert len(under_way) == IN_FLIGHT_MAX
    assert sender.markers.waiting_count == 6
    under_way[0].answer()
    both = ["t-0", "t-1"]
    assert sender.brokers.one().markers() == {n + IN_FLIGHT_MAX: both for n in range(3)}
    assert (sender.ended, sender.markers.waiting_count) == ([0], 0)


def test_a_request_has_no_more_markers_than_it_should() -> None:
    count = PARTITIONS_PER_REQUEST + 5
    sender = Sender(led(*[1] * count))
    sender.end(7, *(TopicPartition("t", n) for n in range(count)))
    first = sender.brokers.one()
    assert len(first.markers()[7]) == PARTITIONS_PER_REQUEST
    first.answer()
    second = sender.brokers.one()
    assert len(second.markers()[7]) == 5
    second.answer()
    assert sender.ended == [7]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_is_refused_is_sent_again_after_a_while(code: ErrorCode) -> None:
    sender = Sender(led(1, 1))
    sender.end(7, T0, T1)
    sender.brokers.one().answer(t_1=code)
    assert (sender.brokers.asked, sender.ended, sender.markers.failed_count) == ([], [], 1)
    sender.wait(RETRY_MIN_MS)
    again = sender.brokers.one()
    assert again.markers() == {7: ["t-1"]}
    again.answer()
    assert sender.ended == [7]


def test_the_pauses_become_longer_up_to_a_bound() -> None:
    sender = Sender(led(1))
    sender.end(7, T0)
    pause_ms = RETRY_MIN_MS
    for _ in range(12):
        sender.brokers.one().fail()
        sender.wait(pause_ms - 1)
        assert not sender.brokers.asked
        sender.wait(1)
        pause_ms = min(2 * pause_ms, RETRY_MAX_MS)


def test_what_failed_as_often_is_sent_again_together() -> None:
    sender = Sender(led(1, 1))
    sender.end(7, T0, T1)
    sender.brokers.one().fail()
    sender.wait(RETRY_MIN_MS)
    assert sender.brokers.one().markers() == {7: ["t-0", "t-1"]}
    sender.wait(RETRY_MAX_MS)
    assert not sender.brokers.asked


def test_a_new_leader_is_followed() -> None:
    sender = Sender(led(1))
    sender.end(7, T0)
    sender.change(moved(sender.image, 2))
    sender.brokers.one().fail()
    sender.wait(RETRY_MIN_MS)
    again = sender.brokers.one()
    assert again.broker_id == 2
    again.answer()
    assert sender.ended == [7]


def test_without_a_leader_the_next_one_is_waited_for() -> None:
    sender = Sender(led(-1))
    sender.end(7, T0)
    assert (sender.brokers.asked, sender.markers.waiting_count) == ([], 1)
    sender.change(moved(sender.image, 2))
    assert sender.brokers.one().broker_id == 2


def test_a_partition_that_is_deleted_needs_no_marker() -> None:
    sender = Sender(led(1))
    sender.end(7, U0)
    assert sender.ended == [7]
    sender.end(8, T0, TopicPartition("t", 5))
    refused = sender.brokers.one()
    sender.change(EMPTY_IMAGE)
    refused.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    sender.wait(RETRY_MIN_MS)
    assert sender.ended == [7, 8]


def test_a_deleted_partition_that_had_no_leader_is_not_waited_for() -> None:
    sender = Sender(led(-1))
    sender.end(7, T0)
    sender.change(EMPTY_IMAGE)
    assert sender.ended == [7]


def test_a_newer_coordinator_has_taken_over() -> None:
    sender = Sender(led(1, 2))
    ending = sender.end(7, T0, T1)
    first, second = sender.brokers.take()
    first.answer(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    second.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sender.wait(RETRY_MAX_MS)
    assert (ending.is_over, sender.ended, sender.brokers.asked) == (True, [], [])


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
def test_where_no_marker_can_be_any_more_none_is_needed(code: ErrorCode) -> None:
    sender = Sender(led(1, 1))
    sender.end(7, T0, T1)
    sender.brokers.one().answer(code, t_1=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert sender.ended == []
    sender.wait(RETRY_MIN_MS)
    again = sender.brokers.one()
    assert again.markers() == {7: ["t-1"]}
    again.answer(code)
    assert sender.ended == [7]


def test_what_nobody_wants_any_more_is_sent_no_more() -> None:
    sender = Sender(led(1, -1))
    endings = [sender.end(n, T0, T1) for n in range(IN_FLIGHT_MAX + 1)]
    for ending in endings:
        ending.is_over = True
    for asked in sender.brokers.take():
        asked.fail()
    sender.wait(RETRY_MAX_MS)
    sender.change(moved(sender.image, 1))
    assert (sender.brokers.asked, sender.ended, sender.markers.waiting_count) == ([], [], 0)


def test_an_answer_that_leaves_something_out_says_nothing_about_it() -> None:
    sender = Sender(led(1))
    sender.end(7, T0)
    asked = sender.brokers.one()
    asked.request.markers.clear()
    asked.answer()
    sender.wait(RETRY_MIN_MS)
    assert sender.brokers.one().markers() == {7: ["t-0"]}
