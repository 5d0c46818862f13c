"""Trio shell of ``quorate partitions``: asks how partitions are, and has leaders elected."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import BrokerLogDirs, LogDirReplica, TopicDescription
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_looking import min_isr_of
from quorate.tools.output import Column, Table
from quorate.tools.partitions.listing import Described, Found, all_partitions, chosen, described
from quorate.tools.problems import RefusedError
from quorate.tools.session import note, print_table
from quorate.tools.topics import Client

BROKER_TIMEOUT_S: Final = 3.0
"""How long a broker may take to tell what it has: one that hangs must not keep all waiting."""

OnBrokers = Mapping[int, Mapping[TopicPartition, LogDirReplica]]


async def find(admin: Admin, wanted: Sequence[str] = (), *, details: bool = False) -> list[Found]:
    """Return partitions: those that texts such as ``t`` or ``t:0,2`` name, or all.

    Without ``details``, ``min.insync.replicas`` is asked for only where replicas are missing.

    Raises:
        UsageError: one does not exist.
        QuorateError: no broker answers.
    """
    topics = await topics_of(admin)
    least = await min_isr_of(admin, topics, everywhere=details)
    return chosen(all_partitions(topics, least), wanted)


async def topics_of(admin: Admin) -> list[TopicDescription]:
    """Return all topics; without eligible leader replicas from brokers that know none."""
    try:
        told = await admin.describe_topic_partitions()
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return list(await admin.describe_all_topics())
    return [topic for topic in told.values() if isinstance(topic, TopicDescription)]


async def listed(client: Client, wanted: Sequence[str]) -> list[Found]:
    """Return the partitions to list."""
    async with client.admin() as admin:
        return await find(admin, wanted)


async def log_dirs_of_brokers(admin: Admin) -> dict[int, BrokerLogDirs]:
    """Return what brokers have on their disks, as each tells; silent ones are left out."""
    brokers = [b.broker_id for b in (await admin.describe_cluster()).brokers]
    found: dict[int, BrokerLogDirs] = {}

    async def ask(broker_id: int) -> None:
        with trio.move_on_after(BROKER_TIMEOUT_S):
            told = (await admin.describe_log_dirs([broker_id]))[broker_id]
            if not isinstance(told, QuorateError):
                found[broker_id] = told

    async with trio.open_nursery() as nursery:
        for broker_id in brokers:
            nursery.start_soon(ask, broker_id)
    return found


async def replicas_on_brokers(admin: Admin) -> dict[int, dict[TopicPartition, LogDirReplica]]:
    """Return the replicas that brokers have, as each tells of its own; silent ones are left out."""
    return replicas_in(await log_dirs_of_brokers(admin))


def replicas_in(
    log_dirs: Mapping[int, BrokerLogDirs],
) -> dict[int, dict[TopicPartition, LogDirReplica]]:
    """Return the replicas of each broker, from what is in its directories."""
    return {
        broker_id: {
            partition: replica
            for log_dir in told.log_dirs
            for partition, replica in log_dir.replicas.items()
            if not replica.is_future
        }
        for broker_id, told in log_dirs.items()
    }


async def describe(client: Client, wanted: Sequence[str]) -> list[Described]:
    """Return partitions with all of their replicas."""
    async with client.admin() as admin:
        found = await find(admin, wanted, details=True)
        on_brokers = await replicas_on_brokers(admin)
    return [described(each, on_brokers) for each in found]


async def plan_election(client: Client, wanted: Sequence[str], *, unclean: bool) -> list[Found]:
    """Return the partitions for which an election would do something."""
    async with client.admin() as admin:
        found = await find(admin, wanted)
    if unclean:
        return [each for each in found if each.leader_id is None]
    return [each for each in found if not each.preferred_leads]


def election_table(partitions: Sequence[Found], *, unclean: bool) -> Table:
    """Return who leads now, and who would."""
    columns = (
        Column("partition"), Column("leader"), Column("preferred"), Column("isr"),
        Column("replicas"), Column("note"),
    )  # fmt: skip
    remark = "records that only others have are LOST" if unclean else ""
    rows = tuple(
        (
            str(p.topic_partition), p.leader_id, p.told.replicas[0] if p.told.replicas else None,
            list(p.told.isr), list(p.told.replicas), remark or _remark(p),
        )
        for p in partitions
    )  # fmt: skip
    return Table("elections", columns, rows)


def _remark(found: Found) -> str:
    preferred = found.told.replicas[0] if found.told.replicas else None
    return "" if preferred in found.told.isr else "the preferred one is not in sync: refused"


async def elect(
    options: GlobalOptions,
    client: Client,
    partitions: Sequence[Found],
    *,
    unclean: bool,
    every: bool,
) -> None:
    """Have leaders elected, and say who leads then.

    Where ``every`` partition was meant, some whose preferred leader cannot lead now are no failure.

    Raises:
        RefusedError: of some partitions nobody else was elected; the others were all the same.
    """
    harmless = {ErrorCode.ELECTION_NOT_NEEDED}
    if every:
        harmless.add(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    names = [each.topic_partition for each in partitions]
    async with client.admin() as admin:
        results = await admin.elect_leaders(names, unclean=unclean)
        then = {f.topic_partition: f for f in await find(admin) if f.topic_partition in results}
    failed = {
        tp: error for tp, error in results.items() if error is not None and not _is(error, harmless)
    }
    columns = (Column("partition"), Column("leader"), Column("leader_epoch"), Column("result"))
    rows = tuple(
        (
            str(tp),
            then[tp].leader_id if tp in then else None,
            then[tp].told.leader_epoch if tp in then else None,
            _result(error),
        )
        for tp, error in results.items()
    )
    print_table(options, Table("elections", columns, rows))
    for error in list(failed.values())[1:]:
        note(options, f"error: {error}")
    for tp, error in failed.items():
        code = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        raise RefusedError(
            f"{len(failed)} of {len(results)} elections failed: {tp}",
            why=f"{code}: {error}",
            hint="quorate partitions describe shows who is in sync",
        )


def _is(error: QuorateError, codes: AbstractSet[ErrorCode]) -> bool:
    return isinstance(error, KafkaError) and error.code in codes


def _result(error: QuorateError | None) -> str:
    if error is None:
        return "elected"
    if _is(error, {ErrorCode.ELECTION_NOT_NEEDED}):
        return "not needed"
    if _is(error, {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}):
        return "the preferred one is not in sync, or drained"
    return error.code.name if isinstance(error, KafkaError) else str(error)
