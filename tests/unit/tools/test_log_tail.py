"""What is appended to a partition's files is told once, whatever becomes of the files."""

import io
import os
from pathlib import Path

import pytest

from quorate.records.batch import assign_offset
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder
from quorate.tools.arguments import GlobalOptions
from quorate.tools.log_tail import SegmentTail, TailPlan, check_folder, follow
from quorate.tools.problems import CommandError, ProblemFoundError


def batch(offset: int) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1000, b"key", b"value", b"", 40)
    data = builder.build(Codec.NONE, NO_PRODUCER)
    assign_offset(data, 0, offset, 5)
    return bytes(data)


SIZE = len(batch(0))


def segment(folder: Path, base: int, *offsets: int, more: bytes = b"") -> Path:
    path = folder / f"{base:020d}.log"
    path.write_bytes(b"".join(map(batch, offsets)) + more)
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def seen(tail: SegmentTail) -> list[int]:
    return [one.batch.header.base_offset for one in tail.look()]


def test_what_is_there_is_told_if_that_is_wanted(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0, 1)
    tail, later = (SegmentTail(tmp_path, from_beginning=begin) for begin in (True, False))
    assert (seen(tail), seen(later)) == ([0, 1], [])
    append(path, batch(2))
    assert (seen(tail), seen(later), seen(tail)) == ([2], [2], [])


def test_a_partition_without_records_begins_with_its_first(tmp_path: Path) -> None:
    tail = SegmentTail(tmp_path, from_beginning=False)
    assert seen(tail) == []
    segment(tmp_path, 7, 7)
    assert seen(tail) == [7]


def test_the_next_segments_are_read_when_there_are_some(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0)
    tail = SegmentTail(tmp_path, from_beginning=False)
    append(path, batch(1))
    segment(tmp_path, 2, 2, 3)
    segment(tmp_path, 4, 4)
    assert seen(tail) == [1, 2, 3, 4]


@pytest.mark.parametrize("size_bytes", [1, 30, SIZE - 1])
def test_a_batch_is_told_once_it_is_whole(size_bytes: int, tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0, more=batch(1)[:size_bytes])
    tail = SegmentTail(tmp_path, from_beginning=True)
    assert (seen(tail), seen(tail), seen(tail)) == ([0], [], [])
    append(path, batch(1)[size_bytes:])
    assert seen(tail) == [1]


def test_a_log_that_is_cut_back_is_read_on_from_there(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0, 1, 2, 3)
    tail = SegmentTail(tmp_path, from_beginning=False)
    os.truncate(path, 2 * SIZE)
    assert seen(tail) == []
    assert tail.notes == [f"{path.name} was cut back to offset 2"]
    append(path, batch(2))
    assert seen(tail) == [2]


def test_a_segment_that_was_compacted_tells_nothing_twice(tmp_path: Path) -> None:
    segment(tmp_path, 0, 0, 1, 2)
    tail = SegmentTail(tmp_path, from_beginning=False)
    cleaned = segment(tmp_path, 99, 1, 2, 3, more=batch(4))
    cleaned.rename(tmp_path / f"{0:020d}.log")
    assert seen(tail) == [3, 4]
    assert "replaced" in tail.notes[0]


def test_segments_that_are_gone_are_passed_over(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0)
    tail = SegmentTail(tmp_path, from_beginning=False)
    path.unlink()
    assert seen(tail) == []
    segment(tmp_path, 5, 5)
    segment(tmp_path, 6, 6)
    assert seen(tail) == [5, 6]
    assert tail.notes == ["segment 0 is gone"]


def test_what_stays_no_batch_is_told(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, 0, more=b"\xff" * 200)
    tail = SegmentTail(tmp_path, from_beginning=True)
    assert seen(tail) == [0]
    with pytest.raises(ProblemFoundError, match=f"no batch begins at byte {SIZE}"):
        seen(tail)
    path.write_bytes(batch(0) + batch(1))
    assert seen(SegmentTail(tmp_path, from_beginning=True)) == [0, 1]


@pytest.mark.parametrize(("count", "kinds"), [(1, "b"), (2, "br"), (3, "brb")])
def test_so_many_lines_are_printed(count: int, kinds: str, tmp_path: Path) -> None:
    segment(tmp_path, 0, 0, 1)
    out = io.StringIO()
    tail = SegmentTail(tmp_path, from_beginning=True)
    follow(GlobalOptions(), tail, TailPlan(True, count, 0.01), out)
    assert "".join(line.strip()[0] for line in out.getvalue().splitlines()) == kinds


def test_only_a_partition_can_be_followed(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    path = segment(tmp_path / "orders-0", 0, 0)
    check_folder(tmp_path / "orders-0")
    with pytest.raises(CommandError, match="of several: orders-0"):
        check_folder(tmp_path)
    with pytest.raises(CommandError, match="it is a file"):
        check_folder(path)
    with pytest.raises(CommandError, match="no such directory"):
        check_folder(tmp_path / "nothing")
