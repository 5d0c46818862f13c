"""PySyncObj is what was audited, and stays in its box."""
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false

import hashlib
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pysyncobj.syncobj as library
import pytest

from quorate.quorum.raft import boxed as box
from quorate.quorum.raft.boxed import (
    AUDITED_VERSION,
    LIBRARY_SHA256,
    MODULE_NAMES,
    PRIVATE_NAMES,
    Hooks,
)
from quorate.quorum.raft.engine import REGULAR, Engine, EngineError
from quorate.quorum.raft.journal import Journal
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.messages import Append, AppendAnswer, RaftMessage, VoteRequest
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.timing import Timing
from tests.unit.quorum.cluster import key

if TYPE_CHECKING:
    from quorate.quorum.raft.voters import ReplicaKey

TIMING = Timing(heartbeat_s=0.1, election_min_s=0.5, election_max_s=1.0, snapshot_entries=100)


class Owner:
    """Notes what the engine asks for."""

    def __init__(self) -> None:
        self.applied: list[Entry] = []
        self.snapshots: list[SnapshotEnd] = []
        self.sent: list[tuple[ReplicaKey, RaftMessage]] = []
        self.needing_snapshot: list[ReplicaKey] = []

    def hooks(self) -> Hooks:
        return Hooks(
            apply=self.applied.append,
            take_snapshot=self.snapshots.append,
            send=lambda target, message: self.sent.append((target, message)),
            send_snapshot=self.needing_snapshot.append,
            appended=lambda _entry: None,
            truncated=lambda _index: None,
        )


def flush(journal: Journal) -> None:
    work = journal.start_flush()
    if work is not None:
        work.run()
        journal.finish_flush(work)


def new_journal() -> Journal:
    return Journal(SimulatedStorage(Random(1)), None, rng=Random(2), retained_entries=0)


def new_engine(journal: Journal, owner: Owner) -> Engine:
    return Engine(key(1), journal, None, owner.hooks(), TIMING, Random(3))


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
    monkeypatch.setattr(box, "VERSION", "0.3.18")
    with pytest.raises(ImportError, match=re.escape(AUDITED_VERSION)):
        box.box_library()


def leading(journal: Journal, owner: Owner) -> Engine:
    boxed = new_engine(journal, owner)
    boxed.enter(5.0)
    boxed.elect_at_once()
    boxed.tick()
    return boxed


def test_a_voter_that_is_alone_leads_as_soon_as_it_stands_for_election() -> None:
    journal, owner = new_journal(), Owner()
    boxed = leading(journal, owner)
    assert boxed.is_leader
    assert boxed.leader == key(1)
    assert boxed.term_committed()
    assert (boxed.term, boxed.commit_index, boxed.last_applied) == (1, 2, 2)
    assert (journal.term, journal.vote) == (1, str(key(1)))
    assert owner.applied == [Entry(b"\1", 2, 1)]


def test_commands_are_applied_in_order() -> None:
    journal, owner = new_journal(), Owner()
    boxed = leading(journal, owner)
    assert boxed.append(REGULAR, b"a") == Entry(b"\0a", 3, 1)
    boxed.append(REGULAR, b"b")
    boxed.tick()
    assert owner.applied[1:] == [Entry(b"\0a", 3, 1), Entry(b"\0b", 4, 1)]


def test_the_journal_is_trimmed_after_the_snapshot_is_durable_and_not_before() -> None:
    journal, owner = new_journal(), Owner()
    boxed = leading(journal, owner)
    for _ in range(5):
        boxed.append(REGULAR, b"x")
    boxed.compact_soon()
    boxed.tick()
    assert [end.last.log_index for end in owner.snapshots] == [7]
    boxed.tick()
    assert journal.entries[0].log_index == 1
    boxed.snapshot_durable()
    boxed.tick()
    assert [e.log_index for e in journal.entries] == [6, 7]


def test_a_command_of_unknown_type_stops_the_node() -> None:
    journal = new_journal()
    boxed = leading(journal, Owner())
    journal.append(Entry(b"\x03version", journal.last_index + 1, boxed.term))
    with pytest.raises(EngineError, match="unknown type"):
        boxed.tick()


