"""What ``quorate txns`` prints, with the columns of kafka-transactions."""

from collections.abc import Iterable, Mapping

from quorate.client.transactions.describing import (
    OVER,
    OpenTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from quorate.model import TopicPartition
from quorate.tools.output import Column, Table
from quorate.tools.positions import time_text


def list_table(listings: Iterable[TransactionListing]) -> Table:
    """Return a row for each transactional id."""
    columns = (
        Column("transactional_id"), Column("coordinator"), Column("producer_id"),
        Column("transaction_state"),
    )  # fmt: skip
    rows = tuple((t.transactional_id, t.coordinator_id, t.producer_id, t.state) for t in listings)
    return Table("transactions", columns, rows)


def describe_table(described: Iterable[TransactionDescription], now_ms: int) -> Table:
    """Return how transactional ids stand."""
    columns = (
        Column("transactional_id"), Column("coordinator_id"), Column("producer_id"),
        Column("producer_epoch"), Column("transaction_state"), Column("transaction_timeout_ms"),
        Column("transaction_start"), Column("transaction_duration_ms"), Column("partitions"),
    )  # fmt: skip
    rows = tuple(
        (
            t.transactional_id, t.coordinator_id, t.producer_id, t.producer_epoch, t.state,
            t.timeout_ms, None if t.started_ms is None else time_text(t.started_ms),
            None if t.started_ms is None or t.state in OVER else max(0, now_ms - t.started_ms),
            [str(partition) for partition in t.partitions],
        )
        for t in described
    )  # fmt: skip
    return Table("transaction_states", columns, rows)


def producers_table(found: Mapping[TopicPartition, Iterable[ProducerDescription]]) -> Table:
    """Return who writes to partitions."""
    columns = (
        Column("partition"), Column("producer_id"), Column("producer_epoch"),
        Column("latest_coordinator_epoch"), Column("last_sequence"), Column("last_timestamp"),
        Column("current_transaction_start_offset"),
    )  # fmt: skip
    rows = tuple(
        (
            str(partition), p.producer_id, p.producer_epoch, p.coordinator_epoch, p.last_sequence,
            time_text(p.last_timestamp_ms) if p.last_timestamp_ms >= 0 else None,
            p.transaction_start_offset,
        )
        for partition, producers in found.items()
        for p in producers
    )  # fmt: skip
    return Table("producers", columns, rows)


def hanging_table(hanging: Iterable[OpenTransaction], now_ms: int) -> Table:
    """Return transactions that nobody will end."""
    columns = (
        Column("topic"), Column("partition"), Column("producer_id"), Column("producer_epoch"),
        Column("coordinator_epoch"), Column("start_offset"), Column("last_timestamp"),
        Column("duration_min", title="DURATION(MIN)"),
    )  # fmt: skip
    rows = tuple(
        (
            t.partition.topic, t.partition.partition, t.producer.producer_id,
            t.producer.producer_epoch, t.producer.coordinator_epoch,
            t.producer.transaction_start_offset, time_text(t.producer.last_timestamp_ms),
            t.open_ms(now_ms) // 60_000,
        )
        for t in hanging
    )  # fmt: skip
    return Table("hanging_transactions", columns, rows)
