"""Requests of transactional producers, and what the answers say (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.errors import ErrorCode, known_code
from quorate.model import TopicPartition
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.sending.accumulator import ProducerIdentity

ADD_PARTITIONS_VERSION_MAX: Final = 3
"""Later versions are for brokers only (KIP-890)."""

PRODUCE_VERSION_MAX_V1: Final = 11
END_VERSION_MAX_V1: Final = 4
OFFSETS_VERSION_MAX_V1: Final = 4
"""The last versions with which a client says that it follows version 1 of transactions."""

NO_PRODUCER_ID: Final = -1


def init_request(
    transactional_id: str, timeout_ms: int, identity: ProducerIdentity | None
) -> InitProducerIdRequest:
    """Return the request for a producer id.

    Args:
        transactional_id: Whose.
        timeout_ms: How long a transaction may stay open.
        identity: What the producer has, if it asks for another epoch only (KIP-360); None fences
            whoever else uses the transactional id.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    if identity is not None:
        request.producer_id, request.producer_epoch = identity.producer_id, identity.epoch
    return request


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Return the request to have partitions take part in the transaction."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in sorted(partitions):
        if topic not in topics:
            topics[topic] = AddPartitionsToTxnTopic(name=topic)
        topics[topic].partitions.append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=list(topics.values()),
    )


def added_codes(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    """Return what became of each partition."""
    return {
        TopicPartition(topic.name, told.partition_index): known_code(told.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for told in topic.results_by_partition
    }


def worst_of(codes: Iterable[ErrorCode]) -> ErrorCode:
    """Return the code that says most: of the partition that failed, and not of those left out."""
    failed = sorted(code for code in codes if code != ErrorCode.NONE)
    told = [code for code in failed if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter(told or failed), ErrorCode.NONE)


def add_offsets_request(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> AddOffsetsToTxnRequest:
    """Return the request to have a group's offsets take part in the transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def end_request(
    transactional_id: str, identity: ProducerIdentity, *, committed: bool
) -> EndTxnRequest:
    """Return the request to end the transaction; asked again, it gets the same answer."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )


def offsets_request(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    """Return the request to commit offsets with the transaction (KIP-98, KIP-447)."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        if topic not in topics:
            topics[topic] = TxnOffsetCommitRequestTopic(name=topic)
        topics[topic].partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


def offset_codes(response: TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """Return what became of each offset."""
    return {
        TopicPartition(topic.name, told.partition_index): known_code(told.error_code)
        for topic in response.topics
        for told in topic.partitions
    }
