"""Trio shell of ``why stuck`` and ``why rejected``: measures what only brokers know."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.log.context import ROOM_BYTES
from quorate.client.admin import Admin
from quorate.client.admin_results import (
    ConfigEntry,
    ConfigResource,
    LogDir,
    LogDirReplica,
    OffsetSpec,
)
from quorate.client.transactions.describing import (
    OpenTransaction,
    TransactionDescription,
    hanging_of,
)
from quorate.errors import QuorateError
from quorate.model import NO_LEADER, TopicPartition
from quorate.tools.output import bytes_text
from quorate.tools.quorum_work import wall_clock_ms
from quorate.tools.topics import Client
from quorate.tools.why.looks import Look, Opened, Reached, Standing
from quorate.tools.why.past import Past

if TYPE_CHECKING:
    from quorate.client.offsets import TimestampOffset

LOOKS_APART_S: Final = 1.0
"""Between two looks, to see whether something moves."""

ANSWER_S: Final = 3.0
"""How long a broker may take: one that hangs is an answer, too."""


async def standing_of(client: Client, past: Past) -> Standing | None:
    """Return how a partition stands at two moments; None if nobody leads it.

    Raises:
        QuorateError: no broker answers.
    """
    if past.now.leader_id == NO_LEADER:
        return None
    async with client.admin() as admin:
        before = await _look(admin, past)
        await trio.sleep(LOOKS_APART_S)
        after = await _look(admin, past)
        leads, stable = after.replicas.get(past.now.leader_id), after.last_stable
        opened: Sequence[Opened] = ()
        if leads is not None and stable is not None and stable < leads.high_watermark:
            opened = await _opened(admin, client, past.partition)
    return Standing(before, after, opened)


async def _look(admin: Admin, past: Past) -> Look:
    """Ask all brokers that have a replica for it, and the leader for its last stable offset."""
    replicas: dict[int, LogDirReplica] = {}
    silent = set(past.now.replicas)

    async def ask(broker_id: int) -> None:
        with trio.move_on_after(ANSWER_S):
            told = (await admin.describe_log_dirs([broker_id]))[broker_id]
            if isinstance(told, QuorateError):
                return
            silent.discard(broker_id)
            for log_dir in told.log_dirs:
                replica = log_dir.replicas.get(past.partition)
                if replica is not None and not replica.is_future:
                    replicas[broker_id] = replica

    async with trio.open_nursery() as nursery:
        for broker_id in past.now.replicas:
            nursery.start_soon(ask, broker_id)
    stable = None
    if past.now.leader_id not in silent:
        stable = await _last_stable(admin, past.partition)
    return Look(wall_clock_ms(), replicas, frozenset(silent), stable)


async def _last_stable(admin: Admin, partition: TopicPartition) -> int | None:
    with trio.move_on_after(ANSWER_S):
        wanted = {partition: OffsetSpec.LATEST}
        told = (await admin.list_offsets(wanted, committed_only=True))[partition]
        return None if isinstance(told, QuorateError) else told.offset
    return None


async def _opened(admin: Admin, client: Client, partition: TopicPartition) -> list[Opened]:
    """Return the transactions that are open in a partition, the oldest first."""
    found = (await admin.describe_producers([partition])).get(partition)
    if found is None or isinstance(found, QuorateError):
        return []
    writing = [p for p in found if p.transaction_start_offset is not None]
    writing.sort(key=lambda each: each.transaction_start_offset or 0)
    listed = await admin.list_transactions(producer_ids={p.producer_id for p in writing})
    names = {each.producer_id: each.transactional_id for each in listed}
    told = await admin.describe_transactions(names.values()) if names else {}
    described = {k: v for k, v in told.items() if isinstance(v, TransactionDescription)}
    candidates = [OpenTransaction(partition, producer) for producer in writing]
    hanging = {id(each.producer) for each in hanging_of(candidates, listed, described)}
    first_ms = await _time_at(client, partition, writing[0].transaction_start_offset or 0)
    return [
        Opened(
            producer,
            described.get(names.get(producer.producer_id, "")),
            id(producer) in hanging,
            first_ms if producer is writing[0] else None,
        )
        for producer in writing
    ]


async def _time_at(client: Client, partition: TopicPartition, offset: int) -> int | None:
    """Return the time of a record; None if it cannot be read soon."""
    with trio.move_on_after(ANSWER_S):
        async with client.consumer(max_partition_fetch_bytes=1) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            while True:
                for record in await consumer.poll():
                    if record.offset == offset:
                        return record.timestamp_ms
                    if record.offset > offset:
                        return None
    return None


async def reached_by_number(admin: Admin, pasts: Sequence[Past]) -> dict[int, Reached]:
    """Return what the leaders of partitions answer, by number of partition.

    Of those that nobody leads there is nothing.
    """
    found: dict[int, Reached] = {}

    async def ask(leader_id: int, led: Sequence[Past]) -> None:
        disk = ""
        log_dirs: Sequence[LogDir] = ()
        ends: Mapping[TopicPartition, TimestampOffset | QuorateError] = {}
        error: QuorateError | None = QuorateError(f"no answer in {ANSWER_S:.0f} s")
        with trio.move_on_after(ANSWER_S):
            told = (await admin.describe_log_dirs([leader_id]))[leader_id]
            if isinstance(told, QuorateError):
                error = told
            else:
                log_dirs = told.log_dirs
                disk = "; ".join(str(each.error) for each in log_dirs if each.error)
                ends = await admin.list_offsets({p.partition: OffsetSpec.LATEST for p in led})
                error = None
        for past in led:
            end = ends.get(past.partition)
            wrong = end if isinstance(end, QuorateError) else error
            full = full_text(log_dirs, past.partition)
            found[past.partition.partition] = Reached(leader_id, wall_clock_ms(), wrong, disk, full)

    by_leader: dict[int, list[Past]] = {}
    for past in pasts:
        if past.now.leader_id != NO_LEADER:
            by_leader.setdefault(past.now.leader_id, []).append(past)
    async with trio.open_nursery() as nursery:
        for leader_id, led in by_leader.items():
            nursery.start_soon(ask, leader_id, led)
    return found


def full_text(log_dirs: Sequence[LogDir], partition: TopicPartition) -> str:
    """Return that the directory of a partition has next to no room; empty if it has, or may."""
    return "; ".join(
        f"{each.path}: {bytes_text(each.usable_bytes)} free"
        for each in log_dirs
        if partition in each.replicas and 0 <= each.usable_bytes < ROOM_BYTES
    )


async def settings_of(admin: Admin, topic: str) -> dict[str, ConfigEntry]:
    """Return the settings of a topic; none if no broker tells."""
    resource = ConfigResource.topic(topic)
    told = (await admin.describe_configs([resource]))[resource]
    return {} if isinstance(told, QuorateError) else told
