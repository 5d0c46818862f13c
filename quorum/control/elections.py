"""What becomes of partitions when brokers come and go, and when somebody asks for an election."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
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
from quorate.quorum.control.succession import (
    NOBODY,
    Electorate,
    Rules,
    Wanted,
    change_of,
    electorate_of,
    keeps_elr,
    rules_of,
    succeed,
    wanted_of,
)
from quorate.quorum.metadata.image import MetadataImage, PartitionState, TopicImage
from quorate.quorum.metadata.records import PartitionChanged

BALANCED_TOGETHER_MAX: Final = 1000
"""How many leaders are moved at a time to where they are preferred, as in Kafka."""

MOVED_TOGETHER_MAX: Final = 10_000
"""How many partitions one command moves as brokers come and go: 0.2 s of a controller's work."""

Test = Callable[[PartitionState], bool]


def on_brokers_fenced(
    image: MetadataImage, fenced_ids: AbstractSet[int], reason: Reason
) -> list[PartitionChanged]:
    """Move partitions away from brokers that stop serving: all, or ``MOVED_TOGETHER_MAX`` of them.

    They leave the ISR. If nobody is left there, they stay eligible: they alone are known to hold
    every committed record, so when one returns it can lead without losing any.
    """
    electorate = electorate_of(image).without(fenced_ids)
    found = _partitions(image.topics.values(), _in_sync_with(fenced_ids))
    moved = _changes(image, found, electorate, reason, lambda state: _serving(state, electorate))
    return list(islice(moved, MOVED_TOGETHER_MAX))


def on_broker_registered_again(
    image: MetadataImage, broker_id: int, reason: Reason, *, forgot: bool, wiped: bool
) -> list[PartitionChanged]:
    """Move partitions away from a broker whose process was replaced by another.

    All, or ``MOVED_TOGETHER_MAX`` of them; then there may be more.

    If that one cannot say that the broker's directory was closed properly (``forgot``), it may lack
    committed records, so it is no eligible leader any more (KIP-966). If it has another directory
    (``wiped``), it lacks all, and is not even the last leader any more.
    """
    electorate = electorate_of(image).without({broker_id})
    gone = frozenset({broker_id})
    keeps = keeps_elr(image)
    forgetful = gone if keeps and (forgot or wiped) else NOBODY
    lacking = gone if keeps and wiped else NOBODY

    def concerned(state: PartitionState) -> bool:
        if broker_id in state.isr:
            return True
        return (broker_id in state.elr and bool(forgetful)) or (
            broker_id == state.last_known_leader and bool(lacking)
        )

    def wanted(state: PartitionState) -> Wanted:
        return replace(_serving(state, electorate), forgetful=forgetful, wiped=lacking)

    found = _partitions(image.topics.values(), concerned)
    moved = _changes(image, found, electorate, reason, wanted)
    return list(islice(moved, MOVED_TOGETHER_MAX))


