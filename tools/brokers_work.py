"""Trio shell of ``quorate brokers``: what brokers have; draining them, and retiring them."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import BrokerDescription, ConfigEntry, ConfigResource
from quorate.control.partition_messages import ChangeBroker
from quorate.dataclass import dataclass
from quorate.errors import KafkaError, NetworkError, QuorateError, RequestTimedOutError
from quorate.model import TopicPartition
from quorate.net.rpc import VersionRange
from quorate.protocol.apis import APIS
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_looking import min_isr_of
from quorate.tools.clusters.health import BrokerLoad, Health, health_lines, health_of, loads_of
from quorate.tools.clusters.picture import READ_ONLY, broker_state
from quorate.tools.controllers import ask_once
from quorate.tools.output import Column, Table, bytes_text
from quorate.tools.partitions.retiring import (
    Led,
    able_to_lead,
    brokers_table,
    led_by,
    replicas_of,
    some,
)
from quorate.tools.partitions_work import find, replicas_on_brokers, topics_of
from quorate.tools.problems import CommandError, RefusedError, UsageError
from quorate.tools.reaching import find_controllers, tls_of
from quorate.tools.session import print_table
from quorate.tools.topics import Client

POLL_S: Final = 0.2
DRAIN_TIMEOUT_S: Final = 30.0
UNDECIDED: Final = "no controller leads, or answers the brokers: see quorate quorum status"
OF_BROKER: Final = frozenset({2, 3, 4})
"""The protocol's numbers for settings that somebody made for brokers."""


async def list_brokers(client: Client) -> Table:
    """Return a row for each broker that is registered."""
    async with client.admin() as admin:
        cluster = await admin.describe_cluster(include_fenced=True)
        loads = loads_of(await topics_of(admin))
        sizes = await replicas_on_brokers(admin)
    return brokers_table(cluster.brokers, loads, sizes, cluster.cluster_id)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """How a cluster is, as its brokers say."""

    brokers: Table
    fenced: tuple[int, ...]
    read_only: tuple[int, ...]
    health: Health
    is_decided: bool
    """Whether the controllers answer, of whom one leads: else nothing can change."""

    @property
    def problems(self) -> list[str]:
        """What is not as it should be, in a few words each."""
        found = [] if self.is_decided else [UNDECIDED]
        found += [f"broker {broker_id} is out of service" for broker_id in self.fenced]
        found += [
            f"broker {broker_id} is read-only: its disk is full, or was a minute ago, or fails"
            for broker_id in self.read_only
        ]
        return found if self.health.is_good else [*found, health_lines(self.health)]


async def cluster_status(client: Client) -> ClusterStatus:
    """Ask any broker how the cluster is."""
    is_decided = True

    async def ask_for_a_leader() -> None:
        nonlocal is_decided
        is_decided = await _is_decided(admin)

    async with client.admin() as admin, trio.open_nursery() as nursery:
        nursery.start_soon(ask_for_a_leader)
        cluster = await admin.describe_cluster(include_fenced=True)
        topics = await topics_of(admin)
        least = await min_isr_of(admin, topics)
        sizes = await replicas_on_brokers(admin)
    table = brokers_table(cluster.brokers, loads_of(topics), sizes, cluster.cluster_id)
    fenced = tuple(broker.broker_id for broker in cluster.brokers if broker.is_fenced)
    read_only = tuple(b.broker_id for b in cluster.brokers if broker_state(b) == READ_ONLY)
    return ClusterStatus(table, fenced, read_only, health_of(topics, least), is_decided)


async def _is_decided(admin: Admin) -> bool:
    """Whether a controller that leads answers; also if nobody may ask that here."""
    try:
        await admin.describe_quorum()
    except (RequestTimedOutError, NetworkError):
        return False
    except KafkaError:
        pass  # who refuses to tell is there
    return True


