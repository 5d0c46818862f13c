"""Transactions over several partitions: written, copied exactly once, and money that is moved.

Proves that a transaction is there as a whole or not at all, and only if its commit was asked for;
that none is lost that was acknowledged; that nobody commits who was thrown out; that what a group
consumes and produces in transactions is there once; that accounts have together what they had;
that who writes to a partition without having said so is refused; and that no transaction hangs in
the end, also of producers that died in the middle and never came back.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from quorate.errors import KafkaError
from quorate.jepsen.clients import choosing, committed, committed_reading, hanging
from quorate.jepsen.clients.committed_reading import NOT_NOW, undecided
from quorate.jepsen.clients.raw import Raw
from quorate.jepsen.clients.transacting import TIMEOUT_MS, Transactor, TransactorOptions
from quorate.jepsen.recorder import Scribe
from quorate.jepsen.workloads.rogue import Rogue
from quorate.jepsen.workloads.transacting import Banker, Copier, Place, Transacting, Writer
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

WRITTEN: Final = "transactions"
COPIED: Final = "transactions-copied"
MONEY: Final = "transactions-money"
OFFSETS_TOPIC: Final = "__consumer_offsets"
WRITERS: Final = 5
COPIERS: Final = 2
PAUSE_S: Final = 0.02
COPY_PAUSE_S: Final = 0.2
ENDED_S_MAX: Final = 45.0
DECIDED_S_MAX: Final = TIMEOUT_MS / 1000 + 30.0
COPIED_S_MAX: Final = 60.0
READ_S_MAX: Final = 60.0
AT_ONCE_S_MAX: Final = 1.0
AGAIN_S: Final = 0.2


class Transactions:
    """Writers, copiers and a banker, who send in transactions, and readers of what is committed."""

    succeeds = False
    """Whether the dead have successors in the end, too."""
    pause_s = PAUSE_S
    """Between two transactions of a writer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        options = context.topic_options
        self._topics = [options.topic(name) for name in (WRITTEN, COPIED, MONEY)]
        self._group = f"{self._topics[0].name}-copiers"
        self._writers: list[Transacting] = []
        self._copiers: list[Transacting] = []
        self._readers: list[choosing.Reader] = []
        self._rogue: Rogue | None = None
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return what is written, what is copied, and the accounts."""
        return self._topics

    def start(self) -> None:
        """Begin."""
        context = self._context
        written, copied, money = (_partitions(topic) for topic in self._topics)
        prefix = self._topics[0].name
        place = Place(
            context.recorder, context.bootstrap, self._make_writer, succeeds=self.succeeds
        )
        copies = replace(place, make=self._make_copier)
        self._writers = [
            Writer(place, f"{prefix}-writer-{number}", self._rng(), self.pause_s, written)
            for number in range(WRITERS)
        ]
        self._writers.append(Banker(place, f"{prefix}-bank", self._rng(), self.pause_s, money))
        pairs = list(zip(written, copied, strict=True))
        self._copiers = [
            Copier(
                copies,
                f"{prefix}-copier-{number}",
                self._rng(),
                COPY_PAUSE_S,
                self._group,
                dict(pairs[number::COPIERS]),
            )
            for number in range(COPIERS)
        ]
        for each in (*self._writers, *self._copiers):
            each.start()
        self._rogue = Rogue(context.bootstrap, f"{prefix}-rogue", written, self._rng())
        for topic in self._topics:
            numbers = list(range(topic.partitions))
            for client in {choosing.OWN, context.client}:
                self._readers.append(
                    choosing.committed_reader(
                        client,
                        context.recorder,
                        context.bootstrap,
                        topic.name,
                        numbers,
                        self._rng(),
                    )
                )

    def _make_writer(self, transactional_id: str) -> Transactor:
        """Return the next producer of a writer."""
        options = TransactorOptions(self._context.bootstrap, transactional_id)
        return choosing.transactor(self._context.client, options)

    def _make_copier(self, transactional_id: str) -> Transactor:
        """Return the next producer of a copier."""
        return self._make_writer(transactional_id)

    def _rng(self) -> Random:
        return Random(self._context.rng.getrandbits(64))

    def stop(self) -> None:
        """Write no more; wait until all is decided and copied."""
        self._end(self._writers, ENDED_S_MAX)
        if self._rogue is not None:
            self._rogue.stop()
            self._errors += self._rogue.errors
        with Raw(self._context.bootstrap) as raw:
            if self._wait_for_decisions(raw, _partitions(self._topics[0])):
                self._wait_for_copiers(raw)
            self._end(self._copiers, ENDED_S_MAX)
            others = [where for topic in self._topics[1:] for where in _partitions(topic)]
            self._wait_for_decisions(raw, others + hanging.partitions(raw, OFFSETS_TOPIC))
            self._wait_for_coordinators(raw)
            self._tell_position(raw)
        for reader in self._readers:
            reader.stop()
            self._errors += reader.errors
        self._readers = []

    def final(self) -> None:
        """Read all that is committed."""
        partitions = [where for topic in self._topics for where in _partitions(topic)]
        self._errors += committed_reading.read_back(
            self._context.recorder, self._context.bootstrap, partitions, READ_S_MAX
        )

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        self._end(self._writers, AT_ONCE_S_MAX)
        self._end(self._copiers, AT_ONCE_S_MAX)
        if self._rogue is not None:
            self._rogue.stop()
        for reader in self._readers:
            reader.stop()
        self._readers = []

    def _end(self, transacting: list[Transacting], seconds_max: float) -> None:
        deadline_s = time.monotonic() + seconds_max
        for each in transacting:
            each.halt()
        for each in transacting:
            each.join(max(0.0, deadline_s - time.monotonic()))
            self._errors += each.errors
        transacting.clear()

    def _wait_for_decisions(self, raw: Raw, partitions: Sequence[TopicPartition]) -> bool:
        """Wait until no transaction is open any more: those of the dead end by their timeout."""
        deadline_s = time.monotonic() + DECIDED_S_MAX
        while (open_ := undecided(raw, partitions)) and time.monotonic() < deadline_s:
            time.sleep(AGAIN_S)
        if open_:
            self._complain("hanging-transaction", "; ".join(open_))
        return not open_

    def _wait_for_coordinators(self, raw: Raw) -> None:
        """Wait until coordinators and leaders know of nothing that is not at its end."""
        partitions = [where for topic in self._topics for where in _partitions(topic)]
        deadline_s = time.monotonic() + ENDED_S_MAX
        while open_ := hanging.unfinished(raw, partitions, self._topics[0].name):
            if time.monotonic() > deadline_s:
                self._complain("hanging-transaction", "; ".join(open_))
                return
            time.sleep(AGAIN_S)

    def _wait_for_copiers(self, raw: Raw) -> None:
        """Wait until all that is committed is copied."""
        deadline_s = time.monotonic() + COPIED_S_MAX
        while (behind := self._behind(raw)) and time.monotonic() < deadline_s:
            time.sleep(AGAIN_S)
        if behind:
            self._complain("group-stuck", "; ".join(behind))

    def _behind(self, raw: Raw) -> list[str]:
        """Say in which partitions there is something that is not copied."""
        partitions = _partitions(self._topics[0])
        try:
            told = committed.fetch(raw, self._group, partitions, stable=True)
            rest = {
                where: committed_reading.has_more(raw, where, max(0, told[where].offset))
                for where in partitions
            }
        except (*NOT_NOW, KafkaError) as error:
            for where in partitions:
                raw.forget(where.topic)
            return [f"the positions of {self._group} are not known: {error}"]
        return [f"{self._group} is at {told[w].offset} of {w}" for w, more in rest.items() if more]

    def _tell_position(self, raw: Raw) -> None:
        """Write down where the copiers' group is."""
        partitions = _partitions(self._topics[0])
        try:
            told = committed.fetch(raw, self._group, partitions, stable=True)
        except (*NOT_NOW, KafkaError) as error:
            self._errors.append(f"the positions of {self._group} are not known: {error}")
            return
        positions = [[str(where), offset] for where, (offset, _) in told.items()]
        Scribe(self._context.recorder).tell("position", positions, self._group)

    def _complain(self, anomaly: str, sentence: str) -> None:
        Scribe(self._context.recorder).tell("complaint", [anomaly, sentence])


def _partitions(topic: Topic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


TRANSACTIONS: Final = WorkloadKind(
    "transactions",
    "transactions are written, copied exactly once, aborted, left open and fenced; money is moved",
    Transactions,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"commits": 1},
)
