"""Streams whose partitions go to others: promptly, and without writing for them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio.testing import MockClock

from quorate.client import Producer
from quorate.streams import Running, run, stream
from tests.shell.fake_cluster import FakeCluster
from tests.shell.fake_groups import FakeGroup

COMMIT_INTERVAL_MS = 60_000


@asynccontextmanager
async def running() -> AsyncGenerator[tuple[FakeCluster, FakeGroup, Running]]:
    """Copy ``in`` to ``out``, at least once; one record was read, and is not yet committed."""
    async with trio.open_nursery() as nursery:
        cluster = FakeCluster(nursery)
        cluster.create("in", 2)
        cluster.create("out")
        group = FakeGroup(cluster, "copier")
        async with Producer(cluster.bootstrap, dial=cluster.dial) as producer:
            await producer.send("in", b"a", partition=0)
        copy = partial(
            run,
            "copier",
            stream("in").to("out"),
            cluster.bootstrap,
            processing_guarantee="at_least_once",
            commit_interval_ms=COMMIT_INTERVAL_MS,
            dial=cluster.dial,
        )
        yield cluster, group, await nursery.start(copy)
        nursery.cancel_scope.cancel()


async def test_what_was_given_up_is_not_written_and_what_came_back_does_not_wait_for_a_commit(
    autojump_clock: MockClock,
) -> None:
    async with running() as (cluster, group, instance):
        await trio.sleep(5)
        group.rebalancing = True
        with trio.fail_after(COMMIT_INTERVAL_MS / 2_000):
            while instance.statistics.aborts == 0:  # noqa: ASYNC110 - another task counts
                await trio.sleep(0.1)
        assert (group.generation, instance.statistics.tasks) == (2, (0, 1))
        assert cluster.topics["out"][0].values() == []
        with trio.fail_after(2 * COMMIT_INTERVAL_MS / 1_000):
            while instance.statistics.commits == 0:  # noqa: ASYNC110
                await trio.sleep(1)
        assert cluster.topics["out"][0].values() == [b"a"]
        assert group.committed["in", 0][0] == 1
