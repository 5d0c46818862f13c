"""Whom the screen asks."""

from pathlib import Path

from quorate.dataclass import dataclass
from quorate.tools.arguments import GlobalOptions
from quorate.tools.topics import Client


@dataclass(frozen=True, slots=True)
class Asked:
    """Brokers by options, and what ``quorate up`` has made here, which may be another cluster.

    Attributes:
        options: Who is asked; where nobody said so, it may be somebody else later.
        client: How, as of now.
        directory: Of a single node, which holds its controller's log.
        cluster: The directory of a cluster of several nodes.
        ids: Of the clusters in these directories.
    """

    options: GlobalOptions
    client: Client
    directory: Path | None = None
    cluster: Path | None = None
    ids: frozenset[str] = frozenset()

    def directory_of(self, cluster_id: str) -> Path | None:
        """Return where the controller's log of a cluster is, if that is the single node's here."""
        return self.directory if cluster_id in self.ids else None
