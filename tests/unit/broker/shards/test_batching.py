"""Entries in batches that a coordinator's partition takes."""

import pytest

from quorate.broker.shards.batching import BATCH_BYTES, batches
from quorate.broker.shards.effects import Entry
from quorate.records.record import RECORD_OVERHEAD_BYTES_MAX, record_bytes_max


@pytest.mark.parametrize(("count", "key_bytes"), [(2_000, 1_000), (100_000, 4)])
def test_entries_stay_in_order_in_batches_of_a_bearable_size(count: int, key_bytes: int) -> None:
    entries = [Entry(number.to_bytes(key_bytes), None) for number in range(count)]
    made = list(batches(entries))
    assert len(made) > 1
    assert [entry for batch in made for entry in batch] == entries
    for batch in made:
        size_bytes = sum(record_bytes_max(key, value, b"") for key, value in batch)
        assert 0 < size_bytes < BATCH_BYTES + key_bytes + RECORD_OVERHEAD_BYTES_MAX


def test_what_fills_batches_leaves_none_empty_unless_there_is_nothing() -> None:
    assert list(batches([])) == [()]
    entry = Entry(b"k" * BATCH_BYTES, b"v")
    assert list(batches([entry])) == [(entry,)]
    assert list(batches([entry, entry])) == [(entry,), (entry,)]
