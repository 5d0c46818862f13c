"""All workloads, by the name that ``quorate verify run`` has for them."""

from typing import Final

from quorate.jepsen.workloads.append import APPEND
from quorate.jepsen.workloads.groups import GROUPS
from quorate.jepsen.workloads.growth import GROWTH
from quorate.jepsen.workloads.idempotent import IDEMPOTENT
from quorate.jepsen.workloads.killed_producers import KILLED_PRODUCERS
from quorate.jepsen.workloads.metadata import METADATA
from quorate.jepsen.workloads.mixed import MIXED
from quorate.jepsen.workloads.offsets import OFFSETS
from quorate.jepsen.workloads.reassign import REASSIGN
from quorate.jepsen.workloads.topics import TOPICS_KIND
from quorate.jepsen.workloads.transactions import TRANSACTIONS
from quorate.jepsen.workloads.workload import WorkloadKind

WORKLOADS: Final[dict[str, WorkloadKind]] = {
    kind.name: kind
    for kind in (
        *(APPEND, IDEMPOTENT, TRANSACTIONS, KILLED_PRODUCERS, GROUPS, OFFSETS),
        *(TOPICS_KIND, GROWTH, REASSIGN, METADATA, MIXED),
    )
}
DEFAULT: Final = (MIXED.name,)
"""What runs if nothing is named."""
