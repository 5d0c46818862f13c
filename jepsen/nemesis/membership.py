"""Who belongs to the cluster changes: controllers lose their vote and get it back, brokers drain.

Done as an operator does it, with the commands for it; the changes of controllers also while the
network between them is cut.
"""

import json
import subprocess
import sys
import time
from random import Random
from typing import Final

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import NETWORK, Equipment
from quorate.jepsen.lab.hosts import ROOT, Host
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant
from quorate.jepsen.nemesis.partitions import both_ways, equipment_of, place_of

COMMAND_S_MAX: Final = 15.0
ANSWERED_S: Final = 5
BACK_S_MAX: Final = 40.0
AGAIN_S: Final = 0.5


def _quorate(lab: Lab, *words: str) -> tuple[int, str]:
    """Run a command of ours; return its exit code and what it printed."""
    brokers, controllers = (
        ",".join(f"{host}:{port}" for host, port in (each.address for each in hosts))
        for hosts in (lab.brokers, lab.controllers)
    )
    where = ["-C", controllers] if words[0] == "quorum" else ["-b", brokers]
    command = [sys.executable, "-m", "quorate.tools.cli", *words, *where]
    try:
        done = subprocess.run(
            [*command, "--timeout", str(ANSWERED_S)],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return 1, "no answer"
    return done.returncode, done.stdout + done.stderr


def _until_done(lab: Lab, *words: str) -> None:
    """Run a command until it works.

    Raises:
        OSError: it does not, for long.
    """
    deadline_s = time.monotonic() + BACK_S_MAX
    while True:
        code, said = _quorate(lab, *words)
        if code == 0:
            return
        if time.monotonic() > deadline_s:
            raise OSError(f"{' '.join(words)}: {said.strip()[:300]}")
        time.sleep(AGAIN_S)


class Voter:
    """A controller loses its vote; healed, it has it again."""

    def __init__(self, *, active: bool, cut: bool) -> None:
        self._active = active
        self._cut = cut
        self._lab: Lab | None = None
        self._host: Host | None = None
        self._equipment: Equipment | None = None
        self._code = 1

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Take the vote away, perhaps of one that hears of it later than all others."""
        if len(lab.controllers) < 3 or not all(host.answers for host in lab.controllers):
            raise NotNowError("not enough controllers run")
        if _voters(lab) != {host.node_id for host in lab.controllers}:
            raise NotNowError("not all controllers vote")  # more than one less is no majority
        (active,) = roles.controller(lab, rng)
        others = [host for host in lab.controllers if host is not active]
        host = active if self._active else rng.choice(others)
        if self._cut:
            self._equipment = equipment_of(lab)
        note([host], cut=self._cut)
        self._lab, self._host = lab, host
        if self._equipment is not None:
            place = place_of(lab, host)
            rest = [place_of(lab, each) for each in lab.controllers if each is not host]
            self._equipment.cut(self, both_ways([place], rest))
        self._code, _ = _quorate(lab, "quorum", "remove", str(host.node_id), "-y")

    def verified(self) -> str:
        """Say who votes no more."""
        assert self._lab is not None
        assert self._host is not None
        voters = _voters(self._lab)
        if not voters or self._host.node_id in voters:
            return ""
        return f"{self._host.name} votes no more, only {', '.join(map(str, sorted(voters)))} do"

    def heal(self) -> None:
        """Give it back."""
        if self._equipment is not None:
            self._equipment.mend(self, hard=False)
        lab, host = self._lab, self._host
        if lab is None or host is None:
            return
        for each in lab.controllers:
            if not each.runs:
                each.start()
        deadline_s = time.monotonic() + BACK_S_MAX
        while host.node_id not in _voters(lab):
            code, said = _quorate(lab, "quorum", "add", str(host.node_id), "-y")
            if code != 0 and time.monotonic() > deadline_s:
                raise OSError(f"{host.name} gets no vote: {said.strip()[:300]}")
            time.sleep(AGAIN_S)


def _voters(lab: Lab) -> set[int]:
    """Return who votes, as the leader says; nobody, if nobody says."""
    code, said = _quorate(lab, "quorum", "status", "--format", "json")
    if code != 0:
        return set()
    (status,) = json.loads(said)["items"]
    return {int(voter["node_id"]) for voter in status["voters"]}


class Drained:
    """A broker leads nothing more; healed, it may lead again."""

    def __init__(self) -> None:
        self._lab: Lab | None = None
        self._host: Host | None = None
        self._code = 1

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Drain it."""
        (host,) = roles.leader(lab, rng)
        note([host])
        self._lab, self._host = lab, host
        self._code, _ = _quorate(lab, "broker", "drain", str(host.node_id), "-y")

    def verified(self) -> str:
        """Say that it leads nothing."""
        assert self._lab is not None
        assert self._host is not None
        leaders = {state.leader for state in self._lab.view().partitions.values()}
        done = self._code == 0 and leaders and self._host.node_id not in leaders
        return f"{self._host.name} leads nothing" if done else ""

    def heal(self) -> None:
        """Undrain it."""
        if self._lab is not None and self._host is not None:
            _until_done(self._lab, "broker", "undrain", str(self._host.node_id), "-y")


MEMBERSHIP: Final = Family(
    "membership",
    "take controllers' votes away and give them back, also while they are cut off; drain brokers",
    {
        "controller": Variant(2, lambda: Voter(active=False, cut=False)),
        "active-controller": Variant(1, lambda: Voter(active=True, cut=False)),
        "cut-controller": Variant(2, lambda: Voter(active=False, cut=True)),
        "drain": Variant(2, Drained),
    },
    needs=("namespaces",),
    reduced="the network between controllers is cut by a proxy on loopback",
    equipment=(NETWORK,),
)
