"""The simulation of the quorum has teeth: some seed finds whatever is switched off or broken."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from quorate.quorum.raft.hardening import ALL
from quorate.quorum.raft.timing import Timing
from tests.simulation.quorum.network import Link
from tests.simulation.quorum.registers import PUT, Command
from tests.simulation.quorum.run import run
from tests.simulation.quorum.scenario import (
    HASTY_TIMERS,
    USUAL_TIMERS,
    Scenario,
    draw,
    without,
)
from tests.simulation.quorum.world import World
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

SEEDS_MAX = 40


@dataclass(frozen=True, slots=True)
class Ablation:
    """What is taken away, where, and as what it shows."""

    world: Callable[[int], Scenario]
    off: tuple[str, ...]
    invariants: tuple[str, ...]
    besides: tuple[str, ...] = ()
    """What other seeds show, which is not enough."""


def three(seed: int) -> Scenario:
    return draw(seed, "three")


def five(seed: int) -> Scenario:
    return draw(seed, "five")


def timed(scenario: Scenario, timing: Timing) -> Scenario:
    return replace(scenario, rules=replace(scenario.rules, timing=timing))


def split_votes(seed: int) -> Scenario:
    """Everybody runs out of patience at the same moment, and everything arrives twice."""
    scenario = five(seed)
    timing = replace(scenario.rules.timing, election_min_s=0.4, election_max_s=0.405)
    actions = {
        "isolate leader": 6, "heal": 6, "weather": 2, "kill leader": 2, "restart": 2, "part": 4,
    }  # fmt: skip
    return replace(
        timed(scenario, timing), actions=actions, fifo=False, duplicates=1.0, intensity=4.0
    )


def disturbed_elections(seed: int) -> Scenario:
    """Candidates cannot write, or not for long, and die."""
    scenario = three(seed)
    timing = replace(scenario.rules.timing, election_min_s=0.4, election_max_s=0.42)
    actions = {"slow disks": 4, "stall": 8, "kill": 6, "restart": 6, "full disk": 6}
    return replace(timed(scenario, timing), actions=actions, intensity=6.0, chaos_s=5.0)


def lost_time(seed: int) -> Scenario:
    """Followers fall behind, and snapshots arrive twice and late."""
    scenario = three(seed)
    timing = replace(scenario.rules.timing, snapshot_entries=8, retained_entries=0)
    actions = {"part": 4, "heal": 6, "weather": 4, "pause": 4, "kill": 2, "restart": 2}
    return replace(
        timed(scenario, timing),
        actions=actions,
        fifo=False,
        duplicates=1.0,
        ballast_bytes=150_000,
        intensity=4.0,
    )


def late_answers(seed: int) -> Scenario:
    """Answers to a leader arrive when it leads again, in a later term."""
    scenario = five(seed)
    actions = {"late answers": 6, "weather": 2, "heal": 1}
    timing = Timing(*HASTY_TIMERS, snapshot_entries=5000)
    return replace(timed(scenario, timing), actions=actions, fifo=False, intensity=0.7)


def late_appends(seed: int) -> Scenario:
    """Appends overtake each other and get lost, to followers that are behind."""
    actions = {"weather": 2, "pause": 2, "part": 2, "heal": 4, "one way": 2}
    timing = Timing(*USUAL_TIMERS, snapshot_entries=5000)
    return replace(timed(three(seed), timing), actions=actions, fifo=False, intensity=2.0)


def hasty_operators(seed: int) -> Scenario:
    """Voters come and go while leaders are alone."""
    actions = {"isolate leader": 3, "heal": 3, "member": 16}
    members = draw(seed, "members")
    return replace(members, hosts=3, voters=3, actions=actions, intensity=10.0, chaos_s=8.0)


def lying_disks(seed: int) -> Scenario:
    return replace(three(seed), disks_lie=True, power_cuts=True)


def wiped_disks(seed: int) -> Scenario:
    """Whoever wipes a disk starts it again as if nothing had happened."""
    actions = {"wipe": 4, "isolate leader": 2, "heal": 2, "restart": 4}
    return replace(three(seed), actions=actions, wiped_disks_keep_their_name=True)


COMMITTED = "commits_are_durable_on_a_majority"
NEVER_BACK = "commits_never_go_back"
NEVER_CHANGED = "commits_never_change"
COMPLETE = "leaders_hold_all_commits"

ABLATIONS = {
    "term_filter": Ablation(
        late_answers, ("term_filter",), ("the_quorum_recovers", COMMITTED, COMPLETE)
    ),
    "probe_mode": Ablation(late_appends, ("probe_mode",), ("entries_are_not_sent_over_and_over",)),
    "reconcile": Ablation(three, ("reconcile",), (COMMITTED, NEVER_BACK, COMPLETE)),
    "vote_dedupe": Ablation(split_votes, ("vote_dedupe",), ("one_leader_per_term", COMPLETE)),
    "nack": Ablation(disturbed_elections, ("nack",), ("the_quorum_recovers",)),
    "barrier": Ablation(three, ("barrier",), (COMMITTED, COMPLETE)),
    "snap_commit_guard": Ablation(five, ("snap_commit_guard",), (NEVER_CHANGED, COMMITTED)),
    "snap_guard": Ablation(lost_time, ("snap_guard",), (NEVER_BACK, COMMITTED)),
    "align": Ablation(three, ("align",), (COMPLETE, NEVER_BACK)),
    "cfg_guard": Ablation(
        hasty_operators,
        ("cfg_guard",),
        (COMPLETE, COMMITTED, NEVER_CHANGED),
        besides=("the_quorum_recovers",),
    ),
    "a disk that lies": Ablation(
        lying_disks, (), ("controllers_never_fail", "terms_never_go_back", COMMITTED, COMPLETE)
    ),
    "a wiped disk with its old name": Ablation(
        wiped_disks, (), ("terms_never_go_back", "one_vote_per_term", COMPLETE, COMMITTED)
    ),
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_some_seed_finds_what_is_missing(name: str) -> None:
    ablation = ABLATIONS[name]
    for seed in range(SEEDS_MAX):
        report = run(seed, without(ablation.world(seed), *ablation.off))
        found = None if report.violation is None else report.violation.partition(":")[0]
        if found is not None and found not in ablation.besides:
            assert found in ablation.invariants
            return
    pytest.fail(f"nothing found in {SEEDS_MAX} seeds")


@pytest.mark.parametrize(
    "world", [split_votes, disturbed_elections, hasty_operators, late_answers, late_appends]
)
def test_the_same_worlds_are_harmless_when_nothing_is_missing(
    world: Callable[[int], Scenario],
) -> None:
    assert [run(seed, world(seed)).violation for seed in range(5)] == [None] * 5


class Calm:
    """A quorum of three where nothing goes wrong unless a test wants it."""

    def __init__(self, *off: str) -> None:
        scenario = without(three(1), *off)
        assert scenario.rules.hardening != ALL or not off
        self.timeline = Timeline()
        self.world = World(1, scenario, Trace(self.timeline, None), self.timeline)
        for host in self.world.hosts.values():
            self.world.start(host)
        self.wait(3.0)

    def wait(self, duration_s: float) -> None:
        self.timeline.run_until(self.timeline.now_s + duration_s, lambda: False)

    def leader(self) -> int:
        leader = self.world.leader()
        assert leader is not None
        return leader.key.node_id

    def terms(self) -> set[int]:
        return {process.rounds.term for process in self.world.processes()}


def terms_after_a_follower_was_cut_off(*off: str) -> int:
    calm = Calm(*off)
    before = max(calm.terms())
    cut_off = next(n for n in calm.world.hosts if n != calm.leader())
    others = [n for n in calm.world.hosts if n != cut_off]
    calm.world.network.cut([Link(cut_off, n) for n in others] + [Link(n, cut_off) for n in others])
    calm.wait(5.0)
    calm.world.network.heal()
    calm.wait(5.0)
    return max(calm.terms()) - before


def test_who_was_cut_off_deposes_nobody_thanks_to_pre_votes() -> None:
    assert terms_after_a_follower_was_cut_off() == 0
    assert terms_after_a_follower_was_cut_off("prevote") > 0


def followers_behind_after_s(delay_s: float, *off: str) -> int:
    """Return how many replicas do not know of a commit so long after it was acknowledged."""
    calm = Calm(*off)
    leader = calm.world.hosts[calm.leader()].process
    assert leader is not None
    command = Command(1, PUT, "a", None, 1, 0)
    promise = leader.rounds.propose(command.encode(), leader.here_s + 2.0)
    leader.ask(promise)
    while not promise.resolved:
        calm.wait(0.001)
    calm.wait(delay_s)
    return sum(process.registers.values != {"a": 1} for process in calm.world.processes())


def test_followers_hear_of_a_commit_soon_thanks_to_eager_commits() -> None:
    assert followers_behind_after_s(0.02) == 0
    assert followers_behind_after_s(0.02, "eager_commit") == 2
