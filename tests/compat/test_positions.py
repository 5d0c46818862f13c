"""Positions: where a consumer may begin, and what it finds there."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.compat.clients.model import (
    Client,
    Message,
    Op,
    PeerError,
    Received,
    Reset,
    Sending,
    Server,
    Task,
)
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic

pytestmark = [pytest.mark.compat, pytest.mark.slow]

START_MS = 1_700_000_000_000
PLAIN = Sending()
OUT_OF_RANGE = 1_000_000
WRITE_INTERVAL_S = 0.05


def number(index: int) -> bytes:
    return b"%d" % index


@pytest.fixture
def hundred(new_topic: NewTopic, server: Server, ours: Ours) -> str:
    """A topic of 100 records, a second apart, in batches of 10 that are compressed by turns."""
    topic = new_topic(retention_ms="-1")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"] * 2
    for batch, codec in enumerate(codecs):
        indexes = range(batch * 10, batch * 10 + 10)
        sent = [Message(number(i), timestamp_ms=START_MS + i * 1000) for i in indexes]
        ours.produce(server, topic, sent, Sending(codec=codec))
    return topic


@pytest.mark.feature("seek to an offset, also inside a batch")
def test_reading_begins_at_the_offset_that_was_sought(
    client: Client, server: Server, hundred: str
) -> None:
    for start in (0, 9, 37, 99):
        count = min(20, 100 - start)
        received = client.consume(server, Task(hundred, {0: start}, count))
        expected = [(index, number(index)) for index in range(start, start + count)]
        assert [(one.offset, one.value) for one in received] == expected


@pytest.mark.feature("readers at different offsets make no difference to each other")
def test_what_one_reads_is_what_it_reads_alone(
    client: Client, server: Server, hundred: str
) -> None:
    tasks = [Task(hundred, {0: start}, 100 - start) for start in (9, 11)]
    alone = [client.consume(server, task) for task in tasks]
    with ThreadPoolExecutor() as readers:
        together = list(readers.map(partial(client.consume, server), tasks * 2))
    assert together == alone * 2


@pytest.mark.feature("the same range twice is the same")
def test_records_do_not_change(client: Client, server: Server, hundred: str) -> None:
    task = Task(hundred, {0: "earliest"}, 100)
    assert client.consume(server, task) == client.consume(server, task)


@pytest.mark.feature("first and next offset")
def test_ends_are_the_first_and_the_next_offset(
    client: Client, server: Server, hundred: str
) -> None:
    assert client.ends(server, hundred, 0) == (0, 100)


@pytest.mark.feature("offset for a time, also inside a compressed batch")
def test_the_offset_for_a_time_is_that_of_the_first_record_not_older(
    client: Client, server: Server, hundred: str
) -> None:
    asked = {0: 0, START_MS: 0, START_MS + 13_000: 13, START_MS + 24_001: 25, START_MS + 99_000: 99}
    found = {at: client.offset_for_time(server, hundred, 0, at) for at in asked}
    assert found == asked
    assert client.offset_for_time(server, hundred, 0, START_MS + 99_001) is None


@pytest.mark.feature("start at the end: only what comes later")
def test_a_consumer_at_the_end_sees_only_what_is_written_after_it_began(
    client: Client, server: Server, hundred: str, ours: Ours
) -> None:
    with written_meanwhile(ours, server, hundred):
        received = client.consume(server, Task(hundred, {0: "latest"}, 3))
    assert [one.value for one in received] == [b"later"] * 3
    assert received[0].offset >= 100
    assert [one.offset - received[0].offset for one in received] == [0, 1, 2]


@pytest.mark.feature("auto.offset.reset=earliest")
def test_an_offset_out_of_range_leads_to_the_beginning_with_earliest(
    client: Client, server: Server, hundred: str
) -> None:
    received = after_reset(client, server, hundred, "earliest", count=5)
    assert [one.offset for one in received] == [0, 1, 2, 3, 4]


@pytest.mark.feature("auto.offset.reset=latest")
def test_an_offset_out_of_range_leads_to_the_end_with_latest(
    client: Client, server: Server, hundred: str, ours: Ours
) -> None:
    with written_meanwhile(ours, server, hundred):
        received = after_reset(client, server, hundred, "latest", count=2)
    assert [one.value for one in received] == [b"later"] * 2


@pytest.mark.feature("auto.offset.reset=none")
@pytest.mark.needs(Op.RESET_NONE)
def test_an_offset_out_of_range_is_an_error_with_none(
    client: Client, server: Server, hundred: str
) -> None:
    with pytest.raises(PeerError) as error:
        after_reset(client, server, hundred, "none", count=1)
    assert error.value.name in {"OFFSET_OUT_OF_RANGE", "AUTO_OFFSET_RESET"}


@pytest.mark.feature("delete records")
@pytest.mark.needs(Op.DELETE_RECORDS)
def test_deleted_records_are_gone_and_the_others_keep_their_offsets(
    client: Client, server: Server, hundred: str
) -> None:
    assert client.delete_records(server, hundred, 0, 42) == 42
    assert client.ends(server, hundred, 0) == (42, 100)
    received = client.consume(server, Task(hundred, {0: "earliest"}, 58))
    assert [one.offset for one in received] == list(range(42, 100))
    received = client.consume(server, Task(hundred, {0: 41}, 1))
    assert [one.offset for one in received] == [42]


@pytest.mark.feature("delete records beyond the end is refused")
@pytest.mark.needs(Op.DELETE_RECORDS)
def test_deleting_records_that_do_not_exist_is_refused(
    client: Client, server: Server, hundred: str
) -> None:
    with pytest.raises(PeerError) as error:
        client.delete_records(server, hundred, 0, 101)
    assert error.value.name == "OFFSET_OUT_OF_RANGE"
    assert client.ends(server, hundred, 0) == (0, 100)


@pytest.mark.feature("several partitions at once, each in its order")
def test_partitions_are_read_together_and_each_in_its_order(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic(3)
    sent = [Message(number(i), partition=i % 3) for i in range(300)]
    ours.produce(server, topic, sent, PLAIN)
    received = client.consume(server, Task(topic, dict.fromkeys(range(3), "earliest"), 300))
    for partition in range(3):
        values = [one.value for one in received if one.partition == partition]
        assert values == [number(i) for i in range(partition, 300, 3)]


@pytest.mark.feature("small fetches of large batches")
def test_a_batch_larger_than_the_fetch_is_read_all_the_same(
    client: Client, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    sent = [Message(b"x" * 50_000), Message(b"y" * 50_000)]
    ours.produce(server, topic, sent, PLAIN)
    received = client.consume(server, Task(topic, {0: 0}, 2, fetch_bytes_max=1000))
    assert [one.value for one in received] == [one.value for one in sent]


@pytest.mark.feature("a partition that does not exist is an error")
def test_asking_for_a_partition_that_does_not_exist_is_an_error(
    client: Client, server: Server, hundred: str
) -> None:
    if client.name not in {"confluent-kafka", "kcat", "quorate.client"}:
        pytest.skip(f"not offered: {client.name} waits for the partition, or knows without asking")
    with pytest.raises(PeerError) as error:
        client.ends(server, hundred, 99)
    assert error.value.name in {"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_PARTITION"}


def after_reset(
    client: Client, server: Server, topic: str, reset: Reset, *, count: int
) -> list[Received]:
    return client.consume(server, Task(topic, {0: OUT_OF_RANGE}, count, reset))


class written_meanwhile:  # noqa: N801 - reads as what it does
    """Writes b"later" again and again until the block ends, for one cannot see a consumer wait."""

    def __init__(self, ours: Ours, server: Server, topic: str) -> None:
        self._ours, self._server, self._topic = ours, server, topic
        self._done = False
        self._threads = ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        self._writing = self._threads.submit(self._run)

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._writing.result()
        self._threads.shutdown()

    def _run(self) -> None:
        while not self._done:
            self._ours.produce(self._server, self._topic, [Message(b"later")], PLAIN)
            time.sleep(WRITE_INTERVAL_S)
