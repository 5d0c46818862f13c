"""The directory of a cluster on this machine: its layout, its lock, and which processes run it."""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from quorate.broker.log.directory import META_NAME
from quorate.dataclass import dataclass
from quorate.quorum.directory import SUBDIRECTORY
from quorate.tools.clusters.layout import Layout, LayoutError, decode, encode
from quorate.tools.nearby import LAYOUT_NAME, write_listening
from quorate.tools.problems import CommandError, RefusedError
from quorate.tools.processes import ProcessId, is_running, process_id
from quorate.tools.whole_files import replace_file

LOCK_NAME: Final = "cluster.lock"
PIDS_NAME: Final = "pids.json"
LOGS_NAME: Final = "logs"
PROPERTIES_NAME: Final = "node.properties"
CONFIG_NAME: Final = "node.config"
"""What every node was told: the properties of -F and -X, and the file of --config."""
CHAOS_NAME: Final = "chaos"
"""What ``up --chaos`` puts below nodes, if it was ever said."""
PARTITION: Final = re.compile(r".+-\d+")
"""The name of a partition's directory; what is to be removed is called otherwise."""


@dataclass(frozen=True, slots=True)
class Running:
    """What was started, as written down; whether it still runs is another question.

    ``supervisor`` is the process in the foreground that the nodes end with, None if there is none.
    """

    nodes: Mapping[str, ProcessId] = field(default_factory=dict[str, ProcessId])
    supervisor: ProcessId | None = None

    @property
    def alive(self) -> dict[str, ProcessId]:
        """The nodes that run now, by name."""
        return {name: process for name, process in self.nodes.items() if is_running(process)}

    @property
    def is_supervised(self) -> bool:
        """Whether somebody sits before it."""
        return self.supervisor is not None and is_running(self.supervisor)


def _has_records(broker: Path) -> bool:
    return any(PARTITION.fullmatch(path.parent.name) for path in broker.glob("*/*.log"))


def cluster_around(path: Path) -> "ClusterDirectory":
    """Return the cluster in a directory, or the one that this directory of a node belongs to."""
    home = ClusterDirectory(path)
    around = ClusterDirectory(path.absolute().parent)
    return around if not home.exists and around.exists else home


class ClusterDirectory:
    """Owns the files of a cluster, and while :meth:`locked`, the right to start and end nodes."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._shown = path
        self._lock: int | None = None

    def __str__(self) -> str:
        return str(self._shown)

    @property
    def exists(self) -> bool:
        """Whether a cluster was made here."""
        return (self.path / LAYOUT_NAME).exists()

    def make(self) -> None:
        """Make the directory, unless something else is in it.

        Raises:
            RefusedError: a single node lives there.
            CommandError: it cannot be made.
        """
        if (self.path / META_NAME).exists() or (self.path / SUBDIRECTORY).exists():
            raise RefusedError(
                f"{self} has the data of a single node, not of a cluster",
                why="quorate up without --brokers made it: controller and broker in one process",
                hint="another --dir, or quorate up without --brokers",
            )
        try:
            (self.path / LOGS_NAME).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(
                f"cannot use {self}", why=error.strerror or str(error), hint="another --dir"
            ) from None

    def lock(self) -> bool:
        """Take the directory for this process; return False if another one has it."""
        lock = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def unlock(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def layout(self) -> Layout:
        """Return the nodes of the cluster.

        Raises:
            CommandError: there is no cluster here, or its file cannot be read.
        """
        path = self.path / LAYOUT_NAME
        try:
            return decode(path.read_text())
        except FileNotFoundError:
            raise CommandError(
                f"there is no cluster in {self}",
                why=f"{path} is missing",
                hint="quorate up --brokers 3 --controllers 3 makes one; or say where: --dir",
            ) from None
        except (OSError, LayoutError) as error:
            raise CommandError(
                f"cannot read {path}", why=str(error), hint="put it back, or use another --dir"
            ) from None

    def write_layout(self, layout: Layout) -> None:
        """Remember the nodes of the cluster."""
        self._write(LAYOUT_NAME, encode(layout))

    def keep_options(self, properties: Mapping[str, str], config: Path | None) -> None:
        """Remember what every node is told, for those that are started later.

        Only the owner may read it: a property may be a password. For that reason, nodes are told
        the name of the file, too: anybody sees the arguments of a process.
        """
        lines = [f"{name}={text}\n" for name, text in properties.items()]
        self._write(PROPERTIES_NAME, "".join(lines), mode=0o600)
        self._write(CONFIG_NAME, "" if config is None else str(config.absolute()))

    def kept_options(self) -> list[str]:
        """Return the words that tell what was remembered."""
        try:
            config = (self.path / CONFIG_NAME).read_text().strip()
        except FileNotFoundError:  # an older version made the cluster
            return []
        words = ["-F", str(self.path / PROPERTIES_NAME)]
        return [*words, "--config", config] if config else words

    def running(self) -> Running:
        """Return what was started."""
        try:
            document: Any = json.loads((self.path / PIDS_NAME).read_text())
            supervisor = document["supervisor"]
            return Running(
                {name: ProcessId(*known) for name, known in document["nodes"].items()},
                None if supervisor is None else ProcessId(*supervisor),
            )
        except FileNotFoundError:
            return Running()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CommandError(
                f"cannot read {self.path / PIDS_NAME}",
                why=f"{error}; so nobody knows which processes are this cluster's",
                hint="look for them with ps, end them, and remove the file",
            ) from None

    def write_running(self, nodes: Mapping[str, ProcessId], *, supervised: bool) -> None:
        """Remember what runs; forget all of it if nothing does."""
        if not nodes and not supervised:
            with contextlib.suppress(FileNotFoundError):
                (self.path / PIDS_NAME).unlink()
            return
        supervisor = process_id(os.getpid()) if supervised else None
        document = {
            "supervisor": None if supervisor is None else [supervisor.pid, supervisor.started],
            "nodes": {name: [known.pid, known.started] for name, known in nodes.items()},
        }
        self._write(PIDS_NAME, json.dumps(document, indent=2))
        write_listening(self.path, self.layout().bootstrap, nodes.values())

    def idle(self, layout: Layout, running: Collection[str]) -> set[str]:
        """Return the names of brokers that neither run nor have records."""
        return {
            member.name
            for member in layout.brokers
            if member.name not in running and not _has_records(self.path / member.name)
        }

    @property
    def has_chaos(self) -> bool:
        """Whether nodes are started so that their clocks and disks can be broken."""
        return (self.path / CHAOS_NAME).exists()

    def log_of(self, name: str) -> Path:
        """Return where a node's output goes."""
        return self.path / LOGS_NAME / f"{name}.log"

    def _write(self, name: str, text: str, *, mode: int = 0o666) -> None:
        replace_file(self.path / name, text + "\n", mode=mode)
