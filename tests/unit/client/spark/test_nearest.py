"""Whom a reader in a rack asks."""

from quorate.client.spark.nearest import AGE_MAX_S, NearestReplica


def test_the_leader_is_asked_until_it_names_a_follower_and_again_when_that_is_old() -> None:
    nearest = NearestReplica("a")
    assert (nearest.follower(1.0), nearest.rack(1.0)) == (None, "a")
    nearest.follow(7, 2.0)
    later_s = 2.0 + AGE_MAX_S
    assert (nearest.follower(later_s - 1), nearest.rack(later_s - 1)) == (7, "a")
    assert (nearest.follower(later_s), nearest.rack(later_s)) == (None, "a")
    assert not nearest.leave(later_s), "the leader was asked last"


def test_who_was_let_down_by_a_follower_is_served_by_the_leader_for_a_while() -> None:
    nearest = NearestReplica("a")
    assert not nearest.leave(1.0), "the leader itself cannot be left"
    assert nearest.rack(1.0) == "a"
    nearest.follow(7, 2.0)
    assert nearest.leave(3.0)
    later_s = 3.0 + AGE_MAX_S
    assert (nearest.follower(later_s - 1), nearest.rack(later_s - 1)) == (None, "")
    assert (nearest.follower(later_s), nearest.rack(later_s)) == (None, "a")


def test_an_answer_that_comes_when_its_follower_has_become_old_is_still_that_followers() -> None:
    nearest = NearestReplica("a")
    nearest.follow(7, 2.0)
    assert nearest.follower(3.0) == 7
    assert nearest.leave(3.0 + AGE_MAX_S)
