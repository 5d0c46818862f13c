"""Producers append, consumers read along.

Proves that every record acknowledged is in the log, once, at the offset that was told; that the
records of a producer are in the order in which it sent them, also those that a client placed by
their key; that records sent after others were acknowledged stand behind them; and that consumers
see that and nothing else, however often they go back. One producer has the half of all partitions'
traffic, as a single writer has; the others share the rest.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.jepsen.clients import choosing
from quorate.jepsen.workloads.producing import Producing, start_all, stop_all
from quorate.jepsen.workloads.reading_back import read_back
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "append"
PRODUCERS: Final = 4
READERS: Final = 2
ANSWERED_S_MAX: Final = 32.0
"""Longer than a client tries to deliver a record."""


class Append:
    """Producers, readers, and in the end somebody who reads everything."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = context.topic_options.topic(TOPIC)
        self._producers: list[Producing] = []
        self._readers: list[choosing.Reader] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the one topic."""
        return [self._topic]

    def start(self) -> None:
        """Begin to send and to read."""
        context = self._context
        numbers = range(self._topic.partitions)
        shares = [PRODUCERS - 1, *[1] * (PRODUCERS - 1)]
        self._producers = start_all(
            context, self._topic.name, lambda: self._topic.partitions, shares=shares
        )
        self._readers = [
            choosing.reader(
                context.client,
                context.recorder,
                context.bootstrap,
                self._topic.name,
                numbers,
                Random(context.rng.getrandbits(64)),
            )
            for _ in range(READERS)
        ]

    def stop(self) -> None:
        """Send no more; wait for the answers."""
        stop_all(self._producers, ANSWERED_S_MAX)
        self._stop_readers()

    def final(self) -> None:
        """Read all partitions."""
        partitions = [
            TopicPartition(self._topic.name, number) for number in range(self._topic.partitions)
        ]
        self._errors += read_back(self._context, partitions)

    def errors(self) -> Sequence[str]:
        """Return what went wrong: partitions that could not be read, readers that gave up."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        stop_all(self._producers, 0)
        self._stop_readers()

    def _stop_readers(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.stop()
            self._errors += reader.errors


APPEND: Final = WorkloadKind(
    "append",
    "producers send to all partitions, by number and by key; consumers read along",
    Append,
    clients=choosing.ALL,
    quotas_per_s={"acks": 20},
)
