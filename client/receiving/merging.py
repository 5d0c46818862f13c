"""Records of partitions that belong together, by their times (pure).

Source: Kafka Streams' ``PartitionGroup``, with ``max.task.idle.ms=0``: the partition whose next
record is the earliest comes first; one that has nothing is waited for as long as it is known to
have records that were not fetched, or that is not known yet.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quorate.client.receiving.streams import PartitionStream
    from quorate.records.record import Record


def by_number(streams: Iterable[PartitionStream]) -> list[list[PartitionStream]]:
    """Return the partitions of each number together, in the order in which the first ones come."""
    together: dict[int, list[PartitionStream]] = {}
    for stream in streams:
        together.setdefault(stream.topic_partition.partition, []).append(stream)
    return list(together.values())


def take_earliest(
    streams: Sequence[PartitionStream], records_max: int
) -> tuple[PartitionStream, list[Record]] | None:
    """Return the next records, all of one partition; None if one is to be waited for.

    Raises:
        QuorateError: A partition cannot be read on, and nothing comes before that is told.
    """
    heads: list[tuple[int, PartitionStream]] = []
    for stream in streams:
        head = None if stream.paused else stream.next_record()
        if head is not None:
            heads.append((head.timestamp_ms, stream))
        elif stream.error is not None:
            stream.take(1)  # which raises it
        elif not stream.is_at_end:
            return None
    if not heads:
        return None
    heads.sort(key=lambda head: head[0])
    _, first = heads[0]
    until_ms = heads[1][0] if len(heads) > 1 else None
    return first, first.take(_count_until(first, until_ms, records_max))


def _count_until(stream: PartitionStream, until_ms: int | None, records_max: int) -> int:
    ready = stream.decoded()
    if until_ms is None:
        return min(records_max, len(ready))
    early = takewhile(lambda record: record.timestamp_ms <= until_ms, ready)
    return sum(1 for _ in islice(early, records_max))
