"""Batch headers: parsed, checked, patched in place; checksums."""

from importlib.util import find_spec
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import CorruptRecordError, InvalidRecordError, KafkaError
from quorate.records import batch as batch_module
from quorate.records.batch import (
    HEADER,
    HEADER_BYTES,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    BatchHeader,
    add_sequence,
    assign_append_time,
    assign_offset,
    assign_offset_in_python,
    check_header,
    crc_matches,
    is_behind,
    parse_header,
    read_sound_header,
)
from quorate.records.checksum import crc32c, crc32c_of_bytes, extend_crc32c
from quorate.records.compiled import load_compiled
from quorate.records.slices import FileSlice

HEADERS = st.builds(
    BatchHeader,
    base_offset=st.integers(0, 2**62),
    batch_length=st.integers(-(2**31), 2**31 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    magic=st.integers(-128, 127),
    crc=st.integers(0, 2**32 - 1),
    attributes=st.integers(0, 2**15 - 1),
    last_offset_delta=st.integers(-(2**31), 2**31 - 1),
    base_timestamp_ms=st.integers(-(2**63), 2**63 - 1),
    max_timestamp_ms=st.integers(-(2**63), 2**63 - 1),
    producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
    record_count=st.integers(-(2**31), 2**31 - 1),
)


def header_of(**changes: int) -> BatchHeader:
    plain = BatchHeader(7, HEADER_BYTES + 88, 3, 2, 0, 0, 4, 1000, 2000, -1, -1, -1, 5)
    return plain._replace(**changes)


def batch_of(header: BatchHeader) -> bytearray:
    return bytearray(HEADER.pack(*header)) + bytes(header.size_bytes - HEADER_BYTES)


@given(HEADERS, st.binary(max_size=10))
def test_a_header_is_read_back_as_it_was_packed_wherever_it_stands(
    header: BatchHeader, before: bytes
) -> None:
    assert parse_header(before + HEADER.pack(*header), len(before)) == header


@pytest.mark.parametrize("size_bytes", [0, 1, HEADER_BYTES - 1])
def test_too_few_bytes_for_a_header_are_corrupt(size_bytes: int) -> None:
    with pytest.raises(CorruptRecordError):
        parse_header(bytes(size_bytes), 0)


def test_derived_fields_follow_from_the_header() -> None:
    header = header_of(attributes=0x08 | 0x10 | 0x20 | 4, producer_id=9, base_sequence=SEQUENCE_MAX)

    assert header.size_bytes == HEADER_BYTES + 100
    assert header.last_offset == 11
    assert header.next_offset == 12
    assert header.compression == 4
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.is_control
    assert header.has_producer_id
    assert header.last_sequence == 3


def test_a_plain_batch_has_no_producer_and_no_sequence() -> None:
    header = header_of()

    assert not header.has_producer_id
    assert header.last_sequence == NO_SEQUENCE
    assert not header.is_log_append_time
    assert not header.is_transactional
    assert not header.is_control


def test_after_the_largest_sequence_comes_zero() -> None:
    assert add_sequence(SEQUENCE_MAX, 1) == 0
    assert add_sequence(SEQUENCE_MAX - 1, 1) == SEQUENCE_MAX
    assert add_sequence(5, 7) == 12


def test_which_of_two_sequences_is_behind_the_other() -> None:
    for sequence, next_one in ((0, 1), (5, 2**30), (SEQUENCE_MAX, 0), (SEQUENCE_MAX - 3, 2)):
        assert is_behind(next_one, sequence)
        assert not is_behind(sequence, next_one)
        assert not is_behind(sequence, sequence)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_record_formats_are_refused(magic: int) -> None:
    with pytest.raises(InvalidRecordError, match=f"magic {magic}"):
        check_header(header_of(magic=magic), 1000)


@pytest.mark.parametrize("batch_length", [-1, 0, HEADER_BYTES - 13, 1000 - 11])
def test_lengths_that_cannot_be_are_corrupt(batch_length: int) -> None:
    with pytest.raises(CorruptRecordError):
        check_header(header_of(batch_length=batch_length), 1000)


@pytest.mark.parametrize("changes", [{"last_offset_delta": -1}, {"record_count": -1}])
def test_negative_counts_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidRecordError):
        check_header(header_of(**changes), 1000)


