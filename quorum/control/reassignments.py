"""Other replicas for partitions: begun, changed and called off on request (KIP-455).

A partition that moves has the replicas that it is to have and those that it is to lose.  It has
arrived once all of the former are in sync: the change of the ISR that brings that about removes the
latter.
"""

from typing import TYPE_CHECKING

from quorate.control.messages import DONE
from quorate.control.partition_messages import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    ReassignedPartition,
)
from quorate.errors import (
    ErrorCode,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Decision, because, failure_of
from quorate.quorum.control.succession import (
    Successor,
    Wanted,
    change_of,
    check_level,
    electorate_of,
    rules_of,
    succeed,
)
from quorate.quorum.metadata.image import MetadataImage, PartitionState, TopicImage

if TYPE_CHECKING:
    from quorate.quorum.metadata.records import PartitionChanged


def alter_reassignments(
    image: MetadataImage, request: AlterReassignments, now_ms: int
) -> Decision[AlterReassignmentsAnswer]:
    """Move those partitions of the request that can be moved so, and say why not the others.

    Raises:
        UnsupportedVersionError: not every node knows of partitions that move yet.
    """
    check_level(image, "moving partitions")
    reason = because("AlterPartitionReassignments", request.principal, now_ms)
    electorate = electorate_of(image)
    records: list[PartitionChanged] = []
    answers: list[ReassignedPartition] = []
    for name, partitions in request.partitions.items():
        for partition, target in partitions.items():
            failure = DONE
            try:
                topic = _topic(image, name, partition)
                before = topic.partitions[partition]
                wanted = _wanted(image, before, target, request)
                rules = rules_of(image, topic, electorate)
                successor = succeed(before, wanted, rules)
                _check_kept(before, successor, unclean=rules.unclean)
            except KafkaError as error:
                failure = failure_of(error)
            else:
                change = change_of(topic, partition, successor, reason)
                records += () if change is None else (change,)
            answers.append(ReassignedPartition(name, partition, failure))
    return Decision(tuple(records), AlterReassignmentsAnswer(tuple(answers)))


def _topic(image: MetadataImage, name: str, partition: int) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None or not 0 <= partition < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"there is no partition {name}-{partition}")
    return topic


def _wanted(
    image: MetadataImage,
    before: PartitionState,
    target: tuple[int, ...] | None,
    request: AlterReassignments,
) -> Wanted:
    """Return what a partition becomes on its way to a target, or to what it was (``None``)."""
    original = tuple(b for b in before.replicas if b not in before.adding_replicas)
    if target is None:
        if not before.is_moving:
            raise KafkaError(code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = original
    else:
        _check_target(image, before, target)
        if not request.allow_replication_factor_change:
            _check_factor(before, target)
    # What another reassignment was adding is given up at once, unless it is wanted still.
    removing = tuple(b for b in original if b not in target)
    replicas = (*target, *removing)
    return Wanted(
        isr=tuple(b for b in before.isr if b in replicas),
        replicas=replicas,
        adding=tuple(b for b in target if b not in original),
        removing=removing,
    )


def _check_target(image: MetadataImage, before: PartitionState, target: tuple[int, ...]) -> None:
    """Refuse replicas that cannot be, or that are new and could not catch up.

    Raises:
        InvalidReplicaAssignmentError: none, one twice, an unknown broker, or one out of service.
    """
    if not target or len(set(target)) != len(target):
        raise InvalidReplicaAssignmentError("a partition's replicas are different brokers")
    unknown = [b for b in target if b not in image.brokers]
    if unknown:
        raise InvalidReplicaAssignmentError(f"broker {min(unknown)} is not registered")
    away = [b for b in target if b not in before.replicas and not image.may_lead(b)]
    if away:
        raise InvalidReplicaAssignmentError(f"broker {min(away)} is not in service")


def _check_factor(before: PartitionState, target: tuple[int, ...]) -> None:
    """Refuse another number of replicas (KIP-860).

    Raises:
        InvalidReplicationFactorError: it would be another one.
    """
    factor = len(before.target_replicas)
    if len(target) != factor:
        raise InvalidReplicationFactorError(
            f"the partition has {factor} replicas, and would have {len(target)}"
        )


def _check_kept(before: PartitionState, successor: Successor, *, unclean: bool) -> None:
    """Refuse to give up replicas that alone hold what is committed, or alone can lead.

    Raises:
        InvalidReplicaAssignmentError: an unclean election would be needed, and is not allowed.
    """
    after = successor.state
    held = before.isr or before.elr
    nobody_left = not (after.isr or after.elr)
    # Who led last may lead where nobody has all for sure; not because those who have are given up.
    lost = held and (nobody_left or (successor.loss and not unclean))
    forgot = nobody_left and before.last_known_leader != after.last_known_leader
    if lost or forgot or (after.leader_id == NO_LEADER != before.leader_id):
        raise InvalidReplicaAssignmentError(
            "only replicas that would be given up are in sync, or led last: it would need an"
            " unclean election"
        )
