"""Records taken out of batches leave batches that anybody can read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.records.batch import (
    DELETE_HORIZON_BIT,
    crc_matches,
    parse_header,
)
from quorate.records.compacting import (
    empty_batch,
    is_empty_batch,
    place_records,
    unpacked,
    with_records,
    without_records,
)
from quorate.records.record import ProducerStamp, read_records
from tests.unit.broker.log.batches import NOW_MS, make_batch

HERE = TopicPartition("t", 0)
BIG = 1 << 20

ENTRIES = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=200)),
        st.one_of(st.none(), st.binary(max_size=9000)),
        st.integers(-(2**40), 2**40),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@given(
    ENTRIES,
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 2**42)),
    st.sampled_from([NOW_MS, 2**63 - 1, -(2**63)]),
)
def test_what_is_kept_is_what_it_was(
    entries: list[tuple[bytes | None, bytes | None, int, bool]],
    codec: int,
    horizon_ms: int | None,
    base_ms: int,
) -> None:
    batch = bytes(
        make_batch(
            [value for _, value, _, _ in entries],
            keys=[key for key, _, _, _ in entries],
            timestamps_ms=[NOW_MS + shift for _, _, shift, _ in entries],
            producer=ProducerStamp(5, 1, 77),
            codec=codec,
        )
    )
    # Strangers may let times overflow: all of us reckon modulo 2**64, as Java does.
    header = parse_header(batch, 0)._replace(base_timestamp_ms=base_ms)
    data = unpacked(batch, header, bytes_max=BIG)
    placed = place_records(data, header.record_count, header.last_offset_delta)
    before = read_records(batch, header, HERE, bytes_max=BIG)
    assert [(r.key, r.is_tombstone, r.offset_delta) for r in placed] == [
        (r.key, r.value is None, r.offset) for r in before
    ]
    chosen = [index for index, entry in enumerate(entries) if entry[3]]
    if not chosen:
        return
    kept = with_records(header, data, [placed[i] for i in chosen], delete_horizon_ms=horizon_ms)
    after = parse_header(kept, 0)
    assert crc_matches(memoryview(kept), 0, after)
    assert read_records(kept, after, HERE, bytes_max=BIG) == [before[i] for i in chosen]
    assert after.max_timestamp_ms == max(before[i].timestamp_ms for i in chosen)
    assert (after.base_offset, after.last_offset_delta) == (0, len(entries) - 1)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (5, 1, 77)
    assert bool(after.attributes & DELETE_HORIZON_BIT) == (horizon_ms is not None)
    assert after.base_timestamp_ms == (
        header.base_timestamp_ms if horizon_ms is None else horizon_ms
    )


def test_an_empty_batch_stands_for_its_offsets() -> None:
    batch = empty_batch(10, 2**31 + 9, 7)
    header = parse_header(batch, 0)
    assert crc_matches(memoryview(batch), 0, header)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (10, 2**31 + 9, 7)
    assert read_records(batch, header, HERE, bytes_max=BIG) == []
    assert is_empty_batch(header)


def test_a_batch_without_records_says_who_wrote_it() -> None:
    full = bytes(make_batch([b"1", b"2"], producer=ProducerStamp(5, 1, 77), codec=2))
    batch = without_records(parse_header(full, 0))
    header = parse_header(batch, 0)
    assert crc_matches(memoryview(batch), 0, header)
    assert (header.record_count, header.last_offset, header.last_sequence) == (0, 1, 78)
    assert not is_empty_batch(header)
    assert read_records(batch, header, HERE, bytes_max=BIG) == []


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 1),
        (b"\0" * 7, -1),
        (b"\x0e" + b"\0" * 6, 1),  # longer than the data
        (b"\x0b" + b"\0" * 7, 1),  # a negative length
        (b"\x0c\0\0\0\x01\x01\0\0", 1),  # bytes behind the record
        (b"\x0c\0\0\0\x01\x0c\0", 1),  # a value over the record's end
        (b"\x0c\0\0\0\x03\x01\0", 1),  # a key of negative length
        (b"\x0c\0\0\0\x01\x01\0" + b"\x80" * 7, 2),  # cut off within a number
        (b"\x0c\0\0\x01\x01\x01\0", 1),  # an offset before the batch
        (b"\x0c\0\0\x06\x01\x01\0", 1),  # an offset behind the batch
    ],
)
def test_what_is_no_record_is_refused(data: bytes, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        place_records(data, count, last_offset_delta=2)
