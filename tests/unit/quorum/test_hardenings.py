"""What is unsafe in PySyncObj, one scripted scenario each; most of them show the harm, too.

The numbers D01 to D19 are those of ``docs/decisions/0012-boxing-pysyncobj.md``.
"""
# pyright: reportPrivateUsage=false

import zlib
from dataclasses import replace
from random import Random

import pytest

from quorate.quorum.raft.engine import EngineError
from quorate.quorum.raft.hardening import ALL
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    NewerTerm,
    PreVote,
    PreVoteRequest,
    RaftMessage,
    ReadProbe,
    SnapshotAnswer,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    VoteRequest,
)
from quorate.quorum.raft.outcomes import ChangeRefused, Refusal, Unknown
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.simulated_storage import SimulatedCrash, SimulatedStorage
from quorate.quorum.raft.snapshots import Configuration, Snapshot, encode_snapshot
from quorate.quorum.raft.storage import StorageFullError
from quorate.quorum.raft.timing import Timing
from tests.unit.quorum.cluster import RULES, TIMING, Cluster, Node, Puppet, key, voters

FIVE = voters(1, 2, 3, 4, 5)
THREE = voters(1, 2, 3)


def without(*names: str, timing: Timing = TIMING) -> Rules:
    return Rules(timing, replace(ALL, **dict.fromkeys(names, False)))


def entries(first: int, last: int, term: int) -> list[Entry]:
    return [Entry(b"\0%d" % index, index, term) for index in range(first, last + 1)]


def follower(rules: Rules = RULES, last: int = 10) -> Puppet:
    """Return a follower of node 2 in term 1, with entries up to 10 of which 5 are committed."""
    puppet = Puppet(THREE, rules)
    puppet.hear(2, Append(1, 1, 0, 5, entries(2, last, 1)))
    assert (puppet.rounds.last_index, puppet.rounds.commit_index) == (last, 5)
    return puppet


# --- replication


def committed_on_two_of_five(rules: Rules) -> bool:
    """D01: an acknowledgement of term 1 is counted in term 3, for another entry of that index."""
    puppet = Puppet(FIVE, rules)
    puppet.lead(2, 3)
    puppet.propose(b"of term 1")
    index = puppet.rounds.last_index
    # The acknowledgement of node 2 is on its way for long. Node 5 leads in term 2, and truncates.
    puppet.hear(5, Append(2, 1, 0, 1, entries(2, 3, 2)))
    puppet.wait(1.1)
    puppet.now_s += 1.1
    puppet.lead(3, 4)
    assert puppet.rounds.term == 3
    while puppet.rounds.last_index < index + 1:
        puppet.propose(b"of term 3")
    last = puppet.rounds.last_index
    puppet.acknowledged(2, last, term=1)
    puppet.acknowledged(3, last)
    return puppet.rounds.commit_index == last


def test_d01_acknowledgements_count_in_their_own_term_only() -> None:
    assert not committed_on_two_of_five(RULES)
    assert committed_on_two_of_five(without("term_filter"))


def test_d02_entries_that_match_are_never_truncated() -> None:
    again = Append(1, 1, 0, 5, entries(2, 4, 1))
    hardened = follower()
    assert hardened.hear(2, again) == [AppendAnswer(1, 5, True, False, 0)]
    assert hardened.rounds.last_index == 10
    stock = follower(without("reconcile"))
    stock.hear(2, again)
    assert stock.rounds.last_index < 10


def test_entries_that_conflict_are_truncated_from_the_conflict_on() -> None:
    puppet = follower()
    puppet.hear(3, Append(2, 5, 1, 5, [*entries(6, 7, 1), *entries(8, 8, 2)]))
    assert puppet.log[-3:] == [(6, 1), (7, 1), (8, 2)]


def test_an_append_behind_a_hole_is_rejected_with_where_to_go_on() -> None:
    puppet = follower()
    (answer,) = puppet.hear(2, Append(1, 20, 1, 5, entries(21, 21, 1)))
    assert answer == AppendAnswer(1, 11, False, True, 20)
    (answer,) = puppet.hear(3, Append(3, 9, 2, 5, entries(10, 10, 3)))
    assert answer == AppendAnswer(3, 6, False, True, 9)
    assert puppet.rounds.last_index == 10


