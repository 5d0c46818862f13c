"""Several voters: what is acknowledged, to whom, when, and exactly once."""
# pyright: reportPrivateUsage=false

from dataclasses import replace
from random import Random

import pytest

from quorate.quorum.raft import rounds as rounds_module
from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.messages import (
    Append,
    AppendAnswer,
    RaftMessage,
    ReadProbe,
    ReadProbeAnswer,
    TimeoutNow,
    VoteRequest,
)
from quorate.quorum.raft.outcomes import (
    ChangeRefused,
    LeadershipMoved,
    Lost,
    NotLeader,
    ReadDone,
    Refusal,
    Unknown,
)
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from tests.unit.quorum.cluster import RULES, TIMING, Cluster, Node, Puppet, key, voters

FIVE = voters(1, 2, 3, 4, 5)
THREE = voters(1, 2, 3)


def leader_of_three() -> Puppet:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    return puppet


def test_three_voters_agree() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    assert cluster.commit(b"a") == 1
    assert cluster.commit(b"b") == 2
    assert [node.tape.commands for node in cluster.nodes.values()] == [[b"a", b"b"]] * 3
    assert {node.rounds.leader for node in cluster.nodes.values()} == {cluster.leader.key}


def test_when_the_leader_dies_another_one_leads_soon_and_has_everything() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    cluster.commit(b"a")
    began_s = cluster.now_s
    cluster.stop(cluster.leader.key, power_cut=True)
    cluster.elect()
    assert cluster.now_s - began_s < 2
    assert cluster.commit(b"b") == 2
    cluster.stop(cluster.followers()[0].key)
    promise = cluster.leader.rounds.propose(b"c", cluster.now_s + 0.5)
    cluster.run(2)
    assert promise.value == Unknown()
    assert not any(node.rounds.is_leader for node in cluster.nodes.values())


def test_everything_is_there_after_the_power_is_cut_for_all() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    for n in range(20):
        cluster.commit(b"%d" % n)
    term = cluster.leader.rounds.term
    for member in THREE.keys:
        cluster.stop(member, power_cut=True)
    for member in THREE.keys:
        cluster.start(member, THREE)
    cluster.elect()
    assert cluster.leader.rounds.term > term
    assert cluster.commit(b"next") == 21


def test_a_follower_that_was_away_catches_up_by_entries_or_by_snapshot() -> None:
    for retained in (0, 100):
        timing = replace(TIMING, snapshot_entries=10, retained_entries=retained)
        cluster = Cluster(THREE, Rules(timing))
        cluster.elect()
        away = cluster.followers()[0].key
        cluster.stop(away)
        for n in range(60):
            cluster.commit(b"%d" % n)
        node = cluster.start(away, THREE)
        cluster.run(2)
        assert node.tape.commands == [b"%d" % n for n in range(60)]
        assert (node.rounds.snapshot_index > 40) == (retained == 0)


def test_who_does_not_lead_says_who_does() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    follower = cluster.followers()[0]
    assert follower.rounds.propose(b"a", 1e9).value == NotLeader(cluster.leader.key)
    read = follower.rounds.read(1e9)
    change = follower.rounds.remove_voter(key(1), 1e9)
    transfer = follower.rounds.transfer_leadership(None, 1e9)
    cluster.step(0.0)
    told = NotLeader(cluster.leader.key)
    assert (read.value, change.value, transfer.value) == (told, told, told)
    assert follower.rounds.progress == {}


def test_a_command_whose_place_was_taken_is_lost_and_one_whose_fate_is_open_is_not() -> None:
    puppet = leader_of_three()
    taken, opened = puppet.propose(b"a"), puppet.propose(b"b")
    puppet.hear(3, Append(2, 3, 1, 3, []))
    assert not taken.resolved
    from_three = [other_entry(4, 2), other_entry(5, 2)]
    puppet.hear(3, Append(2, 3, 1, 3, from_three))
    assert not taken.resolved  # another node may still have it, and lead
    puppet.hear(3, Append(2, 5, 2, 4, []))
    assert taken.value == Lost()
    assert not opened.resolved
    puppet.rounds.stop()
    assert opened.value == Unknown()


def other_entry(index: int, term: int) -> Entry:
    return Entry(b"\0other", index, term)


def test_a_command_of_a_deposed_leader_that_another_one_commits_has_its_result() -> None:
    puppet = leader_of_three()
    promise = puppet.propose(b"a")
    puppet.hear(3, Append(2, 4, 1, 4, []))
    assert promise.value == 1


