"""Bytes that are written directly are those that the encoder would have written."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.control.codec import Key, dump_cbor, encode_fields
from quorate.control.direct import dumper_of
from quorate.control.frames import LENGTH_BYTES, MESSAGES, Frame, encode_frame
from quorate.model import Endpoint

INT64 = st.integers(-(2**63), 2**63 - 1)
st.register_type_strategy(int, INT64)
st.register_type_strategy(
    Endpoint, st.builds(Endpoint, host=st.text(max_size=9), port=st.integers(0, 65535))
)

MESSAGE: Any = st.one_of(
    *(st.builds(cls, **{field.name: ... for field in fields(cls)}) for cls in MESSAGES.values())
)


class Colour(IntEnum):
    RED = 1
    GREEN = 2


@dataclass(frozen=True, slots=True)
class Inner:
    number: Annotated[int, Key(1)]
    text: Annotated[str, Key(2)] = ""


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Annotated[Inner, Key(300)]
    colour: Annotated[Colour, Key(3)]
    share: Annotated[float, Key(8)]
    where: Annotated[Endpoint | None, Key(9)]
    many: Annotated[tuple[Inner, ...], Key(4)] = ()
    table: Annotated[Mapping[str, Endpoint] | None, Key(5)] = None
    flag: Annotated[bool, Key(6)] = False
    raw: Annotated[bytes, Key(7)] = b""
    numbers: Annotated[tuple[int, ...], Key(10)] = ()


def encoded(value: Any) -> bytes:
    return dump_cbor(encode_fields(value))


@settings(max_examples=300)
@given(MESSAGE, INT64, st.binary(max_size=32), st.integers(0, 2**63 - 1))
def test_a_frame_is_what_the_encoder_makes_of_it(
    message: Any, correlation_id: int, request_id: bytes, timeout_ms: int
) -> None:
    number = next(number for number, cls in MESSAGES.items() if cls is type(message))
    envelope: dict[int, Any] = {1: number, 2: correlation_id, 3: encode_fields(message)}
    envelope |= {4: request_id} if request_id else {}
    envelope |= {5: timeout_ms} if timeout_ms else {}
    frame = encode_frame(Frame(correlation_id, message, request_id, timeout_ms))
    assert frame[LENGTH_BYTES:] == dump_cbor(envelope)


def test_lengths_and_numbers_of_all_sizes_are_written_as_the_encoder_does() -> None:
    dump = dumper_of(Outer)
    for size in (0, 1, 23, 24, 255, 256, 70_000):
        inner = Inner(size, "é" * (size // 2) + "x" * (size % 2))
        value = Outer(
            inner,
            Colour.GREEN,
            0.5,
            Endpoint("h", 1) if size else None,
            many=(Inner(-size),) * size,
            raw=b"b" * size,
            flag=bool(size),
            numbers=(size,) * size,
        )
        assert dump(value) == encoded(value)