def test_a_leader_that_contradicts_what_is_committed_stops_the_node() -> None:
    with pytest.raises(EngineError, match="contradicts"):
        follower().hear(3, Append(2, 2, 1, 5, entries(3, 3, 2)))
    with pytest.raises(EngineError, match="contradicts"):
        follower().hear(3, Append(2, 4, 2, 5, []))


def test_d03_a_commit_index_that_comes_with_a_snapshot_commits_nothing() -> None:
    hardened = follower()
    hardened.hear(3, Heartbeat(2, 10))
    assert hardened.rounds.commit_index == 5
    stock = follower(without("snap_commit_guard"))
    stock.hear(3, Heartbeat(2, 10))
    assert stock.rounds.commit_index == 10


def test_two_leaders_in_one_term_stop_the_node() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    with pytest.raises(EngineError, match="two leaders"):
        puppet.hear(3, Append(1, 1, 0, 1, []))


def test_a_follower_that_acknowledges_what_was_never_sent_stops_the_leader() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    with pytest.raises(EngineError, match="never sent"):
        puppet.acknowledged(2, 99)


def appends_after_rejections(rules: Rules) -> int:
    puppet = Puppet(THREE, rules)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    for n in range(20):
        puppet.propose(b"%d" % n)
    sent: list[RaftMessage] = []
    for rejected in range(10, 20):
        sent += puppet.hear(2, AppendAnswer(1, 4, False, True, rejected))
    return sum(len(m.entries) for m in sent if isinstance(m, Append))


def test_rejections_do_not_multiply_what_is_sent() -> None:
    assert appends_after_rejections(RULES) <= 20
    assert appends_after_rejections(without("probe_mode")) > 100


def test_followers_hear_of_commits_soon() -> None:
    def heard(rules: Rules) -> int:
        puppet = Puppet(THREE, rules)
        puppet.lead(2)
        puppet.acknowledged(2, 3)
        puppet.propose(b"a")
        puppet.hear(2, AppendAnswer(1, 5, True, False, 0))
        told = [m for m in puppet.wait(0.01) if isinstance(m, Append)]
        return max([m.commit_index for m in told], default=0)

    assert heard(RULES) == 4
    assert heard(without("eager_commit")) == 0


def test_a_commit_has_no_message_of_its_own_if_the_next_entries_tell_of_it() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.wait(0.01)
    puppet.propose(b"a")
    assert not puppet.hear(2, AppendAnswer(1, 5, True, False, 0))
    puppet.rounds.propose(b"b", puppet.now_s + 1)
    assert [m.commit_index for m in puppet.wait(0.001) if isinstance(m, Append)] == [4]
    assert not puppet.wait(0.01)


# --- elections


def leads_with_the_votes_of_two(rules: Rules) -> bool:
    """D04: a vote is counted twice, because the message came twice."""
    puppet = Puppet(FIVE, rules)
    pre_vote = next(m for m in puppet.wait(1.1) if isinstance(m, PreVoteRequest))
    for supporter in (2, 3):
        puppet.hear(supporter, PreVote(0, pre_vote.number))
    assert puppet.rounds.term == 1
    puppet.hear(2, Vote(1), Vote(1))
    return puppet.rounds.leader == key(1)


def test_d04_a_vote_counts_once() -> None:
    assert not leads_with_the_votes_of_two(RULES)
    assert leads_with_the_votes_of_two(without("vote_dedupe"))


def test_votes_of_strangers_and_of_other_terms_do_not_count() -> None:
    puppet = Puppet(FIVE)
    pre_vote = next(m for m in puppet.wait(1.1) if isinstance(m, PreVoteRequest))
    for supporter in (2, 3):
        puppet.hear(supporter, PreVote(0, pre_vote.number))
    puppet.hear(8, Vote(1))
    puppet.hear(9, Vote(1))
    puppet.hear(4, Vote(0))
    assert puppet.rounds.leader is None


def test_pre_votes_of_another_round_do_not_count() -> None:
    puppet = Puppet(THREE)
    pre_vote = next(m for m in puppet.wait(1.1) if isinstance(m, PreVoteRequest))
    puppet.hear(2, PreVote(0, pre_vote.number - 1))
    puppet.hear(9, PreVote(0, pre_vote.number))
    assert puppet.rounds.term == 0
    puppet.hear(2, PreVote(0, pre_vote.number))
    assert puppet.rounds.term == 1


