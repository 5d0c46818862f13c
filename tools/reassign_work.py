"""Trio shell of ``quorate partitions reassign``: plans moves, has them made, follows them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import trio

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import (
    BrokerDescription,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.arguments import GlobalOptions
from quorate.tools.partitions.moving import (
    RATES,
    THROTTLED,
    Disks,
    Progress,
    Sizes,
    disks_of,
    moves_to,
    progress_of,
)
from quorate.tools.partitions.planning import Assignment, Move, PlanError, plan_moves
from quorate.tools.partitions_work import (
    BROKER_TIMEOUT_S,
    find,
    log_dirs_of_brokers,
    replicas_in,
    replicas_on_brokers,
)
from quorate.tools.problems import CommandError, RefusedError, UsageError
from quorate.tools.session import note
from quorate.tools.topics import Client

POLL_S: Final = 0.5
THROTTLE_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan: which topics or partitions, and for which brokers.

    ``to``: these brokers and no others; else all that are in service, or, with ``add``, those of
    them that are in use, and these; always without ``remove``.
    """

    wanted: tuple[str, ...] = ()
    to: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, and what one has to know to judge them."""

    now: Assignment
    moves: tuple[Move, ...]
    sizes: Sizes
    broker_ids: tuple[int, ...]
    disks: Disks

    @property
    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        """What is to be, for the partitions that change."""
        return {move.partition: move.after for move in self.moves}


async def make_plan(client: Client, request: PlanRequest) -> Plan:
    """Return a plan that makes partitions lie evenly.

    Raises:
        UsageError: a broker or a partition does not exist.
        RefusedError: it cannot be done.
    """
    async with client.admin() as admin:
        partitions = await find(admin, request.wanted)
        moving = await admin.list_partition_reassignments()
        log_dirs = await log_dirs_of_brokers(admin)
        cluster = await admin.describe_cluster(include_fenced=True)
    now = {f.topic_partition: f.told.replicas for f in partitions}
    for partition, move in moving.items():
        if partition in now:
            now[partition] = move.target
    brokers = {broker.broker_id: broker for broker in cluster.brokers}
    racks = candidates(request, brokers, now)
    try:
        moves = plan_moves(now, racks)
    except PlanError as error:
        raise RefusedError(
            "there are too few brokers", why=str(error), hint="add a broker, or keep this one"
        ) from None
    disks = disks_of(cluster.brokers, log_dirs)
    return Plan(now, tuple(moves), replicas_in(log_dirs), tuple(sorted(brokers)), disks)


def candidates(
    request: PlanRequest, brokers: Mapping[int, BrokerDescription], now: Assignment
) -> dict[int, str]:
    """Return the brokers that may have replicas, and their racks.

    Raises:
        UsageError: one that is named does not exist, or is not alive.
    """
    named = (*request.to, *request.add)
    for broker_id in (*named, *request.remove):
        if broker_id not in brokers:
            raise UsageError(
                f"there is no broker {broker_id}",
                why=f"there are {', '.join(map(str, sorted(brokers)))}",
                hint="quorate brokers list",
            )
    for broker_id in named:
        if brokers[broker_id].is_fenced:
            raise RefusedError(
                f"broker {broker_id} gets no replicas", why="it is fenced: it does not run",
                hint="start it first",
            )  # fmt: skip
    if request.to:
        ids = set(request.to)
    else:
        ids = {b.broker_id for b in brokers.values() if not (b.is_fenced or b.is_spared)}
        if request.add:
            in_use = {broker_id for replicas in now.values() for broker_id in replicas}
            ids = ids & in_use | set(request.add)
    return {b: brokers[b].rack or "" for b in sorted(ids - set(request.remove)) if b in brokers}


async def plan_targets(client: Client, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Plan:
    """Return what it takes to bring partitions where they are wanted.

    Raises:
        UsageError: a broker or a partition does not exist.
    """
    async with client.admin() as admin:
        partitions = await find(admin)
        moving = await admin.list_partition_reassignments()
        log_dirs = await log_dirs_of_brokers(admin)
        cluster = await admin.describe_cluster(include_fenced=True)
    brokers = {broker.broker_id for broker in cluster.brokers}
    for partition, replicas in targets.items():
        unknown = set(replicas) - brokers
        if unknown:
            raise UsageError(
                f"{partition} cannot be on broker {min(unknown)}",
                why=f"there are {', '.join(map(str, sorted(brokers)))}",
                hint="quorate brokers list",
            )
    now = {f.topic_partition: f.told.replicas for f in partitions}
    changes = moves_to(now, targets)
    # Those that moves under way add are not there yet.
    now |= {partition: move.origin for partition, move in moving.items()}
    moves = tuple(replace(change, before=now[change.partition]) for change in changes)
    disks = disks_of(cluster.brokers, log_dirs)
    return Plan(now, moves, replicas_in(log_dirs), tuple(sorted(brokers)), disks)


async def apply(options: GlobalOptions, client: Client, plan: Plan, throttle: int | None) -> None:
    """Begin the moves of a plan.

    Raises:
        CommandError: the cluster knows no throttles; nothing was done.
        QuorateError: a move was refused; the others were begun all the same.
    """
    async with client.admin() as admin:
        if throttle is not None:
            await _throttle(admin, plan, throttle)
        results = await admin.alter_partition_reassignments(plan.targets)
    raise_all(options, results)


def raise_all(
    options: GlobalOptions, results: Mapping[TopicPartition, QuorateError | None]
) -> None:
    """Raise the first error, after telling about the others."""
    errors = [error for error in results.values() if error is not None]
    for error in errors[1:]:
        note(options, f"error: {error}")
    if errors:
        raise errors[0]


async def _throttle(admin: Admin, plan: Plan, rate: int) -> None:
    brokers = {b for move in plan.moves for b in (*move.before, *move.after)}
    topics = {move.partition.topic for move in plan.moves}
    changes = {
        ConfigResource.broker(b): [ConfigChange(name, str(rate)) for name in RATES]
        for b in sorted(brokers)
    }
    changes |= {
        ConfigResource.topic(t): [ConfigChange(name, THROTTLE_ALL) for name in THROTTLED]
        for t in sorted(topics)
    }
    try:
        raise_first(await admin.alter_configs(changes, validate_only=True))
        raise_first(await admin.alter_configs(changes))
    except KafkaError as error:
        if error.code not in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
            raise
        raise CommandError(
            "these brokers cannot be throttled; nothing was done",
            why=error.message,
            hint="leave --throttle out, or move fewer partitions at a time",
        ) from None


async def unthrottle(client: Client, called_off: Collection[TopicPartition] = ()) -> bool:
    """Take back throttles that are set anywhere; returns whether any was.

    While moves are under way they stay: whose they are is written nowhere. Those that were just
    ``called_off`` do not count, as the broker that is asked may not have heard of it yet.
    """
    async with client.admin() as admin:
        if (await admin.list_partition_reassignments()).keys() - set(called_off):
            return False
        brokers = [b.broker_id for b in (await admin.describe_cluster()).brokers]
        topics = [topic.name for topic in await admin.list_topics()]
        told: dict[ConfigResource, Any] = {}
        told |= await admin.describe_configs([ConfigResource.topic(name) for name in topics])
        for broker_id in brokers:
            with trio.move_on_after(BROKER_TIMEOUT_S):  # one that hangs keeps its throttle
                told |= await admin.describe_configs([ConfigResource.broker(broker_id)])
        changes = {
            resource: [
                ConfigChange(name, None, ConfigOperation.DELETE)
                for name in (*RATES, *THROTTLED)
                if name in entries and entries[name].value and not entries[name].is_default
            ]
            for resource, entries in told.items()
            if not isinstance(entries, QuorateError)
        }
        changes = {resource: each for resource, each in changes.items() if each}
        if changes:
            raise_first(await admin.alter_configs(changes))
        return bool(changes)


async def under_way(client: Client) -> list[Progress]:
    """Return the moves that are under way."""
    async with client.admin() as admin:
        return await _under_way(admin)


async def _under_way(admin: Admin) -> list[Progress]:
    moves = await admin.list_partition_reassignments()
    if not moves:
        return []
    cluster = await admin.describe_cluster()
    read_only = {b.broker_id for b in cluster.brokers if b.cannot_write}
    return progress_of(moves, await replicas_on_brokers(admin), read_only)


async def follow(
    client: Client,
    show: Callable[[list[Progress]], None],
    only: Collection[TopicPartition] | None = None,
) -> None:
    """Show how far moves are, until all are done.

    Raises:
        QuorateError: no broker answers.
    """
    async with client.admin() as admin:
        while True:
            moves = [m for m in await _under_way(admin) if only is None or m.partition in only]
            show(moves)
            if not moves:
                return
            await trio.sleep(POLL_S)


async def cancel(
    options: GlobalOptions, client: Client, wanted: Sequence[str], *, dry_run: bool = False
) -> list[TopicPartition]:
    """Call off moves: of partitions that are named, or all; returns which.

    With ``dry_run``, which would be.

    Raises:
        QuorateError: one could not be called off; the others were all the same.
    """
    async with client.admin() as admin:
        moves = await admin.list_partition_reassignments()
        named = {f.topic_partition for f in await find(admin, wanted)}
        targets = dict.fromkeys(sorted(moves.keys() & named))
        if dry_run or not targets:
            return list(targets)
        results = await admin.alter_partition_reassignments(targets)
    raise_all(options, results)
    return list(targets)
