"""All workloads, by the name that ``quorate verify run`` has for them."""

from typing import Final

from quorate.jepsen.workloads.append import APPEND
from quorate.jepsen.workloads.groups import GROUPS
from quorate.jepsen.workloads.idempotent import IDEMPOTENT
from quorate.jepsen.workloads.metadata import METADATA
from quorate.jepsen.workloads.offsets import OFFSETS
from quorate.jepsen.workloads.workload import WorkloadKind

WORKLOADS: Final[dict[str, WorkloadKind]] = {
    kind.name: kind for kind in (APPEND, IDEMPOTENT, GROUPS, OFFSETS, METADATA)
}
DEFAULT: Final = ("append",)
"""What runs if nothing is named."""
