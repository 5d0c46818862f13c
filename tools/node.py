"""Composes nodes out of controller and broker, runs them, and stops them in the right order."""

import errno
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final

import trio

from quorate.broker.app import BrokerPlan, RunningBroker, run_broker
from quorate.broker.listeners import (
    PLAINTEXT,
    Listener,
    ListenError,
    bind,
    bind_listeners,
    parse_listeners,
)
from quorate.broker.log.directory import META_NAME
from quorate.errors import InvalidConfigError
from quorate.model import PORT_MAX, Endpoint
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.directory import (
    META,
    SUBDIRECTORY,
    open_controller_directory,
)
from quorate.quorum.raft_node import in_thread
from quorate.settings import NodeConfig, topic_config
from quorate.tools.controller_tls import controller_client_context
from quorate.tools.controllers import RemoteController
from quorate.tools.metrics.broker import BrokerMetrics
from quorate.tools.metrics.controller import ControllerMetrics
from quorate.tools.metrics_server import NodeMetrics, serving_metrics
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.story import follow_broker

logger: Final = logging.getLogger(__name__)

PORTS_TRIED: Final = 100
TRAFFIC_INTERVAL_S: Final = 0.5
PIPE_BYTES: Final = 4096
PORT_TAKEN: Final = os.strerror(errno.EADDRINUSE)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What a node is started with: its settings, typed and as text."""

    config: NodeConfig
    texts: Mapping[str, str]

    @property
    def min_insync_replicas(self) -> int:
        """What topics need that do not say otherwise, in a cluster that begins with this node."""
        return topic_config(self.texts, {}).min_insync_replicas


@dataclass(frozen=True, slots=True)
class Ready:
    """A node that serves; ``endpoints`` by security protocol.

    ``controllers`` are those of the quorum that a controller belongs to. ``metrics`` is where it
    tells how it is, if it does.
    """

    endpoints: Mapping[str, Endpoint]
    cluster_id: str
    directory: Path
    controllers: Sequence[Endpoint] = ()
    metrics: Endpoint | None = None


OnReady = Callable[[Ready], None]


def stop_signals() -> list[signal.Signals]:
    """Return the signals by which nodes are told to stop.

    SIGHUP is one, of a terminal that was closed, unless it is to be ignored (``nohup``).
    """
    told = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        told.append(signal.SIGHUP)
    return told


async def run_until_stopped(main: Callable[[], Awaitable[None]], *, with_parent: bool) -> None:
    """Run a node until it is told to stop by a signal, or fails.

    ``with_parent``: also when standard input ends, the pipe of a process that nodes end with.
    """
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async with trio.open_nursery() as nursery:

            async def stop_when_told() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            async def stop_with_parent() -> None:
                await wait_for_end(sys.stdin.fileno())
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop_when_told)
            if with_parent:
                nursery.start_soon(stop_with_parent)
            await main()
            nursery.cancel_scope.cancel()


async def wait_for_end(descriptor: int) -> None:
    """Wait until nobody is left who could write to a pipe."""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        if not os.read(descriptor, PIPE_BYTES):
            return


async def run_combined(plan: NodePlan, listeners: list[Listener], on_ready: OnReady) -> None:
    """Run a controller and a broker in this process, formatting the directory if it is empty.

    The broker ends first, so that it can take its leave of the controller.
    """
    _check_whole(Path(plan.config.log_dir))
    directory = open_controller_directory(
        Path(plan.config.log_dir), plan.config.node_id, cluster_id=None
    )
    directory.found_alone(None, NO_LISTENER)
    surroundings = alone(in_thread, plan.min_insync_replicas)
    metrics = NodeMetrics("combined", plan.config.node_id)
    try:
        controller = Controller(directory, plan.config, SystemRandom(), surroundings)
        scope = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            await nursery.start(run_in, scope, controller.run)
            metrics.sources["controller"] = ControllerMetrics(controller)
            try:
                await _run_broker(
                    BrokerPlan(
                        plan.config, plan.texts, controller.cluster_id, listeners, controller.handle
                    ),
                    metrics,
                    on_ready,
                )
            finally:
                scope.cancel()
    finally:
        directory.close()


async def run_separate_broker(plan: NodePlan, listeners: list[Listener], on_ready: OnReady) -> None:
    """Run a broker whose controllers are other processes."""
    config = plan.config
    endpoints = [controller_endpoint(text) for text in config.controller_quorum_bootstrap_servers]
    if not endpoints:
        raise UsageError(
            "a broker needs to know its controllers",
            why="controller.quorum.bootstrap.servers is empty",
            hint="--controllers 127.0.0.1:9190",
        )
    scope = trio.CancelScope(shield=True)
    async with trio.open_nursery() as nursery:
        remote = RemoteController(endpoints, config.node_id, controller_client_context(config))
        await nursery.start(run_in, scope, remote.run)
        try:
            cluster_id = await remote.find_cluster()
            await _run_broker(
                BrokerPlan(config, plan.texts, cluster_id, listeners, remote.call),
                NodeMetrics("broker", config.node_id),
                on_ready,
            )
        finally:
            scope.cancel()


async def _run_broker(plan: BrokerPlan, metrics: NodeMetrics, on_ready: OnReady) -> None:
    """Run a broker until cancelled; tell when it serves."""
    async with serving_metrics(plan.config, metrics) as told_at, trio.open_nursery() as nursery:
        running: RunningBroker = await nursery.start(run_broker, plan)
        if logger.isEnabledFor(logging.INFO):
            nursery.start_soon(_log_traffic, running)
        follow_broker(running.broker)
        if told_at is not None:
            metrics.sources["broker"] = BrokerMetrics(
                running.broker, running.traffic, running.server
            )
        directory = Path(plan.config.log_dir)
        on_ready(Ready(running.endpoints, plan.cluster_id, directory, metrics=told_at))


async def _log_traffic(running: RunningBroker) -> None:
    """Say now and then what goes in and out, if anything does."""
    told = (0, 0, 0)
    while True:
        traffic = running.traffic
        now = (traffic.accepted, traffic.received_bytes, traffic.sent_bytes)
        if now != told:
            logger.info("connections accepted %d, bytes received %d, bytes sent %d", *now)
            told = now
        await trio.sleep(TRAFFIC_INTERVAL_S)


async def run_in(
    scope: trio.CancelScope,
    run: Callable[..., Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Run something in a scope of its own: shielded, it outlives what uses it."""
    with scope:
        await run(task_status=task_status)


