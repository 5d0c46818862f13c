"""Partitions that belong together: the earliest record first, and who is waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.receiving.merging import by_number, take_earliest
from quorate.client.receiving.streams import PartitionStream
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.protocol.messages.data import PartitionData
from quorate.records.batch import assign_offset, seal_batch
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder

Taken = tuple[str, int]
"""A topic and the time of a record of it."""


def stream(topic: str, number: int = 0) -> PartitionStream:
    made = PartitionStream(
        TopicPartition(topic, number), None, committed_only=True, check_crcs=True
    )
    made.seek(0)
    return made


def fetched(topic: str, *times_ms: int, end: int | None = None) -> PartitionStream:
    """Return a partition of which these were fetched, in one batch, of as many as there are."""
    made = stream(topic)
    add(made, *times_ms, end=len(times_ms) if end is None else end)
    return made


def add(to: PartitionStream, *times_ms: int, end: int) -> None:
    records = b""
    if times_ms:
        builder = RecordBatchBuilder()
        for time_ms in times_ms:
            builder.append(time_ms, b"k", b"v", b"", 100)
        placed = seal_batch(
            builder.encode(),
            attributes=0,
            record_count=len(times_ms),
            base_timestamp_ms=times_ms[0],
            max_timestamp_ms=max(times_ms),
            producer=NO_PRODUCER,
        )
        assert to.fetch_offset is not None
        assign_offset(placed, 0, to.fetch_offset, 0)
        records = bytes(placed)
    assert to.fetch_offset is not None
    data = PartitionData(last_stable_offset=end, high_watermark=end + 9, records=records)
    assert to.add(data, to.fetch_offset, to.position.generation)


def take_all(*streams: PartitionStream, records_max: int = 100) -> list[Taken]:
    taken: list[Taken] = []
    while found := take_earliest(streams, records_max):
        _, records = found
        assert 0 < len(records) <= records_max
        taken += [(record.topic, record.timestamp_ms) for record in records]
    return taken


def test_the_earliest_comes_first_whoever_has_it() -> None:
    a, b = fetched("a", 1, 2, 7), fetched("b", 0, 2, 3, 9)
    assert take_all(a, b) == [
        ("b", 0), ("a", 1), ("a", 2), ("b", 2), ("b", 3), ("a", 7), ("b", 9)
    ]  # fmt: skip
    assert (a.position.offset, b.position.offset) == (3, 4)


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=9).map(sorted), min_size=1),
    st.integers(1, 5),
)
def test_what_is_in_order_in_each_comes_in_order_of_all(logs: list[list[int]], most: int) -> None:
    streams = [fetched(str(i), *times) for i, times in enumerate(logs)]
    times = [time_ms for _, time_ms in take_all(*streams, records_max=most)]
    assert times == sorted(time_ms for log in logs for time_ms in log)


def test_who_is_known_to_have_more_is_waited_for() -> None:
    a, b = fetched("a", 1, 5), fetched("b", 3, end=2)
    assert take_all(a, b) == [("a", 1), ("b", 3)]
    add(b, 4, end=2)
    assert take_all(a, b) == [("b", 4), ("a", 5)]


def test_who_is_not_known_yet_is_waited_for_and_who_has_nothing_is_not() -> None:
    a, b = fetched("a", 1), stream("b")
    assert take_all(a, b) == []
    add(b, end=0)
    assert take_all(a, b) == [("a", 1)]
    assert take_all(a, b) == []


def test_who_is_paused_is_waited_for() -> None:
    a, b = fetched("a", 2), fetched("b", 1)
    b.paused = True
    assert take_all(a, b) == []
    b.paused = False
    assert take_all(a, b) == [("b", 1), ("a", 2)]


def test_who_cannot_be_read_on_says_so() -> None:
    a, b = fetched("a", 2), stream("b")
    b.fail(CorruptRecordError("damaged"))
    with pytest.raises(CorruptRecordError, match="damaged"):
        take_earliest([a, b], 9)
    assert a.position.offset == 0


def test_partitions_of_one_number_belong_together() -> None:
    streams = [stream(topic, number) for topic in "ab" for number in (1, 0)]
    names = [[str(s.topic_partition) for s in group] for group in by_number(streams)]
    assert names == [["a-1", "b-1"], ["a-0", "b-0"]]
