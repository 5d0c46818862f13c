"""Requests about offsets of groups, in versions with one group and with many."""

from typing import Any

import pytest

from quorate.client.groups.offsets import (
    commit_codes,
    commit_request,
    delete_codes,
    delete_request,
    fetch_codes,
    fetch_request,
    fetched_offsets,
)
from quorate.client.groups.results import OffsetAndMetadata
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.message import decoder, encoder
from quorate.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def through(message: Any, version: int) -> Any:
    """Return what a broker of that version reads of a request."""
    cls: type[Any] = message.__class__
    parts: list[Any] = []
    encoder(cls, version)(message, parts)
    data = b"".join(parts)
    return decoder(cls, version)(data, 0, len(data))[0]


def test_offsets_are_committed_by_topic_with_epoch_and_metadata() -> None:
    offsets = {T0: OffsetAndMetadata(5, 2, "m"), U0: OffsetAndMetadata(0), T1: OffsetAndMetadata(7)}
    request = commit_request("g", offsets, generation_id=4, member_id="me", instance_id="i")
    told = through(request, 9)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in told.topics] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]
    first = told.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_leader_epoch, first.committed_metadata) == (
        5,
        2,
        "m",
    )
    identity = (told.generation_id_or_member_epoch, told.member_id, told.group_instance_id)
    assert identity == (4, "me", "i")


def test_who_is_no_member_commits_with_generation_minus_one() -> None:
    request = commit_request("g", {T0: OffsetAndMetadata(5)})
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("partitions", [None, [T0, U0, T1]])
def test_offsets_are_asked_for_in_every_version(
    version: int, partitions: list[TopicPartition] | None
) -> None:
    request = fetch_request("g", partitions, require_stable=True, member_id="m", member_epoch=3)
    told = through(request, version)
    (asked,) = [told] if version < 8 else told.groups
    topics = asked.topics
    assert (asked.group_id, told.require_stable) == ("g", True)
    if partitions is None:
        assert topics is None
    else:
        assert [(t.name, t.partition_indexes) for t in topics] == [("t", [0, 1]), ("u", [0])]
    if version >= 9:
        assert (asked.member_id, asked.member_epoch) == ("m", 3)


def test_offsets_are_read_from_answers_about_one_group() -> None:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata=None
        ),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=""),
    ]
    nothing_read = OffsetFetchResponsePartition(partition_index=0, committed_offset=0, metadata="")
    response = OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name="t", partitions=partitions),
            OffsetFetchResponseTopic(name="u", partitions=[nothing_read]),
        ]
    )
    # An offset of 0 is one: who took it for none would begin at the end, by default.
    assert fetched_offsets(response) == {
        T0: OffsetAndMetadata(5, 2, ""),
        U0: OffsetAndMetadata(0, -1, ""),
    }
    assert fetch_codes(response) == {0}


def test_offsets_are_read_from_answers_about_many_groups() -> None:
    partition = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=5, metadata="m", error_code=0
    )
    pending = OffsetFetchResponsePartitions(
        partition_index=1,
        committed_offset=-1,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=[partition, pending])
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=16)
    response = OffsetFetchResponse(groups=[group])
    assert fetched_offsets(response) == {T0: OffsetAndMetadata(5, -1, "m")}
    assert fetch_codes(response) == {0, 16, ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_what_became_of_each_offset_is_told() -> None:
    committed = OffsetCommitResponseTopic(
        name="t", partitions=[OffsetCommitResponsePartition(partition_index=1, error_code=25)]
    )
    assert commit_codes(OffsetCommitResponse(topics=[committed])) == {T1: 25}
    deleted = OffsetDeleteResponseTopic(
        name="t", partitions=[OffsetDeleteResponsePartition(partition_index=1, error_code=86)]
    )
    assert delete_codes(OffsetDeleteResponse(topics=[deleted])) == {T1: 86}


def test_offsets_are_forgotten_by_topic() -> None:
    told = through(delete_request("g", [T0, U0, T1]), 0)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in told.topics] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]
