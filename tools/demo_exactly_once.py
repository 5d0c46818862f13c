"""The demo of exactly once: a program that reads, changes and writes is killed again and again."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Final, Literal

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import TopicDescription
from quorate.client.consumer import Consumer
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.demo_cluster import DemoCluster, demo_cluster
from quorate.tools.demo_squares import COMMIT_S, SINK, SOURCE
from quorate.tools.problems import CommandError

PARTITIONS: Final = 4
PLACES: Final = tuple(TopicPartition(SINK, number) for number in range(PARTITIONS))
KILLS: Final = 4
SETTINGS: Final = ("group.initial.rebalance.delay.ms=0",)
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.02
WRITE_S: Final = 0.01
WRITTEN_AT_ONCE: Final = 20
UNHURT_S: Final = 0.73
"""How long a program works before it is killed: not a multiple of its commits."""
POLL_RECORDS: Final = 5000

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, how long until results came again, and how many there are."""

    what: str
    seconds: float
    written: int
    results: int


@dataclass(frozen=True, slots=True)
class Reckoning:
    """What a reader of committed records was given for the numbers that were written.

    Attributes:
        missing: numbers without a square.
        repeated: squares that came once more.
        wrong: squares of numbers that nobody wrote, and other squares than theirs.
        cut_off: squares in the log that nobody is given: their transactions were cut off.
    """

    written: int
    missing: int
    repeated: int
    wrong: int
    cut_off: int

    @property
    def ok(self) -> bool:
        """Whether each number has its square once."""
        return not (self.missing or self.repeated or self.wrong)


Tell = Callable[[Moment], None]


def reckon(written: int, squares: Mapping[tuple[int, int], int], in_the_log: int) -> Reckoning:
    """Compare squares, and how often each came, with the numbers from 0 to below ``written``."""
    right = {(number, number**2) for number in range(written)}
    return Reckoning(
        written,
        missing=len(right - squares.keys()),
        repeated=sum(squares.values()) - len(squares),
        wrong=len(squares.keys() - right),
        cut_off=in_the_log - sum(squares.values()),
    )


def moment_text(moment: Moment) -> str:
    """Return how far it is, how long it took, and what happened."""
    counts = f"{moment.written:6} numbers  {moment.results:6} squares"
    return f"{counts}  {moment.seconds:4.1f} s  <- {moment.what}"


def moment_object(moment: Moment) -> str:
    """Return a moment as one line of JSON."""
    return json.dumps({
        "event": "step", "what": moment.what, "seconds": round(moment.seconds, 3),
        "written": moment.written, "results": moment.results,
    })  # fmt: skip


def reckoning_text(end: Reckoning) -> str:
    """Return whether each came once."""
    if end.ok:
        came = f"{end.written} numbers were written, and each has its square, once."
    else:
        came = (
            f"Of {end.written} numbers {end.missing} HAVE NO SQUARE, {end.repeated} SQUARES CAME"
            f" AGAIN, {end.wrong} ARE WRONG."
        )
    return (
        f"{came} {end.cut_off} more squares are in the log: those of transactions that were cut"
        " off and aborted, which no reader of committed records is given."
    )


def reckoning_object(end: Reckoning) -> str:
    """Return the end as one line of JSON."""
    return json.dumps({
        "event": "end", "written": end.written, "missing": end.missing,
        "repeated": end.repeated, "wrong": end.wrong, "cut_off": end.cut_off, "ok": end.ok,
    })  # fmt: skip


async def exactly_once(tell: Tell) -> Reckoning:
    """Play the story; nothing of it is left afterwards.

    Raises:
        QuorateError: something did not work at all.
    """
    async with demo_cluster(settings=SETTINGS) as cluster, Admin(cluster.bootstrap) as admin:
        for topic in (SOURCE, SINK):
            await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        async with _Programs.open(cluster.bootstrap) as programs, trio.open_nursery() as nursery:
            numbers, squares = _Numbers(cluster.bootstrap), _Squares(cluster.bootstrap)
            nursery.start_soon(numbers.write)
            nursery.start_soon(squares.read)
            story = _Story(programs, numbers, squares, tell)
            await story.begin()
            for kill in range(1, KILLS + 1):
                await story.kill_the_program(kill)
            await story.kill_a_broker(cluster, admin)
            await numbers.stop()
            await story.wait_for_results(numbers.count)
            nursery.cancel_scope.cancel()
        given = await _read_all(cluster.bootstrap, "read_committed")
        in_the_log = await _read_all(cluster.bootstrap, "read_uncommitted")
    return reckon(numbers.count, given, in_the_log.total())


