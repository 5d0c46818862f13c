"""Who votes: one safe step at a time, and a reason for every refusal."""
# pyright: reportPrivateUsage=false

import pytest

from quorate.control.codec import dump_cbor
from quorate.promise import Promise
from quorate.quorum.raft.configurations import Configurations
from quorate.quorum.raft.engine import VOTERS, EngineError
from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.messages import Append, AppendAnswer, PreVoteRequest, TimeoutNow
from quorate.quorum.raft.outcomes import ChangeOutcome, ChangeRefused, Refusal, VotersChanged
from quorate.quorum.raft.snapshots import Configuration
from tests.unit.quorum.cluster import Cluster, Puppet, key, voter, voters

THREE = voters(1, 2, 3)


def refusal(promise: Promise[ChangeOutcome]) -> Refusal:
    outcome = promise.value
    assert isinstance(outcome, ChangeRefused), outcome
    assert outcome.message
    return outcome.refusal


def add(cluster: Cluster, node_id: int, directory: int = 0) -> Promise[ChangeOutcome]:
    promise = cluster.leader.rounds.add_voter(voter(node_id, directory), cluster.now_s + 2)
    cluster.run(2.5)
    return promise


def remove(cluster: Cluster, node_id: int, directory: int = 0) -> Promise[ChangeOutcome]:
    promise = cluster.leader.rounds.remove_voter(key(node_id, directory), cluster.now_s + 2)
    cluster.run(2.5)
    return promise


def test_the_bootstrap_voters_are_written_to_the_log() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    cluster.commit(b"a")
    observer = cluster.start(key(4))
    assert observer.rounds.voters == voters()
    cluster.run(1)
    assert observer.rounds.voters == THREE
    assert observer.rounds.leader == cluster.leader.key
    assert not cluster.leader.rounds.progress[key(4)].is_voter


def test_an_observer_is_added_once_it_has_caught_up() -> None:
    cluster = Cluster(voters(1))
    cluster.elect()
    for n in range(100):
        cluster.leader.rounds.propose(b"%d" % n, 1e9)
    cluster.start(key(2))
    promise = add(cluster, 2)
    outcome = promise.value
    assert isinstance(outcome, VotersChanged)
    assert outcome.voters == voters(1, 2)
    assert [node.rounds.voters for node in cluster.nodes.values()] == [voters(1, 2)] * 2
    cluster.stop(cluster.followers()[0].key)
    promise2 = cluster.leader.rounds.propose(b"alone", cluster.now_s + 1)
    cluster.run(0.5)
    assert not promise2.resolved


def test_a_quorum_grows_and_shrinks_and_grows() -> None:
    cluster = Cluster(voters(1))
    cluster.elect()
    for node_id in (2, 3, 4, 5):
        cluster.start(key(node_id))
        assert isinstance(add(cluster, node_id).value, VotersChanged)
        assert cluster.commit(b"%d" % node_id) == node_id - 1
    for node_id in (1, 2, 3, 4):
        assert isinstance(remove(cluster, node_id).value, VotersChanged)
        cluster.elect()
    assert cluster.leader.key == key(5)
    assert cluster.leader.rounds.voters == voters(5)
    assert cluster.nodes[key(1)].tape.commands == [b"2", b"3", b"4", b"5"]


def test_a_leader_that_is_removed_commits_it_and_hands_over() -> None:
    cluster = Cluster(THREE)
    before = cluster.elect()
    promise = before.rounds.remove_voter(before.key, cluster.now_s + 2)
    cluster.step(0.0)
    assert isinstance(promise.value, VotersChanged)
    assert cluster.leader.key != before.key
    cluster.run(3)
    assert cluster.leader.rounds.term == 2
    assert before.rounds.voters == cluster.leader.rounds.voters
    assert before.rounds.next_deadline_s == float("inf")


def test_a_leader_that_is_removed_does_not_count_itself() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    promise = puppet.rounds.remove_voter(key(1), 1e9)
    puppet.wait(0.0)
    puppet.acknowledged(2, 4)
    assert not promise.resolved
    assert TimeoutNow(1) in puppet.hear(3, AppendAnswer(1, 5, True, False, 0))
    assert isinstance(promise.value, VotersChanged)
    assert puppet.rounds.leader is None


def test_one_on_its_way_out_may_lead_as_long_as_its_removal_is_not_committed() -> None:
    puppet = Puppet(THREE)
    puppet.lead(2)
    puppet.acknowledged(2, 3)
    puppet.rounds.remove_voter(key(1), 1e9)
    puppet.wait(0.0)
    puppet.wait(1.5)
    assert puppet.rounds.leader is None
    puppet.wait(1.5)
    assert [m for m in puppet.wait(1.5) if isinstance(m, PreVoteRequest)]


