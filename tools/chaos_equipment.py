"""What ``quorate up --chaos`` puts below nodes: clocks, disks and links that can be broken.

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
from quorate.jepsen.lab.refusing import REFUSE_C, Refusals
from quorate.tools.cluster_directory import CHAOS_NAME, ClusterDirectory
from quorate.tools.clusters.chaos import NO_FAULTS, Faults
from quorate.tools.problems import CommandError

PRELOADED: Final = "LD_PRELOAD"
SOURCES: Final = (CLOCK_C, REFUSE_C, SHIM_C)


class Equipment:
    """What lies below one node; owns the pages while it is open."""

    def __init__(self, directory: ClusterDirectory, name: str) -> None:
        """Open what is there of a node, or make it: nothing is wrong at first."""
        work = directory.path / CHAOS_NAME
        own = work / name
        own.mkdir(parents=True, exist_ok=True)
        self._libraries = [str(build_library(source, work)) for source in SOURCES]
        self._names = {member.port: member.name for member in directory.layout().members}
        self._clock = Clock(own / "clock", keep=True)
        self._links = Refusals(own / "links", keep=True)
        data, disk_library = directory.path / name, build_library(SHIM_C, work)
        self._disk = Shim(data, own, journal=False, library=disk_library, keep=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clock.close()
        self._links.close()
        self._disk.close()

    def environment(self) -> dict[str, str]:
        """Return what the node's process must have in its environment."""
        pages = self._clock.variables() | self._links.variables() | self._disk.environment()
        libraries = (*self._libraries, os.environ.get(PRELOADED, ""))
        return {**pages, PRELOADED: ":".join(filter(None, libraries))}

    def is_below(self, pid: int) -> bool:
        """Whether a process has it: not if the node was started before."""
        try:
            loaded = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False  # it has just ended
        return all(library in loaded for library in self._libraries)

    @property
    def faults(self) -> Faults:
        """What is wrong now."""
        delay_ms = self._disk.get("sync_delay_us") // 1000
        apart = tuple(self._names.get(port, f"port {port}") for port in self._links.ports)
        return Faults(round(1000 * self._clock.ahead_s), self._clock.rate, delay_ms, apart)

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._disk.set("sync_delay_us", 1000 * faults.sync_delay_ms)
        self._links.ports = [p for p, name in self._names.items() if name in faults.apart]
        self._clock.set(faults.ahead_ms / 1000, faults.rate)


def make_equipment(directory: ClusterDirectory) -> None:
    """Have the nodes that are started from now on stand on it; once for a cluster.

    Raises:
        CommandError: the libraries cannot be compiled here.
    """
    work = directory.path / CHAOS_NAME
    if compiler() is None:
        raise CommandError(
            "clocks, disks and links cannot be broken here", why="there is no C compiler",
            hint="install gcc or clang; kill, pause, resume and start need no --chaos",
        )  # fmt: skip
    try:
        work.mkdir(exist_ok=True)
        for source in SOURCES:
            build_library(source, work)
    except NotCompiledError as error:
        raise CommandError(
            "clocks, disks and links cannot be broken here", why=str(error),
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