def test_results_are_told_before_the_leaders_own_flush_of_what_came_later() -> None:
    puppet = leader_of_three()
    first = puppet.propose(b"a")
    puppet.rounds.receive(key(2), AppendAnswer(1, 5, True, False, 0))
    puppet.rounds.propose(b"b", 1e9)
    puppet.rounds.start(puppet.now_s)
    assert first.value == 1


def test_a_majority_is_needed() -> None:
    puppet = Puppet(FIVE)
    puppet.lead(2, 3)
    puppet.acknowledged(2, 3)
    assert not puppet.rounds.is_leader
    puppet.acknowledged(3, 3)
    assert puppet.rounds.is_leader
    promise = puppet.propose(b"a")
    puppet.acknowledged(4, 4)
    puppet.acknowledged(4, 4)
    assert not promise.resolved
    puppet.acknowledged(5, 4)
    assert promise.value == 1


def test_a_leader_that_hears_nobody_leads_no_more() -> None:
    cluster = Cluster(THREE)
    leader = cluster.elect()
    rest = [k for k in cluster.nodes if k != leader.key]
    cluster.cut([leader.key], rest)
    promise, read = leader.rounds.propose(b"a", 1e9), leader.rounds.read(1e9)
    cluster.run(1.2)
    assert read.value == NotLeader()
    assert leader.rounds.leader is None
    assert leader.rounds.propose(b"b", 1e9).value == NotLeader()
    cluster.elect()
    assert cluster.commit(b"c") == 1
    cluster.heal()
    cluster.run(1)
    assert promise.value == Lost()
    assert leader.tape.commands == [b"c"]


# --- reads


def test_a_read_waits_for_a_majority_to_confirm_the_leader() -> None:
    puppet = Puppet(FIVE)
    puppet.lead(2, 3)
    early = puppet.rounds.read(1e9)
    assert not [m for m in puppet.wait(0.01) if isinstance(m, ReadProbe)]
    puppet.acknowledged(2, 3)
    puppet.acknowledged(3, 3)
    read = puppet.rounds.read(1e9)
    (probe, *_) = [m for m in puppet.wait(0.01) if isinstance(m, ReadProbe)]
    puppet.hear(2, ReadProbeAnswer(1, probe.number))
    puppet.hear(2, ReadProbeAnswer(1, probe.number))
    puppet.hear(3, ReadProbeAnswer(1, probe.number - 1))
    assert not read.resolved
    puppet.hear(3, ReadProbeAnswer(1, probe.number))
    assert read.value == ReadDone(3)
    assert early.value == ReadDone(3)


def test_readers_share_a_probe_and_a_lost_probe_is_repeated() -> None:
    puppet = leader_of_three()
    reads = [puppet.rounds.read(1e9) for _ in range(10)]
    probes = [m for m in puppet.wait(0.01) if isinstance(m, ReadProbe)]
    assert len(probes) == 2
    assert puppet.rounds.next_deadline_s <= puppet.now_s + 0.11
    again = [m for m in puppet.wait(0.11) if isinstance(m, ReadProbe)]
    assert again == probes
    puppet.hear(3, ReadProbeAnswer(1, probes[0].number))
    assert [read.value for read in reads] == [ReadDone(3)] * 10


def test_a_deposed_leader_answers_no_read() -> None:
    puppet = leader_of_three()
    read = puppet.rounds.read(1e9)
    puppet.wait(0.01)
    puppet.hear(3, Append(2, 3, 1, 3, []))
    assert read.value == NotLeader(key(3))


def test_reads_and_proposals_are_given_up_at_their_deadline() -> None:
    puppet = leader_of_three()
    read = puppet.rounds.read(puppet.now_s + 0.3)
    promise = puppet.rounds.propose(b"a", puppet.now_s + 0.2)
    puppet.wait(0.0)
    puppet.wait(0.19)
    assert (read.resolved, promise.resolved) == (False, False)
    puppet.wait(0.02)
    assert promise.value == Unknown()
    puppet.wait(0.1)
    assert read.value == Unknown()


def test_what_waits_for_a_round_that_does_not_come_is_given_up_too() -> None:
    puppet = leader_of_three()
    promise = puppet.rounds.propose(b"a", puppet.now_s + 1)
    change = puppet.rounds.remove_voter(key(3), puppet.now_s + 1)
    read = puppet.rounds.read(puppet.now_s + 1)
    assert puppet.rounds.next_deadline_s <= puppet.now_s + 1
    puppet.rounds.abandon_expired(puppet.now_s + 1)
    assert promise.value == NotLeader(key(1))
    assert change.value == NotLeader(key(1))
    assert read.value == Unknown()


# --- hand-over


