"""Power cuts: machines stop, and their disks forget what was not synced; tails are torn.

Controllers sync before they answer, so any of them may lose their power, all at once, too; of
brokers no more than :attr:`EquipmentPlan.damaged_max`.
"""

import time
from random import Random
from typing import Final

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import DISKS
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis import damage, roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant

RECOVERING_S: Final = (0.2, 2.0)
"""How long a machine has power before it loses it again."""


class PowerCut:
    """Machines without power; it is back when healed."""

    def __init__(self, choose: roles.Choose, *, again: bool = False) -> None:
        self._choose = choose
        self._again = again
        self._lab: Lab | None = None
        self._hosts: list[Host] = []
        self._said: list[str] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Cut it; once more while they recover from that, if asked for."""
        hosts = self._choose(lab, rng)
        if not all(host.disk for host in hosts):
            raise NotNowError("these disks forget nothing")
        damage.check_allowed(lab, hosts)
        note(hosts, silent=[host.name for host in hosts])
        self._lab, self._hosts = lab, hosts
        if self._again:
            self._cut(rng)
            for host in hosts:
                host.start()
            time.sleep(rng.uniform(*RECOVERING_S))
        self._cut(rng)

    def verified(self) -> str:
        """Say how much each lost."""
        return "; ".join(self._said)

    def heal(self) -> None:
        """Let there be power."""
        for host in self._hosts:
            if not host.runs:
                host.start()
        if self._lab is not None:
            damage.note_loss(self._lab)

    def _cut(self, rng: Random) -> None:
        for host in self._hosts:
            lost = host.cut_power(rng)
            what = f"about {lost} bytes" if lost else "nothing that was not kept anyway"
            self._said.append(f"{host.name} lost {what}")


def _machine(lab: Lab, rng: Random) -> list[Host]:
    """Return a broker that leads and a controller: one machine that has both."""
    return [*roles.leader(lab, rng), *roles.controller(lab, rng)]


POWER: Final = Family(
    "power",
    "cut the power: what was not synced is lost, in whole or in part; tails are torn",
    {
        "leader": Variant(4, lambda: PowerCut(roles.leader)),
        "follower": Variant(1, lambda: PowerCut(roles.follower)),
        "controller": Variant(2, lambda: PowerCut(roles.controller)),
        "controllers": Variant(2, lambda: PowerCut(roles.controllers)),
        "machine": Variant(2, lambda: PowerCut(_machine)),
        "again": Variant(1, lambda: PowerCut(roles.leader, again=True)),
        "all": Variant(1, lambda: PowerCut(roles.everybody)),
    },
    needs=("cc",),
    equipment=(DISKS,),
)
