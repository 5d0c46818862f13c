"""First starts: the same view makes the same cluster, other views never do."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.model import Endpoint
from quorate.quorum.raft.forming import (
    Forming,
    Found,
    Introduction,
    Join,
    Refuse,
    Wait,
    cluster_id_for,
    form,
)
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet


def key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id if directory is None else directory]) * 16)


def at(node_id: int) -> Endpoint:
    return Endpoint("127.0.0.1", 9190 + node_id)


def says(who: ReplicaKey, cluster_id: str = "", founders: VoterSet = NO_VOTERS) -> Introduction:
    return Introduction(who, at(who.node_id), cluster_id, founders)


A, B, C = key(1), key(2), key(3)
FOUNDERS = VoterSet.of(Voter(k, at(k.node_id)) for k in (A, B, C))
CLUSTER = cluster_id_for([A, B, C])
EMPTY = {at(k.node_id): says(k) for k in (A, B, C)}
FORMATTED = says(A, CLUSTER, FOUNDERS)


def reason(outcome: Forming) -> str:
    assert isinstance(outcome, Refuse | Wait)
    return outcome.reason


def test_all_who_heard_all_found_the_same_cluster() -> None:
    for me in (A, B, C):
        assert form(me, EMPTY, None) == Found(CLUSTER, FOUNDERS)
    assert form(A, dict(reversed(EMPTY.items())), CLUSTER) == Found(CLUSTER, FOUNDERS)


def test_one_address_may_be_given_in_two_ways() -> None:
    assert form(A, {**EMPTY, Endpoint("localhost", 9191): says(A)}, None) == Found(
        CLUSTER, FOUNDERS
    )


def test_a_controller_that_is_given_only_itself_founds_a_cluster_alone() -> None:
    assert form(A, {at(1): says(A)}, None) == Found(
        cluster_id_for([A]), VoterSet.of([Voter(A, at(1))])
    )


def test_while_somebody_is_silent_nobody_knows() -> None:
    outcome = form(A, {**EMPTY, at(2): None}, None)
    assert isinstance(outcome, Wait)
    assert "127.0.0.1:9192" in outcome.reason


def test_who_comes_later_founds_what_it_is_a_founder_of_though_others_are_silent() -> None:
    assert form(B, {at(1): FORMATTED, at(2): None, at(3): None}, None) == Found(CLUSTER, FOUNDERS)


def test_a_wiped_disk_joins_as_somebody_else() -> None:
    fresh = key(3, directory=9)
    heard = {at(1): FORMATTED, at(2): None, at(3): says(fresh)}
    assert form(fresh, heard, None) == Join(CLUSTER)
    assert form(fresh, heard, CLUSTER) == Join(CLUSTER)


def test_a_stranger_waits_until_there_is_a_cluster_and_joins_it() -> None:
    assert "not among them" in reason(form(key(4), EMPTY, None))
    assert form(key(4), {**EMPTY, at(1): FORMATTED}, None) == Join(CLUSTER)


def test_two_controllers_with_one_id_are_refused() -> None:
    twin = {at(1): says(A), at(2): says(key(1, directory=9))}
    assert "two controllers have the id 1" in reason(form(A, twin, None))
    assert "two controllers have the id 1" in reason(form(key(5), twin, None))
    assert "this one and that at 127.0.0.1:9191" in reason(
        form(key(1, directory=9), {at(1): FORMATTED}, None)
    )


def test_controllers_of_two_clusters_are_refused() -> None:
    heard = {at(1): FORMATTED, at(2): says(B, "another")}
    assert isinstance(form(C, heard, None), Refuse)
    assert "another" in reason(form(C, heard, None))


def test_another_cluster_than_the_one_wanted_is_refused() -> None:
    assert "not other" in reason(form(B, {at(1): FORMATTED}, "other"))
    assert "leave it out" in reason(form(B, EMPTY, "other"))


def test_founders_that_do_not_make_the_cluster_are_refused() -> None:
    assert isinstance(form(B, {at(1): says(A, "made-up", FOUNDERS)}, None), Refuse)


@given(st.sets(st.builds(key, st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_cluster_ids_follow_from_who_founds(founders: set[ReplicaKey]) -> None:
    cluster_id = cluster_id_for(founders)
    assert len(cluster_id) == 22
    assert cluster_id[0] != "-"
    assert cluster_id == cluster_id_for(sorted(founders))
    assert cluster_id != cluster_id_for(sorted(founders)[1:])
