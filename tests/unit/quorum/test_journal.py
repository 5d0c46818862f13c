"""The journal: what was synced is there after any crash, and damage is not taken for a crash."""

# pyright: reportPrivateUsage=false, reportArgumentType=false

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.quorum.raft import journal as journal_module
from quorate.quorum.raft import watermark
from quorate.quorum.raft.journal import Journal, ReplaceFlush
from quorate.quorum.raft.journal_file import (
    FILE_NAME,
    Content,
    Entry,
    JournalDamagedError,
    SnapshotEnd,
    entry_added,
    truncated_from,
)
from quorate.quorum.raft.simulated_storage import SimulatedCrash, SimulatedStorage
from quorate.quorum.raft.storage import StorageFullError


def read_journal(
    storage: SimulatedStorage, snapshot_end: SnapshotEnd | None = None, *, retained: int = 0
) -> Journal:
    return Journal(storage, snapshot_end, rng=Random(7), retained_entries=retained)


def open_journal(
    storage: SimulatedStorage, snapshot_end: SnapshotEnd | None = None, *, retained: int = 0
) -> Journal:
    """Read it, and begin its new generation."""
    journal = read_journal(storage, snapshot_end, retained=retained)
    flush(journal)
    return journal


def flush(journal: Journal) -> None:
    work = journal.start_flush()
    assert work is not None
    work.run()
    journal.finish_flush(work)


def entry(index: int, term: int = 1) -> Entry:
    return Entry(b"command %d" % index, index, term)


def fill(journal: Journal, first: int, last: int, term: int = 1) -> None:
    for index in range(first, last + 1):
        journal.append(entry(index, term))


@pytest.fixture
def storage() -> SimulatedStorage:
    return SimulatedStorage(Random(1))


