"""A controller's process: does what the Trio shell does around the core, but in virtual time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from quorate.promise import Promise
from quorate.quorum.raft.messages import decode_message
from quorate.quorum.raft.rounds import Flush, Outgoing, Rounds
from quorate.quorum.raft.simulated_storage import SimulatedCrash
from quorate.quorum.raft.storage import StorageFullError
from quorate.quorum.raft.voters import ReplicaKey, VoterSet
from tests.simulation.quorum.disk import Disk
from tests.simulation.quorum.network import Frame
from tests.simulation.quorum.registers import Answer, Registers
from tests.simulation.quorum.scenario import Scenario
from tests.simulation.timeline import Action, Timeline

REACTION_S: Final = 50e-6
FULL_RETRY_S: Final = 0.2


class Clock:
    """A host's clock: begins anywhere, and runs a little fast or slow."""

    def __init__(self, rng: Random) -> None:
        self._begins_s = rng.uniform(0, 10_000)
        self._rate = rng.uniform(0.98, 1.02)

    def here_s(self, now_s: float) -> float:
        """Return what the clock shows at a moment of the simulation."""
        return self._begins_s + now_s * self._rate

    def simulated_s(self, here_s: float) -> float:
        """Return when it will show this."""
        return (here_s - self._begins_s) / self._rate


@dataclass(frozen=True, slots=True)
class Replica:
    """Whose process it is, whom it believes to be voters at first, and what it runs on."""

    key: ReplicaKey
    voters: VoterSet
    disk: Disk
    clock: Clock


class Surroundings(Protocol):
    """Who hears of everything that a process does."""

    def leaves(self, process: "Process", outgoing: Iterable[Outgoing]) -> None:
        """Messages leave."""
        ...

    def stepped(self, process: "Process") -> None:
        """Part of a round has been done."""
        ...

    def flushed(self, process: "Process") -> None:
        """Something may have become durable."""
        ...

    def crashed(self, process: "Process") -> None:
        """The process died in the middle of a disk operation."""
        ...

    def applied(self, process: "Process", index: int, number: int, state_hash: bytes) -> None:
        """The state machine has carried out a command."""
        ...

    def loaded(self, process: "Process", index: int, state_hash: bytes) -> None:
        """The state machine has taken over a snapshot."""
        ...


class Process:
    """One run of a controller, from its start to its end.

    What arrives only queues in the core; a round takes it up, waits for the disk as often as it
    needs to, and ends. Only then the next one begins.
    """

    def __init__(
        self,
        replica: Replica,
        scenario: Scenario,
        rng: Random,
        timeline: Timeline,
        surroundings: Surroundings,
    ) -> None:
        """Recover from the disk, which may be full."""
        self.key = replica.key
        self.disk = replica.disk
        self.alive = True
        self._clock = replica.clock
        self._timeline = timeline
        self._surroundings = surroundings
        self._paused_until_s = 0.0
        self._in_round = False
        self._planned_s = math.inf
        self.promises = list[Promise[Any]]()
        self._written: Flush | None = None
        self.registers = Registers(
            partial(surroundings.applied, self),
            partial(surroundings.loaded, self),
            scenario.ballast_bytes,
        )
        self.rounds = Rounds[Answer](
            replica.key, replica.voters, replica.disk, self.registers, scenario.rules, rng
        )

    @property
    def here_s(self) -> float:
        """What the process's clock shows."""
        return self._clock.here_s(self._timeline.now_s)

    def receive(self, frame: Frame) -> None:
        self.rounds.receive(frame.source, decode_message(frame.data))
        self.wake()

    def ask(self, promise: Promise[Any]) -> None:
        """Take note of a promise that the core has made, and let it begin to keep it."""
        self.promises.append(promise)
        self.wake()

    def pause(self, until_s: float) -> None:
        """Do nothing for a while, as after SIGSTOP."""
        self._paused_until_s = until_s

    def peer_connected(self, key: ReplicaKey) -> None:
        self.rounds.peer_connected(key)
        self.wake()

    def peer_disconnected(self, key: ReplicaKey) -> None:
        self.rounds.peer_disconnected(key)
        self.wake()

    def wake(self) -> None:
        """Begin a round as soon as possible."""
        self._plan(self._timeline.now_s + REACTION_S)

    def _plan(self, when_s: float) -> None:
        if when_s < self._planned_s:
            self._planned_s = when_s
            if not self._in_round:
                self._at(when_s, self._begin)

    def _at(self, when_s: float, action: Action) -> None:
        """Do something later, if the process still lives, and not while it is paused."""

        def do() -> None:
            if self.alive and self._timeline.now_s < self._paused_until_s:
                self._at(self._paused_until_s, action)
            elif self.alive:
                action()

        self._timeline.at(when_s, do)

    # --- rounds

    def _begin(self) -> None:
        if self._in_round or self._timeline.now_s < self._planned_s:
            return
        self._planned_s = math.inf
        self._in_round = True
        outgoing = self.rounds.start(self.here_s)
        self._surroundings.stepped(self)
        self._surroundings.leaves(self, outgoing)
        self._flush()

    def _flush(self) -> None:
        self._surroundings.flushed(self)
        flush = self.rounds.start_flush()
        if flush is None:
            self._finish()
        else:
            done_s = self.disk.done_s(self._timeline.now_s)
            self._run(flush, done_s, lambda: self._flushed(flush))

    def _flushed(self, flush: Flush) -> None:
        self.rounds.finish_flush(flush)
        self._flush()

    def _finish(self) -> None:
        outgoing = self.rounds.finish()
        self._surroundings.stepped(self)
        self._surroundings.leaves(self, outgoing)
        self._in_round = False
        if self._written is not None:
            self._snapshot_written(self._written)
        self._start_snapshot()
        arrived_s, self._planned_s = self._planned_s, math.inf
        due_s = self._clock.simulated_s(self.rounds.next_deadline_s)
        self._plan(max(min(arrived_s, due_s), self._timeline.now_s + REACTION_S))

    def _run(self, flush: Flush, when_s: float, done: Action) -> None:
        """Run a flush at some time, and again while there is no space for it."""

        def run() -> None:
            try:
                flush.run()
            except SimulatedCrash:
                self._surroundings.crashed(self)
            except StorageFullError:
                outgoing = self.rounds.storage_full()
                if outgoing:
                    self._surroundings.stepped(self)
                    self._surroundings.leaves(self, outgoing)
                self._at(self._timeline.now_s + FULL_RETRY_S, run)
            else:
                done()

        self._at(when_s, run)

    # --- snapshots, beside the rounds

    def _start_snapshot(self) -> None:
        flush = self.rounds.start_snapshot()
        if flush is not None:
            done_s = self.disk.snapshot_done_s(self._timeline.now_s)
            self._run(flush, done_s, lambda: self._snapshot_written(flush))

    def _snapshot_written(self, flush: Flush) -> None:
        if self._in_round:
            self._written = flush
            return
        self._written = None
        self.rounds.finish_snapshot(flush)
        self._surroundings.flushed(self)
        self.wake()
