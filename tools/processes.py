"""Processes of this machine: told apart for good, looked at, ended, and what they printed last."""

import os
import signal
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass

PAUSED_STATES: Final = frozenset({"T", "t"})
GONE_STATES: Final = frozenset({"Z", "X"})
TAIL_BYTES: Final = 16 << 10
START_LINE: Final = '{"event": "start"}'
"""Stands in a node's log before what a process prints; lines of JSON are for programs."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process; ``started`` tells it from a later one that got the same number.

    It is in clock ticks since the machine's start, as ``/proc`` has it.
    """

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class ProcessState:
    """How a process is now."""

    is_paused: bool
    memory_bytes: int
    uptime_ms: int


def process_id(pid: int) -> ProcessId | None:
    """Return the process that has a number now, None if none has."""
    fields = _stat(pid)
    return None if fields is None else ProcessId(pid, int(fields[19]))


def is_running(process: ProcessId) -> bool:
    """Whether it has not ended."""
    return process_id(process.pid) == process


def look_at(process: ProcessId) -> ProcessState | None:
    """Return how a process is; None if it has ended."""
    fields = _stat(process.pid)
    if fields is None or int(fields[19]) != process.started:
        return None
    ticks_per_s: int = os.sysconf("SC_CLK_TCK")
    uptime_s = float(Path("/proc/uptime").read_text().split()[0]) - process.started / ticks_per_s
    pages = int(fields[21])
    return ProcessState(
        is_paused=fields[0] in PAUSED_STATES,
        memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        uptime_ms=max(0, int(uptime_s * 1000)),
    )


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name in ``/proc/PID/stat``; None without a living process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if not fields or fields[0] in GONE_STATES else fields


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal; return False if the process has ended."""
    if not is_running(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def exit_text(code: int | None) -> str:
    """Say how a process ended, from what ``wait`` said; None: nobody waited for it."""
    if code is None:
        return "ended"
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines for people that a node printed since its last start."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    said = text.rpartition(START_LINE)[2]
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("{")]
    return lines[-count:]
