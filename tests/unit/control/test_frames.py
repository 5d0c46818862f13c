"""Frames: every message comes back as it went, and bytes of others never do harm."""

import contextlib
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.control.codec import DecodeError, dump_cbor
from quorate.control.frames import (
    LENGTH_BYTES,
    MESSAGES,
    REQUEST_ID_BYTES_MAX,
    Frame,
    UnknownMessageError,
    decode_frame,
    encode_frame,
    frame_length,
)
from quorate.control.messages import Answer, DescribeQuorum, Request
from quorate.model import Endpoint

INT64 = st.integers(-(2**63), 2**63 - 1)
st.register_type_strategy(int, INT64)
st.register_type_strategy(
    Endpoint, st.builds(Endpoint, host=st.text(max_size=9), port=st.integers(0, 65535))
)


def messages() -> st.SearchStrategy[Any]:
    return st.one_of(
        *(st.builds(cls, **{field.name: ... for field in fields(cls)}) for cls in MESSAGES.values())
    )


@settings(max_examples=300)
@given(messages(), INT64, st.binary(max_size=REQUEST_ID_BYTES_MAX), st.integers(0, 2**63 - 1))
def test_every_message_comes_back_as_it_went(
    message: Any, correlation_id: int, request_id: bytes, timeout_ms: int
) -> None:
    frame = Frame(correlation_id, message, request_id, timeout_ms)
    data = encode_frame(frame)
    assert frame_length(data[:LENGTH_BYTES], len(data)) == len(data) - LENGTH_BYTES
    assert decode_frame(data[LENGTH_BYTES:]) == frame


@settings(max_examples=300)
@given(messages(), st.data())
def test_a_damaged_frame_is_a_frame_or_a_decode_error(message: Any, data: st.DataObject) -> None:
    body = bytearray(encode_frame(Frame(1, message))[LENGTH_BYTES:])
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (body, body[:cut]):
        with contextlib.suppress(DecodeError):
            decode_frame(damaged)


def test_requests_and_answers_are_numbered_in_pairs() -> None:
    for number, cls in MESSAGES.items():
        if issubclass(cls, Request):
            assert issubclass(MESSAGES[number + 1], Answer)
            assert MESSAGES[number + 1].__name__ == f"{cls.__name__}Answer"


def test_an_unknown_type_can_be_answered() -> None:
    with pytest.raises(UnknownMessageError) as caught:
        decode_frame(dump_cbor({1: 99, 2: 7, 3: {}}))
    assert caught.value.correlation_id == 7


@pytest.mark.parametrize(
    "body",
    [
        *({}, {1: 22}, {2: 1}, {1: "22", 2: 1}, {1: 22, 2: 1}, [], 1),
        *({1: 22, 2: 1, 3: {}, 4: "id"}, {1: 22, 2: 1, 3: {}, 4: bytes(33)}),
        *(
            {1: 22, 2: 1, 3: {}, 5: -1},
            {1: 22, 2: 1, 3: {}, 5: 2**63},
            {1: 22, 2: 1, 3: {}, 5: 1.0},
        ),
    ],
)
def test_what_is_not_an_envelope_is_refused(body: Any) -> None:
    with pytest.raises(DecodeError):
        decode_frame(dump_cbor(body))


@pytest.mark.parametrize("length", [0, 101])
def test_a_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(DecodeError, match="at most 100"):
        frame_length(length.to_bytes(LENGTH_BYTES, "big"), 100)


def test_a_request_without_fields_is_small() -> None:
    assert len(encode_frame(Frame(1, DescribeQuorum()))) < 16
