"""Many producers append, consumers read along: is every acknowledged record there, once?"""

import threading
from collections.abc import Sequence
from typing import Final

from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind

TOPIC: Final = "append"


class Append:
    """Producers that send at a rate to all partitions, a consumer that reads from the begin."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stopping = threading.Event()

    def topics(self) -> Sequence[Topic]:
        """Return the one topic."""
        return [self._context.topic_options.topic(TOPIC)]

    def start(self) -> None:
        """Begin to send and to read."""

    def stop(self) -> None:
        """Send no more; wait for the answers."""
        self._stopping.set()

    def final(self) -> None:
        """Read all partitions."""

    def errors(self) -> Sequence[str]:
        """Return nothing so far."""
        return ()

    def close(self) -> None:
        """End at once."""
        self._stopping.set()


APPEND: Final = WorkloadKind(
    "append",
    "producers send to all partitions, a consumer reads along",
    Append,
    clients=("own",),
)
