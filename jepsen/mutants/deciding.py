"""Mutants of controllers: whom they elect, what they keep, what they tell."""

# They replace what is private, that is their trade.
# pyright: reportPrivateUsage=false

from dataclasses import replace
from typing import Any, Final

from quorate.broker.replication.replica import Replica
from quorate.control.partition_messages import PartitionAlteration
from quorate.jepsen.mutants.following import DIVERGED
from quorate.jepsen.mutants.leading import LATE_NOT_SILENT, LOST, ONE_COPY, PROXY
from quorate.jepsen.mutants.mutant import Mutant, Proof
from quorate.jepsen.mutants.patching import Patches
from quorate.promise import Promise
from quorate.quorum.control import partitions, succession
from quorate.quorum.control.succession import Rules, Successor, Wanted
from quorate.quorum.metadata import applying
from quorate.quorum.metadata.image import MetadataImage, PartitionState, TopicImage
from quorate.quorum.raft.journal import AppendFlush, Journal
from quorate.quorum.raft.outcomes import ReadDone, ReadOutcome
from quorate.quorum.raft.reads import Reads
from quorate.quorum.raft.storage import FileStorage

VERY_SOON: Final = (
    *("--property", "replica.lag.time.max.ms=400"),
    *("--property", "replica.fetch.wait.max.ms=400"),
)
"""So that followers are given up before any connection to a controller is."""

UNBALANCED: Final = ("--property", "auto.leader.rebalance.enable=false")
"""So that nobody else gives a partition back to its first replica."""

STALE: Final = frozenset({"nonlinearizable-register", "nonlinearizable-topic"})


def epoch_unchecked(patches: Patches) -> None:
    """Serve whoever asks in whichever epoch: brokers, and the controller that changes ISRs."""
    check: Any = None

    def check_epoch(_self: Replica, _current_leader_epoch: int) -> None:
        return

    def checked(
        image: MetadataImage, broker_id: int, alteration: PartitionAlteration
    ) -> TopicImage:
        topic = image.topic_of(alteration.topic_id)
        if topic is not None and 0 <= alteration.partition < len(topic.partitions):
            state = topic.partitions[alteration.partition]
            alteration = replace(
                alteration,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
            if broker_id != state.leader_id:
                return topic
        return check(image, broker_id, alteration)  # type: ignore[no-any-return]

    patches.method(Replica, "check_epoch", check_epoch)
    check = patches.function(partitions, "_checked", checked)


def epoch_not_bumped(patches: Patches) -> None:
    """Let the next leader lead in the epoch of the last one."""
    succeed: Any = None

    def succeed_in_epoch(before: PartitionState, wanted: Wanted, rules: Rules) -> Successor:
        successor: Successor = succeed(before, wanted, rules)
        state = replace(successor.state, leader_epoch=before.leader_epoch)
        return replace(successor, state=state)

    def require_nothing(_holds: bool, _rule: str) -> None:  # noqa: FBT001 - as it is called
        return

    succeed = patches.function(succession, "succeed", succeed_in_epoch)
    patches.function(applying, "_require", require_nothing)


def unclean_though_off(patches: Patches) -> None:
    """Elect a replica that may lack records, although the topic says never."""

    def allows(_image: MetadataImage, _topic: str) -> bool:
        return True

    patches.function(succession, "allows_unclean_elections", allows)


def vote_not_persisted(patches: Patches) -> None:
    """Remember terms and votes only as long as the process lives."""

    def set_term(self: Journal, term: int, vote: str | None) -> None:
        self._term, self._vote = term, vote

    patches.method(Journal, "set_term", set_term)


def journal_not_synced(patches: Patches) -> None:
    """Tell others that entries and votes are on the disk when they are only written."""

    def sync(_self: FileStorage, _name: str) -> None:
        return

    def run(self: AppendFlush) -> None:
        self.storage.write_at("journal", self.position, self.data)

    patches.method(FileStorage, "sync", sync)
    patches.method(AppendFlush, "run", run)


def stale_controller_reads(patches: Patches) -> None:
    """Answer reads with what is here, without asking others who leads and how far they are."""

    def ask(self: Reads, _deadline_s: float) -> Promise[ReadOutcome]:
        promise: Promise[ReadOutcome] = Promise()
        promise.resolve(ReadDone(self._engine.last_applied))
        return promise

    patches.method(Reads, "ask", ask)


MUTANTS: Final = (
    Mutant(
        "epoch-unchecked",
        "Requests are served in whichever epoch they were made, changes of ISRs, too.",
        ("E1", "E4"),
        DIVERGED | {"unclean-election"},
        Proof(
            ("append",),
            ("directed:late-shrink",),
            5,
            (*ONE_COPY, *LATE_NOT_SILENT, *VERY_SOON, *UNBALANCED),
        ),
        epoch_unchecked,
    ),
    Mutant(
        "epoch-not-bumped",
        "A new leader leads in the epoch of the one before it.",
        ("E1", "E2"),
        DIVERGED | {"two-leaders"},
        Proof(("append",), ("directed:isolated-leader",), 5),
        epoch_not_bumped,
    ),
    Mutant(
        "unclean-though-off",
        "Controllers elect replicas that are not in sync, although the topic forbids it.",
        ("Q6", "D1"),
        LOST | {"unclean-election"},
        Proof(("append",), ("directed:last-in-sync",), 5, ONE_COPY),
        unclean_though_off,
    ),
    Mutant(
        "vote-not-persisted",
        "A controller that restarts has forgotten its term and whom it voted for.",
        ("M4",),
        STALE,
        Proof(
            ("metadata",), ("directed:forgotten-votes",), 5, PROXY, controllers=3, rate_per_s=500
        ),
        vote_not_persisted,
    ),
    Mutant(
        "journal-not-synced",
        "Controllers say of entries that they only wrote that they are on the disk.",
        ("M4",),
        STALE | {"node-died"},  # of a journal that is damaged "although it was synced"
        Proof(("metadata",), ("power:controllers",), 6, controllers=3, rate_per_s=500),
        journal_not_synced,
    ),
    Mutant(
        "stale-controller-reads",
        "A controller that does not lead any more answers reads as if it did.",
        ("M1", "M2"),
        STALE,
        Proof(("metadata",), ("directed:isolated-controller",), 10, controllers=3, rate_per_s=500),
        stale_controller_reads,
    ),
)
