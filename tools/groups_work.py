"""Trio shell of ``quorate groups``: asks how groups are, and changes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import trio

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import OffsetSpec
from quorate.client.groups.results import (
    DEAD,
    EMPTY,
    GroupDescription,
    GroupListing,
    OffsetAndMetadata,
)
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import Endpoint, TopicPartition
from quorate.tools.groups.lag import Bounds, PartitionLag, partition_lags
from quorate.tools.groups.resetting import Change, Spec, parse_scope, plan_changes
from quorate.tools.problems import CommandError, RefusedError, UsageError
from quorate.tools.topics import Client

TIMES_TIMEOUT_S: Final = 3.0
"""How long to look for the times of unread records: without them, lag is told in records only."""


async def listed(client: Client, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
    """Return the groups that are in one of the states and of one of the types, or all."""
    async with client.admin() as admin:
        return await admin.list_groups(states=states, types=types)


@dataclass(frozen=True, slots=True)
class Looked:
    """Groups as they are at a time: their members, how far they are behind, who coordinates."""

    now_ms: int
    groups: tuple[GroupDescription, ...]
    lags: tuple[PartitionLag, ...]
    brokers: Mapping[int, Endpoint]


async def look(
    client: Client, wanted: Sequence[str], now_ms: int, *, offsets: bool, times: bool
) -> Looked:
    """Return groups by name, or all; with their offsets, and the times of unread records.

    Raises:
        CommandError: A group does not exist.
    """
    async with client.admin() as admin:
        names = list(wanted) or [listing.group_id for listing in await admin.list_groups()]
        groups = await described(admin, names)
        lags: list[PartitionLag] = []
        if offsets:
            lags = await lags_of(admin, groups)
        brokers = (await admin.describe_cluster()).brokers
    if times:
        lags = await with_times(client, lags)
    endpoints = {broker.broker_id: broker.endpoint for broker in brokers}
    return Looked(now_ms, tuple(groups), tuple(lags), endpoints)


async def described(admin: Admin, names: Iterable[str]) -> list[GroupDescription]:
    """Return groups that must exist.

    Raises:
        CommandError: One does not.
    """
    found: list[GroupDescription] = []
    for group_id, told in (await admin.describe_groups(names)).items():
        if isinstance(told, KafkaError) and told.code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise no_group(group_id)
        if isinstance(told, QuorateError):
            raise told
        found.append(told)
    return found


def no_group(group_id: str) -> CommandError:
    """Return the error for a group that does not exist."""
    return CommandError(
        f"Consumer group '{group_id}' does not exist",
        why=f"{ErrorCode.GROUP_ID_NOT_FOUND.name}: its coordinator does not know it",
        hint="quorate groups list",
    )


async def lags_of(admin: Admin, groups: Iterable[GroupDescription]) -> list[PartitionLag]:
    """Return how far groups have read what they read."""
    committed = {g.group_id: await admin.list_group_offsets(g.group_id) for g in groups}
    partitions = {p for g in groups for p in (*committed[g.group_id], *g.owners)}
    bounds = await bounds_of(admin, partitions)
    known = {p: told for p, told in bounds.items() if isinstance(told, Bounds)}
    return [lag for g in groups for lag in partition_lags(g, committed[g.group_id], known)]


async def bounds_of(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Bounds | QuorateError]:
    """Return where logs begin and end, or why that is not known."""
    asked = list(partitions)
    starts = await admin.list_offsets(dict.fromkeys(asked, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(asked, OffsetSpec.LATEST))
    found: dict[TopicPartition, Bounds | QuorateError] = {}
    for partition in asked:
        start, end = starts[partition], ends[partition]
        if isinstance(start, QuorateError):
            found[partition] = start
        elif isinstance(end, QuorateError):
            found[partition] = end
        else:
            found[partition] = Bounds(start.offset, end.offset)
    return found


async def with_times(client: Client, lags: Sequence[PartitionLag]) -> list[PartitionLag]:
    """Return lags with the times of the first unread records, as far as they are told in time."""
    times: dict[tuple[TopicPartition, int], int] = {}
    with trio.move_on_after(TIMES_TIMEOUT_S):
        await _find_times(client, [lag for lag in lags if lag.first_unread is not None], times)
    return [
        lag
        if lag.first_unread is None
        else replace(lag, unread_since_ms=times.get((lag.partition, lag.first_unread)))
        for lag in lags
    ]


async def _find_times(
    client: Client, lags: Sequence[PartitionLag], times: dict[tuple[TopicPartition, int], int]
) -> None:
    """Read one record of each place. Of several groups in one partition, one after the other."""
    todo = {(lag.partition, lag.first_unread) for lag in lags if lag.first_unread is not None}
    if not todo:
        return
    async with client.consumer(max_partition_fetch_bytes=1) as consumer:
        while todo:
            asked = dict(sorted(todo, reverse=True))
            consumer.assign([])
            consumer.assign(asked)
            for partition, offset in asked.items():
                consumer.seek(partition, offset)
            while asked:
                for record in await consumer.poll():
                    partition = record.topic_partition
                    if partition in asked:
                        place = partition, asked.pop(partition)
                        times[place] = record.timestamp_ms
                        todo.discard(place)
                        consumer.pause(partition)


# Changes


@dataclass(frozen=True, slots=True)
class Planned:
    """What a group's offsets would be, and whether it may be done."""

    cluster_id: str
    group_id: str
    group: GroupDescription | None
    changes: tuple[Change, ...]

    @property
    def members(self) -> int:
        """How many members stand against it."""
        idle = self.group is None or self.group.state in {EMPTY, DEAD}
        return 0 if idle or self.group is None else max(1, len(self.group.members))

    @property
    def effective(self) -> list[Change]:
        """What is not so already."""
        return [change for change in self.changes if change.new != change.current]


