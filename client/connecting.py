"""Trio shell: runs connectors, each for itself, and starts them again after what may pass."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import trio

from quorate.client.connect.config import ConnectConfig, Connector, FileSource
from quorate.client.connect.lines import PositionError
from quorate.client.connect.rows import UnreadableError
from quorate.client.connector import ConnectorError, Context
from quorate.client.errors import ProducerFencedError
from quorate.client.file_source import run_file_source
from quorate.client.sqlite_sink import run_sqlite_sink
from quorate.dataclass import dataclass
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quorate.client.connections import ConnectionOptions

logger = logging.getLogger(__name__)

PAUSE_MS_MAX: Final = 30_000

State: TypeAlias = Literal["running", "done", "failed", "stopped"]

_FINAL: Final = (ConnectorError, PositionError, UnreadableError)
"""What does not pass by itself."""

_PASSING: Final = (QuorateError, OSError, sqlite3.OperationalError)


@dataclass(slots=True)
class Status:
    """How a connector is.

    Attributes:
        name: Its name.
        state: Whether it runs, has done with all there was, failed for good, or was stopped.
        records: How many records it has carried.
        restarts: How often it was started again.
        error: Why it failed last; empty if it has not.
    """

    name: str
    state: State = field(default="running")
    records: int = 0
    restarts: int = 0
    error: str = ""


async def run_connectors(
    config: ConnectConfig,
    bootstrap: str | Sequence[str],
    options: ConnectionOptions,
    *,
    once: bool,
    tell: Callable[[str, str], None],
    statuses: list[Status],
) -> None:
    """Run all connectors until they are done or have failed; without ``once``, until cancelled.

    One that fails for good does not stop the others.

    Args:
        config: Which connectors.
        bootstrap: Where to find brokers.
        options: For the clients.
        once: Whether to carry what there is now, and no more.
        tell: Called with a connector's name and what a person should know.
        statuses: Gets one for each connector, which are kept up to date.
    """
    async with trio.open_nursery() as nursery:
        for connector in config.connectors:
            status = Status(connector.common.name)
            statuses.append(status)
            context = Context(
                bootstrap, options, config.offsets_topic, once, _for_one(tell, status), status
            )
            nursery.start_soon(_supervise, connector, context, status)


def _for_one(tell: Callable[[str, str], None], status: Status) -> Callable[[str], None]:
    return lambda text: tell(status.name, text)


async def _supervise(connector: Connector, context: Context, status: Status) -> None:
    try:
        await _run_again_and_again(connector, context, status)
    finally:
        if status.state == "running":
            status.state = "stopped"


async def _run_again_and_again(connector: Connector, context: Context, status: Status) -> None:
    failures = 0
    while True:
        carried = status.records
        try:
            await _run(connector, context)
        except _PASSING as error:
            if _is_final(error):
                _fail(context, status, error)
                return
            trouble: Exception = error
        except sqlite3.Error as error:
            _fail(context, status, error)
            return
        else:
            status.state = "done"
            return
        failures = 1 if status.records > carried else failures + 1
        if failures > connector.common.retries:
            _fail(context, status, trouble)
            return
        pause_ms = min(PAUSE_MS_MAX, connector.common.retry_backoff_ms * 2 ** (failures - 1))
        status.restarts += 1
        context.tell(f"starts again in {pause_ms} ms: {trouble}")
        await trio.sleep(pause_ms / 1000)


def _is_final(error: Exception) -> bool:
    """Whether an error does not pass by itself; nor is a runner that took over to be driven out."""
    if isinstance(error, ProducerFencedError):
        return not error.took_too_long
    return isinstance(error, _FINAL)


async def _run(connector: Connector, context: Context) -> None:
    if isinstance(connector, FileSource):
        await run_file_source(connector, context)
    else:
        await run_sqlite_sink(connector, context)


def _fail(context: Context, status: Status, error: Exception) -> None:
    status.state, status.error = "failed", str(error) or type(error).__name__
    context.tell(f"failed: {status.error}")
