"""A connection cuts frames however they arrive, answers in order, and keeps to its limits."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.net.connection import (
    BUFFER_KEPT_BYTES,
    FRESH_BUFFER_BYTES,
    READ_AHEAD_BYTES,
    AnswerSlot,
    Connection,
    FrameRefusedError,
    Limits,
    Service,
)
from quorate.net.refusals import Closings, Refusals

LIMITS = Limits(
    request_bytes_max=1 << 20,
    small_request_bytes_max=4096,
    in_flight_max=4,
    in_flight_bytes_max=1 << 20,
    unsent_bytes_max=1000,
    wide_send_bytes=0,
)
PRODUCE, METADATA = 0, 3


class Recorder:
    """Remembers the requests it is given, and answers each with its own bytes on demand."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.frames: list[bytes] = []
        self.at_once = False
        self.service = Service(
            self.dispatch,
            lambda: 0,
            lambda: None,
            limits=limits,
            connections_max=2,
            idle_max_ms=1000,
        )
        self.connection = Connection("test", self.service)

    def dispatch(self, connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        self.frames.append(bytes(buffer[start:end]))
        if self.at_once:
            connection.answer_now([b"x"])
        else:
            connection.open_slot()

    def feed(self, data: bytes) -> bytes:
        """Deliver bytes the way a socket does, as room allows; return what was not taken."""
        while data and self.connection.may_read:
            space = self.connection.space()
            size_bytes = min(len(space), len(data))
            space[:size_bytes] = data[:size_bytes]
            data = data[size_bytes:]
            self.connection.received(size_bytes)
        return data

    def answer_all(self) -> None:
        for slot in list(self.connection.slots):
            assert isinstance(slot, AnswerSlot)
            slot.fill([b"x"])
        self.connection.collect()
        self.connection.out.clear()
        self.connection.unsent_bytes = 0


def frame(size_bytes: int, api_key: int = PRODUCE, fill: int = 7) -> bytes:
    body = struct.pack(">h", api_key) + bytes([fill]) * (size_bytes - 2)
    return struct.pack(">i", size_bytes) + body


@settings(deadline=None)  # copying buffers takes what it takes
@given(
    sizes=st.lists(st.integers(8, 9000), max_size=8),
    cuts=st.lists(st.integers(1, 9000), min_size=1, max_size=40),
)
def test_frames_are_the_same_however_the_stream_is_cut(sizes: list[int], cuts: list[int]) -> None:
    recorder = Recorder()
    sent = [frame(size, fill=index) for index, size in enumerate(sizes)]
    stream = b"".join(sent)
    turn = 0
    while stream:
        cut = cuts[turn % len(cuts)]
        turn += 1
        stream = recorder.feed(stream[:cut]) + stream[cut:]
        while recorder.connection.slots:
            recorder.answer_all()
            recorder.connection.resume()
    assert recorder.frames == [f[4:] for f in sent]


IMPOSSIBLE_SIZES = (-1, -(2**31), 0, 7, LIMITS.request_bytes_max + 1, 2**31 - 1)


@pytest.mark.parametrize("size_bytes", IMPOSSIBLE_SIZES)
def test_a_frame_of_an_impossible_size_is_refused(size_bytes: int) -> None:
    with pytest.raises(FrameRefusedError):
        Recorder().feed(struct.pack(">ih", size_bytes, PRODUCE))


@pytest.mark.parametrize(
    ("received", "hint"),
    [
        (bytes.fromhex("160301020001"), "; TLS begins like this"),
        (b"GET / HTTP/1.1", "; HTTP begins like this"),
        (bytes.fromhex("7fffffff0000"), "$"),
    ],
)
def test_what_speaks_something_else_is_told_as_that(received: bytes, hint: str) -> None:
    with pytest.raises(FrameRefusedError, match=f"accepted are 8 to [0-9]+{hint}"):
        Recorder().feed(received)


def test_only_produce_requests_may_be_large() -> None:
    Recorder().feed(struct.pack(">ih", 100_000, PRODUCE))
    with pytest.raises(FrameRefusedError, match="API key 3"):
        Recorder().feed(struct.pack(">ih", 100_000, METADATA))


def test_a_large_request_that_came_in_one_piece_is_held_to_its_limit_too() -> None:
    limits = Limits(1 << 20, 1024, 4, 1 << 20, 1000, 0)
    recorder = Recorder(limits)
    recorder.feed(frame(3000))
    with pytest.raises(FrameRefusedError):
        recorder.feed(frame(3000, METADATA))


def test_an_announced_frame_costs_memory_only_as_it_comes() -> None:
    recorder = Recorder()
    recorder.feed(struct.pack(">ih", LIMITS.request_bytes_max, PRODUCE))
    assert len(recorder.connection.buffer) <= 2 * READ_AHEAD_BYTES


def test_a_frame_larger_than_the_buffer_arrives_whole() -> None:
    recorder = Recorder()
    sent = frame(900_000, fill=9)
    recorder.feed(sent + frame(50))
    assert [len(f) for f in recorder.frames] == [900_000, 50]
    assert recorder.frames[0] == sent[4:]


def test_an_idle_connection_gives_its_large_buffer_back() -> None:
    recorder = Recorder()
    recorder.feed(frame(900_000))
    assert len(recorder.connection.buffer) > BUFFER_KEPT_BYTES
    recorder.connection.shrink()
    assert len(recorder.connection.buffer) == FRESH_BUFFER_BYTES
    recorder.feed(frame(10))
    assert len(recorder.frames) == 2


def test_a_buffer_with_unread_bytes_is_not_shrunk() -> None:
    recorder = Recorder()
    recorder.feed(frame(900_000)[:-1])
    recorder.connection.shrink()
    recorder.feed(frame(900_000)[-1:])
    assert [len(f) for f in recorder.frames] == [900_000]


def test_requests_beyond_the_in_flight_limit_wait_until_answers_left() -> None:
    recorder = Recorder()
    stream = b"".join(frame(10, fill=i) for i in range(6))
    space = recorder.connection.space()
    space[: len(stream)] = stream
    recorder.connection.received(len(stream))
    assert len(recorder.frames) == LIMITS.in_flight_max
    assert not recorder.connection.may_read
    recorder.answer_all()
    recorder.connection.resume()
    assert [f[2] for f in recorder.frames] == [0, 1, 2, 3, 4, 5]


def test_large_requests_wait_while_too_many_bytes_are_in_work() -> None:
    limits = Limits(1 << 20, 4096, 100, 60_000, 1000, 0)
    recorder = Recorder(limits)
    left = recorder.feed(b"".join(frame(30_000, fill=i) for i in range(4)))
    assert [f[2] for f in recorder.frames] == [0, 1]
    assert not recorder.connection.may_read
    recorder.answer_all()
    recorder.connection.resume()
    assert recorder.feed(left) == b""
    assert [f[2] for f in recorder.frames] == [0, 1, 2, 3]
    recorder.answer_all()
    assert recorder.connection.in_flight_bytes == 0
    assert recorder.connection.may_read


def test_a_request_as_large_as_all_that_may_be_in_work_is_taken_by_itself() -> None:
    recorder = Recorder(Limits(1 << 20, 4096, 100, 1, 1000, 0))
    for _ in range(2):
        assert recorder.feed(frame(900_000)) == b""
        recorder.answer_all()
    assert len(recorder.frames) == 2


def test_small_requests_and_those_that_are_answered_at_once_do_not_count() -> None:
    recorder = Recorder(Limits(1 << 20, 4096, 100, 20_000, 1000, 0))
    recorder.feed(b"".join(frame(4000) for _ in range(20)))
    assert (len(recorder.frames), recorder.connection.in_flight_bytes) == (20, 0)
    recorder.answer_all()
    recorder.at_once = True
    recorder.feed(b"".join(frame(30_000) for _ in range(20)))
    assert (len(recorder.frames), recorder.connection.in_flight_bytes) == (40, 0)


def test_a_large_request_that_gets_no_answer_is_not_counted_for_the_one_before() -> None:
    recorder = Recorder(Limits(1 << 20, 4096, 100, 60_000, 1000, 0))
    recorder.feed(frame(30_000))

    def answer_nothing(connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        recorder.frames.append(bytes(buffer[start:end]))  # with acks=0

    recorder.connection.dispatch = answer_nothing
    recorder.feed(frame(20_000))
    assert recorder.connection.in_flight_bytes == 4 + 30_000
    recorder.answer_all()
    assert recorder.connection.in_flight_bytes == 0


def test_answers_leave_in_the_order_of_requests() -> None:
    recorder = Recorder()
    connection = recorder.connection
    first, second, third = (connection.open_slot() for _ in range(3))
    second.fill([b"2"])
    assert not connection.collect()
    first.fill([b"1", b"one"])
    assert connection.collect()
    assert list(connection.out) == [b"1", b"one", b"2"]
    assert connection.unsent_bytes == 5
    third.fill([b"3"])
    assert recorder.service.answered == {connection}


def test_a_peer_that_does_not_take_its_answers_is_not_read_from() -> None:
    connection = Recorder().connection
    connection.open_slot().fill([bytes(LIMITS.unsent_bytes_max)])
    connection.collect()
    assert not connection.may_read


def test_an_answer_is_given_once() -> None:
    slot = Recorder().connection.open_slot()
    slot.fill([b"1"])
    with pytest.raises(AssertionError):
        slot.fill([b"2"])


def test_connections_beyond_the_maximum_are_not_admitted() -> None:
    service = Recorder().service
    assert [service.admit() for _ in range(3)] == [True, True, False]
    service.connection_count -= 1
    assert service.admit()


def test_refused_connections_are_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for now_ms in range(0, 25_000, 10):
        refusals.note("because", now_ms)
    assert [record.getMessage() for record in caplog.records] == [
        "refused 1 new connections: because",
        "refused 1000 new connections: because",
        "refused 1000 new connections: because",
    ]


def test_closed_connections_are_told_one_by_one_unless_there_are_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closings, why = Closings(), FrameRefusedError("no request")
    for now_ms in (0, *range(10_000, 10_100), 30_000):
        closings.note("a peer", why, now_ms)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        *["closing the connection from a peer: no request"] * 11,
        "closed 90 more connections for what came",
        "closing the connection from a peer: no request",
    ]


def test_large_answers_whose_turn_has_not_come_count_like_large_requests() -> None:
    recorder = Recorder(Limits(1 << 20, 4096, 100, 60_000, 1 << 20, 0))
    connection = recorder.connection
    first, second, third = (connection.open_slot() for _ in range(3))
    second.fill([bytes(30_000)])
    assert connection.may_read
    third.fill([bytes(30_000)])
    assert not connection.may_read
    first.fill([b"x"])
    connection.collect()
    assert (connection.in_flight_bytes, connection.unsent_bytes) == (0, 60_001)
    assert connection.may_read


def test_nothing_more_is_begun_of_what_came_from_a_peer_that_was_hung_up_on() -> None:
    recorder = Recorder()

    def hang_up(connection: Connection, buffer: bytearray, start: int, end: int) -> None:
        recorder.frames.append(bytes(buffer[start:end]))
        connection.abandon()

    recorder.connection.dispatch = hang_up
    recorder.feed(frame(8) * 3)

    assert len(recorder.frames) == 1
    assert not recorder.connection.may_read
