"""Partitions: which one a record goes to."""

from collections import Counter
from random import Random

import pytest

from quorate.client.sending.partitioner import partition_for_key
from tests.compat.clients.model import (
    Client,
    Message,
    Op,
    Place,
    Sending,
    Server,
    Task,
)
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PLAIN = Sending()
KEYS = 10_000
PARTITIONS = 7


@pytest.mark.feature("10,000 keys go where Java's murmur2 sends them")
@pytest.mark.needs(Op.MURMUR2)
def test_keys_go_to_the_partition_that_java_would_choose(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(PARTITIONS)
    random = Random(23)
    keys = [random.randbytes(random.randint(1, 40)) for _ in range(KEYS)]
    client.produce(server, topic, [Message(b"", key) for key in keys], PLAIN)
    task = Task(topic, dict.fromkeys(range(PARTITIONS), "earliest"), KEYS)
    received = {one.key: one.partition for one in ours.consume(server, task)}
    assert received == {key: partition_for_key(key, PARTITIONS) for key in keys}


@pytest.mark.feature("explicit partition")
def test_an_explicit_partition_is_obeyed(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(4)
    sent = [Message(b"%d" % i, b"key", partition=2) for i in range(50)]
    places = client.produce(server, topic, sent, PLAIN)
    if places:
        assert places == [Place(2, offset) for offset in range(50)]
    assert [ours.ends(server, topic, p) for p in range(4)] == [(0, 0), (0, 0), (0, 50), (0, 0)]


@pytest.mark.feature("per-key order over partitions: A1 A2, B1 B2, C1 C2")
def test_records_of_a_key_stay_in_order(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    sent = [Message(key + step, key) for step in (b"1", b"2") for key in (b"A", b"B", b"C")]
    client.produce(server, topic, sent, PLAIN)
    task = Task(topic, dict.fromkeys(range(3), "earliest"), len(sent))
    received = client.consume(server, task)
    for key in (b"A", b"B", b"C"):
        assert [one.value for one in received if one.key == key] == [key + b"1", key + b"2"]


@pytest.mark.feature("keyless records: 25 % ± 5 % on each of 4 partitions")
@pytest.mark.client("quorate.client")
def test_keyless_records_are_spread_evenly(server: Server, new_topic: NewTopic, ours: Ours) -> None:
    topic = new_topic(4)
    sent = [Message(b"x" * 20)] * 100_000
    how = Sending(request_bytes_max=16_384)
    counts = Counter(place.partition for place in ours.produce(server, topic, sent, how))
    assert set(counts) == {0, 1, 2, 3}
    assert all(20_000 <= count <= 30_000 for count in counts.values()), counts
