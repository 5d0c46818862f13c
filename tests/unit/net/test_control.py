"""Both ends of a control connection, over memory streams."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from quorate.control import messages as m
from quorate.control.codec import dump_cbor
from quorate.control.frames import LENGTH_BYTES, Frame, decode_frame, encode_frame
from quorate.errors import ErrorCode, KafkaError, NetworkError, NotControllerError
from quorate.model import Endpoint
from quorate.net.control import (
    REQUESTS_IN_FLIGHT_MAX,
    SEND_TIMEOUT_S,
    ControlConnection,
    ControlStream,
    ReceiveBudget,
    connect_control,
    serve_control_connection,
)
from quorate.promise import Promise
from quorate.quorum.raft.voters import VOTERS_MAX

MIB = 2**20
HELLO = m.Hello("c", 7)
GREETING = m.HelloAnswer("c", 1, 1)
QUORUM = m.DescribeQuorumAnswer(1, 2, 3, (), 4)


def greet(hello: m.Hello) -> m.HelloAnswer:
    if hello.cluster_id != "c":
        raise KafkaError("another cluster", code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    return GREETING


class Service:
    """Answers what it knows; fetches wait until they are let go."""

    def __init__(self) -> None:
        self.let_go = trio.Event()
        self.waiting = 0
        self.frames: list[Frame] = []
        self.raft: list[bytes] = []
        self.begun: list[Promise[m.Answer | KafkaError]] = []

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        return greet(hello)

    async def serve_mesh(self, hello: m.Hello, frames: ControlStream) -> None:
        assert hello.purpose is m.Purpose.MESH
        while (body := await frames.receive_body(100)) is not None:
            self.raft.append(body)

    def begin(self, frame: Frame) -> Promise[m.Answer | KafkaError] | None:
        if not isinstance(frame.message, m.AllocateProducerIds):
            return None
        self.begun.append(Promise[m.Answer | KafkaError]())
        return self.begun[-1]

    async def answer(self, frame: Frame) -> m.Answer:
        self.frames.append(frame)
        match frame.message:
            case m.DescribeQuorum():
                await trio.lowlevel.checkpoint()
                return QUORUM
            case m.UnregisterBroker(broker_id=2):
                raise NotControllerError(leader_id=3, leader_endpoint=Endpoint("h", 1))
            case m.FetchMetadata(from_version=version):
                self.waiting += 1
                await self.let_go.wait()
                return m.FetchMetadataAnswer(version)
            case _:
                raise NotControllerError


@asynccontextmanager
async def connected(service: Service) -> AsyncGenerator[ControlConnection, None]:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_control_connection, theirs, service, ReceiveBudget(MIB))
        connection = await connect_control(ours, HELLO)
        nursery.start_soon(connection.run)
        yield connection
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def raw(service: Service | None = None) -> AsyncGenerator[trio.abc.Stream, None]:
    """A client that can send anything; the server must end by itself."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            serve_control_connection, theirs, service or Service(), ReceiveBudget(MIB)
        )
        yield ours


async def answers(stream: trio.abc.Stream) -> list[Frame]:
    """Everything that still comes."""
    data = b""
    while chunk := await stream.receive_some():
        data += chunk
    frames: list[Frame] = []
    while data:
        end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
        frames.append(decode_frame(data[LENGTH_BYTES:end]))
        data = data[end:]
    return frames


async def test_requests_are_answered() -> None:
    async with connected(Service()) as connection:
        assert connection.controller == GREETING
        assert await connection.request(m.DescribeQuorum()) == QUORUM


class Crowd(Service):
    """A controller of the largest quorum that there can be, with very long names."""

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        members = tuple(
            m.Member(2**31 - 1 - n, bytes([n]) * 16, Endpoint("long." * 50, 65_535))
            for n in range(VOTERS_MAX)
        )
        return m.HelloAnswer(hello.cluster_id, 1, 1, founders=members, voters=members)


async def test_a_controller_may_name_as_many_voters_as_there_can_be() -> None:
    async with connected(Crowd()) as connection:
        assert len(connection.controller.voters) == VOTERS_MAX


async def test_a_request_that_waits_holds_up_no_other() -> None:
    service = Service()
    async with connected(service) as connection, trio.open_nursery() as nursery:
        fetched: list[m.FetchMetadataAnswer] = []

        async def fetch() -> None:
            fetched.append(await connection.request(m.FetchMetadata(5, 1000)))

        nursery.start_soon(fetch)
        await wait_all_tasks_blocked()
        assert await connection.request(m.DescribeQuorum()) == QUORUM
        assert fetched == []
        service.let_go.set()
        await wait_all_tasks_blocked()
        assert fetched == [m.FetchMetadataAnswer(5)]


