"""The examples of docs/client.md do what the page says."""

import contextlib
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from functools import partial as bind
from pathlib import Path
from typing import Any

import pytest
import trio

from quorate.client import Admin, Consumer, Producer, TopicPartition
from quorate.client.sync import Admin as SyncAdmin
from quorate.client.sync import Producer as SyncProducer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/client.md").read_text(encoding="utf-8")
EXAMPLES: dict[str, str] = dict(re.findall(r"```python\n# ([\w-]+)\n(.*?)```", PAGE, re.DOTALL))
TIMEOUT_S = 60.0
KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "5"))
ORDERS_A_KILL = 60
ORDERS = ORDERS_A_KILL * (KILLS + 1)
TRANSFER_KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "2"))
TRANSFERS = 210


def example(name: str) -> Any:
    """Return the ``main`` of an example."""
    space: dict[str, Any] = {"__name__": name}
    exec(compile(EXAMPLES[name], f"docs/client.md: {name}", "exec"), space)  # the page is ours
    return space["main"]


async def make(bootstrap: str, *topics: str, partitions: int = 1) -> None:
    async with Admin(bootstrap) as admin:
        for name in topics:
            await admin.create_topic(name, partitions=partitions)


async def run(name: str, *arguments: Any) -> Any:
    with trio.fail_after(TIMEOUT_S):
        return await example(name)(*arguments)


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    tested = set(
        re.findall(r'(?:run|example|EXAMPLES|a_crash)[(\[](?:bootstrap, )?"([\w-]+)"', source)
    )
    assert set(EXAMPLES) == tested
    assert PAGE.count("```python") == len(EXAMPLES)


async def test_send(bootstrap: str) -> None:
    await make(bootstrap, "appLogs")
    assert await run("send", bootstrap) == [0, 100, 101]


async def test_a_function_of_ones_own_chooses_partitions(bootstrap: str) -> None:
    await make(bootstrap, "levels", partitions=2)
    assert await run("partitioner", bootstrap) == [0, 1, 0]


async def test_keys_keep_their_order(bootstrap: str) -> None:
    await make(bootstrap, "abc", partitions=3)
    seen = await run("ordering", bootstrap)
    assert sorted(seen) == ["A1", "A2", "B1", "B2", "C1", "C2"]
    for key in "ABC":
        assert seen.index(f"{key}1") < seen.index(f"{key}2")


async def test_two_groups_both_get_every_message_once(bootstrap: str) -> None:
    await make(bootstrap, "otp", partitions=2)
    sms, email = await run("fan-out", bootstrap)
    assert sms == ["sms 1111", "sms 2222", "sms 3333"]
    assert email == ["email 1111", "email 2222", "email 3333"]


async def test_a_coordinator_assigns_what_an_expression_finds(bootstrap: str) -> None:
    await make(bootstrap, "shop-orders", "shop-returns", "workshop")
    async with Producer(bootstrap) as producer:
        for topic in ("shop-orders", "shop-returns", "workshop"):
            await producer.send(topic, b"x")
    topics, mine = await run("consumer-protocol", bootstrap, 2)
    assert topics == ["shop-orders", "shop-returns"]
    assert mine == {TopicPartition("shop-orders", 0), TopicPartition("shop-returns", 0)}


class CrashError(Exception):
    """What ends a program in the middle of its work."""


async def work_with_a_crash(bootstrap: str, name: str, group: str) -> list[bytes]:
    """Process 30 records, and crash at the 14th; return what was processed, in order."""
    processed: list[bytes] = []
    crash = [True]

    def process(value: bytes | None) -> None:
        if value == b"13" and crash:
            crash.clear()
            raise CrashError
        assert value is not None
        processed.append(value)

    with pytest.raises(CrashError):
        await run(name, bootstrap, process, 30)
    async with Admin(bootstrap) as admin:
        (committed,) = (await admin.list_group_offsets(group)).values()
    await run(name, bootstrap, process, 30 - committed.offset)
    return processed


@pytest.fixture
async def work(bootstrap: str) -> list[bytes]:
    values = [b"%d" % n for n in range(30)]
    async with Admin(bootstrap) as admin:
        if "work" in [topic.name for topic in await admin.list_topics()]:
            return values
        await admin.create_topic("work", partitions=1)
    async with Producer(bootstrap) as producer:
        for value in values:
            await producer.enqueue("work", value)
    return values


async def test_at_least_once_loses_nothing_and_repeats_some(
    bootstrap: str, work: list[bytes]
) -> None:
    processed = await work_with_a_crash(bootstrap, "at-least-once", "at-least-once")
    assert set(processed) == set(work)
    assert len(processed) > len(work)


