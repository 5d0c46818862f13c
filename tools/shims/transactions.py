"""``kafka-transactions``: how transactions stand, and the end of those that hang (KIP-664)."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from quorate.client.admin import Admin
from quorate.client.transactions.describing import (
    NO_EPOCH,
    OpenTransaction,
    ProducerDescription,
    TransactionDescription,
    hanging_of,
)
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import client, message_of, told

TRANSACTIONS: Final = options(
    "",
    "duration-filter transactional-id-pattern transactional-id transactionalId topic partition"
    " broker-id start-offset producer-id producer-epoch coordinator-epoch max-transaction-timeout",
    positional=True,
)

PRODUCER_COLUMNS: Final = (
    "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
    "CurrentTransactionStartOffset",
)  # fmt: skip
DESCRIBE_COLUMNS: Final = (
    "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
    "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs",
    "TopicPartitions",
)  # fmt: skip
LIST_COLUMNS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
HANGING_COLUMNS: Final = (
    "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset",
    "LastTimestamp", "Duration(min)",
)  # fmt: skip

MINUTE_MS: Final = 60_000
TIMEOUT_MIN: Final = 15
"""What ``--max-transaction-timeout`` is by default."""

Lines = Iterable[str]


async def transactions(given: Given, environment: Mapping[str, str]) -> Lines:
    """Carry out ``kafka-transactions``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    if not given.words:
        raise ShimError("kafka-transactions.sh: error: too few arguments")
    command, *rest = given.words
    if command not in _COMMANDS:
        choices = ", ".join(f"'{name}'" for name in _COMMANDS)
        raise ShimError(
            f"kafka-transactions.sh: error: invalid choice: '{command}' (choose from {choices})"
        )
    if rest:
        raise ShimError(f"kafka-transactions.sh: error: unrecognized arguments: '{rest[0]}'")
    act, needed = _COMMANDS[command]
    for name in ("bootstrap-server", *needed):
        if name not in given:
            raise ShimError(f"kafka-transactions.sh: error: argument --{name} is required")
    async with client(given, environment).admin() as admin:
        return await act(admin, given)


def _failed(what: str, error: QuorateError) -> ShimError:
    """Return an error in the words of Kafka's tool."""
    return ShimError(
        f"Failed to {what}: {message_of(error)}. Enable debug logging for additional detail."
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table as Kafka's tool prints it: each cell padded, a tab behind it."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _partition(given: Given) -> TopicPartition:
    return TopicPartition(given.one("topic"), given.number("partition") or 0)


# --- list, describe, describe-producers


async def _list(admin: Admin, given: Given) -> Lines:
    longer_ms = given.number("duration-filter")
    try:
        found = await admin.list_transactions(
            open_for_ms=None if longer_ms is None or longer_ms < 0 else longer_ms,
            pattern=given.one("transactional-id-pattern") or None,
        )
    except QuorateError as error:
        raise _failed("list transactions", error) from None
    found.sort(key=lambda each: each.coordinator_id)
    return _table(
        LIST_COLUMNS,
        ((t.transactional_id, t.coordinator_id, t.producer_id, t.state) for t in found),
    )


async def _describe(admin: Admin, given: Given) -> Lines:
    name = given.one("transactional-id")
    try:
        found: TransactionDescription = told((await admin.describe_transactions([name]))[name])
    except QuorateError as error:
        what = f"describe transaction state of transactional-id `{name}`"
        raise _failed(what, _in_javas_words(name, error)) from None
    started_ms = found.started_ms
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        "None" if started_ms is None else started_ms,
        "None" if started_ms is None else _now_ms() - started_ms,
        ",".join(map(str, found.partitions)),
    )
    return _table(DESCRIBE_COLUMNS, [row])


def _in_javas_words(name: str, error: QuorateError) -> QuorateError:
    """Return what Java's client says of an id that nobody knows: the broker gives no words."""
    if isinstance(error, KafkaError) and error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return QuorateError(
            f"DescribeTransactions request for transactionalId `{name}` failed because the ID could"
            " not be found"
        )
    return error


async def _describe_producers(admin: Admin, given: Given) -> Lines:
    partition, broker_id = _partition(given), given.number("broker-id")
    try:
        found = await admin.describe_producers([partition], broker_id=broker_id)
        producers: list[ProducerDescription] = told(found[partition])
    except QuorateError as error:
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise _failed(f"describe producers for partition {partition} on {where}", error) from None
    return _table(
        PRODUCER_COLUMNS,
        (
            (
                p.producer_id,
                p.producer_epoch,
                _epoch(p),
                p.last_sequence,
                p.last_timestamp_ms,
                "None" if p.transaction_start_offset is None else p.transaction_start_offset,
            )
            for p in producers
        ),
    )


def _epoch(producer: ProducerDescription) -> int:
    epoch = producer.coordinator_epoch
    return NO_EPOCH if epoch is None else epoch


# --- find-hanging


