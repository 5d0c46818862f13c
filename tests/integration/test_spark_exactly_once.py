"""The exactly-once sink of Spark on a real node, without Spark: killed at any request."""

import os
import time
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

from quorate.client.spark.cluster import Cluster
from quorate.client.spark.options import parse_batch_read
from quorate.client.spark.places import LATEST
from quorate.client.spark.plan import Task
from quorate.client.spark.sizing import batch_ranges
from quorate.client.spark.two_phase import LostTransactionError, OpenTransaction, Place
from quorate.client.sync import Admin
from quorate.client.transactions.describing import TransactionDescription
from quorate.errors import KafkaError
from quorate.protocol.apis import ApiKey
from tests.compat import serving
from tests.conftest import IN_A_HURRY
from tests.integration.spark_driver import Fault, KilledError, Query, Wire, die

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        find_spec("pyarrow") is None or find_spec("pyspark") is None,
        reason="pyspark is not installed",
    ),
]
TIMES = int(os.environ.get("QUORATE_TIMES", "1"))
"""How often to repeat each fault."""

PROPERTIES = IN_A_HURRY | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
PARTITIONS = 3

DECISIVE = {
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.END_TXN,
}
"""Requests that decide what counts."""


@pytest.fixture(scope="module")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[str]:
    if request.config.getoption("broker") == "kafka":
        running = serving.kafka(PROPERTIES)
    else:
        running = serving.quorate(PROPERTIES, tmp_path_factory.mktemp("node"))
    with running as broker:
        yield broker.server.bootstrap


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> Generator[str]:
    name = str(request.node.originalname)
    with Admin(servers) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    yield name
    die()


def committed(servers: str, topic: str) -> Counter[str]:
    """Return what those see who read what is committed; nothing may be left open."""
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415 - needs Arrow

    texts = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    wanted = parse_batch_read({**texts, "kafka.isolation.level": "read_committed"}, now_ms=0)
    cluster = Cluster(wanted.connection)
    ends = dict.fromkeys(cluster.subscribed(wanted.subscription), LATEST)
    deadline_s = time.monotonic() + 20
    while cluster.list_offsets(ends, committed_only=True) != cluster.list_offsets(
        ends, committed_only=False
    ):
        assert time.monotonic() < deadline_s, "a transaction is left open"
        time.sleep(0.005)
    found: Counter[str] = Counter()
    for each in batch_ranges(cluster, wanted):
        for batch in RangeReader(cluster, wanted, Task(each, ""), ["value"]).read():
            found.update(value.decode() for value in batch.column(0).to_pylist())
    cluster.close()
    return found


def requests_of_a_micro_batch(servers: str, topic: str, monkeypatch: Any) -> list[tuple[Any, int]]:
    wire = Wire()
    with monkeypatch.context() as patch:
        wire.install(patch)
        assert Query(servers, topic, f"{topic}-dry", wire).until_done() == 1
    # A coordinator that is busy is asked more often than two tasks with two parts each have to ask.
    return [(api, nth + 1) for api, count in wire.seen.items() for nth in range(min(count, 4))]


def test_queries_whose_names_begin_alike_leave_each_other_alone(servers: str, topic: str) -> None:
    queries = [Query(servers, topic, name, Wire()) for name in ("alike", "alike-0", "alike-0-0")]
    for query in queries:
        assert query.until_done() == 1
    found = committed(servers, topic)
    for query in queries:
        assert sorted(v for v in found if v.startswith(f"{query.name}/")) == query.wanted


def check(
    servers: str, topic: str, faults: list[Fault], monkeypatch: Any, **words: Any
) -> dict[str, int]:
    """Run a query for each fault, and see that each row is there once; return runs by fault."""
    queries: list[tuple[Fault, Query]] = []
    runs: dict[str, int] = {}
    for number, fault in enumerate(faults * TIMES):
        wire = Wire(fault)
        query = Query(servers, topic, f"{topic}-{number}", wire, **words)
        with monkeypatch.context() as patch:
            wire.install(patch)
            times = query.until_done()
        if wire.struck:  # or a request was not needed this time: who must wait asks twice
            runs[str(fault)] = times
        queries.append((fault, query))
    found = committed(servers, topic)
    for fault, query in queries:
        mine = sorted(v for v in found.elements() if v.startswith(f"{query.name}/"))
        assert mine == query.wanted, fault
    return runs


