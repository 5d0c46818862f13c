"""Version ranges and the least that a struct takes on the wire."""

import pytest

from quorate.protocol.fields import NO_VERSIONS, Versions, minimum_bytes, parse_versions
from quorate.protocol.messages.data import FetchPartition, PartitionData
from quorate.protocol.messages.metadata import DescribeTopicPartitionsResponse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3+", Versions(3, 32767)),
        ("0-2", Versions(0, 2)),
        ("7", Versions(7, 7)),
        (None, NO_VERSIONS),
    ],
)
def test_versions_are_written_as_in_kafka(text: str | None, expected: Versions) -> None:
    assert parse_versions(text) == expected


def test_a_range_of_versions_includes_both_ends() -> None:
    versions = parse_versions("2-4")
    assert [version in versions for version in range(1, 6)] == [False, True, True, True, False]
    assert 0 not in NO_VERSIONS


def test_the_least_that_a_struct_takes_depends_on_the_version() -> None:
    # Numbers, then an array and records with four-byte lengths.
    assert minimum_bytes(PartitionData, 4, flexible=False) == 4 + 2 + 8 + 8 + 4 + 4
    # Two more numbers, and three lengths or tag counts of one byte.
    assert minimum_bytes(PartitionData, 12, flexible=True) == 4 + 2 + 8 + 8 + 8 + 1 + 4 + 1 + 1
    assert minimum_bytes(FetchPartition, 17, flexible=True) == 4 + 4 + 8 + 4 + 8 + 4 + 1


def test_a_struct_that_may_be_null_takes_at_least_one_byte() -> None:
    assert minimum_bytes(DescribeTopicPartitionsResponse, 0, flexible=True) == 4 + 1 + 1 + 1
