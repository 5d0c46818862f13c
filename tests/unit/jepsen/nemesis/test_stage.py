"""Where directed scenarios play: who takes part, and on what network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from quorate.jepsen.lab.cluster import ClusterView, Lab, PartitionView
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.directed import early_joiner
from quorate.jepsen.nemesis.directed_nodes import forgotten_votes
from quorate.jepsen.nemesis.fault import NotNowError
from quorate.jepsen.nemesis.stage import TRIES, Directed, NotReachedError, Play, Stage

WHOLE = PartitionView(102, 1, frozenset({101, 102, 103}), (101, 102, 103))
LAGGING = PartitionView(103, 1, frozenset({102, 103}), (101, 102, 103))


@dataclass
class Node:
    """As much of a host as casting looks at."""

    node_id: int
    answers: bool = True
    runs: bool = True
    paused: bool = False

    @property
    def name(self) -> str:
        return f"node-{self.node_id}"


class Network:
    """Remembers what is cut and late."""

    def __init__(self, *, has_clients: bool) -> None:
        self.has_clients = has_clients
        self.late: Mapping[Any, float] = {(0, 1): 1.0}
        self.healed = False

    def slow(self, delays_s: Mapping[Any, float]) -> None:
        self.late = delays_s

    def heal(self, *, hard: bool) -> None:
        del hard
        self.healed = True


class Cluster:
    """As much of a lab as a stage looks at."""

    def __init__(self, network: Network, controllers: int = 3, **partitions: PartitionView) -> None:
        self.brokers = [Node(node_id) for node_id in (101, 102, 103)]
        self.controllers = [Node(node_id) for node_id in range(1, controllers + 1)]
        self.partitions = {name.replace("_", "-"): state for name, state in partitions.items()}
        self.equipment = self
        self.network = network

    def view(self) -> ClusterView:
        return ClusterView(1, self.partitions)

    def host(self, node_id: int) -> Node | None:
        return next((n for n in (*self.brokers, *self.controllers) if n.node_id == node_id), None)

    def active_controller(self) -> Node:
        return self.controllers[0]


def stage_on(cluster: Cluster, noted: list[str] | None = None) -> Stage:
    names: list[str] = [] if noted is None else noted

    def note(targets: Sequence[Host], **detail: Any) -> None:
        del detail
        names.extend(host.name for host in targets)

    return Stage(cast("Lab", cluster), Random(0), note)


PROXY = Network(has_clients=False)
NAMESPACES = Network(has_clients=True)


def test_the_cast_is_a_leader_and_its_followers_in_the_order_of_election() -> None:
    noted: list[str] = []
    cast_ = stage_on(Cluster(PROXY, append_0=WHOLE), noted).cast()
    assert (cast_.partition, cast_.leader.node_id) == ("append-0", 102)
    assert [host.node_id for host in cast_.others] == [101, 103]
    assert noted == ["node-102", "node-101", "node-103"]


def test_nobody_plays_where_replicas_lag_or_are_too_few_and_nothing_is_noted() -> None:
    noted: list[str] = []
    with pytest.raises(NotNowError, match="no partition with 2 replicas"):
        stage_on(Cluster(PROXY, append_0=LAGGING), noted).cast()
    with pytest.raises(NotNowError, match="no partition with 4 replicas"):
        early_joiner(stage_on(Cluster(PROXY, append_0=WHOLE), noted))
    assert noted == []


def test_scenarios_with_late_links_are_played_on_a_proxy_only() -> None:
    for play in (early_joiner, forgotten_votes):
        with pytest.raises(NotNowError, match="--network proxy"):
            play(stage_on(Cluster(NAMESPACES, append_0=WHOLE)))


def test_votes_are_forgotten_among_three_controllers_only() -> None:
    with pytest.raises(NotNowError, match="three controllers"):
        forgotten_votes(stage_on(Cluster(PROXY, controllers=1)))


def test_those_who_are_apart_hear_nothing_of_each_other() -> None:
    cluster = Cluster(PROXY)
    first, second, third = cast("list[Host]", cluster.brokers)
    apart = stage_on(cluster).apart([first], [second, third])
    assert apart == {(0, 1), (0, 2), (1, 0), (2, 0)}


def test_who_heals_has_links_in_time_again() -> None:
    network = Network(has_clients=False)
    stage = stage_on(Cluster(network))
    stage.heal(hard=True)
    assert not network.healed  # nobody has touched it
    assert stage.proxy is not None
    stage.heal(hard=True)
    assert (network.late, network.healed) == ({}, True)


def played(*outcomes: str | Exception) -> tuple[Directed, list[Stage]]:
    """Return a scenario that comes out so, one time after the other, and who played it."""
    played_on: list[Stage] = []

    def play(stage: Stage) -> str:
        outcome = outcomes[len(played_on)]
        played_on.append(stage)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Directed(cast("Play", play)), played_on


def inflict(fault: Directed) -> None:
    cluster = Cluster(Network(has_clients=False), append_0=WHOLE)
    fault.inflict(cast("Lab", cluster), Random(0), lambda targets, **detail: None)


def test_a_scenario_that_a_busy_machine_did_not_bring_to_its_end_is_played_again() -> None:
    fault, played_on = played(NotReachedError("no other leader"), "seen")
    inflict(fault)
    assert (fault.verified(), len(played_on)) == ("seen", 2)
    fault, played_on = played(*[NotReachedError("no other leader")] * TRIES)
    inflict(fault)
    assert (fault.verified(), len(played_on)) == ("", TRIES)


def test_what_is_not_possible_at_first_is_not_tried_again_and_later_it_ends_there() -> None:
    fault, played_on = played(NotNowError("not whole"), "seen")
    with pytest.raises(NotNowError):
        inflict(fault)
    assert len(played_on) == 1
    fault, _ = played(NotReachedError("no other leader"), NotNowError("not whole"))
    inflict(fault)
    assert fault.verified() == ""
