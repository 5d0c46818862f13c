"""Who votes: replicas by node id and directory id (KIP-853), and sets of them.

A disk that was wiped has a new directory id, hence is another replica: it cannot vote a second time
in a term in which the lost disk voted already.
"""

import base64
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final, NamedTuple

from quorate.control.codec import DecodeError, as_array
from quorate.dataclass import dataclass
from quorate.model import Endpoint

DIRECTORY_ID_BYTES: Final = 16
VOTERS_MAX: Final = 63


class ReplicaKey(NamedTuple):
    """One controller with one disk; Kafka's ReplicaKey."""

    node_id: int
    directory_id: bytes

    def __str__(self) -> str:
        directory = base64.urlsafe_b64encode(self.directory_id).rstrip(b"=").decode()
        return f"{self.node_id}-{directory}"


@dataclass(frozen=True, slots=True)
class Voter:
    """A replica that votes, and where it listens for the other controllers."""

    key: ReplicaKey
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Who votes, sorted by node id; no node id twice."""

    voters: tuple[Voter, ...]
    keys: tuple[ReplicaKey, ...] = field(init=False, repr=False, compare=False)
    """The replicas, sorted; kept, because every round looks at them."""

    def __post_init__(self) -> None:
        ids = [voter.key.node_id for voter in self.voters]
        assert ids == sorted(set(ids)), "voters are sorted, each node id once"
        object.__setattr__(self, "keys", tuple([voter.key for voter in self.voters]))

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        """Return the set of these voters, in whatever order they come."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.key)))

    @property
    def majority(self) -> int:
        """How many of them decide."""
        return len(self.voters) // 2 + 1

    def __contains__(self, key: object) -> bool:
        return key in self.keys

    def __len__(self) -> int:
        return len(self.voters)

    def find(self, node_id: int) -> Voter | None:
        """Return the voter of this node id, whatever its directory id."""
        return next((v for v in self.voters if v.key.node_id == node_id), None)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with one more."""
        return VoterSet.of((*self.voters, voter))

    def without(self, key: ReplicaKey) -> "VoterSet":
        """Return the set with one less."""
        return VoterSet(tuple([voter for voter in self.voters if voter.key != key]))


NO_VOTERS: Final = VoterSet(())


def encode_voters(voters: VoterSet) -> list[Any]:
    """Return a voter set as values for CBOR."""
    return [
        [v.key.node_id, v.key.directory_id, v.endpoint.host, v.endpoint.port] for v in voters.voters
    ]


def decode_voters(value: object) -> VoterSet:
    """Return the voter set that these CBOR values stand for.

    Raises:
        DecodeError: they are none.
    """
    voters = [_decode_voter(item) for item in as_array(value)]
    if len(voters) > VOTERS_MAX or len({v.key.node_id for v in voters}) != len(voters):
        raise DecodeError("too many voters, or a node id twice")
    return VoterSet.of(voters)


def _decode_voter(value: object) -> Voter:
    match value:
        case [int() as node_id, bytes() as directory_id, str() as host, int() as port] if (
            0 <= node_id < 2**31 and len(directory_id) == DIRECTORY_ID_BYTES and 0 <= port <= 65535
        ):
            return Voter(ReplicaKey(node_id, directory_id), Endpoint(host, port))
        case _:
            raise DecodeError("expected [node id, directory id, host, port]")
