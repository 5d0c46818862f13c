"""The workload ``transactions`` with each producer a process, killed at every step in turn.

Its successor has the same transactional id, fences it and goes on. What died when stands in the
history as ``producer-killed``: the transactional id, the moment, and what it had been asked to do.
"""

import threading
from random import Random
from typing import Final

from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.mortal_process import Birth
from quorate.jepsen.clients.mortal_transactor import Breeder, MortalTransactor
from quorate.jepsen.clients.mortality import MOMENTS, NEVER, OF_OFFSETS, Doom, Dooms
from quorate.jepsen.clients.transacting import Transactor
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Call
from quorate.jepsen.workloads.transactions import TRANSACTIONS, Transactions
from quorate.jepsen.workloads.workload import Context, WorkloadKind

KILLED: Final = "producer-killed"


class KilledProducers(Transactions):
    """State: the processes, and at which moments the next ones die."""

    succeeds = True
    pause_s = 0.15

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._breeder: Breeder | None = None
        self._is_ending = False
        self._lock = threading.Lock()  # each writer is a thread
        drawn = Random(context.rng.getrandbits(64))
        self._of_writers = Dooms([name for name in MOMENTS if name not in OF_OFFSETS], drawn)
        self._of_copiers = Dooms(MOMENTS, drawn)

    def start(self) -> None:
        """Begin."""
        self._breeder = Breeder()
        super().start()

    def stop(self) -> None:
        """Write no more, and let nobody die any more."""
        self._is_ending = True
        super().stop()

    def _make_writer(self, transactional_id: str) -> Transactor:
        return self._bear(transactional_id, self._of_writers)

    def _make_copier(self, transactional_id: str) -> Transactor:
        return self._bear(transactional_id, self._of_copiers)

    def _bear(self, transactional_id: str, dooms: Dooms) -> Transactor:
        assert self._breeder is not None, "it has begun"
        with self._lock:
            doom = NEVER if self._is_ending else dooms.draw()
        context = self._context

        def died(doom: Doom, asked: str) -> None:
            call = Call(context.recorder, KILLED, [transactional_id, doom.moment, asked])
            call.end(Kind.OK)

        birth = Birth(context.client, context.bootstrap, transactional_id, doom)
        return MortalTransactor(self._breeder, birth, died)

    def close(self) -> None:
        """End at once."""
        super().close()
        if self._breeder is not None:
            self._breeder.close()
            self._breeder = None


KILLED_PRODUCERS: Final = WorkloadKind(
    "killed-producers",
    "as transactions, and each producer is a process that is killed at one step or another",
    KilledProducers,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s=TRANSACTIONS.quotas_per_s,
)
