"""CBOR with limits, and dataclasses as maps with integer keys."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.control.codec import (
    DEPTH_MAX,
    DecodeError,
    Key,
    decode_fields,
    dump_cbor,
    encode_fields,
    load_cbor,
)
from quorate.model import Endpoint


class Colour(IntEnum):
    RED = 1
    GREEN = 2


@dataclass(frozen=True, slots=True)
class Inner:
    number: Annotated[int, Key(1)]


@dataclass(frozen=True, slots=True)
class Outer:
    name: Annotated[str, Key(1)]
    inner: Annotated[Inner, Key(2)]
    colour: Annotated[Colour, Key(3)] = Colour.RED
    many: Annotated[tuple[Inner, ...], Key(4)] = ()
    table: Annotated[Mapping[str, Endpoint] | None, Key(5)] = None
    flag: Annotated[bool, Key(6)] = False
    raw: Annotated[bytes, Key(7)] = b""
    share: Annotated[float, Key(8)] = 0.0
    numbers: Annotated[tuple[int, ...], Key(9)] = ()
    words: Annotated[Mapping[int, str] | None, Key(10)] = None


FULL = Outer(
    name="n",
    inner=Inner(2**63 - 1),
    colour=Colour.GREEN,
    many=(Inner(-(2**63)), Inner(0)),
    table={"A": Endpoint("h", 65535)},
    flag=True,
    raw=b"\x00",
    share=0.5,
    numbers=(2**63 - 1, -1),
    words={1: "one"},
)


def test_a_dataclass_comes_back_as_it_went() -> None:
    assert decode_fields(Outer, load_cbor(dump_cbor(encode_fields(FULL)))) == FULL


def test_fields_that_hold_their_default_are_not_sent() -> None:
    assert encode_fields(Outer("n", Inner(1))) == {1: "n", 2: {1: 1}}


def test_absent_fields_get_their_default_and_unknown_ones_are_ignored() -> None:
    assert decode_fields(Outer, {1: "n", 2: {1: 1, 9: "later"}, 99: [], "x": 1}) == Outer(
        "n", Inner(1)
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "expected dict"),
        ({2: {1: 1}}, "Outer.name is missing"),
        ({1: 1, 2: {1: 1}}, "expected str, got int"),
        ({1: "n", 2: {1: True}}, "expected a 64-bit integer"),
        ({1: "n", 2: {1: 2**63}}, "expected a 64-bit integer"),
        ({1: "n", 2: {1: 1}, 3: 7}, "7 is no Colour"),
        ({1: "n", 2: {1: 1}, 4: {}}, "expected list"),
        ({1: "n", 2: {1: 1}, 5: []}, "expected dict"),
        ({1: "n", 2: {1: 1}, 5: {"A": ["h", 65536]}}, "expected \\[host, port\\]"),
        ({1: "n", 2: {1: 1}, 6: 1}, "expected bool"),
        ({1: "n", 2: {1: 1}, 7: "x"}, "expected bytes"),
        ({1: "n", 2: {1: 1}, 8: 1}, "expected a finite float"),
        ({1: "n", 2: {1: 1}, 8: math.nan}, "expected a finite float"),
        ({1: "n", 2: {1: 1}, 9: [1, True]}, "expected a 64-bit integer"),
        ({1: "n", 2: {1: 1}, 9: [2**63]}, "expected a 64-bit integer"),
        ({1: "n", 2: {1: 1}, 10: {True: "x"}}, "expected a 64-bit integer"),
        ({1: "n", 2: {1: 1}, 10: {1: b"x"}}, "expected str"),
    ],
)
def test_what_does_not_fit_is_refused(body: Any, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_fields(Outer, body)


@pytest.mark.parametrize(
    "value",
    [
        cbor2.CBORTag(0, "2020-01-01T00:00:00Z"),
        cbor2.CBORTag(35, "(a+)+$"),
        cbor2.CBORTag(4, [2**31 - 1, 1]),
        cbor2.CBORTag(99999, 1),
        2**70,
    ],
)
def test_tags_are_refused(value: Any) -> None:
    with pytest.raises(DecodeError):
        load_cbor(cbor2.dumps(value))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",  # two values
        b"\x81" * (DEPTH_MAX + 1) + b"\x00",
        b"\x9f\xff",  # indefinite length
        b"\xa2\x01\x01\x01\x02",  # one key twice
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",  # more elements than there is memory
        b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff\x00",
        b"\x61\xff",  # not UTF-8
        b"\x1c",  # reserved
    ],
)
def test_bad_cbor_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        load_cbor(data)


@given(st.binary(max_size=64))
def test_random_bytes_are_a_value_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        value = load_cbor(data)
        decode_fields(Outer, value)


def test_what_a_class_itself_refuses_is_a_decode_error() -> None:
    @dataclass(frozen=True, slots=True)
    class Picky:
        number: Annotated[int, Key(1)]

        def __post_init__(self) -> None:
            assert self.number > 0, "positive"

    with pytest.raises(DecodeError, match="positive"):
        decode_fields(Picky, {1: 0})
