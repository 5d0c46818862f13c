"""Runs a node that is a broker, whose controllers are other processes."""

import logging
from pathlib import Path
from typing import Final

import trio

from quorate.broker.app import BrokerPlan, RunningBroker, run_broker
from quorate.broker.listeners import Listener
from quorate.broker.log.directory import cluster_of_directory
from quorate.broker.log.files import OsFileSystem
from quorate.tools.controller_tls import controller_client_context
from quorate.tools.controllers import RemoteController
from quorate.tools.metrics.broker import BrokerMetrics
from quorate.tools.metrics_server import NodeMetrics, serving_metrics
from quorate.tools.node import NodePlan, OnReady, Ready, controller_endpoint, start_shielded
from quorate.tools.problems import UsageError
from quorate.tools.story import follow_broker

logger: Final = logging.getLogger(__name__)

TRAFFIC_INTERVAL_S: Final = 0.5


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
    # What cannot become right is told before controllers are waited for.
    known = cluster_of_directory(OsFileSystem(), config.log_dir, node_id=config.node_id)
    async with trio.open_nursery() as nursery:
        remote = RemoteController(endpoints, config.node_id, controller_client_context(config))
        scope = await start_shielded(nursery, remote.run)
        try:
            cluster_id = await remote.find_cluster(known)
            await serve_broker(
                BrokerPlan(config, plan.texts, cluster_id, listeners, remote.call),
                NodeMetrics("broker", config.node_id),
                on_ready,
            )
        finally:
            scope.cancel()


async def serve_broker(plan: BrokerPlan, metrics: NodeMetrics, on_ready: OnReady) -> None:
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
