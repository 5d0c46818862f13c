"""A node in a process of its own: started, watched, killed."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import quorate

START_S_MAX: Final = 120.0
"""A machine on which other work goes first may take half a minute for what takes half a second."""
STOP_S_MAX: Final = 30.0
ROOT: Final = Path(quorate.__file__).resolve().parents[1]

Done = subprocess.CompletedProcess[str]


class StartError(Exception):
    """A node ended, or was silent, instead of getting ready."""


def command(*words: str) -> list[str]:
    """Return the command line of ``quorate`` from this tree."""
    return [sys.executable, "-m", "quorate.tools.cli", *words]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node's process; if compiled code ends it, its log says where."""
    told = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    return {**os.environ, **told, **extra}


class Process:
    """A ``quorate`` command that runs until told to stop; its log is appended to ``log_path``.

    Owns the process: who makes one must :meth:`kill` or :meth:`stop` it, or use it in ``with``.
    """

    def __init__(self, words: Sequence[str], log_path: Path, variables: Mapping[str, str]) -> None:
        """Start the process; :meth:`wait_until_ready` comes next."""
        self.log_path = log_path
        self.ready: dict[str, Any] = {}
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command("--format", "json", "--verbose", *words),
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(variables),
                cwd=ROOT,
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    def wait_until_ready(self) -> None:
        """Return when it serves.

        Raises:
            StartError: it ended or took too long.
        """
        stdout = self.process.stdout
        assert stdout is not None
        deadline_s = time.monotonic() + START_S_MAX
        received = b""
        while b"\n" not in received:
            rest_s = deadline_s - time.monotonic()
            if rest_s <= 0 or not select.select([stdout], [], [], rest_s)[0]:
                raise StartError(f"not ready after {START_S_MAX} s")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                raise StartError(f"ended with {self.process.wait()}: {self.log_tail()}")
            received += chunk
        self.ready = json.loads(received)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def wait(self, seconds_max: float) -> int | None:
        """Return the exit code, or None if it still runs after so long."""
        try:
            return self.process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it with kill -9, if it still runs."""
        if self.is_alive:
            self.process.send_signal(signal.SIGKILL)
        self._close()

    def stop(self) -> int:
        """End it properly and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S_MAX)
        finally:
            self.kill()

    def _close(self) -> None:
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def log(self) -> str:
        """Return everything it logged, earlier processes with the same log included."""
        return self.log_path.read_text(errors="replace")

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log().splitlines()[-15:])

    def rss_bytes(self) -> int:
        """Return how much memory it has."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def rss_peak_bytes(self) -> int:
        """Return the most memory that it has had, of late if :meth:`forget_rss_peak` was called."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])

    def forget_rss_peak(self) -> None:
        """Begin anew with the most memory that it has had."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def read_bytes(self) -> int:
        """Return how many bytes it has read, from the page cache or not."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        counters = dict(line.split(": ") for line in lines)
        return int(counters["rchar"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Node(Process):
    """A combined node on a free port."""

    def __init__(
        self,
        directory: Path,
        log_path: Path,
        *,
        properties: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> None:
        words = ["up", "--port", "0", "--dir", str(directory)]
        for name, value in properties.items():
            words += ["-X", f"{name}={value}"]
        super().__init__(words, log_path, variables)
        self.port = 0

    def wait_until_ready(self) -> None:
        """Return when it serves.

        Raises:
            StartError: it ended or took too long.
        """
        super().wait_until_ready()
        self.port = int(self.ready["listeners"]["PLAINTEXT"].rpartition(":")[2])


def start_node(
    directory: Path,
    log_path: Path,
    *,
    properties: Mapping[str, str],
    variables: Mapping[str, str],
) -> Node:
    """Return a node that serves.

    Raises:
        StartError: it does not.
    """
    node = Node(directory, log_path, properties=properties, variables=variables)
    try:
        node.wait_until_ready()
    except BaseException:
        node.kill()
        raise
    return node


def run_command(words: Sequence[str], *, variables: Mapping[str, str], seconds_max: float) -> Done:
    """Run a ``quorate`` command to its end."""
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        env=environment(variables),
        cwd=ROOT,
        timeout=seconds_max,
        check=False,
    )
