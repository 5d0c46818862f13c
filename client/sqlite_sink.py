"""Trio shell: carries records of topics to a table of SQLite, each exactly once."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.connect.rows import (
    OFFSETS_TABLE,
    UnreadableError,
    column_names,
    create_statements,
    quoted,
    row_of,
    upsert_statement,
)
from quorate.client.connector import ConnectorError
from quorate.client.consumer import Consumer
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.client.connect.config import SqliteSink
    from quorate.client.connect.rows import Cell
    from quorate.client.connector import Context
    from quorate.records.record import Record

POLL_MS: Final = 200
LOCK_WAIT_S: Final = 10.0


class SinkDatabase:
    """Owns a database's connection; to be used by one thread at a time.

    Invariant: rows and the offsets behind them are there together, or neither.
    """

    def __init__(self, sink: SqliteSink) -> None:
        self._sink = sink
        self._upsert = upsert_statement(sink)
        self._connection = sqlite3.connect(
            sink.database, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False
        )

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def prepare(self) -> dict[TopicPartition, int]:
        """Create what is not there, and return how far each partition was written.

        Raises:
            ConnectorError: There is a table of that name without some of the columns.
            sqlite3.Error: The database cannot be used.
        """
        connection, sink = self._connection, self._sink
        for statement in create_statements(sink):
            connection.execute(statement)
        there = connection.execute(f"PRAGMA table_info({quoted(sink.table)})").fetchall()
        missing = {n.lower() for n in column_names(sink)} - {str(row[1]).lower() for row in there}
        if missing:
            told = ", ".join(sorted(missing))
            raise ConnectorError(f"table {sink.table!r} of {sink.database} has no column {told}")
        query = f"SELECT topic, partition, next_offset FROM {OFFSETS_TABLE} WHERE connector = ?"  # noqa: S608
        rows = connection.execute(query, (sink.common.name,)).fetchall()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    def write(
        self,
        rows: list[tuple[Cell, ...]],
        before: Mapping[TopicPartition, int],
        after: Mapping[TopicPartition, int],
    ) -> None:
        """Write rows and offsets in one transaction.

        Raises:
            ConnectorError: Somebody else has written meanwhile.
            sqlite3.Error: Nothing was written.
        """
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(self._upsert, rows)
            for partition, offset in after.items():
                self._move(partition, before.get(partition), offset)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _move(self, partition: TopicPartition, before: int | None, after: int) -> None:
        """Store an offset where there was another; whoever finds none there has been overtaken."""
        place = (self._sink.common.name, *partition)
        if before is None:
            statement = f"INSERT OR IGNORE INTO {OFFSETS_TABLE} VALUES (?, ?, ?, ?)"  # noqa: S608
            done = self._connection.execute(statement, (*place, after))
        else:
            statement = (
                f"UPDATE {OFFSETS_TABLE} SET next_offset = ?"  # noqa: S608
                " WHERE connector = ? AND topic = ? AND partition = ? AND next_offset = ?"
            )
            done = self._connection.execute(statement, (after, *place, before))
        if done.rowcount != 1:
            raise ConnectorError(
                f"another runner writes {self._sink.database} as connector"
                f" {self._sink.common.name!r}: one of them is enough"
            )


async def run_sqlite_sink(sink: SqliteSink, context: Context) -> None:
    """Carry records until cancelled; with ``once``, up to the ends that partitions have now.

    Where to go on the database says. The group of Kafka Connect's name, ``connect-<name>``, is told
    as well, but only so that others can see how far behind it is.
    """
    consumer = Consumer[Any, Any](
        context.bootstrap,
        group_id=f"connect-{sink.common.name}",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **context.options,
    )
    in_thread = trio.to_thread.run_sync
    with closing(await in_thread(SinkDatabase, sink)) as database:
        done = await in_thread(database.prepare)
        async with consumer:
            topics = ", ".join(sink.topics)
            context.tell(f"{topics} to table {sink.table} of {sink.database}")
            await _assign(sink, consumer, done)
            ends = await consumer.end_offsets(consumer.assignment) if context.once else {}
            while not (context.once and await _has_read(consumer, ends)):
                await _assign(sink, consumer, done)
                records = await consumer.poll(
                    max_records=sink.batch_records_max, timeout_ms=POLL_MS
                )
                if not records:
                    continue
                rows = _rows(sink, context, records)
                after = {record.topic_partition: record.offset + 1 for record in records}
                await in_thread(partial(database.write, rows, dict(done), after))
                done.update(after)
                context.counted.records += len(rows)
                consumer.commit_soon(after)


def _rows(sink: SqliteSink, context: Context, records: list[Record]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for record in records:
        try:
            rows.append(row_of(sink, record))
        except UnreadableError as error:
            if not sink.skip_unreadable:
                raise
            context.tell(f"skipped: {error}")
    return rows


async def _assign(
    sink: SqliteSink, consumer: Consumer[Any, Any], done: Mapping[TopicPartition, int]
) -> None:
    """Read all partitions that there are, new ones from their beginning."""
    wanted = {
        TopicPartition(topic, number)
        for topic in sink.topics
        for number in await consumer.partitions_of(topic)
    }
    added = wanted - consumer.assignment
    if not added:
        return
    consumer.assign(wanted)
    for partition in added:
        if partition in done:
            consumer.seek(partition, done[partition])
        else:
            consumer.seek_to_beginning(partition)


async def _has_read(consumer: Consumer[Any, Any], ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
