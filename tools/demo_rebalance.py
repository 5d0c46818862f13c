"""The demo of a group: members join, die and leave, and the partitions go from hand to hand."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import OffsetSpec
from quorate.client.groups.results import GroupDescription
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.tools.demo_cluster import demo_cluster
from quorate.tools.problems import CommandError

TOPIC: Final = "work"
GROUP: Final = "readers"
PARTITIONS: Final = 6
SESSION_MS: Final = 2_000
SETTINGS: Final = (
    "group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0",
)  # fmt: skip
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.05
WRITE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Handover:
    """Something that happened, how long until all was in hand again, and who has what then."""

    what: str
    seconds: float
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Reckoning:
    """How many records were written, never read, and read more than once."""

    written: int
    missed: int
    repeated: int

    @property
    def ok(self) -> bool:
        """Whether every record was read: at least once is what a group promises."""
        return self.missed == 0


Tell = Callable[[Handover], None]


def handover_text(step: Handover) -> str:
    """Return who has what, how long it took, and what happened."""
    hands = "  ".join(
        f"{name}: {','.join(map(str, numbers)) or '-':11}"
        for name, numbers in sorted(step.partitions.items())
    )
    return f"{hands:48} {step.seconds:4.1f} s  <- {step.what}"


def handover_object(step: Handover) -> str:
    """Return a step as one line of JSON."""
    hands = {name: list(numbers) for name, numbers in step.partitions.items()}
    seconds = round(step.seconds, 3)
    return json.dumps({"event": "step", "what": step.what, "seconds": seconds, "partitions": hands})


def reckoning_text(end: Reckoning) -> str:
    """Return whether all was read."""
    missed = f"{end.missed} WERE NOT" if end.missed else "each was"
    return (
        f"{end.written} records were written meanwhile; {missed} read, {end.repeated} of them"
        " twice: the last ones of who was killed, which it had not committed."
    )


def reckoning_object(end: Reckoning) -> str:
    """Return the end as one line of JSON."""
    said = {"written": end.written, "missed": end.missed, "repeated": end.repeated, "ok": end.ok}
    return json.dumps({"event": "end", **said})


async def rebalance(tell: Tell) -> Reckoning:
    """Play the story; nothing of it is left afterwards.

    Raises:
        QuorateError: something did not work at all.
    """
    async with demo_cluster(settings=SETTINGS) as cluster, Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        async with _members(cluster.bootstrap) as members, trio.open_nursery() as nursery:
            writer = _Writer(cluster.bootstrap)
            nursery.start_soon(writer.write)
            story = _Story(admin, members, tell)
            await story.join("A", "A joins, and has everything")
            await story.join("B", "B joins: half of it moves")
            await story.join("C", "C joins: a third each")
            members.end("B", signal.SIGKILL)
            await story.shared(
                {"A", "C"},
                f"B was killed (-9); its session of {SESSION_MS / 1000:.0f} s had to end",
            )
            members.end("C", signal.SIGINT)
            await story.shared({"A"}, "C left in peace (Ctrl-C), and said so")
            await writer.stop()
            await story.caught_up()
            members.end("A", signal.SIGINT)
            await members.ended()
            return members.reckoning(writer.count)


@dataclass(slots=True)
class _Writer:
    """Owns a stream of numbered records."""

    bootstrap: str
    count: int = 0
    _stopping: trio.Event = field(default_factory=trio.Event)
    _stopped: trio.Event = field(default_factory=trio.Event)

    async def write(self) -> None:
        async with Producer(self.bootstrap) as producer:
            while not self._stopping.is_set():
                await producer.enqueue(TOPIC, b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1
                await trio.sleep(WRITE_S)
        self._stopped.set()

    async def stop(self) -> None:
        self._stopping.set()
        await self._stopped.wait()


class _Members:
    """Owns the processes that read: ``quorate consume -g``, as in so many terminals."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._processes: dict[str, trio.Process] = {}

    async def start(self, name: str) -> None:
        settings = {
            "client.id": name,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 500,
            "auto.offset.reset": "earliest",
        }
        words = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        with self._output(name).open("wb") as output:
            self._processes[name] = await trio.lowlevel.open_process(
                [
                    *(sys.executable, "-m", "quorate.tools.cli", "consume", TOPIC, "-g", GROUP),
                    *("-b", self._bootstrap, *words),
                ],
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def end(self, name: str, by: signal.Signals) -> None:
        self._processes[name].send_signal(by)

    async def ended(self) -> None:
        for process in self._processes.values():
            await process.wait()

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()

    def reckoning(self, written: int) -> Reckoning:
        """Count what all have read; a line that a kill cut off does not count."""
        texts = [self._output(name).read_text() for name in self._processes]
        read = [line for text in texts for line in text.splitlines(keepends=True)]
        whole = [int(line) for line in read if line.endswith("\n")]
        missed = set(range(written)) - set(whole)
        return Reckoning(written, len(missed), len(whole) - len(set(whole)))

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.txt"


@asynccontextmanager
async def _members(bootstrap: str) -> AsyncGenerator[_Members]:
    with TemporaryDirectory(prefix="quorate-demo-") as folder:
        members = _Members(bootstrap, Path(folder))
        try:
            yield members
        finally:
            members.kill()
            with trio.CancelScope(shield=True):
                await members.ended()


@dataclass(frozen=True, slots=True)
class _Story:
    """Sees who has which partitions."""

    admin: Admin
    members: _Members
    tell: Tell

    async def join(self, name: str, what: str) -> None:
        before = set((await self.hands()).keys())
        await self.members.start(name)
        await self.shared({*before, name}, what)

    async def hands(self) -> dict[str, tuple[int, ...]]:
        found = (await self.admin.describe_groups([GROUP]))[GROUP]
        if not isinstance(found, GroupDescription):
            return {}
        return {
            member.client_id: tuple(sorted(p.partition for p in member.assignment))
            for member in found.members
        }

    async def shared(self, names: set[str], what: str) -> None:
        """Wait until these and nobody else share all partitions, and tell.

        Raises:
            CommandError: they do not come to.
        """
        began_s = trio.current_time()
        hands: dict[str, tuple[int, ...]] = {}
        with trio.move_on_after(PATIENCE_S):
            while True:
                hands = await self.hands()
                count = sum(len(numbers) for numbers in hands.values())
                if set(hands) == names and count == PARTITIONS and all(hands.values()):
                    self.tell(Handover(what, trio.current_time() - began_s, hands))
                    return
                await trio.sleep(LOOK_S)
        raise CommandError(
            f"it was waited in vain for {PATIENCE_S:.0f} s: {what}",
            why=str(hands),
            hint="report this with the output of quorate demo rebalance --debug",
        )

    async def caught_up(self) -> None:
        """Wait until the group has committed all that there is."""
        with trio.move_on_after(PATIENCE_S):
            while True:
                committed = await self.admin.list_group_offsets(GROUP)
                ends = await self.admin.list_offsets(dict.fromkeys(committed, OffsetSpec.LATEST))
                behind = [
                    partition
                    for partition, end in ends.items()
                    if isinstance(end, QuorateError) or committed[partition].offset < end.offset
                ]
                if len(ends) == PARTITIONS and not behind:
                    return
                await trio.sleep(LOOK_S)
