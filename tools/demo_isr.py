"""The demo of replicas that fall behind: who hangs leaves the in-sync replicas, and comes back."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import trio

from quorate.client.admin import Admin
from quorate.client.producer import Producer
from quorate.errors import KafkaError
from quorate.tools.demo_cluster import DemoCluster, demo_cluster
from quorate.tools.demo_failures import BROKERS, RECORDS, REQUEST_MS, TOPIC, Ending, Story, Tell

SETTINGS: Final = ("broker.session.timeout.ms=4000", "replica.lag.time.max.ms=2000")
"""So that nobody waits: usually it is 9 and 30 seconds."""


async def isr_shrink(tell: Tell) -> Ending:
    """Play the story; nothing of it is left afterwards.

    Raises:
        QuorateError: something did not work at all.
    """
    async with (
        demo_cluster(BROKERS, settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap, request_timeout_ms=1_000) as admin,
    ):
        story = Story(cluster, admin, tell)
        await story.begin(min_insync=2)
        third = (await story.look()).replicas[-1]
        with _paused(cluster) as pause:
            pause(third)
            began_s = trio.current_time()
            await story.write()
            waited_s = trio.current_time() - began_s
            await story.until(lambda now: third not in now.isr, f"{third} is out")
            await story.say(
                f"broker {third} hangs (SIGSTOP): {RECORDS} more records waited"
                f" {waited_s:.1f} s, until it was out"
            )
            now = await story.look()
            second = next(broker for broker in now.isr if broker != now.leader_id)
            pause(second)
            await story.until(lambda now: len(now.isr) == 1, f"{second} is out, too")
            why = await _refusal(cluster)
            await story.say(
                f"broker {second} hangs, too: a record was refused ({why}), for one replica is"
                " less than min.insync.replicas=2"
            )
        await story.until(lambda now: len(now.isr) == 3, "both are in sync again")
        await story.say("both go on, catch up, and are in sync again")
        return await story.end(unclean=False)


@contextmanager
def _paused(cluster: DemoCluster) -> Generator[Callable[[int], None]]:
    """Give what pauses brokers; they go on when the block ends, however it does."""
    paused: list[int] = []

    def pause(broker_id: int) -> None:
        paused.append(broker_id)
        cluster.pause_broker(broker_id)

    try:
        yield pause
    finally:
        for broker_id in paused:
            with suppress(ProcessLookupError):
                cluster.resume_broker(broker_id)


async def _refusal(cluster: DemoCluster) -> str:
    """Return why a record is not acknowledged."""
    async with Producer(cluster.bootstrap, retries=0, request_timeout_ms=REQUEST_MS) as producer:
        delivery = await producer.enqueue(TOPIC, b"one that is not acknowledged", partition=0)
        await producer.flush()
        error = delivery.error
    return error.code.name if isinstance(error, KafkaError) else "IT WAS NOT"
