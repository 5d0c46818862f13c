"""AlterPartition: who is in sync, as the leaders see it (KIP-497, KIP-841, KIP-903).

A leader changes the ISR by compare-and-set: its change counts only if it leads in the newest epoch
and knows the newest state of the partition. So the ISR never holds a replica that the controller
has taken out meanwhile, and a deposed leader changes nothing.
"""

from typing import TYPE_CHECKING

from quorate.control.messages import DONE
from quorate.control.partition_messages import (
    ANY_EPOCH,
    AlteredPartition,
    AlterPartition,
    AlterPartitionAnswer,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    InvalidRequestError,
    KafkaError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from quorate.quorum.control.brokers import known_broker
from quorate.quorum.control.decision import Decision, Reason, failure_of
from quorate.quorum.control.succession import (
    change_of,
    electorate_of,
    rules_of,
    succeed,
    wanted_of,
)
from quorate.quorum.metadata.effective import min_insync_replicas
from quorate.quorum.metadata.image import MetadataImage, PartitionState, TopicImage

if TYPE_CHECKING:
    from quorate.quorum.metadata.records import PartitionChanged


def alter_partition(
    image: MetadataImage, request: AlterPartition, now_ms: int
) -> Decision[AlterPartitionAnswer]:
    """Change the ISR of those partitions of the request that may be changed so.

    Raises:
        KafkaError: the broker is not registered, or was registered again since.
    """
    known_broker(image, request.broker_id, request.broker_epoch)
    reason = Reason(f"AlterPartition by leader {request.broker_id}", now_ms)
    electorate = electorate_of(image)
    seen = set[tuple[bytes, int]]()
    records: list[PartitionChanged] = []
    answers: list[AlteredPartition] = []
    for alteration in request.partitions:
        key = (alteration.topic_id, alteration.partition)
        try:
            if key in seen:
                raise InvalidRequestError("the partition is named twice")
            topic = _checked(image, request.broker_id, alteration)
        except KafkaError as error:
            answers.append(AlteredPartition(*key, failure_of(error)))
            continue
        seen.add(key)
        before = topic.partitions[alteration.partition]
        wanted = wanted_of(before, tuple(replica.broker_id for replica in alteration.isr))
        successor = succeed(before, wanted, rules_of(image, topic, electorate))
        change = change_of(topic, alteration.partition, successor, reason)
        records += () if change is None else (change,)
        answers.append(_answer(key, before, successor.state))
    return Decision(tuple(records), AlterPartitionAnswer(tuple(answers)))


def _answer(
    key: tuple[bytes, int], before: PartitionState, after: PartitionState
) -> AlteredPartition:
    """Return what a leader is told of a change that is made.

    If it does not lead any more, because it was to be removed or is being drained, it learns from
    the metadata what is so now.
    """
    if after.leader_id != before.leader_id:
        return AlteredPartition(*key, failure_of(KafkaError(code=ErrorCode.NEW_LEADER_ELECTED)))
    return AlteredPartition(
        *key,
        failure=DONE,
        leader_id=after.leader_id,
        leader_epoch=after.leader_epoch,
        partition_epoch=before.partition_epoch + int(after != before),
        isr=after.isr,
    )


def _checked(image: MetadataImage, broker_id: int, alteration: PartitionAlteration) -> TopicImage:
    """Return the topic that an alteration may change a partition of.

    The codes are Kafka's: leaders tell from them whether to try again, and where.

    Raises:
        KafkaError: it may not.
    """
    topic = image.topic_of(alteration.topic_id)
    if topic is None:
        raise UnknownTopicIdError
    if not 0 <= alteration.partition < len(topic.partitions):
        raise UnknownTopicOrPartitionError
    state = topic.partitions[alteration.partition]
    if (
        alteration.leader_epoch > state.leader_epoch
        or alteration.partition_epoch > state.partition_epoch
    ):
        # The leader knows what this controller does not (yet): somebody else must be active.
        raise NotControllerError
    if alteration.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpochError
    if broker_id != state.leader_id:
        raise InvalidRequestError(f"broker {broker_id} does not lead the partition")
    if alteration.partition_epoch < state.partition_epoch:
        raise KafkaError(
            f"the partition epoch is {state.partition_epoch} now",
            code=ErrorCode.INVALID_UPDATE_VERSION,
        )
    isr = [replica.broker_id for replica in alteration.isr]
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequestError(f"{isr} are not different replicas of the partition")
    if broker_id not in isr:
        raise InvalidRequestError("a leader is in sync with itself")
    for replica in alteration.isr:
        _check_eligible(
            image,
            replica,
            leads=replica.broker_id == broker_id,
            can_wait=replica.broker_id not in state.isr and not _is_too_small(image, topic, state),
        )
    return topic


def _is_too_small(image: MetadataImage, topic: TopicImage, state: PartitionState) -> bool:
    """Return whether nothing is committed with the ISR as it is."""
    return len(state.isr) < min(min_insync_replicas(image, topic.name), len(state.replicas))


def _check_eligible(
    image: MetadataImage, replica: InSyncReplica, *, leads: bool, can_wait: bool
) -> None:
    """Refuse who could not serve, and who restarted since its leader saw it in sync (KIP-903).

    A leader that shuts down may take others into the ISR: one of them can lead then. Who cannot
    write (or could not, a moment ago) does not come to be in sync if that ``can_wait``: others
    commit without it.
    """
    broker_id, broker_epoch = replica.broker_id, replica.broker_epoch
    broker = image.brokers.get(broker_id)
    if broker is None:
        reason = "is not registered"
    elif broker.fenced:
        reason = "is fenced"
    elif broker.shutting_down and not leads:
        reason = "shuts down"
    elif broker.cannot_write and can_wait:
        reason = "cannot write"
    elif broker_epoch not in (ANY_EPOCH, broker.broker_epoch):
        reason = f"has epoch {broker.broker_epoch} now, not {broker_epoch}"
    else:
        return
    raise KafkaError(f"broker {broker_id} {reason}", code=ErrorCode.INELIGIBLE_REPLICA)