def test_the_checksum_covers_attributes_to_end_and_neither_offset_nor_epoch() -> None:
    batch = memoryview(batch_of(header_of()))
    header = header_of(crc=crc32c(batch[21:]))
    HEADER.pack_into(batch, 0, *header)

    assign_offset(batch, 0, 123_456_789_012, 42)

    patched = parse_header(batch, 0)
    assert patched == header._replace(base_offset=123_456_789_012, leader_epoch=42)
    assert crc_matches(batch, 0, patched)
    batch[21] ^= 1
    assert not crc_matches(batch, 0, patched)


def test_append_time_is_written_with_a_new_checksum() -> None:
    batch = memoryview(batch_of(header_of()))

    assign_append_time(batch, 0, header_of(), 5000)

    dated = parse_header(batch, 0)
    assert dated.is_log_append_time
    assert dated.max_timestamp_ms == 5000
    assert dated.base_timestamp_ms == 1000
    assert crc_matches(batch, 0, dated)


# --- batches that are whole

COMPILED = load_compiled("_batch")
TWINS = [pytest.param(None, id="in Python")]
if COMPILED is not None:
    TWINS.append(pytest.param(COMPILED, id="compiled"))


def sealed(header: BatchHeader, records: bytes) -> bytearray:
    """A batch that agrees with itself, whatever the header's other fields say."""
    found = bytearray(HEADER.pack(*header._replace(batch_length=HEADER_BYTES - 12 + len(records))))
    found += records
    found[17:21] = crc32c(memoryview(found)[21:]).to_bytes(4, "big")
    return found


def sound_header(twin: Any, buffer: memoryview, pos: int) -> BatchHeader | KafkaError:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_module, "_batch", twin)
        try:
            return read_sound_header(buffer, pos)
        except KafkaError as error:
            return error


@pytest.mark.parametrize("twin", TWINS)
@given(header=HEADERS, records=st.binary(max_size=50), before=st.binary(max_size=9))
def test_a_batch_that_agrees_with_itself_is_sound(
    twin: Any, header: BatchHeader, records: bytes, before: bytes
) -> None:
    counted = header._replace(
        magic=2,
        last_offset_delta=header.last_offset_delta & 0x7FFFFFFF,
        record_count=header.record_count & 0x7FFFFFFF,
    )
    buffer = memoryview(bytes(before) + sealed(counted, records) + b"the next")
    assert sound_header(twin, buffer, len(before)) == parse_header(buffer, len(before))


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("at", range(8, HEADER_BYTES + 4))
def test_every_damaged_byte_behind_the_offset_is_noticed_but_those_of_the_epoch(
    twin: Any, at: int
) -> None:
    batch = sealed(header_of(), b"four")
    batch[at] ^= 1
    is_epoch = 12 <= at < 16
    assert isinstance(sound_header(twin, memoryview(batch), 0), BatchHeader) == is_epoch


@pytest.mark.skipif(COMPILED is None, reason="not compiled here")
@given(
    header=HEADERS,
    records=st.binary(max_size=50),
    damage=st.lists(st.tuples(st.integers(0, 110), st.integers(0, 255)), max_size=2),
    pos=st.integers(0, 3),
    end=st.integers(0, 120),
)
def test_compiled_code_finds_sound_what_its_twin_does(
    header: BatchHeader, records: bytes, damage: list[tuple[int, int]], pos: int, end: int
) -> None:
    batch = sealed(header._replace(magic=2), records)
    for at, value in damage:
        if at < len(batch):
            batch[at] = value
    buffer = memoryview(bytearray(3) + batch)[: 3 + end]
    compiled, python = sound_header(COMPILED, buffer, pos), sound_header(None, buffer, pos)
    assert (type(compiled), str(compiled)) == (type(python), str(python))
    found = COMPILED.sound_header(buffer, pos, BatchHeader)
    assert found == (python if isinstance(python, BatchHeader) else None)


