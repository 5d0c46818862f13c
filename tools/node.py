"""What all nodes have in common: what they are started with, and how they are told to stop."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from quorate.broker.listeners import PLAINTEXT, parse_listeners
from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError
from quorate.model import Endpoint
from quorate.settings import NodeConfig, topic_config
from quorate.tools.problems import UsageError

PIPE_BYTES: Final = 4096


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


async def run_in(
    scope: trio.CancelScope,
    run: Callable[..., Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Run something in a scope of its own: shielded, it outlives what uses it."""
    with scope:
        await run(task_status=task_status)


async def start_shielded(
    nursery: trio.Nursery, run: Callable[..., Awaitable[None]]
) -> trio.CancelScope:
    """Start something that only the scope returned ends; until it has started, all that ends us.

    A node is told to stop while it starts, too, and nobody would have the scope to end it by.
    """
    scope = trio.CancelScope()
    await nursery.start(run_in, scope, run)
    scope.shield = True
    return scope


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
