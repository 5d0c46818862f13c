"""Coordinators of groups and transactions: there are none yet, and clients are told so."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_FROM: Final = 4
"""The version from which one request asks for several coordinators (KIP-699)."""

REASON: Final = "this broker coordinates neither groups nor transactions"


def find_coordinator(
    _broker: Broker, request: FindCoordinatorRequest, caller: Caller
) -> FindCoordinatorResponse:
    """Answer that no coordinator is available.

    librdkafka compresses with lz4 only for brokers that serve this API, and sends batches as they
    are otherwise. The error is one that clients retry in silence, for those that read partitions of
    their own choice are made with a group's name too, and need no coordinator.
    """
    code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if caller.api_version < BATCHED_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=REASON, node_id=NO_LEADER)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_LEADER, error_code=code, error_message=REASON, port=-1)
            for key in request.coordinator_keys
        ]
    )
