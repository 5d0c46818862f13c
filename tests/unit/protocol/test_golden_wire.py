"""Requests that other people's clients really sent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from quorate.protocol.apis import APIS
from quorate.protocol.frames import RequestHeader, encode_request, read_request_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.protocol.messages.session import ApiVersionsRequest
from quorate.protocol.messages.transactions import InitProducerIdRequest

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
LIBRDKAFKA = "librdkafka-2.16.0"
KAFKA_PYTHON = "kafka-python-3.0.12"


class Recorded(NamedTuple):
    """A request as its client sent it."""

    client: str
    api_name: str
    version: int
    frame: bytes


def recorded() -> Iterator[Recorded]:
    """Reads entries of a line with name and version, and indented lines of bytes."""
    for path in sorted(GOLDEN.glob("*.txt")):
        for entry in path.read_text().split("\n\n")[1:]:
            title, _, digits = entry.partition("\n")
            name, _, version = title.partition(" ")
            yield Recorded(path.stem, name, int(version), bytes.fromhex(digits))


def decode(frame: bytes) -> tuple[RequestHeader, Any]:
    header, pos = read_request_header(frame, 0, len(frame))
    found, pos = decoder(APIS[header.api_key].request, header.api_version)(frame, pos, len(frame))
    assert pos == len(frame)
    return header, found


@pytest.mark.parametrize("request_", list(recorded()), ids=lambda r: f"{r.client} {r.api_name}")
def test_what_clients_sent_is_read_and_would_be_sent_the_same_way(request_: Recorded) -> None:
    header, body = decode(request_.frame)
    api = APIS[header.api_key]
    assert (api.name, header.api_version) == (request_.api_name, request_.version)
    assert header.client_id == "golden"
    again = encode_request(api, header.api_version, header.correlation_id, "golden", body)
    assert again[4:] == request_.frame


EXPECTED: dict[tuple[str, str], Any] = {
    (LIBRDKAFKA, "ApiVersions"): ApiVersionsRequest(
        client_software_name="confluent-kafka-python",
        client_software_version="2.16.1-rdkafka-2.16.0",
    ),
    (KAFKA_PYTHON, "ApiVersions"): ApiVersionsRequest(
        client_software_name="kafka-python", client_software_version="3.0.12"
    ),
    (LIBRDKAFKA, "FindCoordinator"): FindCoordinatorRequest(key="g", key_type=0),
    (LIBRDKAFKA, "InitProducerId"): InitProducerIdRequest(transaction_timeout_ms=-1),
    (LIBRDKAFKA, "Metadata"): MetadataRequest(
        topics=[MetadataRequestTopic(name="events")], allow_auto_topic_creation=True
    ),
    (LIBRDKAFKA, "ListOffsets"): ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[
            ListOffsetsTopic(
                name="events",
                partitions=[ListOffsetsPartition(current_leader_epoch=3, timestamp=-1)],
            )
        ],
    ),
    (LIBRDKAFKA, "Fetch"): FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=52428800,
        isolation_level=1,
        topics=[
            FetchTopic(
                topic_id=bytes(range(16)),
                partitions=[FetchPartition(current_leader_epoch=3, partition_max_bytes=1048576)],
            )
        ],
    ),
}


@pytest.mark.parametrize(("client", "name"), EXPECTED)
def test_what_clients_sent_means_what_they_meant(client: str, name: str) -> None:
    (frame,) = [r.frame for r in recorded() if (r.client, r.api_name) == (client, name)]
    assert decode(frame)[1] == EXPECTED[client, name]


def test_the_batch_that_librdkafka_produced_is_found_in_the_request() -> None:
    (frame,) = [r.frame for r in recorded() if (r.client, r.api_name) == (LIBRDKAFKA, "Produce")]
    body: ProduceRequest = decode(frame)[1]
    assert (body.acks, body.timeout_ms, body.transactional_id) == (-1, 30_000, None)
    assert body.topic_data == [
        TopicProduceData(
            name="events",
            partition_data=[PartitionProduceData(index=0, records=memoryview(frame[38:118]))],
        )
    ]
