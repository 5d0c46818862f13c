"""Three controllers that are killed, cut off, powered off, paused and given new disks.

``python -m tests.robustness.quorum --kills 200 --full 50 --power 50 --partitions 20``

Clients compare and set registers all the while.  Afterwards every register's history is
linearizable, every acknowledged write a fact that all controllers tell, no refused one; no term has
gone back, and none has had two leaders.  ``--lying-disks``, whose syncs make nothing safe,
shows that losses are seen.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from quorate.control import messages as m
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.lab.network import Pair, apart, isolated
from tests.robustness.quorum_cluster import Cluster, DiedError, Machine, wait_until_dead
from tests.robustness.quorum_history import History, Wipe, blind
from tests.robustness.quorum_registers import CLIENTS, RegisterLoad

ROUNDS_PER_CLUSTER: Final = 16
CALM_S_MAX: Final = 0.4
DOWN_S_MAX: Final = 1.2
PARTED_S_MAX: Final = 2.5
CHANGES_MAX: Final = 300
MID_CHANGE_S_MAX: Final = 1.0
PROGRESS_S_MAX: Final = 60.0
STEP_S_MAX: Final = 3.0
STEP_PAUSE_S: Final = 0.1
FORMING_S_MAX: Final = 60.0
FORMING_FAULTS_MAX: Final = 3
FORMING_FAULT_S_MAX: Final = 1.0
FINAL_READ_S_MAX: Final = 30.0

SNAPSHOT_ENTRIES: Final = (30, 200, 20_000)
"""After so many entries a snapshot is written: all the time, now and then, never."""


class StuckError(Exception):
    """Nothing was acknowledged for a long time although a majority was there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do how often."""

    kills: int
    full_kills: int
    power_cuts: int
    partitions: int
    pauses: int
    wipes: int
    seed: int
    lying_disks: bool = False
    patience_s: float = PROGRESS_S_MAX
    """How long nothing may be acknowledged although a majority is there."""


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    forming_faults: int = 0
    leader_kills: int = 0
    follower_kills: int = 0
    mid_change: int = 0
    full_kills: int = 0
    power_cuts: int = 0
    cuts_that_lost: int = 0
    pauses: int = 0
    wipes: int = 0
    partitions: int = 0
    partitions_that_bit: int = 0
    clusters: int = 0
    operations: int = 0
    acknowledged: int = 0
    unknown: int = 0
    terms: int = 0
    blind: int = 0
    recovery_s: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """Return it for a person."""
        recovery_s = sorted(self.recovery_s) or [0.0]
        return (
            f"{self.leader_kills} leaders and {self.follower_kills} followers killed"
            f" ({self.mid_change} inside a change of the disk), {self.full_kills} times all;"
            f" {self.power_cuts} power cuts, {self.cuts_that_lost} of which lost unsynced bytes;"
            f" {self.partitions} partitions, {self.partitions_that_bit} of which bit;"
            f" {self.pauses} pauses, {self.wipes} new disks;"
            f" {self.clusters} clusters, {self.forming_faults} faults while they formed,"
            f" {self.terms} terms, {self.operations} operations,"
            f" {self.acknowledged} writes acknowledged, {self.unknown} unknown;"
            f" work went on after {recovery_s[len(recovery_s) // 2]:.2f} s in the median,"
            f" {recovery_s[-1]:.2f} s at most; {self.blind} clusters not read completely;"
            f" {len(self.failures)} failures"
        )


class Life:
    """One cluster through many faults, always under load."""

    def __init__(self, work: Path, plan: Plan, seed: int, tally: Tally) -> None:
        self._rng = Random(seed)
        self._plan = plan
        self._tally = tally
        entries = str(self._rng.choice(SNAPSHOT_ENTRIES))
        self.cluster = Cluster(work, {"quorate.quorum.snapshot.entries": entries})
        for machine in self.cluster.machines:
            machine.shim.set("sync_lies", int(plan.lying_disks))
        self._history = History(first_key=1)
        self._load = RegisterLoad(
            self.cluster.ports, self._history, Random(self._rng.getrandbits(64))
        )

    def run(self, faults: Sequence[str]) -> None:
        """Form a cluster, let these happen to it, look at what is left.

        Raises:
            StuckError: it did not go on working.
            DiedError: a controller ended by itself.
        """
        happen: dict[str, Callable[[], None]] = {
            "kill": self._kill_one,
            "full": self._kill_all,
            "power": self._cut_power,
            "partition": self._part,
            "pause": self._pause,
            "wipe": self._wipe,
        }
        self.cluster.start()
        self._load.start()
        try:
            self._disturb_forming()
            self._wait_for_progress(FORMING_S_MAX)
            for fault in faults:
                time.sleep(self._rng.uniform(0, CALM_S_MAX))
                happen[fault]()
                begun_s = time.monotonic()
                self._wait_for_progress(self._plan.patience_s)
                self._tally.recovery_s.append(time.monotonic() - begun_s)
                self.cluster.check_alive()
        finally:
            self._load.stop()
        self._judge()
        self.cluster.stop()

    def judge_what_there_is(self) -> None:
        """Look for what is wrong in the history of a cluster that came to no good end."""
        self._tally.failures += self._history.check(self._load.feeds, complete=False)

    def close(self) -> None:
        """End everything; note what happened."""
        self._load.close()
        self.cluster.close()
        tally, history = self._tally, self._history
        tally.clusters += 1
        tally.operations += len(history.operations)
        tally.acknowledged += history.acknowledged
        tally.unknown += history.unknown.total()
        tally.terms += len({view.term for view in history.views})
        tally.blind += blind(self._load.feeds)

    def _judge(self) -> None:
        if not self._load.read_all(FINAL_READ_S_MAX):
            raise StuckError(f"registers cannot be read: {self.cluster.tails()}")
        if not self._load.catch_up():
            raise StuckError(f"controllers do not catch up: {self.cluster.tails()}")
        self._tally.failures += self._history.check(self._load.feeds)

    def _wait_for_progress(self, timeout_s: float) -> None:
        """Wait until each client could have had a write acknowledged."""
        wanted = self._history.acknowledged + CLIENTS
        deadline_s = time.monotonic() + timeout_s
        while self._history.acknowledged < wanted:
            self.cluster.check_alive()
            if time.monotonic() > deadline_s:
                problems = self._history.problems
                raise StuckError(f"no write for {timeout_s} s {problems}: {self.cluster.tails()}")
            time.sleep(0.02)

    def _disturb_forming(self) -> None:
        """Let controllers fail that do not know yet which cluster they will belong to."""
        for _ in range(self._rng.randrange(FORMING_FAULTS_MAX + 1)):
            time.sleep(self._rng.uniform(0, FORMING_FAULT_S_MAX))
            machine = self._rng.choice(self.cluster.machines)
            if self._rng.random() < 0.5:
                machine.kill()
            else:
                machine.cut_power(self._rng)
            self._tally.forming_faults += 1
            machine.start()

    # --- kill -9

    def _kill_one(self) -> None:
        leader = self.cluster.leader(DOWN_S_MAX)
        if leader is not None and self._rng.random() < 0.5:
            self._tally.leader_kills += 1
            victim = leader
        else:
            others = [machine for machine in self.cluster.machines if machine is not leader]
            self._tally.follower_kills += 1
            victim = self._rng.choice(others)
        self._maybe_die_mid_change(victim)
        victim.kill()
        self._stay_down()
        self.cluster.start()

    def _kill_all(self) -> None:
        self._tally.full_kills += 1
        self._maybe_die_mid_change(self._rng.choice(self.cluster.machines))
        for machine in self._rng.sample(self.cluster.machines, len(self.cluster.machines)):
            machine.kill()
        for machine in self._rng.sample(self.cluster.machines, len(self.cluster.machines)):
            self._stay_down()
            machine.start()

    def _maybe_die_mid_change(self, machine: Machine) -> None:
        if self._rng.random() < 0.5:
            machine.kill_at_change(self._rng.randint(1, CHANGES_MAX))
            self._tally.mid_change += wait_until_dead(machine, MID_CHANGE_S_MAX)

    def _stay_down(self) -> None:
        """Start again at once, or when the others have gone on."""
        if self._rng.random() < 0.5:
            time.sleep(self._rng.uniform(0, DOWN_S_MAX))

    # --- power

    def _cut_power(self) -> None:
        """Of all at once, half of the time; else of some, one soon after the other."""
        rng = self._rng
        self._tally.power_cuts += 1
        count = 3 if self._plan.lying_disks else rng.choice((1, 2, 3, 3))
        victims = rng.sample(self.cluster.machines, count)
        self._maybe_die_mid_change(victims[0])
        if count == len(self.cluster.machines) or rng.random() < 0.5:
            for machine in victims:
                assert machine.process is not None
                machine.process.kill()
            lost = [machine.cut_power(rng) for machine in victims]
            self._stay_down()
        else:
            lost = list[int]()
            for machine in victims:
                lost.append(machine.cut_power(rng))
                self._stay_down()
                machine.start()
        self._tally.cuts_that_lost += any(lost)
        self.cluster.start()

    # --- pauses

    def _pause(self) -> None:
        """Stop the leader, or two of three, for longer than others wait for it."""
        self._tally.pauses += 1
        leader = self.cluster.leader(DOWN_S_MAX) or self.cluster.machines[0]
        victims = {leader, self._rng.choice(self.cluster.machines)}
        for machine in victims:
            machine.pause()
        if len(victims) == 1:
            self._wait_for_progress(self._plan.patience_s)
        time.sleep(self._rng.uniform(0, PARTED_S_MAX))
        for machine in victims:
            machine.resume()

    # --- new disks

    def _wipe(self) -> None:
        """Give a follower an empty disk, and put the new controller that it is now in its place."""
        leader = self.cluster.leader(DOWN_S_MAX)
        victim = self._rng.choice([each for each in self.cluster.machines if each is not leader])
        self._tally.wipes += 1
        with QuorumClient(self.cluster.ports, 0) as client:
            before = describe(client, PROGRESS_S_MAX)
            (old,) = [voter for voter in before.voters if voter.node_id == victim.number]
            self._history.wiped.append(Wipe(time.monotonic(), victim.number))
            victim.wipe()
            self._stay_down()
            victim.start()
            deadline_s = time.monotonic() + PROGRESS_S_MAX
            while not replaced(client, old):
                time.sleep(STEP_PAUSE_S)
                if time.monotonic() > deadline_s:
                    raise StuckError(f"a new disk gets no vote: {self.cluster.tails()}")

    # --- the network

    def _part(self) -> None:
        rng, network = self._rng, self.cluster.network
        self._tally.partitions += 1
        leader = self.cluster.leader(DOWN_S_MAX)
        first = (leader.number if leader else rng.randint(1, 3)) - 1
        others = [place for place in range(3) if place != first]
        cuts, works = self._cuts(first, others)
        held_back = network.held_back
        network.cut(cuts)
        begun_s = time.monotonic()
        if works:
            self._wait_for_progress(self._plan.patience_s)
        rest_s = begun_s + rng.uniform(PARTED_S_MAX / 4, PARTED_S_MAX) - time.monotonic()
        time.sleep(max(0.0, rest_s))
        self._tally.partitions_that_bit += network.held_back > held_back
        network.heal(hard=rng.random() < 0.5)

    def _cuts(self, leader: int, others: Sequence[int]) -> tuple[frozenset[Pair], bool]:
        """Return what to cut, and whether two who can lead still hear each other."""
        everywhere = frozenset((a, b) for a in range(3) for b in range(3) if a != b)
        return self._rng.choice(
            (
                (isolated(leader, 3, sends=False, receives=False), True),
                (isolated(leader, 3, sends=True, receives=False), True),
                (isolated(leader, 3, sends=False, receives=True), True),
                (isolated(others[0], 3, sends=False, receives=False), True),
                (isolated(others[0], 3, sends=False, receives=True), True),
                (apart(leader, others[0]), True),
                (apart(*others), True),
                (everywhere, False),
            )
        )


def describe(client: QuorumClient, timeout_s: float) -> m.DescribeQuorumAnswer:
    """Return what the leader says of the quorum.

    Raises:
        NotDoneError, MaybeDoneError: there is none.
    """
    request = m.DescribeQuorum()
    return client.ask(request, m.DescribeQuorumAnswer, request_id=b"", timeout_s=timeout_s)


def replaced(client: QuorumClient, old: m.QuorumReplica) -> bool:
    """Do the next step to replace a voter by an observer of its id; return whether none is left."""
    node_id = old.node_id
    try:
        quorum = describe(client, STEP_S_MAX)
        voters = [each for each in quorum.voters if each.node_id == node_id]
        if voters and voters[0].directory_id != old.directory_id:
            return True
        if voters:
            remove = m.RemoveVoter(node_id, old.directory_id)
            client.ask(remove, m.RemoveVoterAnswer, request_id=b"", timeout_s=STEP_S_MAX)
        elif any(each.node_id == node_id for each in quorum.observers):
            add = m.AddVoter(node_id)
            client.ask(add, m.AddVoterAnswer, request_id=b"", timeout_s=STEP_S_MAX)
    except (NotDoneError, MaybeDoneError):
        pass  # look again
    return False


def run(plan: Plan, folder: Path, *, progress: bool) -> Tally:
    """Do it below a folder; return what happened.  Directories of failures are kept."""
    tally = Tally()
    rng = Random(plan.seed)
    faults = [
        *["kill"] * plan.kills,
        *["full"] * plan.full_kills,
        *["power"] * plan.power_cuts,
        *["partition"] * plan.partitions,
        *["pause"] * plan.pauses,
        *["wipe"] * plan.wipes,
    ]
    rng.shuffle(faults)
    for number, start in enumerate(range(0, len(faults), ROUNDS_PER_CLUSTER)):
        seed = plan.seed * 1000 + number
        work = Path(tempfile.mkdtemp(prefix=f"quorate-quorum-{seed}-", dir=folder))
        live(plan, work, seed, faults[start : start + ROUNDS_PER_CLUSTER], tally)
        if tally.failures:
            tally.failures.append(f"seed {seed}, kept in {work}")
            break
        shutil.rmtree(work)
        if progress:
            print(tally.line(), flush=True)  # noqa: T201
    return tally


def live(plan: Plan, work: Path, seed: int, faults: Sequence[str], tally: Tally) -> None:
    """Lead one cluster through some faults."""
    life = Life(work, plan, seed, tally)
    try:
        life.run(faults)
    except (StuckError, DiedError, AssertionError) as error:
        tally.failures.append(f"{type(error).__name__}: {error}")
        life.judge_what_there_is()
    finally:
        life.close()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.quorum", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=50)
    parser.add_argument("--power", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--pauses", type=int, default=20)
    parser.add_argument("--wipes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lying-disks", action="store_true")
    chosen = parser.parse_args()
    plan = Plan(
        kills=chosen.kills,
        full_kills=chosen.full,
        power_cuts=chosen.power,
        partitions=chosen.partitions,
        pauses=chosen.pauses,
        wipes=chosen.wipes,
        seed=chosen.seed,
        lying_disks=chosen.lying_disks,
    )
    tally = run(plan, Path(tempfile.gettempdir()), progress=True)
    for failure in tally.failures:
        print(failure)  # noqa: T201
    print(tally.line())  # noqa: T201
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
