"""A broker and its controller in one process, on real files, met over a real socket."""

import logging
import ssl
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trustme

from quorate.broker.app import BrokerPlan, RunningBroker, is_orderly, run_broker
from quorate.broker.listeners import bind_listeners
from quorate.broker.log.directory import DirectoryError
from quorate.broker.log.files import FatalStorageError
from quorate.errors import ErrorCode, InvalidConfigError, KafkaError
from quorate.model import TopicPartition
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
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.protocol.messages.session import ApiVersionsRequest
from quorate.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from quorate.protocol.messages.transactions import InitProducerIdRequest
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.directory import open_controller_directory
from quorate.quorum.raft_node import in_thread
from quorate.records.batch import parse_header
from quorate.records.record import read_records
from quorate.settings import node_config
from tests.unit.broker.log.batches import make_batch

pytestmark = pytest.mark.integration

VERSIONS = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
}


def texts_of(path: Path, **more: str) -> dict[str, str]:
    return {
        "log.dir": str(path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@dataclass
class Node:
    """A broker that serves, and the connections that the test has to it."""

    broker: RunningBroker
    transports: list[trio.SocketStream]


@asynccontextmanager
async def running(texts: dict[str, str]) -> AsyncGenerator[Node, None]:
    """Run a controller, and a broker that leaves before it."""
    config = node_config(texts)
    path = Path(config.log_dir)
    directory = open_controller_directory(path, 1, cluster_id=None)
    directory.found_alone(None, NO_LISTENER)
    controller = Controller(directory, config, Random(1), alone(in_thread))
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as controllers:
                await controllers.start(controller.run)
                plan = BrokerPlan(
                    config, texts, controller.cluster_id, bind_listeners(config), controller.handle
                )
                async with trio.open_nursery() as brokers:
                    node = Node(await brokers.start(run_broker, plan), [])
                    yield node
                    for transport in node.transports:
                        await trio.aclose_forcefully(transport)
                    brokers.cancel_scope.cancel()
                controllers.cancel_scope.cancel()
    finally:
        directory.close()


class Client:
    """One connection, one request at a time."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def request(self, key: ApiKey, body: Any) -> Any:
        api, version = APIS[key], VERSIONS[key]
        await self.stream.send_all(encode_request(api, version, 5, "test", body))
        (size_bytes,) = struct.unpack(">i", await self._read(4))
        data = await self._read(size_bytes)
        correlation_id, position = read_response_header(data, 0, size_bytes, api, version)
        assert correlation_id == 5
        return decoder(api.response, version)(data, position, size_bytes)[0]

    async def _read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            chunk = await self.stream.receive_some(size_bytes - len(data))
            assert chunk, "the broker hung up"
            data += chunk
        return data

    async def create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1)
        answer = await self.request(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == 0

    async def produce(self, topic: str, value: bytes) -> int:
        data = PartitionProduceData(index=0, records=memoryview(bytes(make_batch([value]))))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = (await self.request(ApiKey.PRODUCE, request)).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return int(answer.base_offset)

    async def fetch(self, topic: str, offset: int, max_wait_ms: int = 0) -> list[bytes | None]:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = (await self.request(ApiKey.FETCH, request)).responses[0].partitions[0]
        assert answer.error_code == 0
        data, values = bytes(answer.records), list[bytes | None]()
        while data:
            header = parse_header(data, 0)
            batch, data = data[: header.size_bytes], data[header.size_bytes :]
            records = read_records(batch, header, TopicPartition(topic, 0), bytes_max=1 << 20)
            values += [record.value for record in records]
        return values


async def connect(node: Node, context: ssl.SSLContext | None = None) -> Client:
    endpoint = node.broker.endpoints["PLAINTEXT" if context is None else "SSL"]
    transport = await trio.open_tcp_stream(endpoint.host, endpoint.port)
    node.transports.append(transport)
    if context is None:
        return Client(transport)
    return Client(trio.SSLStream(transport, context, server_hostname=endpoint.host))


async def test_records_go_in_and_come_out_again(tmp_path: Path) -> None:
    async with running(texts_of(tmp_path)) as node:
        client = await connect(node)
        versions = await client.request(
            ApiKey.API_VERSIONS,
            ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        )
        assert ApiKey.FETCH in [api.api_key for api in versions.api_keys]
        await client.create("appLogs")
        assert [await client.produce("appLogs", value) for value in (b"a", b"b")] == [0, 1]
        assert await client.fetch("appLogs", 0) == [b"a", b"b"]
        given = await client.request(
            ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None)
        )
        assert (given.error_code, given.producer_id) == (0, 0)


async def test_a_topic_is_created_when_a_client_asks_for_it(tmp_path: Path) -> None:
    async with running(texts_of(tmp_path)) as node:
        client = await connect(node)
        topics = [MetadataRequestTopic(name="new")]
        answer = await client.request(ApiKey.METADATA, MetadataRequest(topics=topics))
        assert answer.topics[0].error_code == 0
        assert answer.topics[0].partitions[0].leader_id == 1
        assert answer.brokers[0].port == node.broker.endpoints["PLAINTEXT"].port
        assert await client.produce("new", b"a") == 0


async def test_a_long_poll_hears_of_what_another_client_writes_at_once(tmp_path: Path) -> None:
    async with running(texts_of(tmp_path, log_flush_interval_messages="1")) as node:
        reader, writer = await connect(node), await connect(node)
        await writer.create("appLogs")
        heard: list[bytes | None] = []

        async def read() -> None:
            heard.extend(await reader.fetch("appLogs", 0, max_wait_ms=20_000))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                await writer.produce("appLogs", b"a")
        assert heard == [b"a"]


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_clients_are_served_while_thousands_of_partitions_are_created(tmp_path: Path) -> None:
    steps_seen: set[int] = set()

    async def go_on(node: Node, client: Client, done: trio.Event) -> None:
        while not done.is_set():
            await client.produce("appLogs", b"v")
            steps_seen.add(len(list(node.broker.broker.replicas)))

    async with running(texts_of(tmp_path)) as node:
        admin, other = await connect(node), await connect(node)
        await admin.create("appLogs")
        await admin.produce("appLogs", b"v")
        files_open = files_in(Path("/proc/self/fd"))
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on, node, other, done)
            topic = CreatableTopic(name="many", num_partitions=3000, replication_factor=-1)
            answer = await admin.request(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
            done.set()
        assert answer.topics[0].error_code == 0
        assert len(list(node.broker.broker.replicas)) == 3001
        assert await admin.produce("many", b"the first record makes the log's files") == 0
        assert files_in(Path("/proc/self/fd")) <= files_open + 5
        assert files_in(tmp_path) < 20
    assert len(steps_seen) >= 20, "one sees a part of the partitions led, then more of them"
    async with running(texts_of(tmp_path)) as node:
        client = await connect(node)
        assert len(list(node.broker.broker.replicas)) == 3001
        assert await client.produce("many", b"v") == 1


async def test_a_broker_that_was_told_to_stop_left_everything_clean(tmp_path: Path) -> None:
    texts = texts_of(tmp_path)
    async with running(texts) as node:
        client = await connect(node)
        await client.create("appLogs")
        await client.produce("appLogs", b"a")
        assert not (tmp_path / ".clean").exists()
    assert (tmp_path / ".clean").exists()
    async with running(texts) as node:
        assert node.broker.broker.replicas.store.was_clean
        client = await connect(node)
        assert await client.fetch("appLogs", 0) == [b"a"]
        assert await client.produce("appLogs", b"b") == 1


async def test_tls_is_served_beside_plain_connections(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain = tmp_path / "node.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(chain))
    texts = texts_of(
        tmp_path / "data",
        listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        ssl_keystore_location=str(chain),
    )
    (tmp_path / "data").mkdir()
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]
    async with running(texts) as node:
        plain = await connect(node)
        await plain.create("appLogs")
        secret = await connect(node, context)
        assert await secret.produce("appLogs", b"a") == 0
        assert await plain.fetch("appLogs", 0) == [b"a"]
        assert await secret.fetch("appLogs", 0) == [b"a"]


async def test_nonsense_ends_its_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(texts_of(tmp_path)) as node:
        with caplog.at_level(logging.WARNING):
            for nonsense in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">iq", 8, 0)):
                stream = (await connect(node)).stream
                await stream.send_all(nonsense)
                assert await stream.receive_some() == b""
        assert "closing the connection" in caplog.text
        await (await connect(node)).create("appLogs")


async def run_in_vain(texts: dict[str, str]) -> None:
    async with running(texts):
        pytest.fail("it must not start")


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with running(texts_of(tmp_path)):
        pass
    config = node_config(texts_of(tmp_path, node_id="7"))
    listeners = bind_listeners(config)

    async def call(*_: object, **__: object) -> Any:
        pytest.fail("nobody is to be asked")

    with pytest.raises(DirectoryError):
        await run_broker(BrokerPlan(config, {}, "another cluster", listeners, call))
    assert listeners[0].sock.fileno() == -1, "the listeners are closed"


async def test_settings_that_cannot_work_are_refused_before_anything_is_opened(
    tmp_path: Path,
) -> None:
    for wrong in (
        {"advertised_listeners": "SSL://127.0.0.1:1"},
        {"listeners": "SSL://127.0.0.1:0"},
    ):
        with pytest.raises(BaseExceptionGroup) as raised:
            await run_in_vain(texts_of(tmp_path, **wrong))
        assert raised.group_contains(InvalidConfigError, depth=None)


async def test_a_refused_registration_leaves_everything_clean(tmp_path: Path) -> None:
    config = replace(node_config(texts_of(tmp_path)), log_dir=str(tmp_path))

    async def refuse(*_: object, **__: object) -> Any:
        raise KafkaError("not you", code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)

    plan = BrokerPlan(config, {}, "cluster", bind_listeners(config), refuse)
    with pytest.raises(BaseExceptionGroup) as raised:
        await run_broker(plan)
    assert raised.group_contains(KafkaError, match="not you", depth=None)
    assert (tmp_path / ".clean").exists()


def test_only_who_knows_what_is_in_the_logs_may_call_them_clean() -> None:
    def group(*errors: BaseException) -> BaseException:
        return BaseExceptionGroup("", [BaseExceptionGroup("", list(errors))])

    assert is_orderly(group(KafkaError("refused"), InvalidConfigError("wrong")))
    for error in (AssertionError(), KeyboardInterrupt(), OSError(), FatalStorageError("failed")):
        assert not is_orderly(error)
        assert not is_orderly(group(KafkaError("refused"), error))
