"""A small blocking client that says exactly what it is told to, and everyday requests."""

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, QuorateError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, read_response_header
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
from quorate.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorate.protocol.messages.transactions import InitProducerIdRequest
from quorate.records.batch import HEADER_BYTES, BatchHeader, check_header, crc_matches, parse_header
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, ProducerStamp, RecordBatchBuilder, read_records

LOOPBACK: Final = "127.0.0.1"
TIMEOUT_S: Final = 20.0
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 11
FETCH_BYTES: Final = 4 << 20
CREATE_TOPICS_VERSION: Final = 5
INIT_PRODUCER_ID_VERSION: Final = 3
LIST_OFFSETS_VERSION: Final = 5
EARLIEST: Final = -2
LATEST: Final = -1

_SIZE = struct.Struct(">i")


class RefusedConfigError(QuorateError):
    """A broker takes no topic with a setting like this."""


class ClosedError(Exception):
    """The broker closed the connection."""


class Client:
    """One connection.  Requests may be sent ahead; answers come in their order."""

    def __init__(self, where: int | Endpoint, timeout_s: float = TIMEOUT_S) -> None:
        """Connect to an address, or a port of this machine; nothing takes longer than the timeout.

        Raises:
            ClosedError: nobody is there.
        """
        host, port = (LOOPBACK, where) if isinstance(where, int) else (where.host, where.port)
        try:
            self.sock = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise ClosedError(str(error)) from error
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation_id = 0
        self._owed: list[tuple[int, int, int]] = []

    def send(self, api_key: int, version: int, body: Any) -> None:
        """Send a request.

        Raises:
            ClosedError: the connection is gone.
        """
        self._correlation_id += 1
        frame = encode_request(APIS[api_key], version, self._correlation_id, "robustness", body)
        self._owed.append((api_key, version, self._correlation_id))
        try:
            self.sock.sendall(frame)
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self) -> Any:
        """Return the answer to the oldest request that has none yet.

        Raises:
            ClosedError: the connection is gone.
        """
        api_key, version, correlation_id = self._owed.pop(0)
        frame = self._frame()
        api = APIS[api_key]
        found, position = read_response_header(frame, 0, len(frame), api, version)
        assert found == correlation_id, (found, correlation_id)
        answer, position = decoder(api.response, version)(frame, position, len(frame))
        assert position == len(frame)
        return answer

    def ask(self, api_key: int, version: int, body: Any) -> Any:
        """Send a request and return its answer."""
        self.send(api_key, version, body)
        return self.receive()

    def _frame(self) -> bytes:
        self._fill(_SIZE.size)
        end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
        self._fill(end)
        frame = bytes(self._received[_SIZE.size : end])
        del self._received[:end]
        return frame

    def _fill(self, needed: int) -> None:
        """Receive until so many bytes are here."""
        while len(self._received) < needed:
            try:
                chunk = self.sock.recv(1 << 20)
            except OSError as error:
                raise ClosedError(str(error)) from error
            if not chunk:
                raise ClosedError("end of stream")
            self._received += chunk

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- requests -------------------------------------------------------------------------------------


def make_batch(
    values: Sequence[bytes], *, stamp: ProducerStamp, codec: Codec, now_ms: int
) -> bytes:
    """Return a batch of records without keys."""
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(now_ms, None, value, b"", len(value) + 30)
    return bytes(builder.build(codec, stamp))


def plain_batch(*values: bytes) -> bytes:
    """Return an uncompressed batch of no producer in particular."""
    return make_batch(values, stamp=NO_PRODUCER, codec=Codec.NONE, now_ms=1_700_000_000_000)


def produce_request(where: TopicPartition, batch: bytes, *, acks: int) -> ProduceRequest:
    """Return a request that appends a batch."""
    partition = PartitionProduceData(index=where.partition, records=memoryview(batch))
    topic = TopicProduceData(name=where.topic, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic])


def create_topic(
    client: Client, name: str, partitions: int, configs: dict[str, str], *, replicas: int = 1
) -> int:
    """Create a topic and return the error code.

    Raises:
        RefusedConfigError: with what the broker says of a setting, which it will not take later.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    answer = client.ask(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
    result = answer.topics[0]
    if result.error_code == ErrorCode.INVALID_CONFIG:
        raise RefusedConfigError(result.error_message or "INVALID_CONFIG")
    return int(result.error_code)


def new_producer(client: Client) -> tuple[int, int]:
    """Return a new producer's id and epoch.

    Raises:
        ClosedError: the broker has none now, and is going to say no more than that.
    """
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        raise ClosedError("no producer id")
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch


# --- reading --------------------------------------------------------------------------------------


class StoredBatch(NamedTuple):
    """A batch as it lies in the log."""

    header: BatchHeader
    data: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a partition holds."""

    log_start_offset: int
    high_watermark: int
    batches: list[StoredBatch]

    def records(self, where: TopicPartition) -> Iterator[tuple[int, bytes | None]]:
        """Yield offsets and values."""
        for batch in self.batches:
            for record in read_records(batch.data, batch.header, where, bytes_max=1 << 30):
                yield record.offset, record.value


class WrongLogError(Exception):
    """A log holds what it must not hold, or lacks what it must hold."""


class NotReadError(WrongLogError):
    """A broker says an error instead of what a log holds."""


def read_partition(client: Client, where: TopicPartition) -> Content:
    """Read a partition from its first offset to the high watermark, and check what was read.

    Raises:
        WrongLogError: a batch is damaged, or offsets have gaps.
        NotReadError: the broker says an error.
    """
    batches: list[StoredBatch] = []
    log_start_offset = offset = find_offset(client, where, EARLIEST)
    while True:
        partition = FetchPartition(
            partition=where.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        topic = FetchTopic(topic=where.topic, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=[topic])
        answer = client.ask(ApiKey.FETCH, FETCH_VERSION, request).responses[0].partitions[0]
        if answer.error_code:
            raise NotReadError(f"{where}: fetch at {offset}: error {answer.error_code}")
        if offset >= answer.high_watermark:
            return Content(log_start_offset, answer.high_watermark, batches)
        before = offset
        for batch in split_batches(where, bytes(answer.records or b"")):
            if batches and batch.header.base_offset != offset:
                raise WrongLogError(f"{where}: {batch.header.base_offset} follows {offset}")
            batches.append(batch)
            offset = batch.header.next_offset
        if offset == before:
            raise WrongLogError(f"{where}: nothing at {offset} of {answer.high_watermark}")


def find_offset(client: Client, where: TopicPartition, timestamp: int) -> int:
    """Return what ListOffsets says, such as for EARLIEST or LATEST.

    Raises:
        NotReadError: it says an error.
    """
    partition = ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
    topic = ListOffsetsTopic(name=where.topic, partitions=[partition])
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    answer = client.ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise NotReadError(f"{where}: list offsets: error {found.error_code}")
    return int(found.offset)


def split_batches(where: TopicPartition, data: bytes) -> Iterable[StoredBatch]:
    """Yield the whole batches in fetched bytes.

    Raises:
        WrongLogError: one is damaged.
    """
    position = 0
    view = memoryview(data)
    while position + HEADER_BYTES <= len(data):
        header = parse_header(data, position)
        if position + header.size_bytes > len(data):
            return
        check_header(header, len(data) - position)
        if not crc_matches(view, position, header):
            raise WrongLogError(f"{where}: the batch at {header.base_offset} is damaged")
        yield StoredBatch(header, data[position : position + header.size_bytes])
        position += header.size_bytes
