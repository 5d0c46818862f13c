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
    decode_batch,
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
