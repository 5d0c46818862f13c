"""What a change of the quorum would mean, and why it cannot be."""

import pytest

from quorate.tools.problems import CommandError, RefusedError, UsageError
from quorate.tools.quorum.plans import plan_add, plan_remove, plan_transfer
from quorate.tools.quorum.view import directory_text
from tests.unit.tools.quorum.pictures import DISK, NEW_DISK, leaderless, one, replica, three

OLD_3, NEW_3 = directory_text(DISK[3]), directory_text(NEW_DISK)


def test_an_observer_is_added_by_its_id_or_its_address() -> None:
    view = three(replica(4, 1235))
    plan = plan_add(view, "4", None)
    assert plan == plan_add(view, "127.0.0.1:9193", None)
    assert (plan.replica.node_id, plan.replica.directory_id) == (4, DISK[4])
    (row,) = plan.table().items()
    assert row == {
        "action": "add", "node_id": 4, "directory_id": directory_text(DISK[4]),
        "endpoint": "127.0.0.1:9193", "voters_before": [1, 2, 3], "voters_after": [1, 2, 3, 4],
        "majority_after": 3, "may_fail_after": 1,
    }  # fmt: skip


def test_who_does_not_follow_cannot_be_added() -> None:
    with pytest.raises(CommandError, match="no controller 5 follows") as refused:
        plan_add(three(replica(4, 1)), "5", None)
    assert refused.value.why.endswith("there is 4")
    assert "controller start --id 5" in refused.value.hint


def test_who_votes_already_cannot_be_added() -> None:
    with pytest.raises(RefusedError, match="controller 2 votes already"):
        plan_add(three(), "2", None)


def test_a_controller_with_a_new_disk_has_to_lose_the_vote_of_the_lost_one_first() -> None:
    view = three(replica(3, 1235, 20, NEW_DISK))
    with pytest.raises(RefusedError, match="with another disk") as refused:
        plan_add(view, "3", None)
    assert refused.value.hint == f"quorate quorum remove 3 --directory-id {OLD_3}"
    plan = plan_remove(view, "3", OLD_3)
    assert (plan.replica.directory_id, plan.voters_after) == (DISK[3], (1, 2))


def test_two_of_one_id_are_told_apart_by_their_disks() -> None:
    view = three(replica(4, 1), replica(4, 1, 20, NEW_DISK))
    with pytest.raises(UsageError, match="4 stands for 2 controllers"):
        plan_add(view, "4", None)
    assert plan_add(view, "4", NEW_3).replica.directory_id == NEW_DISK


def test_a_voter_is_removed() -> None:
    plan = plan_remove(three(), "127.0.0.1:9191", None)
    assert (plan.replica.node_id, plan.voters_before, plan.voters_after) == (2, (1, 2, 3), (1, 3))
    (row,) = plan.table().items()
    assert (row["majority_after"], row["may_fail_after"]) == (2, 0)


def test_only_a_voter_can_be_removed_and_not_the_last_one() -> None:
    with pytest.raises(CommandError, match="no controller 9 votes"):
        plan_remove(three(), "9", None)
    with pytest.raises(CommandError, match=f"votes with directory {NEW_3}"):
        plan_remove(three(), "3", NEW_3)
    with pytest.raises(RefusedError, match="the only voter"):
        plan_remove(one(), "1", None)


@pytest.mark.parametrize("directory", ["short", "not base64!"])
def test_what_is_no_directory_id_is_refused(directory: str) -> None:
    with pytest.raises(UsageError, match="no directory id"):
        plan_remove(three(), "3", directory)


def test_the_leadership_goes_to_a_voter_that_does_not_lead_yet() -> None:
    assert plan_transfer(three(), None) is None
    target = plan_transfer(three(), 2)
    assert target is not None
    assert target.node_id == 2
    with pytest.raises(UsageError, match="leads already"):
        plan_transfer(three(), 1)
    with pytest.raises(UsageError, match="does not vote"):
        plan_transfer(three(replica(4, 1235)), 4)


def test_without_a_leader_or_another_voter_nothing_can_be_handed_over() -> None:
    with pytest.raises(RefusedError, match="nobody leads"):
        plan_transfer(leaderless(), None)
    with pytest.raises(RefusedError, match="only voter"):
        plan_transfer(one(), None)
