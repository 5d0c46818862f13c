"""A cluster in memory that answers the requests of clients as a test tells it to.

It is not a broker: it keeps batches as they came, checks sequences as brokers must, and otherwise
does what the script says. Streams are those of Trio in memory: no sockets, no waiting.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
import trio.testing

from quorate.errors import ErrorCode, NetworkError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import FrameBuffer, encode_response, read_request_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
    PartitionData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorate.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from quorate.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from quorate.records.batch import assign_offset, parse_header
from quorate.records.record import Record, read_records

Script = Callable[[int, Any], Any]
"""(broker id, request) -> a response, None for the usual one, or DROP, LOSE or HANG.

If it is a coroutine, that is awaited aside: what is asked later may be answered before.
"""

DROP = object()
"""Breaks the connection before the request has any effect."""

LOSE = object()
"""Lets the request have its effect, and breaks the connection instead of answering."""

HANG = object()
"""Never answers."""


@dataclass
class FakeLog:
    """One partition: batches with their offsets, and what producers numbered last."""

    leader_id: int = 1
    leader_epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0
    batches: list[bytes] = field(default_factory=list[bytes])
    next_sequences: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def append(self, batch: bytes | bytearray) -> tuple[ErrorCode, int]:
        header = parse_header(batch, 0)
        if header.has_producer_id:
            producer = (header.producer_id, header.producer_epoch)
            next_sequence = self.next_sequences.get(producer, 0)
            if header.base_sequence < next_sequence:
                return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1
            if header.base_sequence > next_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.next_sequences[producer] = next_sequence + header.record_count
        base_offset = self.end_offset
        stored = bytearray(batch)
        assign_offset(stored, 0, base_offset, self.leader_epoch)
        self.batches.append(bytes(stored))
        self.end_offset += header.record_count
        return ErrorCode.NONE, base_offset

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to that one, and where it ends; -1 and -1 if there is none."""
        headers = [parse_header(batch, 0) for batch in self.batches]
        epochs = [header.leader_epoch for header in headers if header.leader_epoch <= epoch]
        later = [header.base_offset for header in headers if header.leader_epoch > epoch]
        return (max(epochs), min(later, default=self.end_offset)) if epochs else (-1, -1)

    def truncate(self, offset: int) -> None:
        """Lose the batches from that one on, as in an unclean election."""
        self.batches = [b for b in self.batches if parse_header(b, 0).next_offset <= offset]
        self.end_offset = offset

    def records(self) -> list[Record]:
        found: list[Record] = []
        for batch in self.batches:
            header = parse_header(batch, 0)
            found += read_records(batch, header, TopicPartition("", 0), bytes_max=1 << 26)
        return found

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records()]


def topic_id_of(name: str) -> bytes:
    """The id of a topic in metadata; one that begins with an underscore has none."""
    return bytes(16) if name.startswith("_") else name.encode().rjust(16, b"\1")