def term_after_a_partition(rules: Rules) -> int:
    cluster = Cluster(THREE, rules)
    leader = cluster.elect()
    alone = cluster.followers()[0]
    rest = [k for k in cluster.nodes if k != alone.key]
    cluster.cut([alone.key], rest)
    cluster.run(10)
    cluster.heal()
    cluster.run(2)
    assert cluster.leader.key == leader.key or rules != RULES
    return cluster.leader.rounds.term


def test_who_was_cut_off_comes_back_without_deposing_anybody() -> None:
    assert term_after_a_partition(RULES) == 1
    assert term_after_a_partition(without("prevote")) > 2


def test_who_heard_a_leader_lately_encourages_nobody() -> None:
    puppet = follower()
    assert puppet.hear(3, PreVoteRequest(1, 7, 99, 1)) == []
    puppet.now_s += 0.51
    assert PreVote(1, 7) in puppet.hear(3, PreVoteRequest(1, 7, 99, 1))


def test_nobody_encourages_whose_log_is_better() -> None:
    puppet = follower()
    puppet.now_s += 0.45
    puppet.hear(2, VoteRequest(2, 0, 0))
    puppet.now_s += 0.1
    answers = puppet.hear(3, PreVoteRequest(2, 7, 9, 1), PreVoteRequest(2, 8, 99, 0))
    assert not [m for m in answers if isinstance(m, PreVote)]


def test_d19_a_deposed_leader_is_told() -> None:
    stale: list[RaftMessage] = [
        Append(1, 1, 0, 1, []),
        Heartbeat(1, 1),
        VoteRequest(1, 99, 1),
        PreVoteRequest(1, 1, 99, 1),
        ReadProbe(1, 5),
        SnapshotChunk(1, 50, 1, 10, 0, 0, b"x"),
    ]
    for message in stale:
        puppet = Puppet(THREE)
        puppet.hear(3, Append(2, 1, 0, 1, []))
        assert puppet.hear(2, message) == [NewerTerm(2)]
        silent = Puppet(THREE, without("nack"))
        silent.hear(3, Append(2, 1, 0, 1, []))
        assert silent.hear(2, message) == []


def test_a_newer_term_is_adopted_from_any_message() -> None:
    for message in (NewerTerm(5), PreVoteRequest(5, 1, 0, 0), ReadProbe(5, 1), TimeoutNow(5)):
        puppet = Puppet(THREE)
        puppet.lead(2)
        puppet.hear(3, message)
        assert puppet.rounds.term == 5
        assert puppet.rounds.leader is None


# --- the disk


def test_d05_a_crash_between_snapshot_and_trim_costs_nothing() -> None:
    def last_index_after(rules: Rules) -> int:
        storage = SimulatedStorage(Random(1))
        puppet = Puppet(THREE, rules, storage)
        puppet.hear(2, Append(1, 1, 0, 8, entries(2, 10, 1)))
        puppet.rounds._core.engine.compact_soon()
        puppet.rounds.start(puppet.now_s)
        snapshot = puppet.rounds.start_snapshot()
        assert snapshot is not None
        snapshot.run()
        storage.crash(power_cut=True)
        again = Puppet(THREE, rules, storage)
        assert again.tape.commands == [b"%d" % n for n in range(2, 9)]
        return again.rounds.last_index

    assert last_index_after(RULES) == 10
    assert last_index_after(without("align")) < 10


def test_d07_nothing_is_promised_before_it_is_durable() -> None:
    def leaving_before_the_flush(rules: Rules) -> list[RaftMessage]:
        puppet = Puppet(THREE, rules)
        puppet.rounds.receive(key(2), VoteRequest(3, 9, 9))
        puppet.rounds.receive(key(2), Append(3, 1, 0, 1, entries(2, 2, 3)))
        early = [m for _, m in puppet.rounds.start(puppet.now_s)]
        while flush := puppet.rounds.start_flush():
            flush.run()
            puppet.rounds.finish_flush(flush)
        late = [m for _, m in puppet.rounds.finish()]
        assert {type(m) for m in [*early, *late]} == {Vote, AppendAnswer}
        return early

    assert leaving_before_the_flush(RULES) == []
    assert len(leaving_before_the_flush(without("barrier"))) == 2


