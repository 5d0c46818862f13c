"""Whom the screen asks."""

from dataclasses import dataclass
from pathlib import Path

from quorate.tools.arguments import GlobalOptions
from quorate.tools.topics import Client


@dataclass(frozen=True, slots=True)
class Asked:
    """Brokers by options; ``directory`` is a single node's, which holds its controller's log.

    ``cluster`` is the directory of ``quorate up``, if the cluster is one of its.
    """

    options: GlobalOptions
    client: Client
    directory: Path | None = None
    cluster: Path | None = None
