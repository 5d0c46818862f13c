"""Producers that send at a rate and write down each record, and what came of it."""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorate.client.sending.partitioner import partition_for_key
from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.sending import Outcome, Outgoing, Sender, SenderOptions, told_of
from quorate.jepsen.clients.values import encode, key_of, value_of
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Call, Recorder
from quorate.jepsen.workloads.workload import Context

TICK_S: Final = 0.005
BACKLOG_S_MAX: Final = 0.5
"""Who was kept waiting catches up with so much of its rate, and no more."""
KEYED: Final = 0.3
"""How often a record's partition is left to the client, who goes by its key."""
KEYS: Final = 12

Partitions = Callable[[], int]


class Pace:
    """Says how many things are due at a rate; pure but for the clock that it is told."""

    def __init__(self, per_s: float, begin_s: float) -> None:
        self._per_s = per_s
        self._from_s = begin_s
        self._done = 0

    def due(self, now_s: float) -> int:
        """Return how many are due now, and count them as done."""
        wanted = int((now_s - self._from_s) * self._per_s)
        count = max(0, wanted - self._done)
        if count > self._per_s * BACKLOG_S_MAX + 1:  # the past is not caught up with
            count = int(self._per_s * BACKLOG_S_MAX) + 1
            self._from_s = now_s - count / self._per_s
            self._done = 0
        self._done += count
        return count


class Producing:
    """One producer and the thread that tells it what to send, from :meth:`start` to :meth:`stop`.

    State: how many records it has sent; its number in the history is that of no other one.
    """

    def __init__(
        self,
        recorder: Recorder,
        topic: str,
        partitions: Partitions,
        make: Callable[[], Sender],
        rng: Random,
        *,
        keyed: float,
    ) -> None:
        self._recorder = recorder
        self._topic = topic
        self._partitions = partitions
        self._make = make
        self._rng = rng
        self._keyed = keyed
        self._number = recorder.process()  # and never given back
        self._sent = 0
        self._sender: Sender | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, per_s: float) -> None:
        """Begin to send at this rate."""
        self._sender = self._make()
        self._thread = threading.Thread(
            target=self._run, args=(self._sender, Pace(per_s, time.monotonic())), daemon=True
        )
        self._thread.start()

    def halt(self) -> None:
        """Send no more; answers may come."""
        self._stopping.set()

    def stop(self, seconds_max: float) -> None:
        """Send no more; return when all is answered, or given up."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._sender is not None:
            self._sender.close(seconds_max)
            self._sender = None

    def _run(self, sender: Sender, pace: Pace) -> None:
        while not self._stopping.wait(TICK_S):
            for _ in range(pace.due(time.monotonic())):
                if self._stopping.is_set():
                    break
                self._send(sender)

    def _send(self, sender: Sender) -> None:
        count = self._partitions()
        value = value_of(self._number, self._sent)
        key = key_of(value, KEYS)
        if self._rng.random() < self._keyed:
            partition, chosen = partition_for_key(key, count), None
        else:
            partition = chosen = self._rng.randrange(count)
        name = f"{self._topic}-{partition}"
        call = Call(self._recorder, "send", [name, value, self._number, self._sent])
        self._sent += 1

        def answered(outcome: Outcome) -> None:
            call.end(outcome.kind, told_of(outcome))

        if not sender.send(Outgoing(self._topic, chosen, key, encode(value)), answered):
            call.end(Kind.FAIL, "the client has no room")


def producers(  # noqa: PLR0913 - what producers are made of
    count: int,
    client: str,
    options: SenderOptions,
    *,
    recorder: Recorder,
    topic: str,
    partitions: Partitions,
    rng: Random,
    keyed: float = KEYED,
) -> list[Producing]:
    """Return so many producers, which are yet to be started.

    Args:
        count: How many.
        client: Whose.
        options: What they are like.
        recorder: Where they write down what they do.
        topic: Where they send to.
        partitions: Says how many there are now.
        rng: Chance.
        keyed: How often the client chooses the partition, by the key; where partitions are added
            nobody knows what it knows of them.
    """

    def make() -> Sender:
        return choosing.sender(client, options)

    return [
        Producing(recorder, topic, partitions, make, Random(rng.getrandbits(64)), keyed=keyed)
        for _ in range(count)
    ]


def start_all(
    context: Context,
    topic: str,
    partitions: Partitions,
    *,
    shares: Sequence[float],
    keyed: float = KEYED,
) -> list[Producing]:
    """Return producers that send, as the context wants it.

    Args:
        context: Whose client, acks and rate.
        topic: Where they send to.
        partitions: Says how many there are now.
        shares: Of the rate, one for each of them.
        keyed: As for :func:`producers`.
    """
    found = producers(
        len(shares),
        context.client,
        SenderOptions(context.bootstrap, context.acks),
        recorder=context.recorder,
        topic=topic,
        partitions=partitions,
        rng=context.rng,
        keyed=keyed,
    )
    for producer, share in zip(found, shares, strict=True):
        producer.start(context.rate_per_s * share / sum(shares))
    return found


def stop_all(producing: Sequence[Producing], seconds_max: float) -> None:
    """Stop them; it takes so long for all together, and not for each."""
    deadline_s = time.monotonic() + seconds_max
    for producer in producing:
        producer.halt()
    for producer in producing:
        producer.stop(max(0.1, deadline_s - time.monotonic()))
