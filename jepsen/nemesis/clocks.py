"""Faults of wall clocks: skew, jumps, wrong rates; the monotonic clock stays right."""

import threading
from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.jepsen.lab.clocks import Clock
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import CLOCKS
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant
from quorate.jepsen.nemesis.partitions import seen_within

BITES_S_MAX: Final = 3.0
SKEWS_S: Final = (0.5, 10.0)
JUMPS_S: Final = (60.0, 3_600.0, 86_400.0)
RATES: Final = (0.5, 2.0, 5.0)
STROBE_S: Final = 0.02


class WrongClock:
    """Wall clocks are wrong; they are right again when healed, which is a jump, too."""

    def __init__(self, choose: roles.Choose, how: str) -> None:
        self._choose = choose
        self._how = how
        self._hosts: list[Host] = []
        self._before: dict[str, int] = {}
        self._ended = threading.Event()
        self._strobe: threading.Thread | None = None

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Set them wrong."""
        hosts = self._choose(lab, rng)
        if not all(host.clock for host in hosts):
            raise NotNowError("nothing can be done to these clocks")
        ahead_s = [self._ahead_s(rng) for _ in hosts]
        rate = rng.choice(RATES) if self._how == "rate" else 1.0
        note(hosts, ahead_s=[round(each, 3) for each in ahead_s], rate=rate)
        self._hosts = hosts
        for host, each_s in zip(hosts, ahead_s, strict=True):
            clock = _clock(host)
            self._before[host.name] = clock.reads
            clock.set(each_s, rate)
        if self._how == "strobe":
            clocks = [_clock(host) for host in hosts]
            self._strobe = threading.Thread(target=self._swing, args=(clocks, ahead_s), daemon=True)
            self._strobe.start()

    def verified(self) -> str:
        """Say who looked at them, and how often; who has nothing to do may not for a while."""
        seen_within(BITES_S_MAX, lambda: all(map(self._reads, self._hosts)))
        read = [f"{h.name} {self._reads(h)} times" for h in self._hosts if self._reads(h)]
        return f"read {', '.join(read)}" if read else ""

    def heal(self) -> None:
        """Set them right."""
        self._ended.set()
        if self._strobe is not None:
            self._strobe.join()
        for host in self._hosts:
            _clock(host).set(0.0)

    def _ahead_s(self, rng: Random) -> float:
        sign = rng.choice((-1, 1))
        if self._how == "jump":
            return sign * rng.choice(JUMPS_S)
        return sign * rng.uniform(*SKEWS_S)

    def _reads(self, host: Host) -> int:
        return _clock(host).reads - self._before[host.name]

    def _swing(self, clocks: Sequence[Clock], ahead_s: Sequence[float]) -> None:
        """Let the time go to and fro."""
        sign = 1
        while not self._ended.wait(STROBE_S):
            sign = -sign
            for clock, each_s in zip(clocks, ahead_s, strict=True):
                clock.set(sign * each_s)


def _clock(host: Host) -> Clock:
    assert host.clock is not None
    return host.clock


CLOCK: Final = Family(
    "clock",
    "set wall clocks wrong, let them jump, and run at other rates",
    {
        "skew": Variant(2, lambda: WrongClock(roles.everybody, "skew")),
        "jump": Variant(2, lambda: WrongClock(roles.anybody, "jump")),
        "jump-leader": Variant(2, lambda: WrongClock(roles.leader, "jump")),
        "jump-controller": Variant(1, lambda: WrongClock(roles.controller, "jump")),
        "rate": Variant(2, lambda: WrongClock(roles.everybody, "rate")),
        "strobe": Variant(1, lambda: WrongClock(roles.anybody, "strobe")),
    },
    needs=("cc",),
    equipment=(CLOCKS,),
)
