"""Kafka's command line tools."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.compat.clients.agent import Java, ToolResult
from tests.compat.clients.model import Message, Sending, Server, Task
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic
from tests.compat.peers import java
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Kafka's tools")]

TOOLS = "org.apache.kafka.tools"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
ConsoleTool = Callable[..., ToolResult]
PLAIN = Sending()
MEBIBYTE = 1 << 20
COMPLAINTS = ("Mismatch", "isvalid: false", "Non-consecutive", "Found", "Exception", "corrupt")


@pytest.fixture
def tool(jvm: Java, server: Server) -> ConsoleTool:
    """Run a tool that talks to the broker."""

    def run(main: str, *args: str, stdin: str = "", status: int = 0) -> ToolResult:
        done = jvm.tool(main, "--bootstrap-server", server.bootstrap, *args, stdin=stdin)
        assert done.status == status, done.stdout + done.stderr
        return done

    return run


@pytest.mark.feature("kafka-topics --create, --list, --describe, --alter, --delete")
def test_kafka_topics(tool: ConsoleTool, topic: str) -> None:
    main = f"{TOOLS}.TopicCommand"
    tool(main, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=12345")
    assert topic in tool(main, "--list").stdout.split()
    described = tool(main, "--describe", "--topic", topic).stdout
    assert "PartitionCount: 3" in described
    assert "retention.ms=12345" in described
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    tool(main, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in tool(main, "--describe", "--topic", topic).stdout
    tool(main, "--delete", "--topic", topic)
    assert topic not in tool(main, "--list").stdout.split()


@pytest.mark.feature("kafka-topics as a process of its own")
def test_kafka_topics_as_a_user_starts_it(jvm: Java, new_topic: NewTopic, server: Server) -> None:
    topic = new_topic()
    arguments = ["--bootstrap-server", server.bootstrap, "--list"]
    done = java.java_tool(f"{TOOLS}.TopicCommand", arguments)
    assert done.returncode == 0, done.stderr
    assert topic in done.stdout.split()


@pytest.mark.feature("kafka-topics: errors in words")
def test_kafka_topics_tells_what_is_wrong(tool: ConsoleTool, new_topic: NewTopic) -> None:
    topic = new_topic()
    main = f"{TOOLS}.TopicCommand"
    assert "exists" in tool(main, "--create", "--topic", topic, status=1).stdout
    arguments = ["--create", "--topic", f"x-{topic}", "--config", "segment.bytes=-1"]
    assert "segment.bytes" in tool(main, *arguments, status=1).stdout
    arguments = ["--create", "--topic", f"x-{topic}", "--replication-factor", "3"]
    assert "replication factor" in tool(main, *arguments, status=1).stdout.lower()


@pytest.mark.feature("kafka-topics: under-replicated and unavailable partitions")
def test_no_partition_is_in_trouble(tool: ConsoleTool, new_topic: NewTopic) -> None:
    new_topic(2)
    for question in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert tool(f"{TOOLS}.TopicCommand", "--describe", question).stdout.strip() == ""


@pytest.mark.feature("kafka-features describe, upgrade, downgrade, disable")
def test_levels_of_features_are_told_lowered_and_raised(tool: ConsoleTool) -> None:
    main = f"{TOOLS}.FeatureCommand"

    def level() -> int:
        told = tool(main, "describe").stdout
        found = re.search(r"transaction.version.*FinalizedVersionLevel: (\d)", told)
        assert found, told
        return int(found[1])

    assert level() == 2
    lower = ["downgrade", "--feature", "transaction.version=1"]
    assert "can be downgraded to 1" in tool(main, *lower, "--dry-run").stdout
    assert level() == 2
    try:
        assert "transaction.version was downgraded to 1." in tool(main, *lower).stdout
        assert level() == 1
    finally:
        told = tool(main, "upgrade", "--feature", "transaction.version=2").stdout
    assert "transaction.version was upgraded to 2." in told
    assert level() == 2
    refused = tool(main, "upgrade", "--feature", "transaction.version=9", status=1)
    assert "Could not upgrade transaction.version to 9" in refused.stdout
    refused = tool(main, "upgrade", "--release-version", "4.1", status=1)
    assert "Could not upgrade metadata.version" in refused.stdout


@pytest.mark.feature("kafka-leader-election")
def test_leaders_that_are_preferred_already_are_told(
    tool: ConsoleTool, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    wanted = tmp_path / "election.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 1}]}))
    main = f"{TOOLS}.LeaderElectionCommand"
    for election in ("preferred", "unclean"):
        options = ["--election-type", election, "--path-to-json-file", str(wanted)]
        assert f"already elected for partitions {topic}-1" in tool(main, *options).stdout


@pytest.mark.feature("kafka-reassign-partitions --execute, --verify, --list")
def test_partitions_are_moved_to_where_they_are(
    tool: ConsoleTool, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    main = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    plan = tmp_path / "plan.json"
    move: dict[str, object] = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    options = ["--reassignment-json-file", str(plan)]
    told = tool(main, *options, "--execute", "--throttle", "1000000").stdout
    assert f"Successfully started partition reassignment for {topic}-0" in told
    told = tool(main, *options, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is completed." in told
    assert "Clearing broker-level throttles on broker 1" in told
    assert "No partition reassignments found." in tool(main, "--list").stdout
    move["replicas"] = [9]
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    refused = tool(main, *options, "--execute", status=1)
    assert "9" in refused.stdout + refused.stderr


@pytest.mark.feature("kafka-console-producer, kafka-console-consumer --partition --offset")
def test_what_the_console_producer_writes_the_console_consumer_reads(
    tool: ConsoleTool, new_topic: NewTopic
) -> None:
    topic = new_topic()
    lines = "".join(f"k{i}:v{i}\n" for i in range(20))
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tool(f"{TOOLS}.ConsoleProducer", "--topic", topic, *keyed, stdin=lines)
    options = ["--topic", topic, "--partition", "0", "--formatter-property", "print.key=true"]
    read = tool(CONSUMER, *options, "--offset", "earliest", "--max-messages", "20")
    assert read.stdout.splitlines() == [f"k{i}\tv{i}" for i in range(20)]
    read = tool(CONSUMER, *options, "--offset", "17", "--max-messages", "2")
    assert read.stdout.splitlines() == ["k17\tv17", "k18\tv18"]


@pytest.mark.feature("kafka-console-producer with every codec and acks")
@pytest.mark.parametrize(
    ("codec", "acks"), [("gzip", "0"), ("snappy", "1"), ("lz4", "all"), ("zstd", "-1")]
)
def test_the_console_producer_compresses(
    codec: str, acks: str, tool: ConsoleTool, new_topic: NewTopic, server: Server, ours: Ours
) -> None:
    topic = new_topic()
    options = ["--topic", topic, "--compression-codec", codec, "--request-required-acks", acks]
    tool(f"{TOOLS}.ConsoleProducer", *options, stdin="a\nb\n")
    received = ours.consume(server, Task(topic, {0: "earliest"}, 2))
    assert [one.value for one in received] == [b"a", b"b"]


@pytest.mark.feature("kafka-get-offsets")
def test_get_offsets(tool: ConsoleTool, new_topic: NewTopic, server: Server, ours: Ours) -> None:
    topic = new_topic(2, retention_ms="-1")
    sent = [Message(b"x", timestamp_ms=1_000_000 + i, partition=1) for i in range(5)]
    ours.produce(server, topic, sent, PLAIN)
    main = f"{TOOLS}.GetOffsetShell"
    assert tool(main, "--topic", topic).stdout.split() == [f"{topic}:0:0", f"{topic}:1:5"]
    asked = {"earliest": 0, "latest": 5, "max-timestamp": 4, "1000002": 2}
    for time, offset in asked.items():
        told = tool(main, "--topic-partitions", f"{topic}:1", "--time", time).stdout
        assert told.split() == [f"{topic}:1:{offset}"]


@pytest.mark.feature("kafka-configs --alter, --describe, of topics and brokers")
def test_configs(tool: ConsoleTool, new_topic: NewTopic) -> None:
    topic = new_topic()
    main = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "topics", "--entity-name", topic]
    tool(main, "--alter", *entity, "--add-config", "retention.ms=777,segment.bytes=1048576")
    told = tool(main, "--describe", *entity).stdout
    assert "retention.ms=777" in told
    assert "segment.bytes=1048576" in told
    tool(main, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=777" not in tool(main, "--describe", *entity).stdout
    assert "cleanup.policy=delete" in tool(main, "--describe", *entity, "--all").stdout
    broker = ["--entity-type", "brokers", "--entity-name", "1"]
    assert (
        "log.retention.check.interval.ms=100" in tool(main, "--describe", *broker, "--all").stdout
    )
    tool(main, "--alter", *broker, "--add-config", "log.segment.bytes=2097152")
    assert "log.segment.bytes=2097152" in tool(main, "--describe", *broker).stdout
    tool(main, "--alter", *broker, "--delete-config", "log.segment.bytes")


@pytest.mark.feature("kafka-configs --alter, --describe, of groups")
def test_configs_of_groups(tool: ConsoleTool, topic: str) -> None:
    main = "kafka.admin.ConfigCommand"
    groups = ["--entity-type", "groups"]
    entity = [*groups, "--entity-name", topic]
    setting = "consumer.session.timeout.ms"
    tool(main, "--alter", *entity, "--add-config", f"{setting}=46000")
    assert f"{setting}=46000" in tool(main, "--describe", *entity).stdout
    assert f"{setting}=46000" in tool(main, "--describe", *groups).stdout
    assert (
        "consumer.heartbeat.interval.ms=5000" in tool(main, "--describe", *entity, "--all").stdout
    )
    refused = tool(main, "--alter", *entity, "--add-config", f"{setting}=60001", status=1)
    assert "group.consumer.max.session.timeout.ms" in refused.stdout + refused.stderr
    tool(main, "--alter", *entity, "--delete-config", setting)
    assert f"{setting}=46000" not in tool(main, "--describe", *entity).stdout


@pytest.mark.feature("kafka-delete-records")
def test_delete_records(
    tool: ConsoleTool, new_topic: NewTopic, server: Server, ours: Ours, tmp_path: Path
) -> None:
    topic = new_topic()
    ours.produce(server, topic, [Message(b"x")] * 10, PLAIN)
    wanted = tmp_path / "wanted.json"
    partition = f'{{"topic": "{topic}", "partition": 0, "offset": 6}}'
    wanted.write_text(f'{{"partitions": [{partition}], "version": 1}}')
    told = tool(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(wanted)).stdout
    assert "low_watermark: 6" in told
    assert ours.ends(server, topic, 0) == (6, 10)


@pytest.mark.feature("kafka-broker-api-versions")
def test_broker_api_versions(tool: ConsoleTool, server: Server) -> None:
    told = tool(f"{TOOLS}.BrokerApiVersionsCommand").stdout
    assert server.bootstrap in told
    assert re.search(r"Produce\(0\): .*\[usable: 13\]", told)


@pytest.mark.feature("kafka-log-dirs")
def test_log_dirs(tool: ConsoleTool, new_topic: NewTopic, broker: Broker, ours: Ours) -> None:
    topic = new_topic()
    ours.produce(broker.server, topic, [Message(b"x" * 1000)], PLAIN)
    told = tool(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic).stdout
    size_bytes = sum(header.size_bytes for header in broker.stored(topic))
    assert f'"partition":"{topic}-0","size":{size_bytes}' in told.replace(" ", "")


@pytest.mark.feature("kafka-metadata-quorum")
def test_metadata_quorum(tool: ConsoleTool) -> None:
    told = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status").stdout
    assert re.search(r"LeaderId:\s+1\b", told)
    told = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication").stdout
    assert re.search(r"^1\s.*Leader", told, re.MULTILINE)


@pytest.mark.feature("kafka-cluster")
def test_cluster(jvm: Java, server: Server) -> None:
    where = ["--bootstrap-server", server.bootstrap]
    told = jvm.tool(f"{TOOLS}.ClusterTool", "cluster-id", *where).stdout
    assert re.search(r"Cluster ID: \S{22}$", told.strip())
    told = jvm.tool(f"{TOOLS}.ClusterTool", "list-endpoints", *where).stdout
    assert server.bootstrap.rpartition(":")[2] in told


@pytest.mark.feature("kafka-producer-perf-test")
def test_the_producer_for_measurements(
    jvm: Java, new_topic: NewTopic, server: Server, ours: Ours
) -> None:
    topic = new_topic()
    load = ["--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    where = ["--topic", topic, "--bootstrap-server", server.bootstrap]
    done = jvm.tool(f"{TOOLS}.ProducerPerformance", *where, *load)
    assert "5000 records sent" in done.stdout, done
    assert ours.ends(server, topic, 0) == (0, 5000)


@pytest.mark.feature("kafka-dump-log: segments, indexes, time indexes")
def test_dump_log_finds_nothing_wrong(
    jvm: Java, new_topic: NewTopic, broker: Broker, ours: Ours
) -> None:
    topic = new_topic(segment_bytes=str(MEBIBYTE), index_interval_bytes="5000")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    random = Random(5)
    for index in range(60):
        sent = [Message(random.randbytes(2500) + bytes(500), b"key") for _ in range(20)]
        how = Sending(codec=codecs[index % 5], idempotent=index % 2 == 0)
        ours.produce(broker.server, topic, sent, how)
    folder = broker.partition_folder(topic)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) >= 3
    told = dump(jvm, logs, "--deep-iteration")
    assert re.findall(r"\| offset: (\d+) ", told) == [str(offset) for offset in range(1200)]
    for codec in codecs:
        assert f"compresscodec: {codec} " in told
    indexes = [*sorted(folder.glob("*.index")), *sorted(folder.glob("*.timeindex"))]
    assert len(indexes) == 2 * len(logs)
    for arguments in ((), ("--index-sanity-check",)):
        dump(jvm, indexes, *arguments)


def dump(jvm: Java, files: list[Path], *options: str) -> str:
    """Return what the tool prints of files, which it must not complain about."""
    names = ",".join(map(str, files))
    done = jvm.tool("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)
    # It misses the offset before the first in every segment but the first, Kafka's own too.
    said = re.sub(r"Non-consecutive.*\n +-1 is followed by.*\n", "", done.stdout + done.stderr)
    assert done.status == 0, said
    for complaint in COMPLAINTS:
        assert complaint not in said, said[-3000:]
    return done.stdout
