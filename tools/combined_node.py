"""Composes a node out of controller and broker, runs it, and stops it in the right order."""

import errno
import os
from pathlib import Path
from random import SystemRandom
from typing import Final

import trio

from quorate.broker.app import BrokerPlan
from quorate.broker.listeners import (
    PLAINTEXT,
    Listener,
    ListenError,
    bind,
    bind_listeners,
    parse_listeners,
)
from quorate.broker.log.directory import META_NAME
from quorate.model import PORT_MAX, Endpoint
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.directory import META, SUBDIRECTORY, open_controller_directory
from quorate.quorum.raft_node import in_thread
from quorate.settings import NodeConfig
from quorate.tools.broker_node import serve_broker
from quorate.tools.metrics.controller import ControllerMetrics
from quorate.tools.metrics_server import NodeMetrics
from quorate.tools.node import NodePlan, OnReady, start_shielded
from quorate.tools.problems import CommandError

PORTS_TRIED: Final = 100
PORT_TAKEN: Final = os.strerror(errno.EADDRINUSE)


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
        async with trio.open_nursery() as nursery:
            scope = await start_shielded(nursery, controller.run)
            metrics.sources["controller"] = ControllerMetrics(controller)
            try:
                await serve_broker(
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
