"""One picture of the quorum out of what several say."""

import pytest

from quorate.control.messages import NO_NODE, DescribeQuorumAnswer, QuorumReplica
from quorate.tools.quorum.view import (
    OwnState,
    QuorumView,
    Said,
    parse_directory,
    replication_table,
    status_table,
    view_of_answers,
    view_of_description,
)
from tests.unit.tools.quorum.pictures import (
    CLUSTER,
    DISK,
    NEW_DISK,
    NOW_MS,
    description,
    endpoint,
    full,
    leaderless,
    one,
    replica,
    said,
    three,
)


def lags(view: QuorumView) -> list[tuple[int, str, int | None, int | None]]:
    return [(r.node_id, r.role, view.lag(r), view.behind_ms(r)) for r in view.replicas]


def test_the_leader_knows_how_far_everybody_is() -> None:
    view = three(replica(4, 1000, 60_000))
    assert (view.leader_id, view.leader_epoch, view.high_watermark) == (1, 5, 1235)
    assert (view.cluster_id, view.metadata_version, view.majority) == (CLUSTER, 1200, 2)
    assert lags(view) == [
        (1, "leader", 0, 0),
        (2, "follower", 0, 0),
        (3, "follower", 5, 2_100),
        (4, "observer", 235, 60_000),
    ]
    assert [v.node_id for v in view.voters] == [1, 2, 3]
    assert [o.node_id for o in view.observers] == [4]


def test_each_tells_its_own_sizes_and_age_and_those_that_do_not_answer_none() -> None:
    first, second, third = three().replicas
    assert first.own == OwnState(1_234_567, 34_000, 1001, 3_600_000, disk_full=False)
    assert second.own is not None
    assert (second.own.snapshot_offset, second.own.uptime_ms) == (0, 7_200_000)
    assert third.own is None


def test_programs_are_told_whose_disk_is_full() -> None:
    (item,) = status_table(full(2)).items()
    assert [voter["disk_full"] for voter in item["voters"]] == [False, True, False]
    (item,) = status_table(three()).items()
    assert [voter["disk_full"] for voter in item["voters"]] == [False, False, None]


def test_a_controller_with_a_new_disk_does_not_speak_for_the_lost_one() -> None:
    answer = DescribeQuorumAnswer(1, 5, 9, (), 8, node_id=3, uptime_ms=77)
    new = Said(CLUSTER, NEW_DISK, answer)
    view = view_of_answers([said(1, observers=(replica(3, 9, 5, NEW_DISK),)), new], NOW_MS)
    owns = [(r.role, None if r.own is None else r.own.uptime_ms) for r in view.replicas[2:]]
    assert owns == [("follower", None), ("observer", 77)]


def test_who_led_before_is_not_believed() -> None:
    view = view_of_answers([said(1, leader_id=1, term=5), said(2, leader_id=2, term=6)], NOW_MS)
    assert (view.leader_id, view.leader_epoch) == (2, 6)
    view = view_of_answers([said(3, leader_id=1), said(1, leader_id=1)], NOW_MS)
    assert view.lag(view.replicas[2]) == 5, "of those in one term the leader knows most"


def test_a_leader_that_says_itself_that_it_leads_no_more_is_believed() -> None:
    view = view_of_answers([said(2, leader_id=1), said(1, leader_id=NO_NODE)], NOW_MS)
    assert (view.leader_id, view.leader_epoch) == (None, 5)
    view = view_of_answers([said(1, leader_id=NO_NODE, term=4), said(2, leader_id=1)], NOW_MS)
    assert view.leader_id == 1, "that was before it was elected"


def test_without_a_leader_those_that_answer_tell_how_far_they_are() -> None:
    view = leaderless()
    assert (view.leader_id, view.leader, view.leader_epoch) == (None, None, 5)
    assert [r.log_end_offset for r in view.replicas] == [1235, 1235, -1]
    assert {view.lag(r) for r in view.replicas} == {None}


def test_what_a_broker_says_is_completed_by_the_controllers_that_answer() -> None:
    alone = view_of_description(description(), [], CLUSTER, NOW_MS)
    assert lags(alone) == lags(three())
    assert alone.metadata_version is None
    assert [r.own for r in alone.replicas] == [None, None, None]
    completed = view_of_description(description(), [said(1), said(2)], CLUSTER, NOW_MS)
    assert completed == three()


def test_for_programs_a_quorum_is_one_row_with_a_list_of_replicas() -> None:
    (item,) = status_table(three(replica(4, 1235))).items()
    assert item["leader_id"] == 1
    assert [v["node_id"] for v in item["voters"]] == [1, 2, 3]
    assert item["voters"][2] == {
        "node_id": 3, "role": "follower", "endpoint": str(endpoint(3)), "log_end_offset": 1230,
        "lag": 5, "behind_ms": 2_100, "last_fetch_ms": NOW_MS - 2_100,
        "last_caught_up_ms": NOW_MS - 2_100, "directory_id": "AwMDAwMDAwMDAwMDAwMDAw",
        "log_bytes": None, "snapshot_bytes": None, "snapshot_offset": None, "uptime_ms": None,
        "disk_full": None,
    }  # fmt: skip
    assert [o["node_id"] for o in item["observers"]] == [4]
    (item,) = status_table(leaderless()).items()
    assert item["leader_id"] is None


def test_replication_is_a_row_a_replica_and_what_is_not_known_is_null() -> None:
    rows = replication_table(three()).items()
    assert [row["lag"] for row in rows] == [0, 0, 5]
    unknown = QuorumReplica(1, -1)
    answer = DescribeQuorumAnswer(NO_NODE, 0, 0, (unknown,), 0)
    (row,) = replication_table(view_of_answers([Said("", DISK[1], answer)], NOW_MS)).items()
    assert {row[name] for name in ("endpoint", "log_end_offset", "lag", "last_fetch_ms")} == {None}
    assert (row["behind_ms"], row["directory_id"]) == (None, None)


@pytest.mark.parametrize("text", ["", "x", "AwMDAwMDAwMDAwMDAwMDAwMD", "!!!!", "é" * 22])
def test_what_is_no_directory_id_is_not_taken_for_one(text: str) -> None:
    assert parse_directory(text) is None
    (only,) = one().replicas
    assert parse_directory(only.directory_text) == DISK[1]
