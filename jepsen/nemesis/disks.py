"""Faults of disks: full, failing, slow, damaged, replaced."""

from typing import Final

from quorate.jepsen.lab.equipment import DISKS
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.bad_bits import (
    JOURNAL,
    SNAPSHOT,
    FlippedController,
    FlippedIndex,
    FlippedLog,
    Wiped,
)
from quorate.jepsen.nemesis.disk_faults import full, slow, unsyncable, unwritable
from quorate.jepsen.nemesis.fault import Family, Variant

DISK: Final = Family(
    "disk",
    "disks that are full, fail, are slow, turn over bits, or are replaced by empty ones",
    {
        "full-leader": Variant(2, lambda: full(roles.leader)),
        "full-controller": Variant(1, lambda: full(roles.controller)),
        "full-all": Variant(1, lambda: full(roles.brokers)),
        "write-error": Variant(2, lambda: unwritable(roles.leader)),
        "write-error-controller": Variant(1, lambda: unwritable(roles.controller)),
        "sync-error-controller": Variant(2, lambda: unsyncable(roles.controller)),
        "slow-controller": Variant(1, lambda: slow(roles.controller)),
        "slow-everybody": Variant(1, lambda: slow(roles.everybody)),
        "flip-log": Variant(2, FlippedLog),
        "flip-index": Variant(1, FlippedIndex),
        "flip-journal": Variant(1, lambda: FlippedController(JOURNAL)),
        "flip-snapshot": Variant(1, lambda: FlippedController(SNAPSHOT)),
        "wipe-leader": Variant(1, lambda: Wiped(roles.leader)),
        "wipe-follower": Variant(1, lambda: Wiped(roles.follower)),
    },
    needs=("cc",),
    equipment=(DISKS,),
)
