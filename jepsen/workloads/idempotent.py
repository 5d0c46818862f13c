"""Idempotent producers whose answers are thrown away, so that they send again what is there.

Proves that a record is in the log once however often it was sent, also if leaders change
meanwhile; that the answer to a repeated one has the offset of the first; that the order of
sequences is that of offsets with five batches under way; and that no producer without a gap is told
of one. Half of the records are sent by a plain client, whose attempts are all its own; the others
by the client that was chosen, whose connections break while it waits if it is ours.
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.raw_writer import RECORDS_MAX, RawWriter
from quorate.jepsen.clients.sending import SenderOptions
from quorate.jepsen.workloads.producing import Pace, Producing, producers, stop_all
from quorate.jepsen.workloads.reading_back import read_back
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "idempotent"
CUT_ODDS: Final = 0.15
STREAM_CUT_ODDS: Final = 0.01
TICK_S: Final = 0.01
ANSWERED_S_MAX: Final = 32.0
CLOSE_S_MAX: Final = 10.0


class _Writing:
    """A thread with a writer of one partition."""

    def __init__(self, writer: RawWriter, rng: Random, per_s: float) -> None:
        self.error = ""
        self._writer = writer
        self._rng = rng
        self._per_s = per_s
        self._stopping = threading.Event()
        self._patience_s = ANSWERED_S_MAX
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def halt(self, seconds_max: float) -> None:
        """Send nothing new."""
        self._patience_s = seconds_max
        self._stopping.set()

    def join(self) -> None:
        """Return when all is answered, or given up."""
        self._thread.join(self._patience_s + CLOSE_S_MAX)

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.error = f"a plain writer failed: {error!r}"
        finally:
            self._writer.close()

    def _write(self) -> None:
        pace = Pace(self._per_s, time.monotonic())
        due = 0
        while not self._stopping.is_set():
            due += pace.due(time.monotonic())
            while due > 0 and self._writer.has_room:
                records = min(due, self._rng.randint(1, RECORDS_MAX))
                due -= records
                self._writer.write(records)
            if self._writer.owes:
                self._writer.hear()
            else:
                self._stopping.wait(TICK_S)
        deadline_s = time.monotonic() + self._patience_s
        while self._writer.owes and time.monotonic() < deadline_s:
            self._writer.hear()


class Idempotent:
    """Plain writers of each partition, producers beside them, and a reader of everything."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = context.topic_options.topic(TOPIC)
        self._partitions = [
            TopicPartition(self._topic.name, number) for number in range(self._topic.partitions)
        ]
        self._writing: list[_Writing] = []
        self._producers: list[Producing] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the one topic."""
        return [self._topic]

    def start(self) -> None:
        """Begin to send."""
        context = self._context
        rng = context.rng
        per_s = context.rate_per_s / 2
        for where in self._partitions:
            writer = RawWriter(
                context.recorder,
                context.bootstrap,
                where,
                Random(rng.getrandbits(64)),
                cut_odds=CUT_ODDS,
            )
            share = per_s / len(self._partitions)
            self._writing.append(_Writing(writer, Random(rng.getrandbits(64)), share))
        self._producers = producers(
            1,
            context.client,
            SenderOptions(context.bootstrap, "all", cut_odds=STREAM_CUT_ODDS),
            recorder=context.recorder,
            topic=self._topic.name,
            partitions=lambda: self._topic.partitions,
            rng=rng,
        )
        for producer in self._producers:
            producer.start(per_s)

    def stop(self) -> None:
        """Send nothing new; wait for the answers."""
        self._stop(ANSWERED_S_MAX)

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
        writing, self._writing = self._writing, []
        for each in writing:
            each.halt(seconds_max)
        stop_all(self._producers, seconds_max)
        for each in writing:
            each.join()
            if each.error:
                self._errors.append(each.error)


IDEMPOTENT: Final = WorkloadKind(
    "idempotent",
    "idempotent producers whose answers are thrown away send everything again",
    Idempotent,
    clients=choosing.ALL,
    quotas_per_s={"acks": 20},
)
