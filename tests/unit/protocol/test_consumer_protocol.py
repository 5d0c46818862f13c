"""Subscriptions and assignments of classic consumers, compared with kio's."""

import pytest
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.primitives import DecodeError

OWNED = (TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 7))
FULL = Subscription(("a", "b"), OWNED, 5, "rack-1", b"mine")


@pytest.mark.parametrize("subscription", [FULL, Subscription(()), Subscription(("a",))])
def test_a_subscription_comes_back_as_it_was(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


def test_another_implementation_reads_our_subscription() -> None:
    data = encode_subscription(FULL)
    assert data[:2] == b"\0\3"
    told = entity_reader(ConsumerProtocolSubscription)(data[2:], 0)[0]
    assert (told.topics, told.generation_id, told.rack_id) == (("a", "b"), 5, "rack-1")
    assert [(p.topic, p.partitions) for p in told.owned_partitions] == [("a", (1, 0)), ("b", (7,))]
    assert told.user_data == b"mine"


def test_another_implementation_reads_our_assignment() -> None:
    data = encode_assignment(OWNED, b"x")
    told = entity_reader(ConsumerProtocolAssignment)(data[2:], 0)[0]
    assert [(p.topic, p.partitions) for p in told.assigned_partitions] == [
        ("a", (1, 0)),
        ("b", (7,)),
    ]
    assert decode_assignment(data) == OWNED


def test_old_versions_and_newer_ones_are_read() -> None:
    oldest = b"\0\0" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff"
    assert decode_subscription(oldest) == Subscription(("t",))
    newer = b"\0\x09" + encode_subscription(FULL)[2:] + b"what came later"
    assert decode_subscription(newer) == FULL


def test_nothing_assigned_is_no_partition() -> None:
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0", b"\0\3\0\0\0\x09", b"hello"])
def test_what_is_no_assignment_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_assignment(data)
