"""What ``quorate up --chaos`` puts below nodes, so that clocks can go wrong and disks be slow.

The libraries are those of ``quorate verify``, preloaded into the nodes; what they are to do stands
in files of a page, which a node and who breaks it have in common. Nothing else is needed: no root,
and no process besides the nodes.
"""

import os
from pathlib import Path
from typing import Final, Self

from quorate.jepsen.lab.clocks import CLOCK_C, Clock
from quorate.jepsen.lab.disks import SHIM_C, Shim
from quorate.jepsen.lab.native import NotCompiledError, build_library, compiler
from quorate.tools.cluster_directory import CHAOS_NAME, ClusterDirectory
from quorate.tools.clusters.chaos import NO_FAULTS, Faults
from quorate.tools.problems import CommandError

PRELOADED: Final = "LD_PRELOAD"


class Equipment:
    """What lies below one node; owns the pages while it is open."""

    def __init__(self, directory: ClusterDirectory, name: str) -> None:
        """Open what is there of a node, or make it: a right clock, and a quick disk."""
        work = directory.path / CHAOS_NAME
        own = work / name
        own.mkdir(parents=True, exist_ok=True)
        self._clock_library = build_library(CLOCK_C, work)
        disk_library = build_library(SHIM_C, work)
        self._clock = Clock(own / "clock", keep=True)
        data = directory.path / name
        self._disk = Shim(data, own, journal=False, library=disk_library, keep=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clock.close()
        self._disk.close()

    def environment(self) -> dict[str, str]:
        """Return what the node's process must have in its environment."""
        disk = self._disk.environment()
        libraries = (str(self._clock_library), disk[PRELOADED], os.environ.get(PRELOADED, ""))
        preloaded = {PRELOADED: ":".join(filter(None, libraries))}
        return {**self._clock.variables(), **disk, **preloaded}

    def is_below(self, pid: int) -> bool:
        """Whether a process has it: not if the node was started before."""
        try:
            return str(self._clock_library) in Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False  # it has just ended

    @property
    def faults(self) -> Faults:
        """What is wrong now."""
        delay_ms = self._disk.get("sync_delay_us") // 1000
        return Faults(round(1000 * self._clock.ahead_s), self._clock.rate, delay_ms)

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._disk.set("sync_delay_us", 1000 * faults.sync_delay_ms)
        self._clock.set(faults.ahead_ms / 1000, faults.rate)


def make_equipment(directory: ClusterDirectory) -> None:
    """Have the nodes that are started from now on stand on it; once for a cluster.

    Raises:
        CommandError: the libraries cannot be compiled here.
    """
    work = directory.path / CHAOS_NAME
    if compiler() is None:
        raise CommandError(
            "clocks and disks cannot be broken here", why="there is no C compiler",
            hint="install gcc or clang; kill, pause, resume and start need no --chaos",
        )  # fmt: skip
    try:
        work.mkdir(exist_ok=True)
        build_library(CLOCK_C, work)
        build_library(SHIM_C, work)
    except NotCompiledError as error:
        raise CommandError(
            "clocks and disks cannot be broken here", why=str(error),
            hint="leave --chaos out: kill, pause, resume and start do not need it",
        ) from error  # fmt: skip


def environment_of(directory: ClusterDirectory, name: str) -> dict[str, str]:
    """Return what a node is started with."""
    with Equipment(directory, name) as equipment:
        return equipment.environment()


def faults_of(directory: ClusterDirectory, name: str) -> Faults:
    """Return what is wrong below a node; nothing, if nothing was ever put there."""
    if not (directory.path / CHAOS_NAME / name).exists():
        return NO_FAULTS
    with Equipment(directory, name) as equipment:
        return equipment.faults
