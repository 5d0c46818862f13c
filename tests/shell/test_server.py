"""Requests become answers in turns; nothing that one client sends harms another."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.handlers.context import Caller
from quorate.broker.handlers.table import HANDLERS
from quorate.broker.server import RequestServer
from quorate.net.connection import AnswerSlot, Connection, FrameRefusedError, Service
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, read_response_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.groups import JoinGroupRequest
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.protocol.messages.session import ApiVersionsRequest
from quorate.records.slices import FileSlice
from tests.unit.broker.harness import Node, new_node, stored
from tests.unit.broker.log.batches import make_batch

VERSIONS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.API_VERSIONS: 3,
}


class Wire(Connection):
    """A connection to nowhere: what it is to send is what the test reads."""

    def __init__(self, service: Service) -> None:
        super().__init__("test", service)
        self.service = service
        self.widened = 0
        self.hung_up = False

    def widen(self) -> None:
        self.widened += 1

    def hang_up(self) -> None:
        self.hung_up = True

    def flush(self) -> None:
        self.collect()
        if self.stalled and self.may_read:
            self.resume()

    def receive(self, data: bytes) -> None:
        """Take bytes in a turn of their own."""
        self.service.begin_turn()
        self.space()[: len(data)] = data
        self.received(len(data))
        self.service.end_turn()

    def request(self, key: ApiKey, body: Any, correlation_id: int = 0) -> None:
        self.receive(encode_request(APIS[key], VERSIONS[key], correlation_id, "test", body))

    def correlation_ids(self) -> list[int]:
        """Return the ids of the answers that were sent."""
        data, ids = self.sent(), list[int]()
        while data:
            size_bytes, correlation_id = struct.unpack_from(">ii", data)
            ids.append(correlation_id)
            data = data[4 + size_bytes :]
        return ids

    def sent(self) -> bytes:
        parts = [stored(p) if isinstance(p, FileSlice) else bytes(p) for p in self.out]
        self.out.clear()
        self.unsent_bytes = 0
        return b"".join(parts)

    def answer(self, key: ApiKey, version: int | None = None) -> Any:
        """Return the one answer that was sent."""
        data, api = self.sent(), APIS[key]
        known = VERSIONS[key] if version is None else version
        (size_bytes,) = struct.unpack_from(">i", data)
        assert len(data) == 4 + size_bytes
        _, position = read_response_header(data, 4, len(data), api, known)
        response, end = decoder(api.response, known)(data, position, len(data))
        assert end == len(data)
        return response


def new_server(texts: dict[str, str] | None = None) -> tuple[Node, RequestServer]:
    node = new_node(texts)
    node.join()
    node.create_topic("appLogs")
    return node, RequestServer(node.broker, lambda: 1.0)


def connect(server: RequestServer) -> Wire:
    return Wire(server.service("PLAINTEXT"))


def metadata_of(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def produce_of(value: bytes, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(bytes(make_batch([value]))))
    topic = TopicProduceData(name="appLogs", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def long_poll() -> FetchRequest:
    partition = FetchPartition(partition=0, partition_max_bytes=1000)
    topic = FetchTopic(topic="appLogs", partitions=[partition])
    return FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[topic])


def test_a_request_is_answered_in_its_version() -> None:
    _, server = new_server()
    wire = connect(server)
    wire.request(ApiKey.METADATA, metadata_of("appLogs"))
    assert wire.answer(ApiKey.METADATA).topics[0].name == "appLogs"


def test_what_a_client_sends_behind_a_request_is_ignored() -> None:
    _, server = new_server()
    wire = connect(server)
    frame = bytearray(encode_request(APIS[ApiKey.METADATA], 12, 0, "test", metadata_of("appLogs")))
    frame += b"?"
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    wire.receive(bytes(frame))
    assert wire.answer(ApiKey.METADATA).topics[0].name == "appLogs"


def test_tagged_fields_in_a_header_are_skipped() -> None:
    _, server = new_server()
    wire = connect(server)
    head = struct.pack(">hhih4s", ApiKey.METADATA, 12, 5, 4, b"test")
    body = head + b"\x01\x07\x02ab" + b"\x01\x00\x00\x00"
    wire.receive(struct.pack(">i", len(body)) + body)
    assert wire.correlation_ids() == [5]


def test_answers_leave_in_the_order_of_requests_also_when_a_later_one_is_ready_first() -> None:
    node, server = new_server()
    reader, writer = connect(server), connect(server)
    reader.request(ApiKey.FETCH, long_poll(), 1)
    reader.request(ApiKey.METADATA, metadata_of(), 2)
    assert reader.sent() == b""
    writer.request(ApiKey.PRODUCE, produce_of(b"a"), 3)
    assert writer.correlation_ids() == [3]
    assert reader.correlation_ids() == [1, 2]
    assert node.leader().log.log_end_offset == 1


def test_what_one_listener_makes_ready_on_another_is_sent_in_the_same_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    promise: Promise[Any] = Promise()
    monkeypatch.setitem(HANDLERS, ApiKey.API_VERSIONS, answering(promise))
    _, server = new_server({"quorate.connection.max.in.flight.requests": "1"})
    first, second = connect(server), connect(server)
    first.request(ApiKey.FETCH, long_poll(), 1)
    stalled = encode_request(APIS[ApiKey.API_VERSIONS], 3, 2, "test", ApiVersionsRequest())
    behind = encode_request(APIS[ApiKey.PRODUCE], 9, 3, "test", produce_of(b"a"))
    second.receive(stalled + behind)
    assert second.stalled
    promise.resolve(APIS[ApiKey.API_VERSIONS].response())
    server.end_turn()
    assert second.correlation_ids() == [2, 3]
    assert first.correlation_ids() == [1]


@pytest.mark.parametrize(("replica_id", "widened"), [(-1, 0), (2, 1)])
def test_what_is_sent_to_a_follower_has_more_room_than_what_a_consumer_is_sent(
    replica_id: int, widened: int
) -> None:
    _, server = new_server()
    wire = connect(server)
    for number in range(3):
        request = long_poll()
        request.replica_id, request.max_wait_ms = replica_id, 0
        wire.request(ApiKey.FETCH, request, number)
    assert wire.widened == widened


@pytest.mark.parametrize(
    ("ours", "followers"), [("163840", 512 * 1024), ("1000000", 1_000_000), ("-1", 0)]
)
def test_a_followers_send_buffer_is_at_least_others_and_the_systems_if_theirs_is(
    ours: str, followers: int
) -> None:
    _, server = new_server({"socket.send.buffer.bytes": ours})
    assert server.service("PLAINTEXT").limits.wide_send_bytes == followers


def test_acks_0_gets_no_answer_and_the_next_request_does() -> None:
    node, server = new_server()
    wire = connect(server)
    wire.request(ApiKey.PRODUCE, produce_of(b"a", acks=0), 1)
    wire.request(ApiKey.METADATA, metadata_of(), 2)
    assert wire.correlation_ids() == [2]
    assert node.leader().log.log_end_offset == 1


def test_acks_0_that_fails_closes_the_connection() -> None:
    node, server = new_server()
    node.lead("appLogs", 0, leader_epoch=1, leader_id=-1)
    with pytest.raises(FrameRefusedError, match="NOT_LEADER_OR_FOLLOWER"):
        connect(server).request(ApiKey.PRODUCE, produce_of(b"a", acks=0))


def test_a_version_of_api_versions_that_is_not_known_is_answered_with_those_that_are() -> None:
    _, server = new_server()
    wire = connect(server)
    frame = bytearray(encode_request(APIS[ApiKey.API_VERSIONS], 3, 9, "test", ApiVersionsRequest()))
    struct.pack_into(">h", frame, 6, 99)
    wire.receive(bytes(frame))
    response = wire.answer(ApiKey.API_VERSIONS, version=0)
    assert response.error_code == 35
    assert ApiKey.PRODUCE in [api.api_key for api in response.api_keys]


# --- what is no request of ours


def head(key: int, version: int, client_id_bytes: int, rest: bytes) -> bytes:
    body = struct.pack(">hhih", key, version, 1, client_id_bytes) + rest
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (head(999, 0, -1, b""), "API key 999 is not served"),
        (head(50, 0, -1, b""), "API key 50 is not served"),
        (head(ApiKey.METADATA, 99, -1, b""), "version 99 is not supported; there are"),
        (head(ApiKey.METADATA, 12, 500, b""), "header does not fit"),
        (head(ApiKey.METADATA, 12, -1, b""), "header does not fit"),
        (head(ApiKey.METADATA, 12, -1, b"\x01\x00\x7f"), "cannot decode"),
        (head(ApiKey.METADATA, 9, -1, b"\x00\x7f"), "cannot decode"),
        (head(ApiKey.METADATA, 1, 500, b""), "cannot decode"),
        (head(ApiKey.METADATA, 1, -1, b"\xff"), "cannot decode"),
        (struct.pack(">iq", 8, 0), "a request of 8 bytes"),
        (struct.pack(">iqb", 9, 0, 0), "a request of 9 bytes"),
    ],
)
def test_what_is_no_request_closes_the_connection(frame: bytes, complaint: str) -> None:
    _, server = new_server()
    with pytest.raises(FrameRefusedError, match=complaint):
        connect(server).receive(frame)


def test_a_header_cut_off_at_the_very_end_of_the_buffer_is_refused_like_any_other() -> None:
    _, server = new_server()
    wire = connect(server)
    capacity = len(wire.buffer)
    wire.start = wire.end = capacity - 12
    with pytest.raises(FrameRefusedError, match="a request of 8 bytes"):
        wire.receive(struct.pack(">iq", 8, 0))
    wire = connect(server)
    tags = head(ApiKey.METADATA, 12, -1, b"\x01\x80")
    wire.start = wire.end = capacity - len(tags)
    with pytest.raises(FrameRefusedError, match="cannot decode"):
        wire.receive(tags)


# --- bugs


def answering(answer: object) -> Callable[..., object]:
    def handler(*_: object) -> object:
        return answer

    return handler


def failing(error: Exception) -> Callable[..., Any]:
    def handler(*_: object) -> Any:
        raise error

    return handler


def test_a_bug_in_a_handler_costs_the_client_its_connection_and_leaves_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = new_server()
    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, failing(KeyError("surprise")))
    with pytest.raises(FrameRefusedError, match="bug in this broker"):
        connect(server).request(ApiKey.METADATA, metadata_of())
    assert "KeyError: 'surprise'" in caplog.text
    assert "API key 3, version 12" in caplog.text
    wire = connect(server)
    wire.request(ApiKey.API_VERSIONS, ApiVersionsRequest())
    assert wire.sent()


def test_an_answer_that_cannot_be_encoded_is_a_bug_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server = new_server()
    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, answering(object()))
    with pytest.raises(FrameRefusedError, match="bug in this broker"):
        connect(server).request(ApiKey.METADATA, metadata_of())


def test_a_broken_invariant_is_not_a_matter_of_one_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server = new_server()
    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, failing(AssertionError("ours")))
    with pytest.raises(AssertionError, match="ours"):
        connect(server).request(ApiKey.METADATA, metadata_of())


# --- members of groups


def test_who_joins_a_group_is_told_apart_by_name_and_host(monkeypatch: pytest.MonkeyPatch) -> None:
    _, server = new_server()
    seen: list[Caller] = []
    monkeypatch.setitem(HANDLERS, ApiKey.JOIN_GROUP, lambda _b, _r, caller: seen.append(caller))
    wire = connect(server)
    wire.peer = "127.0.0.1:4711"
    body = JoinGroupRequest(group_id="g", protocol_type="consumer")
    wire.receive(encode_request(APIS[ApiKey.JOIN_GROUP], 9, 0, "Jürgen", body))
    wire.peer = "[::1]:4711"
    wire.receive(encode_request(APIS[ApiKey.JOIN_GROUP], 9, 0, None, body))
    assert seen == [
        Caller("PLAINTEXT", 9, "Jürgen", "/127.0.0.1"),
        Caller("PLAINTEXT", 9, "", "/::1"),
    ]


def test_a_name_that_is_not_utf_8_is_refused_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server = new_server()
    monkeypatch.setitem(HANDLERS, ApiKey.JOIN_GROUP, answering(None))
    body = JoinGroupRequest(group_id="g", protocol_type="consumer")
    frame = encode_request(APIS[ApiKey.JOIN_GROUP], 9, 0, "name", body).replace(b"name", b"n\xffme")
    with pytest.raises(FrameRefusedError, match="client_id"):
        connect(server).receive(frame)


# --- answers that come later


def test_an_answer_that_comes_later_is_sent_at_the_end_of_the_turn_in_which_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server = new_server()
    promise: Promise[Any] = Promise()
    monkeypatch.setitem(HANDLERS, ApiKey.API_VERSIONS, answering(promise))
    wire = connect(server)
    wire.request(ApiKey.API_VERSIONS, ApiVersionsRequest(), 7)
    assert wire.sent() == b""
    promise.resolve(APIS[ApiKey.API_VERSIONS].response())
    server.end_turn()
    assert wire.correlation_ids() == [7]


def test_a_long_poll_of_a_client_that_is_gone_is_forgotten() -> None:
    node, server = new_server()
    wire = connect(server)
    wire.request(ApiKey.FETCH, long_poll(), 1)
    wire.request(ApiKey.METADATA, metadata_of(), 2)
    assert (len(wire.slots), len(node.leader().read_waiters)) == (2, 1)
    wire.abandon()
    assert (len(wire.slots), len(node.leader().read_waiters)) == (0, 0)
    assert not len(node.broker.deadlines)
    node.append(b"a")
    server.end_turn()
    assert wire.sent() == b""


def test_an_answer_that_comes_later_and_cannot_be_encoded_costs_only_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, server = new_server()
    promise: Promise[Any] = Promise()
    monkeypatch.setitem(HANDLERS, ApiKey.API_VERSIONS, answering(promise))
    wire = connect(server)
    wire.request(ApiKey.API_VERSIONS, ApiVersionsRequest(), 7)
    promise.resolve(object())
    server.end_turn()
    assert wire.hung_up
    assert "a request with API key 18, version 3 failed" in caplog.text


def test_a_broken_invariant_of_an_answer_that_comes_later_is_not_a_matter_of_one_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server = new_server()
    promise: Promise[Any] = Promise()
    monkeypatch.setitem(HANDLERS, ApiKey.API_VERSIONS, answering(promise))
    connect(server).request(ApiKey.API_VERSIONS, ApiVersionsRequest())

    class Broken:
        @property
        def api_keys(self) -> int:
            raise AssertionError("ours")

    with pytest.raises(AssertionError, match="ours"):
        promise.resolve(Broken())


def test_large_answers_behind_one_that_comes_later_are_made_when_there_is_room_for_them() -> None:
    node, server = new_server({"quorate.connection.max.in.flight.bytes": "64K"})
    node.create_topic("wide", 1000)
    wire = connect(server)
    wire.request(ApiKey.FETCH, long_poll(), 0)
    wire.receive(
        b"".join(
            encode_request(APIS[ApiKey.METADATA], 12, number, "test", metadata_of("wide"))
            for number in range(1, 21)
        )
    )
    owed = [slot.parts if isinstance(slot, AnswerSlot) else slot for slot in wire.slots]
    assert 0 < sum(len(parts[0]) for parts in owed if parts) < 3 * 64 * 1024
    node.append(b"a")
    server.end_turn()
    assert wire.correlation_ids() == list(range(21))
    assert wire.in_flight_bytes == 0
