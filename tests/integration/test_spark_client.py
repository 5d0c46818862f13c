"""What tasks of Spark do with a node, without Spark: reading, writing, and what goes wrong."""

import os
import socket
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from quorate.client.spark.cluster import Cluster
from quorate.client.spark.connection import Connection
from quorate.client.spark.options import ReadOptions, parse_batch_read
from quorate.client.spark.plan import DataLossError, OffsetRange, Task
from quorate.client.spark.publishing import publish
from quorate.client.spark.sizing import batch_ranges, log_bytes
from quorate.client.spark.write_options import parse_write
from quorate.client.sync import Admin, Consumer, Producer
from quorate.errors import NetworkError, UnknownTopicOrPartitionError, UnsupportedVersionError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_response
from quorate.protocol.messages.session import ApiVersion, ApiVersionsResponse
from tests.compat import serving
from tests.conftest import IN_A_HURRY

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed"),
]


def options(bootstrap: str, topic: str, **texts: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **texts}
    return parse_batch_read(given, now_ms=0)


def read(cluster: Cluster, wanted: ReadOptions, task: Task) -> list[int]:
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415 - needs Arrow

    batches = list(RangeReader(cluster, wanted, task, ["offset"]).read())
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = str(request.node.originalname)
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1)
    fill(bootstrap, name, 100)
    return name


def fill(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap, batch_size_bytes=500) as producer:
        for i in range(count):
            producer.enqueue(topic, b"%d" % i)


def whole(cluster: Cluster, wanted: ReadOptions) -> Task:
    (only,) = batch_ranges(cluster, wanted)
    return Task(only, cluster.topic_ids([only.topic_partition.topic])[only.topic_partition.topic])


def test_a_range_is_read_however_small_the_fetches(bootstrap: str, topic: str) -> None:
    small = {"kafka.max.partition.fetch.bytes": "100"}
    wanted = options(bootstrap, topic, **small)
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    assert read(cluster, wanted, task) == list(range(100))
    middle = replace(task, offsets=OffsetRange(TopicPartition(topic, 0), 33, 77))
    assert read(cluster, wanted, middle) == list(range(33, 77))
    assert log_bytes(cluster, wanted) > 0
    cluster.close()


