"""Trio shell: offsets that groups have committed, asked for and changed at the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.errors import error_for
from quorate.client.groups.offsets import (
    BY_NAME_MAX,
    commit_codes,
    commit_request,
    delete_codes,
    delete_request,
    fetch_codes,
    fetch_request,
    fetched_offsets,
)
from quorate.errors import MEANINGS, known_code
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from quorate.client.coordinators import Coordinators
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.errors import KafkaError, QuorateError
    from quorate.model import TopicPartition
    from quorate.protocol.messages.offsets import OffsetDeleteResponse, OffsetFetchResponse


async def fetch_offsets(
    coordinators: Coordinators,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return how far a group has read; partitions without an offset are left out.

    Args:
        coordinators: Whom to ask.
        group_id: The group; one that does not exist has read nothing.
        partitions: Which partitions; None for all of which the group has an offset.
        require_stable: Refuse while offsets of open transactions are pending (KIP-447).

    Raises:
        KafkaError: It cannot be found out.
    """
    request = fetch_request(group_id, partitions, require_stable=require_stable)
    response: OffsetFetchResponse = await coordinators.call(
        group_id, ApiKey.OFFSET_FETCH, request, fetch_codes, version_max=BY_NAME_MAX
    )
    for number in sorted(fetch_codes(response)):
        if number:
            raise _error(number, f"offsets of group {group_id!r}")
    return fetched_offsets(response)


async def commit_offsets(
    coordinators: Coordinators,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_id: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> dict[TopicPartition, QuorateError | None]:
    """Have a group remember offsets; returns an error or None for each partition.

    Who is no member of the group (a generation of -1) may do so only while nobody is.

    Raises:
        KafkaError: The coordinator cannot be reached.
    """
    if not offsets:
        return {}
    request = commit_request(
        group_id,
        offsets,
        generation_id=generation_id,
        member_id=member_id,
        instance_id=instance_id,
    )
    response = await coordinators.call(
        group_id,
        ApiKey.OFFSET_COMMIT,
        request,
        lambda told: commit_codes(told).values(),
        version_max=BY_NAME_MAX,
    )
    return _results(commit_codes(response), group_id)


async def delete_offsets(
    coordinators: Coordinators, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, QuorateError | None]:
    """Have a group forget offsets; returns an error or None for each partition.

    Raises:
        KafkaError: There is no such group, or its coordinator cannot be reached.
    """
    request = delete_request(group_id, partitions)
    response: OffsetDeleteResponse = await coordinators.call(
        group_id,
        ApiKey.OFFSET_DELETE,
        request,
        lambda told: (told.error_code, *delete_codes(told).values()),
    )
    if response.error_code:
        raise _error(response.error_code, f"group {group_id!r}")
    return _results(delete_codes(response), group_id)


def _results(
    codes: Mapping[TopicPartition, int], group_id: str
) -> dict[TopicPartition, QuorateError | None]:
    return {
        partition: _error(number, f"{partition} of group {group_id!r}") if number else None
        for partition, number in codes.items()
    }


def _error(number: int, what: str) -> KafkaError:
    code = known_code(number)
    return error_for(code, f"{what}: {MEANINGS[code]}")
