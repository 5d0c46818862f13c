"""Runs a node that is a controller and nothing else, from its first start to its last word."""

import socket
import ssl
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final

import trio

from quorate.broker.listeners import bind
from quorate.dataclass import dataclass
from quorate.model import Endpoint
from quorate.net.collector import OF_CONTROLLERS, calm_collector
from quorate.net.control_server import ControlServer, notice_dead_peers
from quorate.net.rpc import connect
from quorate.quorum.controller import Controller, Surroundings
from quorate.quorum.directory import (
    META,
    SUBDIRECTORY,
    ControllerDirectory,
    open_controller_directory,
)
from quorate.quorum.forming import Forming, FormingPlan
from quorate.quorum.raft_mesh import Connect
from quorate.quorum.raft_node import inline
from quorate.settings import NodeConfig
from quorate.tools.controller_tls import (
    advertised_endpoint,
    check_exposure,
    controller_client_context,
    controller_server_context,
)
from quorate.tools.metrics.controller import ControllerMetrics
from quorate.tools.metrics_server import NodeMetrics, serving_metrics
from quorate.tools.node import NodePlan, OnReady, Ready, controller_endpoint, run_in
from quorate.tools.problems import CommandError
from quorate.tools.storage import owned_by
from quorate.tools.story import follow_controller

CONTROLLER: Final = "CONTROLLER"
"""What the listener is called where there are several."""

CONNECT_TIMEOUT_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a controller node is made of before it is in a cluster."""

    plan: NodePlan
    cluster_id: str | None
    directory: ControllerDirectory
    surroundings: Surroundings
    context: ssl.SSLContext | None
    metrics: NodeMetrics
    told_at: Endpoint | None


async def run_controller(plan: NodePlan, cluster_id: str | None, on_ready: OnReady) -> None:
    """Run a controller that brokers and other controllers reach through its listener.

    On its first start it waits for the others that it is to form a cluster with. When it is told to
    stop, it hands its leadership over first.
    """
    config = plan.config
    wanted = controller_endpoint(config.controller_listener)
    check_exposure(wanted, config)
    context = controller_server_context(config)
    _refuse_brokers(Path(config.log_dir))
    directory = open_controller_directory(
        Path(config.log_dir), config.node_id, cluster_id=cluster_id
    )
    try:
        sock = bind(wanted, config)
        metrics = NodeMetrics("controller", config.node_id)
        async with (
            trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener,
            serving_metrics(config, metrics) as told_at,
        ):
            surroundings = _surroundings(sock, plan)
            parts = _Parts(plan, cluster_id, directory, surroundings, context, metrics, told_at)
            await _run(parts, listener, on_ready)
    finally:
        directory.close()


def _refuse_brokers(directory: Path) -> None:
    """Refuse a directory that only a broker has: a new cluster would begin among its records.

    One that was formatted for both, or that a node which is both has used, is fine.

    Raises:
        CommandError: it is a broker's, and no controller's.
    """
    if (directory / SUBDIRECTORY / META).exists():
        return
    owned = owned_by(directory / META)
    if owned is not None:
        raise CommandError(
            f"{directory} belongs to broker {owned.node_id} of cluster {owned.cluster_id}",
            why="a controller that starts in it would begin with empty metadata",
            hint="use another --dir; a controller that lost its disk begins with an empty one",
        )


async def _run(parts: _Parts, listener: trio.SocketListener, on_ready: OnReady) -> None:
    """Become part of a cluster, be its controller, and leave in good order."""
    directory, surroundings = parts.directory, parts.surroundings
    plan = FormingPlan(surroundings.bootstrap, parts.cluster_id, surroundings.endpoint)
    forming = Forming(directory, plan, surroundings.connect)
    server = ControlServer(forming, parts.context)
    serving, controlling = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_in, serving, partial(_serve, server, listener))
        if not surroundings.bootstrap:
            directory.found_alone(parts.cluster_id, surroundings.endpoint)
        elif not directory.meta.is_formatted:
            await forming.run()
        calm_collector(OF_CONTROLLERS)
        controller = Controller(directory, parts.plan.config, SystemRandom(), surroundings)
        await nursery.start(run_in, controlling, controller.run)
        nursery.start_soon(follow_controller, controller)
        parts.metrics.sources["controller"] = ControllerMetrics(controller)
        server.service = controller
        calm_collector(OF_CONTROLLERS)  # once more, for all that was recovered
        on_ready(
            Ready(
                {CONTROLLER: surroundings.endpoint},
                controller.cluster_id,
                directory.path,
                surroundings.bootstrap or (surroundings.endpoint,),
                parts.told_at,
            )
        )
        # From here on they end when they are told to, after the leadership is handed over.
        serving.shield = controlling.shield = True
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await controller.hand_over()
            controlling.cancel()
            serving.cancel()


async def _serve(
    server: ControlServer, listener: trio.SocketListener, *, task_status: trio.TaskStatus[None]
) -> None:
    task_status.started()
    await server.run([listener])


def _surroundings(sock: socket.socket, plan: NodePlan) -> Surroundings:
    config = plan.config
    host, port = sock.getsockname()[:2]
    advertised = config.controller_advertised_listener
    return Surroundings(
        endpoint=advertised_endpoint(
            Endpoint(host, port), controller_endpoint(advertised) if advertised else None
        ),
        connect=_connector(config),
        bootstrap=tuple(controller_endpoint(text) for text in config.controller_join),
        run_blocking=inline,
        min_insync_replicas=plan.min_insync_replicas,
    )


def _connector(config: NodeConfig) -> Connect:
    """Return what connects to other controllers."""
    context = controller_client_context(config)

    async def connect_to(endpoint: Endpoint) -> trio.abc.Stream:
        stream = await connect(endpoint, ssl_context=context, timeout_ms=CONNECT_TIMEOUT_MS)
        notice_dead_peers(stream)
        return stream

    return connect_to
