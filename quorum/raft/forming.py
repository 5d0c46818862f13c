"""How controllers that start for the first time become one cluster, without anybody leading.

Each is given the addresses of all.  Once it has heard all of them, and none belongs to a cluster
yet, it formats its directory with them as founders, for a cluster whose id follows from who they
are.  So whoever heard the same controllers forms the same cluster, whoever heard others forms
another one that will not talk to it, and nobody needs to know who formatted first.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import Endpoint, looks_like_option
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet

CLUSTER_ID_BYTES: Final = 16
CLUSTER_ID_LENGTH: Final = 22


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a controller says about itself; ``cluster_id`` is empty if it is in none."""

    key: ReplicaKey
    endpoint: Endpoint
    cluster_id: str
    founders: VoterSet


@dataclass(frozen=True, slots=True)
class Found:
    """Format the directory as one of these founders."""

    cluster_id: str
    founders: VoterSet


@dataclass(frozen=True, slots=True)
class Join:
    """Format the directory for a cluster that there is, whose founders others were."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """It cannot be known yet; ``reason`` is for a person."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will not work out like this; ``reason`` is for a person."""

    reason: str


Forming = Found | Join | Wait | Refuse


def cluster_id_of(data: bytes) -> str:
    """Return the cluster id that 16 bytes make, as Kafka writes them."""
    return base64.urlsafe_b64encode(data).decode()[:CLUSTER_ID_LENGTH]


def cluster_id_for(founders: Iterable[ReplicaKey]) -> str:
    """Return the id of the cluster that these found."""
    who = b"".join(
        key.node_id.to_bytes(4, "big") + key.directory_id for key in sorted(set(founders))
    )
    digests = (hashlib.sha256(who + number.to_bytes(4, "big")).digest() for number in count())
    return cluster_id_of(next(d for d in digests if not looks_like_option(d))[:CLUSTER_ID_BYTES])


def form(
    me: ReplicaKey, heard: Mapping[Endpoint, Introduction | None], cluster_id: str | None
) -> Forming:
    """Return what becomes of a directory that is not formatted yet.

    Args:
        me: whose directory it is.
        heard: what was heard at each address that was given; at our own, we hear ourselves.
        cluster_id: the cluster that it shall be, ``None`` for any.
    """
    known = {address: said for address, said in heard.items() if said is not None}
    twice = _same_id(me, known)
    if twice is not None:
        return Refuse(twice)
    clusters = {said.cluster_id: said for said in known.values() if said.cluster_id}
    if len(clusters) > 1:
        return Refuse(f"the controllers are of different clusters: {', '.join(sorted(clusters))}")
    for said in clusters.values():
        return _enter(me, said, cluster_id)
    missing = [str(address) for address in heard if address not in known]
    if missing:
        return Wait(f"nobody answers yet at {', '.join(missing)}")
    founders = VoterSet.of(
        {said.key: Voter(said.key, said.endpoint) for said in known.values()}.values()
    )
    if me not in founders:
        return Wait("the controllers given are not a cluster yet, and this one is not among them")
    return _found(founders, cluster_id)


def _same_id(me: ReplicaKey, known: Mapping[Endpoint, Introduction]) -> str | None:
    """Return the complaint about two controllers with one id, if there are."""
    owners = {me.node_id: (me, "this one")}
    for address, said in known.items():
        key, where = owners.setdefault(said.key.node_id, (said.key, f"that at {address}"))
        if key != said.key:
            return (
                f"two controllers have the id {key.node_id}: {where} and that at {address};"
                " give each another --id"
            )
    return None


def _enter(me: ReplicaKey, said: Introduction, cluster_id: str | None) -> Forming:
    """Enter the cluster that another controller is in: as a founder, if we are one."""
    if cluster_id not in {None, said.cluster_id}:
        return Refuse(f"the cluster there is {said.cluster_id}, not {cluster_id}")
    if me not in said.founders:
        return Join(said.cluster_id)
    if cluster_id_for(said.founders.keys) != said.cluster_id:
        return Refuse(f"{said.key} names founders that do not make cluster {said.cluster_id}")
    return Found(said.cluster_id, said.founders)


def _found(founders: VoterSet, cluster_id: str | None) -> Forming:
    own = cluster_id_for(founders.keys)
    if cluster_id not in {None, own}:
        return Refuse("the id of a new cluster follows from its controllers; leave it out")
    return Found(own, founders)
