"""Requests about the offsets of groups, and what their answers say (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.groups.results import OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BY_NAME_MAX: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones have ids."""

NO_MEMBER: Final = -1
"""The generation of who commits without being a member."""


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_id: int = NO_MEMBER,
    member_id: str = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Return the request to remember how far a group has read.

    Args:
        group_id: The group.
        offsets: The next offset to read of each partition.
        generation_id: The member's generation, or its epoch (KIP-848); -1 for who is no member.
        member_id: The member.
        instance_id: Its ``group.instance.id``, if it is a static one.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        if topic not in topics:
            topics[topic] = OffsetCommitRequestTopic(name=topic)
        topics[topic].partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )


def commit_codes(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """Return what became of each offset: an error code, 0 if it is remembered."""
    return {
        TopicPartition(topic.name, told.partition_index): told.error_code
        for topic in response.topics
        for told in topic.partitions
    }


def fetch_request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    member_id: str | None = None,
    member_epoch: int = NO_MEMBER,
) -> OffsetFetchRequest:
    """Return the question how far a group has read; None for all partitions of which it knows.

    Args:
        group_id: The group.
        partitions: Which partitions.
        require_stable: Refuse while offsets of open transactions are pending (KIP-447).
        member_id: Who asks, in groups of KIP-848.
        member_epoch: Its epoch there.
    """
    by_topic: dict[str, list[int]] | None = None
    if partitions is not None:
        by_topic = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        topics=None
        if by_topic is None
        else [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in by_topic.items()],
    )
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if by_topic is None
        else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in by_topic.items()],
        groups=[group],
        require_stable=require_stable,
    )


def fetch_codes(response: OffsetFetchResponse) -> set[int]:
    """Return all error codes of an answer about one group."""
    codes = {response.error_code, *(group.error_code for group in response.groups)}
    return codes | {code for _, code in _fetched(response).values()}


def fetched_offsets(response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets in an answer; partitions without one are left out."""
    return {
        partition: committed
        for partition, (committed, _) in _fetched(response).items()
        if committed.offset >= 0
    }


def _fetched(response: OffsetFetchResponse) -> dict[TopicPartition, tuple[OffsetAndMetadata, int]]:
    found = {
        TopicPartition(topic.name, told.partition_index): _one(told)
        for topic in response.topics
        for told in topic.partitions
    }
    return found | {
        TopicPartition(topic.name, told.partition_index): _one(told)
        for group in response.groups
        for topic in group.topics
        for told in topic.partitions
    }


def _one(
    told: OffsetFetchResponsePartition | OffsetFetchResponsePartitions,
) -> tuple[OffsetAndMetadata, int]:
    epoch, metadata = told.committed_leader_epoch, told.metadata or ""
    return OffsetAndMetadata(told.committed_offset, epoch, metadata), told.error_code


def delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Return the request to forget offsets of a group."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        if topic not in topics:
            topics[topic] = OffsetDeleteRequestTopic(name=topic)
        topics[topic].partitions.append(OffsetDeleteRequestPartition(partition_index=partition))
    return OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))


def delete_codes(response: OffsetDeleteResponse) -> dict[TopicPartition, int]:
    """Return what became of each offset: an error code, 0 if it is forgotten."""
    return {
        TopicPartition(topic.name, told.partition_index): told.error_code
        for topic in response.topics
        for told in topic.partitions
    }
