"""What each anomaly means; ``docs/anomalies.md`` says it precisely, under the same names."""

from typing import Final, Literal

from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """Whether something happened that must not, or something did not happen in its time."""

    kind: Literal["safety", "liveness"]
    sentence: str


def _safety(**sentences: str) -> dict[str, Meaning]:
    return {n.replace("_", "-"): Meaning("safety", words) for n, words in sentences.items()}


def _liveness(**sentences: str) -> dict[str, Meaning]:
    return {n.replace("_", "-"): Meaning("liveness", words) for n, words in sentences.items()}


MEANINGS: Final[dict[str, Meaning]] = {
    # --- the log
    **_safety(
        lost_write="a record that all in sync acknowledged is gone",
        acked_by_leader_only="a record that the leader alone acknowledged (acks=1) is gone",
        duplicate="a record is at two offsets",
        repeated_by_client="a client sent a record again as another producer",
        inconsistent_offsets="an offset has two records",
        phantom="a record was read that nobody sent",
        aborted_read="a record was read whose sending failed",
        future_read="a record was read before it was sent",
        dirty_read="a consumer was given a record that was not committed, or is gone",
        nonmonotonic_send="records of one producer are not in the order in which it sent them",
        realtime_order="a record is in front of one that was acknowledged before it was sent",
        nonmonotonic_poll="a consumer went back from one poll to the next",
        poll_skip="a consumer left out a record from one poll to the next",
        int_nonmonotonic_poll="a consumer went back within one poll",
        int_poll_skip="a consumer left out a record within one poll",
    ),
    **_liveness(unseen="an acknowledged record was not read yet when all was read"),
    # --- replicas and leaders
    **_safety(
        divergence="two replicas hold different records below the high watermark",
        replica_damaged="a replica cannot be read, though its node was stopped properly",
        replica_hole="the batches of a replica leave out offsets, or overlap",
        epoch_regression="leader epochs go back along a replica's log, or in the metadata",
        two_leaders="two brokers led a partition in one epoch",
        leader_not_in_sync="a partition's leader is not in its ISR",
        isr_not_replicas="somebody is in a partition's ISR who is no replica of it",
        unclean_election="a leader was elected that was neither in sync nor eligible",
        hw_regression="a high watermark went back within a leader epoch",
        stale_leader_accept="a leader of an older epoch acknowledged a record that its successor"
        " had not",
        below_min_insync="a record was acknowledged when fewer brokers than min.insync.replicas"
        " can have had it",
        ack_before_isr="a record was acknowledged that a member of the committed ISR lacked",
    ),
    **_liveness(replica_behind="a replica lacks records that another one has, after all is healed"),
    # --- consumer groups
    **_safety(
        double_assignment="two members have one partition in one generation",
        double_processing="two members were given one record in one generation",
        generation_regression="a member was told an older generation than before",
        zombie_commit="a commit of an older generation was accepted",
        skipped_record="a commit passes a record that no member was given",
        commit_regression="a commit went back behind an acknowledged one",
        stale_committed_offset="an older committed offset was told after a newer one",
        phantom_commit="a committed offset was told that nobody committed",
        nonlinearizable_commit="committed offsets do not behave like a register",
    ),
    # --- transactions
    **_safety(
        lost_commit="a record of a transaction whose commit was acknowledged is gone",
        torn_transaction="a part of a transaction is there, and another is not",
        uncommitted_read="a record was read before the commit of its transaction was asked for",
        zombie_transaction="a transaction of a producer was committed that had been fenced",
        copied_twice="what a group copies in transactions is there twice",
        copy_missing="a record was consumed in a transaction, and its copy is not there",
        money_changed="what accounts have together is more or less than before",
        write_read_cycle="transactions read from each other in a circle",
    ),
    **_liveness(hanging_transaction="a transaction was not decided in time after all was healed"),
    # --- metadata
    **_safety(
        nonlinearizable_register="no order explains what was read from and written to a register",
        nonlinearizable_topic="no order explains what was said of a topic",
        two_controllers="two controllers led in one term",
        term_regression="a controller went back to an older term",
        topic_id_reused="two topics have one id",
        predecessor_record="a topic that was created again shows a record of its predecessor",
    ),
    # --- progress
    **_liveness(
        slow_recovery="a partition was not written to again in time after all was healed",
        unavailable="a partition took no writes for too long though nothing was broken",
        never_whole="not all replicas were in sync again in time after all was healed",
        group_stuck="a group did not come to the end of its partitions in time",
        topic_stuck="a topic was not created or deleted in time",
        reassignment_stuck="a partition was not moved to its new replicas in time",
    ),
    # --- what whoever ran it saw
    **_safety(
        node_died="a node ended by itself, or its log says that it failed",
        out_of_order_sequence="an idempotent producer without gaps was refused for a gap",
        partitions_shrank="a topic has fewer partitions than before",
    ),
}
