"""PySyncObj is what was audited, and stays in its box."""
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false

import hashlib
import re
from pathlib import Path
from random import Random

import pysyncobj.syncobj as library
import pytest

from quorate.quorum.raft import engine
from quorate.quorum.raft.engine import (
    AUDITED_VERSION,
    LIBRARY_SHA256,
    MODULE_NAMES,
    PRIVATE_NAMES,
    Engine,
    EngineError,
    Hooks,
    Timing,
)
from quorate.quorum.raft.journal import Entry, Journal, SnapshotEnd
from quorate.quorum.raft.simulated_storage import SimulatedStorage

TIMING = Timing(heartbeat_s=0.1, election_min_s=0.5, election_max_s=1.0, snapshot_entries=100)


class Owner:
    """Notes what the engine asks for."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, bytes]] = []
        self.snapshots: list[SnapshotEnd] = []

    def hooks(self) -> Hooks:
        return Hooks(
            lambda index, command: self.applied.append((index, command)), self.snapshots.append
        )


def flush(journal: Journal) -> None:
    work = journal.start_flush()
    if work is not None:
        work.run()
        journal.finish_flush(work)


def new_journal() -> Journal:
    return Journal(SimulatedStorage(Random(1)), None, rng=Random(2), retained_entries=0)


def new_engine(journal: Journal, owner: Owner) -> Engine:
    return Engine("1", journal, None, owner.hooks(), TIMING, Random(3))


def test_the_installed_pysyncobj_is_the_audited_one() -> None:
    source = Path(str(library.__file__)).read_bytes()
    assert hashlib.sha256(source).hexdigest() == LIBRARY_SHA256, (
        f"pysyncobj/syncobj.py is not that of {AUDITED_VERSION}: audit the change before you "
        f"trust {PRIVATE_NAMES} and {MODULE_NAMES}"
    )


def test_every_private_name_relied_on_exists() -> None:
    boxed = new_engine(new_journal(), Owner())
    missing = [n for n in PRIVATE_NAMES if not hasattr(boxed._library, n)]
    assert not missing
    assert not [n for n in MODULE_NAMES if not hasattr(library, n)]


def test_another_version_of_pysyncobj_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "VERSION", "0.3.18")
    with pytest.raises(ImportError, match=re.escape(AUDITED_VERSION)):
        engine._box_library()


def test_a_voter_that_is_alone_leads_at_its_first_tick() -> None:
    journal, owner = new_journal(), Owner()
    boxed = new_engine(journal, owner)
    assert not boxed.is_leader
    boxed.tick(5.0)
    assert boxed.is_leader
    assert boxed.term_committed()
    assert (boxed.term, boxed.commit_index, boxed.last_applied) == (1, 2, 2)
    assert (journal.term, journal.vote) == (1, "1")
    assert owner.applied == []


def test_commands_are_applied_in_order_with_their_index() -> None:
    journal, owner = new_journal(), Owner()
    boxed = new_engine(journal, owner)
    boxed.tick(0.0)
    assert boxed.append(b"a") == Entry(b"\0a", 3, 1)
    boxed.append(b"b")
    boxed.tick(0.1)
    assert owner.applied == [(3, b"a"), (4, b"b")]


def test_the_journal_is_trimmed_after_the_snapshot_is_durable_and_not_before() -> None:
    journal, owner = new_journal(), Owner()
    boxed = new_engine(journal, owner)
    boxed.tick(0.0)
    for _ in range(5):
        boxed.append(b"x")
    boxed.compact_soon()
    boxed.tick(0.1)
    assert [end.last.log_index for end in owner.snapshots] == [7]
    boxed.tick(0.2)
    assert journal.entries[0].log_index == 1
    boxed.snapshot_durable()
    boxed.tick(0.3)
    assert [e.log_index for e in journal.entries] == [6, 7]


def test_a_command_of_unknown_type_stops_the_node() -> None:
    journal = new_journal()
    boxed = new_engine(journal, Owner())
    boxed.tick(0.0)
    journal.append(Entry(b"\x03version", journal.last_index + 1, boxed.term))
    with pytest.raises(EngineError, match="unknown type"):
        boxed.tick(0.1)


def test_a_snapshot_that_does_not_load_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_quietly(self: object, *, clearJournal: bool) -> None:  # noqa: N803
        """PySyncObj only logs what goes wrong here."""

    monkeypatch.setattr(engine._Hardened, "_SyncObj__loadDumpFile", fail_quietly)
    end = SnapshotEnd(Entry(b"\1", 4, 1), Entry(b"\1", 5, 1))
    with pytest.raises(EngineError, match="did not load"):
        Engine("1", new_journal(), end, Owner().hooks(), TIMING, Random(3))


def test_what_was_cut_off_stays_cut_off() -> None:
    with pytest.raises(EngineError):
        library.pickle.dumps(1)
    with pytest.raises(EngineError):
        library.pickle.loads(b"")
    transport = engine._NoTransport(None, None, None)
    with pytest.raises(EngineError, match="nobody"):
        transport.send("2", {})


def test_pysyncobj_sees_our_journal_as_its_own() -> None:
    journal = new_journal()
    seen = engine._LibraryJournal(journal)
    for index in range(1, 6):
        seen.add(b"\1", index, 1)
    seen.deleteEntriesFrom(3)
    assert [e[1] for e in seen[0:9]] == [1, 2, 3]
    assert len(seen) == 3
    seen.deleteEntriesTo(1)
    assert seen[0] == Entry(b"\1", 2, 1)
    seen.clear()
    assert len(seen) == 0
    seen.setRaftCommitIndex(99)
    assert seen.getRaftCommitIndex() == 1
    seen.onOneSecondTimer()
