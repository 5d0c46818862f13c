import warnings
from collections import Counter
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.sending.partitioner import StickyTurns, murmur2, partition_for_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner import default as kafka_python


def theirs(key: bytes) -> int:
    return cast("int", kafka_python.murmur2(key))  # pyright: ignore[reportUnknownMemberType]


# Hashes that Kafka's own tests give for its Utils.murmur2, as signed numbers.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(key=st.binary(max_size=60))
def test_hashes_are_those_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == theirs(key) % 2**32


@given(key=st.binary(max_size=60), count=st.integers(1, 1_000))
def test_keys_go_where_the_hash_of_kafka_python_sends_them(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == (theirs(key) & 0x7FFFFFFF) % count


def test_partitions_without_keys_take_turns() -> None:
    turns = StickyTurns(Random(7))
    chosen = Counter(turns.next([0, 2, 5]) for _ in range(300))
    assert chosen == {0: 100, 2: 100, 5: 100}


def test_where_turns_begin_is_chance() -> None:
    first = {StickyTurns(Random(seed)).next(range(4)) for seed in range(50)}
    assert first == {0, 1, 2, 3}
