"""The node or cluster of ``quorate up`` in a directory: where it listens, for those beside it."""

import json
import os
from pathlib import Path
from typing import Any, Final

from quorate.tools.clusters.layout import DEFAULT_DIRECTORY, LAYOUT_NAME
from quorate.tools.processes import ProcessId, is_running, process_id

LISTENING_NAME: Final = "listening.json"
"""In the directory of a single node."""


def write_listening(directory: Path, bootstrap: str) -> None:
    """Remember where the single node listens that this process runs, and that it is this one."""
    process = process_id(os.getpid())
    if process is not None:
        document = {"bootstrap": bootstrap, "process": [process.pid, process.started]}
        (directory / LISTENING_NAME).write_text(json.dumps(document) + "\n")


def nearby_bootstrap(directory: Path = DEFAULT_DIRECTORY) -> str:
    """Return where brokers listen that ``quorate up`` runs from a directory; empty if none does.

    What cannot be read is as good as not there: who wants to know why asks ``quorate status``.
    """
    if (directory / LAYOUT_NAME).exists():
        return _bootstrap_of_cluster(directory)
    try:
        document: Any = json.loads((directory / LISTENING_NAME).read_text())
        bootstrap, process = str(document["bootstrap"]), ProcessId(*document["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return bootstrap if is_running(process) else ""


def _bootstrap_of_cluster(directory: Path) -> str:
    from quorate.tools.cluster_directory import ClusterDirectory
    from quorate.tools.problems import CommandError

    home = ClusterDirectory(directory)
    try:
        return home.layout().bootstrap if home.running().alive else ""
    except CommandError:
        return ""
