"""What members of groups write down says in which assignment they were given what."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.jepsen.clients.grouping import Diary, Membership
from quorate.jepsen.history import HistoryReader, Kind, Operation, operations
from quorate.jepsen.recorder import Recorder

CLASSIC = Membership("127.0.0.1:9092", "g", "t")
COOPERATIVE = Membership("127.0.0.1:9092", "g", "t", strategy="cooperative-sticky")
KIP_848 = Membership("127.0.0.1:9092", "g", "t", protocol="consumer")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Membership, Callable[[Diary], None]], list[Operation]]:
    """Return what is in the history after somebody used a diary."""

    def write(membership: Membership, use: Callable[[Diary], None]) -> list[Operation]:
        recorder = Recorder(tmp_path / "history", {})
        use(Diary(recorder, membership))
        recorder.close()
        with (tmp_path / "history").open("rb") as file:
            return list(operations(HistoryReader(file)))

    return write


Written = Callable[[Membership, Callable[[Diary], None]], list[Operation]]


def test_a_poll_says_in_which_assignment_it_was_made(written: Written) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", 3, ["t-1", "t-0"])
        diary.begin_poll()
        diary.end_poll({"t-0": ([4, 5], [40, 50])})

    assign, poll = written(CLASSIC, use)
    assert assign.told == ["g", 3, "m", ["t-0", "t-1"]]
    assert poll.asked == [1, "g", 3, "m"]
    assert poll.told == [["t-0", [4, 5], [40, 50]]]


def test_what_came_after_a_rebalance_in_a_poll_belongs_to_no_certain_generation(
    written: Written,
) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", 3, ["t-0"])
        diary.begin_poll()
        diary.assigned("m", 4, ["t-1"])
        diary.end_poll({"t-1": ([7], [70])})

    _, _, before, after = written(CLASSIC, use)
    assert before.asked == [1, "g", 3, "m"]
    assert before.told == []
    assert after.asked == [2, "g", None, "m"]
    assert after.told == [["t-1", [7], [70]]]


def test_commits_are_of_what_was_given_in_this_assignment(written: Written) -> None:
    committed: list[dict[str, int]] = []

    def use(diary: Diary) -> None:
        diary.assigned("m", 3, ["t-0", "t-1"])
        diary.begin_poll()
        diary.end_poll({"t-0": ([4, 5], [40, 50])})
        committed.append(diary.begin_commit())
        diary.end_commit(Kind.OK)
        diary.revoked()
        committed.append(diary.begin_commit())

    *_, commit = written(CLASSIC, use)
    assert committed == [{"t-0": 6}, {}]
    assert commit.asked == ["g", [["t-0", 6]], "m", 3]
    assert commit.kind is Kind.OK


def test_who_reads_on_while_its_group_rebalances_says_no_generation_when_it_commits(
    written: Written,
) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", 3, ["t-0"])
        diary.begin_poll()
        diary.end_poll({"t-0": ([4], [40])})
        diary.begin_commit()
        diary.end_commit(Kind.OK)

    *_, commit = written(COOPERATIVE, use)
    assert commit.asked == ["g", [["t-0", 5]]]


def test_who_lost_its_partitions_has_no_generation(written: Written) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", 3, ["t-0"])
        diary.revoked()
        diary.begin_poll()
        diary.end_poll({})

    _, poll = written(CLASSIC, use)
    assert poll.asked == [2, "g", None, "m"]


def test_members_that_the_coordinator_assigns_say_of_which_epoch_that_is(
    written: Written,
) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", 7, ["t-0"])
        diary.begin_poll()
        diary.end_poll({"t-0": ([1], [10])})
        diary.begin_commit()
        diary.end_commit(Kind.INFO)

    assign, poll, commit = written(KIP_848, use)
    assert assign.told == ["g", 7, "m", ["t-0"]]
    assert poll.asked == [1, "g", 7, "m"]
    assert commit.asked == ["g", [["t-0", 2]]]
    assert commit.kind is Kind.INFO


def test_a_client_that_does_not_say_of_which_epoch_it_speaks_has_none(written: Written) -> None:
    def use(diary: Diary) -> None:
        diary.assigned("m", None, ["t-0"])
        diary.begin_poll()
        diary.end_poll({})

    (poll,) = written(KIP_848, use)
    assert poll.asked == [1, "g", None, "m"]
