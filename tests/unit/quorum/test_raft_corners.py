"""What seldom happens to a Raft node: messages that come too late, or to the wrong one."""
# pyright: reportPrivateUsage=false

from quorate.quorum.raft.boxed import SILENT, HookedTransport, LibraryJournal
from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    ReadProbeAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    TimeoutNow,
    decode_message,
    encode_message,
)
from tests.unit.quorum.cluster import RULES, Puppet, key
from tests.unit.quorum.test_hardenings import (
    THREE,
    chunks,
    entries,
    follower,
    streaming,
    without,
)


def test_a_node_that_meets_itself_takes_no_notice() -> None:
    puppet = Puppet(THREE)
    puppet.rounds.peer_connected(puppet.key)
    puppet.wait(0.0)
    puppet.rounds.peer_disconnected(puppet.key)
    puppet.lead(2)
    assert set(puppet.rounds.progress) == {key(2), key(3)}


def test_what_an_older_leader_says_has_no_effect_even_where_terms_are_not_filtered() -> None:
    puppet = Puppet(THREE, without("term_filter", "nack"))
    puppet.hear(3, Append(2, 1, 0, 1, []))
    for late in (Append(1, 1, 0, 1, [Entry(b"\0late", 2, 1)]), Heartbeat(1, 2), TimeoutNow(1)):
        assert puppet.hear(2, late) == []
    assert (puppet.rounds.leader, puppet.rounds.last_index) == (key(3), 1)


def test_an_answer_to_what_was_never_sent_counts_for_nothing_where_terms_are_not_filtered() -> None:
    puppet = Puppet(THREE, without("term_filter"))
    puppet.lead(2)
    puppet.hear(2, AppendAnswer(1, 99, True, False, 0))
    assert puppet.rounds.progress[key(2)].match_index == 0


def test_answers_to_a_leader_mean_nothing_to_a_follower() -> None:
    puppet = follower(RULES)
    before = puppet.rounds.commit_index
    assert puppet.hear(2, ReadProbeAnswer(1, 1), SnapshotAnswer(1, 5, 1, 0)) == []
    assert puppet.rounds.commit_index == before


def test_a_transfer_that_waits_for_its_target_ends_at_its_deadline() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.rounds.transfer_leadership(key(3), puppet.now_s + 0.001)
    assert puppet.rounds.next_deadline_s <= puppet.now_s + 0.001


def test_entries_of_several_terms_travel_in_one_append() -> None:
    entries = [Entry(b"a", 2, 1), Entry(b"b", 3, 1), Entry(b"c", 4, 3)]
    append = Append(3, 1, 0, 1, entries)
    assert decode_message(encode_message(append)) == append


def test_nothing_is_sent_to_the_voter_that_never_answers() -> None:
    puppet = Puppet(THREE)
    transport = HookedTransport(puppet.rounds._core._hooks(), puppet.rounds._core.journal)
    assert transport.send(SILENT, {"type": "append_entries"})
    assert puppet.wait(0.0) == []


def test_entries_that_are_not_there_are_not_dropped() -> None:
    core = follower(RULES).rounds._core
    before = list(core.journal.entries)
    LibraryJournal(core.journal, core._hooks()).deleteEntriesFrom(len(before))
    assert list(core.journal.entries) == before


def test_an_append_of_what_a_snapshot_covers_is_confirmed_and_changes_nothing() -> None:
    puppet = follower()
    puppet.hear(2, *chunks(50, 1, b"state"))
    before = puppet.log
    (answer,) = puppet.hear(2, Append(1, 20, 1, 50, entries(21, 30, 1)))
    assert answer == AppendAnswer(1, 31, True, False, 0)
    assert puppet.log == before


def test_a_stream_begins_with_the_newest_snapshot_though_an_older_one_is_under_way() -> None:
    puppet = streaming(1000)
    puppet.hear(2, AppendAnswer(1, 2, True, False, 0))
    puppet.wait(0.11)
    streams = puppet.rounds._core._streams._streams
    older = streams[key(2)].head.end.last.log_index
    for n in range(8):
        puppet.propose(b"%d" % n)
        puppet.acknowledged(3, puppet.rounds.last_index)
    puppet.rounds.peer_connected(key(9))
    puppet.wait(0.0)
    for _ in range(3):
        puppet.hear(9, AppendAnswer(1, 2, False, True, 0))
        puppet.wait(0.11)
    assert streams[key(2)].head.end.last.log_index == older
    assert streams[key(9)].head.end.last.log_index == puppet.rounds.snapshot_index > older


def test_a_stream_to_who_has_gone_is_forgotten_and_begins_anew_when_that_one_is_back() -> None:
    puppet = streaming(1000)
    puppet.hear(2, AppendAnswer(1, 2, True, False, 0))
    puppet.wait(0.11)
    streams = puppet.rounds._core._streams._streams
    assert key(2) in streams
    puppet.rounds.peer_disconnected(key(2))
    puppet.wait(0.11)
    assert key(2) not in streams
    puppet.rounds.peer_connected(key(2))
    sent = [message for _ in range(3) for message in puppet.wait(0.11)]
    assert any(isinstance(message, SnapshotChunk) for message in sent)
