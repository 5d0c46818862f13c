"""Quorums to look at in tests."""

from quorate.client.admin_results import QuorumDescription
from quorate.client.admin_results import QuorumReplica as ClientReplica
from quorate.control.messages import NO_NODE, DescribeQuorumAnswer, QuorumReplica
from quorate.model import Endpoint
from quorate.tools.quorum.view import QuorumView, Said, view_of_answers

NOW_MS = 1_700_000_000_000
CLUSTER = "q8KhB0aAsUtAtjBg1QMn2w"
DISK = {node_id: bytes([node_id]) * 16 for node_id in range(1, 10)}
NEW_DISK = b"n" * 16


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("127.0.0.1", 9189 + node_id)


def replica(
    node_id: int, log_end_offset: int, ago_ms: int = 20, directory_id: bytes = b""
) -> QuorumReplica:
    """A replica that the leader heard of and that had everything that long ago."""
    return QuorumReplica(
        node_id, log_end_offset, directory_id or DISK[node_id], endpoint(node_id),
        NOW_MS - ago_ms, NOW_MS - ago_ms,
    )  # fmt: skip


def said(
    node_id: int,
    *,
    leader_id: int = 1,
    term: int = 5,
    observers: tuple[QuorumReplica, ...] = (),
    disk_full: bool = False,
) -> Said:
    """What a controller of three says; only the leader knows how far the others are."""
    voters = [replica(1, 1235), replica(2, 1235), replica(3, 1230, 2_100)]
    if node_id != leader_id:
        voters = [QuorumReplica(v.node_id, -1, v.directory_id, v.endpoint) for v in voters]
    answer = DescribeQuorumAnswer(
        leader_id=leader_id, leader_epoch=term, high_watermark=1235, voters=tuple(voters),
        metadata_version=1200, observers=observers, log_bytes=1_234_567, snapshot_bytes=34_000,
        snapshot_index=1000 if node_id == 1 else 0, uptime_ms=node_id * 3_600_000,
        node_id=node_id, commit_index=1234, last_index=1234 if node_id < 3 else 1229,
        disk_full=disk_full,
    )  # fmt: skip
    return Said(CLUSTER, DISK[node_id], answer)


def three(*observers: QuorumReplica) -> QuorumView:
    """Three voters, the third behind; led by the first; the third cannot be asked itself."""
    return view_of_answers([said(2), said(1, observers=observers)], NOW_MS)


def full(*node_ids: int, leader_id: int = 1) -> QuorumView:
    """Three voters that all answer; the disks of some are full."""
    answers = [said(n, leader_id=leader_id, disk_full=n in node_ids) for n in (1, 2, 3)]
    return view_of_answers(answers, NOW_MS)


def one() -> QuorumView:
    """A quorum of one."""
    answer = DescribeQuorumAnswer(1, 1, 9, (replica(1, 9),), 8, node_id=1)
    return view_of_answers([Said(CLUSTER, DISK[1], answer)], NOW_MS)


def leaderless() -> QuorumView:
    """Nobody leads; the first and the second answer."""
    return view_of_answers([said(1, leader_id=NO_NODE), said(2, leader_id=NO_NODE)], NOW_MS)


def description() -> QuorumDescription:
    """What a broker says of the same three."""
    voters = [
        ClientReplica(
            v.node_id, v.log_end_offset, v.directory_id, v.endpoint, v.last_fetch_ms,
            v.last_caught_up_ms,
        )
        for v in said(1).answer.voters
    ]  # fmt: skip
    return QuorumDescription(1, 5, 1235, tuple(voters))