async def test_at_most_once_repeats_nothing_and_loses_some(
    bootstrap: str, work: list[bytes]
) -> None:
    processed = await work_with_a_crash(bootstrap, "at-most-once", "at-most-once")
    assert len(processed) == len(set(processed))
    assert set(processed) < set(work)


def results_in(path: Path) -> int:
    """Return how many results the program has written."""
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path, timeout=TIMEOUT_S)) as database:
        tables = database.execute("select count(*) from sqlite_master where name = 'results'")
        if tables.fetchone() == (0,):
            return 0
        return int(database.execute("select count(*) from results").fetchone()[0])


def test_the_offset_beside_the_result_makes_it_exactly_once_whenever_it_is_killed(
    bootstrap: str, tmp_path: Path
) -> None:
    program, path = tmp_path / "program.py", tmp_path / "results.sqlite"
    program.write_text(EXAMPLES["exactly-once"])
    command = [sys.executable, str(program), bootstrap, str(path), str(ORDERS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    rng = random.Random(88)
    with SyncAdmin(bootstrap) as admin, SyncProducer(bootstrap) as producer:
        admin.create_topic("orders", partitions=1)
        for sent in range(0, ORDERS, ORDERS_A_KILL):
            # Orders come while it works, so it cannot have done them all when it is killed.
            for number in range(sent, sent + ORDERS_A_KILL):
                producer.enqueue("orders", b"%d" % number)
            producer.flush()
            is_last = sent + ORDERS_A_KILL == ORDERS
            wanted = ORDERS if is_last else sent + rng.randrange(1, ORDERS_A_KILL)
            deadline_s = time.monotonic() + TIMEOUT_S
            with subprocess.Popen(command, env=environment) as process:
                while results_in(path) < wanted:
                    assert time.monotonic() < deadline_s
                    time.sleep(0.002)
                if is_last:
                    assert process.wait(TIMEOUT_S) == 0
                assert process.poll() == (0 if is_last else None)
                process.kill()
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute("select * from results order by rowid").fetchall()
    assert rows == [(number, 2 * number) for number in range(ORDERS)]


async def test_transactions_make_it_exactly_once_whenever_it_is_killed(
    bootstrap: str, tmp_path: Path
) -> None:
    await make(bootstrap, "numbers-in", "numbers-out")
    async with Producer(bootstrap) as producer:
        for number in range(TRANSFERS):
            await producer.enqueue("numbers-in", b"%d" % number)
    program = tmp_path / "transactions.py"
    program.write_text(EXAMPLES["transactions"])
    chance = random.Random(7)
    read: list[bytes] = []
    async with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("numbers-out", 0)])
        for turn in range(TRANSFER_KILLS + 1):
            wanted = TRANSFERS * (turn + 1) // (TRANSFER_KILLS + 1)
            async with trio.open_nursery() as nursery:
                command = [sys.executable, str(program), bootstrap, str(10 * TRANSFERS)]
                start = bind(trio.run_process, command, check=False)
                running = await nursery.start(start)
                with trio.fail_after(TIMEOUT_S):
                    while len(read) < wanted:
                        read += [record.value or b"" for record in await consumer.poll()]
                await trio.sleep(chance.uniform(0, 0.02))
                running.kill()
        assert await consumer.poll(timeout_ms=500) == []
    assert read == [b"%d" % (2 * number) for number in range(TRANSFERS)]


async def test_a_producer_and_a_consumer_with_serializers(bootstrap: str) -> None:
    await make(bootstrap, "orders.json")
    assert await run("serializers", bootstrap) == ("o-1", 12)


async def test_avro_is_smaller_than_json_and_refuses_before_it_sends(bootstrap: str) -> None:
    await make(bootstrap, "logs.json", "logs.avro")
    read, json_bytes, avro_bytes, refused = await run("serdes", bootstrap)
    assert len(read) == 100
    assert read[99]["text"] == "request 99"
    assert avro_bytes * 2 < json_bytes
    assert "Log.at_ms" in refused


async def test_a_table_of_last_values(bootstrap: str) -> None:
    await make(bootstrap, "prices")
    assert await run("table", bootstrap) == {"apple": 4}


async def test_groups_are_administered(bootstrap: str) -> None:
    assert await run("admin", bootstrap) == (0, "Empty")


async def test_without_trio(bootstrap: str) -> None:
    await make(bootstrap, "numbers", partitions=2)
    values = await trio.to_thread.run_sync(example("sync"), bootstrap)
    assert sorted(values) == sorted(b"%d" % n for n in range(1000))
