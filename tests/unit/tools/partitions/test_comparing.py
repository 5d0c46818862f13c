"""Replicas compared by hash: the same, different from an offset on, or not read."""

from quorate.model import TopicPartition
from quorate.records.batch import HEADER
from quorate.tools.partitions.comparing import (
    AGREED,
    DIFFERENT,
    SAME,
    UNREAD,
    Compared,
    Range,
    ReplicaHash,
    Standing,
    common_range,
)

T = TopicPartition("t", 0)


def batch(base: int, count: int, content: bytes = b"x") -> bytes:
    """A batch as far as comparing goes: offsets, length, and something in it."""
    length = HEADER.size - 12 + len(content)
    head = HEADER.pack(base, length, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    return head + content


def hashed(wanted: Range, *pieces: bytes) -> ReplicaHash:
    replica = ReplicaHash(wanted)
    for piece in pieces:
        replica.add(piece)
    return replica


def compared(offsets: Range, **replicas: bytes) -> Compared:
    hashes = {int(name[1:]): hashed(offsets, data) for name, data in replicas.items()}
    return Compared(T, offsets, hashes, {})


def test_only_what_all_replicas_have_committed_is_compared() -> None:
    assert common_range([Standing(0, 10), Standing(3, 12), Standing(2, 8)]) == Range(3, 8)
    assert common_range([Standing(9, 12), Standing(0, 8)]) == Range(9, 9)


def test_how_the_batches_arrive_makes_no_difference() -> None:
    log = batch(0, 3) + batch(3, 1, b"yy") + batch(4, 6)
    whole = hashed(Range(0, 10), log)
    bits = hashed(Range(0, 10), log[:80], log[len(batch(0, 3)) :])
    assert whole.is_done
    assert bits.is_done
    assert whole.sha256 == bits.sha256
    assert (len(whole.ends), whole.size_bytes) == (3, len(log))


def test_a_piece_without_a_whole_batch_brings_nothing() -> None:
    replica = ReplicaHash(Range(0, 10))
    assert not replica.add(batch(0, 3)[:-1])
    assert not replica.add(b"")
    assert replica.add(batch(0, 3) + batch(3, 3)[:-1])
    assert replica.position == 3


def test_a_length_that_cannot_be_brings_nothing() -> None:
    assert not ReplicaHash(Range(0, 10)).add(bytes(100))


def test_batches_that_reach_beyond_the_range_do_not_count() -> None:
    replica = hashed(Range(2, 5), batch(0, 3) + batch(3, 2) + batch(5, 4))
    assert replica.is_done
    assert list(replica.ends) == [5]
    assert hashed(Range(0, 5), batch(0, 3) + batch(3, 9)).is_done


def test_replicas_with_the_same_batches_are_the_same() -> None:
    log = batch(0, 3) + batch(3, 2)
    result = compared(Range(0, 5), b1=log, b2=log, b3=log)
    assert (result.verdict, result.text(), result.first_difference) == (SAME, SAME, None)


def test_the_first_difference_is_named() -> None:
    log = batch(0, 3) + batch(3, 2)
    other = batch(0, 3) + batch(3, 2, b"z")
    result = compared(Range(0, 5), b1=log, b2=other, b3=log)
    assert (result.verdict, result.first_difference) == (DIFFERENT, 3)
    digests = [hashed(Range(0, 5), each).sha256[:8] for each in (log, other)]
    assert result.text() == (f"different from offset 3 on: {digests[0]} on 1,3, {digests[1]} on 2")
    assert compared(Range(0, 5), b1=log, b2=batch(0, 5)).first_difference == 0
    assert compared(Range(0, 6), b1=log, b2=log + batch(5, 1)).first_difference == 5


def test_what_was_not_read_is_told_once_for_all_it_is_true_of() -> None:
    result = Compared(T, Range(0, 5), {}, {3: "gone", 1: "gone", 2: "full"})
    assert (result.verdict, result.text()) == (UNREAD, "not read: gone on 1,3, full on 2")


def test_replicas_that_were_compacted_may_agree_without_being_equal() -> None:
    result = compared(Range(0, 3), b1=batch(0, 3), b2=batch(0, 3, b"y"))
    agreed = Compared(T, result.offsets, result.hashes, {}, agree=True)
    assert (agreed.verdict, agreed.text(), agreed.are_equal) == (SAME, AGREED, False)
    assert agreed.first_difference is None
