"""The cluster's brokers, as tools ask for them, and who wrote to this one."""

from quorate.broker.handlers.cluster import describe_cluster, describe_producers, unregister_broker
from quorate.broker.handlers.operations import ON_CLUSTER
from quorate.broker.log.context import REFUSED_MS
from quorate.control.messages import UnregisterBroker, UnregisterBrokerAnswer
from quorate.errors import ErrorCode
from quorate.protocol.messages.cluster import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from quorate.protocol.messages.metadata import (
    OPERATIONS_NOT_ASKED_FOR,
    DescribeClusterRequest,
)
from quorate.protocol.messages.placement import UnregisterBrokerRequest
from quorate.quorum.metadata import records as r
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, Node, codes, new_cluster, new_node, now, over, waits
from tests.unit.broker.log.batches import make_batch

CALLER = over()


def test_fenced_brokers_are_described_on_request() -> None:
    node = new_cluster()
    response = describe_cluster(node.broker, DescribeClusterRequest(), over(2))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, False)]
    asked = DescribeClusterRequest(include_fenced_brokers=True)
    response = describe_cluster(node.broker, asked, over(2))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers][2] == (3, True)
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert describe_cluster(node.broker, asked, over(2, "SSL")).brokers == []


def test_a_broker_whose_disk_is_full_says_so_though_no_controller_has_noted_it() -> None:
    node = new_cluster()
    asked = DescribeClusterRequest(include_own_fields=True)

    def told() -> list[bool]:
        response = describe_cluster(node.broker, asked, over(2))
        return [b.cannot_write for b in response.brokers]

    assert told() == [False, False]
    refusals = node.broker.replicas.store.refusals
    refusals.note()
    refusals.go_on(NOW_MS)
    assert told() == [True, False]
    refusals.go_on(NOW_MS + REFUSED_MS)
    assert told() == [False, False]


def test_what_may_be_done_with_the_cluster_is_told_to_who_asks() -> None:
    node = new_cluster()
    response = describe_cluster(node.broker, DescribeClusterRequest(), over(2))
    assert response.cluster_authorized_operations == OPERATIONS_NOT_ASKED_FOR
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = describe_cluster(node.broker, asked, over(2))
    assert response.cluster_authorized_operations == ON_CLUSTER


def test_controllers_are_not_described_here() -> None:
    response = describe_cluster(new_node().broker, DescribeClusterRequest(endpoint_type=2), over(2))
    assert codes([response]) == [ErrorCode.MISMATCHED_ENDPOINT_TYPE]


def test_endpoints_of_a_type_that_there_is_not_are_not_described() -> None:
    for kind in (0, 3, -1):
        request = DescribeClusterRequest(endpoint_type=kind)
        response = describe_cluster(new_node().broker, request, over(2))
        assert codes([response]) == [ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


def test_brokers_that_shut_down_or_are_drained_are_told_to_who_asks() -> None:
    node = new_cluster()
    epochs = {b: broker.broker_epoch for b, broker in node.replicas.image.brokers.items()}
    node.apply(
        r.FeatureLevelSet("test", 0, "metadata.version", 3),
        r.BrokerChanged("test", 0, 1, epochs[1], draining=True),
        r.BrokerChanged("test", 0, 2, epochs[2], shutting_down=True),
    )
    for asked, expected in (
        (True, [(1, True, False), (2, False, True)]),
        (False, [(1, False, False), (2, False, False)]),  # as Kafka, which does not tell
    ):
        request = DescribeClusterRequest(include_own_fields=asked)
        response = describe_cluster(node.broker, request, over(2))
        states = [(b.broker_id, b.is_draining, b.is_shutting_down) for b in response.brokers]
        assert states == expected


def test_a_broker_that_is_gone_is_taken_out_of_the_cluster() -> None:
    node = new_node()
    answer = unregister_broker(node.broker, UnregisterBrokerRequest(broker_id=3), CALLER)
    assert waits(answer)
    assert node.controller.requests == [UnregisterBroker(3)]
    node.controller.answer(UnregisterBrokerAnswer())
    assert codes([now(answer)]) == [ErrorCode.NONE]


def test_a_broker_that_nobody_knows_is_not_taken_out() -> None:
    node = new_node()
    answer = unregister_broker(node.broker, UnregisterBrokerRequest(broker_id=9), CALLER)
    node.controller.fail(ErrorCode.BROKER_ID_NOT_REGISTERED, "who?")
    response = now(answer)
    assert codes([response]) == [ErrorCode.BROKER_ID_NOT_REGISTERED]
    assert response.error_message == "who?"


def producers(node: Node, topic: str) -> DescribeProducersPartitionResponse:
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[0])
    response = describe_producers(node.broker, DescribeProducersRequest(topics=[asked]), CALLER)
    assert response.topics[0].name == topic
    return response.topics[0].partitions[0]


def test_nobody_writes_to_what_is_no_name_of_a_topic() -> None:
    node = new_node()
    assert producers(node, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert producers(node, "a").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_idempotent_producers_are_described_with_what_they_wrote_last() -> None:
    node = new_node()
    node.create_topic("appLogs")
    assert producers(node, "appLogs").active_producers == []
    batch = make_batch([b"a", b"b"], producer=ProducerStamp(7, 2, 0))
    node.leader().append(batch, acks=1, now_ms=NOW_MS)
    (producer,) = producers(node, "appLogs").active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (NOW_MS, -1)


def test_producers_of_a_partition_that_is_not_here_are_not_known() -> None:
    refused = producers(new_node(), "nowhere")
    assert codes([refused]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert refused.error_message


def test_a_partitions_producers_are_described_once_however_often_it_is_named() -> None:
    node = new_node()
    node.create_topic("appLogs")
    asked = DescribeProducersTopicRequest(name="appLogs", partition_indexes=[0, 7, 0])
    request = DescribeProducersRequest(topics=[asked, asked])
    (topic,) = describe_producers(node.broker, request, CALLER).topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 7]
