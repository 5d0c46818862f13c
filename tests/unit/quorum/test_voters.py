"""Voters are replicas: a node and its directory."""

import pytest

from quorate.control.codec import DecodeError
from quorate.quorum.raft.voters import (
    NO_VOTERS,
    VOTERS_MAX,
    ReplicaKey,
    VoterSet,
    decode_voters,
    encode_voters,
)
from tests.unit.quorum.cluster import key, voter, voters


def test_a_key_is_written_as_kafka_writes_directory_ids() -> None:
    assert str(ReplicaKey(3, bytes(16))) == "3-AAAAAAAAAAAAAAAAAAAAAA"


def test_sets_are_sorted_and_know_their_majority() -> None:
    some = VoterSet.of([voter(3), voter(1), voter(2)])
    assert some.keys == (key(1), key(2), key(3))
    assert [voters(*range(n)).majority for n in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert key(2) in some
    assert key(2, 1) not in some
    assert some.find(2) == voter(2)
    assert some.find(9) is None
    assert some.without(key(2)) == voters(1, 3)
    assert some.without(key(2, 1)) == some
    assert voters(1, 3).with_voter(voter(2)) == some


def test_a_node_votes_once() -> None:
    with pytest.raises(AssertionError):
        voters(1).with_voter(voter(1, 1))


def test_sets_travel() -> None:
    for some in (NO_VOTERS, voters(1, 2, 3)):
        assert decode_voters(encode_voters(some)) == some


@pytest.mark.parametrize(
    "value",
    [
        7,
        [7],
        [[1, b"x" * 15, "h", 1]],
        [[-1, b"x" * 16, "h", 1]],
        [[1, b"x" * 16, "h", 70000]],
        [[1, b"x" * 16, "h", 1, 1]],
        [[1, b"x" * 16, "h", 1], [1, b"y" * 16, "h", 1]],
        [[n, b"x" * 16, "h", 1] for n in range(VOTERS_MAX + 1)],
    ],
)
def test_what_is_no_voter_set_is_refused(value: object) -> None:
    with pytest.raises(DecodeError):
        decode_voters(value)
