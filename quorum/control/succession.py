"""Who leads a partition next, who is in sync, and who else could lead without losing anything.

One rule for whatever happens to a partition, Kafka's (``PartitionChangeBuilder``): somebody decides
on the ISR and the replicas that there should be, and the rest follows from it.

Eligible leader replicas (KIP-966): as long as fewer replicas are in sync than
``min.insync.replicas``, nothing is committed. So whoever leaves the ISR then, or makes it so small,
goes on holding every committed record, and can be elected when nobody is in sync any more.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import UnsupportedVersionError
from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Reason
from quorate.quorum.metadata.effective import allows_unclean_elections, min_insync_replicas
from quorate.quorum.metadata.features import (
    METADATA_VERSION,
    REPLICATION_LEVEL,
    UNWRITABLE_LEVEL,
    metadata_level,
)
from quorate.quorum.metadata.image import MetadataImage, PartitionState, TopicImage
from quorate.quorum.metadata.records import PartitionChanged

UNCLEAN: Final = "unclean election, committed records may be lost"
LAST_KNOWN: Final = "the last leader leads again, what it has lost meanwhile is lost"

Brokers = tuple[int, ...]
NOBODY: Final[AbstractSet[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who may be elected: those in service; some of them only in need.

    Brokers that shut down (``leaving``) may at most go on leading what nobody else can lead. Those
    that are drained (``draining``) lead what nobody else can lead. So do those that cannot write
    (``unable``), where those that are drained cannot lead either.
    """

    in_service: AbstractSet[int]
    leaving: AbstractSet[int]
    draining: AbstractSet[int]
    unable: AbstractSet[int] = NOBODY

    def with_broker(self, broker_id: int) -> "Electorate":
        """Return it with a broker that comes into service."""
        return replace(self, in_service=self.in_service | {broker_id})

    def without(self, broker_ids: AbstractSet[int]) -> "Electorate":
        """Return it without brokers that go out of service."""
        return replace(self, in_service=self.in_service - broker_ids)

    def with_draining(self, broker_id: int) -> "Electorate":
        """Return it with a broker that is drained."""
        return replace(self, draining=self.draining | {broker_id})

    def with_unable(self, broker_ids: AbstractSet[int]) -> "Electorate":
        """Return it with brokers that cannot write."""
        return replace(self, unable=self.unable | broker_ids)

    def may_lead(self, broker_id: int) -> bool:
        """Return whether a broker may be elected."""
        return broker_id in self.in_service and broker_id not in self.leaving

    def best(self, brokers: Brokers, leader_id: int) -> int:
        """Return who of some brokers should lead: the leader that there is, else the first one."""
        able = [b for b in brokers if self.may_lead(b)]
        able = [b for b in able if b not in self.unable] or able
        willing = [b for b in able if b not in self.draining] or able
        if leader_id in willing:
            return leader_id
        return willing[0] if willing else NO_LEADER