def test_leadership_is_handed_over_at_once_and_nothing_is_accepted_meanwhile() -> None:
    cluster = Cluster(THREE)
    before = cluster.elect()
    promise = before.rounds.propose(b"a", 1e9)
    transfer = before.rounds.transfer_leadership(None, cluster.now_s + 1)
    successor = before.rounds.propose(b"b", 1e9).value
    cluster.step(0.0)
    assert transfer.value == LeadershipMoved(cluster.leader.key)
    assert successor == NotLeader(cluster.leader.key)
    assert cluster.leader.key != before.key
    assert promise.value == 1


def test_leadership_is_handed_over_to_a_given_voter_once_it_has_everything() -> None:
    puppet = leader_of_three()
    transfer = puppet.rounds.transfer_leadership(key(3), puppet.now_s + 1)
    another = puppet.rounds.transfer_leadership(key(2), puppet.now_s + 1)
    assert isinstance(another.value, ChangeRefused)
    assert not [m for m in puppet.wait(0.01) if isinstance(m, TimeoutNow)]
    assert TimeoutNow(1) in puppet.hear(3, AppendAnswer(1, 4, True, False, 0))
    assert TimeoutNow(1) in puppet.wait(0.11)
    puppet.hear(3, VoteRequest(2, 3, 1))
    assert not transfer.resolved
    puppet.hear(3, Append(2, 3, 1, 3, []))
    assert transfer.value == LeadershipMoved(key(3))


def test_a_hand_over_that_nobody_takes_up_ends() -> None:
    puppet = leader_of_three()
    transfer = puppet.rounds.transfer_leadership(key(3), puppet.now_s + 0.3)
    assert puppet.rounds.propose(b"a", 1e9).value == NotLeader(key(3))
    puppet.wait(0.31)
    assert isinstance(transfer.value, ChangeRefused)
    assert transfer.value.refusal == Refusal.NOT_TAKEN_OVER
    assert not puppet.propose(b"a").resolved


def test_transfers_that_make_no_sense_say_so() -> None:
    puppet = leader_of_three()
    assert puppet.rounds.transfer_leadership(key(1), 1e9).value == LeadershipMoved(key(1))
    unknown = puppet.rounds.transfer_leadership(key(8), 1e9).value
    assert isinstance(unknown, ChangeRefused)
    assert unknown.refusal == Refusal.UNKNOWN_VOTER
    puppet.rounds.peer_disconnected(key(2))
    puppet.rounds.peer_disconnected(key(3))
    puppet.wait(0.0)
    nobody = puppet.rounds.transfer_leadership(None, 1e9).value
    assert isinstance(nobody, ChangeRefused)
    assert nobody.refusal == Refusal.NO_LIVE_MAJORITY


def test_a_full_disk_ends_leadership_and_the_best_follower_is_asked_to_take_over() -> None:
    puppet = leader_of_three()
    promise = puppet.rounds.propose(b"a", 1e9)
    puppet.rounds.start(puppet.now_s)
    flush = puppet.rounds.start_flush()
    assert flush is not None
    assert puppet.rounds.storage_full() == [(key(2), TimeoutNow(1))]
    assert puppet.rounds.storage_full() == []
    assert puppet.rounds.propose(b"b", 1e9).value == NotLeader()
    assert not promise.resolved
    puppet.rounds.receive(key(2), VoteRequest(2, 4, 1))
    flush.run()
    puppet.rounds.finish_flush(flush)
    assert puppet.rounds.start_flush() is None
    puppet.rounds.finish()
    puppet.hear(2, Append(2, 4, 1, 4, []))
    assert promise.value == 1


def test_who_asks_a_leader_whose_disk_is_full_learns_at_once_that_it_leads_no_more() -> None:
    puppet = leader_of_three()
    puppet.rounds.propose(b"a", 1e9)
    puppet.rounds.start(puppet.now_s)
    assert puppet.rounds.start_flush() is not None
    write, read = puppet.rounds.propose(b"b", 1e9), puppet.rounds.read(1e9)
    puppet.rounds.storage_full()
    assert write.value == read.value == NotLeader()
    later = puppet.rounds.read(1e9)
    puppet.rounds.storage_full()  # as the shell does before every other try
    assert later.value == NotLeader()


# --- limits, and what a shell relies on


def test_the_inbox_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "INBOX_MESSAGES_MAX", 3)
    puppet = Puppet(THREE)
    answers = puppet.hear(2, *[ReadProbe(1, n) for n in range(10)])
    assert len(answers) == 3
    monkeypatch.setattr(rounds_module, "INBOX_BYTES_MAX", 10)
    large = Append(1, 1, 0, 1, [other_entry(2, 1), other_entry(3, 1)])
    assert puppet.hear(2, large) == []
    assert len(puppet.hear(2, Append(1, 1, 0, 1, [other_entry(2, 1)]))) == 1