async def test_requests_that_need_no_task_are_answered_when_their_answers_are_known() -> None:
    service = Service()
    outcomes: list[m.Answer | ErrorCode] = []

    async def ask(connection: ControlConnection) -> None:
        try:
            outcomes.append(await connection.request(m.AllocateProducerIds(1, 1)))
        except KafkaError as error:
            outcomes.append(error.code)

    async with connected(service) as connection, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(ask, connection)
        await wait_all_tasks_blocked()
        assert await connection.request(m.DescribeQuorum()) == QUORUM
        refused, answered = service.begun
        answered.resolve(m.AllocateProducerIdsAnswer(5, 1000))
        await wait_all_tasks_blocked()
        assert outcomes == [m.AllocateProducerIdsAnswer(5, 1000)]
        refused.resolve(KafkaError(code=ErrorCode.STALE_BROKER_EPOCH))
        await wait_all_tasks_blocked()
        assert outcomes[1:] == [ErrorCode.STALE_BROKER_EPOCH]


async def test_an_answer_that_is_known_after_the_connection_has_ended_is_for_nobody() -> None:
    service = Service()
    async with connected(service) as connection:
        with trio.move_on_after(0.01):
            await connection.request(m.AllocateProducerIds(1, 1))
    service.begun[0].resolve(m.AllocateProducerIdsAnswer(5, 1000))


async def test_errors_come_back_with_their_code() -> None:
    async with connected(Service()) as connection:
        with pytest.raises(KafkaError) as caught:
            await connection.request(m.UnregisterBroker(1))
        assert caught.value.code == ErrorCode.NOT_CONTROLLER


async def test_who_leads_instead_comes_with_the_refusal() -> None:
    async with connected(Service()) as connection:
        with pytest.raises(NotControllerError) as caught:
            await connection.request(m.UnregisterBroker(2))
        assert (caught.value.leader_id, caught.value.leader_endpoint) == (3, Endpoint("h", 1))
        with pytest.raises(NotControllerError) as caught:
            await connection.request(m.UnregisterBroker(1))
        assert (caught.value.leader_id, caught.value.leader_endpoint) == (None, None)


async def test_the_id_of_a_request_and_its_timeout_travel_with_it() -> None:
    service = Service()
    async with connected(service) as connection:
        await connection.request(m.DescribeQuorum(), request_id=b"id", timeout_ms=7)
        assert service.frames == [Frame(1, m.DescribeQuorum(), b"id", 7)]


async def test_after_the_hello_of_a_mesh_come_frames_of_another_kind() -> None:
    service = Service()
    async with raw(service) as stream:
        hello = m.Hello("c", 7, purpose=m.Purpose.MESH)
        await stream.send_all(encode_frame(Frame(0, hello)) + b"\0\0\0\1x\0\0\0\2yz")
        await wait_all_tasks_blocked()
        assert service.raft == [b"x", b"yz"]
        await stream.send_all(b"\0\0\0\x65")
        assert await answers(stream) == [Frame(0, GREETING)]


async def test_a_client_that_takes_no_answers_is_cut_off(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()

    async def stuck() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_control_connection, theirs, Service(), ReceiveBudget(MIB))
        await connect_control(ours, HELLO)
        theirs.send_stream.send_all_hook = stuck
        asked_at_s = trio.current_time()
        await ours.send_all(encode_frame(Frame(1, m.DescribeQuorum())))
        assert await answers(ours) == [Frame(1, QUORUM)]
        assert trio.current_time() - asked_at_s == pytest.approx(SEND_TIMEOUT_S)


async def test_large_frames_share_what_may_be_received_at_once() -> None:
    budget, large = ReceiveBudget(MIB), m.UnregisterBroker(1)
    body = dump_cbor({1: 14, 2: 5, 3: {1: 1}, 9: bytes(MIB - 1000)})
    frame = len(body).to_bytes(4, "big") + body
    async with trio.open_nursery() as nursery:
        streams: list[trio.abc.Stream] = []
        for _ in range(3):
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve_control_connection, theirs, Service(), budget)
            await ours.send_all(HELLO_FRAME)
            streams.append(ours)
        slow, refused, served = streams
        await slow.send_all(frame[:100])
        await wait_all_tasks_blocked()
        await refused.send_all(frame[:100])
        assert await answers(refused) == [Frame(0, GREETING)]
        await slow.send_all(frame[100:])
        await wait_all_tasks_blocked()
        await slow.aclose()
        await served.send_all(frame)
        await wait_all_tasks_blocked()
        await served.send_eof()  # type: ignore[attr-defined]
        _, refusal = await answers(served)
        assert refusal.correlation_id == 5, f"{large} was read"
        nursery.cancel_scope.cancel()


async def test_a_request_that_no_controller_accepts_is_not_sent() -> None:
    service = Service()
    async with connected(service) as connection:
        names = tuple("x" * 10_000 + str(number) for number in range(120))
        with pytest.raises(KafkaError) as caught:
            await connection.request(m.DeleteTopics(names))
        assert caught.value.code == ErrorCode.POLICY_VIOLATION
        assert await connection.request(m.DescribeQuorum()) == QUORUM


async def test_an_answer_nobody_waits_for_any_more_is_dropped() -> None:
    service = Service()
    async with connected(service) as connection:
        with trio.move_on_after(0.01):
            await connection.request(m.FetchMetadata(5, 1000))
        service.let_go.set()
        assert await connection.request(m.DescribeQuorum()) == QUORUM


