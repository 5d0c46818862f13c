"""CBOR frames of the control plane over Trio streams: both ends of a connection."""

import logging
from collections import deque
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import trio

from quorate.control.codec import DecodeError
from quorate.control.frames import (
    ANSWER_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MAX_BEFORE_HELLO,
    HELLO_ANSWER_BYTES_MAX,
    LENGTH_BYTES,
    Frame,
    UnknownMessageError,
    decode_frame,
    encode_frame,
    frame_length,
)
from quorate.control.messages import (
    NO_NODE,
    Answer,
    ErrorAnswer,
    Hello,
    HelloAnswer,
    Purpose,
    Request,
)
from quorate.errors import ErrorCode, KafkaError, NetworkError, NotControllerError, known_code
from quorate.net.bell import Bell
from quorate.promise import Promise

logger: Final = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 65_536
HELLO_TIMEOUT_S: Final = 10.0
FRAME_TIMEOUT_S: Final = 30.0
SEND_TIMEOUT_S: Final = 30.0
REQUESTS_IN_FLIGHT_MAX: Final = 64
LARGE_FRAME_BYTES: Final = 65_536
TOGETHER_BYTES: Final = 65_536

A = TypeVar("A", bound=Answer)


class ReceiveBudget:
    """How much of large frames may be on its way to a server at once, over all connections."""

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        """Take some, if there is so much left."""
        if size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give some back."""
        self._left_bytes += size_bytes


class ControlStream:
    """Owns a byte stream and cuts it into frames; what is sent is whole frames, then the end."""

    def __init__(self, stream: trio.abc.Stream, budget: "ReceiveBudget | None" = None) -> None:
        self._stream = stream
        self._budget = budget
        self._received = bytearray()
        self._sending = trio.Lock()

    async def send(self, frame: Frame) -> None:
        """Send a frame.

        Raises:
            NetworkError: the connection is broken.
        """
        async with self._sending:
            # Not before: frames that wait for a deaf peer take no memory.
            data = encode_frame(frame)
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise NetworkError(f"the connection broke: {error}") from error
            except trio.Cancelled:
                # Nobody knows how much of the frame went out: no other may follow it.
                await trio.aclose_forcefully(self._stream)
                raise

    async def receive(self, bytes_max: int) -> Frame | None:
        """Return the next frame, or ``None`` at the end of the stream.

        Raises:
            DecodeError: what came is not a frame, or larger than ``bytes_max``, or too slow.
            NetworkError: the connection broke.
        """
        body = await self.receive_body(bytes_max)
        return None if body is None else decode_frame(body)

    async def receive_body(self, bytes_max: int) -> bytes | None:
        """Return what the next frame holds, undecoded, or ``None`` at the end of the stream.

        Raises:
            DecodeError: it is larger than ``bytes_max``, or too slow.
            NetworkError: the connection broke.
        """
        received = self._received
        if len(received) < LENGTH_BYTES and not await self._fill(LENGTH_BYTES):
            return None
        end = LENGTH_BYTES + frame_length(received[:LENGTH_BYTES], bytes_max)
        if len(received) < end:
            await self._fill_in_time(end)
        return self._take(end)

    def body_at_hand(self, bytes_max: int) -> bytes | None:
        """Return what the next frame holds, if all of it has come; who gets ``None`` waits for it.

        Raises:
            DecodeError: it is larger than ``bytes_max``.
        """
        received = self._received
        if len(received) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + frame_length(received[:LENGTH_BYTES], bytes_max)
        return self._take(end) if len(received) >= end else None

    def _take(self, end: int) -> bytes:
        with memoryview(self._received) as view:
            body = bytes(view[LENGTH_BYTES:end])
        del self._received[:end]
        return body

    async def _fill_in_time(self, size_bytes: int) -> None:
        if self._budget is None or size_bytes < LARGE_FRAME_BYTES:
            await self._fill_soon(size_bytes)
            return
        if not self._budget.take(size_bytes):
            raise DecodeError("too many large frames are on their way at once")
        try:
            await self._fill_soon(size_bytes)
        finally:
            self._budget.give_back(size_bytes)

    async def _fill_soon(self, size_bytes: int) -> None:
        with trio.move_on_after(FRAME_TIMEOUT_S) as deadline:
            if not await self._fill(size_bytes):
                raise NetworkError("the connection ended within a frame")
        if deadline.cancelled_caught:
            raise DecodeError("the rest of a frame did not come in time")

    async def _fill(self, size_bytes: int) -> bool:
        """Receive until so many bytes are there; return whether they are, or the stream ended."""
        while len(self._received) < size_bytes:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise NetworkError(f"the connection broke: {error}") from error
            if not data:
                return False
            self._received += data
        return True

    async def send_bytes(self, data: bytes | bytearray) -> None:
        """Send whole frames that are bytes already.

        Raises:
            NetworkError: the connection is broken.
        """
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise NetworkError(f"the connection broke: {error}") from error

    async def aclose(self) -> None:
        """Close the stream, without ceremony."""
        await trio.aclose_forcefully(self._stream)


class ControlService(Protocol):
    """What a controller does for those who connect to it."""

    def greet(self, hello: Hello) -> HelloAnswer:
        """Return who we are.

        Raises:
            KafkaError: we do not talk to whoever says that hello.
        """
        ...

    def begin(self, frame: Frame) -> Promise[Answer | KafkaError] | None:
        """Carry out a request that needs no task of its own; ``None`` if it does."""
        ...

    async def answer(self, frame: Frame) -> Answer:
        """Carry out a request.

        Raises:
            KafkaError: it failed as a whole.
        """
        ...

    async def serve_mesh(self, hello: Hello, frames: ControlStream) -> None:
        """Take in the Raft frames of another controller, until the connection ends.

        Raises:
            DecodeError: what comes is no Raft frame.
            NetworkError: the connection broke.
        """
        ...


class ControlConnection:
    """A client's end: owns the stream, and the requests that wait for their answers.

    Made by :func:`connect_control`; :meth:`run` must run while requests are made.
    """

    def __init__(self, stream: ControlStream, hello: HelloAnswer) -> None:
        self._stream = stream
        self._waiting: dict[int, tuple[trio.Event, list[Answer]]] = {}
        self._next_id = 1
        self._broken = False
        self.controller: Final = hello

    async def request(
        self, request: Request[A], *, request_id: bytes = b"", timeout_ms: int = 0
    ) -> A:
        """Return the answer; any number of requests may be in flight. Bring your own timeout.

        ``timeout_ms`` only tells the controller how long we shall wait (0: it is not told).

        Raises:
            NetworkError: the connection broke; the request may have been carried out.
            KafkaError: what the controller says; or the request is too large, then it was not sent.
        """
        if self._broken:
            raise NetworkError("the connection to the controller is broken")
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        frame = Frame(correlation_id, request, request_id, timeout_ms)
        size_bytes = len(encode_frame(frame))
        if size_bytes > FRAME_BYTES_MAX:
            raise KafkaError(
                f"the request has {size_bytes} bytes; a controller accepts {FRAME_BYTES_MAX}",
                code=ErrorCode.POLICY_VIOLATION,
            )
        known, answers = trio.Event(), list[Any]()
        self._waiting[correlation_id] = (known, answers)
        try:
            await self._stream.send(frame)
            await known.wait()
        finally:
            self._waiting.pop(correlation_id, None)
        if not answers:
            raise NetworkError("the connection to the controller broke")
        answer: A = answer_or_error(answers[0])
        return answer

    async def run(self) -> None:
        """Hand answers to those who wait, until the connection ends; then close it."""
        try:
            while frame := await self._stream.receive(ANSWER_BYTES_MAX):
                waiter = self._waiting.get(frame.correlation_id)
                if waiter is not None and isinstance(frame.message, Answer):
                    waiter[1].append(frame.message)
                    waiter[0].set()
        except (NetworkError, DecodeError) as error:
            logger.info("connection to the controller ends: %s", error)
        finally:
            self._broken = True
            for known, _ in self._waiting.values():
                known.set()
            await self._stream.aclose()

    async def aclose(self) -> None:
        """Close the connection; requests in flight fail."""
        await self._stream.aclose()


def answer_or_error(answer: A | ErrorAnswer) -> A:
    """Return an answer, or raise the error that stands in its place."""
    if not isinstance(answer, ErrorAnswer):
        return answer
    if answer.code == ErrorCode.NOT_CONTROLLER:
        leader_id = None if answer.leader_id == NO_NODE else answer.leader_id
        raise NotControllerError(
            answer.message, leader_id=leader_id, leader_endpoint=answer.leader_endpoint
        )
    raise KafkaError(answer.message, code=known_code(answer.code))


async def connect_control(stream: trio.abc.Stream, hello: Hello) -> ControlConnection:
    """Introduce ourselves on a fresh stream, which belongs to the connection from now on.

    Raises:
        NetworkError: the other side is gone, slow, or no controller.
        KafkaError: it does not want us (another cluster, no common version).
    """
    frames, answer = await introduce(stream, hello)
    return ControlConnection(frames, answer)


async def introduce(stream: trio.abc.Stream, hello: Hello) -> tuple[ControlStream, HelloAnswer]:
    """Say hello on a fresh stream, which belongs to what is returned from now on.

    Raises:
        NetworkError: the other side is gone, slow, or no controller.
        KafkaError: it does not want us (another cluster, no common version).
    """
    frames = ControlStream(stream)
    try:
        return frames, await _introduce(frames, hello)
    except BaseException:
        await frames.aclose()
        raise


async def _introduce(frames: ControlStream, hello: Hello) -> HelloAnswer:
    with trio.move_on_after(HELLO_TIMEOUT_S):
        await frames.send(Frame(0, hello))
        try:
            frame = await frames.receive(HELLO_ANSWER_BYTES_MAX)
        except DecodeError as error:
            raise NetworkError(f"the other side is no controller: {error}") from error
        if frame is None:
            raise NetworkError("the other side hung up")
        match frame.message:
            case HelloAnswer() | ErrorAnswer() as answer:
                return answer_or_error(answer)
            case _:
                raise NetworkError("the other side is no controller")
    raise NetworkError("the other side does not answer")


async def serve_control_connection(
    stream: trio.abc.Stream, service: ControlService, budget: ReceiveBudget
) -> None:
    """Serve one connection to its end: hello first, then what it is for.

    Requests are answered in any order.
    Nothing that the other side sends makes this raise; what is not a frame ends the connection.
    """
    frames = ControlStream(stream, budget)
    try:
        async with trio.open_nursery() as nursery:
            try:
                match await _greeted(frames, service):
                    case Hello(purpose=Purpose.MESH) as hello:
                        await service.serve_mesh(hello, frames)
                    case Hello():
                        await _serve_requests(frames, service, nursery)
                    case None:
                        pass
            except (NetworkError, DecodeError) as error:
                logger.info("control connection ends: %s", error)
            # Whoever hung up wants no answers.
            nursery.cancel_scope.cancel()
    finally:
        await frames.aclose()


async def _greeted(frames: ControlStream, service: ControlService) -> Hello | None:
    """Return how the other side introduced itself, if it did so acceptably and in time."""
    with trio.move_on_after(HELLO_TIMEOUT_S):
        frame = await frames.receive(FRAME_BYTES_MAX_BEFORE_HELLO)
        if frame is None:
            return None
        if not isinstance(frame.message, Hello):
            raise DecodeError("the first frame is not hello")
        try:
            answer: Answer = service.greet(frame.message)
        except KafkaError as error:
            answer = error_answer(error)
        await frames.send(Frame(frame.correlation_id, answer))
        return frame.message if isinstance(answer, HelloAnswer) else None
    return None


async def _serve_requests(
    frames: ControlStream, service: ControlService, nursery: trio.Nursery
) -> None:
    answers = _Answers(frames)
    nursery.start_soon(answers.run)
    while True:
        if answers.in_flight >= REQUESTS_IN_FLIGHT_MAX:
            await answers.wait_for_room()
        # Without a turn of the loop in between: requests that came together are met together.
        answers.in_flight += 1
        body = frames.body_at_hand(FRAME_BYTES_MAX) or await frames.receive_body(FRAME_BYTES_MAX)
        if body is None:
            return
        try:
            frame = decode_frame(body)
        except UnknownMessageError as error:
            refusal = ErrorAnswer(ErrorCode.UNSUPPORTED_VERSION.value, str(error))
            answers.add(Frame(error.correlation_id, refusal))
            continue
        if not isinstance(frame.message, Request):
            raise DecodeError("a frame from a client is a request")
        promise = service.begin(frame)
        if promise is None:
            nursery.start_soon(_answer, frame, service, answers)
        else:
            promise.when_resolved(partial(answers.add_outcome, frame.correlation_id))


async def _answer(frame: Frame, service: ControlService, answers: "_Answers") -> None:
    outcome: Answer | KafkaError
    try:
        outcome = await service.answer(frame)
    except KafkaError as error:
        outcome = error
    answers.add_outcome(frame.correlation_id, outcome)


class _Answers:
    """Owns the answers that a connection has not sent yet; :meth:`run` sends them.

    Those that come about together leave together. ``in_flight`` counts the requests of the
    connection whose answers have not left: whoever serves it adds, this takes away.
    """

    def __init__(self, frames: ControlStream) -> None:
        self.in_flight = 0
        self._room = Bell()
        self._frames = frames
        self._queue: deque[Frame] = deque()
        self._bell = Bell()

    def add(self, frame: Frame) -> None:
        """Send an answer soon."""
        self._queue.append(frame)
        self._bell.ring()

    def add_outcome(self, correlation_id: int, outcome: Answer | KafkaError) -> None:
        """Send soon what became of a request."""
        answer = error_answer(outcome) if isinstance(outcome, KafkaError) else outcome
        self.add(Frame(correlation_id, answer))

    async def wait_for_room(self) -> None:
        """Wait until an answer has left, if too many have not."""
        while self.in_flight >= REQUESTS_IN_FLIGHT_MAX:
            await self._room.wait()

    async def run(self) -> None:
        """Send answers until the connection ends; end it if the other side takes none."""
        try:
            while True:
                await self._bell.wait()
                while self._queue:
                    await self._send_some()
        except NetworkError as error:
            logger.info("control connection ends: %s", error)
            await self._frames.aclose()

    async def _send_some(self) -> None:
        # Encoded only now: answers that wait for a deaf peer take little memory.
        data, count = bytearray(), 0
        while self._queue and len(data) < TOGETHER_BYTES:
            data += encode_frame(self._queue.popleft())
            count += 1
        with trio.move_on_after(SEND_TIMEOUT_S) as deadline:
            await self._frames.send_bytes(data)
        if deadline.cancelled_caught:
            raise NetworkError("the other side does not take its answers")
        self.in_flight -= count
        self._room.ring()


def error_answer(error: KafkaError) -> ErrorAnswer:
    """Return an error as an answer."""
    if isinstance(error, NotControllerError):
        leader_id = NO_NODE if error.leader_id is None else error.leader_id
        return ErrorAnswer(error.code.value, error.message, leader_id, error.leader_endpoint)
    return ErrorAnswer(error.code.value, error.message)
