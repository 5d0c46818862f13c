"""Trio shell: reads compacted partitions up to their ends, open transactions included."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.admin_results import ConfigResource, NewTopic, OffsetSpec
from quorate.client.offsets import TimestampOffset
from quorate.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.admin import Admin
    from quorate.client.consumer import Consumer
    from quorate.model import TopicPartition
    from quorate.records.record import Record

logger = logging.getLogger(__name__)

POLL_RECORDS: Final = 4096
POLL_MS: Final = 100
PATIENCE_S: Final = 10.0
"""After which it is said what is waited for."""


async def read_up(
    admin: Admin,
    consumer: Consumer[Any, Any],
    starts: Mapping[TopicPartition, int],
    apply: Callable[[Record], None],
) -> dict[TopicPartition, int]:
    """Apply the committed records of partitions, in order, up to what is there now.

    That is more than what is committed now: transactions that are open are waited for, because
    nobody knows yet whether they count.

    Args:
        admin: Asks for the ends.
        consumer: Reads; without a group, ``read_committed``, from ``earliest``.
        starts: Where to begin, by partition.
        apply: Called with each record.

    Returns:
        The next offset of each partition.

    Raises:
        QuorateError: A partition cannot be read.
    """
    ends: dict[TopicPartition, int] = {}
    for partition, told in (
        await admin.list_offsets(dict.fromkeys(starts, OffsetSpec.LATEST))
    ).items():
        if not isinstance(told, TimestampOffset):
            raise told
        ends[partition] = told.offset
    consumer.assign(starts)
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
    told_at_s = trio.current_time() + PATIENCE_S
    while behind := [p for p, end in ends.items() if await consumer.wait_for_position(p) < end]:
        for record in await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS):
            apply(record)
        if trio.current_time() > told_at_s:
            told_at_s += PATIENCE_S
            logger.warning("still reading %s: an open transaction may be in the way", behind[0])
    positions = {partition: await consumer.wait_for_position(partition) for partition in starts}
    consumer.assign([])
    return positions


async def ensure_compacted(admin: Admin, name: str, partitions: int) -> None:
    """Create a compacted topic, unless there is one of that name.

    Raises:
        KafkaError: It cannot be created.
        ValueError: It has another number of partitions, or does not keep the last record of a key.
    """
    topic = NewTopic(name, partitions, None, {"cleanup.policy": "compact"})
    error = (await admin.create_topics([topic]))[name]
    if error is not None and not (
        isinstance(error, KafkaError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    ):
        raise error
    there = len((await admin.connected().topic(name)).partitions)
    if there != partitions:
        raise ValueError(f"topic {name!r} has {there} partitions, but should have {partitions}")
    if error is not None:
        await _check_compacted(admin, name)


async def _check_compacted(admin: Admin, name: str) -> None:
    resource = ConfigResource.topic(name)
    configs = (await admin.describe_configs([resource]))[resource]
    if not isinstance(configs, Mapping):
        raise configs
    policy = configs["cleanup.policy"].value
    if policy != "compact":
        raise ValueError(
            f"topic {name!r} has cleanup.policy={policy}, but needs compact: what is kept there"
            " would be deleted when it is old. Change that, or take another name"
        )
