"""Builds a broker out of its parts and runs its tasks in one nursery."""

import secrets
import ssl
from collections.abc import Mapping
from functools import partial

import trio

from quorate.broker.aside import Aside
from quorate.broker.cleaner import Cleaner
from quorate.broker.controller_link import Call, ControllerLink, Identity
from quorate.broker.handlers.context import Broker
from quorate.broker.handlers.producer_ids import ProducerIds
from quorate.broker.handlers.table import serve_own
from quorate.broker.housekeeping import Housekeeping
from quorate.broker.isr_sender import IsrSender
from quorate.broker.listeners import (
    PLAINTEXT,
    BetweenBrokers,
    Listener,
    advertised_endpoints,
    between_brokers,
    tls_context,
)
from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.log.files import FatalStorageError, OsFileSystem
from quorate.broker.log.store import LogStore, open_store
from quorate.broker.peers import Peers
from quorate.broker.replica_fetcher import ReplicaFetchers
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.fetching import FetchRules
from quorate.broker.replication.replicas import Replicas
from quorate.broker.server import RequestServer, wall_clock_ms
from quorate.broker.syncer import Syncer
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import Endpoint
from quorate.net.collector import OF_BROKERS, calm_collector
from quorate.net.reactor import Reactor, Traffic
from quorate.net.tls import TlsServer
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.settings import NodeConfig

INCARNATION_BYTES = 16


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """What a broker is started with.

    Attributes:
        texts: the node's properties as text, for what topics inherit and DescribeConfigs shows.
        listeners: bound and listening; closed by the broker.
        call: sends a request to the active controller.
    """

    config: NodeConfig
    texts: Mapping[str, str]
    cluster_id: str
    listeners: list[Listener]
    call: Call


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that serves."""

    endpoints: Mapping[str, Endpoint]
    traffic: Traffic
    broker: Broker
    server: RequestServer


async def run_broker(
    plan: BrokerPlan, *, task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run a broker until cancelled, then stop cleanly; started once clients are served.

    Raises:
        QuorateError: the data directory, a listener or the controller refuses this broker, or the
            disk failed. Inside exception groups, as nurseries raise what their tasks do.
    """
    try:
        ways = _ways(plan)
        store = await trio.to_thread.run_sync(_open_store, plan)
        rules = fetch_rules(plan.config)
        replicas = Replicas(plan.config.node_id, store, EMPTY_IMAGE, plan.texts, rules)
        replicas.host.lag_time_max_ms = plan.config.replica_lag_time_max_ms
        clean = True
        try:
            await _run(plan, replicas, ways, task_status)
        except BaseException as error:
            clean = is_orderly(error)
            raise
        finally:
            epoch = replicas.host.broker_epoch
            store.close(
                clean=clean,
                now_ms=wall_clock_ms(),
                high_watermarks=replicas.high_watermarks(),
                broker_epoch=None if epoch == UNKNOWN_BROKER_EPOCH else epoch,
            )
    finally:
        for listener in plan.listeners:
            listener.sock.close()


@dataclass(frozen=True, slots=True)
class _Ways:
    """How this broker is reached, with the TLS settings of its SSL listener, and reaches others."""

    endpoints: Mapping[str, Endpoint]
    context: ssl.SSLContext | None
    between: BetweenBrokers


def _ways(plan: BrokerPlan) -> _Ways:
    endpoints = advertised_endpoints(plan.config, plan.listeners)
    encrypted = any(listener.protocol != PLAINTEXT for listener in plan.listeners)
    context = tls_context(plan.config) if encrypted else None
    return _Ways(endpoints, context, between_brokers(plan.config, endpoints))


def fetch_rules(config: NodeConfig) -> FetchRules:
    """Return how a broker with these settings fetches from leaders."""
    return FetchRules(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        partition_bytes_max=config.replica_fetch_max_bytes,
        response_bytes_max=config.replica_fetch_response_max_bytes,
        backoff_max_ms=config.replica_fetch_backoff_ms,
    )