def test_what_a_killed_process_had_not_synced_is_synced_before_it_is_acknowledged() -> None:
    for seed in range(9):
        storage = SimulatedStorage(Random(seed))
        puppet = Puppet(THREE, RULES, storage)
        storage.fuse = 2  # between writing and syncing
        with pytest.raises(SimulatedCrash):
            puppet.hear(2, Append(1, 1, 0, 1, entries(2, 4, 1)))
        storage.crash(power_cut=False)
        again = Node(key(1), THREE, storage, RULES)
        assert again.rounds.last_index == 4
        again.rounds.receive(key(2), Append(1, 4, 1, 1, []))
        acknowledged = again.round(7.0)
        storage.crash(power_cut=True)
        assert acknowledged == [(key(2), AppendAnswer(1, 5, True, False, 0))]
        assert Node(key(1), THREE, storage, RULES).rounds.last_index == 4


def test_on_a_full_disk_a_start_says_nothing_until_there_is_space() -> None:
    storage = SimulatedStorage(Random(1))
    Puppet(THREE, RULES, storage).hear(2, Append(1, 1, 0, 1, entries(2, 4, 1)))
    storage.full = True
    again = Node(key(1), THREE, storage, RULES)
    again.rounds.receive(key(2), Append(1, 4, 1, 4, []))
    again.rounds.receive(key(3), VoteRequest(2, 9, 9))
    assert again.rounds.start(7.0) == []
    flush = again.rounds.start_flush()
    assert flush is not None
    with pytest.raises(StorageFullError):
        flush.run()
    assert again.rounds.storage_full() == []
    storage.full = False
    flush.run()
    again.rounds.finish_flush(flush)
    assert {type(message) for _, message in again.rounds.finish()} == {AppendAnswer, Vote}


def test_a_leaders_appends_leave_before_its_own_flush_but_not_before_its_term_is_durable() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.rounds.propose(b"a", puppet.now_s + 9)
    early = [m for t, m in puppet.rounds.start(puppet.now_s) if t == key(2)]
    assert [type(m) for m in early] == [Append]
    puppet.rounds._core.journal._term_dirty = True
    puppet.rounds._core.engine.send_appends()
    assert puppet.rounds._leaving_early() == []


# --- snapshots


def chunks(index: int, term: int, state: bytes, *, damaged: bool = False) -> list[SnapshotChunk]:
    end = SnapshotEnd(Entry(b"\1", index - 1, term), Entry(b"\1", index, term))
    data = encode_snapshot(Snapshot(end, Configuration(0, THREE), state))
    if damaged:
        data = data[:-1] + bytes([data[-1] ^ 1])
    size = 64 * 1024
    return [
        SnapshotChunk(
            term, index, term, len(data), at, zlib.crc32(data[at : at + size]), data[at : at + size]
        )
        for at in range(0, len(data), size)
    ]


def test_a_snapshot_replaces_a_log_that_is_too_old() -> None:
    puppet = follower()
    state = b"\n".join(b"%d" % n for n in range(2, 50))
    (answer,) = puppet.hear(2, *chunks(50, 1, state))
    assert answer == AppendAnswer(1, 51, True, False, 0)
    assert puppet.log == [(49, 1), (50, 1)]
    assert puppet.tape.commands == state.split(b"\n")
    assert (puppet.rounds.commit_index, puppet.rounds.snapshot_index) == (50, 50)
    assert puppet.rounds.snapshot_bytes > len(state)
    again = Puppet(THREE, RULES, puppet.storage)
    assert again.log == puppet.log
    assert again.tape.commands == puppet.tape.commands


def test_d09_a_snapshot_never_rolls_back() -> None:
    hardened = follower()
    (answer,) = hardened.hear(2, *chunks(4, 1, b"old"))
    assert answer == AppendAnswer(1, 5, True, False, 0)
    assert (hardened.rounds.last_index, hardened.rounds.applied_index) == (10, 5)
    stock = follower(without("snap_guard"))
    stock.hear(2, *chunks(4, 1, b"old"))
    assert stock.rounds.last_index == 4


def test_a_snapshot_that_the_log_holds_already_commits_it() -> None:
    puppet = follower()
    puppet.hear(2, *chunks(8, 1, b"same"))
    assert (puppet.rounds.last_index, puppet.rounds.commit_index) == (10, 8)


def test_d10_a_damaged_snapshot_is_not_acknowledged_but_asked_for_again() -> None:
    puppet = follower()
    assert puppet.hear(2, *chunks(50, 1, b"state", damaged=True)) == [SnapshotAnswer(1, 50, 1, 0)]
    assert puppet.rounds.last_index == 10
    first = chunks(50, 1, b"state")[0]
    assert puppet.hear(2, replace(first, crc=first.crc ^ 1)) == []
    assert puppet.hear(2, first) == [AppendAnswer(1, 51, True, False, 0)]