def test_a_leader_that_does_not_vote_does_not_count_itself() -> None:
    boxed = leading(new_journal(), Owner())
    boxed.set_voters([key(2), key(3)])
    boxed.append(REGULAR, b"a")
    boxed.receive_answer(key(2), AppendAnswer(1, 4, success=True, reset=False, rejected_index=0))
    boxed.tick()
    assert boxed.commit_index == 2
    boxed.receive_answer(key(3), AppendAnswer(1, 4, success=True, reset=False, rejected_index=0))
    boxed.tick()
    assert boxed.commit_index == 3


def test_a_leader_that_does_not_hear_a_majority_leads_no_more() -> None:
    boxed = leading(new_journal(), Owner())
    boxed.set_voters([key(1), key(2), key(3)])
    boxed.enter(5.9)
    boxed.tick()
    assert boxed.is_leader
    boxed.receive_answer(key(3), AppendAnswer(1, 3, success=True, reset=False, rejected_index=0))
    boxed.enter(6.1)
    boxed.tick()
    assert boxed.is_leader
    boxed.enter(7.0)
    boxed.tick()
    assert not boxed.is_leader
    assert boxed.leader is None


def test_a_newer_term_is_adopted_without_a_vote() -> None:
    journal = new_journal()
    boxed = leading(journal, Owner())
    boxed.adopt_term(key(2), 7)
    assert not boxed.is_leader
    assert (journal.term, journal.vote) == (7, None)


def test_a_follower_whose_entries_are_gone_needs_a_snapshot() -> None:
    journal, owner = new_journal(), Owner()
    boxed = leading(journal, owner)
    boxed.set_voters([key(1), key(2)])
    boxed.connected(key(2))
    boxed.set_next_index(key(2), 1)
    boxed.send_appends()
    assert owner.needing_snapshot == [key(2)]
    boxed.set_next_index(key(2), 2)
    boxed.send_appends()
    assert owner.sent[-1] == (key(2), Append(1, 1, 0, 2, [Entry(b"\1", 2, 1)]))


def test_observers_get_the_log_and_are_not_counted() -> None:
    boxed = leading(new_journal(), Owner())
    boxed.connected(key(9))
    assert list(boxed.followers) == [key(9)]
    boxed.append(REGULAR, b"a")
    boxed.tick()
    assert boxed.commit_index == 3
    boxed.disconnected(key(9))
    assert list(boxed.followers) == []
    assert boxed.match_index(key(9)) is None


def test_a_vote_is_given_once_in_a_term() -> None:
    journal, owner = new_journal(), Owner()
    boxed = new_engine(journal, owner)
    boxed.receive_vote_request(key(2), VoteRequest(3, 1, 0))
    assert (journal.term, journal.vote) == (3, str(key(2)))
    assert len(owner.sent) == 1
    boxed.receive_vote_request(key(3), VoteRequest(3, 1, 0))
    assert len(owner.sent) == 1


def test_a_snapshot_that_does_not_load_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_quietly(self: object, *, clearJournal: bool) -> None:  # noqa: N803
        """PySyncObj only logs what goes wrong here."""

    monkeypatch.setattr(box.Hardened, "_SyncObj__loadDumpFile", fail_quietly)
    end = SnapshotEnd(Entry(b"\1", 4, 1), Entry(b"\1", 5, 1))
    with pytest.raises(EngineError, match="did not load"):
        Engine(key(1), new_journal(), end, Owner().hooks(), TIMING, Random(3))


def test_what_was_cut_off_stays_cut_off() -> None:
    with pytest.raises(EngineError):
        library.pickle.dumps(1)
    with pytest.raises(EngineError):
        library.pickle.loads(b"")
    transport = box.HookedTransport(Owner().hooks(), new_journal())
    with pytest.raises(EngineError, match="apply_command"):
        transport.send(box.Peer(key(2)), {"type": "apply_command"})
    with pytest.raises(EngineError, match="pieces"):
        transport.send(box.Peer(key(2)), {"type": "append_entries", "transmission": "start"})


def test_pysyncobj_sees_our_journal_as_its_own() -> None:
    journal = new_journal()
    seen = box.LibraryJournal(journal, Owner().hooks())
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