def test_a_wiped_controller_is_replaced_by_removing_and_adding() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    cluster.commit(b"a")
    wiped = cluster.followers()[0].key
    cluster.stop(wiped)
    cluster.start(key(wiped.node_id, 1))
    cluster.run(1)
    assert refusal(add(cluster, wiped.node_id, 1)) == Refusal.OTHER_DIRECTORY
    assert isinstance(remove(cluster, wiped.node_id).value, VotersChanged)
    outcome = add(cluster, wiped.node_id, 1).value
    assert isinstance(outcome, VotersChanged)
    assert key(wiped.node_id, 1) in outcome.voters
    assert cluster.nodes[key(wiped.node_id, 1)].tape.commands == [b"a"]


def test_a_wiped_controller_neither_stands_for_election_nor_is_counted() -> None:
    cluster = Cluster(THREE)
    leader = cluster.elect()
    wiped, other = [node.key for node in cluster.followers()]
    cluster.stop(wiped)
    cluster.start(key(wiped.node_id, 1))
    cluster.stop(other)
    promise = leader.rounds.propose(b"a", 1e9)
    cluster.run(5)
    assert not promise.resolved
    assert cluster.nodes[key(wiped.node_id, 1)].rounds.term <= leader.rounds.term


def test_unsafe_changes_are_refused_with_a_reason() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    cluster.run(0.5)
    assert refusal(add(cluster, 2)) == Refusal.ALREADY_A_VOTER
    assert refusal(add(cluster, 9)) == Refusal.NOT_CAUGHT_UP
    assert refusal(remove(cluster, 9)) == Refusal.UNKNOWN_VOTER
    assert refusal(remove(cluster, 2, 7)) == Refusal.UNKNOWN_VOTER
    alone = Cluster(voters(1))
    alone.elect()
    assert refusal(remove(alone, 1)) == Refusal.LAST_VOTER


def test_a_change_that_would_leave_no_live_majority_is_refused() -> None:
    cluster = Cluster(THREE)
    cluster.elect()
    dead, alive = [node.key for node in cluster.followers()]
    cluster.stop(dead)
    cluster.run(2)
    assert refusal(remove(cluster, alive.node_id)) == Refusal.NO_LIVE_MAJORITY
    assert isinstance(remove(cluster, dead.node_id).value, VotersChanged)


def test_a_change_waits_for_the_first_commit_of_a_term_and_is_refused_when_it_does_not_come() -> (
    None
):
    puppet = Puppet(THREE)
    puppet.lead(2)
    promise = puppet.rounds.remove_voter(key(3), puppet.now_s + 0.2)
    puppet.wait(0.1)
    assert not promise.resolved
    puppet.wait(0.11)
    assert refusal(promise) == Refusal.NO_COMMIT_IN_TERM
    again = puppet.rounds.remove_voter(key(3), puppet.now_s + 9)
    puppet.wait(0.0)
    puppet.acknowledged(2, 3)
    puppet.wait(0.0)
    assert puppet.rounds.voters == voters(1, 2)
    assert not again.resolved
    puppet.acknowledged(2, 4)
    assert isinstance(again.value, VotersChanged)


def test_there_is_a_limit_to_voters() -> None:
    puppet = Puppet(voters(*range(1, 64)))
    puppet.lead(*range(2, 34))
    promise = puppet.rounds.add_voter(voter(99), 1e9)
    puppet.wait(0.0)
    assert refusal(promise) == Refusal.TOO_MANY_VOTERS


def test_a_removal_that_was_not_committed_is_undone_with_its_entry() -> None:
    cluster = Cluster(THREE)
    leader = cluster.elect()
    cluster.commit(b"a")
    rest = [k for k in cluster.nodes if k != leader.key]
    cluster.cut([leader.key], rest)
    promise = leader.rounds.remove_voter(rest[0], cluster.now_s + 5)
    cluster.step(0.0)
    assert leader.rounds.voters == THREE.without(rest[0])
    cluster.run(3)
    assert cluster.leader.key in rest
    cluster.heal()
    cluster.run(2)
    assert leader.rounds.voters == THREE
    assert not isinstance(promise.value, VotersChanged)


def test_a_change_that_nobody_can_read_stops_the_node() -> None:
    for garbage in (b"\xff", dump_cbor([[1, b"short", "h", 1]]), dump_cbor(7)):
        puppet = Puppet(THREE)
        with pytest.raises(EngineError, match="who votes"):
            puppet.hear(2, Append(1, 1, 0, 1, [Entry(VOTERS + garbage, 2, 1)]))


def test_old_voter_sets_are_forgotten_when_a_snapshot_covers_them() -> None:
    known = Configurations(Configuration(0, voters(1)), [])
    for index, who in ((5, voters(1, 2)), (9, THREE)):
        known._history.append(Configuration(index, who))
    assert known.at(8).voters == voters(1, 2)
    known.forget_before(8)
    assert [c.log_index for c in known._history] == [5, 9]
    assert known.truncated(9)
    assert not known.truncated(9)
    assert known.voters == voters(1, 2)
