"""OffsetCommit, OffsetFetch, OffsetDelete: how far groups have read, asked of their coordinator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from quorate.broker.groups.committing import (
    FetchedOffset,
    OffsetKeeper,
    TopicCommit,
    TopicDeletion,
)
from quorate.broker.groups.group import CommitSender
from quorate.broker.handlers.commits import existing, refuse, refuse_commits
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.gathering import Gathering
from quorate.errors import ErrorCode, KafkaError
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from quorate.protocol.primitives import ZERO_UUID
from quorate.quorum.metadata.image import TopicImage

TOPIC_IDS_FROM: Final = 10
GROUP_ERRORS_FROM: Final = 2
MANY_GROUPS_FROM: Final = 8
ALL_TOPICS: Final = -1


# --- OffsetCommit -------------------------------------------------------------


def offset_commit(
    broker: Broker, request: OffsetCommitRequest, caller: Caller
) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    """Remember how far a group has read; answered when that is as safe as with acks=all."""
    by_id = caller.api_version >= TOPIC_IDS_FROM
    response = OffsetCommitResponse()
    known: list[TopicCommit] = []
    for asked in request.topics:
        topic = _topic(broker, asked.topic_id, asked.name, by_id=by_id)
        answers = [
            OffsetCommitResponsePartition(partition_index=partition.partition_index)
            for partition in asked.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)
        )
        if topic is None:
            refuse(answers, _unknown(by_id=by_id))
        else:
            known.append(existing(topic, asked.partitions, answers))
    sender = CommitSender(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=False,
        api_version=caller.api_version,
    )
    promise: Promise[OffsetCommitResponse] = Promise()

    def done(code: ErrorCode) -> None:
        if code != ErrorCode.NONE:
            refuse_commits(known, code)
        promise.resolve(response)

    try:
        keeper = broker.coordinators.of(request.group_id).keeper
        retention_ms = request.retention_time_ms
        keeper.commit(request.group_id, sender, known, retention_ms=retention_ms, done=done)
    except KafkaError as error:
        refuse_commits(known, error.code)
        return response
    return now_or_later(promise)


def _topic(broker: Broker, topic_id: bytes, name: str, *, by_id: bool) -> TopicImage | None:
    image = broker.replicas.image
    return image.topic_of(topic_id) if by_id else image.topics.get(name)


def _unknown(*, by_id: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- OffsetFetch --------------------------------------------------------------


def offset_fetch(
    broker: Broker, request: OffsetFetchRequest, caller: Caller
) -> OffsetFetchResponse | Promise[OffsetFetchResponse]:
    """Tell how far groups have read, each when what it wrote before is committed."""
    if caller.api_version < MANY_GROUPS_FROM:
        return _fetch_of_one(broker, request, caller)
    # All that a group has read is told once, however often it is asked for.
    distinct = {
        (group.group_id, place if group.topics is not None else ALL_TOPICS): group
        for place, group in enumerate(request.groups)
    }
    answers = Gathering[OffsetFetchResponseGroup](len(distinct))
    for place, group in enumerate(distinct.values()):
        then = partial(answers.put, place)
        _fetch_group(broker, group, caller, stable=request.require_stable, then=then)
    return answers.response(lambda groups: OffsetFetchResponse(groups=groups))


def _fetch_of_one(
    broker: Broker, request: OffsetFetchRequest, caller: Caller
) -> OffsetFetchResponse | Promise[OffsetFetchResponse]:
    """Answer in the form of a time when a request was about one group."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    promise: Promise[OffsetFetchResponse] = Promise()

    def answered(answer: OffsetFetchResponseGroup) -> None:
        if answer.error_code and caller.api_version < GROUP_ERRORS_FROM:
            _refuse_each(answer, topics or [], ErrorCode(answer.error_code))
        promise.resolve(
            OffsetFetchResponse(
                error_code=answer.error_code,
                topics=[
                    OffsetFetchResponseTopic(
                        name=topic.name, partitions=[_alone(p) for p in topic.partitions]
                    )
                    for topic in answer.topics
                ],
            )
        )

    _fetch_group(broker, group, caller, stable=request.require_stable, then=answered)
    return now_or_later(promise)


