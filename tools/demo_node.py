"""A node of its own for the demo: another process, a folder that goes with it, a log that grows."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from quorate.tools.problems import CommandError

START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class DemoNode:
    """A node that serves."""

    bootstrap: str
    log: Path
    start_s: float
    directory: Path


@asynccontextmanager
async def demo_node() -> AsyncGenerator[DemoNode]:
    """Run a node on a port that the system chose; afterwards it and its folder are gone.

    Raises:
        CommandError: it does not start, or does not stop cleanly.
    """
    with TemporaryDirectory(prefix="quorate-demo-") as folder:
        directory = Path(folder)
        log = directory / "node.log"
        with log.open("wb") as output:
            async with trio.open_nursery() as nursery:
                process: trio.Process = await nursery.start(
                    partial(
                        trio.run_process,
                        _command(directory / "data"),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        check=False,
                    )
                )
                try:
                    yield await _wait_until_ready(process, log, directory)
                    await _stop(process, log)
                finally:
                    nursery.cancel_scope.cancel()


def _command(data: Path) -> list[str]:
    module = [sys.executable, "-m", "quorate.tools.cli"]
    return [*module, "up", "--port", "0", "--dir", str(data), "--format", "jsonl", "--verbose"]


async def _wait_until_ready(process: trio.Process, log: Path, directory: Path) -> DemoNode:
    with trio.move_on_after(START_TIMEOUT_S):
        while process.poll() is None:
            ready = _ready_event(log)
            if ready is not None:
                address = ready["listeners"]["PLAINTEXT"]
                return DemoNode(address, log, ready["seconds"], directory)
            await trio.sleep(POLL_S)
    raise CommandError(
        "the demo's node did not start", why=_last_lines(log), hint="quorate up --debug"
    )


def _ready_event(log: Path) -> dict[str, Any] | None:
    for line in log.read_text().splitlines():
        if line.startswith('{"event": "ready"'):
            event: dict[str, Any] = json.loads(line)
            return event
    return None


async def _stop(process: trio.Process, log: Path) -> None:
    process.send_signal(signal.SIGTERM)
    with trio.move_on_after(STOP_TIMEOUT_S):
        await process.wait()
    if process.returncode != 0:
        raise CommandError(
            f"the demo's node did not stop cleanly: exit code {process.returncode}",
            why=_last_lines(log),
            hint="run quorate up --debug and stop it with Ctrl-C",
        )


def _last_lines(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:]) or "it printed nothing"
