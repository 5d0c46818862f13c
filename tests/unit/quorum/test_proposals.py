"""Proposals: each is told its outcome exactly once."""

from quorate.promise import Promise
from quorate.quorum.raft.core import Applied
from quorate.quorum.raft.proposals import Lost, NotDone, Proposals, Unknown


def proposed(proposals: Proposals[str], index: int, term: int) -> Promise[str | NotDone]:
    promise: Promise[str | NotDone] = Promise()
    proposals.add(index, term, promise)
    return promise


def test_an_applied_command_has_its_result() -> None:
    proposals = Proposals[str]()
    first, second = proposed(proposals, 3, 1), proposed(proposals, 4, 1)
    proposals.settle([Applied(3, 1, "three")])
    assert first.value == "three"
    assert not second.resolved
    proposals.settle([Applied(4, 1, "four")])
    assert second.value == "four"


def test_a_command_whose_place_another_leader_took_is_lost() -> None:
    proposals = Proposals[str]()
    first, second = proposed(proposals, 3, 1), proposed(proposals, 4, 1)
    proposals.settle([Applied(3, 2, "another's"), Applied(5, 2, "later")])
    assert (first.value, second.value) == (Lost(), Lost())


def test_what_was_not_decided_is_unknown_when_the_node_stops() -> None:
    proposals = Proposals[str]()
    promise = proposed(proposals, 3, 1)
    proposals.abandon()
    assert promise.value == Unknown()
    proposals.abandon()
