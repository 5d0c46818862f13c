"""FindCoordinator: who coordinates a group or a transaction; their topics are made for that."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.internal_topics import InternalTopic
from quorate.broker.handlers.metadata import live_brokers
from quorate.broker.shards.errors import CoordinatorNotAvailableError
from quorate.broker.shards.shards import Shards
from quorate.errors import ErrorCode, InvalidRequestError, KafkaError
from quorate.model import NO_LEADER
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_FROM: Final = 4
"""The version from which one request asks for several coordinators (KIP-699)."""

GROUP: Final = 0
TRANSACTION: Final = 1

_KINDS: Final[Mapping[int, Callable[[Broker], tuple[Shards[Any], InternalTopic]]]] = {
    GROUP: lambda broker: (broker.coordinators, broker.groups_topic),
    TRANSACTION: lambda broker: (broker.transactions, broker.transactions_topic),
}


def find_coordinator(
    broker: Broker, request: FindCoordinatorRequest, caller: Caller
) -> FindCoordinatorResponse | Promise[FindCoordinatorResponse]:
    """Tell who coordinates groups: the leaders of the partitions that they belong to."""
    kind = _KINDS.get(request.key_type)
    if kind is None or kind(broker)[0].topic in broker.replicas.image.topics:
        return _response(broker, request, caller, "")
    promise: Promise[FindCoordinatorResponse] = Promise()

    def made(complaint: str) -> None:
        promise.resolve(_response(broker, request, caller, complaint))

    kind(broker)[1].make(broker, made)
    return now_or_later(promise)


def _response(
    broker: Broker, request: FindCoordinatorRequest, caller: Caller, complaint: str
) -> FindCoordinatorResponse:
    batched = caller.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if batched else [request.key]
    found = [_coordinator(broker, request.key_type, key, caller, complaint) for key in keys]
    if batched:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(
    broker: Broker, key_type: int, key: str, caller: Caller, complaint: str
) -> Coordinator:
    try:
        return _find(broker, key_type, key, caller, complaint)
    except KafkaError as error:
        return Coordinator(
            key=key,
            node_id=NO_LEADER,
            port=-1,
            error_code=int(error.code),
            error_message=error.message,
        )


def _find(broker: Broker, key_type: int, key: str, caller: Caller, complaint: str) -> Coordinator:
    """Return who coordinates a key.

    Raises:
        InvalidRequestError: nobody coordinates things of that type.
        CoordinatorNotAvailableError: nobody does now. Clients try again in silence: those that read
            partitions of their own choice are made with a group's name, too, and need nobody.
    """
    kind = _KINDS.get(key_type)
    if kind is None:
        raise InvalidRequestError(f"there are no coordinators of type {key_type} here")
    if complaint:
        raise CoordinatorNotAvailableError(complaint)
    shards, _ = kind(broker)
    partition, state = shards.partition_of(key)
    for node, endpoint in live_brokers(broker.replicas.image, caller.listener):
        if node.broker_id == state.leader_id:
            return Coordinator(
                key=key,
                node_id=node.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                error_code=int(ErrorCode.NONE),
            )
    raise CoordinatorNotAvailableError(f"{shards.topic}-{partition} has no leader")
