"""quorate groups beside kafka-consumer-groups: the same rows, on the same broker."""

import contextlib
import io

import pytest

from quorate.client.sync import Admin, Producer
from quorate.model import TopicPartition
from quorate.tools.cli import run_command
from quorate.tools.groups.resetting import parse_offsets
from tests.compat.clients.agent import Java
from tests.compat.clients.model import Server

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Kafka's tools")]

MAIN = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def ours(server: Server, *words: str) -> list[list[str]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run_command(["groups", *words, "-b", server.bootstrap]) == 0
    return [line.split() for line in out.getvalue().splitlines()]


def theirs(jvm: Java, server: Server, *words: str) -> list[list[str]]:
    done = jvm.tool(MAIN, "--bootstrap-server", server.bootstrap, *words)
    assert done.status == 0, done.stdout + done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()]


def offsets_in(rows: list[list[str]]) -> dict[TopicPartition, int]:
    """Return what was exported, however it is quoted."""
    return parse_offsets("\n".join(" ".join(row) for row in rows if "," in row[0]), "")


@pytest.mark.feature("quorate groups and kafka-consumer-groups say the same")
def test_descriptions_have_the_same_columns_and_rows(jvm: Java, server: Server, topic: str) -> None:
    group = f"group-{topic}"
    with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
        admin.create_topic(topic, partitions=3)
        for number in range(30):
            producer.enqueue(topic, b"x", partition=number % 3)
        producer.flush()
        offsets = {TopicPartition(topic, 0): 3, TopicPartition(topic, 2): 10}
        admin.alter_group_offsets(group, offsets)
    described = theirs(jvm, server, "--describe", "--group", group)
    rows = [row for row in described if row[0] in {"GROUP", group}]
    assert ours(server, "describe", group)[:3] == rows
    states = theirs(jvm, server, "--describe", "--group", group, "--state")
    (heading, row) = ours(server, "describe", group, "--state")[:2]
    assert heading == states[0]
    assert [row[0], *row[3:]] == [states[1][0], *states[1][3:]], "but for spaces in the address"

    words = (
        "--reset-offsets",
        "--group",
        group,
        "--topic",
        f"{topic}:0,2",
        "--shift-by",
        "-2",
        "--export",
    )
    exported = theirs(jvm, server, *words, "--dry-run")
    mine = ours(server, "reset", group, "-t", f"{topic}:0,2", "--shift-by", "-2", "--export")
    assert offsets_in(mine) == offsets_in(exported)
    assert set(offsets_in(mine).values()) == {1, 8}
    assert [group] in theirs(jvm, server, "--list")
    assert group in [row[0] for row in ours(server, "list")]
