"""Bytes of records and of batches of them."""

import contextlib
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.control.codec import DecodeError, dump_cbor, load_cbor
from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.codec import (
    Fact,
    NewPartitions,
    decode_batch,
    decode_facts,
    decode_record,
    encode_batch,
    encode_record,
)

st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(
    Endpoint, st.builds(Endpoint, host=st.text(max_size=9), port=st.integers(0, 65535))
)

RECORDS: Any = st.one_of(
    *(st.builds(c, **{f.name: ... for f in fields(c)}) for c in get_args(r.MetadataRecord))
)


@given(RECORDS)
def test_every_record_comes_back_as_it_went(record: r.MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(RECORDS, st.data())
def test_a_damaged_record_is_a_record_or_a_decode_error(
    record: r.MetadataRecord, data: st.DataObject
) -> None:
    encoded = bytearray(encode_record(record))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        decode_record(bytes(encoded))


def test_fields_of_the_future_are_ignored_and_records_of_the_future_are_not() -> None:
    record = r.TopicRemoved("c", 1, b"i" * 16)
    body = load_cbor(encode_record(record))
    assert decode_record(dump_cbor({**body, 99: "new"})) == record
    with pytest.raises(DecodeError, match="unknown record type 999"):
        decode_record(dump_cbor({**body, 0: 999}))
    with pytest.raises(DecodeError, match="unknown record type None"):
        decode_record(dump_cbor({}))


@given(st.lists(RECORDS, max_size=5))
def test_every_batch_comes_back_as_it_went(records: list[r.MetadataRecord]) -> None:
    assert decode_batch(encode_batch(records)) == records


def test_records_of_a_batch_share_their_cause_and_time() -> None:
    one = r.TopicRemoved("a cause that is worth being said only once", 1, b"i" * 16)
    two = r.TopicRemoved(one.cause, 1, b"j" * 16)
    other = r.TopicRemoved("another cause", 2, b"k" * 16)
    assert len(encode_batch([one, two])) < len(encode_batch([one])) + 30
    assert decode_batch(encode_batch([one, two, other, one])) == [one, two, other, one]


PARTITIONS: Any = st.lists(
    st.builds(
        r.PartitionCreated,
        st.sampled_from(["c", "d"]),
        st.sampled_from([1, 2]),
        st.sampled_from([b"i" * 16, b"j" * 16]),
        st.sampled_from([0, 1, 2, 23, 24, 300, 70_000]),
        replicas := st.sampled_from([(1, 2), (2, 1), (1,), (700, 3)]),
        replicas,
        st.sampled_from([1, 2, -1]),
        st.sampled_from([0, 5]),
        elr=st.sampled_from([(), (2,)]),
    )
)
CHANGES: Any = st.lists(
    st.builds(
        r.PartitionChanged,
        st.sampled_from(["c", "d"]),
        st.just(1),
        st.sampled_from([b"i" * 16, b"j" * 16]),
        st.sampled_from([0, 1, 23, 24, 70_000]),
        st.sampled_from([1, -1]),
        st.just(3),
        isr=st.sampled_from([(1,), (2, 1)]),
        elr=st.sampled_from([None, (2,)]),
    )
)


@given(PARTITIONS, CHANGES, st.lists(RECORDS, max_size=1))
def test_what_partitions_have_in_common_is_encoded_once_to_the_same_bytes(
    partitions: list[r.PartitionCreated],
    changes: list[r.PartitionChanged],
    others: list[r.MetadataRecord],
) -> None:
    records: list[r.MetadataRecord] = [*partitions, *others, *changes, *partitions, *changes]
    if not records:
        return
    first = records[0]
    batch: list[Any] = [first.cause, first.time_ms]
    for record in records:
        body = load_cbor(encode_record(record))
        if (record.cause, record.time_ms) == (first.cause, first.time_ms):
            del body[1], body[2]
        batch.append(body)
    assert encode_batch(records) == dump_cbor(batch)


def one_by_one(facts: list[Fact]) -> list[r.MetadataRecord]:
    """Return facts with runs of partitions as their records, of cause "c" and time 1."""
    records: list[r.MetadataRecord] = []
    for fact in facts:
        if isinstance(fact, NewPartitions):
            records += [
                r.PartitionCreated("c", 1, fact.topic_id, n, s.replicas, s.isr, s.leader_id)
                for n, s in enumerate(fact.states, fact.first)
            ]
        else:
            records.append(fact)
    return records


@given(PARTITIONS, st.lists(RECORDS, max_size=1))
def test_new_partitions_in_a_row_are_read_as_one(
    partitions: list[r.PartitionCreated], others: list[r.MetadataRecord]
) -> None:
    first = r.TopicRemoved("c", 1, b"i" * 16)
    encoded = encode_batch([first, *partitions, *others, *partitions])
    assert one_by_one(decode_facts(encoded)) == decode_batch(encoded)


def test_a_thousand_new_partitions_are_one_fact_and_share_their_states() -> None:
    records = [r.PartitionCreated("c", 1, b"i" * 16, n, (1, 2), (1, 2), 1) for n in range(1000)]
    (run,) = decode_facts(encode_batch(records))
    assert isinstance(run, NewPartitions)
    assert len(run.states) == 1000
    assert len({id(state) for state in run.states}) == 1


PLAIN: Any = {0: 22, 3: b"i", 4: 0, 5: [1], 6: [1], 7: 1}


@pytest.mark.parametrize(
    "wrong",
    [{3: "i"}, {4: "0"}, {5: [[1]]}, {5: b"\x01"}, {6: {1: 1}}, {6: ["1"]}, {7: [1]}, {7: None}],
)
@pytest.mark.parametrize("before", [[], [PLAIN]])
def test_a_new_partition_with_wrong_values_is_refused(before: list[Any], wrong: Any) -> None:
    with pytest.raises(DecodeError):
        decode_facts(dump_cbor(["c", 1, *before, {**PLAIN, **wrong}]))


def test_a_new_partition_that_contradicts_itself_is_left_to_who_applies_it() -> None:
    (fact,) = decode_facts(dump_cbor(["c", 1, {**PLAIN, 7: 9}]))
    assert isinstance(fact, r.PartitionCreated)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([1, 1], "not a batch"),
        (["c"], "not a batch"),
        ({}, "expected list"),
        (["c", 1, 7], "expected dict"),
        (["c", 1, {0: 999}], "unknown record type 999: written by a newer version"),
        (["c", 1, {0: [21]}], "unknown record type"),
        (["c", 1, {0: 21}], "TopicRemoved.topic_id is missing"),
        (["c", 1, {0: 21, 1: "own", 3: b"i"}], "TopicRemoved.time_ms is missing"),
    ],
)
def test_what_is_no_batch_is_refused(content: Any, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_batch(dump_cbor(content))
