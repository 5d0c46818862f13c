import gzip

import cramjam
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.errors import CorruptRecordError, UnsupportedCompressionTypeError
from quorate.records import compression
from quorate.records.compression import MEMBERS_MAX, Codec, codec_named, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LINES = b"".join(b'{"level":"INFO","message":"request %d served"}\n' % i for i in range(5_000))


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=2_000), times=st.integers(1, 60))
def test_what_was_compressed_comes_back(codec: Codec, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data), bytes_max=len(data)) == data


@pytest.mark.parametrize(
    ("codec", "little", "much"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, -1000, 22)]
)
def test_who_tries_harder_stores_less(codec: Codec, little: int, much: int) -> None:
    loose, tight = compress(codec, LINES, little), compress(codec, LINES, much)
    assert len(tight) < len(loose)
    for packed in (loose, tight):
        assert decompress(codec, packed, bytes_max=len(LINES)) == LINES


@pytest.mark.parametrize("codec", list(Codec))
def test_more_than_the_limit_is_refused_and_exactly_the_limit_is_not(codec: Codec) -> None:
    packed = compress(codec, LINES)
    assert decompress(codec, packed, bytes_max=len(LINES)) == LINES
    with pytest.raises(CorruptRecordError, match="decompress to over"):
        decompress(codec, packed, bytes_max=len(LINES) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_small_bomb_fills_no_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    with pytest.raises(CorruptRecordError):
        decompress(codec, bomb, bytes_max=100_000)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(junk=st.binary(max_size=200))
def test_junk_is_refused_with_the_one_error_or_decoded_within_the_limit(
    codec: Codec, junk: bytes
) -> None:
    try:
        decoded = decompress(codec, junk, bytes_max=10_000)
    except CorruptRecordError:
        return
    assert len(decoded) <= 10_000


def ends_of_blocks(packed: bytes) -> list[int]:
    """Return where the header of snappy records ends, and each of their blocks."""
    ends = [len(compression.XERIAL_HEADER)]
    while ends[-1] < len(packed):
        size = packed[ends[-1] : ends[-1] + 4]
        ends.append(ends[-1] + 4 + int.from_bytes(size, "big"))
    return ends


@pytest.mark.parametrize("codec", COMPRESSING)
@given(cut=st.floats(0, 0.99))
def test_cut_off_data_is_refused(codec: Codec, cut: float) -> None:
    packed = compress(codec, LINES)
    left = packed[: int(len(packed) * cut)]
    # Between two of its blocks snappy does not tell: there are fewer records than the batch says.
    assume(codec is not Codec.SNAPPY or len(left) not in ends_of_blocks(packed))
    with pytest.raises(CorruptRecordError):
        decompress(codec, left, bytes_max=len(LINES))


@pytest.mark.parametrize("size_bytes", [8, 15])
def test_a_snappy_header_that_is_cut_off_is_refused(size_bytes: int) -> None:
    with pytest.raises(CorruptRecordError, match="cut off"):
        decompress(Codec.SNAPPY, compression.XERIAL_HEADER[:size_bytes], bytes_max=100)


def test_lz4_blocks_do_not_depend_on_each_other_as_java_demands() -> None:
    flags = compress(Codec.LZ4, LINES)[4]
    assert flags >> 5 & 1 == 1


def test_snappy_is_written_in_the_framing_of_the_java_library_and_read_without_it_too() -> None:
    assert compress(Codec.SNAPPY, LINES).startswith(compression.XERIAL_HEADER)
    raw = bytes(cramjam.snappy.compress_raw(LINES))
    assert decompress(Codec.SNAPPY, raw, bytes_max=len(LINES)) == LINES


def test_a_snappy_length_that_promises_gigabytes_is_refused_before_allocating() -> None:
    promise = b"\xff\xff\xff\xff\x0f" + bytes(10)
    with pytest.raises(CorruptRecordError):
        decompress(Codec.SNAPPY, promise, bytes_max=1_000_000)


@pytest.mark.parametrize(
    "block", [b"\x00\x00\x00\x00", b"\x00\x00\x00\x09abc", b"\xff\xff\xff\xff"]
)
def test_snappy_blocks_that_do_not_fit_are_refused(block: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="does not fit"):
        decompress(Codec.SNAPPY, compression.XERIAL_HEADER + block, bytes_max=100)


def test_all_members_of_a_gzip_are_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"b"), bytes_max=9) == b"ab"


def test_the_limit_counts_all_members_of_a_gzip_together() -> None:
    members = gzip.compress(b"aa") + gzip.compress(b"bb")
    with pytest.raises(CorruptRecordError):
        decompress(Codec.GZIP, members, bytes_max=3)


def test_a_gzip_of_very_many_members_is_refused() -> None:
    member = gzip.compress(b"")
    assert decompress(Codec.GZIP, member * MEMBERS_MAX, bytes_max=9) == b""
    with pytest.raises(CorruptRecordError, match="more than 1000 parts"):
        decompress(Codec.GZIP, member * (MEMBERS_MAX + 1), bytes_max=9)


def test_a_buffer_that_was_guessed_too_small_grows() -> None:
    data = bytes(3_000_000)
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, data), bytes_max=1 << 30) == data


def test_numbers_and_names_of_no_codec_are_refused() -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match="codec 5"):
        decompress(5, b"", bytes_max=10)
    with pytest.raises(UnsupportedCompressionTypeError, match=r"'brotli'.*zstd"):
        codec_named("brotli")


def test_codecs_have_the_names_of_kafka() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [codec_named(name) for name in names] == list(Codec)
