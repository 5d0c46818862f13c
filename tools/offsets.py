"""Where partitions begin and end, and which offset a time has."""

from collections.abc import Sequence
from typing import Any, Final

from quorate.client.consumer import Consumer
from quorate.model import TopicPartition
from quorate.tools.output import Column, Table
from quorate.tools.positions import parse_time, time_text
from quorate.tools.problems import UsageError

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


def parse_offset_time(text: str, now_ms: int) -> int:
    """Return the timestamp to ask for: -1 (latest), -2 (earliest), -3 (of the newest), or a time.

    Raises:
        UsageError: the text is none of them.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text in {"-1", "-2", "-3"}:
        return int(text)
    time_ms = parse_time(text.removeprefix("@"), now_ms)
    if time_ms is None:
        raise UsageError(
            f"{text!r} is no time",
            why="it is none of earliest, latest, max-timestamp, -1, -2, -3, a time",
            hint="--time earliest, --time -1h, --time 2026-03-01T10:00",
        )
    return time_ms


async def offsets_table(
    bootstrap: str, settings: Any, topics: Sequence[str], timestamp: int | None
) -> Table:
    """Return first and next offset of every partition, or the offsets of a time.

    Raises:
        QuorateError: a topic does not exist, or its leader does not answer.
    """
    async with Consumer(bootstrap, **settings) as consumer:
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in await consumer.partitions_of(topic)
        ]
        if timestamp is None:
            return await _ends(consumer, partitions)
        return await _at(consumer, partitions, timestamp)


async def _ends(consumer: Consumer, partitions: list[TopicPartition]) -> Table:
    firsts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    columns = (
        Column("topic"), Column("partition"), Column("first_offset"), Column("next_offset"),
        Column("records"),
    )  # fmt: skip
    rows = tuple((*p, firsts[p], ends[p], ends[p] - firsts[p]) for p in partitions)
    return Table("offsets", columns, rows)


async def _at(consumer: Consumer, partitions: list[TopicPartition], timestamp: int) -> Table:
    columns = (
        Column("topic"), Column("partition"), Column("offset"), Column("timestamp_ms"),
        Column("time", wide_only=True),
    )  # fmt: skip
    if timestamp in {EARLIEST, LATEST}:
        asked = consumer.beginning_offsets if timestamp == EARLIEST else consumer.end_offsets
        offsets = await asked(partitions)
        return Table("offsets", columns, tuple((*p, offsets[p], None, None) for p in partitions))
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, timestamp))
    rows: list[tuple[Any, ...]] = []
    for partition in partitions:
        place = found[partition]
        if place is None:
            rows.append((*partition, None, None, None))
        else:
            time = time_text(place.timestamp_ms) if place.timestamp_ms >= 0 else None
            rows.append((*partition, place.offset, place.timestamp_ms, time))
    return Table("offsets", columns, tuple(rows))


def kafka_lines(table: Table) -> str:
    """Return the lines of kafka-get-offsets: ``topic:partition:offset``."""
    names = [column.name for column in table.columns]
    at = names.index("offset" if "offset" in names else "next_offset")
    return "".join(
        f"{row[0]}:{row[1]}:{'' if row[at] is None else row[at]}\n" for row in table.rows
    )