def test_a_snapshot_that_is_not_what_it_was_called_is_not_installed() -> None:
    puppet = follower()
    lied = [replace(c, last_index=60) for c in chunks(50, 1, b"state")]
    assert puppet.hear(2, *lied) == [SnapshotAnswer(1, 60, 1, 0)]


def test_d11_snapshots_of_two_leaders_are_not_mixed() -> None:
    puppet = follower()
    of_two = chunks(50, 1, b"2" * 100_000)
    of_three = [replace(c, term=2) for c in chunks(50, 1, b"3" * 100_000)]
    puppet.hear(2, of_two[0])
    assert puppet.hear(3, of_three[1]) == [SnapshotAnswer(2, 50, 1, 0)]
    answers = puppet.hear(3, *of_three)
    assert answers[-1] == AppendAnswer(2, 51, True, False, 0)
    assert puppet.tape.commands == [b"3" * 100_000]


def test_a_snapshot_that_is_too_large_is_ignored() -> None:
    puppet = follower()
    first = chunks(50, 1, b"state")[0]
    assert puppet.hear(2, replace(first, total_bytes=2**40)) == []


def streaming(state_bytes: int) -> Puppet:
    """Return a leader whose log begins behind what node 2 has."""
    timing = replace(TIMING, snapshot_entries=4)
    puppet = Puppet(THREE, Rules(timing))
    puppet.lead(3)
    puppet.acknowledged(3, 3)
    for n in range(8):
        puppet.propose(b"%d" % n * state_bytes)
        puppet.acknowledged(3, puppet.rounds.last_index)
    assert puppet.log[0][0] > 4
    return puppet


def test_d17_a_leader_does_not_flood_while_a_snapshot_is_on_its_way() -> None:
    puppet = streaming(300_000)
    sent = puppet.hear(2, AppendAnswer(1, 2, True, False, 0))
    sent += puppet.wait(0.11)
    sent += [m for _ in range(50) for m in puppet.wait(0.001)]
    streamed = [m for m in sent if isinstance(m, SnapshotChunk)]
    assert 1 <= len(streamed) <= 8
    assert len(sent) < 20


def test_a_snapshot_is_resumed_where_it_was_interrupted() -> None:
    puppet = streaming(300_000)
    sent = puppet.hear(2, AppendAnswer(1, 2, True, False, 0))
    first = next(m for m in [*sent, *puppet.wait(0.11)] if isinstance(m, SnapshotChunk))
    about = first.last_index, first.last_term
    assert puppet.hear(2, SnapshotAnswer(1, 1, 1, 5)) == []
    more = puppet.hear(2, SnapshotAnswer(1, *about, 3 * 64 * 1024))
    assert next(m.position for m in more if isinstance(m, SnapshotChunk)) == 8 * 64 * 1024
    again = [m for m in puppet.wait(0.31) if isinstance(m, SnapshotChunk)]
    assert again[0].position == 3 * 64 * 1024
    puppet.hear(2, SnapshotAnswer(1, *about, 0))
    again = [m for m in puppet.wait(0.31) if isinstance(m, SnapshotChunk)]
    assert again[0].position == 0
    puppet.acknowledged(2, first.last_index)
    assert not [m for m in puppet.wait(0.5) if isinstance(m, SnapshotChunk)]


def test_d18_what_a_snapshot_covers_is_unknown_to_who_asked() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    promise = puppet.propose(b"a")
    assert not promise.resolved
    puppet.hear(3, *[replace(c, term=2) for c in chunks(50, 1, b"state")])
    assert promise.value == Unknown()


# --- membership


def test_d12_one_change_at_a_time() -> None:
    def log_grows_by(rules: Rules) -> tuple[int, object]:
        puppet = Puppet(FIVE, rules)
        puppet.lead(2, 3)
        puppet.acknowledged(2, 3)
        puppet.acknowledged(3, 3)
        before = puppet.rounds.last_index
        puppet.rounds.remove_voter(key(4), puppet.now_s + 1)
        second = puppet.rounds.remove_voter(key(5), puppet.now_s + 1)
        puppet.round(puppet.now_s)
        return puppet.rounds.last_index - before, second

    grown, second = log_grows_by(RULES)
    assert grown == 1
    outcome = second.value  # type: ignore[attr-defined]
    assert isinstance(outcome, ChangeRefused)
    assert outcome.refusal == Refusal.CHANGE_IN_FLIGHT
    assert log_grows_by(without("cfg_guard"))[0] == 2


