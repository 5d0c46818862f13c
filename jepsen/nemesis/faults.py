"""All families of faults, by the name that ``--faults`` has for them."""

from typing import Final

from quorate.jepsen.nemesis import processes
from quorate.jepsen.nemesis.directed import DIRECTED
from quorate.jepsen.nemesis.fault import Family

FAULTS: Final[dict[str, Family]] = {
    family.name: family for family in (processes.KILL, processes.PAUSE, processes.RESTART)
}
DEFAULT: Final = tuple(FAULTS)
"""What happens if nothing is named."""

FAULTS[DIRECTED.name] = DIRECTED  # only if named: each of its scenarios aims at a certain bug