async def plan_reset(client: Client, group_id: str, spec: Spec, scope: Sequence[str]) -> Planned:
    """Return where a group would go on; without a scope, in all that it has read.

    Raises:
        UsageError: It has read nothing, and no topic is named.
        QuorateError: A partition does not exist, or nobody leads it.
    """
    async with client.admin() as admin:
        cluster_id = (await admin.describe_cluster()).cluster_id
        group = await _group_if_any(admin, group_id)
        current = await admin.list_group_offsets(group_id)
        partitions = await _scoped(admin, scope, current, spec)
        if not partitions:
            raise UsageError(
                f"Consumer group '{group_id}' has read nothing", why="so nothing is to be reset",
                hint="name topics: quorate groups reset G -t TOPIC --to-earliest",
            )  # fmt: skip
        bounds: dict[TopicPartition, Bounds] = {}
        for partition, told in (await bounds_of(admin, partitions)).items():
            if isinstance(told, QuorateError):
                raise told
            bounds[partition] = told
        by_time = await _offsets_at(admin, partitions, spec.time_ms)
    changes = plan_changes(spec, partitions, current, bounds, by_time)
    return Planned(cluster_id, group_id, group, tuple(changes))


async def plan_reset_of_all(client: Client, spec: Spec, scope: Sequence[str]) -> list[Planned]:
    """Return where each group would go on that has read anything, also those with members.

    Raises:
        QuorateError: A partition does not exist, or nobody leads it.
    """
    async with client.admin() as admin:
        names = sorted(listing.group_id for listing in await admin.list_groups())
        reading = [name for name in names if scope or await admin.list_group_offsets(name)]
    return [await plan_reset(client, name, spec, scope) for name in reading]


async def _group_if_any(admin: Admin, group_id: str) -> GroupDescription | None:
    told = (await admin.describe_groups([group_id]))[group_id]
    if isinstance(told, KafkaError) and told.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if isinstance(told, QuorateError):
        raise told
    return told


