"""How much of what replicas hold may be lost at once, so that nothing acknowledged may be.

A record that was acknowledged by ``min.insync.replicas`` survives as long as fewer of them lose
what they had not synced; afterwards there must be as many copies again before the next loss.
"""

import time
from collections.abc import Sequence
from typing import Final

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.fault import NotNowError

SETTLED_S: Final = 5.0
"""How long after a loss the cluster may still take a replica for one in sync that is not."""


def check_allowed(lab: Lab, hosts: Sequence[Host]) -> None:
    """See that these may lose what they have not synced.

    Raises:
        NotNowError: something acknowledged could be lost with it.
    """
    brokers = [host for host in hosts if host in lab.brokers]
    equipment = lab.equipment
    if equipment is None:
        raise NotNowError("nothing can be done to these disks")
    if not brokers or equipment.plan.damaged_max >= len(lab.brokers):
        return
    if len(brokers) > equipment.plan.damaged_max:
        raise NotNowError(f"{len(brokers)} replicas at once may lose what was acknowledged")
    if time.monotonic() < equipment.damaged_s + SETTLED_S:
        raise NotNowError("the last loss was just now")
    if not all(host.answers for host in lab.brokers):
        raise NotNowError("not all brokers run")
    topics = {name.rpartition("-")[0] for name in lab.view().partitions}
    if not topics or not lab.is_whole(topics):
        raise NotNowError("not all replicas are in sync")


def note_loss(lab: Lab) -> None:
    """Remember when something was lost, or came back without what it had."""
    assert lab.equipment is not None
    lab.equipment.damaged_s = time.monotonic()
