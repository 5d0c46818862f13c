"""Why a transaction cannot do what is asked."""

from quorate.errors import ErrorCode, KafkaError


class ProducerFencedError(KafkaError):
    """A newer producer has the transactional id."""

    code = ErrorCode.PRODUCER_FENCED


class ConcurrentTransactionsError(KafkaError):
    """The end of the last transaction is not yet written everywhere."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class InvalidTransactionTimeoutError(KafkaError):
    """The transaction might take longer than the broker allows."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class TransactionalIdNotFoundError(KafkaError):
    """Nothing is known of the transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
