"""The readers and the writer for single partitions say what the general ones say, or nothing."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, response_encoder
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    PRODUCE_TOPIC_IDS_FROM,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from quorate.protocol.primitives import DecodeError
from quorate.protocol.single_produce import (
    VERSION_MIN,
    read_sound_produce,
    single_produce_reader,
    single_produce_writer,
    sound_produce_reader,
)
from quorate.records.batch import BatchHeader, parse_header
from quorate.records.compiled import load_compiled
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.unit.broker.log.batches import make_batch

API = APIS[ApiKey.PRODUCE]
COMPILED = load_compiled("_batch")
SIZE_BYTES = 4
BODY_AT = 14
"""Behind size and header, without a client id and in versions that are not flexible."""


def view_of(data: bytes) -> memoryview:
    return memoryview(data)


versions = st.integers(API.min_version, API.max_version)
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=40) | st.text("a", min_size=100, max_size=300)
partitions = st.builds(
    PartitionProduceData,
    index=int32s,
    records=st.none() | st.binary(max_size=300).map(view_of),
)
topics = st.builds(
    TopicProduceData,
    name=names,
    topic_id=st.binary(min_size=16, max_size=16),
    partition_data=st.lists(partitions, min_size=1, max_size=1) | st.lists(partitions, max_size=3),
)
requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | st.none() | st.text(max_size=5),
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=int32s,
    topic_data=st.lists(topics, min_size=1, max_size=1) | st.lists(topics, max_size=3),
)


def body_of(request: ProduceRequest, version: int) -> bytearray:
    frame = encode_request(API, version, 1, None, request)
    return bytearray(frame[BODY_AT + API.is_flexible(version) :])


def is_single(request: ProduceRequest) -> bool:
    counts = [len(topic.partition_data) for topic in request.topic_data]
    return request.transactional_id is None and counts == [1]


def agrees(body: bytearray, version: int, start: int) -> bool:
    """Whether there is a reading; if so, it must be the general reader's."""
    end = len(body)
    read = single_produce_reader(version)(body, start, end)
    if read is None:
        return False
    request, stop = decoder(ProduceRequest, version)(body, start, end)
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    by_id = version >= PRODUCE_TOPIC_IDS_FROM
    assert stop == end
    assert request.transactional_id is None
    assert (read.acks, read.timeout_ms) == (request.acks, request.timeout_ms)
    assert read.partition == data.index
    assert read.topic == (topic.topic_id if by_id else topic.name)
    assert bytes(body[read.records_at : read.records_end]) == bytes(data.records or b"")
    assert data.records is not None
    return True


@given(requests, versions, st.binary(max_size=5))
def test_what_it_reads_is_what_the_general_reader_reads(
    request: ProduceRequest, version: int, before: bytes
) -> None:
    was_read = agrees(bytearray(before) + body_of(request, version), version, len(before))
    assert not was_read or is_single(request)


@given(requests.filter(is_single), versions)
def test_it_reads_every_request_for_a_single_partition(
    request: ProduceRequest, version: int
) -> None:
    (topic,) = request.topic_data
    long = API.is_flexible(version) and len(topic.name.encode()) > 126
    named = version < PRODUCE_TOPIC_IDS_FROM
    has_records = topic.partition_data[0].records is not None
    assert agrees(body_of(request, version), version, 0) == (has_records and not (long and named))


@given(requests.filter(is_single), versions, st.data())
def test_damaged_bytes_are_read_as_the_general_reader_reads_them_or_not_at_all(
    request: ProduceRequest, version: int, data: st.DataObject
) -> None:
    body = body_of(request, version)
    head = st.integers(0, min(30, len(body) - 1))
    tail = st.integers(max(0, len(body) - 4), len(body) - 1)
    for _ in range(data.draw(st.integers(1, 2))):
        body[data.draw(head | tail)] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    cut = body[: data.draw(st.integers(0, len(body)))]
    for damaged in (body, cut, body + b"\0"):
        try:
            agrees(damaged, version, 0)
        except DecodeError:
            pytest.fail("the general reader refuses what the other one reads")


@given(
    names,
    st.binary(min_size=16, max_size=16),
    int32s,
    st.tuples(int64s, int64s, int64s),
    versions.filter(lambda version: version >= 5),
)
def test_an_answer_is_the_general_writer_s(
    name: str, topic_id: bytes, index: int, places: tuple[int, int, int], version: int
) -> None:
    base_offset, append_time_ms, log_start_offset = places
    name = name.encode()[:126].decode(errors="ignore")
    data = PartitionProduceData(index=index, records=memoryview(b"batch"))
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    body = body_of(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), version)
    read = single_produce_reader(version)(body, 0, len(body))
    assert read is not None
    answered = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
    )
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[answered])
        ]
    )
    parts = cast("list[Any]", response_encoder(API, version)(77, response))
    with pytest.MonkeyPatch.context() as patch:
        for pure in ("0", "1"):
            patch.setenv("QUORATE_PURE_PYTHON", pure)
            written = single_produce_writer(version)(77, read.echo, *places)
            assert written == b"".join(parts)


# --- requests with a sound batch

