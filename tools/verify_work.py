"""Trio shell of ``quorate partitions verify``: reads every replica where it is, and compares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import ConfigResource
from quorate.errors import KafkaError, QuorateError
from quorate.model import UNKNOWN_OFFSET, TopicPartition
from quorate.tools.output import Column, Table
from quorate.tools.partitions.comparing import (
    DIFFERENT,
    Compared,
    Range,
    ReplicaHash,
    Standing,
    common_range,
)
from quorate.tools.partitions.latest import LatestValues, agree
from quorate.tools.partitions.listing import Found
from quorate.tools.partitions_work import OnBrokers, find, replicas_on_brokers
from quorate.tools.topics import Client

if TYPE_CHECKING:
    from quorate.client.admin_results import ReplicaPart

PIECE_BYTES: Final = 4 << 20
AT_ONCE: Final = 4
"""Partitions that are compared at the same time."""
COMPACT: Final = "compact"

Planned = Callable[[int], None]
Read = Callable[[int], None]


async def verify(
    client: Client, wanted: Sequence[str], planned: Planned, read: Read
) -> list[Compared]:
    """Compare the replicas of partitions below the high watermark that all of them know.

    Args:
        client: How to reach the brokers.
        wanted: Texts such as ``t`` and ``t:0,2``; all partitions, if there are none.
        planned: Called once with the number of bytes that the replicas have.
        read: Called with the number of bytes that were read.

    Raises:
        QuorateError: no broker answers.
    """
    results: list[Compared] = []
    async with client.admin() as admin:
        partitions = await find(admin, wanted)
        on_brokers = await replicas_on_brokers(admin)
        planned(sum(_size(found, on_brokers) for found in partitions))
        limit = trio.CapacityLimiter(AT_ONCE)

        async def compare(found: Found) -> None:
            async with limit:
                standings, unread = _standings(found, on_brokers)
                compared = await _compare(admin, found, standings, unread, read)
                if compared.verdict == DIFFERENT and await _is_compacted(admin, found):
                    compared = await _compare_latest(admin, compared, standings)
            results.append(compared)

        async with trio.open_nursery() as nursery:
            for found in partitions:
                nursery.start_soon(compare, found)
    return sorted(results, key=lambda compared: compared.partition)


def _size(found: Found, on_brokers: OnBrokers) -> int:
    replicas = (on_brokers.get(b, {}).get(found.topic_partition) for b in found.told.replicas)
    return sum(replica.size_bytes for replica in replicas if replica is not None)


def _standings(found: Found, on_brokers: OnBrokers) -> tuple[dict[int, Standing], dict[int, str]]:
    """Return where each replica stands, and why it is not known of the others."""
    standings: dict[int, Standing] = {}
    unread: dict[int, str] = {}
    for broker_id in found.told.replicas:
        told = on_brokers.get(broker_id, {}).get(found.topic_partition)
        if broker_id not in on_brokers:
            unread[broker_id] = "it does not answer"
        elif told is None:
            unread[broker_id] = "it has no such replica"
        elif told.high_watermark == UNKNOWN_OFFSET:
            unread[broker_id] = "it does not tell its high watermark"
        else:
            standings[broker_id] = Standing(told.log_start_offset, told.high_watermark)
    return standings, unread


async def _compare(
    admin: Admin,
    found: Found,
    standings: Mapping[int, Standing],
    unread: dict[int, str],
    read: Read,
) -> Compared:
    partition = found.topic_partition
    if not standings:
        return Compared(partition, Range(0, 0), {}, unread)
    offsets = common_range(list(standings.values()))
    hashes = {broker_id: ReplicaHash(offsets) for broker_id in standings}

    async def read_all(broker_id: int) -> None:
        why = await _read(admin, broker_id, partition, hashes[broker_id], read)
        if why:
            unread[broker_id] = why
            del hashes[broker_id]

    async with trio.open_nursery() as nursery:
        for broker_id in standings:
            nursery.start_soon(read_all, broker_id)
    return Compared(partition, offsets, hashes, unread)


async def _is_compacted(admin: Admin, found: Found) -> bool:
    """Whether brokers compact the partition, each on its own, so that bytes may differ."""
    resource = ConfigResource.topic(found.topic_partition.topic)
    told = (await admin.describe_configs([resource]))[resource]
    entry = None if isinstance(told, QuorateError) else told.get("cleanup.policy")
    return entry is not None and COMPACT in (entry.value or "").split(",")


async def _compare_latest(
    admin: Admin, compared: Compared, standings: Mapping[int, Standing]
) -> Compared:
    """Compare the latest value of each key, of replicas whose bytes are not the same."""
    latest = {
        broker_id: LatestValues(standing.log_start_offset, standing.high_watermark)
        for broker_id, standing in standings.items()
        if broker_id in compared.hashes
    }
    for broker_id, values in latest.items():
        why = await _read(admin, broker_id, compared.partition, values, lambda _: None)
        if why:
            return compared  # it was read before: something is wrong with it
    return replace(compared, agree=agree(latest.values(), compared.offsets.end))


async def _read(
    admin: Admin,
    broker_id: int,
    partition: TopicPartition,
    into: ReplicaHash | LatestValues,
    read: Read,
) -> str:
    """Read a replica's range to its end; return why that did not work, or nothing."""
    while not into.is_done:
        part: ReplicaPart | QuorateError
        try:
            part = await admin.read_replica(
                broker_id, partition, into.position, bytes_max=PIECE_BYTES
            )
        except QuorateError as error:
            part = error
        if isinstance(part, QuorateError):
            return part.code.name if isinstance(part, KafkaError) else str(part)
        try:
            brought = into.add(part.batches)
        except KafkaError as error:
            return error.code.name
        if not brought:
            return f"nothing came from offset {into.position} on"
        read(len(part.batches))
    return ""


def verdict_table(results: Sequence[Compared]) -> Table:
    """Return a row for each partition."""
    columns = (
        Column("partition"), Column("result"), Column("from"), Column("to"), Column("replicas"),
        Column("batches"), Column("bytes"), Column("sha256"),
        Column("first_difference", wide_only=True), Column("hashes", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            str(each.partition), each.text(), each.offsets.begin, each.offsets.end,
            sorted([*each.hashes, *each.unread]), *_totals(each), each.first_difference,
            _hashes(each),
        )
        for each in results
    )  # fmt: skip
    return Table("verifications", columns, rows)


def _totals(each: Compared) -> tuple[int | None, int | None, str | None]:
    """Return batches, bytes and hash of one replica: of all of them, if they are the same."""
    for known in each.hashes.values():
        sha256 = known.sha256[:16] if each.are_equal else None
        return len(known.ends), known.size_bytes, sha256
    return None, None, None


def _hashes(each: Compared) -> Mapping[str, str]:
    return {str(broker_id): known.sha256 for broker_id, known in sorted(each.hashes.items())}
