"""A connection on which a test says exactly what it wants, right or wrong."""

import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, read_response_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from tests.compat.clients.model import DEADLINE_S, Server

Records = bytes | bytearray | memoryview | None

CORRELATION_ID = 77
CLIENT_ID = "wire"
TOPIC_IDS_IN_FETCH_FROM = 13
TOPIC_IDS_IN_PRODUCE_FROM = 13


class Wire:
    """One connection; requests go out as they are given, answers are decoded."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """Return what ``select`` waits for."""
        return self._sock.fileno()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._sock.sendall(data)

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        """Send a request and return the decoded answer."""
        self.post(api_key, version, body)
        return self.answer(api_key, version)

    def post(self, api_key: ApiKey, version: int, body: Any) -> None:
        """Send a request."""
        self.send(encode_request(APIS[api_key], version, CORRELATION_ID, CLIENT_ID, body))

    def answer(self, api_key: ApiKey, version: int) -> Any:
        """Return the next answer, decoded as one to this API and version."""
        api = APIS[api_key]
        frame = self.receive_frame()
        correlation_id, pos = read_response_header(frame, 0, len(frame), api, version)
        assert correlation_id == CORRELATION_ID
        message, end = decoder(api.response, version)(frame, pos, len(frame))
        assert end == len(frame), "the answer is longer than its content"
        return message

    def receive_frame(self) -> bytes:
        """Return the next frame without its size."""
        (size_bytes,) = struct.unpack(">i", self._receive(4))
        return self._receive(size_bytes)

    def is_closed(self) -> bool:
        """Wait for the broker; return whether it closed the connection without an answer."""
        try:
            return self._sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def produce(
        self,
        topic: str,
        records: Records,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
    ) -> PartitionProduceResponse:
        """Send one batch, or whatever it is, and return the partition's answer."""
        self.post_produce(topic, records, partition=partition, acks=acks, version=version)
        return self.produced(version)

    def post_produce(
        self,
        topic: str,
        records: Records,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
    ) -> None:
        """Send one batch, and leave the answer to whoever asks for it."""
        body = self.produce_request(topic, records, partition=partition, acks=acks, version=version)
        self.post(ApiKey.PRODUCE, version, body)

    def produced(self, version: int = 9) -> PartitionProduceResponse:
        """Return what the next answer, one to a Produce request, says of its partition."""
        response: ProduceResponse = self.answer(ApiKey.PRODUCE, version)
        return response.responses[0].partition_responses[0]

    def produce_request(
        self, topic: str, records: Records, *, partition: int, acks: int, version: int
    ) -> ProduceRequest:
        """Return the body of a request to one partition."""
        data = PartitionProduceData(
            index=partition, records=None if records is None else memoryview(records)
        )
        wanted = TopicProduceData(partition_data=[data])
        if version >= TOPIC_IDS_IN_PRODUCE_FROM:
            wanted.topic_id = self.topic(topic).topic_id
        else:
            wanted.name = topic
        return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[wanted])

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = 12,
        leader_epoch: int = -1,
        max_wait_ms: int = 0,
    ) -> PartitionData:
        """Return what one partition has from an offset on."""
        asked = FetchPartition(
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            partition_max_bytes=1 << 20,
        )
        wanted = FetchTopic(partitions=[asked])
        if version >= TOPIC_IDS_IN_FETCH_FROM:
            wanted.topic_id = self.topic(topic).topic_id
        else:
            wanted.topic = topic
        body = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1 if max_wait_ms else 0,
            max_bytes=1 << 20,
            topics=[wanted],
            session_epoch=-1,
        )
        response = self.ask(ApiKey.FETCH, version, body)
        assert not response.error_code
        answer: PartitionData = response.responses[0].partitions[0]
        return answer

    def topic(self, name: str) -> MetadataResponseTopic:
        """Return the metadata of a topic."""
        body = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        (topic,) = self.ask(ApiKey.METADATA, 12, body).topics
        told: MetadataResponseTopic = topic
        return told

    def _receive(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            chunk = self._sock.recv(size_bytes - len(data))
            assert chunk, f"closed after {len(data)} of {size_bytes} bytes"
            data += chunk
        return bytes(data)


@contextmanager
def connected(server: Server) -> Generator[Wire]:
    """Connect to a broker."""
    host, _, port = server.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as sock:
        yield Wire(sock)
