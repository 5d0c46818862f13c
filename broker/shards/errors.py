"""Why a coordinator does not answer."""

from quorate.errors import ErrorCode, KafkaError


class NotCoordinatorError(KafkaError):
    """Another broker coordinates that."""

    code = ErrorCode.NOT_COORDINATOR


class CoordinatorNotAvailableError(KafkaError):
    """Nobody coordinates that for now."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class CoordinatorLoadInProgressError(KafkaError):
    """This broker will coordinate that, once it has read what happened before."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
