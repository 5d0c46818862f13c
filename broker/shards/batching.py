"""Entries that may be too many for one batch."""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.broker.shards.effects import Entry
from quorate.records.record import record_bytes_max

BATCH_BYTES: Final = 500_000
"""How much is written at once: one batch, which has to be smaller than ``max.message.bytes``."""


def batches(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    """Yield the entries in as many batches as it takes: one at least, empty if there are none."""
    batch: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if size_bytes >= BATCH_BYTES:
            yield tuple(batch)
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += record_bytes_max(entry.key, entry.value, b"")
    yield tuple(batch)
