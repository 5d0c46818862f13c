"""What can go wrong in a client beside the errors that brokers answer with."""

from quorate.errors import ErrorCode, KafkaError, NetworkError, QuorateError


class BootstrapError(NetworkError):
    """None of the bootstrap addresses led to a broker."""


class BufferFullError(QuorateError):
    """The producer holds as many unacknowledged bytes as it may."""


class ClosedError(QuorateError):
    """The producer, consumer or admin client was closed."""


class DeliveryTimeoutError(KafkaError):
    """Not acknowledged within the delivery timeout; the record may be written all the same."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NoOffsetError(KafkaError):
    """A partition has no position to read from, and the consumer was told not to choose one."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class NotAssignedError(QuorateError):
    """The partition is not assigned to this consumer."""


def in_words(error: QuorateError) -> str:
    """Return what an error says, to be quoted in another one."""
    return error.message if isinstance(error, KafkaError) else str(error)


def error_for(code: ErrorCode, message: str) -> KafkaError:
    """Return the error of the class that stands for the code, if there is one."""
    kind = _CLASSES.get(code)
    return KafkaError(message, code=code) if kind is None else kind(message)


_CLASSES = {
    kind.code: kind
    for kind in KafkaError.__subclasses__()
    if kind.__module__ == KafkaError.__module__
}
