"""The demo of three failures: one replica after the other dies, then they come back.

Either the last one in sync is waited for, and nothing is lost; or another one has to lead at once,
and it is told exactly what that costs.
"""

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import NewTopic, OffsetSpec, PartitionDescription
from quorate.client.consumer import Consumer
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.errors import RequestTimedOutError
from quorate.model import NO_LEADER, TopicPartition
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.layout import command_words
from quorate.tools.demo_cluster import DemoCluster, demo_cluster
from quorate.tools.partitions.comparing import SAME
from quorate.tools.problems import CommandError
from quorate.tools.topics import Client
from quorate.tools.verify_work import verify

if TYPE_CHECKING:
    from quorate.client.delivery import Delivery

BROKERS: Final = 4
"""Three have the partition; one stays to tell how it is."""
TOPIC: Final = "story"
PARTITION: Final = TopicPartition(TOPIC, 0)
RECORDS: Final = 100
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.05
LOOKS: Final = 20
REQUEST_MS: Final = 3_000
"""Brokers that hang are in these stories: who asks one asks another one after that."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened, and how the partition is then; ``records`` were acknowledged."""

    what: str
    leader_id: int
    isr: tuple[int, ...]
    records: int


@dataclass(frozen=True, slots=True)
class Ending:
    """What is left: records that were read back, those that were lost, whether replicas agree."""

    unclean: bool
    acknowledged: int
    lost: tuple[int, ...]
    read_right: bool
    same: bool

    @property
    def ok(self) -> bool:
        """Whether it ended as it must: without loss, unless a replica was made leader uncleanly."""
        return self.read_right and self.same and bool(self.lost) == self.unclean


Tell = Callable[[Step], None]


async def three_failures(tell: Tell, *, unclean: bool) -> Ending:
    """Play the story; nothing of it is left afterwards.

    Raises:
        QuorateError: something did not work at all.
    """
    async with (
        demo_cluster(BROKERS) as cluster,
        _returning_to(cluster) as returning,
        Admin(cluster.bootstrap) as admin,
    ):
        story = Story(cluster, admin, tell)
        await story.begin()
        first, second, third = (await story.look()).replicas
        await story.kill(third, left={first, second})
        await story.kill(second, left={first})
        await story.kill(first, left=set())
        if unclean:
            await _go_on_with(third, story, returning)
            others = [second, first]
        else:
            await _wait_for(first, (third, second), story, returning)
            others = []
        for broker_id in others:
            await returning.start(broker_id)
        return await story.end(unclean=unclean)


async def _wait_for(
    last: int, others: Sequence[int], story: "Story", returning: "_Returning"
) -> None:
    """Have the last one in sync lead, whoever is back before."""
    for broker_id in others:
        await returning.start(broker_id)
    await story.until(lambda now: set(now.offline) == {last}, "the others are back")
    await story.say(
        f"brokers {others[0]} and {others[1]} are back, and lack what only {last} has: they wait"
    )
    await returning.start(last)
    await story.until(lambda now: now.leader_id == last, f"broker {last} leads")
    await story.say(f"broker {last} is back, and leads")


async def _go_on_with(first_back: int, story: "Story", returning: "_Returning") -> None:
    """Have the one lead that is back first."""
    await returning.start(first_back)
    await story.until(lambda now: first_back not in now.offline, f"broker {first_back} is back")
    await story.say(f"broker {first_back} is back, and lacks what was written after its death")
    await story.elect_uncleanly()
    await story.until(lambda now: now.leader_id == first_back, f"broker {first_back} leads")
    await story.say(f"it is told to lead all the same (partitions elect --unclean {PARTITION})")


