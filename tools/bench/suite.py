"""Which scenarios there are, and which of them are wanted."""

from collections.abc import Sequence
from fnmatch import fnmatch

from quorate.tools.bench.alone import CliStart, IdleConnections, Startup
from quorate.tools.bench.clients import ClientConsume, ClientProduce
from quorate.tools.bench.scenarios import (
    Consume,
    Flood,
    Latency,
    MemoryUnderLoad,
    Produce,
    Scenario,
)

VALUE_BYTES = (100, 1024)
PARTITIONS = (1, 6)
CONNECTIONS = (1, 10, 20, 100)
IDLE_CONNECTIONS = 1000
RATE_PER_S = 1000

CLI_RUNS = 20
QUICK = ("produce-100-p1-default", "consume-100-p1", "requests-1x100-c10-d1", "e2e", "startup")


def scenarios() -> list[Scenario]:
    """Return all scenarios in the order in which they run.

    Those that want a quiet machine come before those that leave gigabytes to be written behind.
    """
    produced: list[Scenario] = [
        Produce(value_bytes, partitions, batches)
        for value_bytes in VALUE_BYTES
        for partitions in PARTITIONS
        for batches in ("default batches", "large batches")
    ]
    produced += [Produce(value_bytes, 1, "16 KiB batches") for value_bytes in VALUE_BYTES]
    return [
        Latency("sync", 0, ()),
        Latency("e2e", RATE_PER_S, ()),
        Latency("sync", 0, (("flush.messages", "1"),)),
        Latency("e2e", RATE_PER_S, (("flush.messages", "1"),)),
        *(Flood(100, 1, connections, 1) for connections in CONNECTIONS),
        *(Flood(100, 1, connections, 5) for connections in (20, 100)),
        Flood(100, 150, 20, 5),
        Flood(1000, 1000, 1, 5),
        *produced,
        *(Consume(value_bytes, count) for value_bytes in VALUE_BYTES for count in PARTITIONS),
        MemoryUnderLoad(),
        *(ClientProduce(value_bytes) for value_bytes in VALUE_BYTES),
        *(ClientConsume(value_bytes) for value_bytes in VALUE_BYTES),
        IdleConnections(IDLE_CONNECTIONS),
        Startup(),
        CliStart(CLI_RUNS),
    ]


def wanted(all_of_them: Sequence[Scenario], patterns: Sequence[str]) -> list[Scenario]:
    """Return the scenarios whose names match one of the patterns; no patterns, all of them."""
    if not patterns:
        return list(all_of_them)
    return [s for s in all_of_them if any(fnmatch(s.name, pattern) for pattern in patterns)]
