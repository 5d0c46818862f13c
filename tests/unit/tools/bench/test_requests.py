import struct
from typing import Any

import pytest
from aiokafka.record.default_records import (  # pyright: ignore[reportMissingTypeStubs]
    DefaultRecordBatch,
)
from hypothesis import given
from hypothesis import strategies as st

from quorate.tools.bench.requests import (
    error_code,
    produce_request,
    record_batch,
    varint,
)


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_are_those_of_records(value: int) -> None:
    decoded = 0
    for shift, byte in enumerate(varint(value)):
        decoded |= (byte & 0x7F) << (7 * shift)
    assert (decoded >> 1) ^ -(decoded & 1) == value


@pytest.mark.parametrize(("count", "value_bytes"), [(1, 100), (150, 100), (1000, 1000)])
def test_another_implementation_reads_the_batch(count: int, value_bytes: int) -> None:
    batch: Any = DefaultRecordBatch(record_batch(count, value_bytes, seed=1))
    assert batch.validate_crc()
    records = list(batch)
    assert [record.offset for record in records] == list(range(count))
    assert {len(record.value) for record in records} == {value_bytes}


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert record_batch(3, 10, seed=1) == record_batch(3, 10, seed=1)
    assert record_batch(3, 10, seed=1) != record_batch(3, 10, seed=2)


def answer_with(codes: list[int], topic: bytes) -> bytes:
    body = struct.pack(">ii", 1, 1) + struct.pack(">h", len(topic)) + topic
    body += struct.pack(">i", len(codes))
    for partition, code in enumerate(codes):
        body += struct.pack(">ihqqq", partition, code, 7, -1, 0)
    body += struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6))
def test_the_first_error_of_an_answer_is_found(codes: list[int]) -> None:
    request = produce_request("orders", partitions=len(codes), records=2, value_bytes=10, acks=1)
    assert request.records == 2 * len(codes)
    expected = next((code for code in codes if code), 0)
    assert error_code(request, answer_with(codes, b"orders")) == expected


def test_an_answer_that_is_too_short_is_none() -> None:
    request = produce_request("orders", partitions=1, records=1, value_bytes=10, acks=1)
    assert error_code(request, b"\0\0\0\4\0\0\0\1") == -1


def test_the_frame_says_how_long_it_is() -> None:
    frame = produce_request("orders", partitions=6, records=2, value_bytes=10, acks=1).frame
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