def test_d13_who_votes_is_found_in_the_log_at_a_start() -> None:
    storage = SimulatedStorage(Random(1))
    puppet = Puppet(THREE, RULES, storage)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.rounds.remove_voter(key(3), puppet.now_s + 1)
    puppet.round(puppet.now_s)
    assert puppet.rounds.voters == voters(1, 2)
    again = Puppet(THREE, RULES, storage)
    assert again.rounds.commit_index < again.rounds.last_index
    assert again.rounds.voters == voters(1, 2)
    # Another leader, which never heard of it, takes its place in the log.
    again.hear(2, Append(9, 1, 0, 1, entries(2, 2, 9)))
    assert again.rounds.voters == THREE


def test_d22_messages_before_the_first_round_wait_for_it() -> None:
    node = Node(key(1), THREE, SimulatedStorage(Random(1)), RULES)
    node.rounds.receive(key(2), Append(1, 1, 0, 1, entries(2, 3, 1)))
    assert node.round(7.0) == [(key(2), AppendAnswer(1, 4, True, False, 0))]


def test_a_leader_neither_encourages_others_nor_confirms_itself() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.now_s += 0.6
    assert not [m for m in puppet.hear(3, PreVoteRequest(1, 1, 99, 1)) if isinstance(m, PreVote)]


def test_rejections_that_were_overtaken_change_nothing() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.propose(b"a")
    puppet.hear(2, AppendAnswer(1, 2, False, True, 2))  # about what matched since
    assert puppet.rounds._core.engine.next_index(key(2)) == 5
    puppet.hear(3, AppendAnswer(1, 2, False, True, 0))  # it is not said which
    puppet.hear(3, AppendAnswer(1, 2, False, True, 77))  # not what was asked last
    puppet.hear(3, AppendAnswer(1, 0, True, False, 0))  # nonsense
    assert puppet.rounds._core.engine.next_index(key(3)) == 2


def test_two_followers_get_the_same_snapshot_and_answers_of_strangers_are_ignored() -> None:
    puppet = streaming(1000)
    about_two = puppet.hear(2, AppendAnswer(1, 2, True, False, 0))
    chunk = next(m for m in [*about_two, *puppet.wait(0.11)] if isinstance(m, SnapshotChunk))
    puppet.rounds.peer_connected(key(9))
    puppet.wait(0.0)
    for _ in range(3):
        puppet.hear(9, AppendAnswer(1, 2, False, True, 0))
        puppet.wait(0.11)
    streams = puppet.rounds._core._streams._streams
    assert streams[key(9)].data is streams[key(2)].data
    assert streams[key(2)].head.end.last.log_index == chunk.last_index
    puppet.hear(8, AppendAnswer(1, 99, True, False, 0))
    puppet.hear(8, SnapshotAnswer(1, chunk.last_index, chunk.last_term, 1))


def test_a_follower_that_seems_to_be_ahead_is_asked_where_it_is() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.wait(0.01)
    puppet.rounds._core.engine.set_next_index(key(2), 99)
    (append,) = [m for m in puppet.wait(0.11) if isinstance(m, Append) and m.previous_index > 3]
    (answer,) = follower().hear(2, append)
    assert answer == AppendAnswer(1, 11, False, True, append.previous_index)
    puppet.hear(2, answer)
    assert puppet.rounds._core.engine.next_index(key(2)) == 4


def test_a_follower_that_comes_back_with_less_than_it_said_is_sent_what_it_lacks() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.acknowledged(3, 3)
    puppet.rounds.peer_disconnected(key(2))
    puppet.rounds.peer_connected(key(2))  # a copy of it had said so
    assert Append(1, 3, 1, 3, []) in puppet.wait(0.11)
    sent = puppet.hear(2, AppendAnswer(1, 2, False, True, 3)) + puppet.wait(0.11)
    assert 1 in [m.previous_index for m in sent if isinstance(m, Append) and m.entries]


def test_a_snapshot_that_is_overtaken_by_entries_is_not_installed() -> None:
    puppet = follower()
    puppet.hear(2, *chunks(12, 1, b"state"), Append(1, 10, 1, 12, entries(11, 12, 1)))
    assert (puppet.rounds.last_index, puppet.rounds.applied_index) == (12, 12)
    assert puppet.tape.commands == [b"%d" % n for n in range(2, 13)]
    assert puppet.log[0] == (1, 0)
