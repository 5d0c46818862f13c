"""Reads the records of a group, as one of its members, and writes them out."""

import re
import signal
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, TypeAlias

import trio

from quorate.client.consumer import Consumer
from quorate.client.membership.consumer_member import SubscriptionPattern
from quorate.model import TopicPartition
from quorate.tools.client_properties import ClientProperties
from quorate.tools.consuming import POLL_MS, POLL_RECORDS, ConsumePlan
from quorate.tools.positions import END, START
from quorate.tools.problems import UsageError

Interest: TypeAlias = tuple[str, ...] | re.Pattern[str] | SubscriptionPattern
PROTOCOLS: Final = ("classic", "consumer")
RESETS: Final[Mapping[Any, str]] = {START: "earliest", END: "latest"}


def check_group_plan(plan: ConsumePlan) -> None:
    """Refuse what only a reader without a group can do.

    Raises:
        UsageError: Partitions are named, or a place that is neither start nor end.
    """
    if plan.partitions is not None:
        raise UsageError(
            "-p does not go with -g", why="the group says which of its members reads what",
            hint="leave -p out, or -g",
        )  # fmt: skip
    if plan.span.start not in RESETS or plan.span.stop is not None:
        raise UsageError(
            "-o does not go with -g, but for start and end",
            why="a group goes on where it was; start and end are for what it has not read yet",
            hint="quorate groups reset GROUP --to-datetime -1h --execute",
        )


def interest_of(topics: tuple[str, ...], pattern: str | None, protocol: str) -> Interest:
    """Return what to subscribe to.

    Raises:
        UsageError: There is no such protocol, topics are named beside a pattern, or it is none.
    """
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"there is no group protocol {protocol!r}", why="there are classic and consumer",
            hint="--group-protocol consumer",
        )  # fmt: skip
    if pattern is None:
        return topics
    if topics:
        raise UsageError(
            "--pattern does not go with topics", why="it says which topics are meant",
            hint="--pattern 'appLogs|app-.*'",
        )  # fmt: skip
    if protocol == "consumer":
        return SubscriptionPattern(pattern)  # the coordinator says whether it is one
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{pattern!r} is no pattern", why=str(error), hint="--pattern 'app-.*'"
        ) from None


def member_settings(properties: ClientProperties) -> dict[str, Any]:
    """Return the properties of members, by the names of our consumer's arguments."""
    names = {
        "group.protocol": "group_protocol",
        "group.remote.assignor": "group_remote_assignor",
        "group.instance.id": "group_instance_id",
        "session.timeout.ms": "session_timeout_ms",
        "heartbeat.interval.ms": "heartbeat_interval_ms",
        "max.poll.interval.ms": "max_poll_interval_ms",
        "auto.commit.interval.ms": "auto_commit_interval_ms",
    }
    return {
        ours: properties.values[name] for name, ours in names.items() if name in properties.values
    }


async def consume_in_group(
    bootstrap: str,
    group_id: str,
    interest: Interest,
    plan: ConsumePlan,
    settings: dict[str, Any],
    out: BinaryIO,
) -> int:
    """Write records until the plan is fulfilled; return how many. What is written is committed.

    SIGTERM ends it, too: the member leaves, so that others need not wait for its session to end.

    Raises:
        QuorateError: Something cannot be read, or the group refuses.
    """
    settings = {"auto_offset_reset": RESETS[plan.span.start], **settings}
    written = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_at_sigterm, nursery.cancel_scope)
        async with Consumer(bootstrap, group_id=group_id, **settings) as consumer:
            if isinstance(interest, tuple):
                for topic in interest:
                    await consumer.partitions_of(topic)  # which raises if there is none
            consumer.subscribe(interest)
            written = await _copy(consumer, plan, out)
        nursery.cancel_scope.cancel()
    return written


async def _cancel_at_sigterm(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def _copy(consumer: Consumer, plan: ConsumePlan, out: BinaryIO) -> int:
    written = 0
    ends: dict[TopicPartition, int] = {}
    silent_since_s = trio.current_time()
    while plan.records_max is None or written < plan.records_max:
        left = POLL_RECORDS if plan.records_max is None else plan.records_max - written
        records = await consumer.poll(max_records=min(POLL_RECORDS, left), timeout_ms=POLL_MS)
        if records:
            out.write(b"".join([plan.text(record) for record in records]))
            out.flush()
            written += len(records)
            silent_since_s = trio.current_time()
        elif plan.silence_max_ms is not None:
            silent_ms = (trio.current_time() - silent_since_s) * 1000
            if silent_ms >= plan.silence_max_ms:
                break
        if plan.stop_at_end and await _is_at_end(consumer, ends):
            break
    return written


async def _is_at_end(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    """Whether all is read that partitions had when they were first assigned; false without any."""
    fresh = [partition for partition in consumer.assignment if partition not in ends]
    if fresh:
        ends |= await consumer.end_offsets(fresh)
    assigned = consumer.assignment
    for partition in assigned:
        if partition not in ends or await consumer.position(partition) < ends[partition]:
            return False
    return bool(assigned)