async def test_a_connection_reads_only_so_many_requests_ahead() -> None:
    service = Service()
    async with connected(service) as connection, trio.open_nursery() as nursery:
        for _ in range(REQUESTS_IN_FLIGHT_MAX + 10):
            nursery.start_soon(connection.request, m.FetchMetadata(1, 1))
        await wait_all_tasks_blocked()
        assert service.waiting == REQUESTS_IN_FLIGHT_MAX
        service.let_go.set()


async def test_requests_fail_when_the_connection_breaks() -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        await theirs.send_all(encode_frame(Frame(0, GREETING)))
        connection = await connect_control(ours, HELLO)
        nursery.start_soon(connection.run)

        async def hang_up() -> None:
            await wait_all_tasks_blocked()
            await theirs.aclose()

        nursery.start_soon(hang_up)
        with pytest.raises(NetworkError, match="broke"):
            await connection.request(m.DescribeQuorum())
        with pytest.raises(NetworkError, match="broken"):
            await connection.request(m.DescribeQuorum())
        await connection.aclose()


async def test_a_request_on_a_stream_that_is_gone_fails() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(encode_frame(Frame(0, GREETING)))
    connection = await connect_control(ours, HELLO)
    await theirs.aclose()
    with pytest.raises(NetworkError, match="broke"):
        await connection.request(m.DescribeQuorum())


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 400 Bad Request\r\n", "no controller"),
        (encode_frame(Frame(0, QUORUM)), "no controller"),
        (b"\0\0\0\x09\xa0", "ended within a frame"),
    ],
)
async def test_what_is_no_controller_is_noticed(reply: bytes, complaint: str) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(reply)
    await theirs.send_eof()
    with pytest.raises(NetworkError, match=complaint):
        await connect_control(ours, HELLO)


async def test_a_silent_other_side_is_given_up(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    with pytest.raises(NetworkError, match="does not answer"):
        await connect_control(ours, HELLO)
    await theirs.aclose()


async def test_a_refused_hello_is_an_error_and_ends_the_connection() -> None:
    async with raw() as stream:
        with pytest.raises(KafkaError) as caught:
            await connect_control(stream, m.Hello("other", 7))
        assert caught.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


HELLO_FRAME = encode_frame(Frame(0, HELLO))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x01\xff",
        (5000).to_bytes(4, "big") + bytes(5000),
        encode_frame(Frame(0, m.DescribeQuorum())),
        b"\0\0\0\x05\xa1",
    ],
)
async def test_whoever_does_not_begin_with_hello_is_cut_off(sent: bytes) -> None:
    async with raw() as stream:
        await stream.send_all(sent)
        await stream.send_eof()  # type: ignore[attr-defined]
        assert await answers(stream) == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x01\xff",
        encode_frame(Frame(1, QUORUM)),
        b"\0\0\0\x05\xa1",
    ],
)
async def test_whoever_sends_no_requests_after_hello_is_cut_off(sent: bytes) -> None:
    async with raw() as stream:
        await stream.send_all(HELLO_FRAME + sent)
        await stream.send_eof()  # type: ignore[attr-defined]
        assert await answers(stream) == [Frame(0, GREETING)]


async def test_a_request_of_the_future_is_answered_as_unsupported() -> None:
    body = dump_cbor({1: 999, 2: 5, 3: {}})
    async with raw() as stream:
        await stream.send_all(HELLO_FRAME + len(body).to_bytes(4, "big") + body)
        await wait_all_tasks_blocked()
        await stream.send_eof()  # type: ignore[attr-defined]
        _, answer = await answers(stream)
        assert answer.correlation_id == 5
        assert isinstance(answer.message, m.ErrorAnswer)
        assert answer.message.code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_client_that_says_nothing_is_cut_off(autojump_clock: MockClock) -> None:
    async with raw() as stream:
        assert await answers(stream) == []
    async with raw() as stream:
        await stream.send_all(HELLO_FRAME + b"\0\0\0\x05\xa1")
        assert await answers(stream) == [Frame(0, GREETING)]


async def test_frames_arrive_in_any_pieces() -> None:
    async with raw() as stream:
        for byte in HELLO_FRAME + encode_frame(Frame(9, m.DescribeQuorum())):
            await stream.send_all(bytes([byte]))
        await wait_all_tasks_blocked()
        await stream.send_eof()  # type: ignore[attr-defined]
        assert await answers(stream) == [Frame(0, GREETING), Frame(9, QUORUM)]


async def test_a_cancelled_request_that_was_half_sent_ends_the_connection() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(encode_frame(Frame(0, GREETING)))
    connection = await connect_control(ours, HELLO)

    async def never() -> None:
        await trio.sleep_forever()

    ours.send_stream.send_all_hook = never
    with trio.move_on_after(0.01):
        await connection.request(m.DescribeQuorum())
    with pytest.raises(NetworkError):
        await connection.request(m.DescribeQuorum())