def test_a_driver_killed_at_any_request_leaves_every_row_once(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = requests_of_a_micro_batch(servers, topic, monkeypatch)
    assert {api for api, _ in points} >= DECISIVE | {
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.ADD_OFFSETS_TO_TXN,
    }
    under_way = [(api, nth) for api, nth in points if TIMES > 1 or api in DECISIVE]
    faults = [Fault(api, nth, "before") for api, nth in points]
    faults += [Fault(api, nth, "under way") for api, nth in under_way]
    faults += [Fault(ApiKey.OFFSET_COMMIT, 2, "after")]  # before Spark notes it
    runs = check(servers, topic, faults, monkeypatch)
    assert len(runs) > len(faults) / 2
    assert set(runs.values()) == {2}


TASK_FAULTS = [
    Fault(ApiKey.PRODUCE, 1, "under way"),
    Fault(ApiKey.PRODUCE, 2, "after"),
    Fault(ApiKey.ADD_OFFSETS_TO_TXN, 1, "before"),
    Fault(ApiKey.TXN_OFFSET_COMMIT, 1, "after"),
    Fault(ApiKey.TXN_OFFSET_COMMIT, 2, "under way"),
]


def test_a_task_that_is_tried_again_leaves_every_row_once(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = check(servers, topic, TASK_FAULTS, monkeypatch, task_attempts=2)
    assert len(runs) == len(TASK_FAULTS)
    assert set(runs.values()) == {1}


COMMIT_FAULTS = [
    Fault(ApiKey.OFFSET_COMMIT, 1, "before", LookupError),
    Fault(ApiKey.OFFSET_COMMIT, 1, "under way", LookupError),
    Fault(ApiKey.END_TXN, 1, "before", LookupError),
    Fault(ApiKey.END_TXN, 2, "before", LookupError),
    Fault(ApiKey.END_TXN, 2, "after", LookupError),
    Fault(ApiKey.OFFSET_COMMIT, 2, "under way", LookupError),
]
"""Errors that end a query, after which Spark calls ``abort``."""


def test_abort_after_a_commit_that_failed_undoes_nothing_that_was_decided(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = check(servers, topic, COMMIT_FAULTS, monkeypatch)
    assert len(runs) == len(COMMIT_FAULTS)
    assert set(runs.values()) == {2}


DECIDED_FAULTS = [
    Fault(ApiKey.OFFSET_COMMIT, 1, "after"),
    Fault(ApiKey.END_TXN, 2, "before"),
    Fault(ApiKey.END_TXN, 2, "after"),
    Fault(ApiKey.OFFSET_COMMIT, 2, "under way"),
]


def test_what_was_decided_counts_even_if_the_tasks_get_other_rows_the_next_time(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = check(servers, topic, DECIDED_FAULTS, monkeypatch, turns=True)
    assert len(runs) == len(DECIDED_FAULTS)
    assert set(runs.values()) == {2}


def test_abort_alone_does_not_undo_what_was_decided(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quorate.client.spark.sink import ExactlyOnceWriter  # noqa: PLC0415 - needs PySpark

    wire = Wire(Fault(ApiKey.END_TXN, 1, "before"), armed=True)
    query = Query(servers, topic, "decided", wire)
    writer = ExactlyOnceWriter(query.options)
    messages: list[Any] = [query.task(writer, Place("decided", 0, slot)) for slot in range(2)]
    with monkeypatch.context() as patch:
        wire.install(patch)
        with pytest.raises(KilledError):
            writer.commit(messages, 0)
    writer.abort(messages, 0)
    ExactlyOnceWriter(query.options)
    assert len(committed(servers, topic)) == 10


LATE_FAULTS = [
    Fault(ApiKey.PRODUCE, 1, "after"),
    Fault(ApiKey.OFFSET_COMMIT, 1, "after"),
    Fault(ApiKey.END_TXN, 2, "before"),
]


def test_a_driver_that_comes_back_too_late_writes_what_was_aborted_and_nothing_else(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(servers, topic, LATE_FAULTS, monkeypatch, timeout_ms=300, pause_s=0.6)


def test_transactions_that_took_too_long_are_lost_before_the_commit_and_it_says_so(
    servers: str, topic: str
) -> None:
    from quorate.client.spark.sink import ExactlyOnceWriter  # noqa: PLC0415 - needs PySpark

    query = Query(servers, topic, "slow", Wire(armed=True), timeout_ms=300)
    writer = ExactlyOnceWriter(query.options)
    messages: list[Any] = [query.task(writer, Place("slow", 0, slot)) for slot in range(2)]
    time.sleep(0.8)
    with pytest.raises(LostTransactionError, match="micro-batch 0: the transactions of slow-0, sl"):
        ExactlyOnceWriter(query.options).commit(messages, 0)
    ExactlyOnceWriter(query.options).abort(messages, 0)
    query.wire.armed = False
    query.until_done()
    assert sorted(committed(servers, topic).elements()) == query.wanted


def test_abort_of_a_repeated_micro_batch_ends_what_its_tasks_have_left_open(
    servers: str, topic: str
) -> None:
    from quorate.client.spark.sink import ExactlyOnceWriter  # noqa: PLC0415 - needs PySpark

    slow = Query(servers, topic, "again", Wire(armed=True), timeout_ms=300)
    lost: list[Any] = [slow.task(ExactlyOnceWriter(slow.options), Place("again", 0, 0))]
    time.sleep(0.8)
    with pytest.raises(LostTransactionError):
        ExactlyOnceWriter(slow.options).commit(lost, 0)
    query = Query(servers, topic, "again", Wire(armed=True))
    writer = ExactlyOnceWriter(query.options)
    open_again: list[Any] = [query.task(writer, Place("again", 0, 0))]
    writer.abort(open_again, 0)
    with Admin(servers) as admin:
        described = admin.describe_transactions(["again-0"])["again-0"]
    assert isinstance(described, TransactionDescription)
    assert described.state == "CompleteAbort"


def test_a_driver_that_is_not_dead_after_all_cannot_commit_what_another_one_wrote(
    servers: str, topic: str
) -> None:
    from quorate.client.spark.sink import ExactlyOnceWriter, Written  # noqa: PLC0415

    query = Query(servers, topic, "zombie", Wire())
    writer = ExactlyOnceWriter(query.options)
    messages: list[Any] = [query.task(writer, Place("zombie", 0, slot)) for slot in range(2)]
    assert query.until_done() == 1
    with pytest.raises(LostTransactionError, match="another query has the same"):
        ExactlyOnceWriter(query.options).commit(
            [
                Written(5, OpenTransaction(Place("zombie", 3, 0), m.transaction.producer_id, 0))
                for m in messages[:1]
            ],
            3,
        )
    ExactlyOnceWriter(query.options).commit(messages, 0)  # as the other one's marks say
    assert sorted(committed(servers, topic).elements()) == query.wanted


def test_two_queries_with_checkpoints_of_their_own_do_not_skip_each_others_rows(
    servers: str, topic: str
) -> None:
    first = Query(servers, topic, "first", Wire())
    first.until_done()
    second = Query(servers, topic, "second", Wire(), transactional_id="first")
    second.until_done()
    assert sorted(committed(servers, topic).elements()) == sorted(first.wanted + second.wanted)


def test_a_timeout_that_the_broker_does_not_allow_is_said(servers: str, topic: str) -> None:
    query = Query(servers, topic, "long", Wire(armed=True), timeout_ms=2_000_000)
    with pytest.raises(KafkaError, match=r"more than transaction\.max\.timeout\.ms of the broker"):
        query.micro_batch(0)