def test_a_reader_that_is_left_early_leaves_a_clean_connection(bootstrap: str, topic: str) -> None:
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415 - needs Arrow

    wanted = options(bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100"})
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    batches: Any = RangeReader(cluster, wanted, task, ["offset"]).read()
    next(batches)
    batches.close()
    assert read(cluster, wanted, task) == list(range(100))
    cluster.close()


def test_the_next_fetch_is_on_its_way_while_one_is_decoded(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quorate.client.spark.decode import Decoder  # noqa: PLC0415 - needs Arrow

    wanted = options(bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100"})
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    events: list[str] = []
    send, decode = Connection.send, Decoder.decode

    def sending(self: Connection, *args: Any, **words: Any) -> None:
        events.append("send")
        send(self, *args, **words)

    def decoding(self: Decoder, chunk: Any) -> Any:
        events.append("decode")
        return decode(self, chunk)

    monkeypatch.setattr(Connection, "send", sending)
    monkeypatch.setattr(Decoder, "decode", decoding)
    assert read(cluster, wanted, task) == list(range(100))
    fetches = events.count("decode")
    assert fetches > 2
    assert events == ["send", *["send", "decode"] * (fetches - 1), "decode"]
    cluster.close()


def test_records_deleted_meanwhile_are_a_loss(bootstrap: str, topic: str) -> None:
    wanted = options(bootstrap, topic)
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 40})
    with pytest.raises(DataLossError, match=f"Cannot fetch offset 0 of topic {topic}, partition 0"):
        read(cluster, wanted, task)
    tolerant = replace(wanted, fail_on_data_loss=False)
    assert read(cluster, tolerant, task) == list(range(40, 100))
    cluster.close()


def test_a_topic_created_again_meanwhile_is_a_loss(bootstrap: str, topic: str) -> None:
    wanted = options(bootstrap, topic)
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    with Admin(bootstrap) as admin:
        admin.delete_topics([topic])
        admin.create_topic(topic, partitions=1)
    fill(bootstrap, topic, 5)
    with pytest.raises(DataLossError, match="was deleted and created again while"):
        read(cluster, wanted, task)
    assert read(cluster, replace(wanted, fail_on_data_loss=False), task) == []
    cluster.close()


def test_an_offset_that_never_comes_is_waited_for_and_no_longer(bootstrap: str, topic: str) -> None:
    wanted = replace(options(bootstrap, topic), poll_timeout_ms=300)
    cluster = Cluster(wanted.connection)
    task = replace(whole(cluster, wanted), offsets=OffsetRange(TopicPartition(topic, 0), 90, 200))
    with pytest.raises(NetworkError, match="Cannot fetch record for offset 100 of"):
        read(cluster, wanted, task)
    cluster.close()


def test_rows_are_written_once_and_in_their_order(bootstrap: str, topic: str) -> None:
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - needs Arrow
    from quorate.client.spark.rows import Rows  # noqa: PLC0415

    write = parse_write({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    cluster = Cluster(write.connection)
    producer = TaskProducer(cluster, write)
    assert producer.partition_count(topic) == 1
    partition = TopicPartition(topic, 0)
    values = [b"%d" % i for i in range(50)]
    rows = Rows(partition, [None] * 50, values, [b""] * 50, [1] * 50)
    producer.send([rows.part(0, 20), rows.part(20, 50)])
    assert producer.record_count == 50
    wanted = options(bootstrap, topic)
    assert read(cluster, wanted, whole(cluster, wanted)) == list(range(150))
    with Admin(bootstrap) as admin:
        admin.create_topic(f"{topic}-small", partitions=1, configs={"max.message.bytes": "300"})
    cluster.topics([f"{topic}-small"])
    producer.send([replace(rows, topic_partition=TopicPartition(f"{topic}-small", 0))])
    assert producer.record_count == 100
    cluster.close()


def test_a_task_knows_of_partitions_that_were_added_since_the_last_one(
    bootstrap: str, topic: str
) -> None:
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - needs Arrow

    write = parse_write({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    cluster = Cluster(write.connection)
    assert TaskProducer(cluster, write).partition_count(topic) == 1
    with Admin(bootstrap) as admin:
        admin.create_partitions({topic: 3})
    assert TaskProducer(cluster, write).partition_count(topic) == 3
    cluster.close()


def test_a_connection_that_breaks_when_the_next_fetch_is_sent_costs_no_record(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = options(bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100"})
    cluster = Cluster(wanted.connection)
    task = whole(cluster, wanted)
    send, sent = Connection.send, 0

    def sending(self: Connection, *args: Any, **words: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == 3:
            self.close()
        send(self, *args, **words)

    monkeypatch.setattr(Connection, "send", sending)
    assert read(cluster, wanted, task) == list(range(100))
    assert sent > 3
    cluster.close()


def test_a_cluster_that_is_away_for_a_while_is_waited_for(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - needs Arrow
    from quorate.client.spark.rows import Rows  # noqa: PLC0415

    write = parse_write({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    cluster = Cluster(write.connection)
    producer = TaskProducer(cluster, write)
    partition = TopicPartition(topic, 0)
    rows = Rows(partition, [None] * 10, [b"x"] * 10, [b""] * 10, [1] * 10)
    producer.partition_count(topic)
    producer.send([rows])
    connection, refusals = Cluster.connection, 0

    def connecting(self: Cluster, endpoint: Endpoint) -> Connection:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise NetworkError(f"connection to {endpoint} refused")
        return connection(self, endpoint)

    monkeypatch.setattr(Cluster, "connection", connecting)
    refusals = 7
    producer.send([rows])
    assert producer.record_count == 20
    refusals = 7
    assert cluster.list_offsets({partition: -1}, committed_only=False) == {partition: 120}
    assert not refusals
    cluster.close()


def test_values_of_ten_megabytes_go_both_ways_through_small_fetches(bootstrap: str) -> None:
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - needs Arrow
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415
    from quorate.client.spark.rows import Rows  # noqa: PLC0415

    with Admin(bootstrap) as admin:
        configs = {"max.message.bytes": "11000000", "retention.ms": "-1"}
        admin.create_topic("large", partitions=1, configs=configs)
    value = os.urandom(10_000_000)
    write = parse_write({"kafka.bootstrap.servers": bootstrap, "topic": "large"})
    cluster = Cluster(write.connection)
    producer = TaskProducer(cluster, write)
    producer.partition_count("large")
    producer.send([Rows(TopicPartition("large", 0), [None], [value], [b""], [1])])
    wanted = options(bootstrap, "large", **{"kafka.max.partition.fetch.bytes": "1000"})
    (batch,) = RangeReader(cluster, wanted, whole(cluster, wanted), ["value"]).read()
    assert batch.column(0).to_pylist() == [value]
    cluster.close()


def test_a_node_is_read_over_tls(tmp_path: Path) -> None:
    properties = {**IN_A_HURRY, **serving.certify(tmp_path)}
    with serving.quorate(properties, tmp_path) as node:
        assert node.tls is not None
        with Admin(node.server.bootstrap) as admin:
            admin.create_topic("secret", partitions=1)
        fill(node.server.bootstrap, "secret", 10)
        tls = {"kafka.security.protocol": "SSL"}
        trusting = {**tls, "kafka.ssl.truststore.location": str(tmp_path / "ca.pem")}
        trusting["kafka.ssl.truststore.type"] = "PEM"
        wanted = options(node.tls.bootstrap, "secret", **trusting)
        cluster = Cluster(wanted.connection)
        assert read(cluster, wanted, whole(cluster, wanted)) == list(range(10))
        cluster.close()
        stranger = Cluster(options(node.tls.bootstrap, "secret", **tls).connection)
        with pytest.raises(NetworkError, match="certificate verify failed"):
            stranger.refresh(["secret"])


def test_what_is_not_there_is_said(bootstrap: str, topic: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("quorate.client.spark.cluster.TOPIC_WAIT_MS", 100)
    cluster = Cluster(options(bootstrap, topic).connection)
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic 'nowhere'"):
        batch_ranges(cluster, options(bootstrap, "nowhere"))
    texts = {"kafka.bootstrap.servers": bootstrap, "assign": f'{{"{topic}":[7]}}'}
    with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 7; it has 1"):
        batch_ranges(cluster, parse_batch_read(texts, now_ms=0))
    texts = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"{topic[:-1]}."}
    assert len(batch_ranges(cluster, parse_batch_read(texts, now_ms=0))) == 1
    cluster.close()


def test_somebody_who_does_not_speak_the_protocol_is_recognized() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        cluster = Cluster(options(f"127.0.0.1:{port}", "t").connection)
        with pytest.raises(NetworkError, match="does not speak the Kafka protocol"):
            cluster.refresh(["t"])
        thread.join()


def test_a_broker_of_another_age_is_told_by_its_versions() -> None:
    api = APIS[ApiKey.API_VERSIONS]
    spoken = [
        ApiVersion(api_key=api.key, min_version=0, max_version=api.max_version),
        ApiVersion(api_key=ApiKey.METADATA, min_version=50, max_version=60),
    ]
    parts: Any = encode_response(api, api.max_version, 0, ApiVersionsResponse(api_keys=spoken))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"".join(parts))
                connection.recv(1_000)

        thread = threading.Thread(target=answer)
        thread.start()
        cluster = Cluster(options(f"127.0.0.1:{port}", "t").connection)
        with pytest.raises(UnsupportedVersionError, match="speaks Metadata in versions 50 to 60"):
            batch_ranges(cluster, options(f"127.0.0.1:{port}", "t"))
        with pytest.raises(UnsupportedVersionError, match="does not serve Fetch"):
            cluster.call_any(ApiKey.FETCH, None)
        cluster.close()
        thread.join()


def test_a_broker_that_is_not_there_is_said() -> None:
    cluster = Cluster(options("127.0.0.1:1", "t").connection)
    with pytest.raises(NetworkError, match=r"no broker at 127\.0\.0\.1:1: cannot"):
        cluster.refresh(["t"])


def test_offsets_that_a_group_refuses_to_have_published_are_told(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = options(bootstrap, topic).connection
    publish(settings, "free", {TopicPartition(topic, 0): 5})
    assert caplog.messages == []
    with Consumer(bootstrap, group_id="busy", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(timeout_ms=10_000)
        publish(settings, "busy", {TopicPartition(topic, 0): 5})
    assert any("were not published for group 'busy'" in told for told in caplog.messages)
