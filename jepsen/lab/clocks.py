"""Clocks that jump and run at other rates, below unmodified processes; see clock.c."""

import struct
import time
from pathlib import Path
from typing import Final

from quorate.jepsen.lab.shared_page import SharedPage

CLOCK_C: Final = Path(__file__).with_name("clock.c")
FIELDS: Final = struct.Struct("=qqqq")
READS_AT: Final = 24
SECOND_NS: Final = 1_000_000_000
MILLIONTHS: Final = 1_000_000


class Clock(SharedPage):
    """The wall clock of one node, over all of its processes; it goes right at first."""

    VARIABLE = "QUORATE_CLOCK"

    def set(self, ahead_s: float, rate: float = 1.0) -> None:
        """Let the clock be ahead by so much from now on, and run so many times as fast."""
        extra = round((rate - 1) * MILLIONTHS)
        now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        FIELDS.pack_into(self._page, 0, now_ns, round(ahead_s * SECOND_NS), extra, self.reads)

    @property
    def ahead_s(self) -> float:
        """How far it was ahead when it was set."""
        ahead_ns: int = FIELDS.unpack_from(self._page, 0)[1]
        return ahead_ns / SECOND_NS

    @property
    def rate(self) -> float:
        """How many times as fast as the right one it runs since."""
        extra: int = FIELDS.unpack_from(self._page, 0)[2]
        return 1 + extra / MILLIONTHS

    @property
    def reads(self) -> int:
        """How often the processes have looked at it while it was wrong."""
        count: int = struct.unpack_from("=q", self._page, READS_AT)[0]
        return count
