"""The records of ``__transaction_state``, in Kafka's own formats (``TransactionLogKey`` and such).

What is written here is what Kafka 4.x writes with transaction.version 2 (version 1 of the value),
with one field more, in a tag that Kafka skips; version 0 is read, too.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from quorate.broker.shards.formats import decode_value, encode_value, leading_number
from quorate.broker.transactions.transaction import NOTHING, Transaction, TxnState
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.protocol.fields import OWN_TAG, array, int8, int16, int32, int64, string
from quorate.protocol.message import message, nested

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1

_KEY_HEAD: Final = Struct(">hh")
"""Version, and length of the transactional id."""


@nested
class TransactionLogPartitions:
    """The partitions of one topic that take part."""

    topic: str = string()
    partition_ids: list[int] = array("int32")


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """How a transactional id stands."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogPartitions] | None = array(
        TransactionLogPartitions, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
    last_producer_epoch: int = int16("1+", tag=OWN_TAG, default=-1)


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's record."""
    name = transactional_id.encode()
    return _KEY_HEAD.pack(KEY_VERSION, len(name)) + name


def read_transaction_key(key: bytes) -> str | None:
    """Return whose record it is; None for a key of a version that is not known here.

    Raises:
        CorruptRecordError: it is no such key.
    """
    if leading_number(key) != KEY_VERSION:
        return None
    if len(key) < _KEY_HEAD.size or len(key) != _KEY_HEAD.size + _KEY_HEAD.unpack_from(key)[1]:
        raise CorruptRecordError("the key of a transaction has an impossible length")
    try:
        return key[_KEY_HEAD.size :].decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"a transactional id: {error}") from None


def transaction_value(transaction: Transaction) -> bytes:
    """Return the value of a transactional id's record."""
    partitions = None
    if transaction.state is not TxnState.EMPTY:
        partitions = _by_topic(transaction.partitions)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
        last_producer_epoch=transaction.last_producer_epoch,
    )
    return encode_value(value, VALUE_VERSION)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TransactionLogPartitions]:
    topics: dict[str, TransactionLogPartitions] = {}
    for topic, partition in sorted(partitions):
        if topic not in topics:
            topics[topic] = TransactionLogPartitions(topic=topic)
        topics[topic].partition_ids.append(partition)
    return list(topics.values())


def read_transaction_value(value: bytes) -> Transaction:
    """Return what a transactional id's record says.

    Raises:
        CorruptRecordError: it is no such value.
    """
    read = decode_value(TransactionLogValue, value)
    try:
        state = TxnState(read.transaction_status)
    except ValueError:
        message = f"a transaction in the unknown state {read.transaction_status}"
        raise CorruptRecordError(message) from None
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in read.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    return Transaction(
        producer_id=read.producer_id,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        producer_epoch=read.producer_epoch,
        last_producer_epoch=read.last_producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=partitions or NOTHING,
        start_ms=read.transaction_start_timestamp_ms,
        update_ms=read.transaction_last_update_timestamp_ms,
        version=read.client_transaction_version,
    )
