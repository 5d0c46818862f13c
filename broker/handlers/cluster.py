"""The cluster's brokers: which there are, taking one out for good, and who wrote to this one."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.operations import ON_CLUSTER
from quorate.control.messages import UnregisterBroker, UnregisterBrokerAnswer
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.cluster import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from quorate.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from quorate.protocol.messages.placement import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.quorum.metadata.image import BrokerImage
from quorate.quorum.metadata.topic_names import check_topic_name
from quorate.records.batch import NO_SEQUENCE

BROKERS_ENDPOINT: Final = 1
CONTROLLERS_ENDPOINT: Final = 2


def describe_cluster(
    broker: Broker, request: DescribeClusterRequest, caller: Caller
) -> DescribeClusterResponse:
    """Describe the cluster's brokers (KIP-700); controllers are not listed here (KIP-919)."""
    if request.endpoint_type not in (BROKERS_ENDPOINT, CONTROLLERS_ENDPOINT):
        return DescribeClusterResponse(
            error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_message=f"there are no endpoints of type {request.endpoint_type}",
        )
    if request.endpoint_type != BROKERS_ENDPOINT:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return DescribeClusterResponse(
            error_code=int(code), error_message="this is a broker's listener, not a controller's"
        )
    image = broker.replicas.image
    brokers = [
        DescribeClusterBroker(
            broker_id=node.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=node.rack,
            is_fenced=node.fenced,
            is_shutting_down=request.include_own_fields and node.shutting_down,
            is_draining=request.include_own_fields and node.draining,
            cannot_write=request.include_own_fields and _cannot_write(broker, node),
        )
        for node in image.brokers.values()
        if (endpoint := node.endpoints.get(caller.listener)) is not None
        and (request.include_fenced_brokers or not node.fenced)
    ]
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id, controller_id=broker.config.node_id, brokers=brokers
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    return response


def _cannot_write(broker: Broker, node: BrokerImage) -> bool:
    """Whether a broker's disk is full; of this one we know it ourselves.

    The controllers do not note it of a broker that is alone, for nothing follows from it.
    """
    is_ours = node.broker_id == broker.config.node_id
    return node.cannot_write or (is_ours and broker.replicas.store.refusals.last)


def unregister_broker(
    broker: Broker, request: UnregisterBrokerRequest, _caller: Caller
) -> Promise[UnregisterBrokerResponse]:
    """Take a broker that is gone out of the cluster; one that lives comes back by itself."""
    promise: Promise[UnregisterBrokerResponse] = Promise()

    def done(_answer: UnregisterBrokerAnswer) -> None:
        promise.resolve(UnregisterBrokerResponse())

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(UnregisterBrokerResponse(error_code=int(code), error_message=message))

    broker.ask(UnregisterBroker(request.broker_id), done, failed)
    return promise


def describe_producers(
    broker: Broker, request: DescribeProducersRequest, _caller: Caller
) -> DescribeProducersResponse:
    """Say which idempotent producers wrote to each partition lately (KIP-664)."""
    asked: dict[str, dict[int, None]] = {}  # each partition once, however often it is named
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            DescribeProducersTopicResponse(
                name=name, partitions=[_producers_of(broker, name, index) for index in indexes]
            )
            for name, indexes in asked.items()
        ]
    )


def _producers_of(broker: Broker, topic: str, partition: int) -> DescribeProducersPartitionResponse:
    answer = DescribeProducersPartitionResponse(partition_index=partition)
    try:
        check_topic_name(topic)
        producers = broker.replicas.leader(topic, partition).log.producers
    except KafkaError as error:
        answer.error_code, answer.error_message = int(error.code), error.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_start,
        )
        for producer_id, producer in producers.items()
    ]
    return answer