def electorate_of(image: MetadataImage) -> Electorate:
    """Return who may be elected now."""
    brokers = image.brokers.values()
    return Electorate(
        in_service=image.live_broker_ids(),
        leaving=frozenset(b.broker_id for b in brokers if b.shutting_down),
        draining=frozenset(b.broker_id for b in brokers if b.draining),
        unable=frozenset(b.broker_id for b in brokers if b.cannot_write),
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for the partitions of one topic, now.

    ``keeps_elr`` says whether every node knows of eligible leader replicas; if not, the ISR is
    never empty: the last in sync stay there, although they are out of service.
    """

    electorate: Electorate
    min_isr: int
    unclean: bool
    keeps_elr: bool


def rules_of(image: MetadataImage, topic: TopicImage, electorate: Electorate) -> Rules:
    """Return what holds for a topic."""
    return Rules(
        electorate=electorate,
        min_isr=min_insync_replicas(image, topic.name),
        unclean=allows_unclean_elections(image, topic.name),
        keeps_elr=keeps_elr(image),
    )


def keeps_elr(image: MetadataImage) -> bool:
    """Return whether every node knows of eligible leader replicas, reassignments, draining."""
    return metadata_level(image.features) >= REPLICATION_LEVEL


def knows_unwritable(image: MetadataImage) -> bool:
    """Return whether every node knows of brokers that cannot write."""
    return metadata_level(image.features) >= UNWRITABLE_LEVEL


def check_level(image: MetadataImage, what: str) -> None:
    """Refuse what not every node knows of yet.

    Raises:
        UnsupportedVersionError: ``metadata.version`` is too low.
    """
    if not keeps_elr(image):
        raise UnsupportedVersionError(
            f"{what} needs {METADATA_VERSION} {REPLICATION_LEVEL}: upgrade the cluster"
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a partition should be.

    Attributes:
        isr: who is in sync, among the replicas.
        forgetful: replicas that may have lost records; they are no eligible leaders any more.
        wiped: those of them that have lost everything; they are no last leaders either.
        preferred: whether the first replica should lead, though another one could go on.
    """

    isr: Brokers
    replicas: Brokers
    adding: Brokers
    removing: Brokers
    forgetful: AbstractSet[int] = NOBODY
    wiped: AbstractSet[int] = NOBODY
    preferred: bool = False


def wanted_of(state: PartitionState, isr: Brokers) -> Wanted:
    """Return a partition as it is, with another ISR."""
    return Wanted(isr, state.replicas, state.adding_replicas, state.removing_replicas)


@dataclass(frozen=True, slots=True)
class Successor:
    """What a partition becomes, and why that may lose records, if it may."""

    state: PartitionState
    loss: str = ""


def succeed(before: PartitionState, wanted: Wanted, rules: Rules) -> Successor:
    """Return what a partition becomes, but for its epoch, which every record brings."""
    wanted = _completed(wanted)
    elr = _eligible(before, wanted, rules)
    leader_id, loss = _elect(before, wanted, elr, rules), ""
    if leader_id == NO_LEADER:
        leader_id, loss = _elect_uncleanly(before, wanted, elr, rules)
    if leader_id != NO_LEADER and leader_id not in wanted.isr:
        wanted = _completed(replace(wanted, isr=(leader_id,)))
        commits = _needed(wanted, rules) == 1
        elr = () if loss or commits else tuple(b for b in elr if b != leader_id)
    replicas, isr = wanted.replicas, wanted.isr
    if not isr and not rules.keeps_elr:
        isr = tuple(b for b in before.isr if b in replicas)
    changes_leader = leader_id != before.leader_id or not set(before.replicas) <= set(replicas)
    state = PartitionState(
        replicas=replicas,
        isr=isr,
        leader_id=leader_id,
        leader_epoch=before.leader_epoch + int(changes_leader),
        partition_epoch=before.partition_epoch,
        adding_replicas=wanted.adding,
        removing_replicas=wanted.removing,
        elr=elr,
        last_known_leader=_last_known(before, wanted, isr, leader_id),
    )
    return Successor(state, loss)


def _completed(wanted: Wanted) -> Wanted:
    """Return it without the replicas to remove, once all that shall stay are in sync (KIP-455)."""
    if not wanted.adding and not wanted.removing:
        return wanted
    isr = tuple(b for b in wanted.isr if b not in wanted.removing)
    replicas = tuple(b for b in wanted.replicas if b not in wanted.removing)
    if not replicas or not set(replicas) <= set(isr):
        return wanted
    return replace(wanted, isr=isr, replicas=replicas, adding=(), removing=())


def _eligible(before: PartitionState, wanted: Wanted, rules: Rules) -> Brokers:
    """Return who could lead without being in sync: whoever was since something was committed."""
    if not rules.keeps_elr or len(wanted.isr) >= _needed(wanted, rules):
        return ()
    eligible = {*before.elr, *before.isr}.difference(wanted.isr, wanted.forgetful)
    return tuple(b for b in wanted.replicas if b in eligible)


def _needed(wanted: Wanted, rules: Rules) -> int:
    """Return how many replicas must be in sync to commit anything."""
    return min(rules.min_isr, len(wanted.replicas))


def _elect(before: PartitionState, wanted: Wanted, elr: Brokers, rules: Rules) -> int:
    """Return who leads and has every committed record, or ``NO_LEADER``."""
    electorate = rules.electorate
    in_sync = tuple(b for b in wanted.replicas if b in wanted.isr)
    first = wanted.replicas[0]
    if wanted.preferred and electorate.best(in_sync, first) == first:
        return first
    leader_id = electorate.best(in_sync, before.leader_id)
    if leader_id != NO_LEADER:
        return leader_id
    if before.leader_id in in_sync and before.leader_id in electorate.in_service:
        return before.leader_id
    return NO_LEADER if in_sync else electorate.best(elr, NO_LEADER)


def _elect_uncleanly(
    before: PartitionState, wanted: Wanted, elr: Brokers, rules: Rules
) -> tuple[int, str]:
    """Return who leads although it may lack committed records, and what to say of it."""
    last = before.last_known_leader
    can_lead = last in wanted.replicas and rules.electorate.may_lead(last)
    if can_lead and not wanted.isr and not elr:
        return last, LAST_KNOWN
    if rules.unclean:
        leader_id = rules.electorate.best(wanted.replicas, NO_LEADER)
        if leader_id != NO_LEADER:
            return leader_id, UNCLEAN
    return NO_LEADER, ""


def _last_known(before: PartitionState, wanted: Wanted, isr: Brokers, leader_id: int) -> int:
    """Return who led last, for a partition that nobody is in sync with."""
    if leader_id != NO_LEADER or isr:
        return NO_LEADER
    last = before.last_known_leader if before.leader_id == NO_LEADER else before.leader_id
    return last if last in wanted.replicas and last not in wanted.wiped else NO_LEADER


def change_of(
    topic: TopicImage, partition: int, successor: Successor, reason: Reason
) -> PartitionChanged | None:
    """Return the record that makes a partition its successor, or ``None`` if it is that already."""
    before, after = topic.partitions[partition], successor.state
    if after == before:
        return None
    cause = f"{reason.cause}; {successor.loss}" if successor.loss else reason.cause
    return PartitionChanged(
        cause=cause,
        time_ms=reason.time_ms,
        topic_id=topic.topic_id,
        partition=partition,
        leader_id=after.leader_id,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        replicas=_new(after.replicas, before.replicas),
        adding_replicas=_new(after.adding_replicas, before.adding_replicas),
        removing_replicas=_new(after.removing_replicas, before.removing_replicas),
        elr=_new(after.elr, before.elr),
        last_known_leader=(
            None if after.last_known_leader == before.last_known_leader else after.last_known_leader
        ),
    )


def _new(after: Brokers, before: Brokers) -> Brokers | None:
    return None if after == before else after