@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(-(2**31), 2**31 - 1),
    pos=st.integers(0, 9),
)
def test_both_twins_assign_offset_and_epoch(offset: int, epoch: int, pos: int) -> None:
    buffers = [bytearray(9) + batch_of(header_of()) for _ in range(2)]
    assign_offset(buffers[0], pos, offset, epoch)
    assign_offset_in_python(memoryview(buffers[1]), pos, offset, epoch)
    assert buffers[0] == buffers[1]
    header = parse_header(buffers[0], pos)
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)


@pytest.mark.skipif(COMPILED is None, reason="not compiled here")
def test_compiled_code_writes_nowhere_but_into_a_batch() -> None:
    batch = bytearray(HEADER_BYTES)
    for pos, offset, epoch in [(1, 0, 0), (-1, 0, 0), (2**62, 0, 0), (0, 0, 2**31)]:
        with pytest.raises(ValueError, match="no batch"):
            COMPILED.assign_offset(batch, pos, offset, epoch)
    for arguments in [(2**70, 0, 0), (0, 2**63, 0), (0, 0, 2**70)]:
        with pytest.raises(OverflowError):
            COMPILED.assign_offset(batch, *arguments)
    for wrong in [(), (batch, 0, 0), (batch, "0", 0, 0), ("text", 0, 0, 0)]:
        with pytest.raises(TypeError):
            COMPILED.assign_offset(*wrong)
    with pytest.raises(BufferError):
        COMPILED.assign_offset(bytes(HEADER_BYTES), 0, 0, 0)
    assert batch == bytes(HEADER_BYTES)


@pytest.mark.skipif(COMPILED is None, reason="not compiled here")
def test_compiled_code_refuses_what_would_harm_it() -> None:
    batch = memoryview(sealed(header_of(), b""))
    for arguments in [(), (batch, 0), (batch, 0, dict), (batch, 0, 7), (batch, "0", BatchHeader)]:
        with pytest.raises(TypeError):
            COMPILED.sound_header(*arguments)
    for no_buffer in ("text", batch[::2]):
        with pytest.raises((TypeError, BufferError)):
            COMPILED.sound_header(no_buffer, 0, BatchHeader)
    with pytest.raises(OverflowError):
        COMPILED.sound_header(batch, 2**70, BatchHeader)
    for pos in (-1, len(batch), len(batch) + 1, 2**62):
        assert COMPILED.sound_header(batch, pos, BatchHeader) is None


@pytest.mark.parametrize(("setting", "is_wanted"), [("1", False), ("0", True)])
def test_the_environment_can_turn_compiled_checks_off(
    setting: str, is_wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUORATE_PURE_PYTHON", setting)
    there = find_spec("quorate.records._batch") is not None
    assert (load_compiled("_batch") is not None) == (is_wanted and there)


# --- checksums


@given(st.binary(), st.binary())
def test_a_checksum_can_be_extended_chunk_by_chunk(head: bytes, tail: bytes) -> None:
    assert extend_crc32c(crc32c(head), tail) == crc32c(head + tail)
    assert crc32c(bytearray(head)) == crc32c(memoryview(head)) == crc32c(head)


@pytest.mark.parametrize("of_buffer", [crc32c, crc32c_of_bytes])
def test_the_checksum_is_castagnoli(of_buffer: Any) -> None:
    assert of_buffer(b"123456789") == 0xE3069283
    assert of_buffer(b"") == 0


@pytest.mark.parametrize(
    "size_bytes", [1, 7, 8, 767, 768, 769, 12_287, 12_288, 12_289, 25_344, 100_000]
)
def test_a_checksum_is_the_same_however_it_is_worked_out(size_bytes: int) -> None:
    buffer = memoryview(Random(size_bytes).randbytes(size_bytes + 1))
    for start in (0, 1):
        assert crc32c(buffer[start:]) == crc32c_of_bytes(buffer[start:])


def test_a_slice_is_as_long_as_its_bytes_and_keeps_its_file() -> None:
    owner = object()
    taken = FileSlice(3, 100, 7, owner)

    assert len(taken) == 7
    assert taken.owner is owner
    assert repr(taken) == "FileSlice(fd=3, position=100, size_bytes=7)"
