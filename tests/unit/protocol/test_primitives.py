"""Varints and tag sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.primitives import DecodeError, read_uvarint, skip_tags, uvarint


@given(st.integers(0, 2**35 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varints_are_read_as_they_were_written(value: int, before: bytes, after: bytes) -> None:
    encoded = uvarint(value)
    expected = (value, len(before) + len(encoded))
    assert read_uvarint(before + encoded + after, len(before)) == expected


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001")]
)
def test_varints_take_seven_bits_per_byte_least_significant_first(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded


def test_negative_numbers_are_no_unsigned_varints() -> None:
    with pytest.raises(AssertionError):
        uvarint(-1)


def test_a_varint_has_at_most_five_bytes() -> None:
    with pytest.raises(DecodeError, match="more than 5 bytes"):
        read_uvarint(b"\xff" * 100_000, 0)


def test_a_varint_that_ends_early_is_an_index_error_for_the_caller_to_convert() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80", 0)


def test_tag_sections_are_skipped_with_all_they_hold() -> None:
    section = b"\x02" + b"\x00\x03abc" + uvarint(1000) + b"\x00"
    assert skip_tags(b"before" + section + b"after", 6, 6 + len(section)) == 6 + len(section)


def test_a_tag_longer_than_its_section_is_refused() -> None:
    with pytest.raises(DecodeError, match="longer than what holds it"):
        skip_tags(b"\x01\x00\x04abc", 0, 6)
