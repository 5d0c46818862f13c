"""All families of faults, by the name that ``--faults`` has for them."""

from typing import Final

from quorate.jepsen.nemesis.clocks import CLOCK
from quorate.jepsen.nemesis.delays import DELAY
from quorate.jepsen.nemesis.directed import DIRECTED
from quorate.jepsen.nemesis.disks import DISK
from quorate.jepsen.nemesis.fault import Family
from quorate.jepsen.nemesis.membership import MEMBERSHIP
from quorate.jepsen.nemesis.partitions import PARTITION
from quorate.jepsen.nemesis.power_cuts import POWER
from quorate.jepsen.nemesis.processes import KILL, PAUSE, RESTART

FAULTS: Final[dict[str, Family]] = {
    family.name: family
    for family in (KILL, PAUSE, RESTART, PARTITION, DELAY, POWER, DISK, CLOCK, MEMBERSHIP)
}
DEFAULT: Final = (KILL.name, PAUSE.name, RESTART.name)
"""What happens if nothing is named."""

FAULTS[DIRECTED.name] = DIRECTED  # only if named: each of its scenarios aims at a certain bug
