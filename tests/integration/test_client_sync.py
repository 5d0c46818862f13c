"""The blocking client and TableView on a node: threads, Ctrl-C, ends of all kinds."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from quorate.client import Admin as AsyncAdmin
from quorate.client import (
    ClosedError,
    Consumer,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    QuorateError,
    TableView,
    TopicPartition,
)
from quorate.client.errors import BootstrapError
from quorate.client.serde import JsonSerde, SerdeError, StrSerde
from quorate.client.sync import Admin
from quorate.client.sync import Consumer as SyncConsumer
from quorate.client.sync import Producer as SyncProducer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1, configs={"cleanup.policy": "compact"})
    return name


def test_records_go_out_in_their_order_and_come_back(bootstrap: str, topic: str) -> None:
    with SyncProducer(bootstrap) as producer:
        first = producer.send(topic, b"first", key=b"k", headers=[("h", b"x")])
        pending = [producer.enqueue(topic, b"%d" % n, key=b"k") for n in range(20_000)]
        producer.flush()
        assert all(each.done for each in pending)
        assert (first.offset, pending[-1].result().offset) == (0, 20_000)
        assert producer.partitions_of(topic) == [0]
    with SyncConsumer(
        bootstrap, auto_offset_reset="earliest", key_deserializer=StrSerde()
    ) as reader:
        reader.assign_topics(topic)
        assert next(reader).key == "k"
        assert {record.key for record in reader.poll()} == {"k"}
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(topic)
        assert consumer.assignment == {TopicPartition(topic, 0)}
        record = next(consumer)
        assert (record.value, record.headers) == (b"first", (("h", b"x"),))
        values: list[bytes | None] = []
        while len(values) < 20_000:
            values += [each.value for each in consumer.poll(max_records=5000)]
        assert values == [b"%d" % n for n in range(20_000)]
        consumer.seek((topic, 0), 7)
        assert next(consumer).offset == 7
        assert consumer.position((topic, 0)) == 8


def test_a_record_that_is_waited_for_goes_out_behind_those_handed_over_before(
    bootstrap: str, topic: str
) -> None:
    with SyncProducer(bootstrap, linger_ms=0) as producer:
        for _ in range(20):
            before = producer.enqueue(topic, b"before", key=b"k")
            sent = producer.send(topic, b"then", key=b"k")
            assert before.result().offset < sent.offset
    with SyncProducer(bootstrap, linger_ms=0, transactional_id=topic) as producer:
        for _ in range(20):
            with producer.transaction() as tx:
                before = tx.enqueue(topic, b"before", key=b"k")
                sent = tx.send(topic, b"then", key=b"k")
                assert before.result().offset < sent.offset


def test_any_thread_may_call(bootstrap: str, topic: str) -> None:
    offsets: list[int] = []

    def send_some() -> None:
        pending = [producer.enqueue(topic, b"x", key=b"k") for _ in range(25)]
        offsets.extend(each.result().offset for each in pending)

    with SyncProducer(bootstrap, linger_ms=0) as producer:
        threads = [threading.Thread(target=send_some) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert sorted(offsets) == list(range(100))


def test_a_block_sends_what_is_pending_unless_an_error_leaves_it(
    bootstrap: str, topic: str
) -> None:
    with SyncProducer(bootstrap, linger_ms=60_000) as producer:
        sent = producer.enqueue(topic, b"x", key=b"k")
    assert sent.result().offset == 0
    producer = SyncProducer(bootstrap, linger_ms=60_000)
    lost = producer.enqueue(topic, b"x", key=b"k")
    producer.__exit__(ValueError, ValueError(), None)
    with pytest.raises(ClosedError):
        lost.result()


def test_errors_are_those_of_the_client_and_the_end_is_the_end(bootstrap: str) -> None:
    with SyncProducer(bootstrap, topic_wait_ms=200) as producer:
        with pytest.raises(KafkaError, match="there is no topic"):
            producer.send("no-such-topic", b"x")
        failed = producer.enqueue("no-such-topic", b"x")
        with pytest.raises(KafkaError, match="there is no topic"):
            failed.result()
        refused = producer.enqueue("no-such-topic", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be bytes"):
            refused.result()
    producer.close()
    for call in (lambda: producer.send("t", b""), lambda: producer.enqueue("t", b"")):
        with pytest.raises(ClosedError):
            call()
    threads = threading.active_count()
    with pytest.raises(BootstrapError):
        Admin("127.0.0.1:1", connect_timeout_ms=100)
    wrong: dict[str, Any] = {"nonsense": 1}
    with pytest.raises(TypeError, match="no option"):
        SyncConsumer(bootstrap, **wrong)
    assert threading.active_count() == threads


def test_ctrl_c_gives_up_the_call_and_nothing_else(bootstrap: str, topic: str) -> None:
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(topic)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(consumer)
        timer.join()
        with SyncProducer(bootstrap) as producer:
            producer.send(topic, b"after", key=b"k")
        assert [each.value for each in consumer.poll(timeout_ms=10_000)] == [b"after"]


def test_a_script_that_forgets_to_close_ends_and_what_it_sent_is_there(
    bootstrap: str, topic: str
) -> None:
    script = (
        "from quorate.client.sync import Producer\n"
        f"producer = Producer({bootstrap!r}, linger_ms=60_000)\n"
        f"producer.enqueue({topic!r}, b'last words', key=b'k')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, timeout=TIMEOUT_S, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(topic)
        assert [each.value for each in consumer.poll(timeout_ms=10_000)] == [b"last words"]


FORKING = """
import os, signal, sys
from quorate.client.errors import ClosedError
from quorate.client.sync import Producer