def on_broker_unregistered(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Move partitions away from a broker that leaves for good, as if it had registered again.

    Whoever registers under its id one day may be anybody, so it is no eligible leader any more.
    """
    return on_broker_registered_again(image, broker_id, reason, forgot=True, wiped=True)


def _serving(state: PartitionState, electorate: Electorate) -> Wanted:
    """Return a partition with those of its ISR that are in service, even if that is nobody."""
    return wanted_of(state, tuple(b for b in state.isr if b in electorate.in_service))


def _changes(
    image: MetadataImage,
    found: Iterable[tuple[TopicImage, list[int]]],
    electorate: Electorate,
    reason: Reason,
    wanted: Callable[[PartitionState], Wanted],
) -> Iterator[PartitionChanged]:
    """Yield the changes that make those found what is wanted of them."""
    for topic, partitions in found:
        rules = rules_of(image, topic, electorate)
        for partition in partitions:
            state = topic.partitions[partition]
            successor = succeed(state, wanted(state), rules)
            change = change_of(topic, partition, successor, reason)
            if change is not None:
                yield change


def _in_sync_with(broker_ids: AbstractSet[int]) -> Test:
    if len(broker_ids) == 1:  # nearly always; there may be very many partitions
        (broker_id,) = broker_ids
        return lambda state: broker_id in state.isr
    return lambda state: not broker_ids.isdisjoint(state.isr)


def _partitions(
    topics: Iterable[TopicImage], concerned: Test
) -> Iterator[tuple[TopicImage, list[int]]]:
    """Yield the topics that have partitions concerned, with these."""
    for topic in topics:
        partitions = [n for n, state in enumerate(topic.partitions) if concerned(state)]
        if partitions:
            yield topic, partitions


def on_broker_unfenced(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Let a broker that is in service again lead what waited for it.

    That is all, or ``MOVED_TOGETHER_MAX`` of it; :func:`lead_waiting` does the rest.
    """
    electorate = electorate_of(image).with_broker(broker_id)
    return _lead(image, frozenset({broker_id}), electorate, reason)


def lead_waiting(
    image: MetadataImage,
    broker_ids: AbstractSet[int],
    silent_ids: AbstractSet[int],
    reason: Reason,
) -> list[PartitionChanged]:
    """Let brokers in service lead what still waits for them, some of it at a time.

    Not those that are silent: what is moved away from them would be given back to them.
    """
    electorate = electorate_of(image).without(silent_ids)
    return _lead(image, broker_ids & electorate.in_service, electorate, reason)


def _lead(
    image: MetadataImage, broker_ids: AbstractSet[int], electorate: Electorate, reason: Reason
) -> list[PartitionChanged]:
    waiting = (topic for topic in image.topics.values() if topic.leaderless)

    def concerned(state: PartitionState) -> bool:
        return state.leader_id == NO_LEADER and not broker_ids.isdisjoint(state.replicas)

    found = _partitions(waiting, concerned)
    led = _changes(image, found, electorate, reason, lambda state: _as_is(state, electorate))
    return list(islice(led, MOVED_TOGETHER_MAX))


def _as_is(state: PartitionState, electorate: Electorate) -> Wanted:
    """Return a partition with those of its ISR that are in service, or all if nobody is."""
    serving = _serving(state, electorate)
    return serving if serving.isr else wanted_of(state, state.isr)


def on_broker_leaving(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Move leaders away from a broker that shuts down, and it out of the ISRs.

    If there are very many, ``MOVED_TOGETHER_MAX`` of them: it asks again. Where nobody else in sync
    may lead, it goes on, and stays in sync.
    """
    electorate = electorate_of(image)
    electorate = replace(electorate, leaving=electorate.leaving | {broker_id})

    def concerned(state: PartitionState) -> bool:
        return broker_id in state.isr and any(map(electorate.may_lead, state.isr))

    found = _partitions(image.topics.values(), concerned)
    moved = _changes(
        image, found, electorate, reason, lambda state: _left(state, electorate, broker_id)
    )
    return list(islice(moved, MOVED_TOGETHER_MAX))


def _left(state: PartitionState, electorate: Electorate, broker_id: int) -> Wanted:
    serving = _serving(state, electorate)
    return replace(serving, isr=tuple(b for b in serving.isr if b != broker_id))


def on_broker_draining(
    image: MetadataImage, broker_id: int, reason: Reason
) -> list[PartitionChanged]:
    """Move leaders away from a broker that is drained, as far as others can lead."""
    return _relieved(image, broker_id, electorate_of(image).with_draining(broker_id), reason)


def on_broker_unable(
    image: MetadataImage, broker_id: int, reason: Reason, others: AbstractSet[int] = NOBODY
) -> list[PartitionChanged]:
    """Move leaders away from a broker that cannot write, as ``others`` cannot, either."""
    electorate = electorate_of(image).with_unable(others | {broker_id})
    return _relieved(image, broker_id, electorate, reason)


def _relieved(
    image: MetadataImage, broker_id: int, electorate: Electorate, reason: Reason
) -> list[PartitionChanged]:
    """Return what changes for partitions that a broker is to lead in need only."""

    def concerned(state: PartitionState) -> bool:
        return state.leader_id == broker_id

    found = _partitions(image.topics.values(), concerned)
    return list(_changes(image, found, electorate, reason, lambda state: _as_is(state, electorate)))


def on_topics_configured(
    image: MetadataImage, topics: Iterable[TopicImage], reason: Reason
) -> list[PartitionChanged]:
    """Do what follows from new rules for topics, which the image has already.

    With a lower ``min.insync.replicas`` records may be committed that eligible leaders do not hold:
    they are eligible no more. With unclean elections allowed, who waits need not wait.
    """

    def concerned(state: PartitionState) -> bool:
        return bool(state.elr) or state.leader_id == NO_LEADER

    electorate = electorate_of(image)
    found = _partitions(topics, concerned)
    return list(_changes(image, found, electorate, reason, lambda state: _as_is(state, electorate)))


def balance_leaders(image: MetadataImage, reason: Reason) -> list[PartitionChanged]:
    """Let preferred leaders lead again that can, some at a time."""
    electorate = electorate_of(image)

    def concerned(state: PartitionState) -> bool:
        return state.leader_id not in (state.replicas[0], NO_LEADER) and (
            electorate.best(state.isr, state.replicas[0]) == state.replicas[0]
        )

    def wanted(state: PartitionState) -> Wanted:
        return replace(_as_is(state, electorate), preferred=True)

    found = _partitions(image.topics.values(), concerned)
    return list(islice(_changes(image, found, electorate, reason, wanted), BALANCED_TOGETHER_MAX))


# --- on request


def elect_leaders(
    image: MetadataImage, request: ElectLeaders, now_ms: int
) -> Decision[ElectLeadersAnswer]:
    """Elect leaders because somebody asks for it.

    An unclean election takes a replica that has every committed record if one is in service.
    """
    what = f"ElectLeaders ({request.election.name.lower()})"
    reason = because(what, request.principal, now_ms)
    electorate = electorate_of(image)
    elect = _elect_preferred if request.election is Election.PREFERRED else _elect_any
    changes: list[PartitionChanged] = []
    answers: list[ElectedPartition] = []
    for name, partition in _asked_for(image, request):
        outcome: PartitionChanged | ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = image.topics.get(name)
        if topic is not None and 0 <= partition < len(topic.partitions):
            outcome = elect(topic, partition, rules_of(image, topic, electorate), reason)
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
    topic: TopicImage, partition: int, rules: Rules, reason: Reason
) -> PartitionChanged | ErrorCode:
    state = topic.partitions[partition]
    if state.leader_id == state.replicas[0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    rules = replace(rules, unclean=False)
    wanted = _as_is(state, rules.electorate)
    successor = succeed(state, replace(wanted, preferred=True), rules)
    change = change_of(topic, partition, successor, reason)
    if change is None or change.leader_id == state.leader_id:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return change


def _elect_any(
    topic: TopicImage, partition: int, rules: Rules, reason: Reason
) -> PartitionChanged | ErrorCode:
    state = topic.partitions[partition]
    if state.leader_id != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED
    wanted = _as_is(state, rules.electorate)
    successor = succeed(state, wanted, replace(rules, unclean=True))
    if successor.state.leader_id == NO_LEADER:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    change = change_of(topic, partition, successor, reason)
    assert change is not None, "the partition has another leader than before"
    return change
