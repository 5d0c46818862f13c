"""How far groups have read, folded from records: also by transactions under way."""

from quorate.broker.groups.offsets import CommittedOffsets
from quorate.broker.groups.records import (
    NO_EXPIRY,
    Committed,
    offset_key,
    offset_prefix,
    offset_value,
)
from quorate.broker.shards.effects import Entry

PRODUCER = 7


def key(group: str = "g", topic: str = "t", partition: int = 0) -> bytes:
    return offset_key(offset_prefix(group, topic), partition)


def at(offset: int) -> bytes:
    return offset_value(Committed(offset, -1, "", 1, NO_EXPIRY))


def read(offsets: CommittedOffsets, group: str = "g", topic: str = "t", n: int = 0) -> int | None:
    found = offsets.find(group, topic, n)
    return None if found is None else found.offset


def test_the_last_commit_counts() -> None:
    offsets = CommittedOffsets()
    assert read(offsets) is None
    offsets.replay(key(), at(5))
    offsets.replay(key(), at(3))
    offsets.replay(key(partition=1), at(8))
    offsets.replay(key(topic="u"), at(9))
    assert [read(offsets), read(offsets, n=1), read(offsets, topic="u")] == [3, 8, 9]
    assert [read(offsets, n=2), read(offsets, topic="v"), read(offsets, "h")] == [None] * 3


def test_a_group_is_gone_when_its_last_offset_is() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), at(5))
    offsets.replay(key(partition=1), at(5))
    offsets.replay(key(topic="u"), at(5))
    offsets.replay(key(partition=0), None)
    assert {t: list(p) for t, p in offsets.of_group("g").items()} == {"t": [1], "u": [0]}
    offsets.replay(key(partition=1), None)
    assert list(offsets.of_group("g")) == ["u"]
    offsets.replay(key(topic="u"), None)
    assert "g" not in offsets
    assert (list(offsets.groups()), offsets.of_group("g")) == ([], {})


def test_forgetting_what_is_not_known_changes_nothing() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), None)
    offsets.replay(key(), at(5))
    offsets.replay(key(topic="u"), None)
    assert read(offsets) == 5


def test_tombstones_take_everything_back_also_what_is_pending() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), at(5))
    offsets.replay(key(topic="u", partition=3), at(5))
    offsets.replay(key("other"), at(1))
    offsets.replay_pending(PRODUCER, key(), at(6))
    offsets.replay_pending(PRODUCER, key(partition=9), at(6))
    tombstones = list(offsets.tombstones("g"))
    assert tombstones == [
        Entry(key(), None),
        Entry(key(topic="u", partition=3), None),
        Entry(key(partition=9), None),
    ]
    for tombstone in tombstones:
        offsets.replay(*tombstone)
    offsets.end_transaction(PRODUCER, committed=True)
    assert list(offsets.groups()) == ["other"]


def test_what_a_transaction_commits_counts_when_it_has_committed() -> None:
    offsets = CommittedOffsets()
    offsets.replay(key(), at(1))
    offsets.replay_pending(PRODUCER, key(), at(5))
    offsets.replay_pending(PRODUCER, key(partition=1), None)
    assert (read(offsets), offsets.is_pending("g", "t", 0)) == (1, True)
    assert [where.partition for where in offsets.pending_of("g")] == [0]
    assert list(offsets.pending_of("h")) == []
    offsets.end_transaction(PRODUCER, committed=True)
    assert (read(offsets), offsets.is_pending("g", "t", 0)) == (5, False)


def test_what_a_transaction_commits_is_dropped_when_it_aborts() -> None:
    offsets = CommittedOffsets()
    offsets.replay_pending(PRODUCER, key(), at(5))
    offsets.end_transaction(PRODUCER, committed=False)
    offsets.end_transaction(PRODUCER + 1, committed=True)
    assert read(offsets) is None


def test_of_two_transactions_that_which_wrote_later_counts_whoever_ends_first() -> None:
    offsets = CommittedOffsets()
    for partition in range(2):
        offsets.replay_pending(PRODUCER, key(partition=partition), at(5))
        offsets.replay_pending(PRODUCER + 1, key(partition=partition), at(6))
    offsets.replay_pending(PRODUCER, key(partition=1), at(7))
    assert offsets.end_transaction(PRODUCER + 1, committed=True) == {"g": None}
    assert [read(offsets), read(offsets, n=1)] == [6, 6]
    assert offsets.is_pending("g", "t", 0)
    offsets.end_transaction(PRODUCER, committed=True)
    assert [read(offsets), read(offsets, n=1)] == [6, 7]
    assert not offsets.is_pending("g", "t", 0)


def test_of_two_transactions_one_that_aborts_overtakes_nothing() -> None:
    offsets = CommittedOffsets()
    offsets.replay_pending(PRODUCER, key(), at(5))
    offsets.replay_pending(PRODUCER + 1, key(), at(6))
    offsets.end_transaction(PRODUCER + 1, committed=False)
    offsets.end_transaction(PRODUCER, committed=True)
    assert read(offsets) == 5


def test_a_commit_after_that_of_a_transaction_outlives_its_end() -> None:
    offsets = CommittedOffsets()
    offsets.replay_pending(PRODUCER, key(), at(5))
    offsets.replay_pending(PRODUCER, key(partition=1), at(6))
    offsets.replay(key(), at(9))
    offsets.replay(key(partition=2), at(1))
    assert offsets.is_pending("g", "t", 0)
    offsets.end_transaction(PRODUCER, committed=True)
    assert [read(offsets), read(offsets, n=1)] == [9, 6]


def test_the_topics_of_which_offsets_are_known_are_those_of_transactions_too() -> None:
    offsets = CommittedOffsets()
    assert offsets.topics() == set()
    offsets.replay(key(), at(5))
    offsets.replay_pending(PRODUCER, key(topic="u"), at(6))
    assert offsets.topics() == {"t", "u"}