batches = st.builds(
    make_batch,
    st.lists(st.binary(max_size=20), min_size=1, max_size=3),
    producer=st.sampled_from([NO_PRODUCER, ProducerStamp(7, 1, 5)]),
)
sound_requests = st.builds(
    ProduceRequest,
    acks=st.sampled_from([1, -1, 0, 7]),
    timeout_ms=int32s,
    topic_data=st.builds(
        TopicProduceData,
        name=st.text(max_size=30),
        topic_id=st.binary(min_size=16, max_size=16),
        partition_data=st.builds(PartitionProduceData, index=int32s, records=batches).map(
            lambda data: [data]
        ),
    ).map(lambda topic: [topic]),
)
short_versions = st.integers(VERSION_MIN, API.max_version)
client_ids = st.none() | st.text(max_size=5)


def frame_of(request: ProduceRequest, version: int, client_id: str | None) -> bytearray:
    return bytearray(encode_request(API, version, 77, client_id, request)[SIZE_BYTES:])


def both(buffer: bytearray, start: int, end: int) -> Any:
    """Return what the twins read, which is the same."""
    read: Any = read_sound_produce(buffer, start, end)
    if COMPILED is not None:
        assert COMPILED.sound_produce(BatchHeader, buffer, start, end) == read
    return read


@given(sound_requests, short_versions, client_ids, st.binary(max_size=4))
def test_a_sound_request_is_read_with_its_header(
    request: ProduceRequest, version: int, client_id: str | None, around: bytes
) -> None:
    frame = frame_of(request, version, client_id)
    buffer = bytearray(around) + frame + around
    read = both(buffer, len(around), len(around) + len(frame))
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    assert read[:4] == (version, 77, request.acks, request.timeout_ms)
    assert read[4:6] == (topic.topic_id if version >= 13 else topic.name, data.index)
    batch = memoryview(buffer)[read[7] : read[8]]
    assert batch == data.records
    assert read[9] == parse_header(batch, 0)
    assert both(buffer, len(around), len(around) + len(frame) + len(around)) is None or not around


@given(
    sound_requests | requests,
    versions,
    client_ids,
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3),
    st.integers(-3, 3),
)
def test_the_twins_read_the_same_of_anything(
    request: ProduceRequest,
    version: int,
    client_id: str | None,
    damage: list[tuple[int, int]],
    longer: int,
) -> None:
    frame = frame_of(request, version, client_id)
    for at, value in damage:
        frame[at % len(frame)] = value
    both(frame, 0, min(len(frame), max(0, len(frame) + longer)))
    whole = bytes(frame)
    for end in range(0, len(frame), 7):
        assert both(frame, 0, end) is None
        assert both(frame[:end], 0, end) is None
    assert bytes(frame) == whole


def test_several_batches_and_none_are_left_to_the_general_reader() -> None:
    for records in (make_batch([b"a"]).tobytes() + make_batch([b"b"]).tobytes(), b""):
        data = PartitionProduceData(index=0, records=view_of(records))
        topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
        for version in range(VERSION_MIN, API.max_version + 1):
            frame = frame_of(request, version, "client")
            assert both(frame, 0, len(frame)) is None


def test_tagged_fields_in_the_header_are_left_to_the_general_reader() -> None:
    data = PartitionProduceData(index=0, records=make_batch([b"a"]))
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=[data])
    frame = frame_of(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9, None)
    tagged = frame[:10] + b"\1\0\1x" + frame[11:]
    assert both(frame, 0, len(frame)) is not None
    assert both(tagged, 0, len(tagged)) is None


@pytest.mark.skipif(COMPILED is None, reason="not compiled here")
def test_the_compiled_reader_is_taken_and_refuses_what_would_harm_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = PartitionProduceData(index=0, records=make_batch([b"a"]))
    topic = TopicProduceData(name="t", topic_id=bytes(16), partition_data=[data])
    frame = frame_of(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9, None)
    end = len(frame)
    assert sound_produce_reader()(frame, 0, end) == both(frame, 0, end)
    for arguments in [(), (BatchHeader, frame, 0), (dict, frame, 0, end), (7, frame, 0, end)]:
        with pytest.raises(TypeError):
            COMPILED.sound_produce(*arguments)
    for wrong in [("text", 0, 1), (frame, "0", 1), (frame, 0, "1"), (frame, 0, None)]:
        with pytest.raises(TypeError):
            COMPILED.sound_produce(BatchHeader, *wrong)
    for large in [(2**70, end), (0, 2**70)]:
        with pytest.raises(OverflowError):
            COMPILED.sound_produce(BatchHeader, frame, *large)
    for start, stop in [(-1, end), (0, end + 1), (5, 4), (2**62, 2**62), (0, -1), (-5, -1)]:
        assert COMPILED.sound_produce(BatchHeader, frame, start, stop) is None
    monkeypatch.setenv("QUORATE_PURE_PYTHON", "1")
    assert sound_produce_reader() is read_sound_produce


@pytest.mark.skipif(COMPILED is None, reason="not compiled here")
def test_the_compiled_writer_refuses_what_would_harm_it() -> None:
    for wrong in [
        (),
        (b"", b"", 1, b"echo", 0, 0),
        ("", b"", 1, b"echo", 0, 0, 0),
        (b"", None, 1, b"echo", 0, 0, 0),
        (b"", b"", "1", b"echo", 0, 0, 0),
        (b"", b"", 1, "echo", 0, 0, 0),
        (b"", b"", 1, b"echo", 0, None, 0),
    ]:
        with pytest.raises(TypeError):
            COMPILED.single_answer(*wrong)
    with pytest.raises(OverflowError):
        COMPILED.single_answer(b"", b"", 1, b"echo", 2**63, 0, 0)
