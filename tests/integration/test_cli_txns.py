"""``quorate txns`` on a node: what is open, who writes, and how it is ended."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from quorate.client import ProducerFencedError, TransactionAbortedError
from quorate.client.sync import Admin, Consumer, Producer
from quorate.tools.cli import run_command

pytestmark = pytest.mark.integration

TOPIC = "cli-txns"


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    with Admin(bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=2)
    return TOPIC


@pytest.fixture
def opened(bootstrap: str, topic: str, request: pytest.FixtureRequest) -> Iterator[Producer]:
    """A producer with an open transaction of one record in partition 0."""
    with Producer(bootstrap, transactional_id=request.node.name) as producer:
        transaction = producer.transaction()
        transaction.__enter__()
        transaction.send(topic, b"x", partition=0)
        yield producer
        with suppress(ProducerFencedError, TransactionAbortedError):
            transaction.__exit__(None, None, None)


class Run:
    """Runs commands of the command line and reads what they print."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self.capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert run_command(["-b", self.bootstrap, "txns", *words]) == code
        said = self.capsys.readouterr()
        return said.out + said.err

    def items(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        assert run_command(["-b", self.bootstrap, "--json", "txns", *words]) == code
        told: list[dict[str, Any]] = json.loads(self.capsys.readouterr().out)["items"]
        return told


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(bootstrap, capsys)


def test_an_open_transaction_is_listed_and_described(
    run: Run, opened: Producer, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    listed = {each["transactional_id"]: each for each in run.items("list", "--state", "Ongoing")}
    assert listed[name]["transaction_state"] == "Ongoing"
    assert run.items("list", "--duration-filter", "3600000") == []
    assert [
        each["transactional_id"] for each in run.items("list", "--transactional-id-pattern", name)
    ] == [name]
    (told,) = run.items("describe", name)
    assert told["partitions"] == [f"{TOPIC}-0"]
    assert told["transaction_timeout_ms"] == 60_000
    assert told["transaction_duration_ms"] >= 0
    assert told["producer_id"] == listed[name]["producer_id"]
    (writer,) = [
        p for p in run.items("producers", TOPIC) if p["producer_id"] == told["producer_id"]
    ]
    assert writer["current_transaction_start_offset"] is not None
    assert run.items("producers", TOPIC, "-p", "1") == []
    assert run.items("find-hanging", TOPIC, "--max-transaction-timeout", "0") == []


def test_who_is_fenced_has_nothing_open(
    run: Run, opened: Producer, request: pytest.FixtureRequest, bootstrap: str
) -> None:
    name = request.node.name
    assert "Ongoing" in run("abort", name, "--dry-run")
    assert f"{name}: fenced" in run("abort", name, "--yes")
    (told,) = run.items("describe", name)
    assert told["transaction_state"] in {"CompleteAbort", "Empty", "PrepareAbort"}


def test_what_nobody_knows_is_refused_with_what_to_do(run: Run, topic: str) -> None:
    assert "there is no transactional id 'nobody'" in run("describe", "nobody", code=1)
    assert "name transactional ids" in run("abort", code=2)
    assert "name transactional ids" in run("abort", "x", "--topic", topic, code=2)
    assert "needs a topic" in run("find-hanging", "-p", "0", code=2)
    place = ("--topic", topic, "--partition", "1", "--start-offset", "5")
    assert "none is open there" in run("abort", *place, code=1)


def test_a_transaction_is_ended_where_it_hangs(
    run: Run, opened: Producer, bootstrap: str, request: pytest.FixtureRequest
) -> None:
    # Not hanging in truth; but a leader does what it is told, whoever says it.
    name = request.node.name
    (told,) = run.items("describe", name)
    (writer,) = [
        p for p in run.items("producers", TOPIC) if p["producer_id"] == told["producer_id"]
    ]
    offset = str(writer["current_transaction_start_offset"])
    place = ("--topic", TOPIC, "--partition", "0", "--start-offset", offset)
    assert offset in run("abort", *place, "--dry-run")
    assert "is aborted" in run("abort", *place, "--yes")
    (writer,) = [
        p for p in run.items("producers", TOPIC) if p["producer_id"] == told["producer_id"]
    ]
    assert writer["current_transaction_start_offset"] is None
    with (
        Consumer(bootstrap, isolation_level="read_committed") as committed,
        Consumer(bootstrap) as everything,
    ):
        ends = [each.end_offsets([(TOPIC, 0)]) for each in (committed, everything)]
    assert ends[0] == ends[1]
