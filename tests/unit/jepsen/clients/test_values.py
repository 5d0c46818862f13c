"""Values are unique, and known again only if no byte of them changed."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.jepsen.clients.values import DAMAGED, decode, encode, key_of, parts_of, value_of

numbers = st.integers(0, 2**32 - 1)


@given(numbers, numbers, st.integers(0, 300))
def test_a_value_is_what_its_bytes_say(producer: int, number: int, size_bytes: int) -> None:
    value = value_of(producer, number)
    assert decode(encode(value, size_bytes)) == value
    assert parts_of(value) == (producer, number)


@given(st.integers(0, 99), st.integers(1, 255))
def test_no_byte_may_change(place: int, change: int) -> None:
    data = bytearray(encode(value_of(12, 345)))
    data[place] ^= change
    assert decode(bytes(data)) != value_of(12, 345)


def test_what_nobody_sent_is_damaged() -> None:
    for data in (None, b"", b"7", b"7 8", b"7 8 y", b"-7 8 x", b"seven 8 x", b"07 8 x"):
        assert decode(data) == DAMAGED


def test_keys_are_those_of_one_producer() -> None:
    assert key_of(value_of(7, 13), 10) == b"7-3"