async def describe(options: GlobalOptions, client: Client, broker_id: int) -> None:
    """Print what is known of a broker: what it has, its disks, what was set for it.

    Raises:
        UsageError: there is none of that id.
    """
    async with client.admin() as admin:
        broker = await _broker(admin, broker_id)
        load = loads_of(await topics_of(admin)).get(broker_id, BrokerLoad())
        resource = ConfigResource.broker(broker_id)
        dirs: Any = ()
        configs: Any = {}
        if not broker.is_fenced:
            told = (await admin.describe_log_dirs([broker_id]))[broker_id]
            dirs = () if isinstance(told, QuorateError) else told.log_dirs
            configs = (await admin.describe_configs([resource])).get(resource, {})
    entries: dict[str, ConfigEntry] = {} if isinstance(configs, QuorateError) else configs
    made = {
        name: entry.value for name, entry in sorted(entries.items()) if entry.source in OF_BROKER
    }
    log_dirs = [
        {
            "path": each.path,
            "replicas": len(each.replicas),
            "size_bytes": sum(replica.size_bytes for replica in each.replicas.values()),
            "usable_bytes": None if each.usable_bytes < 0 else each.usable_bytes,
        }
        for each in dirs
    ]
    if options.format in {"table", "wide"}:
        for line in _lines(broker, load, log_dirs, made):
            sys.stdout.write(line + "\n")
        return
    columns = (
        "id",
        "address",
        "rack",
        "state",
        "leads",
        "replicas",
        "behind",
        "log_dirs",
        "configs",
    )
    row = (
        broker_id, str(broker.endpoint), broker.rack or None, broker_state(broker), load.leaders,
        load.replicas, load.out_of_sync, log_dirs, made,
    )  # fmt: skip
    print_table(options, Table("brokers", tuple(map(Column, columns)), (row,)))


def _lines(
    broker: BrokerDescription,
    load: BrokerLoad,
    log_dirs: list[dict[str, Any]],
    made: dict[str, Any],
) -> list[str]:
    lines = [
        f"broker {broker.broker_id} at {broker.endpoint}: {broker_state(broker)}",
        f"  rack       {broker.rack or 'none'}",
        f"  leads      {load.leaders} partitions",
        f"  replicas   {load.replicas}, {load.out_of_sync} of them behind",
    ]
    for each in log_dirs:
        usable = each["usable_bytes"]
        free = "" if usable is None else f", {bytes_text(usable)} free"
        size = bytes_text(each["size_bytes"])
        lines.append(f"  directory  {each['path']}: {each['replicas']} replicas, {size}{free}")
    lines += [f"  set        {name}={value}" for name, value in made.items()]
    return lines


async def _broker(admin: Admin, broker_id: int) -> BrokerDescription:
    brokers = (await admin.describe_cluster(include_fenced=True)).brokers
    for broker in brokers:
        if broker.broker_id == broker_id:
            return broker
    raise UsageError(
        f"there is no broker {broker_id}",
        why=f"there are {', '.join(str(broker.broker_id) for broker in brokers)}",
        hint="quorate brokers list",
    )


async def led(client: Client, broker_id: int) -> Led:
    """Return what a broker leads, and what others could lead of it.

    Raises:
        UsageError: there is none of that id.
    """
    async with client.admin() as admin:
        return await _led(admin, broker_id)


async def _led(admin: Admin, broker_id: int) -> Led:
    await _broker(admin, broker_id)
    cluster = await admin.describe_cluster(include_fenced=True)
    return led_by(broker_id, await find(admin), able_to_lead(cluster.brokers))


async def drain(options: GlobalOptions, client: Client, broker_id: int) -> Led:
    """Have a broker lead nothing that others can lead; returns what it leads in the end.

    Raises:
        CommandError: it still leads what others could lead.
        KafkaError: the controllers refuse, or do not answer.
    """
    await _change(options, broker_id, draining=True)
    timeout_s = options.patience_s(DRAIN_TIMEOUT_S)
    still: Led | None = None
    async with client.admin() as admin:
        with trio.move_on_after(timeout_s):
            while True:
                still = await _led(admin, broker_id)
                if not still.movable:
                    return still
                await trio.sleep(POLL_S)
    left = "" if still is None else some(still.movable)
    raise CommandError(
        f"broker {broker_id} still leads after {timeout_s:g} s",
        why=left,
        hint=f"it goes on; look with: quorate brokers describe {broker_id}",
    )


