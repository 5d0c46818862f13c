"""Who belongs to the cluster changes: controllers lose their vote and get it back, brokers drain.

The changes of controllers also while the network between them is cut.
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.control import messages as m
from quorate.control.partition_messages import ChangeBroker, ChangeBrokerAnswer
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import NETWORK, Equipment
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, NotYetError, Variant
from quorate.jepsen.nemesis.partitions import both_ways, equipment_of, place_of, seen_within
from quorate.model import Endpoint

if TYPE_CHECKING:
    from quorate.jepsen.lab.hosts import Host

ANSWERED_S: Final = 3.0
LEADS_NOTHING_S: Final = 5.0
TAKEN_S_MAX: Final = 3.0

A = TypeVar("A", bound=m.Answer)


def _ask(lab: Lab, request: m.Request[Any], expected: type[A]) -> A | None:
    """Ask whoever leads the controllers; None if nobody answers in time, or it was refused."""
    endpoints = [Endpoint(*host.address) for host in lab.controllers if host.answers]
    if not endpoints:
        return None
    with QuorumClient(endpoints, 0) as client:
        try:
            answer: A = client.ask(request, expected, request_id=b"", timeout_s=ANSWERED_S)
        except (NotDoneError, MaybeDoneError):
            return None
        return answer


def _voters(lab: Lab) -> set[int]:
    """Return who votes, as the leader says; nobody, if nobody says."""
    answer = _ask(lab, m.DescribeQuorum(), m.DescribeQuorumAnswer)
    return set() if answer is None else {voter.node_id for voter in answer.voters}


class Voter:
    """A controller loses its vote; healed, it has it again."""

    def __init__(self, *, active: bool, cut: bool) -> None:
        self._active = active
        self._cut = cut
        self._lab: Lab | None = None
        self._host: Host | None = None
        self._equipment: Equipment | None = None

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Take the vote away, perhaps of one that hears of it later than all others."""
        if len(lab.controllers) < 3 or not all(host.answers for host in lab.controllers):
            raise NotNowError("not enough controllers run")
        if _voters(lab) != {host.node_id for host in lab.controllers}:
            raise NotNowError("not all controllers vote")  # more than one less is no majority
        (active,) = roles.controller(lab, rng)
        others = [host for host in lab.controllers if host is not active]
        host = active if self._active else rng.choice(others)
        if self._cut:
            self._equipment = equipment_of(lab)
        note([host], cut=self._cut)
        self._lab, self._host = lab, host
        if self._equipment is not None:
            place = place_of(lab, host)
            rest = [place_of(lab, each) for each in lab.controllers if each is not host]
            self._equipment.cut(self, both_ways([place], rest))
        _ask(lab, m.RemoveVoter(host.node_id), m.RemoveVoterAnswer)
        if not seen_within(TAKEN_S_MAX, lambda: bool(self.verified())):
            raise NotNowError(f"{host.name} keeps its vote, or nobody says")

    def verified(self) -> str:
        """Say who votes no more."""
        assert self._lab is not None
        assert self._host is not None
        voters = _voters(self._lab)
        if not voters or self._host.node_id in voters:
            return ""
        return f"{self._host.name} votes no more, only {', '.join(map(str, sorted(voters)))} do"

    def heal(self) -> None:
        """Give it back."""
        if self._equipment is not None:
            self._equipment.mend(self, hard=False)
        lab, host = self._lab, self._host
        if lab is None or host is None:
            return
        for each in lab.controllers:
            if not each.runs:
                each.start()
        if host.node_id not in _voters(lab):
            _ask(lab, m.AddVoter(host.node_id), m.AddVoterAnswer)
            if host.node_id not in _voters(lab):
                raise NotYetError(f"{host.name} has no vote yet")


class Drained:
    """A broker leads nothing more; healed, it may lead again."""

    def __init__(self) -> None:
        self._lab: Lab | None = None
        self._host: Host | None = None

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Drain it."""
        (host,) = roles.leader(lab, rng)
        note([host])
        self._lab, self._host = lab, host
        _ask(lab, ChangeBroker(host.node_id, draining=True), ChangeBrokerAnswer)
        if not self.verified():
            raise NotNowError(f"{host.name} leads what nobody else can lead, or nobody says")

    def verified(self) -> str:
        """Say that it leads nothing, once it does not."""
        lab, host = self._lab, self._host
        assert lab is not None
        assert host is not None

        def leads_nothing() -> bool:
            leaders = {state.leader for state in lab.view().partitions.values()}
            return bool(leaders) and host.node_id not in leaders

        return f"{host.name} leads nothing" if seen_within(LEADS_NOTHING_S, leads_nothing) else ""

    def heal(self) -> None:
        """Undrain it."""
        lab, host = self._lab, self._host
        if lab is None or host is None:
            return
        if _ask(lab, ChangeBroker(host.node_id, draining=False), ChangeBrokerAnswer) is None:
            raise NotYetError(f"{host.name} stays drained")


MEMBERSHIP: Final = Family(
    "membership",
    "take controllers' votes away and give them back, also while they are cut off; drain brokers",
    {
        "controller": Variant(2, lambda: Voter(active=False, cut=False)),
        "active-controller": Variant(1, lambda: Voter(active=True, cut=False)),
        "cut-controller": Variant(2, lambda: Voter(active=False, cut=True)),
        "drain": Variant(2, Drained),
    },
    needs=("namespaces",),
    reduced="the network between controllers is cut by a proxy on loopback",
    equipment=(NETWORK,),
)
