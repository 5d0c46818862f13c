"""Streams on a real node: exact counts, whoever is killed, comes or goes."""

import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from quorate.client import (
    Admin,
    ConfigChange,
    ConfigResource,
    Consumer,
    Producer,
    TopicPartition,
)
from quorate.errors import UnknownTopicOrPartitionError
from quorate.streams import (
    BytesSerde,
    JsonSerde,
    LongSerde,
    Running,
    SerdeError,
    StrSerde,
    TimeWindows,
    WindowedSerde,
    run,
    stream,
)

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/streams.md").read_text(encoding="utf-8")
EXAMPLES: dict[str, str] = dict(re.findall(r"```python\n# ([\w-]+)\n(.*?)```", PAGE, re.DOTALL))
TIMEOUT_S = 60.0
SECOND_MS = 1_000
SIZE_MS = 5 * SECOND_MS
MINUTE_MS = 60_000
PARTITIONS = 2
KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "2"))
KEYS = ("a", "b", "c", "d", "e")
HOUR_MS = 60 * MINUTE_MS
NOW_MS = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
"""The times of records are about now, or brokers would delete them as too old."""

COUNTER = """
import sys, trio
from quorate.streams import LongSerde, StrSerde, TimeWindows, WindowedSerde, run, stream

async def main(bootstrap: str) -> None:
    pipeline = (
        stream("clicks", key=StrSerde())
        .group_by_key()
        .windowed_by(TimeWindows(size_ms=5_000, grace_ms=0), emit="on_window_close")
        .count()
        .to("clicks-counted", key=WindowedSerde(StrSerde(), size_ms=5_000), value=LongSerde())
    )
    await run("clicks-counter", pipeline, bootstrap, instance="one", commit_interval_ms=20)

trio.run(main, sys.argv[1])
"""


def example(name: str) -> Any:
    space: dict[str, Any] = {"__name__": name}
    exec(compile(EXAMPLES[name], f"docs/streams.md: {name}", "exec"), space)  # the page is ours
    return space["main"]


async def make(bootstrap: str, *topics: str, partitions: int = PARTITIONS) -> None:
    async with Admin(bootstrap) as admin:
        for name in topics:
            await admin.create_topic(name, partitions=partitions)


