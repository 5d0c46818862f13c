"""What the screen needs of whoever gathers: a test has another one than the program."""

from collections.abc import Callable
from typing import Final, Protocol

from quorate.tools.tui.requests import Answer, Request
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot

INTERVAL_S: Final = 2.0
"""How long after a look the next one is."""

Tell = Callable[[Snapshot | Answer], None]


class Source(Protocol):
    """Looks at a cluster again and again, and does what it is asked for.

    Its methods return at once; what it finds it tells, from whatever thread.
    """

    def start(self, tell: Tell, place: Place) -> None:
        """Begin to look at what a place needs."""
        ...

    def watch(self, place: Place) -> None:
        """Look at what another place needs."""
        ...

    def look_now(self) -> None:
        """Look now, and not only when it is time."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Stop looking, or go on."""
        ...

    def ask(self, request: Request) -> None:
        """Do something; its answer is told."""
        ...

    def stop(self) -> None:
        """End; nothing is told any more."""
        ...
