"""Trio shell: asks leaders for offsets, by time or at the ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.leaders import Question, ask_leaders
from quorate.client.receiving.fetches import offsets_request
from quorate.dataclass import dataclass
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.client.connections import Cluster
    from quorate.errors import QuorateError
    from quorate.model import TopicPartition
    from quorate.protocol.messages.data import ListOffsetsPartitionResponse, ListOffsetsRequest


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

    def request(asked: list[tuple[TopicPartition, int]]) -> ListOffsetsRequest:
        timeout_ms = cluster.settings.request_timeout_ms
        return offsets_request(asked, committed_only=committed_only, timeout_ms=timeout_ms)

    question = Question(ApiKey.LIST_OFFSETS, "offset of", request, _found)
    return await ask_leaders(cluster, question, timestamps)


def _found(answer: ListOffsetsPartitionResponse) -> TimestampOffset:
    return TimestampOffset(answer.offset, answer.timestamp, answer.leader_epoch)
