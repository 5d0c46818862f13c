"""All workloads, by the name that ``quorate verify run`` has for them."""

from typing import Final

from quorate.jepsen.workloads import append, groups, idempotent, metadata
from quorate.jepsen.workloads.workload import WorkloadKind

WORKLOADS: Final[dict[str, WorkloadKind]] = {
    kind.name: kind
    for kind in (append.APPEND, idempotent.IDEMPOTENT, groups.GROUPS, metadata.METADATA)
}
DEFAULT: Final = ("append",)
"""What runs if nothing is named."""
