"""Whom a fault hits: who has a role now."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import cast

import pytest

from quorate.jepsen.lab.cluster import ClusterView, Lab, PartitionView
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import NotNowError


@dataclass
class Node:
    """As much of a host as is looked at."""

    node_id: int
    data: Path
    answers: bool = True


class Cluster:
    """As much of a lab as is looked at; who leads which partition."""

    def __init__(self, folder: Path, leaders: dict[str, int]) -> None:
        self._leaders = leaders
        self.nodes = {node_id: Node(node_id, folder / str(node_id)) for node_id in (101, 102)}

    def view(self) -> ClusterView:
        states = {
            name: PartitionView(leader, 1, frozenset({leader}), (leader,))
            for name, leader in self._leaders.items()
        }
        return ClusterView(1, states)

    def leader_of(self, partition: str) -> Node:
        return self.nodes[self._leaders[partition]]

    def write(self, partition: str, data: bytes) -> None:
        folder = self.leader_of(partition).data / partition
        folder.mkdir(parents=True)
        (folder / "0.log").write_bytes(data)


def as_lab(cluster: Cluster) -> Lab:
    return cast("Lab", cluster)


@pytest.mark.parametrize(
    ("topic", "coordinator"),
    [
        ("__transaction_state", roles.transaction_coordinator),
        ("__consumer_offsets", roles.group_coordinator),
    ],
)
def test_who_coordinates_leads_a_partition_in_which_something_is_kept(
    tmp_path: Path, topic: str, coordinator: roles.Choose
) -> None:
    leaders = {f"{topic}-0": 101, f"{topic}-1": 102, "t-0": 101}
    cluster = Cluster(tmp_path, leaders)
    cluster.write(f"{topic}-0", b"")
    cluster.write(f"{topic}-1", b"x")
    cluster.write("t-0", b"x")
    for seed in range(5):
        (host,) = coordinator(as_lab(cluster), Random(seed))
        assert host.node_id == 102
    cluster.nodes[102].answers = False
    with pytest.raises(NotNowError, match="nobody coordinates"):
        coordinator(as_lab(cluster), Random(0))


def test_who_leads_internal_partitions_only_is_no_leader_that_users_write_to(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, {"__transaction_state-0": 101, "t-0": 102})
    for seed in range(5):
        (host,) = roles.writing_leader(as_lab(cluster), Random(seed))
        assert host.node_id == 102