def _refuse_each(
    answer: OffsetFetchResponseGroup, topics: Iterable[OffsetFetchRequestTopics], code: ErrorCode
) -> None:
    """Say what is wrong with the group where each partition's error stands."""
    for topic in topics:
        refused = [
            _answer(index, FetchedOffset(UNKNOWN_OFFSET, UNKNOWN_EPOCH, "", code))
            for index in topic.partition_indexes
        ]
        answer.topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=refused))


def _alone(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _fetch_group(
    broker: Broker,
    group: OffsetFetchRequestGroup,
    caller: Caller,
    *,
    stable: bool,
    then: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    answer = OffsetFetchResponseGroup(group_id=group.group_id)
    try:
        coordinator = broker.coordinators.of(group.group_id)
        coordinator.keeper.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except KafkaError as error:
        answer.error_code = int(error.code)
        then(answer)
        return
    keeper = coordinator.keeper
    by_id = caller.api_version >= TOPIC_IDS_FROM
    if group.topics is None:
        answer.topics = _all_topics(broker, keeper, group.group_id, stable=stable, by_id=by_id)
    else:
        answer.topics = [
            _asked_topic(broker, keeper, group.group_id, asked, stable=stable, by_id=by_id)
            for asked in group.topics
        ]

    def committed(code: ErrorCode) -> None:
        if code != ErrorCode.NONE:
            answer.topics = []
            answer.error_code = int(code)
        then(answer)

    coordinator.context.writer.when_committed(group.group_id, committed)


def _asked_topic(
    broker: Broker,
    keeper: OffsetKeeper,
    group_id: str,
    asked: OffsetFetchRequestTopics,
    *,
    stable: bool,
    by_id: bool,
) -> OffsetFetchResponseTopics:
    # A topic that is gone by now may have offsets still: whoever knows its name is told.
    name: str | None = asked.name
    if by_id:
        name = broker.replicas.image.topic_names.get(asked.topic_id)
    unknown = FetchedOffset(UNKNOWN_OFFSET, UNKNOWN_EPOCH, "", ErrorCode.UNKNOWN_TOPIC_ID)
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            _answer(
                index,
                unknown if name is None else keeper.fetch(group_id, name, index, stable=stable),
            )
            for index in asked.partition_indexes
        ],
    )


def _all_topics(
    broker: Broker, keeper: OffsetKeeper, group_id: str, *, stable: bool, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    topics: Mapping[str, TopicImage] = broker.replicas.image.topics
    answers: list[OffsetFetchResponseTopics] = []
    for name, partitions in keeper.offsets.of_group(group_id).items():
        topic = topics.get(name)
        if by_id and topic is None:
            continue  # there is no way to say of which topic they are
        found = [
            _answer(index, keeper.fetch(group_id, name, index, stable=stable))
            for index in partitions
        ]
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=found))
    return answers


def _answer(index: int, fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=fetched.offset,
        committed_leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        error_code=int(fetched.code),
    )


# --- OffsetDelete -------------------------------------------------------------


def offset_delete(
    broker: Broker, request: OffsetDeleteRequest, _caller: Caller
) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
    """Forget how far a group has read topics that its members do not read (KIP-496)."""
    response = OffsetDeleteResponse()
    known: list[TopicDeletion] = []
    for topic in request.topics:
        answers = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            for partition in topic.partitions
        ]
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        image = broker.replicas.image.topics.get(topic.name)
        known.append(_deletion(topic, len(image.partitions) if image else 0, answers))
    promise: Promise[OffsetDeleteResponse] = Promise()

    def done(code: ErrorCode) -> None:
        failed = code != ErrorCode.NONE
        promise.resolve(OffsetDeleteResponse(error_code=int(code)) if failed else response)

    try:
        broker.coordinators.of(request.group_id).keeper.delete(request.group_id, known, done)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=int(error.code))
    return now_or_later(promise)


def _deletion(
    topic: OffsetDeleteRequestTopic,
    partition_count: int,
    answers: Sequence[OffsetDeleteResponsePartition],
) -> TopicDeletion:
    """Return what is to be forgotten, without partitions that do not exist: those are refused."""
    kept: list[OffsetDeleteRequestPartition] = []
    told: list[OffsetDeleteResponsePartition] = []
    for partition, answer in zip(topic.partitions, answers, strict=True):
        if 0 <= partition.partition_index < partition_count:
            kept.append(partition)
            told.append(answer)
        else:
            refuse([answer], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return TopicDeletion(topic.name, kept, told)
