"""The simulation of replication has teeth: whatever is broken here, some seed finds it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.epochs import EpochEnd
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.transactions import Transactions
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.isr import InSyncReplicas
from quorate.broker.replication.leader import LeaderReplica
from quorate.control.partition_messages import ANY_EPOCH, InSyncReplica
from quorate.quorum.control import partitions, succession
from tests.simulation.replication.run import run
from tests.simulation.replication.scenario import Scenario, draw

SEEDS_MAX = 60

Break = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is broken, in which worlds it shows soonest, and as what."""

    apply: Break
    world: Callable[[int], Scenario]
    invariants: frozenset[str]


LOST = frozenset(
    {
        "acknowledged_records_survive",
        "acknowledged_records_are_committed",
        "followers_agree_below_hw",
        "offsets_are_dense_and_immutable_below_hw",
        "hw_is_within_the_log",
        "hw_never_regresses",
        "consumers_see_committed_records_only",
        "sequences_have_no_gap_or_repeat",
    }
)


UNDECIDED = frozenset({"only_decided_transactions_are_shown"})


def replicated(seed: int) -> Scenario:
    """Kill, isolate and restart, often."""
    scenario = draw(2 * seed)
    return replace(scenario, brokers=3, replication_factor=3, min_in_sync=1, intensity=4.0)


def joining(seed: int) -> Scenario:
    """One of two brokers is always about to join the other, and every answer takes long."""
    actions = {"kill leader": 8, "restart": 24, "delays": 4, "slow": 6}
    return replace(replicated(seed), brokers=2, replication_factor=2, actions=actions)


def replacing(seed: int) -> Scenario:
    """Followers lose their disks while a leader asks, slowly, to have them in its ISR.

    They come back at once, under new broker epochs, and need long to have everything again.
    """
    actions = {"kill": 3, "slow": 6, "wipe joiner": 12, "restart": 24, "heal": 1}
    return replace(joining(seed), actions=actions, fetch_bytes=1)


def acknowledges_before_the_isr_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A leader counts without those it has just proposed to leave out."""

    def propose(self: InSyncReplicas, isr: tuple[int, ...]) -> None:
        self.proposed = isr
        self.maximal = frozenset(isr)

    patch.setattr(InSyncReplicas, "propose", propose)


def counts_the_committed_isr_only(patch: pytest.MonkeyPatch) -> None:
    """The high watermark goes by the committed ISR, whatever is proposed and whoever caught up."""

    def replicated_by_committed(self: LeaderReplica, own: int) -> int:
        followers = self.followers.values()
        ends = [f.log_end_offset for f in followers if f.broker_id in self.isr.committed]
        return min((own, *ends))

    patch.setattr(LeaderReplica, "_replicated", replicated_by_committed)


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Followers cut what is not known to be committed, as before KIP-101."""
    original = FollowerReplica.__init__

    def init(self: FollowerReplica, *arguments: Any) -> None:
        original(self, *arguments)
        self.log.truncate_to(self.high_watermark, now_ms=0)

    patch.setattr(FollowerReplica, "__init__", init)


def elects_anybody(patch: pytest.MonkeyPatch) -> None:
    """Leaders need not be in sync, nor eligible."""

    def elect(_before: Any, wanted: Any, _elr: Any, rules: Any) -> int:
        leader_id: int = rules.electorate.best(wanted.replicas, -1)
        return leader_id

    patch.setattr(succession, "_elect", elect)


def forgets_producers_on_followers(patch: pytest.MonkeyPatch) -> None:
    """Followers do not note who wrote what they append."""
    original = FollowerReplica.take

    def take(self: FollowerReplica, data: Any, now_ms: int) -> bool:
        moved = original(self, data, now_ms)
        self.log.producers = ProducerStates(self.log.log_end_offset)
        return moved

    patch.setattr(FollowerReplica, "take", take)


def takes_former_registrations_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    """The controller lets in who was in sync before it registered again, as before KIP-903."""
    check = partitions._check_eligible  # pyright: ignore[reportPrivateUsage]

    def check_without_epoch(image: Any, replica: InSyncReplica, *, leads: bool) -> None:
        check(image, replace(replica, broker_epoch=ANY_EPOCH), leads=leads)

    patch.setattr(partitions, "_check_eligible", check_without_epoch)


def keeps_the_high_watermark_when_truncating(patch: pytest.MonkeyPatch) -> None:
    """The high watermark stays where it was, although the log is cut."""
    truncate = FollowerReplica._truncate  # pyright: ignore[reportPrivateUsage]

    def cut(self: FollowerReplica, leader_end: EpochEnd, now_ms: int) -> None:
        before = self.high_watermark
        truncate(self, leader_end, now_ms)
        self.high_watermark = max(before, self.log.log_end_offset + 1)

    patch.setattr(FollowerReplica, "_truncate", cut)

    def leave(_self: FollowerReplica) -> None:
        """Do nothing."""

    patch.setattr(FollowerReplica, "bound_high_watermark", leave)


def shows_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark, whatever is open."""

    def all_of_it(_self: Transactions, stable_offset: int) -> int:
        return stable_offset

    patch.setattr(Transactions, "first_unstable", all_of_it)


def forgets_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    """Aborts do not get into the index."""

    def forget(_self: ActiveSegment, _aborted: object) -> None:
        """Do nothing."""

    patch.setattr(ActiveSegment, "note_aborted", forget)


def transactional(seed: int) -> Scenario:
    """A producer of transactions, beside the others."""
    return replace(draw(seed), transactors=1, chaos_s=4.0)


MUTANTS = {
    "ack before ISR commit": Mutant(acknowledges_before_the_isr_is_committed, replicated, LOST),
    "HW from the committed ISR": Mutant(counts_the_committed_isr_only, joining, LOST),
    "truncation to the HW": Mutant(truncates_to_the_high_watermark, replicated, LOST),
    "leaders from anywhere": Mutant(
        elects_anybody, replicated, LOST | {"leaders_come_from_the_isr"}
    ),
    "producers forgotten": Mutant(forgets_producers_on_followers, replicated, LOST),
    "stale broker epochs in the ISR": Mutant(
        takes_former_registrations_into_the_isr, replacing, LOST
    ),
    "HW ahead after truncation": Mutant(keeps_the_high_watermark_when_truncating, replicated, LOST),
    "LSO ahead": Mutant(shows_open_transactions, transactional, UNDECIDED),
    "aborted index forgotten": Mutant(forgets_what_was_aborted, transactional, UNDECIDED),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_broken_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.apply(monkeypatch)
    for seed in range(SEEDS_MAX):
        violation = run(seed, mutant.world(seed)).violation
        if violation is not None:
            assert violation.partition(":")[0] in mutant.invariants, violation
            return
    pytest.fail(f"no seed below {SEEDS_MAX} finds it")