producer = Producer(sys.argv[1])
before = producer.send(sys.argv[2], b"parent", key=b"k")
child = os.fork()
if child == 0:
    signal.alarm(20)
    for send in (producer.send, producer.enqueue):
        try:
            send(sys.argv[2], b"child")
        except ClosedError as error:
            print(error, flush=True)
    sys.exit()
_, status = os.waitpid(child, 0)
after = producer.send(sys.argv[2], b"parent", key=b"k")
print(status, before.offset, after.offset)
"""


def test_a_forked_process_is_told_to_open_a_client_of_its_own_and_ends(
    bootstrap: str, topic: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, bootstrap, topic], timeout=TIMEOUT_S, check=True,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    *told, ended = done.stdout.splitlines()
    assert ended == "0 0 1"
    assert len(told) == 2
    assert all("open one in each process" in error for error in told)


def test_offsets_are_committed_without_waiting(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with SyncConsumer(bootstrap, group_id=f"{topic}-soon") as consumer:
        consumer.assign([partition])
        first, last = consumer.commit_soon({partition: 1}), consumer.commit_soon({partition: 2})
        last.result()
        assert first.done
        assert last.done
        assert consumer.committed([partition]) == {partition: OffsetAndMetadata(2)}


def test_groups_are_administered(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap) as admin:
        assert admin.alter_group_offsets("administered", {partition: 0}) == {partition: None}
        assert admin.list_group_offsets("administered") == {partition: OffsetAndMetadata(0)}
        assert "administered" in [group.group_id for group in admin.list_groups()]
        assert admin.delete_groups(["administered"]) == {"administered": None}


# TableView


async def test_a_view_begins_with_all_there_is_and_follows(bootstrap: str, topic: str) -> None:
    seen: list[tuple[str, object, object]] = []

    def note(key: str, before: object, now: object) -> None:
        seen.append((key, before, now))

    async with Producer(bootstrap, linger_ms=0) as producer:
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
            await producer.send(topic, value, key=key)
        view = TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde(), on_update=note)
        async with view as table:
            assert dict(table) == {"a": 3, "b": 2}
            assert (table["a"], "c" in table, len(table), table.get("c", 7)) == (3, False, 2, 7)
            assert seen == [("a", None, 1), ("b", None, 2), ("a", 1, 3)]
            await producer.send(topic, None, key=b"b")
            await producer.send(topic, b"[]", key=b"c")
            await table.catch_up()
            assert table.snapshot() == {"a": 3, "c": []}
            assert seen[-2:] == [("b", 2, None), ("c", None, [])]
            await producer.send(topic, b"4", key=b"a")
            while table["a"] != 4:
                await table.changed()
        assert dict(table) == {"a": 4, "c": []}, "what was read stays"
        with pytest.raises(ClosedError):
            await table.catch_up()
        with pytest.raises(ClosedError):
            await table.changed()


async def test_a_view_of_an_empty_topic_is_empty(bootstrap: str, topic: str) -> None:
    async with TableView(bootstrap, topic, key=StrSerde(), value=StrSerde()) as table:
        assert len(table) == 0


async def test_a_restarted_view_is_what_the_topic_says(bootstrap: str, topic: str) -> None:
    wanted: dict[str, int] = {}
    async with Producer(bootstrap) as producer:
        for number in range(3000):
            key = f"key-{number * 7919 % 101}"
            wanted[key] = number
            await producer.enqueue(topic, b"%d" % number, key=key.encode())
        await producer.flush()
    for _ in range(2):
        async with TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde()) as table:
            assert dict(table) == wanted


async def test_a_view_follows_partitions_that_are_added(bootstrap: str, topic: str) -> None:
    view = TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde(), metadata_max_age_ms=100)
    async with AsyncAdmin(bootstrap) as admin, view as table:
        assert await admin.create_partitions({topic: 2}) == {topic: None}
        async with Producer(bootstrap, linger_ms=0) as producer:
            await producer.send(topic, b"1", key=b"a", partition=1)
        with trio.fail_after(30):
            while "a" not in table:
                await table.changed()
        assert table["a"] == 1


async def test_a_record_that_cannot_be_read_ends_the_view(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, linger_ms=0) as producer:
        async with TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde()) as table:
            await producer.send(topic, b"{", key=b"a")
            with pytest.raises(SerdeError, match="offset 0"):
                await table.catch_up()
            with pytest.raises(SerdeError, match="offset 0"):
                len(table)
        with pytest.raises(SerdeError, match="offset 0"):
            async with TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde()):
                raise AssertionError


async def test_who_asks_while_the_view_ends_hears_of_it(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Producer(bootstrap, linger_ms=0) as producer,
        TableView(bootstrap, topic, key=StrSerde(), value=JsonSerde()) as table,
    ):
        end_offsets = Consumer.end_offsets

        async def slowly(consumer: Consumer, partitions: Any) -> Any:
            ends = await end_offsets(consumer, partitions)
            await producer.send(topic, b"{", key=b"a")
            with suppress(SerdeError):
                while True:
                    await table.changed()
            return ends

        monkeypatch.setattr(Consumer, "end_offsets", slowly)
        with trio.fail_after(30), pytest.raises(SerdeError, match="offset 0"):
            await table.catch_up()


async def test_a_view_of_no_topic_is_refused(bootstrap: str) -> None:
    view = TableView(
        bootstrap, "no-such-topic", key=StrSerde(), value=StrSerde(), topic_wait_ms=100
    )
    with pytest.raises(QuorateError, match="there is no topic"):
        async with view:
            raise AssertionError
