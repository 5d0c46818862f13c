"""What is kept of a micro-batch that is written exactly once, and what it means."""

import pytest

from quorate.client.groups.results import OffsetAndMetadata
from quorate.client.spark.two_phase import (
    KEEPER_TOPIC,
    PIECE_CHARS,
    Decision,
    DecisionError,
    OpenTransaction,
    Place,
    Standing,
    decided,
    decision_from,
    decision_group,
    is_gone,
    is_marked,
    mark_key,
    mark_of,
    pieces_of,
    transactional_id,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition

QUERY = "5f3c7f5e-0a53-4c39-9c27-5d1c6d0d9c11"


def transactions(count: int) -> list[OpenTransaction]:
    return [OpenTransaction(Place(QUERY, 7, i), 10**12 + i, i % 30_000) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 300, 5_000])
def test_a_decision_is_read_as_it_was_written(count: int) -> None:
    decision = decided(transactions(count))
    pieces = pieces_of(decision, width=50)
    assert all(len(piece.metadata) < PIECE_CHARS + 96 for piece in pieces.values())
    assert decision_from(pieces) == decision
    assert {piece.offset for piece in pieces.values()} == {8}


@pytest.mark.parametrize("standing", [Standing.DONE, Standing.PARTLY])
def test_what_is_settled_is_short_and_hides_longer_ones_before(standing: Standing) -> None:
    decision = decided(transactions(5_000))
    settled = decision.settled(standing)
    kept = {**pieces_of(decision, width=50), **pieces_of(settled, width=1)}
    assert decision_from(kept) == settled == Decision(QUERY, 7, standing)


def test_nothing_is_no_decision() -> None:
    assert decision_from({}) is None


def test_too_many_tasks_are_refused() -> None:
    with pytest.raises(DecisionError, match=r"5000 tasks are too many .* has 2\. Reduce"):
        pieces_of(decided(transactions(5_000)), width=2)


@pytest.mark.parametrize("metadata", ["", "hello", "1|1|0|q|7|done|", "2|1|0|q|7|done|", "1|9|0|"])
def test_what_others_wrote_is_no_decision(metadata: str) -> None:
    kept = {TopicPartition(KEEPER_TOPIC, 0): OffsetAndMetadata(8, metadata=metadata)}
    with pytest.raises(DecisionError, match="is the group in use by somebody else"):
        decision_from(kept)


def test_a_piece_of_another_decision_is_noticed() -> None:
    pieces = pieces_of(decided(transactions(500)), width=50)
    other = pieces_of(decided(transactions(600)[1:]), width=50)
    second = TopicPartition(KEEPER_TOPIC, 1)
    with pytest.raises(DecisionError):
        decision_from({**pieces, second: other[second]})


@pytest.mark.parametrize(
    ("standing", "place", "covers"),
    [
        (Standing.DONE, Place("q", 7, 0), True),
        (Standing.DONE, Place("q", 6, 3), True),
        (Standing.DONE, Place("q", 8, 0), False),
        (Standing.DONE, Place("other", 7, 0), False),
        (Standing.DECIDED, Place("q", 7, 0), False),
        (Standing.PARTLY, Place("q", 7, 0), False),
    ],
)
def test_only_what_is_done_covers_its_places(
    standing: Standing, place: Place, covers: bool
) -> None:
    assert Decision("q", 7, standing).covers(place) is covers


def test_a_decision_is_about_one_micro_batch() -> None:
    decision = Decision("q", 7, Standing.PARTLY)
    assert decision.is_about("q", 7)
    assert not decision.is_about("q", 8)
    assert not decision.is_about("other", 7)


@pytest.mark.parametrize(
    ("written", "asked", "marked"),
    [
        (Place("q", 7, 0), Place("q", 7, 0), True),
        (Place("q", 8, 0), Place("q", 7, 0), True),
        (Place("q", 6, 0), Place("q", 7, 0), False),
        (Place("other", 7, 0), Place("q", 7, 0), False),
    ],
)
def test_a_mark_is_for_one_query_and_its_micro_batches_so_far(
    written: Place, asked: Place, marked: bool
) -> None:
    assert is_marked(mark_of(written), asked) is marked


def test_no_mark_marks_nothing() -> None:
    assert not is_marked(None, Place("q", 0, 0))


def test_a_sink_is_told_by_its_prefix() -> None:
    assert [transactional_id("job", slot) for slot in (0, 11)] == ["job-0", "job-11"]
    assert decision_group("job") == "quorate-spark-job"


def test_every_slot_has_a_mark_of_its_own() -> None:
    keys = [mark_key("job", slot, 3) for slot in range(7)]
    assert len(set(keys)) == 7
    assert keys[4] == ("quorate-spark.1.job", TopicPartition(KEEPER_TOPIC, 1))


@pytest.mark.parametrize(
    ("code", "gone"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True),
        (ErrorCode.PRODUCER_FENCED, True),
        (ErrorCode.INVALID_TXN_STATE, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False),
    ],
)
def test_what_endtxn_says_of_a_transaction_that_is_over(code: ErrorCode, gone: bool) -> None:
    assert is_gone(code) is gone
