"""The node or cluster of ``quorate up`` in a directory: where it listens, for those beside it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from quorate.tools.processes import ProcessId, is_running
from quorate.tools.whole_files import replace_file

LISTENING_NAME: Final = "listening.json"
LAYOUT_NAME: Final = "cluster.json"
"""In the directory of a cluster, not of a single node: which nodes it has."""
DEFAULT_DIRECTORY: Final = Path(".quorate")
"""Where ``quorate up`` keeps its data unless told otherwise."""


def write_listening(directory: Path, bootstrap: str, processes: Iterable[ProcessId]) -> None:
    """Remember where brokers listen, as long as any of these processes runs."""
    known = [[process.pid, process.started] for process in processes]
    document = {"bootstrap": bootstrap, "processes": known}
    replace_file(directory / LISTENING_NAME, json.dumps(document) + "\n")


def nearby_bootstrap(directory: Path = DEFAULT_DIRECTORY) -> str:
    """Return where brokers listen that ``quorate up`` runs from a directory; empty if none does.

    What cannot be read is as good as not there: who wants to know why asks ``quorate status``.
    """
    try:
        document: Any = json.loads((directory / LISTENING_NAME).read_text())
        processes = [ProcessId(*known) for known in document["processes"]]
        bootstrap = str(document["bootstrap"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return bootstrap if any(map(is_running, processes)) else ""
