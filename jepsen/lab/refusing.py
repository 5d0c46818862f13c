"""Processes that cannot reach some others on this machine; see refuse.c."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quorate.jepsen.lab.shared_page import SharedPage

REFUSE_C: Final = Path(__file__).with_name("refuse.c")
NUMBER: Final = struct.Struct("=q")
REFUSED_AT: Final = 8
PORTS_AT: Final = 16
PORTS_MAX: Final = 254


class Refusals(SharedPage):
    """Which ports of the loopback a process cannot reach: none at first."""

    VARIABLE = "QUORATE_REFUSE"

    @property
    def ports(self) -> tuple[int, ...]:
        """What cannot be reached."""
        return tuple(self._get(PORTS_AT + at * NUMBER.size) for at in range(self._get(0)))

    @ports.setter
    def ports(self, ports: Sequence[int]) -> None:
        assert len(ports) <= PORTS_MAX
        NUMBER.pack_into(self._page, 0, 0)  # nobody sees half of the old and half of the new ones
        for at, port in enumerate(ports):
            NUMBER.pack_into(self._page, PORTS_AT + at * NUMBER.size, port)
        NUMBER.pack_into(self._page, 0, len(ports))

    @property
    def refused(self) -> int:
        """How often the process has tried in vain."""
        return self._get(REFUSED_AT)

    def _get(self, place: int) -> int:
        number: int = NUMBER.unpack_from(self._page, place)[0]
        return number
