"""Kafka's tools read the topic in which groups are kept, and manage groups."""

import re

import pytest

from tests.compat.clients.agent import Java
from tests.compat.clients.model import Message, Sending, Server
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic
from tests.compat.serving import Broker
from tests.compat.test_kafka_tools import CONSUMER, TOOLS, ConsoleTool, tool

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Kafka's tools")]

GROUPS_TOPIC = "__consumer_offsets"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
FORMATTERS = f"{TOOLS}.consumer"

__all__ = ["tool"]


def consume_in(tool: ConsoleTool, group: str, topic: str, count: int) -> list[str]:
    """Read so many records as a member of a group, which commits them when it leaves."""
    arguments = ["--topic", topic, "--group", group, "--from-beginning"]
    done = tool(CONSUMER, *arguments, "--max-messages", str(count), "--timeout-ms", "60000")
    return done.stdout.split()


@pytest.mark.feature("kafka-console-consumer --group: goes on where it stopped")
def test_the_console_consumer_goes_on_where_its_group_stopped(
    tool: ConsoleTool, new_topic: NewTopic, server: Server, ours: Ours
) -> None:
    topic = new_topic()
    ours.produce(server, topic, [Message(str(n).encode()) for n in range(10)], Sending())
    assert consume_in(tool, f"of-{topic}", topic, 4) == ["0", "1", "2", "3"]
    assert consume_in(tool, f"of-{topic}", topic, 6) == ["4", "5", "6", "7", "8", "9"]


@pytest.mark.feature("kafka-consumer-groups --list, --describe, --reset-offsets, --delete")
def test_groups_are_listed_described_reset_and_deleted(
    tool: ConsoleTool, new_topic: NewTopic, server: Server, ours: Ours
) -> None:
    topic = new_topic()
    group = f"of-{topic}"
    ours.produce(server, topic, [Message(str(n).encode()) for n in range(5)], Sending())
    consume_in(tool, group, topic, 3)
    assert group in tool(GROUPS, "--list").stdout.split()
    described = tool(GROUPS, "--describe", "--group", group).stdout
    assert re.search(rf"{group}\s+{topic}\s+0\s+3\s+5\s+2\b", described), described
    state = tool(GROUPS, "--describe", "--group", group, "--state").stdout
    assert re.search(rf"{group}\s.*Empty\s+0\b", state), state
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "1"]
    tool(GROUPS, *reset, "--execute")
    described = tool(GROUPS, "--describe", "--group", group).stdout
    assert re.search(rf"{group}\s+{topic}\s+0\s+1\s+5\s+4\b", described), described
    tool(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    tool(GROUPS, "--delete", "--group", group)
    assert group not in tool(GROUPS, "--list").stdout.split()


@pytest.mark.feature("formatters of __consumer_offsets: offsets and groups, as Kafka writes them")
def test_the_records_of_groups_are_what_kafka_reads(
    tool: ConsoleTool, jvm: Java, new_topic: NewTopic, broker: Broker, ours: Ours
) -> None:
    topic = new_topic()
    group = f"of-{topic}"
    ours.produce(broker.server, topic, [Message(b"v")], Sending())
    consume_in(tool, group, topic, 1)
    for formatter, wanted in (
        (
            "OffsetsMessageFormatter",
            rf'"group":"{group}","topic":"{topic}","partition":0.*"offset":1,',
        ),
        (
            "GroupMetadataMessageFormatter",
            rf'"group":"{group}".*"protocolType":"consumer","generation":1',
        ),
    ):
        arguments = ["--topic", GROUPS_TOPIC, "--from-beginning", "--timeout-ms", "5000"]
        told = tool(CONSUMER, *arguments, "--formatter", f"{FORMATTERS}.{formatter}").stdout
        assert re.search(wanted, told), told[-2000:]
    logs = [log for log in broker.data.glob(f"{GROUPS_TOPIC}-*/*.log") if log.stat().st_size]
    names = ",".join(map(str, logs))
    done = jvm.tool(f"{TOOLS}.DumpLogSegments", "--files", names, "--offsets-decoder")
    assert group in done.stdout, done.stdout[-2000:] + done.stderr
    assert re.search(r'payload: .*"offset":\s*"?1"?\b', done.stdout), done.stdout[-2000:]