async def _scoped(
    admin: Admin,
    scope: Sequence[str],
    current: Mapping[TopicPartition, OffsetAndMetadata],
    spec: Spec,
) -> list[TopicPartition]:
    if spec.offsets is not None:
        wanted = parse_scope(scope)
        return [
            p
            for p in spec.offsets
            if not scope or (p.topic in wanted and has(wanted[p.topic], p.partition))
        ]
    if not scope:
        return list(current)
    found: list[TopicPartition] = []
    wanted = parse_scope(scope)
    for topic, told in (await admin.describe_topics(wanted)).items():
        if isinstance(told, QuorateError):
            raise told
        numbers = [partition.partition for partition in told.partitions]
        for number in wanted[topic] or numbers:
            if number not in numbers:
                raise UsageError(
                    f"topic {topic!r} has no partition {number}",
                    why=f"it has {len(numbers)}, numbered from 0", hint="quorate topics describe",
                )  # fmt: skip
            found.append(TopicPartition(topic, number))
    return list(dict.fromkeys(found))


def has(numbers: tuple[int, ...] | None, number: int) -> bool:
    """Whether a partition is among those named; None stands for all."""
    return numbers is None or number in numbers


async def _offsets_at(
    admin: Admin, partitions: Iterable[TopicPartition], time_ms: int | None
) -> dict[TopicPartition, int]:
    if time_ms is None:
        return {}
    found: dict[TopicPartition, int] = {}
    for partition, told in (await admin.list_offsets(dict.fromkeys(partitions, time_ms))).items():
        if isinstance(told, QuorateError):
            raise told
        if told.offset >= 0:
            found[partition] = told.offset
    return found


async def offsets_now(
    client: Client, group_id: str
) -> tuple[str, GroupDescription | None, dict[TopicPartition, OffsetAndMetadata]]:
    """Return the cluster's id, the group if it exists, and what it has committed."""
    async with client.admin() as admin:
        cluster_id = (await admin.describe_cluster()).cluster_id
        group = await _group_if_any(admin, group_id)
        return cluster_id, group, await admin.list_group_offsets(group_id)


async def carry_out(client: Client, planned: Planned) -> None:
    """Commit what is planned, and forget what is to be forgotten.

    Raises:
        RefusedError: The group has members; nothing was done.
        QuorateError: An offset was refused; others may have been changed.
    """
    check_idle(planned)
    group_id = planned.group_id
    commits = {c.partition: c.new for c in planned.effective if c.new is not None}
    deletes = [c.partition for c in planned.effective if c.new is None]
    results: dict[TopicPartition, QuorateError | None] = {}
    async with client.admin() as admin:
        results |= await admin.alter_group_offsets(group_id, commits)
        if deletes:
            results |= await admin.delete_group_offsets(group_id, deletes)
    raise_first(results)


def check_idle(planned: Planned) -> None:
    """Refuse what members would undo at once.

    Raises:
        RefusedError: The group has members.
    """
    if planned.members and planned.group is not None:
        raise RefusedError(
            f"Consumer group '{planned.group_id}' is {planned.group.state}: nothing was done",
            why=f"it has members ({planned.members}), which go on where they are",
            hint=f"stop them first; or quorate groups kick {planned.group_id} --all",
        )


async def forget(client: Client, group_id: str, partitions: Sequence[TopicPartition]) -> None:
    """Have a group forget how far it has read partitions.

    Raises:
        QuorateError: One was refused; the others are forgotten all the same.
    """
    async with client.admin() as admin:
        raise_first(await admin.delete_group_offsets(group_id, partitions))


async def delete(client: Client, group_ids: Sequence[str]) -> dict[str, QuorateError | None]:
    """Delete groups; returns an error or None for each."""
    async with client.admin() as admin:
        return await admin.delete_groups(group_ids)


async def kick(
    client: Client, group: GroupDescription, member_ids: Sequence[str], reason: str
) -> dict[str, QuorateError | None]:
    """Take members out of a group; returns an error or None for each."""
    members = [member for member in group.members if member.member_id in member_ids]
    async with client.admin() as admin:
        return await admin.remove_members(group.group_id, members, reason=reason)


async def one(client: Client, group_id: str) -> GroupDescription:
    """Return a group that must exist."""
    async with client.admin() as admin:
        return (await described(admin, [group_id]))[0]
