"""Whom a replica takes for the leader."""

from tests.unit.quorum.cluster import Cluster, voters


def test_everybody_knows_who_leads() -> None:
    cluster = Cluster(voters(1, 2, 3))
    leader = cluster.elect()
    cluster.run(0.5)
    assert {node.rounds.leader for node in cluster.nodes.values()} == {leader.key}


def test_a_leader_that_is_long_silent_is_nobodys_leader() -> None:
    cluster = Cluster(voters(1, 2, 3))
    leader = cluster.elect()
    cluster.run(0.5)
    last, other = cluster.followers()
    cluster.stop(leader.key)
    cluster.stop(other.key)
    assert last.rounds.leader == leader.key
    cluster.run(2)
    assert last.rounds.leader is None
    assert last.rounds.term == leader.rounds.term, "it asked, and was not encouraged"


def test_who_is_cut_off_finds_the_leader_again() -> None:
    cluster = Cluster(voters(1, 2, 3))
    leader = cluster.elect()
    one, other = cluster.followers()
    cluster.cut([one.key], [leader.key, other.key])
    cluster.run(2)
    assert (one.rounds.leader, other.rounds.leader) == (None, leader.key)
    cluster.heal()
    cluster.run(0.5)
    assert one.rounds.leader == leader.key
