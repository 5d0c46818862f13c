"""Partitions move between brokers, and get fewer and more replicas, while they are written to.

Proves that a move loses, repeats and reorders nothing; that leaders may be among those who go; and
that every move comes to its end once everything is healed.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from quorate.errors import ErrorCode
from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.administering import kind_of, moving, reassign
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.wire import ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Scribe
from quorate.jepsen.workloads.producing import Producing, start_all, stop_all
from quorate.jepsen.workloads.reading_back import read_back
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "reassign"
PRODUCERS: Final = 3
PAUSE_S: Final = (0.2, 2.0)
FEWER: Final = 0.3
"""How often a partition gets a replica less than it should have."""
ANSWERED_S_MAX: Final = 32.0
SETTLED_S_MAX: Final = 60.0
AGAIN_S: Final = 0.2
CLOSE_S_MAX: Final = 10.0


class Reassign:
    """Producers, and somebody who moves partitions.

    The topic is its own: nobody else may expect that its replicas are where they were.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = replace(context.topic_options.topic(TOPIC), stays=False)
        self._partitions = [
            TopicPartition(self._topic.name, number) for number in range(self._topic.partitions)
        ]
        self._producers: list[Producing] = []
        self._scribe = Scribe(context.recorder)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._rng = Random(context.rng.getrandbits(64))
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the one topic, of which replicas come and go."""
        return [self._topic]

    def start(self) -> None:
        """Begin to send, and to move."""
        context = self._context
        self._producers = start_all(
            context, self._topic.name, lambda: self._topic.partitions, shares=[1] * PRODUCERS
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            with Raw(self._context.bootstrap) as raw:
                while not self._stopping.wait(self._rng.uniform(*PAUSE_S)):
                    self._move(raw, self._rng.choice(self._partitions), self._rng.random() < FEWER)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._errors.append(f"who moves partitions failed: {error!r}")

    def _move(self, raw: Raw, where: TopicPartition, fewer: bool) -> bool:  # noqa: FBT001
        """Move a partition to some brokers; return whether that has begun."""
        try:
            raw.learn([where.topic])
        except NotNowError:
            return False
        brokers = raw.broker_ids()
        count = min(self._topic.replication_factor, len(brokers)) - (1 if fewer else 0)
        if count < self._least():
            return False
        replicas = self._rng.sample(brokers, count)
        self._scribe.begin("reassign", [str(where), replicas])
        try:
            code = reassign(raw, where, replicas)
        except NotNowError as error:
            self._scribe.end(Kind.FAIL, "reassign", str(error))
        except ClosedError as error:
            self._scribe.end(Kind.INFO, "reassign", str(error))
        else:
            self._scribe.end(kind_of(code), "reassign", code.name)
            return code == ErrorCode.NONE
        return False

    def _least(self) -> int:
        """Return how many replicas a partition must have that can be written to."""
        return int(self._topic.configs.get("min.insync.replicas", "1"))

    def stop(self) -> None:
        """Send no more; wait for the answers, and until nothing moves any more."""
        self._stop(ANSWERED_S_MAX)
        deadline_s = time.monotonic() + SETTLED_S_MAX
        with Raw(self._context.bootstrap) as raw:
            for where in self._partitions:
                while not self._move(raw, where, fewer=False) and time.monotonic() < deadline_s:
                    time.sleep(AGAIN_S)
            left = partial(moving, raw, self._topic.name)
            while (on_the_move := _or_none(left)) != [] and time.monotonic() < deadline_s:
                time.sleep(AGAIN_S)
        if on_the_move != []:
            told = f"{self._topic.name}: still on the move are {on_the_move}"
            self._scribe.tell("complaint", ["reassignment-stuck", told])

    def final(self) -> None:
        """Read all partitions."""
        self._errors += read_back(self._context, self._partitions)

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


def _or_none(left: partial[list[int]]) -> list[int] | None:
    try:
        return left()
    except NotNowError:
        return None


REASSIGN: Final = WorkloadKind(
    "reassign",
    "partitions move between brokers while they are written to",
    Reassign,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"acks": 20},
)
