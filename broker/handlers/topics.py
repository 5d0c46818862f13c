"""Topics created, deleted and widened: translated for the controller, which decides."""

from collections import Counter
from collections.abc import Mapping

from quorate.broker.handlers.configs import ALL, Descriptions
from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.control.messages import (
    CreatePartitions,
    CreatePartitionsAnswer,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    Failure,
    NewPartitions,
    NewTopic,
    TopicCreation,
)
from quorate.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    KafkaError,
)
from quorate.promise import Promise
from quorate.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorate.protocol.primitives import ZERO_UUID


def create_topics(
    broker: Broker, request: CreateTopicsRequest, _caller: Caller
) -> CreateTopicsResponse | Promise[CreateTopicsResponse]:
    """Create topics, or only say whether they could be."""
    topics: list[NewTopic] = []
    counts = Counter(topic.name for topic in request.topics)
    # Here, since the controller may not see all of them; and once for each, as in Kafka.
    refused = [
        _not_created(name, ErrorCode.INVALID_REQUEST, f"topic {name} is named twice")
        for name, count in counts.items()
        if count > 1
    ]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            topics.append(_new_topic(topic))
        except KafkaError as error:
            refused.append(_not_created(topic.name, error.code, error.message))
    if not topics:
        return CreateTopicsResponse(topics=refused)
    promise: Promise[CreateTopicsResponse] = Promise()

    def answered(answer: CreateTopicsAnswer) -> None:
        descriptions = Descriptions(broker, synonyms=False, documentation=False)
        results = [_creation_result(topic, descriptions) for topic in answer.topics]
        promise.resolve(CreateTopicsResponse(topics=results + refused))

    def failed(code: ErrorCode, message: str) -> None:
        results = [_not_created(topic.name, code, message) for topic in topics]
        promise.resolve(CreateTopicsResponse(topics=results + refused))

    creation = CreateTopics(tuple(topics), request.validate_only, ANONYMOUS)
    broker.ask(creation, answered, failed, request.timeout_ms)
    return promise


def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignment = {a.partition_index: tuple(a.broker_ids) for a in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise InvalidReplicaAssignmentError(f"{topic.name}: a partition is assigned twice")
    empty = [config.name for config in topic.configs if config.value is None]
    if empty:
        raise InvalidConfigError(f"{topic.name}: {empty[0]} needs a value")
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignment or None,
        configs={c.name: c.value for c in topic.configs if c.value is not None},
    )


def _not_created(name: str, code: int, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=int(code), error_message=message, configs=None
    )


def _creation_result(topic: TopicCreation, descriptions: Descriptions) -> CreatableTopicResult:
    if topic.failure.code:
        return _not_created(topic.name, topic.failure.code, topic.failure.message)
    entries = descriptions.of_topic(topic.configs or {}, ALL)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(name=e.name, value=e.value, config_source=e.config_source)
            for e in entries
        ],
    )


def delete_topics(
    broker: Broker, request: DeleteTopicsRequest, caller: Caller
) -> DeleteTopicsResponse | Promise[DeleteTopicsResponse]:
    """Delete topics by name or by id (KIP-516)."""
    clear = [t for t in request.topics if not _is_unclear(t)]
    names = (*request.topic_names, *(t.name for t in clear if t.name is not None))
    topic_ids = tuple(t.topic_id for t in clear if t.name is None)
    refused = [_refused(t) for t in request.topics if _is_unclear(t)]
    if not broker.config.delete_topic_enable:
        message = "delete.topic.enable is false"
        return _none_deleted(names, topic_ids, _disabled(caller), message, refused)
    if not names and not topic_ids:
        return DeleteTopicsResponse(responses=refused)
    promise: Promise[DeleteTopicsResponse] = Promise()

    def answered(answer: DeleteTopicsAnswer) -> None:
        promise.resolve(
            DeleteTopicsResponse(
                responses=[
                    DeletableTopicResult(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        error_code=topic.failure.code,
                        error_message=topic.failure.message or None,
                    )
                    for topic in answer.topics
                ]
                + refused
            )
        )

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(_none_deleted(names, topic_ids, code, message, refused))

    deletion = DeleteTopics(names, topic_ids, ANONYMOUS)
    broker.ask(deletion, answered, failed, request.timeout_ms)
    return promise


def _disabled(caller: Caller) -> ErrorCode:
    # The code is younger than the API.
    return (
        ErrorCode.TOPIC_DELETION_DISABLED if caller.api_version >= 3 else ErrorCode.INVALID_REQUEST
    )


def _is_unclear(topic: DeleteTopicState) -> bool:
    return (topic.name is None) == (topic.topic_id == ZERO_UUID)


def _refused(topic: DeleteTopicState) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=int(ErrorCode.INVALID_REQUEST),
        error_message="a topic is to be deleted by its name or by its id, not by both or neither",
    )


def _none_deleted(
    names: tuple[str, ...],
    topic_ids: tuple[bytes, ...],
    code: ErrorCode,
    message: str,
    refused: list[DeletableTopicResult],
) -> DeleteTopicsResponse:
    subjects = [*((n, ZERO_UUID) for n in names), *((None, i) for i in topic_ids)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=int(code), error_message=message
            )
            for name, topic_id in subjects
        ]
        + refused
    )


def create_partitions(
    broker: Broker, request: CreatePartitionsRequest, _caller: Caller
) -> Promise[CreatePartitionsResponse]:
    """Give topics more partitions (KIP-195)."""
    promise: Promise[CreatePartitionsResponse] = Promise()

    def resolve(failures: Mapping[str, Failure]) -> None:
        results = [
            CreatePartitionsTopicResult(
                name=name, error_code=failure.code, error_message=failure.message or None
            )
            for name, failure in failures.items()
        ]
        promise.resolve(CreatePartitionsResponse(results=results))

    def answered(answer: CreatePartitionsAnswer) -> None:
        resolve({topic.name: topic.failure for topic in answer.topics})

    def failed(code: ErrorCode, message: str) -> None:
        resolve({name: Failure(int(code), message) for name in names})

    names = [topic.name for topic in request.topics]  # all that is kept of it until the answer
    topics = tuple(
        NewPartitions(
            name=topic.name,
            total_count=topic.count,
            assignment=None
            if topic.assignments is None
            else tuple(tuple(a.broker_ids) for a in topic.assignments),
        )
        for topic in request.topics
    )
    creation = CreatePartitions(topics, request.validate_only, ANONYMOUS)
    broker.ask(creation, answered, failed, request.timeout_ms)
    return promise
