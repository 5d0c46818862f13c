"""The simulation of replication has teeth: whatever is broken here, some seed finds it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.epochs import EpochEnd
from quorate.broker.log.log import Log
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.store import LogStore
from quorate.broker.log.transactions import Transactions
from quorate.broker.replication import replicas
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.isr import InSyncReplicas
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.replication.replicas import Replicas
from quorate.control.partition_messages import ANY_EPOCH, InSyncReplica
from quorate.model import TopicPartition
from quorate.quorum.control import partitions, succession
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.records.slices import FileSlice
from tests.simulation.replication.clients import RECORDS_MAX
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


STUCK = frozenset({"replicas_converge", "the_cluster_recovers"})

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

    def check_without_epoch(image: Any, replica: InSyncReplica, **how: bool) -> None:
        check(image, replace(replica, broker_epoch=ANY_EPOCH), **how)

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


def gives_readers_what_is_further_on(patch: pytest.MonkeyPatch) -> None:
    """Who asks for a batch may be given one of the next ones."""
    original = Replica.read

    def read(self: Replica, offset: int, **arguments: Any) -> FileSlice | None:
        ahead = min(offset + RECORDS_MAX, self.high_watermark - 1)
        return original(self, max(offset, ahead), **arguments)

    patch.setattr(Replica, "read", read)


def recreated(seed: int) -> Scenario:
    """The topic is deleted and made again."""
    return replace(draw(seed), recreated=True)


def overslept(seed: int) -> Scenario:
    """Brokers are paused all the time, and learn of a deletion with what follows it."""
    actions = {"pause": 8, "slow": 1}
    scenario = replace(recreated(seed), brokers=3, replication_factor=3, chaos_s=5.0)
    return replace(scenario, intensity=4.0, actions=actions)


def interrupted(seed: int) -> Scenario:
    """Power is cut all the time."""
    actions = {"power cut": 16, "restart": 24}
    return replace(recreated(2 * seed), intensity=6.0, actions=actions, chaos_s=8.0)


def keeps_the_log_of_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    """Who is new has the log of whoever had the name."""

    def nobodys(_self: Replicas, _delta: Any) -> Iterator[TopicPartition]:
        return iter(())

    create = LogStore.create

    def found(
        self: LogStore, partition: TopicPartition, topic_id: bytes, config: Any, *, now_ms: int
    ) -> Log:
        if partition in self.topic_ids:
            self.topic_ids[partition] = topic_id
        return create(self, partition, topic_id, config, now_ms=now_ms)

    patch.setattr(Replicas, "_orphans", nobodys)
    patch.setattr(LogStore, "create", found)


def goes_on_whatever_the_id(patch: pytest.MonkeyPatch) -> None:
    """A replica goes on in the next topic of its name if nothing but the id is another."""
    goes_on = Replicas._goes_on  # pyright: ignore[reportPrivateUsage]

    def regardless(self: Replicas, replica: Replica, before: Any, topic: Any) -> bool:
        if topic is not None and replica.topic_partition.partition < len(topic.partitions):
            topic = replace(topic, topic_id=replica.topic_id)
        return goes_on(self, replica, before, topic)

    patch.setattr(Replicas, "_goes_on", regardless)


def serves_whatever_the_id(patch: pytest.MonkeyPatch) -> None:
    """Who asks for one topic is served from the next of its name, or the last."""

    def served(replica: Replica, _topic_id: bytes | None) -> Replica:
        return replica

    patch.setattr(replicas, "_of_topic", served)


def believes_checkpoints_of_deleted_logs(patch: pytest.MonkeyPatch) -> None:
    """What was written down of a deleted log is believed of the next of its name."""

    def keep(_self: LogStore) -> None:
        """Do nothing."""

    def unpromised(_self: LogStore, _partition: TopicPartition) -> None:
        """Know of none."""

    patch.setattr(LogStore, "_forget_checkpoints", keep)
    patch.setattr(LogStore, "_promised_of", unpromised)


def keeps_the_files_of_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """Brokers that were down when a topic was deleted keep its files."""
    orphans = Replicas._orphans  # pyright: ignore[reportPrivateUsage]

    def later(self: Replicas, delta: MetadataDelta) -> Iterator[TopicPartition]:
        return orphans(self, delta) if delta.before.version else iter(())

    patch.setattr(Replicas, "_orphans", later)


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
    "readers skip": Mutant(
        gives_readers_what_is_further_on, replicated, frozenset({"readers_skip_nothing"})
    ),
    "logs of deleted topics": Mutant(keeps_the_log_of_a_deleted_topic, recreated, LOST),
    "replicas of deleted topics": Mutant(
        goes_on_whatever_the_id, overslept, LOST | STUCK | {"brokers_never_fail"}
    ),
    "topic ids of clients": Mutant(serves_whatever_the_id, recreated, LOST),
    "checkpoints of deleted logs": Mutant(
        believes_checkpoints_of_deleted_logs,
        interrupted,
        LOST | STUCK | {"brokers_never_fail"},  # records seem promised of which nothing is left
    ),
    "files of deleted topics": Mutant(
        keeps_the_files_of_deleted_topics, recreated, frozenset({"deleted_logs_go_away"})
    ),
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
