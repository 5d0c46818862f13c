"""Whatever a peer sends, decoding ends soon, takes memory in proportion, and fails in one way."""

import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.protocol.apis import APIS, Api
from quorate.protocol.fields import FIXED, Field, layout_of
from quorate.protocol.frames import read_request_header
from quorate.protocol.message import decoder, encoder
from quorate.protocol.messages.data import (
    PRODUCE_ELEMENTS_MAX,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.groups import HeartbeatRequest
from quorate.protocol.primitives import DecodeError

MUTATIONS = 40
FLOOD_BYTES = 64 * 1024
FLOOD_MS_MAX = 1000
OBJECT_BYTES_PER_WIRE_BYTE_MAX = 80
ELEMENTS = 500

everywhere = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


def encode(message: Any, version: int) -> bytes:
    parts: list[Any] = []
    cls: type[Any] = message.__class__
    encoder(cls, version)(message, parts)
    return b"".join(parts)


def instance(cls: type[Any], rng: random.Random) -> Any:
    """Makes a message in which every list has elements and hardly anything is null."""
    return cls(**{field.name: value(field, rng) for field in layout_of(cls).fields})


def value(field: Field, rng: random.Random) -> Any:
    if field.is_array:
        return [element(field, rng) for _ in range(rng.randrange(1, 3))]
    return element(field, rng)


def element(field: Field, rng: random.Random) -> Any:
    if field.struct is not None:
        return instance(field.struct, rng)
    if field.kind == "string":
        return rng.choice(("a", "topic", "x" * 130))
    if field.kind in {"bytes", "records"}:
        return rng.randbytes(rng.randrange(200))
    if field.kind == "uuid":
        return rng.randbytes(16)
    return rng.randrange(min(100, 1 << (8 * FIXED[field.kind].size_bytes - 1)))


def each_version(api: Api) -> Iterator[tuple[type[Any], int]]:
    for version in range(api.min_version, api.max_version + 1):
        yield api.request, version
        yield api.response, version


def mutate(encoded: bytes, rng: random.Random) -> bytes:
    """Overwrites, removes or repeats a few bytes; large numbers are likely, as they hurt most."""
    mutated = bytearray(encoded)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(mutated) + 1)
        action = rng.randrange(4)
        if action == 0:
            mutated[at : at + 1] = rng.choice((b"\xff", b"\x7f", b"\x80", b"\x00", b"\x01"))
        elif action == 1:
            mutated[at : at + 5] = b"\xff\xff\xff\xff\x07"
        elif action == 2:
            del mutated[at : at + rng.randrange(5)]
        else:
            mutated[at:at] = mutated[at : at + rng.randrange(20)]
    return bytes(mutated)


@everywhere
def test_damaged_messages_are_read_or_refused(api: Api) -> None:
    rng = random.Random(api.name)
    for cls, version in each_version(api):
        encoded = encode(instance(cls, rng), version)
        for _ in range(MUTATIONS):
            damaged = mutate(encoded, rng)
            end = rng.choice((len(damaged), rng.randrange(len(damaged) + 1)))
            try:
                _, pos = decoder(cls, version)(damaged, 0, end)
            except DecodeError:
                continue
            assert pos <= end


@everywhere
def test_messages_that_are_cut_off_are_refused(api: Api) -> None:
    rng = random.Random(api.name)
    for cls, version in ((api.request, api.max_version), (api.response, api.min_version)):
        encoded = encode(instance(cls, rng), version)
        for end in range(len(encoded)):
            with pytest.raises(DecodeError):
                decoder(cls, version)(encoded, 0, end)


@pytest.mark.parametrize(
    "pattern", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff\x07"]
)
def test_floods_of_one_pattern_are_over_soon(pattern: bytes) -> None:
    flood = pattern * (FLOOD_BYTES // len(pattern))
    start = time.process_time()
    for api in APIS.values():
        for cls in (api.request, api.response):
            try:
                decoder(cls, api.max_version)(flood, 0, len(flood))
            except DecodeError:
                continue
    assert time.process_time() - start < FLOOD_MS_MAX / 1000 * len(APIS)


@everywhere
def test_memory_is_in_proportion_to_the_frame(api: Api) -> None:
    for cls in (api.request, api.response):
        for field in layout_of(cls).fields:
            if not field.is_array or api.max_version not in field.versions:
                continue
            many = [field.struct()] if field.struct else [element(field, random.Random(1))]
            flood = encode(cls(**{field.name: many * ELEMENTS}), api.max_version)
            read = decoder(cls, api.max_version)
            tracemalloc.start()
            kept = read(flood, 0, len(flood))
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert kept[1] == len(flood)
            assert peak_bytes < OBJECT_BYTES_PER_WIRE_BYTE_MAX * len(flood), (cls, field.name)


@pytest.mark.parametrize("version", [3, 13])
def test_the_one_request_that_may_be_large_has_a_bounded_number_of_objects(version: int) -> None:
    empty, half = PartitionProduceData(records=memoryview(b"")), PRODUCE_ELEMENTS_MAX // 2
    for partitions, accepted in ((half - 1, True), (half, False)):
        topic = TopicProduceData(partition_data=[empty] * partitions)
        flood = encode(ProduceRequest(topic_data=[topic, topic]), version)
        read = decoder(ProduceRequest, version)
        if accepted:
            assert len(read(flood, 0, len(flood))[0].topic_data) == 2
        else:
            with pytest.raises(DecodeError, match="more than 100000 elements"):
                read(flood, 0, len(flood))


def test_damaged_headers_are_read_or_refused() -> None:
    rng = random.Random(1)
    header = bytes.fromhex("0000 0009 0000002a 0002") + b"me\x01\x05\x03abc"
    for _ in range(2000):
        damaged = mutate(header, rng)
        try:
            _, pos = read_request_header(damaged, 0, len(damaged))
        except DecodeError:
            continue
        assert pos <= len(damaged)


def test_no_string_is_longer_than_two_bytes_can_say() -> None:
    """Compact strings could be, and then would not fit into the records that name them."""
    fits = encode(HeartbeatRequest(group_id="g" * 32_767), 4)
    assert decoder(HeartbeatRequest, 4)(fits, 0, len(fits))[0].group_id == "g" * 32_767
    longer = encode(HeartbeatRequest(group_id="g" * 32_768), 4)
    with pytest.raises(DecodeError, match="group_id: too long"):
        decoder(HeartbeatRequest, 4)(longer, 0, len(longer))
