"""Bytes of records and snapshots."""

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
    decode_image,
    decode_record,
    encode_image,
    encode_record,
)
from quorate.quorum.metadata.image import EMPTY_IMAGE, apply_records

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


def test_a_snapshot_comes_back_as_it_went() -> None:
    image = apply_records(
        EMPTY_IMAGE,
        7,
        [
            r.ClusterFormatted("c", 1, "x"),
            r.TopicCreated("c", 1, "t", b"i" * 16),
            r.PartitionCreated("c", 1, b"i" * 16, 0, (1,), (1,), 1, 3, 4),
            r.ConfigSet("c", 1, "topic", "t", "k", "v"),
            r.ProducerIdsAllocated("c", 1, 1, 1, 1000),
        ],
    )
    assert decode_image(encode_image(image)) == image
    assert decode_image(encode_image(EMPTY_IMAGE)) == EMPTY_IMAGE


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([2, 7, [1]], "unknown snapshot format 2"),
        ([1], "not a metadata snapshot"),
        ({1: 1}, "expected list"),
        ([1, 7, [{0: 21, 1: "c", 2: 1, 3: b"i"}]], "contradicts itself"),
        ([1, 7, 7], "expected list"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: Any, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_image(dump_cbor(content))