def _check_whole(directory: Path) -> None:
    """Refuse a directory that lost its metadata: a new cluster's would not know its records.

    Raises:
        CommandError: there is a broker's data, but no controller's.
    """
    metadata = directory / SUBDIRECTORY
    if (directory / META_NAME).exists() and not (metadata / META).exists():
        raise CommandError(
            f"{directory} has a broker's records, but not the metadata that they belong to",
            why=f"{metadata / META} is missing, and a new cluster would not know these records",
            hint=f"put {metadata} back, or use another --dir for a new cluster",
        )


def controller_endpoint(text: str) -> Endpoint:
    """Return where a controller is, from ``host:port``, or ``PLAINTEXT://host:port``.

    Raises:
        UsageError: the text has another form.
    """
    try:
        return parse_listeners([text], "controllers")[PLAINTEXT]
    except (InvalidConfigError, KeyError):
        raise UsageError(
            f"{text!r} is no controller address", why="that is host:port", hint="127.0.0.1:9190"
        ) from None


def listen_near(config: NodeConfig) -> list[Listener]:
    """Bind the listeners; one plain listener whose port is taken gets the next free one.

    Raises:
        ListenError: none of the ports near is free, or there are several listeners.
    """
    wanted = parse_listeners(config.listeners, "listeners")
    endpoint = wanted.get(PLAINTEXT)
    if endpoint is None or len(wanted) > 1:
        return bind_listeners(config)
    last = min(endpoint.port + PORTS_TRIED, PORT_MAX)
    for port in range(endpoint.port, last):
        try:
            return [Listener(PLAINTEXT, bind(Endpoint(endpoint.host, port), config))]
        except ListenError as error:
            if PORT_TAKEN not in str(error):
                raise
    return [Listener(PLAINTEXT, bind(Endpoint(endpoint.host, last), config))]
