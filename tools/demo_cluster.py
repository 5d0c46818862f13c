"""A cluster of its own for the demo: processes, and a folder that goes with them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from quorate.dataclass import dataclass
from quorate.tools.problems import CommandError

BROKERS: Final = 3
CONTROLLERS: Final = 3
START_TIMEOUT_S: Final = 40.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.02
TRY: Final = "quorate up --brokers 3 --controllers 3"


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A cluster that serves; ``log`` is the output of one of its brokers."""

    bootstrap: str
    log: Path
    start_s: float
    directory: Path
    broker_pids: dict[int, int]

    def kill_broker(self, broker_id: int) -> None:
        """End a broker with SIGKILL: it has no time for anything."""
        os.kill(self.broker_pids[broker_id], signal.SIGKILL)

    def pause_broker(self, broker_id: int) -> None:
        """Stop a broker where it stands, as a machine does that swaps or hangs."""
        os.kill(self.broker_pids[broker_id], signal.SIGSTOP)

    def resume_broker(self, broker_id: int) -> None:
        """Let a broker go on that was paused."""
        os.kill(self.broker_pids[broker_id], signal.SIGCONT)

    async def start_what_is_missing(self) -> None:
        """Start brokers that were killed.

        Raises:
            CommandError: that does not work.
        """
        done = await trio.run_process(
            _command(self.directory), capture_stdout=True, capture_stderr=True, check=False
        )
        if done.returncode != 0:
            raise CommandError(
                "the broker that was killed could not be started again",
                why=done.stderr.decode(errors="replace"),
                hint="quorate up --brokers 3 --controllers 3, kill one, quorate up",
            )


@asynccontextmanager
async def demo_cluster(
    brokers: int = BROKERS, *, settings: Sequence[str] = ()
) -> AsyncGenerator[DemoCluster]:
    """Run a cluster on ports that are free; afterwards it and its folder are gone.

    ``settings`` are properties of its nodes, ``name=value``.

    Raises:
        CommandError: it does not start, or does not stop cleanly.
    """
    with TemporaryDirectory(prefix="quorate-demo-") as folder:
        directory = Path(folder) / "data"
        log = Path(folder) / "up.log"
        # It ends when this pipe does: also if this process is killed.
        parent, child = os.pipe()[::-1]
        try:
            async with trio.open_nursery() as nursery:
                with log.open("wb") as output:
                    process: trio.Process = await nursery.start(
                        partial(
                            trio.run_process,
                            [
                                *_command(directory),
                                *_size(brokers),
                                *_given(settings),
                                "--with-parent",
                            ],
                            stdin=child,
                            stdout=output,
                            stderr=subprocess.STDOUT,
                            check=False,
                            start_new_session=True,
                        )
                    )
                try:
                    yield await _wait_until_ready(process, log, directory)
                    await _stop(process, log)
                finally:
                    with trio.CancelScope(shield=True):
                        await _end(process)
                    nursery.cancel_scope.cancel()
        finally:
            os.close(parent)
            os.close(child)


def _command(directory: Path) -> list[str]:
    return [
        sys.executable, "-m", "quorate.tools.cli", "up", "--dir", str(directory),
        "--format", "jsonl",
    ]  # fmt: skip


def _given(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("-X", setting)]


def _size(brokers: int) -> list[str]:
    nodes = ["--brokers", str(brokers), "--controllers", str(CONTROLLERS)]
    return [*nodes, "--port", "0", "--verbose"]


async def _wait_until_ready(process: trio.Process, log: Path, directory: Path) -> DemoCluster:
    with trio.move_on_after(START_TIMEOUT_S):
        while process.poll() is None:
            ready = _ready_event(log)
            if ready is not None:
                return serving_cluster(ready, directory)
            await trio.sleep(POLL_S)
    raise CommandError(
        "the demo's cluster did not start",
        why=_last_lines(log),
        hint=TRY,
    )


def serving_cluster(ready: dict[str, Any], directory: Path) -> DemoCluster:
    """Return the cluster that ``quorate up`` says is ready.

    Raises:
        CommandError: a node ended at once. The others serve, and what fails then does not say why.
    """
    nodes = ready["nodes"]
    logs = directory / "logs"
    for node in nodes:
        if node["pid"] is None:
            name = f"{node['role']}-{node['id']}"
            raise CommandError(
                f"{name} of the demo's cluster did not start",
                why=_last_lines(logs / f"{name}.log"),
                hint=TRY,
            )
    return DemoCluster(
        ready["bootstrap"],
        logs / "broker-1.log",
        ready["seconds"],
        directory,
        {node["id"]: node["pid"] for node in nodes if node["role"] == "broker"},
    )


def _ready_event(log: Path) -> dict[str, Any] | None:
    for line in log.read_text().splitlines():
        if line.startswith('{"event": "ready"'):
            event: dict[str, Any] = json.loads(line)
            return event
    return None


async def _stop(process: trio.Process, log: Path) -> None:
    await _end(process)
    if process.returncode != 0:
        raise CommandError(
            f"the demo's cluster did not stop cleanly: exit code {process.returncode}",
            why=_last_lines(log),
            hint="run quorate up --brokers 3 --controllers 3 and stop it with Ctrl-C",
        )


async def _end(process: trio.Process) -> None:
    """Have all nodes ended, and wait until they are."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_TIMEOUT_S):
            await process.wait()


def _last_lines(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:]) or "it printed nothing"
