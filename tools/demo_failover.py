"""The demo's accident: a leader is killed while records come in; later it returns."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.admin import Admin
from quorate.dataclass import dataclass
from quorate.model import NO_LEADER, TopicPartition
from quorate.tools.demo_cluster import DemoCluster
from quorate.tools.partitions.comparing import SAME, Compared
from quorate.tools.problems import CommandError
from quorate.tools.topics import Client
from quorate.tools.verify_work import verify

if TYPE_CHECKING:
    from quorate.client.delivery import Delivery

POLL_S: Final = 0.001
LOOK_S: Final = 0.1
FAILOVER_TIMEOUT_S: Final = 30.0
RECOVERY_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Failover:
    """What was killed, and when the first record was acknowledged that came after that.

    ``led`` is how many partitions the broker led, ``sent_before`` how many records were handed over
    before.
    """

    broker_id: int
    partition: TopicPartition
    led: int
    sent_before: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """How the killed broker came back, and whether replicas hold the same then."""

    seconds: float
    compared: Sequence[Compared]

    @property
    def ok(self) -> bool:
        """Whether all replicas of all partitions hold the same."""
        return bool(self.compared) and all(each.verdict == SAME for each in self.compared)


async def fail_over(cluster: DemoCluster, handed_over: "Sequence[Delivery]") -> Failover:
    """Kill the leader of the partition with most records; wait for the first one after that.

    Raises:
        CommandError: no record is acknowledged in time.
    """
    sent_before = len(handed_over)
    busiest = Counter(delivery[0].topic_partition for delivery in handed_over)
    partition, _ = busiest.most_common(1)[0]
    leaders = await _leaders(cluster)
    broker_id = leaders[partition]
    cluster.kill_broker(broker_id)
    begin_s, begin = trio.current_time(), len(handed_over)
    with trio.move_on_after(FAILOVER_TIMEOUT_S):
        probe = await _first_for(partition, handed_over, begin)
        while not probe.done:  # noqa: ASYNC110 - deliveries ring no bell
            await trio.sleep(POLL_S)
        seconds = trio.current_time() - begin_s
        led = sum(leader == broker_id for leader in leaders.values())
        return Failover(broker_id, partition, led, sent_before, seconds)
    raise CommandError(
        f"{partition} took no record for {FAILOVER_TIMEOUT_S:.0f} s",
        why=f"broker {broker_id}, which led it, was killed, and nobody else took over",
        hint="report this with the output of quorate demo --debug",
    )


async def _first_for(
    partition: TopicPartition, handed_over: "Sequence[Delivery]", begin: int
) -> "Delivery":
    """Return the first record for a partition that was handed over after so many."""
    at = begin
    while True:
        while at < len(handed_over):
            if handed_over[at][0].topic_partition == partition:
                return handed_over[at]
            at += 1
        await trio.sleep(POLL_S)


async def _leaders(cluster: DemoCluster) -> dict[TopicPartition, int]:
    async with Admin(cluster.bootstrap) as admin:
        topics = await admin.describe_all_topics()
    return {
        TopicPartition(topic.name, each.partition): each.leader_id
        for topic in topics
        for each in topic.partitions
    }


async def recover(cluster: DemoCluster, topics: Sequence[str]) -> Recovery:
    """Start the killed broker again, wait until all replicas are in sync, and compare them.

    Raises:
        CommandError: they do not come in sync in time.
    """
    begin_s = trio.current_time()
    await cluster.start_what_is_missing()
    with trio.move_on_after(RECOVERY_TIMEOUT_S) as deadline:
        while not await _all_in_sync(cluster):  # noqa: ASYNC110 - brokers ring no bell
            await trio.sleep(LOOK_S)
    if deadline.cancelled_caught:
        raise CommandError(
            f"not all replicas were in sync after {RECOVERY_TIMEOUT_S:.0f} s",
            why="the broker that was killed did not catch up",
            hint="report this with the output of quorate demo --debug",
        )
    seconds = trio.current_time() - begin_s
    client = Client(cluster.bootstrap, {})
    compared = await verify(client, topics, lambda _total: None, lambda _more: None)
    return Recovery(seconds, compared)


async def _all_in_sync(cluster: DemoCluster) -> bool:
    async with Admin(cluster.bootstrap) as admin:
        topics = await admin.describe_all_topics()
    partitions = [each for topic in topics for each in topic.partitions]
    return all(
        each.leader_id != NO_LEADER and len(each.isr) == len(each.replicas) for each in partitions
    )
