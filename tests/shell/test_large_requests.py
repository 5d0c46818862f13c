"""Of large requests to a controller, one is in work; the others are kept as the bytes they were."""

import struct
import sys
from typing import Any

import pytest

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.table import HANDLERS
from quorate.net.connection import FrameRefusedError
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
from quorate.protocol.messages.topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.shell.test_server import Wire, connect, new_server

KEY, VERSION = ApiKey.DELETE_TOPICS, 6
NAMES = 40_000
BODY_AT = 19


class Controller:
    """Stands for the handler: what it was asked, and not answered yet."""

    def __init__(self) -> None:
        self.asked: list[Promise[DeleteTopicsResponse]] = []
        self.fails = False
        self.answers_at_once = False

    def __call__(self, _broker: Broker, request: Any, _caller: Caller) -> Any:
        if self.fails:
            raise KeyError("surprise")
        assert len(request.topics) in {2, NAMES}
        if self.answers_at_once:
            return DeleteTopicsResponse()
        self.asked.append(Promise())
        return self.asked[-1]


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    controller = Controller()
    monkeypatch.setitem(HANDLERS, KEY, controller)
    return controller


def frame_of(names: int, correlation_id: int = 0) -> bytes:
    states = [DeleteTopicState(name=f"{name:05x}") for name in range(names)]
    body = DeleteTopicsRequest(topics=states, timeout_ms=1000)
    return encode_request(APIS[KEY], VERSION, correlation_id, "test", body)


LARGE = frame_of(NAMES)


def send(wire: Wire, frame: bytes) -> None:
    """Deliver a frame as room allows."""
    while frame:
        size_bytes = min(len(frame), len(wire.space()))
        wire.receive(frame[:size_bytes])
        frame = frame[size_bytes:]


def test_the_next_begins_when_one_is_answered_and_small_ones_do_not_wait(
    controller: Controller,
) -> None:
    _, server = new_server()
    first, second, third = (connect(server) for _ in range(3))
    send(first, LARGE)
    send(second, LARGE)
    send(third, frame_of(2, correlation_id=9))
    assert len(controller.asked) == 2
    controller.asked[1].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert (third.correlation_ids(), second.sent()) == ([9], b"")
    response = DeleteTopicsResponse()
    held = sys.getrefcount(response)
    controller.asked.pop(0).resolve(response)
    assert sys.getrefcount(response) == held, "what an answer was made of goes before it is taken"
    server.end_turn()
    assert (len(controller.asked), first.correlation_ids()) == (2, [0])
    controller.asked[1].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert second.correlation_ids() == [0]
    assert second.in_flight_bytes == 0


def test_a_client_that_goes_gives_up_its_turn_but_not_what_is_in_work(
    controller: Controller,
) -> None:
    _, server = new_server()
    first, second, third = (connect(server) for _ in range(3))
    for wire in (first, second, third):
        send(wire, LARGE)
    first.abandon()
    second.abandon()
    assert len(controller.asked) == 1
    controller.asked[0].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert len(controller.asked) == 2
    controller.asked[1].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert (first.sent(), second.sent(), third.correlation_ids()) == (b"", b"", [0])


def test_what_cannot_be_read_in_its_turn_costs_its_client_the_connection_and_the_next_begins(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = new_server()
    damaged = bytearray(LARGE)
    damaged[BODY_AT : BODY_AT + 4] = b"\xff\xff\xff\x7f"  # so many topics
    with pytest.raises(FrameRefusedError, match="cannot decode"):
        send(connect(server), bytes(damaged))
    first, second, third = (connect(server) for _ in range(3))
    send(first, LARGE)
    send(second, bytes(damaged))
    send(third, LARGE)
    controller.asked[0].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert (second.hung_up, third.hung_up, len(controller.asked)) == (True, False, 2)
    assert "closing the connection from test" in caplog.text


def test_a_bug_that_a_request_meets_in_its_turn_is_told_and_the_next_begins(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = new_server()
    first, second = connect(server), connect(server)
    send(first, LARGE)
    send(second, LARGE)
    controller.fails = True
    controller.asked[0].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert second.hung_up
    assert "a request with API key 20, version 6 failed" in caplog.text
    assert struct.unpack_from(">i", first.sent())[0] > 0


def test_any_number_that_are_answered_at_once_do_not_wait(controller: Controller) -> None:
    _, server = new_server()
    controller.answers_at_once = True
    for number in range(3):
        wire = connect(server)
        send(wire, frame_of(NAMES, correlation_id=number))
        assert (wire.correlation_ids(), wire.in_flight_bytes) == ([number], 0)


def test_those_that_waited_and_are_answered_at_once_then_leave_the_line_to_the_next(
    controller: Controller,
) -> None:
    _, server = new_server()
    wires = [connect(server) for _ in range(4)]
    for wire in wires:
        send(wire, LARGE)
    controller.answers_at_once = True
    controller.asked[0].resolve(DeleteTopicsResponse())
    server.end_turn()
    assert [wire.correlation_ids() for wire in wires] == [[0]] * 4


def test_an_answer_that_cannot_be_written_costs_its_client_the_connection_and_the_next_begins(
    controller: Controller,
) -> None:
    _, server = new_server()
    first, second = connect(server), connect(server)
    send(first, LARGE)
    send(second, LARGE)
    controller.asked[0].resolve(DeleteTopicsResponse(throttle_time_ms="soon"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.end_turn()
    assert (first.hung_up, second.hung_up, len(controller.asked)) == (True, False, 2)


def test_a_bug_that_a_request_meets_at_once_costs_its_client_the_connection_and_no_turn(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = new_server()
    controller.fails = True
    with pytest.raises(FrameRefusedError, match="bug"):
        send(connect(server), LARGE)
    controller.fails = False
    send(connect(server), LARGE)
    assert len(controller.asked) == 1
    assert caplog.text.count("a request with API key 20, version 6 failed") == 1