class Story:
    """Owns the partition of a story: what was written to it, and how it is looked at."""

    def __init__(self, cluster: DemoCluster, admin: Admin, tell: Tell) -> None:
        self._cluster = cluster
        self._admin = admin
        self._tell = tell
        self._sent: list[bytes] = []

    async def begin(self, *, min_insync: int = 1) -> None:
        """Make the topic, and write to it."""
        new = NewTopic(TOPIC, 1, 3, {"min.insync.replicas": str(min_insync)})
        raise_first(await self._admin.create_topics([new]))
        await self.until(lambda now: len(now.isr) == 3, "all replicas are in sync")
        await self.write()
        await self.say(f"{RECORDS} records were written, with acks=all")

    async def look(self) -> PartitionDescription:
        """Return how the partition is now."""
        for tries_left in reversed(range(LOOKS)):
            try:
                found = (await self._admin.describe_topics([TOPIC]))[TOPIC]
            except RequestTimedOutError:  # it was one that hangs who was asked
                if not tries_left:
                    raise
                continue
            if isinstance(found, Exception):
                raise found
            return found.partitions[0]
        raise AssertionError("the last try returns or raises")

    async def until(self, holds: Callable[[PartitionDescription], bool], what: str) -> None:
        """Wait until the partition is so.

        Raises:
            CommandError: it does not become so.
        """
        with trio.move_on_after(PATIENCE_S):
            while not holds(await self.look()):  # noqa: ASYNC110 - brokers ring no bell
                await trio.sleep(LOOK_S)
            return
        raise CommandError(
            f"it was waited in vain for {PATIENCE_S:.0f} s: {what}",
            why=str(await self.look()),
            hint="report this with the output of quorate demo three-failures --debug",
        )

    async def say(self, what: str) -> None:
        """Tell what happened, and how the partition is."""
        now = await self.look()
        self._tell(Step(what, now.leader_id, now.isr, len(self._sent)))

    async def kill(self, broker_id: int, left: set[int]) -> None:
        """Kill a replica; write on, as long as somebody leads."""
        self._cluster.kill_broker(broker_id)
        await self.until(
            lambda now: set(now.isr) == left and now.leader_id != broker_id,
            f"broker {broker_id} is out",
        )
        if (await self.look()).leader_id == NO_LEADER:
            await self.say(f"broker {broker_id} was killed (-9), the last one in sync")
            return
        await self.write()
        await self.say(f"broker {broker_id} was killed (-9); {RECORDS} more records were written")

    async def write(self) -> None:
        """Send records; return when all are acknowledged."""
        async with Producer(self._cluster.bootstrap, request_timeout_ms=REQUEST_MS) as producer:
            deliveries: list[Delivery] = []
            for number in range(len(self._sent), len(self._sent) + RECORDS):
                value = b"record %d" % number
                deliveries.append(await producer.enqueue(TOPIC, value, partition=0))
                self._sent.append(value)
            await producer.flush()
            for delivery in deliveries:
                delivery.metadata  # noqa: B018 - raises what went wrong

    async def elect_uncleanly(self) -> None:
        """Have a replica lead that lacks records."""
        raise_first(await self._admin.elect_leaders([PARTITION], unclean=True))

    async def end(self, *, unclean: bool) -> Ending:
        """Write on, wait until everybody is in sync, read all, and compare the replicas."""
        ends = await self._admin.list_offsets({PARTITION: OffsetSpec.LATEST})
        end = ends[PARTITION]
        if isinstance(end, Exception):
            raise end
        lost = tuple(range(end.offset, len(self._sent)))
        acknowledged = len(self._sent)
        del self._sent[end.offset :]
        await self.write()
        await self.until(lambda now: len(now.isr) == 3, "all replicas are in sync again")
        await self.say(f"all are back and in sync; {RECORDS} more records were written")
        values = await self._read(len(self._sent))
        client = Client(self._cluster.bootstrap, {})
        compared = await verify(client, [TOPIC], lambda _total: None, lambda _more: None)
        same = all(each.verdict == SAME for each in compared)
        return Ending(unclean, acknowledged, lost, values == self._sent, same)

    async def _read(self, count: int) -> list[bytes | None]:
        values: list[bytes | None] = []
        async with Consumer(self._cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([PARTITION])
            consumer.seek_to_beginning()
            with trio.move_on_after(PATIENCE_S):
                while len(values) < count:
                    records = await consumer.poll(timeout_ms=1000)
                    values += [record.value for record in records]
        return values


class _Returning:
    """Brokers that are started again one by one, as ``quorate up`` started them."""

    def __init__(self, cluster: DemoCluster) -> None:
        self._cluster = cluster
        self.processes: list[trio.Process] = []

    async def start(self, broker_id: int) -> None:
        """Start a broker that was killed; it ends with us at the latest."""
        directory = self._cluster.directory
        layout = ClusterDirectory(directory).layout()
        member = next(member for member in layout.brokers if member.node_id == broker_id)
        words = [*command_words(layout, member, str(directory)), "--with-parent"]
        self.processes.append(
            await trio.lowlevel.open_process(
                [sys.executable, "-m", "quorate.tools.cli", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )


@asynccontextmanager
async def _returning_to(cluster: DemoCluster) -> AsyncGenerator[_Returning]:
    returning = _Returning(cluster)
    try:
        yield returning
    finally:
        with trio.CancelScope(shield=True):
            for process in returning.processes:
                process.send_signal(signal.SIGTERM)
            for process in returning.processes:
                await process.wait()
