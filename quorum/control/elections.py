"""Who leads a partition, and who is in sync, when brokers come and go.

Leaders are elected from the ISR only: every member holds every committed record.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Reason
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from quorate.quorum.metadata.records import PartitionChanged


def on_brokers_fenced(
    image: MetadataImage, fenced_ids: AbstractSet[int], reason: Reason
) -> list[PartitionChanged]:
    """Move every partition away from brokers that stop serving.

    If nobody else is in sync, the ISR stays as it is although it is out of service: its members
    alone are known to hold every committed record, so when one returns it can lead without losing
    any.
    """
    alive = image.live_broker_ids() - fenced_ids
    changes: list[PartitionChanged] = []
    for topic_id, partition, state in _partitions(image):
        if fenced_ids.isdisjoint(state.isr):
            continue
        isr = tuple(b for b in state.isr if b not in fenced_ids) or state.isr
        leader_id = elect_clean_leader(state, isr, alive)
        if (isr, leader_id) != (state.isr, state.leader_id):
            changes.append(_change(topic_id, partition, state, isr, leader_id, reason))
    return changes


def on_broker_unfenced(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Let a broker that is in service again lead what waited for it."""
    alive = image.live_broker_ids() | {broker_id}
    changes: list[PartitionChanged] = []
    for topic_id, partition, state in _partitions(image):
        if state.leader_id == NO_LEADER and broker_id in state.isr:
            leader_id = elect_clean_leader(state, state.isr, alive)
            changes.append(_change(topic_id, partition, state, state.isr, leader_id, reason))
    return changes


def elect_clean_leader(state: PartitionState, isr: tuple[int, ...], alive: AbstractSet[int]) -> int:
    """Return the first live in-sync replica in assignment order, or ``NO_LEADER``.

    A leader that may go on leading does.
    """
    if state.leader_id in isr and state.leader_id in alive:
        return state.leader_id
    return next((b for b in state.replicas if b in isr and b in alive), NO_LEADER)


def _partitions(image: MetadataImage) -> Iterator[tuple[bytes, int, PartitionState]]:
    for topic in image.topics.values():
        for partition, state in enumerate(topic.partitions):
            yield topic.topic_id, partition, state


def _change(
    topic_id: bytes,
    partition: int,
    state: PartitionState,
    isr: tuple[int, ...],
    leader_id: int,
    reason: Reason,
) -> PartitionChanged:
    return PartitionChanged(
        cause=reason.cause,
        time_ms=reason.time_ms,
        topic_id=topic_id,
        partition=partition,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch + int(leader_id != state.leader_id),
        isr=isr,
    )
