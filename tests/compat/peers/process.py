"""What the kernel says about a process and its children, and of the machine beside it (Linux)."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CPU_CLOCK_SCHEDULER = 2


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process and its children, now and at its highest."""

    rss_bytes: int
    rss_bytes_max: int


def family_of(pid: int) -> list[int]:
    """Return a process and all its descendants that are alive."""
    family = [pid]
    for member in family:  # grows while we walk it
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            try:
                family.extend(map(int, children.read_text().split()))
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
                continue
    return family


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU time that a process and its descendants have used, threads that ended too."""
    total_s = 0.0
    for member in family_of(pid):
        try:
            # A process's CPU clock by its id, as clock_getcpuclockid(3) makes it.
            total_s += time.clock_gettime((~member << 3) | _CPU_CLOCK_SCHEDULER)
        except OSError:  # it ended meanwhile
            continue
    return total_s


def machine_cpu_seconds() -> float:
    """Return the CPU time that all processes together have used since the machine started."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def memory_of(pid: int) -> Memory:
    """Return the resident memory of a process and its descendants."""
    rss_kib = highest_kib = 0
    for member in family_of(pid):
        try:
            status = Path(f"/proc/{member}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        sizes = {
            line.partition(":")[0]: int(line.split()[1])
            for line in status.splitlines()
            if line.startswith(("VmRSS:", "VmHWM:"))
        }
        rss_kib += sizes.get("VmRSS", 0)
        highest_kib += sizes.get("VmHWM", 0)
    return Memory(rss_kib * 1024, highest_kib * 1024)
