"""Batches get another codec without any other change, and only if they need one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import (
    CorruptRecordError,
    InvalidRecordError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from quorate.model import TopicPartition
from quorate.records.batch import crc_matches, parse_header, sum_up
from quorate.records.compression import Codec
from quorate.records.recompress import recompressed
from quorate.records.record import ProducerStamp, read_records
from tests.unit.broker.log.batches import headers_of, join, make_batch

NOWHERE = TopicPartition("t", 0)
COUNT_AT = 57
CRC_AT = 17
ANY = 1 << 30


def values(batch: bytes) -> list[bytes | None]:
    header = parse_header(batch, 0)
    return [r.value for r in read_records(batch, header, NOWHERE, bytes_max=1 << 20)]


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=5),
    st.sampled_from(Codec),
    st.sampled_from(Codec),
)
def test_records_and_header_stay_what_they_were(
    given_values: list[bytes], before: Codec, after: Codec
) -> None:
    stamp = ProducerStamp(7, 2, 11)
    times = list(range(1000, 1000 + len(given_values)))
    batch = make_batch(given_values, timestamps_ms=times, codec=before, producer=stamp)
    old = parse_header(batch, 0)
    result = recompressed(batch, after, ANY)
    (new,) = headers_of(bytes(result))
    assert new == old._replace(
        attributes=old.attributes & ~7 | after, batch_length=new.batch_length, crc=new.crc
    )
    assert crc_matches(result, 0, new)
    assert values(bytes(result)) == given_values
    assert not result.readonly, "offsets are filled in later"


def test_a_batch_that_has_the_codec_is_not_copied() -> None:
    batch = make_batch([b"a"], codec=Codec.LZ4)
    assert recompressed(batch, Codec.LZ4, ANY) is batch


def test_damage_is_found_before_a_new_checksum_hides_it() -> None:
    batch = make_batch([b"a"])
    batch[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        recompressed(batch, Codec.ZSTD, ANY)
    with pytest.raises(CorruptRecordError):
        recompressed(make_batch([b"a"])[:-1], Codec.ZSTD, ANY)
    batch = make_batch([b"a", b"b"])
    batch[COUNT_AT] ^= 1  # to be sent again, and not what its producer wrote
    with pytest.raises(CorruptRecordError, match="checksum"):
        recompressed(batch, Codec.ZSTD, ANY)


def test_counts_that_contradict_are_found_before_a_new_header_hides_them() -> None:
    batch = make_batch([b"a", b"b"])
    struct.pack_into(">i", batch, COUNT_AT, 5)
    sum_up(batch, 0, len(batch))
    with pytest.raises(InvalidRecordError, match="5 records up to offset delta 1"):
        recompressed(batch, Codec.ZSTD, ANY)


def test_a_second_batch_is_not_taken_for_records_of_the_first() -> None:
    two = join([make_batch([b"a"]), make_batch([b"b"])])
    with pytest.raises(InvalidRecordError, match="not several"):
        recompressed(two, Codec.ZSTD, ANY)


def test_a_batch_is_as_large_as_it_came_whatever_it_would_become() -> None:
    batch = make_batch([bytes(1000)])
    assert len(recompressed(batch, Codec.ZSTD, len(batch))) < 200
    with pytest.raises(MessageTooLargeError, match=f"the limit is {len(batch) - 1}"):
        recompressed(batch, Codec.ZSTD, len(batch) - 1)


def test_an_unknown_codec_is_refused() -> None:
    batch = make_batch([b"a"])
    attributes = 6
    sealed = bytearray(make_batch([b"a"], attributes=attributes))
    assert parse_header(sealed, 0).compression == attributes
    with pytest.raises(UnsupportedCompressionTypeError):
        recompressed(memoryview(sealed), Codec.ZSTD, ANY)
    assert recompressed(batch, Codec.NONE, ANY) is batch
