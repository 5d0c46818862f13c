"""Made-up runs, so that reports can be tested without a cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from quorate.jepsen.history import Event, HistoryWriter, Kind
from quorate.jepsen.store import RunFolder, create

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
BROKERS: Final = (101, 102, 103)
FAULTS: Final = ("kill", "pause", "partition", "power")
STARTED: Final = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)

HEADER: Final[dict[str, Any]] = {
    "seed": 7,
    "workloads": ["append"],
    "faults": ["kill", "pause"],
    "version": "0.1.0",
    "commit": "4f1c2ab",
    "python": "3.11.2",
    "kernel": "6.1",
    "brokers": 3,
    "controllers": 3,
    "replication_factor": 3,
    "min_insync": 2,
    "acks": "all",
    "session_timeout_ms": 2000,
    "client": "own",
    "against": False,
    "durability": "page-cache",
    "mutant": "",
    "started": STARTED.isoformat(),
    "allowed": [],
    "quotas": {"acks": 100},
    "duration_s": 60,
}


@dataclass
class Maker:
    """Makes the events of a run with a leader that fails now and then.

    ``lost`` acknowledged values are never read; ``stale`` reads of a register are planted.
    """

    seed: int
    seconds: int
    rate: int
    partitions: int = 3
    lost: int = 0
    stale: bool = False
    logs: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.names = [f"append-{number}" for number in range(self.partitions)]
        self.logs = {name: [] for name in self.names}
        self.leaders = {name: [BROKERS[i % 3], 0] for i, name in enumerate(self.names)}
        self.isrs = {name: set(BROKERS) for name in self.names}
        self.fresh = count(100)
        self.queue: list[tuple[int, int, Event]] = []
        self.order = count()
        self.values = count(1)
        self.down: int | None = None
        self.read = dict.fromkeys(self.names, 0)

    def events(self) -> Iterator[Event]:
        """Yield all, in the order of time."""
        self.later(0, 0, Kind.INVOKE, "phase", None)
        self.later(1, 0, Kind.OK, "phase", "load")
        self.view(2)
        gap = SECOND // self.rate
        next_fault, healing = 4 * SECOND, 0
        for now in range(5 * MS, self.seconds * SECOND, gap):
            if self.down is None and now >= next_fault and now < (self.seconds - 4) * SECOND:
                self.inflict(now)
                healing = now + self.rng.randrange(1, 4) * SECOND
            elif self.down is not None and now >= healing:
                self.heal(now)
                next_fault = now + self.rng.randrange(2, 5) * SECOND
            self.send(now)
            if self.rng.random() < 0.2:
                self.poll(now)
            yield from self.until(now)
        if self.down is not None:
            self.heal(self.seconds * SECOND)
        if self.stale:
            self.registers(self.seconds * SECOND + 20 * MS)
        yield from self.until((self.seconds + 20) * SECOND)
        yield from self.final((self.seconds + 21) * SECOND)

    def later(self, at: int, process: int, kind: Kind, name: str, value: Any) -> None:
        heappush(self.queue, (at, next(self.order), Event(at, process, kind, name, value)))

    def until(self, now: int) -> Iterator[Event]:
        while self.queue and self.queue[0][0] <= now:
            yield heappop(self.queue)[2]

    def both(self, at: int, process: int, name: str, asked: Any, told: Any) -> None:
        self.later(at, process, Kind.INVOKE, name, asked)
        self.later(at + 2 * MS, process, Kind.OK, name, told)

    def view(self, at: int) -> None:
        shown = {n: [self.leaders[n][0], self.leaders[n][1], sorted(self.isrs[n])]
                 for n in self.names}  # fmt: skip
        self.later(at, 1, Kind.INVOKE, "view", None)
        self.later(at, 1, Kind.OK, "view", {"controller": 1, "partitions": shown})

    def inflict(self, now: int) -> None:
        name, self.down = self.rng.choice(FAULTS), self.rng.choice(BROKERS)
        self.fault = name
        asked = {"fault": name, "targets": [f"broker-{self.down}"], "detail": {"signal": "KILL"}}
        verified = "the process is gone" if self.rng.random() < 0.9 else ""
        self.both(now, 0, "fault", asked, {"verified": verified})
        for partition in self.names:
            self.isrs[partition].discard(self.down)
            if self.leaders[partition][0] == self.down:
                epoch = self.leaders[partition][1] + 1
                self.leaders[partition] = [self.rng.choice(sorted(self.isrs[partition])), epoch]
        self.blocked_until = now + 900 * MS
        self.view(now + 950 * MS)

    def heal(self, now: int) -> None:
        self.both(now, 0, "heal", {"fault": self.fault}, {})
        for isr in self.isrs.values():
            isr.update(BROKERS)
        self.down = None
        self.view(now + 300 * MS)

    def send(self, now: int) -> None:
        process, value = next(self.fresh), next(self.values)
        name = self.rng.choice(self.names)
        asked = [name, value, 0, value]
        self.later(now, process, Kind.INVOKE, "send", asked)
        latency = int(self.rng.lognormvariate(1.5, 0.5) * MS)
        blocked = self.down is not None and now < self.blocked_until
        if blocked and self.rng.random() < 0.3:
            latency += self.blocked_until - now
        chance = self.rng.random()
        if blocked and chance < 0.05:
            self.later(now + 1500 * MS, process, Kind.INFO, "send", "REQUEST_TIMED_OUT")
            return
        if blocked and chance < 0.1:
            self.later(now + latency, process, Kind.FAIL, "send", "NOT_ENOUGH_REPLICAS")
        else:
            log = self.logs[name]
            log.append(value)
            self.later(now + latency, process, Kind.OK, "send", [len(log) - 1, 101, 0])

    def poll(self, now: int) -> None:
        told: list[Any] = []
        for name in self.names:
            # Only what was acknowledged a while ago: what is younger may still be under way.
            begin, end = self.read[name], max(self.read[name], len(self.logs[name]) - 60)
            if end > begin:
                told.append([name, [*range(begin, end)], self.logs[name][begin:end]])
                self.read[name] = end
        process = next(self.fresh)
        self.later(now, process, Kind.INVOKE, "poll", 1)
        self.later(now + self.rng.randrange(1, 20) * MS, process, Kind.OK, "poll", told)

    def registers(self, now: int) -> None:
        steps = [
            (0, 9, "put", ["config 1", "a"], None), (30, 40, "put", ["config 1", "b"], None),
            (50, 60, "get", "config 1", "b"), (70, 80, "get", "config 1", "a"),
            (85, 95, "cas", ["config 1", "b", "c"], True),
        ]  # fmt: skip
        for called, returned, name, asked, told in steps:
            process = next(self.fresh)
            self.later(now + called * MS, process, Kind.INVOKE, name, asked)
            self.later(now + returned * MS, process, Kind.OK, name, told)

    def final(self, now: int) -> Iterator[Event]:
        self.both(now, 0, "phase", None, "final")
        for name in self.names:
            log = self.logs[name]
            kept = [i for i in range(len(log)) if not self.lost or i not in self.gone(name)]
            told = [[name, kept, [log[i] for i in kept]]]
            self.both(now + 10 * MS, next(self.fresh), "read", 0, told)
        self.both(now + 20 * MS, 2, "audit", None, [])
        self.both(now + 30 * MS, 2, "metadata-log", None, [[0, "TermStarted", {}, "an election"]])
        self.both(now + 500 * MS, 0, "phase", None, "end")
        yield from self.until(now + SECOND)

    def gone(self, name: str) -> range:
        """Return the offsets that the final read does not have."""
        middle = len(self.logs[name]) // 2
        return range(middle, middle + self.lost) if name == self.names[0] else range(0)


def write_history(path: Path, header: dict[str, Any], events: Iterable[Event]) -> None:
    """Write a history into a file."""
    with path.open("wb") as file:
        writer = HistoryWriter(file, header)
        for event in events:
            writer.add(event)


def made_run(root: Path, maker: Maker, **header: Any) -> RunFolder:
    """Write a run into a folder of its own."""
    whole: dict[str, Any] = {**HEADER, "seed": maker.seed, **header}
    folder = create(root, STARTED, whole["workloads"], maker.seed)
    write_history(folder.history, whole, maker.events())
    repeat = f"quorate verify run append --time 60 --faults kill,pause --seed {maker.seed}"
    folder.write_about(whole, repeat=repeat)
    return folder