async def undrain(options: GlobalOptions, broker_id: int) -> None:
    """Let a broker lead again.

    Raises:
        KafkaError: the controllers refuse, or do not answer.
    """
    await _change(options, broker_id, draining=False)


async def _change(options: GlobalOptions, broker_id: int, *, draining: bool) -> None:
    endpoints = await find_controllers(options, os.environ)
    request = ChangeBroker(broker_id, draining)
    await ask_once(endpoints, request, options.timeout_s, tls_of(options))


async def check_broker(client: Client, broker_id: int) -> BrokerDescription:
    """Return a broker.

    Raises:
        UsageError: there is none of that id.
    """
    async with client.admin() as admin:
        return await _broker(admin, broker_id)


async def unregister(
    client: Client, broker_id: int, *, with_replicas: bool, dry_run: bool
) -> tuple[TopicPartition, ...]:
    """Take a broker that is gone out of the cluster; return the replicas that stay assigned to it.

    Raises:
        RefusedError: it runs, or has replicas, which is not said to be meant.
        UsageError: there is none of that id.
    """
    async with client.admin() as admin:
        broker = await _broker(admin, broker_id)
        left = replicas_of(broker_id, await find(admin))
        check_unregister(broker, left, with_replicas=with_replicas)
        if not dry_run:
            await admin.unregister_broker(broker_id)
    return tuple(left)


def check_unregister(
    broker: BrokerDescription, left: Sequence[TopicPartition], *, with_replicas: bool
) -> None:
    """Refuse to take out a broker that runs, or one that still has replicas, unless told to.

    Raises:
        RefusedError: why.
    """
    if not broker.is_fenced:
        raise RefusedError(
            f"broker {broker.broker_id} is in service",
            why="it would register again at once",
            hint=f"stop it first; quorate brokers decommission {broker.broker_id} empties it",
        )
    if left and not with_replicas:
        raise RefusedError(
            f"broker {broker.broker_id} still has {len(left)} replicas",
            why=some(left),
            hint="--with-replicas takes it out all the same: they stay assigned to it",
        )


async def api_versions(client: Client, broker_id: int) -> Table:
    """Return a row for each API that a broker serves.

    Raises:
        UsageError: there is none of that id.
        QuorateError: it does not answer.
    """
    async with client.admin() as admin:
        await _broker(admin, broker_id)
        return api_table((await admin.describe_versions(broker_id)).apis)


def api_table(versions: Mapping[int, VersionRange]) -> Table:
    """Return a row for each API: versions, and the one that this program would use, if any."""
    columns = (Column("key"), Column("api"), Column("min"), Column("max"), Column("usable"))
    rows: list[tuple[Any, ...]] = []
    for key, told in sorted(versions.items()):
        ours = APIS.get(key)
        usable = None if ours is None else min(told.last, ours.max_version)
        if ours is not None and usable is not None and usable < max(told.first, ours.min_version):
            usable = None
        rows.append((key, None if ours is None else ours.name, told.first, told.last, usable))
    return Table("api_versions", columns, tuple(rows))


async def retire(client: Client, broker_id: int) -> bool:
    """Take a broker that has nothing left out of the cluster; return False while it still runs.

    Raises:
        RefusedError: it still has replicas.
    """
    async with client.admin() as admin:
        left = replicas_of(broker_id, await find(admin))
        if left:
            raise RefusedError(
                f"broker {broker_id} still has {len(left)} replicas",
                why=some(left),
                hint=f"quorate brokers decommission {broker_id} moves them away first",
            )
        if not (await _broker(admin, broker_id)).is_fenced:
            return False
        await admin.unregister_broker(broker_id)
    return True
