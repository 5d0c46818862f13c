"""Proposals: each is told its outcome exactly once."""

from quorate.promise import Promise
from quorate.quorum.raft.outcomes import Lost, NotDone, Unknown
from quorate.quorum.raft.proposals import Proposals

NEVER = float("inf")


def proposed(
    proposals: Proposals, index: int, term: int, deadline_s: float = NEVER
) -> Promise[str | NotDone]:
    promise: Promise[str | NotDone] = Promise()
    proposals.add(index, term, deadline_s, promise)
    return promise


def test_an_applied_command_has_its_result_once_it_may_be_told() -> None:
    proposals = Proposals()
    first, second = proposed(proposals, 3, 1), proposed(proposals, 4, 1)
    proposals.applied(3, 1, "three")
    assert not first.resolved
    proposals.settle()
    assert first.value == "three"
    assert not second.resolved
    proposals.applied(4, 1, "four")
    proposals.settle()
    assert second.value == "four"


def test_a_command_whose_place_another_leader_took_is_lost() -> None:
    proposals = Proposals()
    lost = proposed(proposals, 3, 1)
    again = proposed(proposals, 3, 3)
    proposals.applied(3, 3, "again")
    proposals.settle()
    assert (lost.value, again.value) == (Lost(), "again")


def test_what_a_snapshot_covers_is_unknown() -> None:
    proposals = Proposals()
    covered, later = proposed(proposals, 3, 1), proposed(proposals, 9, 1)
    proposals.jumped(8)
    proposals.settle()
    assert covered.value == Unknown()
    assert not later.resolved


def test_deadlines_are_kept() -> None:
    proposals = Proposals()
    assert proposals.next_deadline_s == NEVER
    first, second = proposed(proposals, 3, 1, 5.0), proposed(proposals, 4, 1, 7.0)
    assert proposals.next_deadline_s == 5.0
    proposals.abandon_expired(4.9)
    assert not first.resolved
    proposals.abandon_expired(5.0)
    assert first.value == Unknown()
    assert not second.resolved
    assert proposals.next_deadline_s == 7.0


def test_what_was_not_decided_is_unknown_when_the_node_stops() -> None:
    proposals = Proposals()
    decided, undecided = proposed(proposals, 3, 1), proposed(proposals, 4, 1)
    proposals.applied(3, 1, "three")
    proposals.abandon()
    assert (decided.value, undecided.value) == ("three", Unknown())
    proposals.abandon()
