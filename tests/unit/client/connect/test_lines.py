"""Lines are cut where they end, wherever pieces do; files are told from each other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.connect.lines import (
    Cut,
    Entry,
    Position,
    PositionError,
    Seen,
    Verdict,
    beginning_of,
    cut,
    digest,
    is_rotated,
    judge,
    moved,
    rest_of,
)


def test_what_has_no_end_waits_for_it() -> None:
    assert cut(b"one\ntwo\r\n\nthr", line_bytes_max=10, is_all=False) == Cut(
        [b"one", b"two", b""], 10
    )
    assert cut(b"thr", line_bytes_max=10, is_all=False) == Cut([], 0)


def test_at_the_last_end_all_is_lines() -> None:
    assert cut(b"one\ntwo", line_bytes_max=10, is_all=True) == Cut([b"one", b"two"], 7)
    assert cut(b"", line_bytes_max=10, is_all=True) == Cut([], 0)


def test_a_long_line_becomes_several() -> None:
    assert cut(b"abcdefg\nh\n", line_bytes_max=3, is_all=False).lines == [
        b"abc",
        b"def",
        b"g",
        b"h",
    ]
    assert cut(b"abcdefg", line_bytes_max=3, is_all=False) == Cut([b"abc"], 3)
    assert cut(b"abc\r", line_bytes_max=3, is_all=False) == Cut([], 0)


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"\r"]), max_size=40).map(b"".join),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_where_pieces_of_a_file_end_makes_no_difference(data: bytes, most: int, more: int) -> None:
    whole: list[bytes] = []
    for line in data.split(b"\n")[: -1 if data.endswith(b"\n") or not data else None]:
        bare = line.removesuffix(b"\r")
        whole += [bare[i : i + most] for i in range(0, max(1, len(bare)), most)]
    read: list[bytes] = []
    at = 0
    size = most + 2 + more
    while at < len(data):
        chunk = data[at : at + size]
        found = cut(chunk, line_bytes_max=most, is_all=at + size > len(data))
        assert found.size_bytes > 0, "it goes on"
        read += found.lines
        at += found.size_bytes
    assert b"".join(read) == b"".join(whole)
    if b"\r" not in data:
        assert [line for line in read if line] == [line for line in whole if line]
    assert all(len(line) <= most for line in read)


def at(offset: int, content: bytes, inode: int = 1) -> Position:
    return moved(beginning_of(inode), offset, content[:256])


def test_a_file_that_has_grown_or_was_renamed_is_the_same() -> None:
    position = at(4, b"abc\n")
    assert judge(position, Seen(1, 8, b"abc\ndef\n")) is Verdict.SAME
    assert judge(beginning_of(1), Seen(1, 0, b"")) is Verdict.SAME


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (Seen(2, 8, b"abc\ndef\n"), Verdict.OTHER),
        (Seen(1, 3, b"abc"), Verdict.CUT),
        (Seen(1, 8, b"new\nfile"), Verdict.CUT),
    ],
)
def test_another_file_and_one_written_anew_are_told(seen: Seen, verdict: Verdict) -> None:
    assert judge(at(4, b"abc\n"), seen) is verdict


def test_of_a_long_file_its_head_tells() -> None:
    content = b"x" * 1_000
    assert at(900, content).head_bytes == 256
    assert at(900, content).head == digest(b"x" * 256)


def test_a_position_is_read_as_it_was_written() -> None:
    position = at(4, b"abc\n")
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


@pytest.mark.parametrize(
    "value", [None, [], {}, {"inode": 1}, {**at(1, b"a").to_json(), "offset": -1}, "x"]
)
def test_what_is_no_position(value: object) -> None:
    with pytest.raises(PositionError, match="is no position"):
        Position.from_json(value)


@pytest.mark.parametrize("name", ["a.log.1", "a.log-20260101", "a.log.2026-01-01T10:00", "a.log_2"])
def test_names_of_files_that_were_renamed(name: str) -> None:
    assert is_rotated("a.log", name)


@pytest.mark.parametrize("name", ["a.log", "a.log.gz", "a.log.1.gz", "b.log.1", "a.log.old"])
def test_names_of_other_files(name: str) -> None:
    assert not is_rotated("a.log", name)


def test_files_that_were_renamed_later_are_read_too_oldest_first() -> None:
    entries = [
        Entry("a.log", 9, 50),
        Entry("a.log.1", 3, 40),
        Entry("a.log.2", 2, 30),
        Entry("a.log.3", 1, 20),
        Entry("a.log.4", 5, 10),
    ]
    assert rest_of(beginning_of(1), "a.log", entries) == ["a.log.3", "a.log.2", "a.log.1"]
    assert rest_of(beginning_of(7), "a.log", entries) is None


@pytest.mark.parametrize(
    ("oldest", "middle", "newest"),
    [
        ("a.log.10", "a.log.9", "a.log.1"),
        ("a.log-20251231", "a.log-20260101", "a.log-20260101-12"),
        ("a.log.2025-12-31T23", "a.log.2026-01-01T00", "a.log.2026-01-01T01"),
        ("a.log.2026-01-01.9", "a.log.2026-01-01.10", "a.log.2026-01-02.1"),
    ],
)
@pytest.mark.parametrize("times", [(1, 2, 3), (1, 1, 1), (3, 2, 1), (2, 1, 2)])
def test_which_file_is_later_its_name_says_whenever_it_was_written_to(
    oldest: str, middle: str, newest: str, times: tuple[int, int, int]
) -> None:
    names = (oldest, middle, newest)
    entries = [Entry(n, i, t) for i, (n, t) in enumerate(zip(names, times, strict=True))]
    for begin in range(3):
        found = rest_of(beginning_of(begin), "a.log", reversed(entries))
        assert found == [*names[begin:]]


def test_where_names_do_not_say_which_is_later_times_do_and_none_is_left_out() -> None:
    entries = [
        Entry("a.log-20260101", 1, 30),
        Entry("a.log.2", 2, 10),
        Entry("a.log.1", 3, 40),
        Entry("a.log-20260102", 4, 20),
        Entry("a.log.3", 5, 30),
    ]
    dates = ["a.log-20260101", "a.log-20260102"]
    assert rest_of(beginning_of(1), "a.log", entries) == [*dates, "a.log.3", "a.log.1"]
    numbers = ["a.log.2", *dates, "a.log.1"]
    assert rest_of(beginning_of(2), "a.log", entries) == numbers
