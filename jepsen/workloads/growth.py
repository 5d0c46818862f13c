"""Partitions are added to a topic that is written to and read.

Proves that nothing of the log changes with it: what was acknowledged stays where it is, new
partitions begin empty and keep what they get, and a topic never has fewer partitions than a client
was told that it got.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quorate.errors import ErrorCode
from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.administering import grow_topic, kind_of
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.wire import ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Scribe
from quorate.jepsen.workloads.producing import Producing, start_all, stop_all
from quorate.jepsen.workloads.reading_back import read_back
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "growth"
FIRST: Final = 2
PARTITIONS_MAX: Final = 24
PRODUCERS: Final = 3
PAUSE_S: Final = (0.5, 3.0)
ANSWERED_S_MAX: Final = 32.0
AGREED_S_MAX: Final = 30.0
AGAIN_S: Final = 0.1
CLOSE_S_MAX: Final = 10.0


class Growth:
    """Producers, and somebody who adds partitions."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = replace(context.topic_options.topic(TOPIC), partitions=FIRST)
        self._count = FIRST
        """Of partitions that there certainly are."""
        self._producers: list[Producing] = []
        self._scribe = Scribe(context.recorder)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the topic as it is in the beginning."""
        return [self._topic]

    def start(self) -> None:
        """Begin to send, and to add partitions."""
        context = self._context
        self._producers = start_all(
            context, self._topic.name, lambda: self._count, shares=[1] * PRODUCERS, keyed=0
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            with Raw(self._context.bootstrap) as raw:
                while not self._stopping.wait(self._context.rng.uniform(*PAUSE_S)):
                    if self._count < PARTITIONS_MAX:
                        self._grow(raw)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._errors.append(f"who adds partitions failed: {error!r}")

    def _grow(self, raw: Raw) -> None:
        wanted = self._count + self._context.rng.randint(1, 2)
        self._scribe.begin("grow", [self._topic.name, wanted])
        try:
            code = grow_topic(raw, self._topic.name, wanted)
        except NotNowError as error:
            self._scribe.end(Kind.FAIL, "grow", str(error))
        except ClosedError as error:
            self._scribe.end(Kind.INFO, "grow", str(error))
            self._learn(raw)
        else:
            self._scribe.end(kind_of(code), "grow", code.name)
            if code == ErrorCode.NONE:
                self._count = wanted
            else:
                self._learn(raw)

    def _learn(self, raw: Raw) -> None:
        """Find out how many there are: at least so many; brokers may be behind."""
        try:
            raw.learn([self._topic.name])
        except NotNowError:
            return
        self._count = max(self._count, raw.partition_count(self._topic.name))

    def stop(self) -> None:
        """Send no more; wait for the answers."""
        self._stop(ANSWERED_S_MAX)

    def final(self) -> None:
        """See how many partitions there are, and read all of them."""
        name = self._topic.name
        deadline_s = time.monotonic() + AGREED_S_MAX
        with Raw(self._context.bootstrap) as raw:
            found = -1
            while found < self._count and time.monotonic() < deadline_s:
                raw.forget(name)  # and ask another broker
                try:
                    raw.learn([name])
                except NotNowError:
                    continue
                found = raw.partition_count(name)
                time.sleep(AGAIN_S)
        if found < self._count:
            told = f"{name} has {found} partitions, and had {self._count}"
            self._scribe.tell("complaint", ["partitions-shrank", told])
        partitions = [TopicPartition(name, number) for number in range(max(found, 0))]
        self._errors += read_back(self._context, partitions)

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        self._stop(0)

    def _stop(self, seconds_max: float) -> None:
        self._stopping.set()
        stop_all(self._producers, seconds_max)
        if self._thread.is_alive():
            self._thread.join(CLOSE_S_MAX)


GROWTH: Final = WorkloadKind(
    "growth",
    "partitions are added to a topic that is written to",
    Growth,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"acks": 20},
)
