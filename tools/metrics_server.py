"""Trio shell: /metrics, /healthz and /readyz of a node, over a little HTTP."""

import logging
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Final, Protocol

import trio

from quorate import __version__
from quorate.broker.listeners import PLAINTEXT, bind, parse_listeners
from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError
from quorate.model import Endpoint
from quorate.settings import NodeConfig
from quorate.tools.metrics.http import Asked, Told, parse_head, said
from quorate.tools.metrics.specs import Sample
from quorate.tools.problems import UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger: Final = logging.getLogger(__name__)

METRICS_LISTENER: Final = "quorate.metrics.listener"
ANY_PORT: Final = "127.0.0.1:0"
CONNECTIONS_MAX: Final = 16
ANSWER_TIMEOUT_S: Final = 5.0
LOOK_INTERVAL_S: Final = 0.5
RECEIVE_BYTES: Final = 4096


class Source(Protocol):
    """A broker or a controller, as the metrics of a node see it."""

    @property
    def is_ready(self) -> bool:
        """Whether it can do its work."""
        ...

    def samples(self) -> Iterator[Sample]:
        """Yield all that there is to tell."""
        ...


@dataclass
class NodeMetrics:
    """What a node tells; ``sources`` are added when they run.

    Attributes:
        lag_s: how much too late the event loop was at most, since it was asked last.
    """

    role: str
    node_id: int
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    lag_s: float = 0.0

    @property
    def unready(self) -> list[str]:
        """Who cannot do its work yet."""
        return [name for name, source in self.sources.items() if not source.is_ready]

    def samples(self) -> Iterator[Sample]:
        """Yield all that there is to tell."""
        yield Sample("quorate_build_info", 1, (__version__, self.role, str(self.node_id)))
        lag_s, self.lag_s = self.lag_s, 0.0
        yield Sample("quorate_event_loop_lag_seconds", lag_s)
        for source in self.sources.values():
            yield from source.samples()


class MetricsServer:
    """Answers what is asked over HTTP, a few connections at a time."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._connections = 0
        self._registry: CollectorRegistry | None = None
        self._answers: Final[dict[str, Callable[[], Told]]] = {
            "/metrics": self._expose,
            "/healthz": lambda: said(200, "ok"),
            "/readyz": self._readiness,
        }

    async def run(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await trio.serve_listeners(self._serve, [listener])

    async def _watch(self) -> None:
        """Measure how late the loop is."""
        while True:
            due_s = trio.current_time() + LOOK_INTERVAL_S
            await trio.sleep_until(due_s)
            self._metrics.lag_s = max(self._metrics.lag_s, trio.current_time() - due_s)

    async def _serve(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        try:
            if self._connections <= CONNECTIONS_MAX:
                with trio.move_on_after(ANSWER_TIMEOUT_S):
                    await self._answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._connections -= 1
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream) -> None:
        data = b""
        while (asked := parse_head(data)) is None:
            received = await stream.receive_some(RECEIVE_BYTES)
            if not received:
                return
            data += received
        told = self.told(asked) if isinstance(asked, Asked) else asked
        await stream.send_all(told.encoded(head_only=isinstance(asked, Asked) and asked.head_only))
        await stream.send_eof()

    def told(self, asked: Asked) -> Told:
        """Return the answer to a request."""
        answer = self._answers.get(asked.path)
        if answer is None:
            return said(404, f"there are {', '.join(self._answers)}")
        return answer()

    def _readiness(self) -> Told:
        unready = self._metrics.unready
        if unready or not self._metrics.sources:
            return said(503, f"not ready: {', '.join(unready) or 'starting'}")
        return said(200, "ready")

    def _expose(self) -> Told:
        # Imported where it is needed: most nodes of tests are never asked.
        from quorate.tools.metrics.exposition import CONTENT_TYPE, exposition, registry_of

        if self._registry is None:
            self._registry = registry_of(self._metrics.samples)
        return Told(200, exposition(self._registry), CONTENT_TYPE)


def metrics_endpoint(config: NodeConfig) -> Endpoint:
    """Return where a node is to serve its metrics.

    Raises:
        UsageError: the property is no address.
    """
    try:
        return parse_listeners([config.metrics_listener], METRICS_LISTENER)[PLAINTEXT]
    except (InvalidConfigError, KeyError):
        raise UsageError(
            f"{config.metrics_listener!r} is no address for metrics",
            why=f"{METRICS_LISTENER} is host:port; port 0 is any free one",
            hint=f"-X {METRICS_LISTENER}=127.0.0.1:9308",
        ) from None


@asynccontextmanager
async def serving_metrics(
    config: NodeConfig, metrics: NodeMetrics
) -> AsyncGenerator[Endpoint | None]:
    """Serve metrics within, if the node's properties say where; gives the address.

    Raises:
        UsageError: that is no address.
        ListenError: one cannot listen there.
    """
    if not config.metrics_listener:
        yield None
        return
    sock = bind(metrics_endpoint(config), config)
    host, port = sock.getsockname()[:2]
    endpoint = Endpoint(host, port)
    logger.info("metrics at http://%s/metrics", endpoint)
    async with trio.SocketListener(_trio_socket(sock)) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(MetricsServer(metrics).run, listener)
        try:
            yield endpoint
        finally:
            nursery.cancel_scope.cancel()


def _trio_socket(sock: socket.socket) -> trio.socket.SocketType:
    return trio.socket.from_stdlib_socket(sock)
