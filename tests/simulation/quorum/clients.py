"""Clients of the quorum: what they ask of its registers, and what they hear."""

from dataclasses import dataclass
from random import Random

from quorate.jepsen.linearizability import NEVER, Cas, Get, Operation, Put, Value
from quorate.quorum.raft.outcomes import Lost, NotLeader, ReadDone, ReadOutcome, Unknown
from quorate.quorum.raft.voters import ReplicaKey
from tests.simulation.quorum.process import Process
from tests.simulation.quorum.registers import CAS, PUT, Answer, Command
from tests.simulation.quorum.world import World
from tests.simulation.timeline import Action

KEYS = ("a", "b", "c", "d")
PATIENCE_S = 2.0
GIVE_UP_S = 2.5
"""A client waits a little longer than it asks the controller to: the answer may be lost."""

LARGE_BYTES = 200_000
ANSWERS_LOST = 0.01
TRAVEL_MIN_S, TRAVEL_MAX_S = 0.0001, 0.003


class Numbers:
    """Owns what makes commands and clients unique in a run."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


@dataclass(frozen=True, slots=True)
class _Call:
    """What a client is waiting for."""

    command: Command | None
    key: str
    called_s: float


class Client:
    """One client, which does one thing after another, and writes down when and what it heard."""

    def __init__(
        self, world: World, numbers: Numbers, history: list[Operation], rng: Random
    ) -> None:
        self._world = world
        self._numbers = numbers
        self._history = history
        self._rng = rng
        self._number = numbers.next()
        self._active = True
        self._target = rng.choice(list(world.hosts))
        self._last_seen = dict[str, Value]()
        self._call: _Call | None = None
        self._think()

    def _think(self) -> None:
        self._world.timeline.after(self._rng.expovariate(1 / 0.15), self._begin)

    def _begin(self) -> None:
        if not self._active:
            return
        if self._rng.random() < 0.05:
            self._target = self._rng.choice(list(self._world.hosts))
        kind = self._rng.choices((None, PUT, CAS), (4, 3, 3))[0]
        key = self._rng.choice(KEYS)
        number = self._numbers.next()
        command = None
        if kind is not None:
            padding_bytes = self._rng.choice((0, 20, 120, 1500))
            expected = self._last_seen.get(key)
            command = Command(number, kind, key, expected, number, padding_bytes)
        call = self._call = _Call(command, key, self._world.timeline.now_s)
        self._later(lambda: self._arrive(call))
        self._world.timeline.after(GIVE_UP_S, lambda: self._unknown(call))

    def _later(self, action: Action) -> None:
        self._world.timeline.after(self._rng.uniform(TRAVEL_MIN_S, TRAVEL_MAX_S), action)

    # --- at the controller

    def _arrive(self, call: _Call) -> None:
        process = self._world.hosts[self._target].process
        if process is None:
            self._not_done(call, None)
            return
        deadline_s = process.here_s + PATIENCE_S
        if call.command is None:
            read = process.rounds.read(deadline_s)
            process.ask(read)
            read.when_resolved(lambda outcome: self._read(call, process, outcome))
        else:
            command = call.command
            written = process.rounds.propose(command.encode(), deadline_s)
            process.ask(written)
            written.when_resolved(lambda outcome: self._written(call, command, outcome))

    def _read(self, call: _Call, process: Process, outcome: ReadOutcome) -> None:
        value = process.registers.values.get(call.key)
        match outcome:
            case ReadDone():
                self._answer(lambda: self._known(call, Get(value), value))
            case NotLeader(leader):
                self._answer(lambda: self._not_done(call, leader))
            case Unknown():
                self._answer(lambda: self._unknown(call))

    def _written(
        self, call: _Call, command: Command, outcome: Answer | NotLeader | Lost | Unknown
    ) -> None:
        heard(self._world, command.number, outcome)
        match outcome:
            case Answer(done=done):
                value = command.value if done else self._last_seen.get(call.key)
                self._answer(lambda: self._known(call, _action(command, done), value))
            case NotLeader(leader):
                self._answer(lambda: self._not_done(call, leader))
            case Lost():
                self._answer(lambda: self._not_done(call, None))
            case Unknown():
                self._answer(lambda: self._unknown(call))

    def _answer(self, action: Action) -> None:
        if self._rng.random() >= ANSWERS_LOST:
            self._later(action)

    # --- at the client

    def _known(self, call: _Call, action: Get | Put | Cas, value: Value) -> None:
        if call is self._call:
            self._last_seen[call.key] = value
            self._write_down(call, action, self._world.timeline.now_s)
            self._finish(call)

    def _unknown(self, call: _Call) -> None:
        """Write down that it may take effect at any time, and go on as somebody else."""
        if call is self._call:
            if call.command is not None:
                self._write_down(call, _action(call.command, None), NEVER)
                self._number = self._numbers.next()
            self._finish(call)

    def _not_done(self, call: _Call, leader: ReplicaKey | None) -> None:
        """Forget about it, and ask somebody else the next time."""
        if call is self._call:
            self._target = leader.node_id if leader else self._rng.choice(list(self._world.hosts))
            self._finish(call)

    def _write_down(self, call: _Call, action: Get | Put | Cas, returned_s: float) -> None:
        kind = "known" if returned_s != NEVER else "unknown"
        self._world.trace.counts[f"{kind} {type(action).__name__.lower()}"] += 1
        operation = Operation(self._number, call.key, action, call.called_s, returned_s)
        self._history.append(operation)

    def _finish(self, call: _Call) -> None:
        assert call is self._call, "one thing after another"
        self._call = None
        self._think()

    def end(self) -> None:
        """Ask for nothing more; what is not answered by now stays unknown."""
        self._active = False
        if self._call is not None:
            self._unknown(self._call)


def _action(command: Command, done: bool | None) -> Put | Cas:
    if command.kind == PUT:
        return Put(command.value)
    return Cas(command.expected, command.value, done)


class Crowd:
    """Many writers at once, now and then: they do not mind what is there, only what is lost."""

    def __init__(self, world: World, numbers: Numbers, rng: Random) -> None:
        self._world = world
        self._numbers = numbers
        self._rng = rng
        self._active = True
        self._wait()

    def end(self) -> None:
        self._active = False

    def _wait(self) -> None:
        self._world.timeline.after(self._rng.expovariate(1 / 0.4), self._come)

    def _come(self) -> None:
        if not self._active:
            return
        leader = self._world.leader()
        if leader is not None:
            for _ in range(self._rng.choice((1, 5, 20))):
                delay_s = self._rng.choice((0, 0.001, 0.01, 0.05)) * self._rng.random()
                self._world.timeline.after(delay_s, lambda: self._write(leader))
        self._wait()

    def _write(self, process: Process) -> None:
        if not process.alive:
            return
        number = self._numbers.next()
        padding_bytes = self._rng.choice((0, 20, 120))
        if self._rng.random() < self._world.scenario.large_commands:
            padding_bytes = LARGE_BYTES
        command = Command(number, PUT, "crowd", None, number, padding_bytes)
        promise = process.rounds.propose(command.encode(), process.here_s + PATIENCE_S)
        process.ask(promise)
        promise.when_resolved(lambda outcome: heard(self._world, number, outcome))


def heard(world: World, number: int, outcome: Answer | NotLeader | Lost | Unknown) -> None:
    """Compare what a client is told about its command with what is known about it."""
    world.trace.counts[type(outcome).__name__] += 1
    match outcome:
        case Answer():
            world.invariants.acknowledged_commands_survive(number, outcome)
        case NotLeader() | Lost():
            world.invariants.never_takes_effect(number, outcome)
        case Unknown():
            pass
