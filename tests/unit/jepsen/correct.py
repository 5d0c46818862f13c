"""Histories of a cluster that does all right: to be spoilt, and to see how fast they are judged."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from quorate.jepsen.history import Event, Kind

PARTITIONS: Final = 20
PRODUCERS: Final = 8
READERS: Final = 6
CLIENTS: Final = 10
POLL_MAX: Final = 20
TICK_NS: Final = 50_000
KEY_OPERATIONS: Final = 200
FAULT_OPERATIONS: Final = 1_000
LOST_ODDS: Final = 0.01
HEADER: Final[dict[str, Any]] = {
    "workloads": ["append", "groups", "metadata"],
    "acks": "all",
    "liveness": {"recovery": 10, "gap": 10},
    "quotas": {"acks": 1},
}


class _World:
    """The logs, the registers and the committed offsets as they are."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ns = 0
        self.logs: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.sent = 0
        self.sequences = [0] * PRODUCERS
        self.places = [[0] * PARTITIONS for _ in range(READERS)]
        self.given = [0] * PARTITIONS
        self.committed = [-1] * PARTITIONS
        self.register: int | None = None
        self.key = 0
        self.registers = 0
        self.process = 1000

    def tick(self) -> int:
        self.now_ns += TICK_NS
        return self.now_ns

    def new_process(self) -> int:
        self.process += 1
        return self.process

    def did(self, process: int, name: str, asked: Any, told: Any) -> Iterator[Event]:
        yield Event(self.tick(), process, Kind.INVOKE, name, asked)
        yield Event(self.tick(), process, Kind.OK, name, told)


def correct_history(seed: int, count: int) -> Iterator[Event]:
    """Yield the events of about so many operations."""
    world = _World(seed)
    rng = world.rng
    kinds = [(_send, 50), (_poll, 38), (_commit, 2), (_committed, 2), (_register, 8)]
    yield from world.did(0, "phase", None, "load")
    for number in range(count):
        (kind,) = rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])
        yield from kind(world)
        if number % FAULT_OPERATIONS == FAULT_OPERATIONS - 1:
            fault: dict[str, Any] = {"fault": "kill", "targets": ["broker-101"], "detail": {}}
            yield from world.did(0, "fault", fault, {"verified": "nobody listens"})
            for _ in range(20):
                yield from _send(world)
            yield from world.did(0, "heal", {"fault": "kill"}, {})
    yield from world.did(0, "phase", None, "final")
    for partition, log in enumerate(world.logs):
        for begin in range(0, len(log), 500):
            values = log[begin : begin + 500]
            told = [[f"t-{partition}", list(range(begin, begin + len(values))), values]]
            yield from world.did(3, "read", None, told)
        for broker in 101, 102, 103:
            batches = [[n, n + 1, 0, b"%16d" % n] for n in range(len(log))]
            yield from world.did(2, "replica", None, [f"t-{partition}", broker, batches])
    yield from world.did(0, "phase", None, "end")


def _send(world: _World) -> Iterator[Event]:
    """Send one record, or several of several producers at once."""
    rng, calls = world.rng, list[tuple[int, int]]()
    for producer in rng.sample(range(PRODUCERS), rng.choice((1, 1, 1, 3))):
        partition, value, process = rng.randrange(PARTITIONS), world.sent, world.new_process()
        world.sent += 1
        asked = [f"t-{partition}", value, producer, world.sequences[producer]]
        world.sequences[producer] += 1
        yield Event(world.tick(), process, Kind.INVOKE, "send", asked)
        calls.append((process, partition))
        if rng.random() < LOST_ODDS:
            world.logs[partition] += [value] * rng.randrange(2)
            calls.pop()
            yield Event(world.tick(), process, Kind.INFO, "send", "nobody heard")
        elif rng.random() < LOST_ODDS:
            calls.pop()
            yield Event(world.tick(), process, Kind.FAIL, "send", "refused")
        else:
            world.logs[partition].append(value)
            calls[-1] = process, len(world.logs[partition]) - 1
    rng.shuffle(calls)
    for process, offset in calls:
        yield Event(world.tick(), process, Kind.OK, "send", offset)


def _poll(world: _World) -> Iterator[Event]:
    rng = world.rng
    reader, partition = rng.randrange(READERS), rng.randrange(PARTITIONS)
    place, log = world.places[reader][partition], world.logs[partition]
    values = log[place : place + rng.randrange(1, POLL_MAX)]
    offsets = list(range(place, place + len(values)))
    world.places[reader][partition] += len(values)
    world.given[partition] = max(world.given[partition], world.places[reader][partition])
    told = [[f"t-{partition}", offsets, values]] if values else []
    # A partition is not read in turn with others here, so each is an assignment of its own.
    process = 10 + reader * PARTITIONS + partition
    yield from world.did(process, "poll", [0, "g", None, str(reader)], told)


def _commit(world: _World) -> Iterator[Event]:
    partition = world.rng.randrange(PARTITIONS)
    offset = world.given[partition]
    world.committed[partition] = offset
    yield from world.did(4, "commit", ["g", [[f"t-{partition}", offset]]], None)


def _committed(world: _World) -> Iterator[Event]:
    told = [[f"t-{number}", offset] for number, offset in enumerate(world.committed)]
    yield from world.did(5, "committed", ["g", [name for name, _ in told]], told)


def _register(world: _World) -> Iterator[Event]:
    """Some clients do something to a register at once, in any order."""
    rng = world.rng
    if world.registers >= KEY_OPERATIONS:
        world.key, world.registers, world.register = world.key + 1, 0, None
    key = f"k{world.key}"
    clients = rng.sample(range(200, 200 + CLIENTS), rng.randrange(1, 5))
    calls: dict[int, tuple[str, Any]] = {}
    for client in clients:
        world.registers += 1
        new = world.registers
        name, asked = rng.choice(
            [("get", key), ("put", [key, new]), ("cas", [key, world.register, new])]
        )
        calls[client] = name, asked
        yield Event(world.tick(), client, Kind.INVOKE, name, asked)
    rng.shuffle(clients)
    answers: list[tuple[int, str, Any]] = []
    for client in clients:
        name, asked = calls[client]
        told: Any = None
        if name == "get":
            told = world.register
        elif name == "put":
            world.register = asked[1]
        else:
            told = world.register == asked[1]
            world.register = asked[2] if told else world.register
        answers.append((client, name, told))
    rng.shuffle(answers)
    for client, name, told in answers:
        yield Event(world.tick(), client, Kind.OK, name, told)
