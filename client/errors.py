"""What can go wrong in a client beside the errors that brokers answer with."""

from quorate.errors import (
    ErrorCode,
    KafkaError,
    NetworkError,
    QuorateError,
    UnknownTopicOrPartitionError,
    known_code,
)
from quorate.model import UNKNOWN_OFFSET, TopicPartition


class BootstrapError(NetworkError):
    """None of the bootstrap addresses led to a broker."""


class BufferFullError(QuorateError):
    """The producer holds as many unacknowledged bytes as it may."""


class ClosedError(QuorateError):
    """The producer, consumer or admin client was closed."""


class CommitFailedError(KafkaError):
    """Offsets were not committed, because their partitions may be another member's by now.

    What was read of them since the last commit is read again, by whoever has them.
    """

    code = ErrorCode.ILLEGAL_GENERATION


class DeliveryTimeoutError(KafkaError):
    """Not acknowledged within the delivery timeout; the record may be written all the same."""

    code = ErrorCode.REQUEST_TIMED_OUT


class FencedInstanceError(KafkaError):
    """Another consumer is in the group under the same ``group_instance_id``."""

    code = ErrorCode.FENCED_INSTANCE_ID


class LogTruncationError(KafkaError):
    """Records that were read are gone: an unclean leader election took them (KIP-320).

    Attributes:
        topic_partition: Where.
        offset: The position, behind records that do not exist any more.
        diverging_offset: The first offset that the new log does not share with the old one; None if
            nobody knows. Seek there to read what took the place of the lost records.
    """

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self,
        message: str,
        *,
        topic_partition: TopicPartition | None = None,
        offset: int = UNKNOWN_OFFSET,
        diverging_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.diverging_offset = diverging_offset


class NoOffsetError(KafkaError):
    """A partition has no position to read from, and the consumer was told not to choose one."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class NotAssignedError(QuorateError):
    """The partition is not assigned to this consumer."""


class NoTransactionError(QuorateError):
    """A transactional producer was to send outside a transaction, or to open a second one."""


class ProducerFencedError(KafkaError):
    """Another producer has this one's transactional id, or its transaction took too long.

    What it has not committed is aborted, and it can do nothing more: only the newest producer with
    a transactional id may write.

    Attributes:
        took_too_long: Whether it was its transaction; then a new producer can do it again.
    """

    code = ErrorCode.PRODUCER_FENCED
    took_too_long = False


class TransactionAbortedError(KafkaError):
    """The transaction was aborted: nothing of it counts. Do it again as a whole.

    ``__cause__`` is what spoiled it, if it was not the user who aborted.
    """

    code = ErrorCode.TRANSACTION_ABORTABLE


class TransactionOutcomeUnknownError(KafkaError):
    """Nobody has said in time whether the transaction is committed.

    The producer goes on asking: see :meth:`quorate.client.transaction.Transaction.resolve`.
    """

    code = ErrorCode.REQUEST_TIMED_OUT


def in_words(error: QuorateError) -> str:
    """Return what an error says, to be quoted in another one."""
    return error.message if isinstance(error, KafkaError) else str(error)


def topic_error(name: str, code: int) -> KafkaError:
    """Return the error for what a broker said about a topic."""
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(f"topic {name!r}", code=known_code(code))
    return UnknownTopicOrPartitionError(
        f"there is no topic {name!r}; try 'quorate topics list' to see those there are, or"
        f" 'quorate topics create {name}'"
    )


def unknown_partition(partition: TopicPartition, count: int) -> UnknownTopicOrPartitionError:
    """Return the error for a partition that a topic of so many does not have."""
    return UnknownTopicOrPartitionError(
        f"topic {partition.topic!r} has no partition {partition.partition}; it has {count},"
        " numbered from 0"
    )


def error_for(code: ErrorCode, message: str) -> KafkaError:
    """Return the error of the class that stands for the code, if there is one."""
    kind = _CLASSES.get(code)
    return KafkaError(message, code=code) if kind is None else kind(message)


_CLASSES = {
    kind.code: kind
    for kind in KafkaError.__subclasses__()
    if kind.__module__ == KafkaError.__module__
}