def test_a_new_journal_is_empty(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    assert (journal.entries, journal.term, journal.vote) == ([], 0, None)
    assert (journal.last_index, journal.start_index) == (0, 1)
    assert journal.entry_at(1) is None
    assert not journal.dirty
    assert journal.start_flush() is None


def test_entries_term_and_vote_survive_a_restart(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    journal.set_term(3, "2")
    fill(journal, 1, 5, term=3)
    assert journal.dirty
    flush(journal)
    again = open_journal(storage)
    assert again.entries == journal.entries
    assert (again.term, again.vote, again.last_index) == (3, "2", 5)
    assert again.entry_at(5) == entry(5, 3)
    assert again.entry_at(6) is None


def test_what_was_truncated_stays_away(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 5)
    flush(journal)
    journal.truncate_from(9)
    assert not journal.dirty
    journal.truncate_from(2)
    fill(journal, 3, 3, term=2)
    flush(journal)
    assert open_journal(storage).entries == [entry(1), entry(2), entry(3, 2)]


def test_a_cleared_journal_begins_anew(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 3)
    flush(journal)
    journal.clear()
    fill(journal, 1, 1, term=4)
    flush(journal)
    assert open_journal(storage).entries == [entry(1, 4)]


def test_trimming_writes_a_new_and_smaller_generation(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 100)
    flush(journal)
    before_bytes = journal.size_bytes
    journal.trim_to(90)
    assert isinstance(journal.start_flush(), ReplaceFlush)
    content = storage.read(FILE_NAME)
    assert content is not None
    assert len(content) == before_bytes  # the flush has not run yet
    again = open_journal(storage)
    again.trim_to(90)
    flush(again)
    assert again.size_bytes < before_bytes
    end = SnapshotEnd(entry(91), entry(92))
    assert [e.log_index for e in open_journal(storage, end).entries] == list(range(91, 101))


def test_slow_followers_find_the_retained_entries(storage: SimulatedStorage) -> None:
    journal = open_journal(storage, retained=20)
    fill(journal, 1, 100)
    journal.trim_to(10)
    assert journal.entries[0].log_index == 1
    journal.trim_to(90)
    assert journal.entries[0].log_index == 71


def test_a_journal_behind_its_snapshot_is_aligned_with_it(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 10)
    flush(journal)
    end = SnapshotEnd(entry(6), entry(7))
    aligned = open_journal(storage, end)
    assert aligned.entries == [entry(n) for n in range(6, 11)]
    assert aligned.start_index == 7


def test_a_snapshot_beyond_the_journal_takes_its_place(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 3)
    flush(journal)
    end = SnapshotEnd(entry(8), entry(9))
    assert open_journal(storage, end).entries == [*end]


def test_entries_of_another_term_than_the_snapshots_are_dropped(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 9)
    flush(journal)
    end = SnapshotEnd(entry(6, 2), entry(7, 2))
    assert open_journal(storage, end).entries == [*end]


def test_a_hole_between_snapshot_and_journal_is_refused(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 20)
    journal.trim_to(15)
    flush(journal)
    with pytest.raises(JournalDamagedError, match="hole"):
        open_journal(storage, SnapshotEnd(entry(3), entry(4)))
    with pytest.raises(JournalDamagedError, match="lacks the snapshot's end"):
        open_journal(storage, SnapshotEnd(entry(14), entry(15)))
    with pytest.raises(JournalDamagedError, match="there is no snapshot"):
        open_journal(storage)


def test_a_snapshot_without_a_journal_is_refused(storage: SimulatedStorage) -> None:
    with pytest.raises(JournalDamagedError, match="no journal"):
        open_journal(storage, SnapshotEnd(entry(1), entry(2)))


def test_a_watermark_without_a_journal_is_refused(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    journal.set_term(3, "2")
    flush(journal)
    lost = SimulatedStorage(Random(1))
    content = storage.read(watermark.FILE_NAME)
    assert content is not None
    lost.put(watermark.FILE_NAME, content)
    with pytest.raises(JournalDamagedError, match="there is a watermark, but no journal"):
        open_journal(lost)
    assert lost.read(FILE_NAME) is None, "nor is one begun"


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_first_start_that_is_cut_off_at_any_step_is_none_yet(power_cut: bool) -> None:
    measured = SimulatedStorage(Random(1))
    open_journal(measured)
    for fuse in range(1, measured.steps + 1):
        storage = SimulatedStorage(Random(fuse))
        storage.fuse = fuse
        with pytest.raises(SimulatedCrash):
            open_journal(storage)
        storage.crash(power_cut=power_cut)
        assert open_journal(storage).last_index == 0


@pytest.mark.parametrize("content", [b"", b"short", b"X" * 20, b"QRTJRNL1" + bytes(8) + b"crc?"])
def test_what_is_no_journal_is_refused(storage: SimulatedStorage, content: bytes) -> None:
    storage.put(FILE_NAME, content)
    with pytest.raises(JournalDamagedError, match="header"):
        open_journal(storage)


def test_records_that_cannot_follow_each_other_are_refused(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 2)
    journal._buffer.append(entry_added(entry(4)))
    flush(journal)
    with pytest.raises(JournalDamagedError, match="hole between 2 and 4"):
        open_journal(storage)


def test_records_of_the_future_are_refused(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    journal._buffer.append(Content(9, b""))  # type: ignore[arg-type]
    flush(journal)
    with pytest.raises(JournalDamagedError, match="unknown record type 9"):
        open_journal(storage)


def test_truncating_an_empty_log_is_replayed_too(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 2)
    journal.truncate_from(0)
    journal.clear()
    journal._buffer.append(truncated_from(1))
    flush(journal)
    assert open_journal(storage).entries == []


def test_a_full_disk_can_be_tried_again(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 50)
    work = journal.start_flush()
    assert work is not None
    storage.full = True
    for _ in range(5):
        with pytest.raises(StorageFullError):
            work.run()
    storage.full = False
    work.run()
    journal.finish_flush(work)
    assert open_journal(storage).entries == [entry(n) for n in range(1, 51)]


def test_damage_to_synced_entries_is_refused(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 5)
    flush(journal)
    middle = journal.size_bytes - 40
    fill(journal, 6, 10)
    flush(journal)
    storage.damage(FILE_NAME, middle, 0xEE)
    with pytest.raises(JournalDamagedError, match="although it was synced"):
        open_journal(storage)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(0), st.integers(0, 255))
def test_a_changed_byte_never_changes_an_entry(seed: int, place: int, byte: int) -> None:
    storage = SimulatedStorage(Random(seed))
    journal = open_journal(storage)
    written: list[Entry] = []
    for group in range(4):
        fill(journal, group * 5 + 1, group * 5 + 5)
        flush(journal)
        written = list(journal.entries)
    content = storage.read(FILE_NAME)
    assert content is not None
    storage.damage(FILE_NAME, place % len(content), byte)
    try:
        found = open_journal(storage).entries
    except JournalDamagedError:
        return
    assert found == written  # by chance the byte was the same, or its place means nothing


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(0))
def test_synced_bytes_that_are_gone_are_missed(seed: int, place: int) -> None:
    storage = SimulatedStorage(Random(seed))
    journal = open_journal(storage)
    for group in range(4):
        fill(journal, group * 5 + 1, group * 5 + 5)
        flush(journal)
    storage.cut_off(FILE_NAME, place % journal.size_bytes)
    with pytest.raises(JournalDamagedError):
        open_journal(storage)


def test_the_damaged_record_is_named(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 5)
    flush(journal)
    start = journal.size_bytes
    fill(journal, 6, 10)
    flush(journal)
    storage.damage(FILE_NAME, start + 30, 0xEE)
    with pytest.raises(JournalDamagedError, match=f"record 7, at byte {start}, behind entry 5 is"):
        open_journal(storage)


def test_without_its_watermark_a_journal_is_still_read(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 5)
    flush(journal)
    storage.put(watermark.FILE_NAME, b"")
    assert open_journal(storage).last_index == 5
    storage.put(watermark.FILE_NAME, bytes(1024))
    assert open_journal(storage).last_index == 5


def test_one_of_two_watermarks_is_enough(storage: SimulatedStorage) -> None:
    for damaged in (0, 512):
        journal = open_journal(storage)
        fill(journal, journal.last_index + 1, journal.last_index + 5)
        flush(journal)
        storage.sync(watermark.FILE_NAME)
        storage.damage(watermark.FILE_NAME, damaged + 3, 0xEE)
        assert len(watermark.read_watermarks(storage)) == 1
        assert open_journal(storage).last_index == journal.last_index


def test_retained_entries_are_limited_in_size_too(
    storage: SimulatedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "RETAINED_BYTES_MAX", 100)
    journal = open_journal(storage, retained=50)
    for index in range(1, 101):
        journal.append(Entry(b"x" * 30, index, 1))
    journal.trim_to(90)
    assert journal.entries[0].log_index == 88


def test_batches_are_as_large_as_may_be(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    assert journal.batch_from(1, 100) == []
    for index in range(1, 11):
        journal.append(Entry(b"x" * 30, index, 1))
    assert [e.log_index for e in journal.batch_from(3, 100)] == [3, 4, 5]
    assert [e.log_index for e in journal.batch_from(3, 10)] == [3]
    assert [e.log_index for e in journal.batch_from(9, 1000)] == [9, 10]
    assert journal.batch_from(11, 1000) == []
    assert journal.batch_from(0, 1000) == []


def test_whether_term_and_vote_are_durable_is_known(storage: SimulatedStorage) -> None:
    journal = open_journal(storage)
    fill(journal, 1, 1)
    assert not journal.term_dirty
    journal.set_term(1, "1")
    assert journal.term_dirty
    flush(journal)
    assert not journal.term_dirty


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_what_was_flushed_survives_a_crash_at_any_step(seed: int, power_cut: bool) -> None:
    rng = Random(seed)
    storage = SimulatedStorage(rng)
    durable: list[Entry] = []
    next_index, term = 1, 0
    for _ in range(6):
        storage.fuse = rng.randrange(1, 30)
        try:
            journal = open_journal(storage)
            assert journal.entries[: len(durable)] == durable
            assert journal.term >= term
            next_index = journal.last_index + 1
            for _ in range(20):
                journal.set_term(journal.term + 1, "1")
                size = rng.choice((1, 1, 3, 60))
                for _ in range(size):
                    journal.append(entry(next_index, journal.term))
                    next_index += 1
                flush(journal)
                durable, term = list(journal.entries), journal.term
        except SimulatedCrash:
            pass
        storage.crash(power_cut=power_cut)
    found = open_journal(storage)
    assert found.entries[: len(durable)] == durable
    assert found.term >= term


def test_a_full_disk_does_not_keep_what_was_synced_from_being_read(
    storage: SimulatedStorage,
) -> None:
    journal = open_journal(storage)
    journal.set_term(3, "2")
    fill(journal, 1, 5)
    flush(journal)
    storage.full = True
    again = read_journal(storage)
    assert (again.entries, again.term, again.vote) == (journal.entries, 3, "2")
    assert again.dirty, "a new generation is due"
    assert again.term_dirty, "what was read may be in the page cache only"
    work = again.start_flush()
    assert isinstance(work, ReplaceFlush)
    with pytest.raises(StorageFullError):
        work.run()
    storage.crash(power_cut=True)
    assert read_journal(storage).entries == journal.entries
    storage.full = False
    work.run()
    again.finish_flush(work)
    assert not again.term_dirty
    assert open_journal(storage).entries == journal.entries
