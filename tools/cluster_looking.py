"""Trio shell: how a cluster on this machine is: asks its brokers, its controllers, the system."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import ConfigResource, TopicDescription
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.health import health_of, is_under_replicated, loads_of
from quorate.tools.clusters.layout import Layout
from quorate.tools.clusters.picture import (
    DEAD,
    PAUSED,
    RUNNING,
    STOPPED,
    Look,
    NodeState,
    Picture,
)
from quorate.tools.processes import exit_text, last_lines, look_at
from quorate.tools.quorum_work import ask_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

LOOK_TIMEOUT_S: Final = 2.0
WHOLE_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.05
LAST_LINES: Final = 4
MIN_ISR: Final = "min.insync.replicas"


@dataclass(slots=True)
class _Heard:
    """What was heard so far."""

    look: Look


async def look_at_cluster(layout: Layout) -> Look:
    """Return what brokers and controllers say; whoever does not answer in time is left out."""
    heard = _Heard(Look())
    with trio.move_on_after(LOOK_TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_controllers, layout, heard)
            nursery.start_soon(_ask_brokers, layout, heard)
    return heard.look


async def _ask_controllers(layout: Layout, heard: _Heard) -> None:
    endpoints = [member.endpoint for member in layout.controllers]
    said, _ = await ask_all(endpoints, LOOK_TIMEOUT_S / 2, None)
    leaders = [one.answer for one in said if one.answer.leader_id == one.answer.node_id]
    newest = max(leaders, key=lambda answer: answer.leader_epoch, default=None)
    heard.look = replace(
        heard.look,
        leader_id=None if newest is None else newest.node_id,
        voters=frozenset(one.answer.node_id for one in said),
        full=frozenset(one.answer.node_id for one in said if one.answer.disk_full),
        cluster_id=said[0].cluster_id if said else heard.look.cluster_id,
    )


async def _ask_brokers(layout: Layout, heard: _Heard) -> None:
    timeout_ms = int(LOOK_TIMEOUT_S * 1000)
    try:
        async with Admin(
            layout.bootstrap, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
        ) as admin:
            cluster = await admin.describe_cluster(include_fenced=True)
            topics = await admin.describe_all_topics()
            least = await min_isr_of(admin, topics)
    except QuorateError:
        return
    heard.look = replace(
        heard.look,
        cluster_id=cluster.cluster_id,
        brokers={broker.broker_id: broker for broker in cluster.brokers},
        loads=loads_of(topics),
        health=health_of(topics, least),
    )


async def min_isr_of(
    admin: Admin, topics: "Sequence[TopicDescription]", *, everywhere: bool = False
) -> dict[str, int]:
    """Return ``min.insync.replicas`` of the topics for which it matters: replicas are missing."""
    names = [
        topic.name
        for topic in topics
        if everywhere or any(is_under_replicated(partition) for partition in topic.partitions)
    ]
    resources = [ConfigResource.topic(name) for name in names]
    told = await admin.describe_configs(resources) if resources else {}
    return {
        resource.name: int(entries[MIN_ISR].value or 1)
        for resource, entries in told.items()
        if not isinstance(entries, QuorateError) and MIN_ISR in entries
    }


def node_states(directory: ClusterDirectory, layout: Layout) -> tuple[NodeState, ...]:
    """Return how the nodes' processes are, as somebody sees them who did not start them."""
    processes = directory.running().nodes
    states: list[NodeState] = []
    for member in layout.members:
        process = processes.get(member.name)
        state = None if process is None else look_at(process)
        if process is None:
            states.append(NodeState(member, STOPPED))
        elif state is None:
            lines = last_lines(directory.log_of(member.name), LAST_LINES)
            states.append(NodeState(member, DEAD, ended=exit_text(None), last_lines=tuple(lines)))
        else:
            kind = PAUSED if state.is_paused else RUNNING
            states.append(NodeState(member, kind, process.pid, state.memory_bytes, state.uptime_ms))
    return tuple(states)


def picture_of(
    directory: ClusterDirectory, layout: Layout, nodes: tuple[NodeState, ...], look: Look
) -> Picture:
    """Return the cluster as it is now."""
    return Picture(str(directory), layout, nodes, look)


async def whole_picture(look: "Callable[[], Awaitable[Picture]]") -> Picture:
    """Look until the picture is whole; for a while, then it is as it is.

    Nodes that have just begun to serve do not all answer in time on a busy machine.
    """
    deadline_s = trio.current_time() + WHOLE_TIMEOUT_S
    while True:
        picture = await look()
        if picture.is_whole or trio.current_time() >= deadline_s:
            return picture
        await trio.sleep(POLL_S)


async def status(directory: ClusterDirectory) -> Picture:
    """Return how a cluster is.

    Raises:
        CommandError: there is none.
    """
    layout = directory.layout()
    states = node_states(directory, layout)
    return picture_of(directory, layout, states, await look_at_cluster(layout))
