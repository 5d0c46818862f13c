"""Transactions while producers, coordinators, leaders and whole clusters end by kill -9.

``python -m tests.robustness.transactions --kills coordinator:200,leader:100,cluster:50
--producers 500 --client librdkafka --seed 1``

Each cluster takes its share of the kills, one or two at a time, as fast as it recovers, under the
workload ``killed-producers``, and is then judged as any run of ``quorate verify``: each transaction
is there as a whole or not at all, none is lost that was acknowledged, none is open in the end, and
replicas are the same. The first cluster with which something is wrong ends it all; its folder is
kept.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from quorate.errors import QuorateError
from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.judging import Validity, Verdict, judge
from quorate.jepsen.nemesis.schedules import Step
from quorate.jepsen.options import RunOptions
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.running import NotReadyError, Run, Scene, tidy, wait
from quorate.jepsen.store import RunFolder
from quorate.jepsen.workloads.killed_producers import KILLED, KILLED_PRODUCERS

CLUSTER: Final = "cluster"
VARIANTS: Final = {"coordinator": "coordinator", "leader": "writing-leader", CLUSTER: "all"}
"""Of the fault ``kill``, by what ``--kills`` calls them."""
KILLS: Final = "coordinator:200,leader:100,cluster:50"
PRODUCERS: Final = 500
KILLS_PER_CLUSTER: Final = 50
TRANSACTIONS_BETWEEN: Final = 10
"""So many are committed after one kill and before the next."""
RECOVERED_S_MAX: Final = 90.0
PRODUCERS_S_MAX: Final = 600.0
BRIEFLY_S: Final = 0.5
LONGER_S: Final = (2.2, 3.5)
"""Within and beyond the session of a broker."""
BRIEFLY_ODDS: Final = 0.6
TOGETHER_ODDS: Final = 0.6
"""Of a coordinator and a leader, one right after the other: two brokers of three."""
INFLICT_S: Final = 0.05
UNTIL_HEALED_S: Final = 1e6
WHOLE_ODDS: Final = 0.5
POLL_S: Final = 0.05

PROPERTIES: Final = {
    "transaction.state.log.num.partitions": "6",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to kill how often, in all; ``kills`` by the names in VARIANTS."""

    kills: dict[str, int]
    producers: int
    seed: int
    client: str
    controllers: int = 3

    @property
    def clusters(self) -> int:
        """How many clusters it takes."""
        return max(1, -(-sum(self.kills.values()) // KILLS_PER_CLUSTER))

    def share(self, number: int) -> tuple[list[str], int]:
        """Return what to kill in one of the clusters, in order, and how many producers."""
        kills = [
            name
            for name, total in self.kills.items()
            for _ in range(_share(total, number, self.clusters))
        ]
        Random(self.seed * 1000 + number).shuffle(kills)
        return kills, _share(self.producers, number, self.clusters)


def _share(total: int, number: int, parts: int) -> int:
    """Return one part of a total, such that all parts together are the total."""
    return total * (number + 1) // parts - total * number // parts


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    clusters: int = 0
    killed: Counter[str] = field(default_factory=Counter[str])
    """By fault: those that were seen to bite."""
    moments: Counter[str] = field(default_factory=Counter[str])
    """By moment: producers."""
    figures: Counter[str] = field(default_factory=Counter[str])
    recovery_s: list[float] = field(default_factory=list[float])
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list[str])

    def add(self, operation: Operation) -> None:
        """Take note of what was killed."""
        if operation.name == "fault" and operation.kind is Kind.OK and operation.told["verified"]:
            self.killed[operation.asked["fault"]] += 1
        elif operation.name == KILLED:
            self.moments[operation.asked[1]] += 1

    def table(self) -> str:
        """Return it for a person."""
        recovery_s = self.recovery_s or [0.0]
        named = {name: self.killed[f"kill:{variant}"] for name, variant in VARIANTS.items()}
        rows = [
            *((f"{name} kills", str(count)) for name, count in named.items()),
            ("producers killed", str(self.moments.total())),
            *((f"  {name}", str(count)) for name, count in sorted(self.moments.items())),
            *((name, f"{count:,}") for name, count in self.figures.items()),
            ("commits go on after", f"{median(recovery_s):.1f} s, {max(recovery_s):.1f} s at most"),
            ("clusters", str(self.clusters)),
            ("minutes", f"{self.seconds / 60:.1f}"),
            ("failures", str(len(self.failures))),
        ]
        return "\n".join(f"{name:<24} {value}" for name, value in rows)


class Director:
    """Kills one or two at a time, when what was broken before goes on again.

    State: how long that took.
    """

    def __init__(self, kills: Sequence[str], producers: int, rng: Random) -> None:
        self._kills = kills
        self._producers = producers
        self._rng = rng
        self.recovery_s: list[float] = []

    def direct(self, scene: Scene) -> None:
        """Let it all happen to a cluster.

        Raises:
            NotReadyError: it does not go on.
        """
        kills = list(self._kills)
        while kills:
            together = {kills.pop(0)}
            if CLUSTER not in together and self._rng.random() < TOGETHER_ODDS:
                other = next((name for name in kills if name not in {*together, CLUSTER}), None)
                if other is not None:
                    kills.remove(other)
                    together.add(other)
            self._go_on(scene, TRANSACTIONS_BETWEEN)
            self._kill(scene, [VARIANTS[name] for name in sorted(together)])
        self._go_on(scene, TRANSACTIONS_BETWEEN)
        _wait(scene, PRODUCERS_S_MAX, "too few producers are killed", self._are_killed)

    def _are_killed(self, scene: Scene) -> bool:
        return scene.count(KILLED) >= self._producers

    def _kill(self, scene: Scene, variants: Sequence[str]) -> None:
        rng, conductor = self._rng, scene.conductor
        is_brief = rng.random() < BRIEFLY_ODDS
        lasts_s = rng.uniform(0, BRIEFLY_S) if is_brief else rng.uniform(*LONGER_S)
        for variant in variants:
            before = conductor.inflicted
            while conductor.inflicted == before:  # else nobody has this role for the moment
                step = Step(0.0, "kill", variant, UNTIL_HEALED_S)
                conductor.run([step], scene.families, INFLICT_S, scene.tick)
        conductor.run((), scene.families, lasts_s, scene.tick)
        conductor.heal_all()
        begun_s = time.monotonic()
        self._go_on(scene, 1)
        self.recovery_s.append(time.monotonic() - begun_s)

    def _go_on(self, scene: Scene, transactions: int) -> None:
        """Wait until so many are committed, and mostly until all replicas are in sync again."""
        wanted = scene.count("txn") + transactions
        complaint = "transactions are not committed any more"
        _wait(scene, RECOVERED_S_MAX, complaint, lambda scene: scene.count("txn") >= wanted)
        if self._rng.random() < WHOLE_ODDS:
            _wait(scene, RECOVERED_S_MAX, "not all replicas are in sync", _is_whole)


def _is_whole(scene: Scene) -> bool:
    topics = {name.rpartition("-")[0] for name in scene.lab.view().partitions}
    return scene.lab.is_whole(topics)


def _wait(
    scene: Scene, seconds_max: float, complaint: str, is_done: Callable[[Scene], bool]
) -> None:
    def looked() -> bool:
        scene.tick()
        return is_done(scene)

    wait(looked, seconds_max, complaint)


def run(plan: Plan, folder: Path, *, progress: bool) -> Tally:
    """Do it below a folder; return what happened. The folder of a failure is kept."""
    tally = Tally()
    begun_s = time.monotonic()
    for number in range(plan.clusters):
        try:
            live(plan, number, folder, tally)
        except (QuorateError, AssertionError) as error:
            tally.failures.append(f"cluster {number}, in {folder}: {error!r}")
        tally.clusters += 1
        tally.seconds = time.monotonic() - begun_s
        if progress:
            print(f"{tally.table()}\n", flush=True)  # noqa: T201
        if tally.failures:
            break
    return tally


def live(plan: Plan, number: int, root: Path, tally: Tally) -> None:
    """Lead one cluster through its share of all that is killed, and judge it."""
    kills, producers = plan.share(number)
    seed = plan.seed * 1000 + number
    options = RunOptions(
        workloads=(KILLED_PRODUCERS.name,),
        faults=tuple(f"kill:{VARIANTS[name]}" for name in sorted(set(kills))),
        seconds=float(len(kills)),
        seed=seed,
        root=root,
        controllers=plan.controllers,
        client=plan.client,
        network="proxy",
        partitions=3,
        properties=PROPERTIES,
    )
    director = Director(kills, producers, Random(seed))
    made = Run(options, _tell, director.direct)
    try:
        made.carry_out()
    except NotReadyError as error:
        tally.failures.append(f"seed {seed}, kept in {made.folder.path}: {error}")
    tally.recovery_s += director.recovery_s
    verdict = judged(made.folder, tally)
    if verdict.validity is not Validity.VALID or tally.failures:
        told = [*verdict.anomalies.counts.items(), *verdict.notes]
        told += [quota for quota in verdict.quotas if not quota.met]
        kept = made.folder.path
        tally.failures.append(f"seed {seed}, kept in {kept}: {verdict.validity}: {told}")
    else:
        tidy(made.folder, pack=False)
        shutil.rmtree(made.folder.path)


def judged(folder: RunFolder, tally: Tally) -> Verdict:
    """Judge what is in a run's folder; add up what it tells."""
    history = HistoryFile(folder.history)
    for operation in history.operations():
        tally.add(operation)
    verdict = judge(history.header, history.operations(), is_cut_off=lambda: history.cut_off)
    for name in ("transactions", "committed", "aborted", "nobody knows", "nobody knows, and read"):
        tally.figures[name] += int(verdict.figures.get(name, 0))
    return verdict


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def counts(text: str) -> dict[str, int]:
    """Return what ``--kills`` says.

    Raises:
        ValueError: it makes no sense.
    """
    found: dict[str, int] = {}
    for word in text.split(","):
        name, _, count = word.partition(":")
        if name not in VARIANTS:
            raise ValueError(f"there is no {name!r}; there are {', '.join(VARIANTS)}")
        found[name] = int(count)
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.transactions", description=__doc__)
    parser.add_argument("--kills", type=counts, default=KILLS)
    parser.add_argument("--producers", type=int, default=PRODUCERS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", choices=KILLED_PRODUCERS.clients, default="librdkafka")
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    chosen = parser.parse_args()
    plan = Plan(chosen.kills, chosen.producers, chosen.seed, chosen.client, chosen.controllers)
    folder = chosen.dir or Path(tempfile.mkdtemp(prefix="quorate-transactions-"))
    tally = run(plan, folder, progress=True)
    for failure in tally.failures:
        print(failure)  # noqa: T201
    print(f"{' '.join(sys.argv[1:]) or KILLS}: seed {plan.seed}, {plan.client}")  # noqa: T201
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
