"""Replicas of compacted logs: the same values, whatever each has removed by now."""

from quorate.records.batch import CONTROL_BIT, assign_offset
from quorate.tools.partitions.latest import LatestValues, agree
from tests.unit.broker.log.batches import make_batch


def batch(offset: int, *records: tuple[bytes | None, bytes | None], attributes: int = 0) -> bytes:
    values = [value for _, value in records]
    placed = make_batch(values, keys=[key for key, _ in records], attributes=attributes)
    assign_offset(placed, 0, offset, 0)
    return bytes(placed)


def latest(end: int, *batches: bytes) -> LatestValues:
    replica = LatestValues(0, end)
    for data in batches:
        assert replica.add(data)
    assert replica.is_done
    return replica


def test_replaced_records_may_be_there_or_not() -> None:
    whole = latest(3, batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2")))
    compacted = latest(3, batch(1, (b"b", b"1")), batch(2, (b"a", b"2")))
    assert agree([whole, compacted], 3)


def test_another_value_is_a_difference_and_so_is_another_offset_and_a_missing_key() -> None:
    right = latest(2, batch(0, (b"a", b"1"), (b"b", b"1")))
    for wrong in (
        batch(0, (b"a", b"1"), (b"b", b"2")),
        batch(0, (b"b", b"1"), (b"a", b"1")),
        batch(0, (b"a", b"1"), (b"c", b"1")),
    ):
        assert not agree([right, latest(2, wrong)], 2)


def test_tombstones_may_be_gone_but_what_they_remove_must_be_too() -> None:
    with_tombstone = latest(2, batch(0, (b"a", b"1"), (b"a", None)))
    without = latest(2, batch(0, (None, b"x"), (None, b"y")))
    undead = latest(2, batch(0, (b"a", b"1"), (None, b"y")))
    assert agree([with_tombstone, without], 2)
    assert not agree([with_tombstone, undead], 2)


def test_keys_that_only_some_have_heard_more_of_do_not_count() -> None:
    behind = latest(1, batch(0, (b"a", b"1")))
    ahead = latest(2, batch(1, (b"a", b"2")))
    assert agree([behind, ahead], 1)
    assert not agree([behind, ahead], 2)


def test_what_lies_behind_the_end_does_not_count() -> None:
    assert (
        latest(1, batch(0, (b"a", b"1"), (b"b", b"2"))).by_key.keys()
        == latest(1, batch(0, (b"a", b"1"))).by_key.keys()
    )


def test_ends_of_transactions_are_no_values() -> None:
    assert not latest(1, batch(0, (b"\0\0\0\1", b""), attributes=CONTROL_BIT)).by_key


def test_a_piece_without_a_whole_batch_brings_nothing() -> None:
    replica = LatestValues(0, 2)
    assert not replica.add(batch(0, (b"a", b"1"))[:-1])
    assert not replica.add(bytes(100))
    assert replica.add(batch(0, (b"a", b"1")))
    assert not replica.is_done
