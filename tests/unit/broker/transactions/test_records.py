"""The records of ``__transaction_state`` are Kafka's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.shards.formats import encode_value
from quorate.broker.transactions.records import (
    TransactionLogPartitions,
    TransactionLogValue,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from quorate.broker.transactions.transaction import NOTHING, Transaction, TxnState
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from tests.unit.broker.transactions.standing import PID, T0, T1, standing

INT16, INT32, INT64 = (st.integers(-1, 2**bits - 1) for bits in (15, 31, 63))
PARTITIONS = st.frozensets(st.builds(TopicPartition, st.text(max_size=9), st.integers(0, 99)))


@given(st.text(min_size=1, max_size=99))
def test_a_key_is_read_as_it_was_written(transactional_id: str) -> None:
    assert read_transaction_key(transaction_key(transactional_id)) == transactional_id


@given(
    st.builds(
        Transaction,
        producer_id=INT64,
        previous_producer_id=INT64,
        next_producer_id=INT64,
        producer_epoch=INT16,
        last_producer_epoch=INT16,
        timeout_ms=INT32,
        state=st.sampled_from(TxnState),
        partitions=PARTITIONS,
        start_ms=INT64,
        update_ms=INT64,
        version=st.sampled_from([0, 2]),
    )
)
def test_a_value_is_read_as_it_was_written(transaction: Transaction) -> None:
    if transaction.state is TxnState.EMPTY:
        transaction = replace(transaction, partitions=NOTHING)
    assert read_transaction_value(transaction_value(transaction)) == transaction


def test_the_bytes_are_those_of_kafka() -> None:
    assert transaction_key("my-id") == b"\0\0\0\5my-id"
    transaction = standing(
        TxnState.ONGOING, 5, partitions=frozenset({T0, T1}), start_ms=1, update_ms=2
    )
    assert transaction_value(transaction).hex(" ", 4) == (
        (
            b"\0\1"  # version
            b"\0\0\0\0\0\0\x0f\xa0\0\5\0\0\xea\x60\1"  # producer, epoch, timeout, Ongoing
            b"\2\2t\3\0\0\0\0\0\0\0\1\0"  # one topic, two partitions
            b"\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1"  # update, start
            b"\2\0\x08\0\0\0\0\0\0\x0f\xa0\2\2\0\2"  # tags: previous producer, version
        ).hex(" ", 4)
    )


def test_what_older_versions_wrote_is_read() -> None:
    value = TransactionLogValue(
        producer_id=PID,
        producer_epoch=3,
        transaction_timeout_ms=9,
        transaction_status=4,
        transaction_partitions=[TransactionLogPartitions(topic="t", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=2,
        transaction_start_timestamp_ms=1,
    )
    read = read_transaction_value(encode_value(value, 0))
    assert (read.producer_id, read.producer_epoch, read.version) == (PID, 3, 0)
    assert (read.state, read.partitions) == (TxnState.COMPLETE_COMMIT, frozenset({T0, T1}))
    assert (read.previous_producer_id, read.next_producer_id, read.last_producer_epoch) == (
        -1,
        -1,
        -1,
    )


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0\0\5abc", b"\0\0\0\1\xff"])
def test_what_is_no_key_is_told(key: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        read_transaction_key(key)


def test_keys_of_versions_to_come_are_left_out() -> None:
    assert read_transaction_key(b"\0\1whatever") is None


@pytest.mark.parametrize("value", [b"", b"\0\2", b"\0\1\0"])
def test_what_is_no_value_is_told(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        read_transaction_value(value)


def test_an_unknown_state_is_told() -> None:
    value = encode_value(TransactionLogValue(transaction_status=8, transaction_partitions=None), 1)
    with pytest.raises(CorruptRecordError, match="state 8"):
        read_transaction_value(value)
