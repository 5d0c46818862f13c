"""What the Admin client asks of the controller quorum, and what it reads in the answers (pure)."""

from typing import Final

from quorate.client.admin_results import QuorumDescription, QuorumReplica
from quorate.errors import KafkaError
from quorate.model import Endpoint
from quorate.protocol.messages.quorum import (
    AddRaftVoterRequest,
    DescribeQuorumPartitionRequest,
    DescribeQuorumReplicaState,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicRequest,
    RaftVoterListener,
)

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLER_LISTENER: Final = "CONTROLLER"

Failure = tuple[int, str | None]
"""An error code and what was said about it."""


def describe_request() -> DescribeQuorumRequest:
    """Return the request for the one quorum there is."""
    partitions = [DescribeQuorumPartitionRequest()]
    topic = DescribeQuorumTopicRequest(topic_name=METADATA_TOPIC, partitions=partitions)
    return DescribeQuorumRequest(topics=[topic])


def failures_of(response: DescribeQuorumResponse) -> list[Failure]:
    """Return what may have gone wrong; a code of 0 means that it did not."""
    told = [partition for topic in response.topics for partition in topic.partitions]
    return [
        (response.error_code, response.error_message),
        *((partition.error_code, partition.error_message) for partition in told),
    ]


def description_of(response: DescribeQuorumResponse) -> QuorumDescription:
    """Return what a response without failures says.

    Raises:
        KafkaError: it says nothing.
    """
    told = [partition for topic in response.topics for partition in topic.partitions]
    if not told:
        raise KafkaError("the quorum: the broker says nothing of it")
    quorum = told[0]
    endpoints = {
        node.node_id: Endpoint(node.listeners[0].host, node.listeners[0].port)
        for node in response.nodes
        if node.listeners
    }
    return QuorumDescription(
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        tuple(_replica(state, endpoints.get(state.replica_id)) for state in quorum.current_voters),
        tuple(_replica(state, endpoints.get(state.replica_id)) for state in quorum.observers),
    )


def _replica(state: DescribeQuorumReplicaState, endpoint: Endpoint | None) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        state.replica_directory_id,
        endpoint,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def add_request(
    node_id: int, directory_id: bytes, endpoint: Endpoint, timeout_ms: int
) -> AddRaftVoterRequest:
    """Return the request that makes an observer a voter."""
    listener = RaftVoterListener(name=CONTROLLER_LISTENER, host=endpoint.host, port=endpoint.port)
    return AddRaftVoterRequest(
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[listener],
    )
