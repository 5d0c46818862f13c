"""Windows begin where Kafka's do, and close when the stream time says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.serde import SerdeError, StrSerde
from quorate.client.streams.serdes import LongSerde, WindowedSerde
from quorate.client.streams.windows import TimeWindows, Window


def test_a_time_is_in_one_tumbling_window() -> None:
    windows = TimeWindows(size_ms=10, grace_ms=0)
    assert [list(windows.starts(at)) for at in (0, 9, 10, 25)] == [[0], [0], [10], [20]]


def test_a_time_is_in_several_hopping_windows() -> None:
    windows = TimeWindows(size_ms=12, grace_ms=0, advance_ms=5)
    assert list(windows.starts(26)) == [15, 20, 25]


def test_no_window_begins_before_1970() -> None:
    windows = TimeWindows(size_ms=12, grace_ms=0, advance_ms=5)
    assert list(windows.starts(3)) == [0]


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 1_000))
def test_a_time_is_in_exactly_the_windows_that_it_is_in(size: int, advance: int, at: int) -> None:
    advance = min(advance, size)
    windows = TimeWindows(size_ms=size, grace_ms=0, advance_ms=advance)
    every = range(0, at + 1, advance or size)
    assert list(windows.starts(at)) == [start for start in every if start <= at < start + size]


def test_a_window_is_open_until_its_end_and_the_grace_have_passed() -> None:
    windows = TimeWindows(size_ms=10, grace_ms=5)
    assert windows.is_open(0, 14)
    assert not windows.is_open(0, 15)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size_ms": 0}, "size_ms is 0"),
        ({"grace_ms": -1}, "grace_ms is -1"),
        ({"advance_ms": 11}, "times in no window"),
        ({"advance_ms": -1}, "advance_ms is -1"),
    ],
)
def test_windows_that_make_no_sense(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TimeWindows(**{"size_ms": 10, "grace_ms": 0, **wrong})


def test_numbers_and_windows_have_the_bytes_that_kafka_gives_them() -> None:
    assert LongSerde().serialize("t", 258) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    serde = WindowedSerde(StrSerde(), size_ms=10)
    window = Window("key", 258, 268)
    assert serde.serialize("t", window) == b"key" + bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert serde.deserialize("t", serde.serialize("t", window)) == window
    assert LongSerde().deserialize("t", LongSerde().serialize("t", -5)) == -5


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "1"])
def test_what_is_no_long(value: object) -> None:
    with pytest.raises(SerdeError):
        LongSerde().serialize("t", value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_bytes_that_are_neither() -> None:
    with pytest.raises(SerdeError, match="7 of them"):
        LongSerde().deserialize("t", b"7 bytes")
    with pytest.raises(SerdeError, match="fewer than 8"):
        WindowedSerde(StrSerde(), size_ms=10).deserialize("t", b"7 bytes")
    with pytest.raises(SerdeError, match="not Window"):
        WindowedSerde(StrSerde(), size_ms=10).serialize("t", "w")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
