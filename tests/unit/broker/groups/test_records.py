"""Records of groups: Kafka's bytes, in all versions that were ever written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.records import (
    GROUP_METADATA_VERSION,
    NO_EXPIRY,
    Committed,
    GroupMetadataValue,
    KeyType,
    MemberMetadata,
    OffsetKey,
    names_key,
    offset_key,
    offset_prefix,
    offset_value,
    read_names,
    read_offset_key,
    read_offset_value,
)
from quorate.broker.shards.formats import decode_value, encode_value, leading_number
from quorate.errors import CorruptRecordError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LONGS = st.integers(-(2**63), 2**63 - 1)


@given(TEXTS, TEXTS, st.integers(0, 2**31 - 1))
def test_the_key_of_an_offset_is_read_as_it_was_written(group: str, topic: str, n: int) -> None:
    key = offset_key(offset_prefix(group, topic), n)
    assert leading_number(key) == KeyType.OFFSET_COMMIT
    assert read_offset_key(key) == OffsetKey(group, topic, n)


@given(LONGS, st.integers(-1, 2**31 - 1), TEXTS, LONGS)
def test_an_offset_is_read_as_it_was_written(offset: int, epoch: int, text: str, at: int) -> None:
    committed = Committed(offset, epoch, text, at, NO_EXPIRY)
    assert read_offset_value(offset_value(committed)) == committed


def test_only_what_expires_at_a_time_of_its_own_is_written_without_an_epoch() -> None:
    written = offset_value(Committed(5, 3, "m", 1000, 2000))
    assert written[:2] == b"\0\1"
    assert read_offset_value(written) == Committed(5, -1, "m", 1000, 2000)


def test_offsets_are_the_bytes_that_kafka_writes() -> None:
    key = offset_key(offset_prefix("g", "top"), 7)
    assert key == b"\0\1" + b"\0\1g" + b"\0\3top" + b"\0\0\0\7"
    value = offset_value(Committed(258, 4, "hi", 1, NO_EXPIRY))
    assert value == b"\0\3" + b"\0\0\0\0\0\0\1\2" + b"\0\0\0\4" + b"\0\2hi" + b"\0" * 7 + b"\1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\0\0" + b"\0" * 7 + b"\5" + b"\0\0" + b"\0" * 7 + b"\1", Committed(5, -1, "", 1, -1)),
        (b"\0\2" + b"\0" * 7 + b"\5" + b"\0\1m" + b"\0" * 7 + b"\1", Committed(5, -1, "m", 1, -1)),
        (
            b"\0\4" + b"\0" * 7 + b"\5" + b"\0\0\0\2" + b"\2m" + b"\0" * 7 + b"\1" + b"\0",
            Committed(5, 2, "m", 1, -1),
        ),
    ],
    ids=["version 0", "version 2", "version 4"],
)
def test_other_versions_of_offsets_are_read(value: bytes, expected: Committed) -> None:
    assert read_offset_value(value) == expected


@pytest.mark.parametrize(
    "key",
    [
        b"\0\1",
        b"\0\1\0",
        b"\0\1\0\1g",
        b"\0\1\0\5g",
        b"\0\1\xff\xffg",
        b"\0\1\xff\xfe\0\0",
        b"\0\1\0\1g\0\1t\0\0\0",
        b"\0\1\0\1g\0\1t\0\0\0\0\0",
        b"\0\1\0\1\xff\0\1t\0\0\0\0",
    ],
)
def test_what_is_no_key_of_an_offset_is_refused(key: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        read_offset_key(key)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\3",
        b"\0\x09" + b"\0" * 40,
        b"\0\3" + b"\0" * 12 + b"\0\5" + b"abc",
        b"\0\3" + b"\0" * 12 + b"\0\1\xff" + b"\0" * 8,
    ],
)
def test_what_is_no_offset_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        read_offset_value(value)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_names_in_keys_are_read_as_they_were_written(names: list[str]) -> None:
    key = names_key(KeyType.GROUP_METADATA, *names)
    assert read_names(key, len(names)) == tuple(names)


def test_a_key_with_something_behind_its_names_is_refused() -> None:
    with pytest.raises(CorruptRecordError):
        read_names(names_key(KeyType.GROUP_METADATA, "a", "b"), 1)
    with pytest.raises(CorruptRecordError):
        leading_number(b"\0")


@pytest.mark.parametrize("version", range(5))
def test_a_generation_is_read_in_every_version(version: int) -> None:
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=5 if version >= 1 else 0,
        session_timeout=6,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp=9 if version >= 2 else -1,
        members=[member],
    )
    assert decode_value(GroupMetadataValue, encode_value(value, version)) == value
    assert version <= GROUP_METADATA_VERSION + 1


def test_a_generation_of_a_later_time_or_of_none_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="no version 5"):
        decode_value(GroupMetadataValue, b"\0\5")
    with pytest.raises(CorruptRecordError):
        decode_value(GroupMetadataValue, b"\0\3\0\x09")
