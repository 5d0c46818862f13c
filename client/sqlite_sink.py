"""Trio shell: carries records of topics to a table of SQLite, each exactly once."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.connect.config import OFFSETS_TABLE, TOPICS_TABLE
from quorate.client.connect.rows import (
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
from quorate.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from quorate.client.connect.config import SqliteSink
    from quorate.client.connect.rows import Cell
    from quorate.client.connector import Context
    from quorate.client.routing.cluster import TopicView
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
        try:
            self._connection = sqlite3.connect(
                sink.database, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.OperationalError as error:
            raise sqlite3.OperationalError(f"{sink.database}: {error}") from error

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def prepare(self) -> dict[TopicPartition, int]:
        """Create what is not there, and return how far each partition was written.

        Raises:
            ConnectorError: There is a table of that name without some of the columns, or without
                their key; or none can be made.
            sqlite3.Error: The database cannot be used.
        """
        connection, sink = self._connection, self._sink
        with self._refusing("cannot be made"):
            for statement in create_statements(sink):
                connection.execute(statement)
        there = connection.execute(f"PRAGMA table_info({quoted(sink.table)})").fetchall()
        missing = {n.lower() for n in column_names(sink)} - {str(row[1]).lower() for row in there}
        if missing:
            told = ", ".join(sorted(missing))
            raise ConnectorError(f"table {sink.table!r} of {sink.database} has no column {told}")
        with self._refusing("needs PRIMARY KEY (topic, partition, offset)"):
            connection.execute(f"EXPLAIN {self._upsert}", (None,) * len(column_names(sink)))
        query = f"SELECT topic, partition, next_offset FROM {OFFSETS_TABLE} WHERE connector = ?"  # noqa: S608
        rows = connection.execute(query, (sink.common.name,)).fetchall()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    @contextmanager
    def _refusing(self, why: str) -> Generator[None]:
        """Have what SQLite does not do, now and later, end the connector; a lock may pass."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            place = f"table {self._sink.table!r} of {self._sink.database}"
            raise ConnectorError(f"{place} {why}: {error}") from error

    def know_topic(self, topic: str, topic_id: str) -> None:
        """Remember which topic of that name was read; it is to stay the same one.

        Raises:
            ConnectorError: It was another one before. Its records would take the places of that
                one's, or be taken for carried.
            sqlite3.Error: The database cannot be used.
        """
        place = (self._sink.common.name, topic)
        self._connection.execute(
            f"INSERT OR IGNORE INTO {TOPICS_TABLE} VALUES (?, ?, ?)",  # noqa: S608
            (*place, topic_id),
        )
        query = f"SELECT topic_id FROM {TOPICS_TABLE} WHERE connector = ? AND topic = ?"  # noqa: S608
        (known,) = self._connection.execute(query, place).fetchone()
        if known != topic_id:
            raise ConnectorError(
                f"topic {topic!r} was deleted and created again: its new records would have the"
                f" places of old ones in table {self._sink.table!r} of {self._sink.database}. Take"
                " another name and another table for the connector, or remove all rows of that"
                f" topic there, in {OFFSETS_TABLE} and in {TOPICS_TABLE}"
            )

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


class _SinkConsumer(Consumer[Any, Any]):
    """Says what its own metadata has about a topic: that by which records were fetched."""

    async def view_of(self, topic: str) -> TopicView:
        return await self._connected().topic(topic)


async def run_sqlite_sink(sink: SqliteSink, context: Context) -> None:
    """Carry records until cancelled; with ``once``, up to the ends that partitions have now.

    Where to go on the database says. The group of Kafka Connect's name, ``connect-<name>``, is told
    as well, but only so that others can see how far behind it is.
    """
    consumer = _SinkConsumer(
        context.bootstrap,
        group_id=f"connect-{sink.common.name}",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="none",  # what is deleted before it was carried is to be told
        **context.options,
    )
    in_thread = trio.to_thread.run_sync
    with closing(await in_thread(SinkDatabase, sink)) as database:
        done = await in_thread(database.prepare)
        async with consumer:
            topics = ", ".join(sink.topics)
            context.tell(f"{topics} to table {sink.table} of {sink.database}")
            reading = _Reading(sink, context, consumer, database, done)
            await reading.assign()
            ends = await consumer.end_offsets(consumer.assignment) if context.once else {}
            while not (context.once and await _has_read(consumer, ends)):
                records = await consumer.poll(
                    max_records=sink.batch_records_max, timeout_ms=POLL_MS
                )
                await reading.assign()
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


class _Reading:
    """Has all partitions that there are read, each from where the database has it.

    Invariant: records that were given out before :meth:`assign` are of the topics that the database
    knows.
    """

    def __init__(
        self,
        sink: SqliteSink,
        context: Context,
        consumer: _SinkConsumer,
        database: SinkDatabase,
        done: Mapping[TopicPartition, int],
    ) -> None:
        self._sink = sink
        self._context = context
        self._consumer = consumer
        self._database = database
        self._done = done
        self._topic_ids: dict[str, bytes] = {}

    async def assign(self) -> None:
        """Read what is new, too.

        Raises:
            ConnectorError: A topic is another one than before.
        """
        consumer = self._consumer
        wanted: set[TopicPartition] = set()
        for topic in self._sink.topics:
            view = await consumer.view_of(topic)
            wanted |= {TopicPartition(topic, number) for number in view.partitions}
            if view.topic_id not in {ZERO_UUID, self._topic_ids.get(topic)}:
                know = partial(self._database.know_topic, topic, view.topic_id.hex())
                await trio.to_thread.run_sync(know)
                self._topic_ids[topic] = view.topic_id
        added = wanted - consumer.assignment
        if not added:
            return
        starts = await self._starts(added & self._done.keys())
        consumer.assign(wanted)
        for partition in added:
            if partition in starts:
                consumer.seek(partition, starts[partition])
            else:
                consumer.seek_to_beginning(partition)

    async def _starts(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where to go on, and say which records were deleted before they were carried.

        Raises:
            ConnectorError: A log ends before that.
        """
        begins = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        starts: dict[TopicPartition, int] = {}
        for partition in sorted(partitions):
            at, begin, end = self._done[partition], begins[partition], ends[partition]
            if at > end:
                raise ConnectorError(
                    f"{partition} ends at offset {end}, but was carried up to {at}: what was"
                    f" carried is not in the topic any more. To go on at {end}, say so in"
                    f" {OFFSETS_TABLE} of {self._sink.database}"
                )
            if at < begin:
                told = f"offsets {at} to {begin - 1} of {partition} were deleted"
                self._context.tell(f"{told} before they were carried; it goes on behind them")
            starts[partition] = max(at, begin)
        return starts


async def _has_read(consumer: Consumer[Any, Any], ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
