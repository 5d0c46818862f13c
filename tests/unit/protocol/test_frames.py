"""Frames, headers, and the stream that they come from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.frames import (
    FrameBuffer,
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
    request_body_at,
)
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.session import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from quorate.protocol.primitives import DecodeError

UNSUPPORTED_VERSION = 35
FRAME_BYTES_MAX = 1000

every_version = pytest.mark.parametrize(
    ("api", "version"),
    [(api, v) for api in APIS.values() for v in range(api.min_version, api.max_version + 1)],
    ids=lambda value: value.name if isinstance(value, Api) else str(value),
)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@every_version
def test_requests_are_read_as_they_were_written(api: Api, version: int) -> None:
    body = api.request()
    encoded = encode_request(api, version, 77, "me", body)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    header, pos = read_request_header(encoded, 4, len(encoded))
    assert header == RequestHeader(api.key, version, 77, "me")
    assert decoder(api.request, version)(encoded, pos, len(encoded)) == (body, len(encoded))


@every_version
def test_responses_are_read_as_they_were_written(api: Api, version: int) -> None:
    body = api.response()
    parts: list[Any] = encode_response(api, version, 77, body)
    encoded = b"".join(parts)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    correlation_id, pos = read_response_header(encoded, 4, len(encoded), api, version)
    assert correlation_id == 77
    assert decoder(api.response, version)(encoded, pos, len(encoded)) == (body, len(encoded))


def test_a_client_need_not_have_a_name() -> None:
    encoded = encode_request(APIS[ApiKey.METADATA], 12, 1, None, APIS[ApiKey.METADATA].request())
    assert read_request_header(encoded, 4, len(encoded))[0].client_id is None


def test_records_in_a_request_end_up_in_the_frame() -> None:
    partition = PartitionProduceData(index=3, records=memoryview(b"batch"))
    topic = TopicProduceData(name="events", partition_data=[partition])
    encoded = encode_request(APIS[0], 9, 1, "me", ProduceRequest(topic_data=[topic]))
    assert b"batch" in encoded


class Slice:
    def __len__(self) -> int:
        return 5000


def test_opaque_records_count_for_the_size_and_stay_as_they_are() -> None:
    records = Slice()
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])
    for version in (11, 12):
        parts = encode_response(APIS[1], version, 1, FetchResponse(responses=[topic]))
        assert any(part is records for part in parts)
        assert isinstance(parts[0], bytearray)
        assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


def test_a_response_that_ends_in_records_has_no_empty_part_behind_them() -> None:
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"batch")])
    parts = encode_response(APIS[1], 4, 1, FetchResponse(responses=[topic]))
    assert parts[-1] == b"batch"


def test_the_header_of_an_unknown_api_is_read_up_to_the_client_id() -> None:
    encoded = bytes.fromhex("7fff 0003 0000002a 0002") + b"me" + b"whatever"
    header, _ = read_request_header(encoded, 0, len(encoded))
    assert header == RequestHeader(0x7FFF, 3, 42, "me")


def test_the_header_of_an_unknown_version_is_flexible_like_the_last_one_known() -> None:
    encoded = bytes.fromhex("0012 0063 0000002a ffff 01 05 01 78") + b"body"
    header, pos = read_request_header(encoded, 0, len(encoded))
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 42, None)
    assert encoded[pos:] == b"body"


def test_api_versions_are_answered_behind_the_oldest_header_so_that_anybody_can_read_them() -> None:
    api = APIS[ApiKey.API_VERSIONS]
    known = ApiVersion(api_key=api.key, min_version=0, max_version=4)
    body = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[known])
    encoded: Any
    newest: Any
    (encoded,) = encode_response(api, 0, 7, body)
    assert encoded.hex(" ", 2) == "0000 0010 0000 0007 0023 0000 0001 0012 0000 0004"
    (newest,) = encode_response(api, 4, 7, ApiVersionsResponse())
    assert newest[8:10] == b"\x00\x00", "the error code follows the correlation id"


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "0012 0000",
        "0012 0000 00000001 fffe",
        "0012 0000 00000001 0005 61",
        "0012 0003 00000001 ffff",
        "0012 0003 00000001 ffff 01 01 7f",
        "0012 0003 00000001 0001 80 00",
    ],
)
def test_headers_that_make_no_sense_are_refused(encoded: str) -> None:
    buffer = bytes.fromhex(encoded)
    with pytest.raises(DecodeError):
        read_request_header(buffer, 0, len(buffer))


def test_tagged_fields_of_a_header_end_where_the_frame_ends() -> None:
    buffer = bytes.fromhex("01 00 05") + bytes(20)  # one tagged field of five bytes
    assert request_body_at(buffer, 0, 8, -1, flexible=True) == 8
    with pytest.raises(DecodeError):
        request_body_at(buffer, 0, 7, -1, flexible=True)
    with pytest.raises(DecodeError, match="does not fit"):
        request_body_at(bytes.fromhex("80 00"), 0, 1, -1, flexible=True)


def test_headers_end_where_the_frame_ends() -> None:
    encoded = encode_request(APIS[18], 3, 1, "me", ApiVersionsRequest())
    for end in range(4, 17):
        with pytest.raises(DecodeError):
            read_request_header(encoded, 4, end)


@pytest.mark.parametrize(
    ("version", "encoded"), [(4, "000000"), (12, "00000001"), (12, "00000001 01")]
)
def test_response_headers_that_are_cut_off_are_refused(version: int, encoded: str) -> None:
    buffer = bytes.fromhex(encoded)
    with pytest.raises(DecodeError):
        read_response_header(buffer, 0, len(buffer), APIS[1], version)
    with pytest.raises(DecodeError):
        read_response_header(buffer + bytes(8), 0, len(buffer), APIS[1], version)


# --- the stream --------------------------------------------------------------


@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.integers(1, 20)))
def test_frames_come_out_whole_however_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(frame(body) for body in bodies)
    frames = FrameBuffer(FRAME_BYTES_MAX)
    found: list[bytes] = []
    for size in [*cuts, len(stream)]:
        frames.feed(stream[:size])
        stream = stream[size:]
        while (each := frames.next_frame()) is not None:
            found.append(bytes(each))
    assert found == bodies
    assert len(frames) == 0


def test_a_frame_belongs_to_whoever_took_it() -> None:
    frames = FrameBuffer(FRAME_BYTES_MAX)
    frames.feed(frame(b"first") + frame(b"second"))
    first, second = frames.next_frame(), frames.next_frame()
    frames.feed(frame(b"third"))
    assert first is not None
    first[0] = ord("F")
    with memoryview(first):
        assert frames.next_frame() == bytearray(b"third")
    assert (first, second) == (bytearray(b"First"), bytearray(b"second"))


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_frames_that_are_too_large_are_refused_before_they_arrive(size: int) -> None:
    frames = FrameBuffer(FRAME_BYTES_MAX)
    frames.feed(size.to_bytes(4, "big", signed=True))
    with pytest.raises(DecodeError, match="at most 1000 are allowed"):
        frames.next_frame()


def test_an_alert_of_tls_is_no_large_frame() -> None:
    frames = FrameBuffer(FRAME_BYTES_MAX)
    frames.feed(bytes.fromhex("15030300020246"))
    with pytest.raises(DecodeError, match="is TLS spoken on one side only"):
        frames.next_frame()


def test_a_frame_may_be_as_large_as_allowed_and_the_limit_may_rise() -> None:
    frames = FrameBuffer(10)
    frames.feed(frame(bytes(10)))
    assert frames.next_frame() == bytearray(10)
    frames.frame_bytes_max = 20
    frames.feed(frame(bytes(20)))
    assert frames.next_frame() == bytearray(20)


def test_the_size_of_a_frame_is_known_before_all_of_it_has_come() -> None:
    frames = FrameBuffer(FRAME_BYTES_MAX)
    for chunk, awaited in ((b"\0\0", 0), (b"\0\5", 5), (b"abc", 5)):
        frames.feed(chunk)
        assert frames.next_frame() is None
        assert frames.awaited_bytes == awaited
    frame = bytearray(5)
    assert frames.move_into(frame) == 3
    assert (bytes(frame), len(frames), frames.awaited_bytes) == (b"abc\0\0", 0, 0)