async def wait_for(condition: Any) -> None:
    with trio.fail_after(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - another task changes what is looked at
            await trio.sleep(0.01)


def reading(bootstrap: str) -> Consumer:
    return Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")


async def changelog_of(bootstrap: str, application_id: str) -> dict[bytes | None, bytes | None]:
    """Return what compaction would leave of a changelog, without stream times."""
    left: dict[bytes | None, bytes | None] = {}
    async with reading(bootstrap) as consumer:
        await consumer.assign_topics(f"{application_id}-changelog")
        while records := await consumer.poll(timeout_ms=300):
            left.update((record.key, record.value) for record in records)
    return {key: value for key, value in left.items() if value is not None and key != b"time"}


def test_every_example_has_a_test() -> None:
    tested = set(re.findall(r'example\("([\w-]+)"\)', Path(__file__).read_text()))
    assert set(EXAMPLES) == tested
    assert PAGE.count("```python") == len(EXAMPLES)


async def test_ten_lines_count_in_windows(bootstrap: str) -> None:
    await make(bootstrap, "page-views", "views-per-minute")
    async with Producer(bootstrap) as producer:
        for second in range(0, 120, 10):
            view = {"bot": second == 0}
            await producer.enqueue(
                "page-views",
                JsonSerde().serialize("", view),
                key=b"/",
                timestamp_ms=NOW_MS + 1_000 * second,
            )
    last: dict[int, int] = {}
    async with trio.open_nursery() as nursery, reading(bootstrap) as consumer:
        nursery.start_soon(example("count"), bootstrap)
        await consumer.assign_topics("views-per-minute")
        with trio.fail_after(TIMEOUT_S):
            while sum(last.values()) < 11:
                for record in await consumer.poll():
                    assert record.key == b"/"
                    told = JsonSerde().deserialize("", record.value or b"")
                    last[told["from_ms"]] = told["views"]
        nursery.cancel_scope.cancel()
    assert last == {NOW_MS: 5, NOW_MS + MINUTE_MS: 6}


async def test_records_get_another_key_by_way_of_a_topic(bootstrap: str) -> None:
    await make(bootstrap, "purchases", "purchases-by-customer", "spent-per-hour")
    async with Producer(bootstrap) as producer:
        for number in range(12):
            order = {"customer": f"c-{number % 3}", "amount": number}
            await producer.enqueue(
                "purchases",
                JsonSerde().serialize("", order),
                key=b"o-%d" % number,
                timestamp_ms=NOW_MS,
            )
    spent: dict[str, int] = {}
    async with trio.open_nursery() as nursery, reading(bootstrap) as consumer:
        nursery.start_soon(example("other-key"), bootstrap)
        await consumer.assign_topics("spent-per-hour")
        with trio.fail_after(TIMEOUT_S):
            while sum(spent.values()) < sum(range(12)):
                for record in await consumer.poll():
                    spent[(record.key or b"").decode()] = int(record.value or b"0")
        nursery.cancel_scope.cancel()
    assert spent == {"c-0": 18, "c-1": 22, "c-2": 26}


@asynccontextmanager
async def running(program: Path, bootstrap: str) -> AsyncGenerator[trio.Process]:
    """Run a program until the end of the block, and kill it."""
    async with trio.open_nursery() as nursery:
        command = [sys.executable, str(program), bootstrap]
        process = await nursery.start(partial(trio.run_process, command, check=False))
        with trio.fail_after(TIMEOUT_S):
            yield process
        process.kill()


async def test_counts_are_exact_however_often_the_program_is_killed(  # noqa: PLR0915
    bootstrap: str, tmp_path: Path
) -> None:
    await make(bootstrap, "clicks", "clicks-counted")
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    chance = random.Random(106)
    expected: Counter[tuple[str, int]] = Counter()
    told: list[tuple[str, int, int]] = []
    windowed = WindowedSerde(StrSerde(), size_ms=SIZE_MS)
    at_ms = NOW_MS
    async with Producer(bootstrap) as producer, reading(bootstrap) as consumer:
        await consumer.assign_topics("clicks-counted")

        async def click() -> None:
            """Write what comes in a second: windows hold several of them."""
            nonlocal at_ms
            for _ in range(20):
                key = chance.choice(KEYS)
                expected[key, at_ms // SIZE_MS * SIZE_MS] += 1
                await producer.enqueue("clicks", b"x", key=key.encode(), timestamp_ms=at_ms)
            at_ms += SECOND_MS

        async def look() -> None:
            for record in await consumer.poll(timeout_ms=20):
                window = windowed.deserialize("", record.key or b"")
                count = LongSerde().deserialize("", record.value or b"")
                told.append((window.key, window.start_ms, count))

        async with Consumer(bootstrap) as unsettled:
            await unsettled.assign_topics("clicks-counted")
            for _ in range(KILLS):
                before = len(told)
                async with running(program, bootstrap) as process:
                    while len(told) < before + 10:
                        await click()
                        await look()
                    unsettled.seek_to_end()
                    while not await unsettled.poll(timeout_ms=20):
                        await click()
                    process.kill()  # what it has just written may not be committed yet
        for partition in range(PARTITIONS):  # both see all windows end
            await producer.enqueue(
                "clicks", b"x", key=b"z", partition=partition, timestamp_ms=at_ms + SIZE_MS
            )
        async with running(program, bootstrap):
            while sum(count for _, _, count in told) < sum(expected.values()):
                await look()
        assert await consumer.poll(timeout_ms=300) == []
    assert {(key, at_ms): count for key, at_ms, count in told} == dict(expected)
    assert len(told) == len(expected), "each window tells its count once"
    left = await changelog_of(bootstrap, "clicks-counter")
    assert {key[:-8] for key in left if key is not None} == {b"z"}, "closed windows are gone"


async def test_what_was_aborted_counts_once_when_it_is_done_again(bootstrap: str) -> None:
    await make(bootstrap, "taps", partitions=1)
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic("taps-big", partitions=1, configs={"max.message.bytes": "200"})
        for _ in range(10):
            await producer.enqueue("taps", b"x", key=b"k", timestamp_ms=NOW_MS)
        await producer.flush()
        big = (
            stream("taps")
            .group_by_key()
            .windowed_by(TimeWindows(size_ms=MINUTE_MS, grace_ms=0))
            .count()
            .map(lambda window, count: (window.key, b"%300d" % count))
            .to("taps-big")
        )
        async with trio.open_nursery() as nursery, reading(bootstrap) as consumer:
            running: Running = await nursery.start(run, "taps-counter", big, bootstrap)
            await wait_for(lambda: running.statistics.aborts >= 2)
            topic = ConfigResource.topic("taps-big")
            await admin.alter_configs({topic: [ConfigChange("max.message.bytes", "1000")]})
            await consumer.assign_topics("taps-big")
            with trio.fail_after(TIMEOUT_S):
                while not (records := await consumer.poll()):
                    pass
            nursery.cancel_scope.cancel()
    assert [int(record.value or b"0") for record in records] == [10]


def counting(source: str, sink: str) -> Any:
    return (
        stream(source, key=StrSerde())
        .group_by_key()
        .windowed_by(TimeWindows(size_ms=MINUTE_MS, grace_ms=0))
        .count()
        .map(lambda window, count: (window.key, count))
        .to(sink, key=StrSerde(), value=LongSerde())
    )


async def test_instances_share_the_partitions_and_take_over_from_each_other(bootstrap: str) -> None:
    await make(bootstrap, "steps", "steps-counted", partitions=4)
    run_one = partial(
        run,
        "steps-counter",
        counting("steps", "steps-counted"),
        bootstrap,
        commit_interval_ms=10,
        session_timeout_ms=3_000,
    )
    scopes = [trio.CancelScope() for _ in range(2)]

    async def instance(number: int, task_status: trio.TaskStatus[Running]) -> None:
        with scopes[number]:
            await run_one(task_status=task_status)

    counts: dict[bytes, list[int]] = {}
    sent = 0
    async with (
        Producer(bootstrap) as producer,
        reading(bootstrap) as consumer,
        trio.open_nursery() as nursery,
    ):
        await consumer.assign_topics("steps-counted")

        async def step(times: int) -> None:
            nonlocal sent
            for _ in range(times):
                for key in range(16):
                    await producer.enqueue("steps", b"x", key=b"%d" % key, timestamp_ms=NOW_MS)
                sent += 1
            with trio.fail_after(TIMEOUT_S):
                while len(counts) < 16 or any(each[-1] < sent for each in counts.values()):
                    for record in await consumer.poll():
                        count = LongSerde().deserialize("", record.value or b"")
                        counts.setdefault(record.key or b"", []).append(count)

        first: Running = await nursery.start(instance, 0)
        await step(3)
        assert first.statistics.tasks == (0, 1, 2, 3)
        second: Running = await nursery.start(instance, 1)
        await wait_for(lambda: len(second.statistics.tasks) == 2)
        await step(3)
        assert sorted(first.statistics.tasks + second.statistics.tasks) == [0, 1, 2, 3]
        scopes[0].cancel()
        await step(3)
        assert second.statistics.tasks == (0, 1, 2, 3)
        assert second.statistics.windows == 16
        nursery.cancel_scope.cancel()
    assert {each[-1] for each in counts.values()} == {9}
    for each in counts.values():
        assert all(before < after for before, after in pairwise(each)), "nothing counts twice"


async def test_at_least_once_goes_on_where_it_was(bootstrap: str) -> None:
    await make(bootstrap, "drops", "drops-counted", partitions=1)
    run_one = partial(
        run,
        "drops-counter",
        counting("drops", "drops-counted"),
        bootstrap,
        processing_guarantee="at_least_once",
        commit_interval_ms=10,
    )
    async with Producer(bootstrap) as producer:
        for lap in (1, 2):
            for _ in range(100):
                await producer.enqueue("drops", b"x", key=b"k", timestamp_ms=NOW_MS)
            async with trio.open_nursery() as nursery:
                running: Running = await nursery.start(run_one)
                await wait_for(lambda: running.statistics.records == 100)  # noqa: B023
                nursery.cancel_scope.cancel()
            async with reading(bootstrap) as consumer:
                partition = TopicPartition("drops-counted", 0)
                consumer.assign([partition])
                consumer.seek(partition, (await consumer.end_offsets([partition]))[partition] - 1)
                (last,) = await consumer.poll()
            assert LongSerde().deserialize("", last.value or b"") == lap * 100


async def test_what_cannot_be_read_ends_it_or_is_skipped(bootstrap: str) -> None:
    await make(bootstrap, "mixed", "mixed-read", partitions=1)
    async with Producer(bootstrap) as producer:
        for value in (b"1", b"one", b"2"):
            await producer.send("mixed", value, key=b"k")
    pipeline = (
        stream("mixed", value=JsonSerde())
        .map_values(lambda number: number * 10)
        .to("mixed-read", value=JsonSerde())
    )
    with pytest.raises(SerdeError, match="mixed-0 at offset 1"), trio.fail_after(TIMEOUT_S):
        await run("mixed-reader", pipeline, bootstrap)
    async with trio.open_nursery() as nursery:
        running: Running = await nursery.start(
            partial(run, "mixed-reader", pipeline, bootstrap, unreadable="skip")
        )
        await wait_for(lambda: running.statistics.records == 3)
        nursery.cancel_scope.cancel()
    assert (running.statistics.results, running.statistics.unreadable) == (2, 1)
    async with reading(bootstrap) as consumer:
        await consumer.assign_topics("mixed-read")
        records = await consumer.poll()
    assert [record.value for record in records] == [b"10", b"20"]


@pytest.mark.parametrize(
    "settings",
    [
        {"application_id": ""},
        {"processing_guarantee": "once"},
        {"unreadable": "ignore"},
        {"commit_interval_ms": 0},
    ],
)
async def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "application_id": "a",
        "pipeline": stream("a").to("b"),
        "bootstrap": "h:1",
        **settings,
    }
    with pytest.raises(ValueError, match=r"\w"):
        await run(**given)


async def test_topics_that_are_grouped_need_partitions_alike(bootstrap: str) -> None:
    await make(bootstrap, "uneven-1", partitions=1)
    await make(bootstrap, "uneven-2", "uneven-counted")
    windows = TimeWindows(size_ms=1, grace_ms=0)
    grouped = stream("uneven-1", "uneven-2").group_by_key().windowed_by(windows)
    pipeline = grouped.count().to("uneven-counted", key=WindowedSerde(BytesSerde(), size_ms=1))
    with pytest.raises(ValueError, match="uneven-1 has 1, uneven-2 has 2"):
        await run("uneven", pipeline, bootstrap)


async def test_a_topic_that_is_deleted_ends_it(bootstrap: str) -> None:
    await make(bootstrap, "fading", "fading-copied")
    copying = partial(
        run, "fader", stream("fading").to("fading-copied"), bootstrap, metadata_max_age_ms=500
    )
    with (
        trio.fail_after(TIMEOUT_S),
        pytest.RaisesGroup(
            pytest.RaisesExc(UnknownTopicOrPartitionError, match="there is no topic 'fading'")
        ),
    ):
        async with trio.open_nursery() as nursery, Admin(bootstrap) as admin:
            running: Running = await nursery.start(copying)
            async with Producer(bootstrap) as producer:
                await producer.send("fading", b"x")
            await wait_for(lambda: running.statistics.commits > 0)
            await admin.delete_topics(["fading"])
            await trio.sleep_forever()


async def test_a_sink_that_is_deleted_ends_it(bootstrap: str) -> None:
    await make(bootstrap, "poured", "sink")
    copying = partial(
        run, "pourer", stream("poured").to("sink"), bootstrap, transaction_timeout_ms=2_000
    )
    with (
        trio.fail_after(TIMEOUT_S),
        pytest.RaisesGroup(
            pytest.RaisesExc(UnknownTopicOrPartitionError, match="there is no topic 'sink'")
        ),
    ):
        async with (
            trio.open_nursery() as nursery,
            Admin(bootstrap) as admin,
            Producer(bootstrap) as producer,
        ):
            running: Running = await nursery.start(copying)
            await producer.send("poured", b"x")
            await wait_for(lambda: running.statistics.commits > 0)
            await admin.delete_topics(["sink"])
            await producer.send("poured", b"y")
            await trio.sleep_forever()


async def test_more_partitions_end_what_is_grouped(bootstrap: str) -> None:
    await make(bootstrap, "growing", "growing-counted")
    pipeline = counting("growing", "growing-counted")
    grower = partial(run, "grower", pipeline, bootstrap, metadata_max_age_ms=500)
    with (
        trio.fail_after(TIMEOUT_S),
        pytest.RaisesGroup(
            pytest.RaisesExc(ValueError, match=f"has 3 partitions now, and had {PARTITIONS}")
        ),
    ):
        async with trio.open_nursery() as nursery, Admin(bootstrap) as admin:
            await nursery.start(grower)
            await admin.create_partitions({"growing": 3})
            await trio.sleep_forever()