@dataclass(slots=True)
class _Numbers:
    """Owns a stream of numbers, from 0 on."""

    bootstrap: str
    count: int = 0
    _stopping: bool = False
    _stopped: trio.Event = field(default_factory=trio.Event)

    async def write(self) -> None:
        async with Producer(self.bootstrap) as producer:
            while not self._stopping:
                for _ in range(WRITTEN_AT_ONCE):
                    text = b"%d" % self.count
                    await producer.enqueue(SOURCE, text, key=text)
                    self.count += 1
                await trio.sleep(WRITE_S)
        self._stopped.set()

    async def stop(self) -> None:
        self._stopping = True
        await self._stopped.wait()


@dataclass(slots=True)
class _Squares:
    """Owns how many squares a reader of committed records has been given so far."""

    bootstrap: str
    count: int = 0

    async def read(self) -> None:
        async with _reader(self.bootstrap, "read_committed") as consumer:
            consumer.assign(PLACES)
            while True:
                self.count += len(await consumer.poll(max_records=POLL_RECORDS))


def _reader(bootstrap: str, isolation_level: Isolation) -> Consumer:
    return Consumer(bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest")


async def _read_all(bootstrap: str, isolation_level: Isolation) -> Counter[tuple[int, int]]:
    """Return how often each number came with each square, from the beginning to the end."""
    found = Counter[tuple[int, int]]()
    async with _reader(bootstrap, isolation_level) as consumer:
        consumer.assign(PLACES)
        ends = await consumer.end_offsets(PLACES)
        while True:
            records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=100)
            found.update((int(r.key or b"-1"), int(r.value or b"-1")) for r in records)
            positions = [await consumer.position(place) >= end for place, end in ends.items()]
            if all(positions):
                return found


class _Programs:
    """Owns the process of the program that runs, if one does."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process: trio.Process | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, bootstrap: str) -> AsyncGenerator["_Programs"]:
        programs = cls(bootstrap)
        try:
            yield programs
        finally:
            with trio.CancelScope(shield=True):
                await programs.kill()

    async def start(self) -> None:
        self._process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "quorate.tools.demo_squares", self._bootstrap],
            stdin=subprocess.PIPE,  # it ends when this does: also if this process is killed
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            if self._process.stdin is not None:
                await self._process.stdin.aclose()
            self._process = None


@dataclass(frozen=True, slots=True)
class _Story:
    """Lets things happen, and tells how long it was until results came again."""

    programs: _Programs
    numbers: _Numbers
    squares: _Squares
    tell: Tell

    async def begin(self) -> None:
        began_s = trio.current_time()
        await self.programs.start()
        await self.wait_for_results(1)
        self._say(
            f"the program squares numbers, a transaction each {1e3 * COMMIT_S:.0f} ms", began_s
        )

    async def kill_the_program(self, number: int) -> None:
        await trio.sleep(UNHURT_S)
        began_s = trio.current_time()
        await self.programs.kill()
        before = self.squares.count
        await self.programs.start()
        await self.wait_for_results(before + 1)
        self._say(f"the program was killed (-9), and started again: {number} of {KILLS}", began_s)

    async def kill_a_broker(self, cluster: DemoCluster, admin: Admin) -> None:
        await trio.sleep(UNHURT_S)
        described = (await admin.describe_topics([SINK]))[SINK]
        assert isinstance(described, TopicDescription)
        broker_id = described.partitions[0].leader_id
        began_s = trio.current_time()
        cluster.kill_broker(broker_id)
        before = self.numbers.count
        await self.wait_for_results(before + 1)
        self._say(f"broker {broker_id} was killed, which led a part of the squares", began_s)
        began_s = trio.current_time()
        await cluster.start_what_is_missing()
        self._say(f"broker {broker_id} was started again", began_s)

    async def wait_for_results(self, count: int) -> None:
        """Wait until there are so many squares.

        Raises:
            CommandError: they do not come.
        """
        with trio.move_on_after(PATIENCE_S):
            while self.squares.count < count:  # noqa: ASYNC110 - they come from outside
                await trio.sleep(LOOK_S)
            return
        raise CommandError(
            f"{count - self.squares.count} squares did not come for {PATIENCE_S:.0f} s",
            why=f"{self.numbers.count} numbers were written, {self.squares.count} squares came",
            hint="report this with the output of quorate demo exactly-once --debug",
        )

    def _say(self, what: str, began_s: float) -> None:
        seconds = trio.current_time() - began_s
        self.tell(Moment(what, seconds, self.numbers.count, self.squares.count))