def test_rounds_are_asked_for_when_something_is_due_and_not_before() -> None:
    node = Node(key(1), THREE, SimulatedStorage(Random(1)), RULES)
    assert node.rounds.next_deadline_s == -float("inf")
    node.round(50.0)
    assert 50.5 <= node.rounds.next_deadline_s <= 51.01
    puppet = leader_of_three()
    due_s = puppet.rounds.next_deadline_s
    assert puppet.now_s < due_s <= puppet.now_s + 0.11
    assert not [m for m in puppet.wait(due_s - 0.01 - puppet.now_s) if isinstance(m, Append)]
    assert [m for m in puppet.wait(0.01) if isinstance(m, Append)]
    observer = Node(key(9), voters(), SimulatedStorage(Random(1)), RULES)
    observer.round(50.0)
    assert observer.rounds.next_deadline_s == float("inf")


def test_an_idle_quorum_says_little() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    cluster.run(1)
    before = len(cluster.sent)
    cluster.run(10)
    assert len(cluster.sent) - before <= 10 * 10 * 4 + 8


def test_a_replica_whose_connection_was_lost_gets_what_was_on_its_way_once_more() -> None:
    puppet = leader_of_three()
    puppet.hear(3, AppendAnswer(1, 4, True, False, 0))
    puppet.propose(b"lost")
    puppet.rounds.peer_disconnected(key(3))
    puppet.wait(0.01)
    puppet.rounds.peer_connected(key(3))
    sent: list[RaftMessage] = puppet.wait(0.0)
    appends = [m for m in sent if isinstance(m, Append)]
    assert any(m.previous_index == 3 and len(m.entries) == 1 for m in appends)


def test_progress_tells_who_is_behind_and_since_when() -> None:
    puppet = leader_of_three()
    puppet.propose(b"a")
    puppet.acknowledged(2, 4)
    seen_s = puppet.now_s
    puppet.wait(0.05)
    puppet.propose(b"b")
    puppet.acknowledged(2, 4)
    progress = puppet.rounds.progress
    assert set(progress) == {key(2), key(3)}
    assert progress[key(2)].match_index == 4
    assert progress[key(2)].caught_up_s == seen_s
    assert progress[key(2)].last_contact_s == puppet.now_s
    assert progress[key(2)].is_voter
    assert progress[key(3)].match_index == 0


def test_a_hand_over_under_way_asks_for_rounds_and_ends_with_the_node() -> None:
    puppet = leader_of_three()
    transfer = puppet.rounds.transfer_leadership(key(2), puppet.now_s + 5)
    asked_s = puppet.now_s
    assert TimeoutNow(1) in puppet.wait(0.0)
    assert puppet.rounds.next_deadline_s <= asked_s + 0.1
    puppet.rounds.stop()
    assert transfer.value == Unknown()


def test_a_proposal_of_a_leader_that_was_deposed_before_its_round_was_never_in_a_log() -> None:
    puppet = leader_of_three()
    promise = puppet.rounds.propose(b"a", 1e9)
    puppet.hear(3, Append(2, 3, 1, 3, []))
    assert promise.value == NotLeader(key(3))


def test_a_read_of_an_earlier_leadership_of_the_same_node_is_not_answered() -> None:
    node = Node(key(1), voters(1), SimulatedStorage(Random(1)), RULES)
    node.round(1.0)
    read = node.rounds.read(1e9)
    node.rounds.start(2.0)
    node.rounds._core.engine.step_down()
    while flush := node.rounds.start_flush():
        flush.run()
        node.rounds.finish_flush(flush)
    assert (node.rounds.term, node.rounds.is_leader) == (2, True)
    assert isinstance(read.value, NotLeader)


def test_a_read_waits_until_the_state_machine_is_that_far() -> None:
    puppet = leader_of_three()
    read = puppet.rounds.read(1e9)
    (probe, *_) = [m for m in puppet.wait(0.0) if isinstance(m, ReadProbe)]
    puppet.rounds._core.reads._batches[0].index = 4
    puppet.hear(2, ReadProbeAnswer(1, probe.number))
    assert not read.resolved
    puppet.propose(b"a")
    puppet.acknowledged(2, 4)
    assert read.value == ReadDone(4)


def test_of_several_readers_only_the_impatient_give_up() -> None:
    puppet = leader_of_three()
    patient, impatient = puppet.rounds.read(1e9), puppet.rounds.read(puppet.now_s + 0.1)
    puppet.wait(0.0)
    puppet.wait(0.11)
    assert impatient.value == Unknown()
    assert not patient.resolved
