"""DescribeTransactions, ListTransactions: how transactions stand (KIP-664)."""

from quorate.broker.groups.consumer_regex import compile_regex
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.gathering import Gathering
from quorate.broker.transactions.coordinator import TransactionCoordinator
from quorate.broker.transactions.errors import TransactionalIdNotFoundError
from quorate.broker.transactions.listing import Filters, states_named
from quorate.broker.transactions.transaction import NAMES, Transaction
from quorate.errors import ErrorCode, InvalidRequestError, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
    TransactionState,
)


def describe_transactions(
    broker: Broker, request: DescribeTransactionsRequest, _caller: Caller
) -> DescribeTransactionsResponse | Promise[DescribeTransactionsResponse]:
    """Tell how transactional ids stand, each when that is committed."""
    ids = list(dict.fromkeys(request.transactional_ids))  # each once, however often it is named
    states = Gathering[TransactionState](len(ids))
    for place, transactional_id in enumerate(ids):
        _describe(broker, transactional_id, states, place)
    return states.response(lambda found: DescribeTransactionsResponse(transaction_states=found))


def _describe(
    broker: Broker, transactional_id: str, states: Gathering[TransactionState], place: int
) -> None:
    def failed(code: ErrorCode) -> TransactionState:
        return TransactionState(
            transactional_id=transactional_id, error_code=int(code), producer_id=-1
        )

    try:
        coordinator, transaction = _found(broker, transactional_id)
    except KafkaError as error:
        states.put(place, failed(error.code))
        return
    state = _state(transactional_id, transaction)

    def committed(code: ErrorCode) -> None:
        states.put(place, state if code == ErrorCode.NONE else failed(code))

    coordinator.when_committed(transactional_id, committed)


def _found(broker: Broker, transactional_id: str) -> tuple[TransactionCoordinator, Transaction]:
    """Return how an id stands, and who says so.

    Raises:
        InvalidRequestError: the id is empty.
        TransactionalIdNotFoundError: nothing is known of it.
        KafkaError: another broker coordinates it, or nobody does.
    """
    if not transactional_id:
        raise InvalidRequestError("a transactional id is not empty")
    coordinator = broker.transactions.of(transactional_id)
    transaction = coordinator.find(transactional_id)
    if transaction is None:
        raise TransactionalIdNotFoundError
    return coordinator, transaction


def _state(transactional_id: str, transaction: Transaction) -> TransactionState:
    topics: dict[str, DescribeTransactionsTopicData] = {}
    for name, partition in sorted(transaction.partitions):
        if name not in topics:
            topics[name] = DescribeTransactionsTopicData(topic=name)
        topics[name].partitions.append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )


def list_transactions(
    broker: Broker, request: ListTransactionsRequest, _caller: Caller
) -> ListTransactionsResponse:
    """List the transactional ids that this broker coordinates."""
    if broker.transactions.is_loading:
        return ListTransactionsResponse(error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    states, unknown = states_named(request.state_filters)
    pattern = request.transactional_id_pattern
    try:
        filters = Filters(
            producer_ids=frozenset(request.producer_id_filters),
            states=states,
            names_states=bool(request.state_filters),
            duration_ms=request.duration_filter,
            select=compile_regex(pattern).select if pattern else frozenset,
        )
        listed = [
            ListTransactionsTransactionState(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=NAMES[transaction.state],
            )
            for coordinator in broker.transactions
            for transactional_id, transaction in filters.passing(coordinator.items(), broker.now_ms)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=int(error.code))
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