class FakeCluster:
    """Brokers 1 to n, their topics, and every request they got."""

    def __init__(self, nursery: trio.Nursery, *, brokers: int = 1) -> None:
        self.nursery = nursery
        self.endpoints = {n: Endpoint("broker", n) for n in range(1, brokers + 1)}
        self.down: set[int] = set()
        self.topics: dict[str, dict[int, FakeLog]] = {}
        self.requests: list[tuple[int, Any]] = []
        self.scripts: dict[type[Any], list[Script]] = defaultdict(list)
        self.handlers: dict[type[Any], Script] = {
            ListOffsetsRequest: lambda _, request: self.list_offsets(request),
            OffsetForLeaderEpochRequest: lambda _, request: self.ends_of_epochs(request),
        }
        """What else it answers, and how."""

        self.features: dict[str, int] = {}
        """The levels that are finalized."""

        self.next_producer_id = 100
        self.appended = trio.lowlevel.ParkingLot()
        self._streams: dict[int, list[trio.StapledStream[Any, Any]]] = defaultdict(list)

    @property
    def bootstrap(self) -> str:
        return ",".join(str(endpoint) for endpoint in self.endpoints.values())

    def create(self, topic: str, partitions: int = 1) -> dict[int, FakeLog]:
        brokers = sorted(self.endpoints)
        self.topics[topic] = {
            number: FakeLog(leader_id=brokers[number % len(brokers)])
            for number in range(partitions)
        }
        return self.topics[topic]

    def script(self, kind: type[Any], *answers: Any) -> None:
        """Answer the next requests of a kind like this; functions are called, None is as usual."""
        for answer in answers:
            self.scripts[kind].append(answer if callable(answer) else _always(answer))

    def requests_of(self, kind: type[Any]) -> list[Any]:
        return [request for _, request in self.requests if isinstance(request, kind)]

    async def dial(self, endpoint: Endpoint) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        broker_id = endpoint.port
        if broker_id in self.down:
            raise NetworkError(f"cannot connect to {endpoint}: Connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        self._streams[broker_id].append(theirs)
        self.nursery.start_soon(self._serve, broker_id, theirs)
        return ours

    async def stop(self, broker_id: int) -> None:
        """The broker dies: connections break, new ones are refused."""
        self.down.add(broker_id)
        for stream in self._streams.pop(broker_id, []):
            await trio.aclose_forcefully(stream)

    async def _serve(self, broker_id: int, stream: trio.StapledStream[Any, Any]) -> None:
        frames = FrameBuffer(1 << 28)
        try:
            async for chunk in stream:
                frames.feed(chunk)
                while (frame := frames.next_frame()) is not None:
                    if not await self._serve_frame(broker_id, stream, bytes(frame)):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _serve_frame(
        self, broker_id: int, stream: trio.StapledStream[Any, Any], frame: bytes
    ) -> bool:
        header, position = read_request_header(frame, 0, len(frame))
        api = APIS[header.api_key]
        request, end = decoder(api.request, header.api_version)(frame, position, len(frame))
        assert end == len(frame)
        self.requests.append((broker_id, request))
        scripts = self.scripts[type(request)]
        answer = scripts.pop(0)(broker_id, request) if scripts else None
        if answer is HANG:
            return True
        respond = partial(self._respond, stream, api, header.api_version, header.correlation_id)
        if inspect.iscoroutine(answer):

            async def later() -> None:
                await respond(await answer)

            self.nursery.start_soon(later)
            return True
        if answer is DROP:
            return False
        response = await self._answer(broker_id, request) if answer in (None, LOSE) else answer
        if answer is LOSE:
            return False
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return True
        await respond(response)
        return True

    @staticmethod
    async def _respond(
        stream: trio.StapledStream[Any, Any], api: Any, version: int, number: int, response: Any
    ) -> None:
        parts = encode_response(api, version, number, response)
        await stream.send_all(b"".join(bytes(part) for part in parts))  # type: ignore[call-overload]

    async def _answer(self, broker_id: int, request: Any) -> Any:
        if type(request) in self.handlers:
            return self.handlers[type(request)](broker_id, request)
        match request:
            case ApiVersionsRequest():
                return ApiVersionsResponse(
                    api_keys=[
                        ApiVersion(
                            api_key=api.key,
                            min_version=api.advertised_min_version,
                            max_version=api.max_version,
                        )
                        for api in APIS.values()
                    ],
                    finalized_features_epoch=1,
                    finalized_features=[
                        FinalizedFeatureKey(name=name, max_version_level=level)
                        for name, level in self.features.items()
                    ],
                )
            case MetadataRequest():
                return self.metadata(request)
            case InitProducerIdRequest():
                self.next_producer_id += 1
                return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)
            case ProduceRequest():
                return self.produce(broker_id, request)
            case FetchRequest():
                return await self.fetch(broker_id, request)
            case _:
                raise AssertionError(f"not scripted: {request}")

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        by_id = {topic_id_of(name): name for name in self.topics}
        names = (
            list(self.topics)
            if request.topics is None
            else [t.name or by_id.get(t.topic_id, "") for t in request.topics]
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=n, host=e.host, port=e.port)
                for n, e in self.endpoints.items()
                if n not in self.down
            ],
            cluster_id="fake",
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        logs = self.topics.get(name)
        if logs is None:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic_id_of(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=-1 if log.leader_id in self.down else log.leader_id,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=[log.leader_id],
                    isr_nodes=[log.leader_id],
                )
                for number, log in logs.items()
            ],
        )

    def produce(self, broker_id: int, request: ProduceRequest) -> ProduceResponse:
        response = ProduceResponse()
        for topic in request.topic_data:
            answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            by_id = {topic_id_of(name): name for name in self.topics}
            name = topic.name or by_id.get(topic.topic_id, "")
            for data in topic.partition_data:
                log = self.topics.get(name, {}).get(data.index)
                if log is None:
                    code, offset = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
                elif log.leader_id != broker_id:
                    code, offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
                else:
                    assert data.records is not None
                    code, offset = log.append(bytes(data.records))
                answered.partition_responses.append(
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset)
                )
            response.responses.append(answered)
        self.appended.unpark_all()
        return response

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for topic in request.topics:
            answered = ListOffsetsTopicResponse(name=topic.name)
            for asked in topic.partitions:
                log = self.topics[topic.name][asked.partition_index]
                offset, time_ms = self._offset(log, asked.timestamp)
                answered.partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        offset=offset,
                        timestamp=time_ms,
                        leader_epoch=log.leader_epoch,
                    )
                )
            response.topics.append(answered)
        return response

    def ends_of_epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            answered = OffsetForLeaderTopicResult(topic=topic.topic)
            for asked in topic.partitions:
                log = self.topics[topic.topic][asked.partition]
                epoch, end = log.end_of_epoch(asked.leader_epoch)
                answered.partitions.append(
                    OffsetForLeaderEpochEndOffset(
                        partition=asked.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            response.topics.append(answered)
        return response

    def _offset(self, log: FakeLog, time_ms: int) -> tuple[int, int]:
        if time_ms == -1:
            return log.end_offset, -1
        if time_ms == -2:
            return log.start_offset, -1
        for record in log.records():
            if record.timestamp_ms >= time_ms:
                return record.offset, record.timestamp_ms
        return -1, -1

    async def fetch(self, broker_id: int, request: FetchRequest) -> FetchResponse:
        response = self._fetch_now(broker_id, request)
        if any(p.records or p.error_code for t in response.responses for p in t.partitions):
            return response
        with trio.move_on_after(request.max_wait_ms / 1000):
            await self.appended.park()
        return self._fetch_now(broker_id, request)

    def _fetch_now(self, broker_id: int, request: FetchRequest) -> FetchResponse:
        response = FetchResponse()
        for topic in request.topics:
            answered = FetchableTopicResponse(topic=topic.topic)
            for asked in topic.partitions:
                log = self.topics[topic.topic][asked.partition]
                data = PartitionData(
                    partition_index=asked.partition,
                    high_watermark=log.end_offset,
                    last_stable_offset=log.end_offset,
                    log_start_offset=log.start_offset,
                )
                if log.leader_id != broker_id:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif not log.start_offset <= asked.fetch_offset <= log.end_offset:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    data.records = self._read(log, asked.fetch_offset, asked.partition_max_bytes)
                answered.partitions.append(data)
            response.responses.append(answered)
        return response

    def _read(self, log: FakeLog, offset: int, bytes_max: int) -> bytes:
        found = b""
        for batch in log.batches:
            if parse_header(batch, 0).next_offset > offset:
                if found and len(found) + len(batch) > bytes_max:
                    # What a broker's slice of a file looks like: the last batch is cut off.
                    return (found + batch)[:bytes_max]
                found += batch
        return found


def _always(answer: Any) -> Script:
    def script(_broker_id: int, _request: Any) -> Any:
        return answer

    return script


async def open_cluster(nursery: trio.Nursery, topics: dict[str, int]) -> FakeCluster:
    """One broker with these topics and numbers of partitions."""
    cluster = FakeCluster(nursery)
    for name, partitions in topics.items():
        cluster.create(name, partitions)
    await trio.lowlevel.checkpoint()
    return cluster


__all__ = ["DROP", "HANG", "LOSE", "ApiKey", "FakeCluster", "FakeLog", "open_cluster"]
