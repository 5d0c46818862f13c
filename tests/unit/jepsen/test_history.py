import errno
from io import BufferedReader, BytesIO
from typing import Any

import pytest

from quorate.jepsen.history import (
    Event,
    HistoryError,
    HistoryReader,
    HistoryWriter,
    Kind,
    Operation,
    TruncatedHistoryError,
    operations,
)

EVENTS = [
    Event(10, 1, Kind.INVOKE, "send", ["t-0", 7]),
    Event(11, 2, Kind.INVOKE, "poll", 1),
    Event(12, 1, Kind.OK, "send", 0),
    Event(13, 1, Kind.INVOKE, "send", ["t-0", 8]),
    Event(14, 2, Kind.OK, "poll", [["t-0", [0], [7]]]),
]


def written(*events: Event) -> bytes:
    file = BytesIO()
    writer = HistoryWriter(file, {"seed": 3})
    for event in events:
        writer.add(event)
    return file.getvalue()


def reader(data: bytes) -> HistoryReader:
    return HistoryReader(BufferedReader(BytesIO(data)))  # type: ignore[arg-type, unused-ignore]


def test_what_was_written_is_read() -> None:
    history = reader(written(*EVENTS))
    assert history.header == {"seed": 3}
    assert list(history) == EVENTS


def test_an_event_that_is_torn_ends_the_history() -> None:
    whole = written(*EVENTS[:2])
    for size in range(len(written(*EVENTS[:1])) + 1, len(whole)):
        events = iter(reader(whole[:size]))
        assert next(events) == EVENTS[0]
        with pytest.raises(TruncatedHistoryError, match="middle of an event"):
            next(events)


class FullDisk(BytesIO):
    """A file that takes so many bytes, and more when there is room again."""

    room = 1 << 20

    def write(self, data: Any, /) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "full")
        taken = super().write(data[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("left", [0, 5])
def test_a_history_ends_where_its_disk_was_full_also_if_there_is_room_again(left: int) -> None:
    file = FullDisk()
    writer = HistoryWriter(file, {})
    writer.add(EVENTS[0])
    file.room = left
    with pytest.raises(OSError, match="full"):
        writer.add(EVENTS[1])
    file.room = 1 << 20
    for late in EVENTS[1:]:
        with pytest.raises(OSError, match="full"):
            writer.add(late)
    assert next(operations(reader(file.getvalue()))).asked == EVENTS[0].value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not begin with the header"),
        (b"\x81\x01", "does not begin with the header"),
        (b"\xa1\x61a\x01", "does not begin with the header"),
        (b"\x1c", "no history"),
        (b"\xa1\x6fquorate-history\x02", "format 2; this version reads 1"),
    ],
)
def test_what_is_no_history_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(HistoryError, match=why):
        reader(data)


@pytest.mark.parametrize("item", [b"\x01", b"\x85\x01\x01\x09\x61a\x01", b"\x84\x01\x01\x01\x61a"])
def test_what_is_no_event_is_refused(item: bytes) -> None:
    with pytest.raises(HistoryError, match="no event of a history"):
        list(reader(written() + item))


def test_operations_come_as_they_end_and_those_that_never_do_at_last() -> None:
    assert list(operations(EVENTS)) == [
        Operation(1, "send", ["t-0", 7], Kind.OK, 0, 10, 12),
        Operation(2, "poll", 1, Kind.OK, [["t-0", [0], [7]]], 11, 14),
        Operation(1, "send", ["t-0", 8], Kind.INFO, None, 13, None),
    ]


def test_what_was_under_way_when_a_history_was_torn_off_is_told_before_that() -> None:
    whole = written(*EVENTS[:3])
    done = operations(reader(whole[:-1]))
    assert [next(done).name, next(done).name] == ["send", "poll"]
    with pytest.raises(TruncatedHistoryError):
        next(done)


def event(process: int, kind: Kind, name: str = "send", value: Any = None) -> Event:
    return Event(0, process, kind, name, value)


@pytest.mark.parametrize(
    "events",
    [
        [event(1, Kind.OK)],
        [event(1, Kind.INVOKE), event(1, Kind.INVOKE)],
        [event(1, Kind.INVOKE), event(1, Kind.INFO), event(1, Kind.INVOKE)],
        [event(1, Kind.INVOKE), event(1, Kind.OK, "poll")],
    ],
)
def test_a_process_does_one_thing_at_a_time(events: list[Event]) -> None:
    with pytest.raises(HistoryError, match="process 1"):
        list(operations(events))


def test_time_does_not_go_back() -> None:
    with pytest.raises(HistoryError, match="time went back by 2 ns"):
        list(operations([*EVENTS, Event(12, 2, Kind.INVOKE, "poll", 1)]))
