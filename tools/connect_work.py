"""Runs the connectors of a file until they have done or a signal comes."""

import signal
import tomllib
from collections.abc import Callable
from pathlib import Path

import trio

from quorate.client.connect.config import ConfigError, ConnectConfig, FileSource, parse_config
from quorate.client.connecting import Status, run_connectors
from quorate.tools.output import Column, Table
from quorate.tools.problems import UsageError
from quorate.tools.topics import Client


def read_config(path: Path) -> ConnectConfig:
    """Return what a file says.

    Raises:
        UsageError: it cannot be read, is not TOML, or makes no sense.
    """
    hint = "docs/connect.md has examples"
    try:
        return parse_config(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}", why=error.strerror or str(error), hint=hint
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML", why=str(error), hint=hint) from None
    except ConfigError as error:
        raise UsageError(f"{path} makes no sense", why=str(error), hint=hint) from None


async def run_until_told(
    config: ConnectConfig,
    client: Client,
    *,
    once: bool,
    tell: Callable[[str, str], None],
    statuses: list[Status],
) -> None:
    """Run all connectors; an interruption stops them, and is no error."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, nursery.cancel_scope)
        await run_connectors(
            config, client.bootstrap, client.options, once=once, tell=tell, statuses=statuses
        )
        nursery.cancel_scope.cancel()


async def _stop_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


def statuses_table(statuses: list[Status]) -> Table:
    """Return what each connector has carried."""
    names = ("name", "state", "records", "restarts", "error")
    rows = tuple((s.name, s.state, s.records, s.restarts, s.error) for s in statuses)
    return Table("connectors", tuple(Column(name) for name in names), rows)


def connectors_table(config: ConnectConfig) -> Table:
    """Return what each connector is to carry."""
    rows = tuple(
        (c.common.name, "file-source", c.path, c.topic)
        if isinstance(c, FileSource)
        else (c.common.name, "sqlite-sink", ",".join(c.topics), f"{c.database}:{c.table}")
        for c in config.connectors
    )
    names = ("name", "type", "source", "target")
    return Table("connectors", tuple(Column(name) for name in names), rows)
