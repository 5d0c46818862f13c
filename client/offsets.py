"""Trio shell: asks leaders for offsets, by time or at the ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from quorate.client.connections import RETRY, Cluster
from quorate.client.errors import error_for
from quorate.client.receiving.fetches import offsets_request
from quorate.client.routing.retries import Remedy, remedy_for
from quorate.errors import (
    MEANINGS,
    ErrorCode,
    NetworkError,
    QuorateError,
    RequestTimedOutError,
    known_code,
)
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.protocol.messages.data import ListOffsetsPartitionResponse, ListOffsetsResponse


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """An offset and the time of its record.

    Attributes:
        offset: The offset; -1 if no record is so late.
        timestamp_ms: The record's time; -1 if it was not asked for.
        leader_epoch: The epoch in which the record was written; -1 if the broker does not say.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
) -> dict[TopicPartition, TimestampOffset | QuorateError]:
    """Ask the leaders of partitions, anew where leaders change, until each gave a result.

    Args:
        cluster: whom to ask.
        timestamps: a time for each partition, or -1 (end), -2 (beginning), -3 (latest time).
        committed_only: whether the end is that of committed transactions.
    """
    results: dict[TopicPartition, TimestampOffset | QuorateError] = {}
    pending = dict(timestamps)
    attempts = 0
    with trio.move_on_after(cluster.settings.request_timeout_ms / 1000):
        while True:
            for topic_partition, result in (
                await _ask_once(cluster, pending, committed_only=committed_only)
            ).items():
                if result is not None:
                    results[topic_partition] = result
                    del pending[topic_partition]
            if not pending:
                return results
            attempts += 1
            cluster.refresh_soon()
            await trio.sleep(cluster.pause_s(RETRY, attempts))
    for topic_partition in pending:
        results[topic_partition] = RequestTimedOutError(
            f"no offset of {topic_partition} within {cluster.settings.request_timeout_ms} ms"
        )
    return results


async def _ask_once(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
) -> dict[TopicPartition, TimestampOffset | QuorateError | None]:
    """Return results, or None where another attempt may help."""
    results: dict[TopicPartition, TimestampOffset | QuorateError | None] = {}
    by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
    for topic_partition, timestamp in timestamps.items():
        try:
            leader_id = await cluster.leader_of(topic_partition)
        except QuorateError as error:
            results[topic_partition] = error
        else:
            by_leader.setdefault(leader_id, []).append((topic_partition, timestamp))
    for leader_id, asked in by_leader.items():
        request = offsets_request(
            asked, committed_only=committed_only, timeout_ms=cluster.settings.request_timeout_ms
        )
        try:
            connection = await cluster.reach(leader_id)
            response: ListOffsetsResponse = await connection.call(
                ApiKey.LIST_OFFSETS, request, timeout_ms=cluster.settings.request_timeout_ms
            )
        except NetworkError:  # somebody else may lead by now: not the same broker again and again
            results.update((topic_partition, None) for topic_partition, _ in asked)
            continue
        answers = {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        for topic_partition, _ in asked:
            results[topic_partition] = _result(topic_partition, answers.get(topic_partition))
    return results


def _result(
    topic_partition: TopicPartition, answer: ListOffsetsPartitionResponse | None
) -> TimestampOffset | QuorateError | None:
    if answer is None:
        return None
    code = known_code(answer.error_code)
    if code == ErrorCode.NONE:
        return TimestampOffset(answer.offset, answer.timestamp, answer.leader_epoch)
    if remedy_for(code) is Remedy.GIVE_UP:
        return error_for(code, f"no offset of {topic_partition}: {MEANINGS[code]}")
    return None
