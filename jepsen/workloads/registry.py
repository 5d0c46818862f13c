"""All workloads, by the name that ``quorate verify run`` has for them."""

from typing import Final

from quorate.jepsen.workloads import append, groups
from quorate.jepsen.workloads.workload import WorkloadKind

WORKLOADS: Final[dict[str, WorkloadKind]] = {
    kind.name: kind for kind in (append.APPEND, groups.GROUPS)
}
DEFAULT: Final = ("append",)
"""What runs if nothing is named."""
