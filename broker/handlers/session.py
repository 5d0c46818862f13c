"""What a client asks first: which APIs are there, and an id to be idempotent with."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.features import finalized_features, supported_features
from quorate.broker.handlers.transactions import init_transactional_producer, no_producer
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from quorate.protocol.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from quorate.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

ZERO_LEVELS_FROM: Final = 4
"""The version from which a feature may be told that could be switched off, with a level of 0."""


class ApiVersionsHandler:
    """Answers ApiVersions with the served APIs, which never change while a broker runs (KIP-35)."""

    def __init__(self, versions: list[ApiVersion]) -> None:
        self._versions = versions

    def __call__(
        self, broker: Broker, request: ApiVersionsRequest, caller: Caller
    ) -> ApiVersionsResponse:
        """Return the table; from version 3 on, clients must say who they are (KIP-511)."""
        named = request.client_software_name and request.client_software_version
        if caller.api_version >= 3 and not named:
            return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
        return ApiVersionsResponse(
            api_keys=self._versions,
            supported_features=supported_features(with_zero=caller.api_version >= ZERO_LEVELS_FROM),
            finalized_features_epoch=broker.replicas.image.version,
            finalized_features=finalized_features(broker.replicas.image),
        )

    def unsupported(self) -> ApiVersionsResponse:
        """Return the answer to a version that we do not know, to be written as version 0."""
        code = int(ErrorCode.UNSUPPORTED_VERSION)
        return ApiVersionsResponse(error_code=code, api_keys=self._versions)


def init_producer_id(
    broker: Broker, request: InitProducerIdRequest, caller: Caller
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    """Give an idempotent producer an id (KIP-98), a transactional one its own.

    An idempotent one that has an id and wants the next epoch of it (KIP-360) gets a new id, as from
    Kafka: only a transaction coordinator remembers epochs.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return no_producer(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return init_transactional_producer(broker, request, caller, request.transactional_id)
    promise: Promise[InitProducerIdResponse] = Promise()

    def taken(producer_id: int | None) -> None:
        if producer_id is None:
            # Retriable, in every client.
            promise.resolve(no_producer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            promise.resolve(InitProducerIdResponse(producer_id=producer_id))

    broker.producer_ids.take(taken)
    return promise
