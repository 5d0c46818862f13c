"""ElectLeaders: preferred replicas lead again, or in need some that are not in sync (KIP-460)."""

from collections.abc import Iterable

from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.control.messages import Failure
from quorate.control.partition_messages import (
    ElectedPartition,
    Election,
    ElectLeaders,
    ElectLeadersAnswer,
)
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.placement import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def elect_leaders(
    broker: Broker, request: ElectLeadersRequest, _caller: Caller
) -> ElectLeadersResponse | Promise[ElectLeadersResponse]:
    """Have the controller elect leaders, of all partitions if none are named."""
    asked = _asked_for(request)
    if request.election_type not in (Election.PREFERRED, Election.UNCLEAN):
        message = f"there is no election of type {request.election_type}"
        return _refused(asked, ErrorCode.INVALID_REQUEST, message)
    promise: Promise[ElectLeadersResponse] = Promise()

    def answered(answer: ElectLeadersAnswer) -> None:
        promise.resolve(ElectLeadersResponse(replica_election_results=_results(answer.partitions)))

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(_refused(asked, code, message))

    election = ElectLeaders(Election(request.election_type), asked, ANONYMOUS)
    broker.ask(election, answered, failed, request.timeout_ms)
    return promise


def _asked_for(request: ElectLeadersRequest) -> dict[str, tuple[int, ...]] | None:
    if request.topic_partitions is None:
        return None
    asked: dict[str, list[int]] = {}
    for topic in request.topic_partitions:
        asked.setdefault(topic.topic, []).extend(topic.partitions)
    return {name: tuple(partitions) for name, partitions in asked.items()}


def _refused(
    asked: dict[str, tuple[int, ...]] | None, code: ErrorCode, message: str
) -> ElectLeadersResponse:
    """Return the answer to a request that failed as a whole.

    Version 0 has no room for that but at each partition.
    """
    failure = Failure(int(code), message)
    partitions = [
        ElectedPartition(topic, partition, failure)
        for topic, partitions in (asked or {}).items()
        for partition in partitions
    ]
    return ElectLeadersResponse(error_code=int(code), replica_election_results=_results(partitions))


def _results(partitions: Iterable[ElectedPartition]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for elected in partitions:
        topics.setdefault(elected.topic, []).append(
            PartitionResult(
                partition_id=elected.partition,
                error_code=elected.failure.code,
                error_message=elected.failure.message or None,
            )
        )
    return [
        ReplicaElectionResult(topic=name, partition_result=results)
        for name, results in topics.items()
    ]