def is_orderly(error: BaseException) -> bool:
    """Whether a broker that ends with this knows what is in its logs, and may say so on disk."""
    if isinstance(error, BaseExceptionGroup):
        errors: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return all(is_orderly(each) for each in errors)
    expected = isinstance(error, trio.Cancelled | QuorateError)
    return expected and not isinstance(error, FatalStorageError)


def _open_store(plan: BrokerPlan) -> LogStore:
    return open_store(
        OsFileSystem(),
        plan.config.log_dir,
        cluster_id=plan.cluster_id,
        node_id=plan.config.node_id,
        now_ms=wall_clock_ms(),
    )


async def _run(
    plan: BrokerPlan,
    replicas: Replicas,
    ways: _Ways,
    task_status: trio.TaskStatus[RunningBroker],
) -> None:
    """Serve until cancelled, and on until what this broker leads has moved away."""
    broker = Broker(
        config=plan.config,
        node_texts=plan.texts,
        cluster_id=plan.cluster_id,
        replicas=replicas,
        deadlines=Deadlines(),
        producer_ids=ProducerIds(),
        random=secrets.SystemRandom(),
    )
    broker.serve_own = partial(serve_own, broker)
    server = RequestServer(broker, trio.lowlevel.current_clock().current_time)
    server.begin_turn()
    identity = Identity(
        secrets.token_bytes(INCARNATION_BYTES),
        replicas.store.meta.directory_id.encode(),
        ways.endpoints,
    )
    link = ControllerLink(broker, identity, plan.call, server.end_turn)
    serving = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        parts = _Parts(plan, broker, server, link, ways)
        traffic: Traffic = await nursery.start(_run_parts, parts, serving)
        serving.shield = True
        task_status.started(RunningBroker(ways.endpoints, traffic, broker, server))
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await link.leave()
            serving.cancel()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a broker is made of."""

    plan: BrokerPlan
    broker: Broker
    server: RequestServer
    link: ControllerLink
    ways: _Ways


async def _run_parts(
    parts: _Parts, scope: trio.CancelScope, *, task_status: trio.TaskStatus[Traffic]
) -> None:
    """Run the tasks of a broker until the scope is cancelled; started once clients are served."""
    broker, call = parts.broker, parts.plan.call
    begin_turn, end_turn = parts.server.begin_turn, parts.server.end_turn
    broker.aside = aside = Aside(begin_turn, end_turn)
    reactor = Reactor(parts.server.service(PLAINTEXT))
    with scope:
        async with trio.open_nursery() as nursery:
            # Before any log is led: what was recovered may have to be synced before it counts.
            syncer = Syncer(broker, begin_turn, end_turn)
            nursery.start_soon(syncer.run)
            reactor.watch(syncer.done_fd, syncer.end_round)
            nursery.start_soon(reactor.run)
            nursery.start_soon(Housekeeping(broker, begin_turn, end_turn).run)
            nursery.start_soon(Cleaner(broker, begin_turn).run)
            await nursery.start(aside.run)
            nursery.start_soon(IsrSender(broker, call, begin_turn, end_turn).run)
            between = parts.ways.between
            nursery.start_soon(ReplicaFetchers(broker, begin_turn, end_turn, between).run)
            nursery.start_soon(Peers(broker, begin_turn, end_turn, between).run)
            await nursery.start(parts.link.run)
            _serve(nursery, reactor, parts)
            calm_collector(OF_BROKERS)
            task_status.started(reactor.traffic)


def _serve(nursery: trio.Nursery, reactor: Reactor, parts: _Parts) -> None:
    """Start serving every listener."""
    listeners, context = parts.plan.listeners, parts.ways.context
    reactor.listen(x.sock for x in listeners if x.protocol == PLAINTEXT)
    for listener in listeners:
        if listener.protocol != PLAINTEXT:
            assert context is not None, "made whenever a listener is encrypted"
            stream = trio.SocketListener(trio.socket.from_stdlib_socket(listener.sock))
            tls = TlsServer([stream], context, parts.server.service(listener.protocol))
            nursery.start_soon(tls.run)
