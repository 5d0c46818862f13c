"""The controller quorum as Kafka's clients see and change it: translated for the controller."""

from collections.abc import Iterable
from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.control.messages import (
    NO_DIRECTORY,
    AddVoter,
    AddVoterAnswer,
    DescribeQuorum,
    DescribeQuorumAnswer,
    QuorumReplica,
    RemoveVoter,
    RemoveVoterAnswer,
)
from quorate.errors import ErrorCode, InconsistentClusterIdError, InvalidRequestError, KafkaError
from quorate.model import Endpoint
from quorate.promise import Promise
from quorate.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumPartitionData,
    DescribeQuorumReplicaState,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    RaftVoterListener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from quorate.quorum.metadata.topic_names import METADATA_TOPIC

LOOK_MS: Final = 10_000
"""How long the controllers may take to describe themselves: a change of leaders, several times."""

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""What the one listener of a controller is called towards Kafka's clients."""


def describe_quorum(
    broker: Broker, request: DescribeQuorumRequest, _caller: Caller
) -> Promise[DescribeQuorumResponse] | DescribeQuorumResponse:
    """Describe the controllers (KIP-595): who leads, and how far each has the metadata log."""
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown_partitions(request)
    promise: Promise[DescribeQuorumResponse] = Promise()

    def answered(answer: DescribeQuorumAnswer) -> None:
        promise.resolve(_description(answer))

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(DescribeQuorumResponse(error_code=int(code), error_message=message))

    broker.ask(DescribeQuorum(), answered, failed, LOOK_MS)
    return promise


def _description(answer: DescribeQuorumAnswer) -> DescribeQuorumResponse:
    partition = DescribeQuorumPartitionData(
        leader_id=answer.leader_id,
        leader_epoch=answer.leader_epoch,
        high_watermark=answer.high_watermark,
        current_voters=[_replica_state(voter) for voter in answer.voters],
        observers=[_replica_state(observer) for observer in answer.observers],
    )
    return DescribeQuorumResponse(
        topics=[DescribeQuorumTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes((*answer.voters, *answer.observers)),
    )


def _replica_state(replica: QuorumReplica) -> DescribeQuorumReplicaState:
    return DescribeQuorumReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _nodes(replicas: Iterable[QuorumReplica]) -> list[DescribeQuorumNode]:
    """Return where each node listens; clients keep one entry per id, so the voter's it is."""
    endpoints: dict[int, Endpoint] = {}
    for replica in replicas:
        if replica.endpoint is not None:
            endpoints.setdefault(replica.node_id, replica.endpoint)
    return [
        DescribeQuorumNode(
            node_id=node_id,
            listeners=[
                DescribeQuorumListener(
                    name=CONTROLLER_LISTENER, host=endpoint.host, port=endpoint.port
                )
            ],
        )
        for node_id, endpoint in endpoints.items()
    ]


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Refuse all that was asked, as Kafka does unless it is the metadata's partition alone."""
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumPartitionData(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def add_raft_voter(
    broker: Broker, request: AddRaftVoterRequest, _caller: Caller
) -> Promise[AddRaftVoterResponse] | AddRaftVoterResponse:
    """Make an observer a voter (KIP-853).

    The answer always waits for the commit: a client that would be content with less
    (``ack_when_committed`` of KIP-1186) gets more.
    """
    try:
        _check(broker, request)
        endpoint = _controller_endpoint(request.listeners)
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=int(error.code), error_message=error.message)
    promise: Promise[AddRaftVoterResponse] = Promise()

    def resolve(code: ErrorCode, message: str | None) -> None:
        if not promise.resolved:
            promise.resolve(AddRaftVoterResponse(error_code=int(code), error_message=message))

    def expired() -> None:
        resolve(ErrorCode.REQUEST_TIMED_OUT, "the voter is not added yet; it may be later")

    def added(_: AddVoterAnswer) -> None:
        resolve(ErrorCode.NONE, None)

    deadline = broker.deadlines.after(max(0, request.timeout_ms), expired)
    promise.when_resolved(lambda _: broker.deadlines.cancel(deadline))
    voter = AddVoter(request.voter_id, request.voter_directory_id, endpoint)
    broker.ask(voter, added, resolve)
    return promise


def remove_raft_voter(
    broker: Broker, request: RemoveRaftVoterRequest, _caller: Caller
) -> Promise[RemoveRaftVoterResponse] | RemoveRaftVoterResponse:
    """Make a voter an observer (KIP-853)."""
    try:
        _check(broker, request)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=int(error.code), error_message=error.message)
    promise: Promise[RemoveRaftVoterResponse] = Promise()

    def resolve(code: ErrorCode, message: str | None) -> None:
        promise.resolve(RemoveRaftVoterResponse(error_code=int(code), error_message=message))

    def removed(_: RemoveVoterAnswer) -> None:
        resolve(ErrorCode.NONE, None)

    broker.ask(RemoveVoter(request.voter_id, request.voter_directory_id), removed, resolve)
    return promise


def _check(broker: Broker, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> None:
    """Refuse what is meant for another cluster, or does not say which replica it means."""
    if request.cluster_id is not None and request.cluster_id != broker.cluster_id:
        raise InconsistentClusterIdError(
            f"this is cluster {broker.cluster_id}, not {request.cluster_id}"
        )
    if request.voter_id < 0 or request.voter_directory_id == NO_DIRECTORY:
        raise InvalidRequestError("a voter is named by its id and its directory id")


def _controller_endpoint(listeners: list[RaftVoterListener]) -> Endpoint:
    """Return where the new voter listens for the other controllers."""
    for listener in listeners:
        if listener.name == CONTROLLER_LISTENER:
            return Endpoint(listener.host, listener.port)
    raise InvalidRequestError(f"the voter has no listener called {CONTROLLER_LISTENER}")
