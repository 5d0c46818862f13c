"""Three brokers whose leaders are killed, paused, cut off and restarted, under load.

``python -m tests.robustness.replication --mode kill --rounds 100 --client librdkafka --seed 1``

Modes: kill (-9, the leader of a partition), in-turn (two or three brokers, before the first is
back), pause (the leader, for longer than its session), isolate (the leader from the controllers;
clients and followers still reach it), rolling (every broker is told to stop, one after the other),
all-killed (every process, controllers too), all-stopped (likewise, but properly), wipe (kill a
leader and give it an empty disk), mixed (all of these, sometimes before the cluster is whole
again), coordinator (kill -9, of the group). With ``--group classic`` or ``consumer`` a consumer
group reads along, whose members come and go; its partitions must be owned once, its commits skip
nothing and never go back.  ``--on kafka`` runs it on Apache Kafka, which comes to no new disk by
itself; ``--acks 1`` shows that losses are seen.

Afterwards every acknowledged record is there once, at its offset, in order; consumers saw the same;
replicas are the same bytes below the high watermark.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from quorate.broker.groups.coordinator import GROUPS_TOPIC
from quorate.broker.shards.shards import partition_of
from quorate.jepsen.clients.wire import Client, ClosedError, WrongLogError, create_topic
from tests.robustness.groups import GROUP, PROTOCOLS, ReadingGroup
from tests.robustness.replication_cluster import (
    KINDS,
    DiedError,
    Host,
    read_batches,
    read_values,
)
from tests.robustness.replication_history import check, longest_gaps, slowest_ack
from tests.robustness.replication_load import CLIENTS, Load, Reader

TOPIC: Final = "replicated"
PARTITIONS: Final = 6
PRODUCERS: Final = 2
ROUNDS_PER_CLUSTER: Final = 10
CALM_S_MAX: Final = 1.0
DOWN_S_MAX: Final = 3.0
ISOLATED_S_MAX: Final = 5.0
PROGRESS_S_MAX: Final = 90.0
WHOLE_S_MAX: Final = 90.0
ANSWERED_S_MAX: Final = 120.0
READ_S_MAX: Final = 30.0
POLL_S: Final = 0.05
SOON: Final = 0.5
"""How often, in mixed mode, the next fault does not wait for all replicas."""
MODES: Final = {
    "kill": 4,
    "in-turn": 3,
    "pause": 4,
    "isolate": 3,
    "rolling": 1,
    "all-killed": 1,
    "all-stopped": 1,
    "wipe": 1,
}
"""What can happen, and how often it does in mixed mode, in proportion."""
COORDINATOR: Final = "coordinator"
"""What else can happen where there is a group, and then as often as kill."""


class StuckError(Exception):
    """Something that had to happen did not for a long time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    faults: Sequence[str]
    seed: int
    kind: str = "quorate"
    client: str = "librdkafka"
    acks: str = "all"
    session_timeout_ms: int = 2_000
    records_per_s: int = 2_000
    impatient: bool = False
    """Whether faults may follow before the cluster is whole again."""
    group: str = ""
    """The protocol of a consumer group that reads along, if there is to be one."""

    def properties(self) -> dict[str, str]:
        """Return the properties of all nodes."""
        return {
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(self.session_timeout_ms // 5),
            "log.segment.bytes": str(1 << 20),
            "leader.imbalance.check.interval.seconds": "5",
            "auto.create.topics.enable": "false",
        }


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    faults: list[str] = field(default_factory=list[str])
    clusters: int = 0
    sent: int = 0
    acked: int = 0
    read: int = 0
    failovers_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Per kind of fault: the longest time without acknowledgement of each partition hit."""
    slowest_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Per kind of fault: how long a record waited at most."""
    failures: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """Return it for a person."""
        times = "; ".join(
            f"{fault} {self.faults.count(fault)} times, failover {_spread(times)},"
            f" slowest record {_spread(self.slowest_s[fault])}"
            for fault, times in self.failovers_s.items()
        )
        return (
            f"{len(self.faults)} faults in {self.clusters} clusters; {self.sent} records sent,"
            f" {self.acked} acknowledged, {self.read} read; {times};"
            f" {len(self.failures)} failures"
        )


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return "-"
    return f"{median(times_s):.2f} s in the median, {max(times_s):.2f} s at most"


class Life:
    """One cluster through some faults, always under load."""

    def __init__(self, work: Path, plan: Plan, seed: int, tally: Tally) -> None:
        self._rng = Random(seed)
        self._plan = plan
        self._tally = tally
        self._work = work
        self.cluster = KINDS[plan.kind](work, plan.properties())
        self._loads: list[Load] = []
        self._reader: Reader | None = None
        self._group: ReadingGroup | None = None
        self._timeline = (work / "timeline").open("w", buffering=1)

    def run(self, faults: Sequence[str]) -> None:
        """Start the cluster, let these happen to it, look at what is left.

        Raises:
            StuckError: it did not go on working.
            DiedError: a node ended by itself.
        """
        happen = self.faults()
        self.cluster.start()
        self._tell("started")
        self._create_topic()
        self._start_load()
        self._wait_for_progress()
        for fault in faults:
            time.sleep(self._rng.uniform(0, CALM_S_MAX))
            begun_s = time.monotonic()
            self._tell(fault)
            hit = happen[fault]()
            self._note(fault, hit, begun_s, time.monotonic())
            if not (self._plan.impatient and self._rng.random() < SOON):
                self._wait_until_whole()
            self.cluster.check_alive()
        self._wait_until_whole()
        for load in self._loads:
            load.stop(ANSWERED_S_MAX)
        self._judge()
        self._judge_group()
        self.cluster.check_alive()
        if (
            self._plan.kind == "quorate"
        ):  # three nodes of Kafka that stop at once wait for each other
            self.cluster.stop()

    def close(self) -> None:
        """End everything; note what happened."""
        self._timeline.close()
        for load in self._loads:
            load.stop(0)
        if self._group is not None:
            self._group.stop()
        if self._reader is not None:
            self._reader.stop()
            self._tally.read += sum(map(len, self._reader.reads.values()))
        self._tally.clusters += 1
        self._tally.sent += sum(len(load.sent.sent_s) for load in self._loads)
        self._tally.acked += sum(load.sent.acked for load in self._loads)

    def _create_topic(self) -> None:
        """Create the topic as soon as there are three brokers for its replicas."""

        def is_created() -> bool:
            configs = {"min.insync.replicas": "2"}
            with Client(self.cluster.brokers[0].port) as client:
                code = create_topic(
                    client, TOPIC, PARTITIONS, configs, replicas=len(self.cluster.brokers)
                )
            return code == 0

        self._wait("no topic can be created", WHOLE_S_MAX, is_created)
        self._wait_until_whole()

    def _start_load(self) -> None:
        client = CLIENTS[self._plan.client]
        per_s = self._plan.records_per_s // PRODUCERS
        for producer in range(PRODUCERS):
            self._loads.append(
                client(producer, self.cluster.bootstrap, TOPIC, PARTITIONS, per_s, self._plan.acks)
            )
        bootstrap, protocol = self.cluster.bootstrap, self._plan.group
        self._reader = Reader(bootstrap, TOPIC, PARTITIONS)
        if protocol:
            seed = self._rng.getrandbits(32)
            self._group = ReadingGroup(self._work, bootstrap, TOPIC, PARTITIONS, seed, protocol)

    def _tell(self, what: str) -> None:
        """Note for people what happens, by the clock of acknowledgements."""
        self._timeline.write(f"{time.monotonic():.3f} {what}\n")

    # --- faults: each returns the partitions that it hit, once writes go on everywhere

    def faults(self) -> dict[str, Callable[[], Sequence[int]]]:
        """Return what can happen, by name."""
        return {
            "kill": self._kill,
            "in-turn": self._kill_in_turn,
            "pause": self._pause,
            "isolate": self._isolate,
            "rolling": self._roll,
            "all-killed": self._kill_all,
            "all-stopped": self._stop_all,
            "wipe": self._wipe,
            COORDINATOR: self._kill_coordinator,
        }

    def _victim(self) -> tuple[Host, list[int]]:
        """Return the leader of some partition, and all that it leads."""
        leaders = self.cluster.leaders(TOPIC)
        led = [leader for leader in leaders.values() if leader >= 0]
        if not led:
            raise StuckError(f"no partition has a leader: {leaders}")
        victim = self._rng.choice(led)
        self._tell(f"hit {victim}, who leads; all leaders: {leaders}")
        return self.cluster.broker(victim), [p for p, n in leaders.items() if n == victim]

    def _kill(self) -> Sequence[int]:
        """Kill a leader; it is back at once, or when others lead, or later."""
        victim, led = self._victim()
        victim.kill()
        if self._rng.random() < 0.5:
            self._wait_for_progress()
        self._stay_down()
        self.cluster.start()
        self._wait_for_progress()
        return led

    def _kill_in_turn(self) -> Sequence[int]:
        """Kill two or three brokers before the first is back: who was last in sync leads then."""
        victims = self._rng.sample(self.cluster.brokers, self._rng.choice((2, 2, 3)))
        for host in victims:
            self._tell(f"kill {host.node_id}")
            host.kill()
            self._stay_down()
        for host in self._rng.sample(victims, len(victims)):
            self._tell(f"start {host.node_id}")
            host.start()
            self._stay_down()
        self.cluster.start()
        self._wait_for_progress()
        return range(PARTITIONS)

    def _stay_down(self) -> None:
        """Go on at once, or after a moment, or when others lead."""
        time.sleep(
            self._rng.choice((0, self._rng.uniform(0, 0.5), self._rng.uniform(0, DOWN_S_MAX)))
        )

    def _pause(self) -> Sequence[int]:
        victim, led = self._victim()
        victim.pause()
        time.sleep(self._plan.session_timeout_ms / 1000 * self._rng.uniform(1.1, 2))
        if self._rng.random() < 0.5:
            self._wait_for_progress()
        victim.resume()
        self._wait_for_progress()
        return led

    def _isolate(self) -> Sequence[int]:
        victim, led = self._victim()
        self.cluster.isolate(victim)
        time.sleep(self._plan.session_timeout_ms / 1000 * self._rng.uniform(1.1, 2))
        # Who asks the old leader only is told of no other: writes need not go on before the end.
        with contextlib.suppress(StuckError):
            self._wait_for_progress(self._rng.uniform(0, ISOLATED_S_MAX))
        self.cluster.network.heal(hard=self._rng.random() < 0.5)
        self._wait_for_progress()
        return led

    def _roll(self) -> Sequence[int]:
        for host in self._rng.sample(self.cluster.brokers, len(self.cluster.brokers)):
            self._tell(f"stop {host.node_id}")
            host.stop()
            self._tell("stopped")
            self._stay_down()
            self.cluster.start()
            self._wait_until_whole()
        self._wait_for_progress()
        return range(PARTITIONS)

    def _kill_all(self) -> Sequence[int]:
        for host in self._in_any_order():
            host.kill()
        return self._start_all()

    def _stop_all(self) -> Sequence[int]:
        for host in self._rng.sample(self.cluster.brokers, len(self.cluster.brokers)):
            host.stop()
        for host in self.cluster.controllers:
            host.stop()
        return self._start_all()

    def _start_all(self) -> Sequence[int]:
        for host in self._in_any_order():
            host.start()
        self.cluster.start()
        self._wait_for_progress()
        return range(PARTITIONS)

    def _in_any_order(self) -> Iterator[Host]:
        """Yield all processes, at once or one after the other."""
        for host in self._rng.sample(self.cluster.hosts, len(self.cluster.hosts)):
            yield host
            self._stay_down()

    def _wipe(self) -> Sequence[int]:
        """Kill a leader and give it an empty disk: what it had, two others have."""
        self._wait_until_whole()
        victim, led = self._victim()
        victim.kill()
        victim.wipe()
        if self._rng.random() < 0.5:
            self._wait_for_progress()
        self.cluster.start()
        self._wait_for_progress()
        return led

    def _kill_coordinator(self) -> Sequence[int]:
        """Kill who coordinates the group; it is back at once, or later."""
        leaders: dict[int, int] = {}

        def is_led() -> bool:
            leaders.update(self.cluster.leaders(GROUPS_TOPIC))
            return bool(leaders) and leaders[partition_of(GROUP, len(leaders))] >= 0

        self._wait("nobody coordinates the group", PROGRESS_S_MAX, is_led)
        victim = self.cluster.broker(leaders[partition_of(GROUP, len(leaders))])
        self._tell(f"hit {victim.node_id}, who coordinates")
        victim.kill()
        self._stay_down()
        self.cluster.start()
        self._wait_for_progress()
        return range(PARTITIONS)

    def _note(self, fault: str, hit: Sequence[int], begun_s: float, ended_s: float) -> None:
        sents = [load.sent for load in self._loads]
        gaps_s = longest_gaps(sents, hit, begun_s, ended_s)
        self._tally.faults.append(fault)
        self._tally.failovers_s.setdefault(fault, []).extend(gaps_s.values())
        self._tell(f"{fault} is over; partitions without acknowledgement: {gaps_s}")
        slowest_s = slowest_ack(sents, begun_s, ended_s)
        self._tally.slowest_s.setdefault(fault, []).append(slowest_s)

    # --- waiting

    def _wait(self, complaint: str, timeout_s: float, is_done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                if is_done():
                    return
            except (ClosedError, WrongLogError):  # not yet, or it is about to go
                pass
            self.cluster.check_alive()
            if time.monotonic() > deadline_s:
                raise StuckError(f"{complaint} after {timeout_s:.0f} s: {self._views()}")
            time.sleep(POLL_S)

    def _views(self) -> str:
        return "; ".join(map(str, self.cluster.views(TOPIC)))

    def _wait_for_progress(self, timeout_s: float = PROGRESS_S_MAX) -> None:
        """Wait until something that is sent from now on is acknowledged, in every partition.

        If there is a group, it must commit something, too.
        """
        begins = [len(load.sent.sent_s) for load in self._loads]
        commits = self._group.commits if self._group is not None else 0

        def is_going_on() -> bool:
            if self._group is not None and self._group.commits == commits:
                return False
            wanted = set(range(PARTITIONS))
            for load, begin in zip(self._loads, begins, strict=True):
                sent = load.sent
                numbers = range(begin, len(sent.offsets))
                wanted -= {sent.partition_of(n) for n in numbers if sent.offsets[n] >= 0}
            return not wanted

        self._wait("no acknowledgement in some partition, or no commit", timeout_s, is_going_on)

    def _wait_until_whole(self) -> None:
        self._wait(
            "not all replicas are in sync", WHOLE_S_MAX, lambda: self.cluster.is_whole(TOPIC)
        )
        self._tell("all replicas are in sync")

    # --- afterwards

    def _judge(self) -> None:
        assert self._reader is not None
        reader = self._reader
        ends: dict[int, int] = {}

        def are_ends_known() -> bool:
            ends.update(self.cluster.high_watermarks(TOPIC))
            return len(ends) == PARTITIONS

        self._wait("no high watermarks", PROGRESS_S_MAX, are_ends_known)
        deadline_s = time.monotonic() + READ_S_MAX
        while reader.ends() != ends and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        brokers = self.cluster.brokers
        found = check(
            [load.sent for load in self._loads],
            {n: read_values(brokers[0], TOPIC, n) for n in range(PARTITIONS)},
            ends,
            reader.reads,
            {
                n: {host.node_id: read_batches(host, TOPIC, n) for host in brokers}
                for n in range(PARTITIONS)
            },
        )
        self._tally.failures += [*found, *(f"a consumer failed: {e}" for e in reader.errors)]

    def _judge_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.stop()
            self._tally.failures += group.problems()


def run(plan: Plan, folder: Path, *, progress: bool) -> Tally:
    """Do it below a folder; return what happened.  Directories of failures are kept."""
    tally = Tally()
    for number, start in enumerate(range(0, len(plan.faults), ROUNDS_PER_CLUSTER)):
        seed = plan.seed * 1000 + number
        work = Path(tempfile.mkdtemp(prefix=f"quorate-replication-{seed}-", dir=folder))
        live(plan, work, seed, plan.faults[start : start + ROUNDS_PER_CLUSTER], tally)
        if progress:
            print(tally.line(), flush=True)  # noqa: T201
        if tally.failures:
            tally.failures.append(f"seed {seed}, kept in {work}")
            break
        shutil.rmtree(work)
    return tally


def live(plan: Plan, work: Path, seed: int, faults: Sequence[str], tally: Tally) -> None:
    """Lead one cluster through some faults."""
    life = Life(work, plan, seed, tally)
    with life.cluster:
        try:
            life.run(faults)
        except (StuckError, DiedError, AssertionError) as error:
            tally.failures.append(f"{type(error).__name__}: {error}")
        finally:
            life.close()


def planned(mode: str, rounds: int, seed: int, *, with_group: bool) -> list[str]:
    """Return the faults of a mode; mixed has some of each."""
    if mode != "mixed":
        return [mode] * rounds
    modes = {**MODES, COORDINATOR: MODES["kill"]} if with_group else MODES
    return Random(seed).choices(list(modes), weights=list(modes.values()), k=rounds)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.replication", description=__doc__)
    parser.add_argument("--mode", choices=(*MODES, COORDINATOR, "mixed"), default="mixed")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--client", choices=CLIENTS, default="librdkafka")
    parser.add_argument("--on", choices=KINDS, default="quorate")
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--group", choices=("", *PROTOCOLS), default="")
    parser.add_argument("--session-timeout-ms", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    faults = planned(chosen.mode, chosen.rounds, chosen.seed, with_group=bool(chosen.group))
    plan = Plan(
        [fault for fault in faults if fault != "wipe" or chosen.on == "quorate"],
        chosen.seed,
        kind=chosen.on,
        client=chosen.client,
        acks=chosen.acks,
        session_timeout_ms=chosen.session_timeout_ms,
        impatient=chosen.mode == "mixed",
        group=chosen.group,
    )
    tally = run(plan, Path(tempfile.gettempdir()), progress=True)
    for failure in tally.failures:
        print(failure)  # noqa: T201
    print(tally.line())  # noqa: T201
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