async def _find_hanging(admin: Admin, given: Given) -> Lines:
    if "topic" not in given and "broker-id" not in given:
        raise ShimError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    if "partition" in given and "topic" not in given:
        raise ShimError("The --partition argument requires --topic to be provided")
    timeout_min = given.number("max-transaction-timeout")
    timeout_ms = MINUTE_MS * (TIMEOUT_MIN if timeout_min is None else timeout_min)
    broker_id, now_ms = given.number("broker-id"), _now_ms()
    partitions = await _to_search(admin, given, broker_id)
    try:
        found = await admin.describe_producers(partitions, broker_id=broker_id)
        candidates = [
            OpenTransaction(partition, producer)
            for partition, its_producers in found.items()
            for producer in told(its_producers)
            if producer.transaction_start_offset is not None
            and now_ms - producer.last_timestamp_ms > timeout_ms
        ]
    except QuorateError as error:
        where = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
        what = f"describe producers for {len(partitions)} partitions on broker {where}"
        raise _failed(what, error) from None
    hanging = await _hanging(admin, candidates) if candidates else []
    return _table(
        HANGING_COLUMNS,
        (
            (
                h.partition.topic,
                h.partition.partition,
                h.producer.producer_id,
                h.producer.producer_epoch,
                _epoch(h.producer),
                h.producer.transaction_start_offset,
                h.producer.last_timestamp_ms,
                (now_ms - h.producer.last_timestamp_ms) // MINUTE_MS,
            )
            for h in hanging
        ),
    )


async def _to_search(admin: Admin, given: Given, broker_id: int | None) -> list[TopicPartition]:
    """Return the partitions to look at: of the topic, or all that the broker has."""
    if "partition" in given:
        return [_partition(given)]
    topics = given.all("topic") or [each.name for each in await admin.list_topics()]
    try:
        found = await admin.describe_topics(topics)
        return [
            TopicPartition(name, each.partition)
            for name, topic in found.items()
            for each in told(topic).partitions
            if broker_id is None or broker_id in each.replicas
        ]
    except QuorateError as error:
        raise _failed(f"describe {len(topics)} topics", error) from None


async def _hanging(admin: Admin, candidates: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    ids = {each.producer.producer_id for each in candidates}
    try:
        listed = await admin.list_transactions(producer_ids=ids)
    except QuorateError as error:
        raise _failed(f"list transactions for {len(ids)} producers", error) from None
    described = await admin.describe_transactions([each.transactional_id for each in listed])
    known = {
        name: each for name, each in described.items() if isinstance(each, TransactionDescription)
    }
    return hanging_of(candidates, listed, known)


# --- abort, forceTerminateTransaction


async def _abort(admin: Admin, given: Given) -> Lines:
    partition, start_offset = _partition(given), given.number("start-offset")
    if start_offset is not None:
        producer = await _producer_at(admin, partition, start_offset)
    else:
        producer = _named_producer(given)
    try:
        await admin.abort_transaction(partition, producer)
    except QuorateError as error:
        spec = (
            f"AbortTransactionSpec(topicPartition={partition}, producerId={producer.producer_id},"
            f" producerEpoch={producer.producer_epoch},"
            f" coordinatorEpoch={max(0, _epoch(producer))})"
        )
        raise _failed(f"abort transaction {spec}", error) from None
    return ()


def _named_producer(given: Given) -> ProducerDescription:
    """Return whom the arguments for brokers before 3.0 name."""
    if "producer-id" not in given:
        raise ShimError(
            "The transaction to abort must be identified either with --start-offset (for brokers"
            " on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch"
            " (for older brokers)"
        )
    for name in ("producer-epoch", "coordinator-epoch"):
        if name not in given:
            raise ShimError(f"Missing required argument --{name}")
    return ProducerDescription(
        producer_id=given.number("producer-id") or 0,
        producer_epoch=given.number("producer-epoch") or 0,
        coordinator_epoch=given.number("coordinator-epoch"),
        last_sequence=-1,
        last_timestamp_ms=-1,
        transaction_start_offset=None,
    )


async def _producer_at(
    admin: Admin, partition: TopicPartition, start_offset: int
) -> ProducerDescription:
    try:
        producers = told((await admin.describe_producers([partition]))[partition])
    except QuorateError as error:
        what = f"validate producer state for partition {partition}"
        raise _failed(what, error) from None
    for producer in producers:
        if producer.transaction_start_offset == start_offset:
            return producer
    raise ShimError(
        f"Could not find any open transactions starting at offset {start_offset}"
        f" on partition {partition}"
    )


async def _force_terminate(admin: Admin, given: Given) -> Lines:
    name = given.one("transactionalId")
    error = (await admin.fence_producers([name]))[name]
    if error is not None:
        raise _failed(f"force terminate transactionalId `{name}`", error)
    return ()


_Act = Callable[[Admin, Given], Awaitable[Lines]]

_COMMANDS: Final[Mapping[str, tuple[_Act, Sequence[str]]]] = {
    "list": (_list, ()),
    "describe": (_describe, ("transactional-id",)),
    "describe-producers": (_describe_producers, ("topic", "partition")),
    "abort": (_abort, ("topic", "partition")),
    "find-hanging": (_find_hanging, ()),
    "forceTerminateTransaction": (_force_terminate, ("transactionalId",)),
}
"""What to do, and which options are required."""
