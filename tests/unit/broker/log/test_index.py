"""Index files: bisecting what is in the file and what is still in memory; what a crash leaves."""

import struct
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.log.files import OpenFiles
from quorate.broker.log.index import (
    FIRST,
    OFFSET_ENTRY,
    SECOND,
    TIME_ENTRY,
    Index,
    count_entries,
    count_sound_offset_entries,
    count_sound_time_entries,
)
from tests.simulation.disk import SimDisk

GAPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=40)


class Kind(NamedTuple):
    """An index of offsets or of times, and where its first column begins."""

    entry: struct.Struct
    begin: int

    def key(self, key: int, column: int) -> int:
        return key + self.begin if column == FIRST else key


OF_OFFSETS = Kind(OFFSET_ENTRY, 0)
OF_TIMES = Kind(TIME_ENTRY, 1_700_000_000_000)


def new_index(kind: Kind = OF_OFFSETS) -> tuple[Index, SimDisk]:
    disk = SimDisk(Random(0))
    disk.open("/x.index", create=True)
    return Index(OpenFiles(disk, 4), "/x.index", kind.entry, count=0), disk


def entries_of(gaps: list[tuple[int, int]], kind: Kind) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    first, second = kind.begin, 0
    for first_gap, second_gap in gaps:
        first, second = first + first_gap, second + second_gap
        entries.append((first, second))
    return entries


@pytest.mark.parametrize("kind", [OF_OFFSETS, OF_TIMES])
@given(GAPS, st.integers(0, 40), st.integers(0, 2100), st.sampled_from([FIRST, SECOND]))
def test_the_entries_around_a_key_are_found_in_file_and_memory(
    kind: Kind, gaps: list[tuple[int, int]], written: int, key: int, column: int
) -> None:
    index, _ = new_index(kind)
    entries = entries_of(gaps, kind)
    for number, entry in enumerate(entries):
        if number == written:
            index.write_out()
        index.append(*entry)

    key = kind.key(key, column)
    below = [entry for entry in entries if entry[column] <= key]
    above = [entry for entry in entries if entry[column] >= key]
    assert index.floor(key, column) == (below[-1] if below else None)
    assert index.ceiling(key, column) == (above[0] if above else None)
    assert len(index) == len(entries)
    assert index.last == (entries[-1] if entries else None)


@pytest.mark.parametrize("kind", [OF_OFFSETS, OF_TIMES])
@given(GAPS, st.integers(0, 40), st.integers(0, 2100), st.sampled_from([FIRST, SECOND]))
def test_after_a_truncation_the_entries_below_the_key_are_left(
    kind: Kind, gaps: list[tuple[int, int]], written: int, key: int, column: int
) -> None:
    index, disk = new_index(kind)
    entries = entries_of(gaps, kind)
    for number, entry in enumerate(entries):
        if number == written:
            index.write_out()
        index.append(*entry)

    key = kind.key(key, column)
    last = kind.begin + 5000, 5000
    index.truncate_before(key, column)
    index.append(*last)
    index.write_out()

    left = [*(entry for entry in entries if entry[column] < key), last]
    assert disk.open("/x.index", create=False).read_at(1000, 0) == b"".join(
        kind.entry.pack(*entry) for entry in left
    )
    assert [index[number] for number in range(len(index))] == left


@pytest.mark.parametrize("key", [0, 1, 4999, 5000, 9998, 20_000])
def test_a_search_reads_the_file_by_the_block(key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = new_index()
    for number in range(10_000):
        index.append(number, number)
    index.write_out()
    read: list[int] = []
    read_block = index.read_block

    def counted(_index: Index, number: int) -> tuple[int, bytes | bytearray]:
        read.append(number)
        return read_block(number)

    monkeypatch.setattr(Index, "read_block", counted)
    found = index.floor(key, FIRST)
    assert found is not None
    assert found.first == min(key, 9999)
    assert len(read) <= 6  # of 20 blocks, instead of 14 entries


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(3, 100), (7, 200), (9, 300)], 3),
        ([(3, 100), (0, 0), (9, 300)], 1),
        ([(3, 100), (7, 90)], 1),
        ([(3, 100), (3, 200)], 1),
        ([(3, 100), (50, 200)], 1),
        ([(3, 100), (7, 1000)], 1),
        ([(-3, 100)], 0),
    ],
)
def test_after_a_crash_offset_entries_count_as_far_as_they_make_sense(
    entries: list[tuple[int, int]], expected: int
) -> None:
    file = SimDisk(Random(0)).open("/x.index", create=True)
    file.write_at(b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries) + b"torn", 0)

    assert count_entries(file, OFFSET_ENTRY) == len(entries)
    assert count_sound_offset_entries(file, offset_end=50, position_end=1000) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(1000, 0), (2000, 4)], 2),
        ([(1000, 0), (1000, 4)], 1),
        ([(1000, 5), (2000, 4)], 1),
        ([(1000, 5), (2000, 50)], 1),
    ],
)
def test_after_a_crash_time_entries_count_as_far_as_they_make_sense(
    entries: list[tuple[int, int]], expected: int
) -> None:
    file = SimDisk(Random(0)).open("/x.timeindex", create=True)
    file.write_at(b"".join(TIME_ENTRY.pack(*entry) for entry in entries) + b"torn", 0)

    assert count_sound_time_entries(file, offset_end=50) == expected
