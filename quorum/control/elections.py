"""Who leads a partition, and who is in sync, when brokers come and go.

Leaders are elected from the ISR: every member holds every committed record. Only if the topic or an
operator puts availability first, another replica is: what it does not hold is lost, and the record
says so.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from quorate.control.messages import DONE
from quorate.control.partition_messages import (
    ElectedPartition,
    Election,
    ElectLeaders,
    ElectLeadersAnswer,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Decision, Reason, because, failure_of
from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ConfigResource,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from quorate.quorum.metadata.records import PartitionChanged

UNCLEAN_SETTING: Final = "unclean.leader.election.enable"


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
    for topic, partition in _held(image, fenced_ids):
        state = topic.partitions[partition]
        serving = _serving(state, alive)
        if serving:
            leader_id = elect_clean_leader(state, serving, alive)
            changes.append(_change(topic, partition, serving, leader_id, reason))
        else:
            changes += _without_in_sync_replicas(image, topic, partition, alive, reason)
    return changes


def _held(image: MetadataImage, broker_ids: AbstractSet[int]) -> Iterator[tuple[TopicImage, int]]:
    """Yield the partitions that one of the brokers is in sync with."""
    if len(broker_ids) == 1:  # nearly always; there may be very many partitions
        (broker_id,) = broker_ids
        for topic in image.topics.values():
            for partition, state in enumerate(topic.partitions):
                if broker_id in state.isr:
                    yield topic, partition
        return
    for topic in image.topics.values():
        for partition, state in enumerate(topic.partitions):
            if not broker_ids.isdisjoint(state.isr):
                yield topic, partition


def on_broker_unfenced(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Let a broker that is in service again lead what waited for it."""
    alive = image.live_broker_ids() | {broker_id}
    changes: list[PartitionChanged] = []
    for topic in image.topics.values():
        for partition, state in enumerate(topic.partitions if topic.leaderless else ()):
            if state.leader_id != NO_LEADER or broker_id not in state.replicas:
                continue
            serving = _serving(state, alive)
            if serving:
                leader_id = elect_clean_leader(state, serving, alive)
                changes.append(_change(topic, partition, serving, leader_id, reason))
            else:
                changes += _without_in_sync_replicas(image, topic, partition, alive, reason)
    return changes


def elect_clean_leader(state: PartitionState, isr: tuple[int, ...], alive: AbstractSet[int]) -> int:
    """Return the first live in-sync replica in assignment order, or ``NO_LEADER``.

    A leader that may go on leading does.
    """
    if state.leader_id in isr and state.leader_id in alive:
        return state.leader_id
    return next((b for b in state.replicas if b in isr and b in alive), NO_LEADER)


def _serving(state: PartitionState, alive: AbstractSet[int]) -> tuple[int, ...]:
    """Return those in sync that are in service: with a leader among them, they are the ISR."""
    return tuple(b for b in state.isr if b in alive)


def _without_in_sync_replicas(
    image: MetadataImage,
    topic: TopicImage,
    partition: int,
    alive: AbstractSet[int],
    reason: Reason,
) -> list[PartitionChanged]:
    """Return what becomes of a partition that nobody in sync serves: it waits for one, mostly."""
    state = topic.partitions[partition]
    if allows_unclean_elections(image, topic.name):
        change = _unclean_change(topic, partition, alive, reason)
        if change is not None:
            return [change]
    if state.leader_id == NO_LEADER:
        return []
    return [_change(topic, partition, state.isr, NO_LEADER, reason)]


def _unclean_change(
    topic: TopicImage, partition: int, alive: AbstractSet[int], reason: Reason
) -> PartitionChanged | None:
    """Return the election of a replica that may lack committed records, if one is in service."""
    replicas = topic.partitions[partition].replicas
    leader_id = next((b for b in replicas if b in alive), NO_LEADER)
    if leader_id == NO_LEADER:
        return None
    cause = f"{reason.cause}; unclean election, committed records may be lost"
    return _change(topic, partition, (leader_id,), leader_id, replace(reason, cause=cause))


def allows_unclean_elections(image: MetadataImage, topic: str) -> bool:
    """Return whether a topic would rather lose committed records than wait."""
    own = image.config(ConfigResource(TOPIC, topic)).get(UNCLEAN_SETTING)
    common = image.config(ConfigResource(BROKER, CLUSTER_DEFAULT)).get(UNCLEAN_SETTING)
    return (own or common or "false") == "true"


def _change(
    topic: TopicImage, partition: int, isr: tuple[int, ...], leader_id: int, reason: Reason
) -> PartitionChanged:
    state = topic.partitions[partition]
    return PartitionChanged(
        cause=reason.cause,
        time_ms=reason.time_ms,
        topic_id=topic.topic_id,
        partition=partition,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch + int(leader_id != state.leader_id),
        isr=isr,
    )


# --- on request


def elect_leaders(
    image: MetadataImage, request: ElectLeaders, now_ms: int
) -> Decision[ElectLeadersAnswer]:
    """Elect leaders because somebody asks for it.

    An unclean election takes a replica in sync if one is in service after all.
    """
    what = f"ElectLeaders ({request.election.name.lower()})"
    reason = because(what, request.principal, now_ms)
    alive = image.live_broker_ids()
    changes: list[PartitionChanged] = []
    answers: list[ElectedPartition] = []
    for name, partition in _asked_for(image, request):
        outcome: PartitionChanged | ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = image.topics.get(name)
        if topic is not None and 0 <= partition < len(topic.partitions):
            elect = _elect_preferred if request.election is Election.PREFERRED else _elect_any
            outcome = elect(topic, partition, alive, reason)
        failure = DONE
        if isinstance(outcome, PartitionChanged):
            changes.append(outcome)
        else:
            failure = failure_of(KafkaError(code=outcome))
        if request.partitions is not None or outcome != ErrorCode.ELECTION_NOT_NEEDED:
            answers.append(ElectedPartition(name, partition, failure))
    return Decision(tuple(changes), ElectLeadersAnswer(tuple(answers)))


def _asked_for(image: MetadataImage, request: ElectLeaders) -> Iterator[tuple[str, int]]:
    if request.partitions is None:
        for topic in image.topics.values():
            for partition in range(len(topic.partitions)):
                yield topic.name, partition
        return
    for name, partitions in request.partitions.items():
        for partition in dict.fromkeys(partitions):
            yield name, partition


def _elect_preferred(
    topic: TopicImage, partition: int, alive: AbstractSet[int], reason: Reason
) -> PartitionChanged | ErrorCode:
    state = topic.partitions[partition]
    preferred = state.replicas[0]
    if state.leader_id == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED
    serving = _serving(state, alive)
    leader_id = preferred if preferred in serving else elect_clean_leader(state, serving, alive)
    if leader_id == state.leader_id:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return _change(topic, partition, serving, leader_id, reason)


def _elect_any(
    topic: TopicImage, partition: int, alive: AbstractSet[int], reason: Reason
) -> PartitionChanged | ErrorCode:
    state = topic.partitions[partition]
    if state.leader_id != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED
    serving = _serving(state, alive)
    if serving:
        leader_id = elect_clean_leader(state, serving, alive)
        return _change(topic, partition, serving, leader_id, reason)
    change = _unclean_change(topic, partition, alive, reason)
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if change is None else change
