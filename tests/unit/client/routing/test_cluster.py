import pytest

from quorate.client.routing.cluster import ClusterView, Leader, parse_bootstrap
from quorate.errors import ErrorCode
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LOGS = TopicPartition("appLogs", 0)
TOPIC_ID, OTHER_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"


def answer(
    leader_id: int, epoch: int, *, topic_id: bytes = TOPIC_ID, brokers: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="host", port=9000 + n) for n in brokers],
        cluster_id="c",
        controller_id=1,
        topics=[MetadataResponseTopic(name="appLogs", topic_id=topic_id, partitions=[partition])],
    )


def test_a_leader_is_known_once_a_broker_said_so() -> None:
    view = ClusterView()
    assert view.leader_of(LOGS) is None
    view.update(answer(1, 5))
    assert view.leader_of(LOGS) == Leader(1, 5)
    assert view.brokers[2] == Endpoint("host", 9002)
    assert view.partition_count("appLogs") == 1
    assert (view.cluster_id, view.controller_id) == ("c", 1)


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    view = ClusterView()
    view.update(answer(2, 6))
    view.update(answer(1, 5))
    assert view.leader_of(LOGS) == Leader(2, 6)


def test_a_topic_that_was_created_again_begins_with_new_epochs() -> None:
    view = ClusterView()
    view.update(answer(2, 6))
    view.update(answer(1, 0, topic_id=OTHER_ID))
    assert view.leader_of(LOGS) == Leader(1, 0)


def test_a_leader_that_is_not_among_the_brokers_cannot_be_reached() -> None:
    view = ClusterView()
    view.update(answer(2, 6, brokers=(1,)))
    assert view.leader_of(LOGS) is None


def test_topics_that_an_answer_leaves_out_stay_known() -> None:
    view = ClusterView()
    view.update(answer(1, 5))
    view.update(MetadataResponse(brokers=answer(1, 5).brokers))
    assert view.leader_of(LOGS) == Leader(1, 5)


def test_unknown_topics_and_partitions_without_a_leader_are_reasons_to_ask_again() -> None:
    view = ClusterView()
    assert view.lacks_leaders(["appLogs"])
    view.update(answer(-1, 5))
    assert view.lacks_leaders(["appLogs"])
    view.update(answer(1, 6))
    assert not view.lacks_leaders(["appLogs"])
    view.update(
        MetadataResponse(
            topics=[
                MetadataResponseTopic(
                    name="appLogs", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ),
                MetadataResponseTopic(name=None, topic_id=OTHER_ID, error_code=100),
            ]
        )
    )
    assert view.lacks_leaders(["appLogs"])
    assert view.partition_count("appLogs") is None
    assert view.topics["appLogs"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("127.0.0.1:9092", [Endpoint("127.0.0.1", 9092)]),
        ("a:1, b:2 ,", [Endpoint("a", 1), Endpoint("b", 2)]),
        (["a:1", "b"], [Endpoint("a", 1), Endpoint("b", 9092)]),
        ("[::1]:9094", [Endpoint("::1", 9094)]),
        ("[::1]", [Endpoint("::1", 9092)]),
        ("::1", [Endpoint("::1", 9092)]),
    ],
)
def test_bootstrap_addresses_are_hosts_with_or_without_ports(
    text: str | list[str], endpoints: list[Endpoint]
) -> None:
    assert list(parse_bootstrap(text)) == endpoints


@pytest.mark.parametrize(
    "text",
    ["", " , ", ":9092", "a:b", "a:0", "a:70000", "a:-1", "a..b:1", "http://a:1", "[a:b]:1", []],
)
def test_what_is_not_an_address_is_refused_with_an_example(text: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9092"):
        parse_bootstrap(text)
