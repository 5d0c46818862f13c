"""Faults of the exactly-once sink of Spark, each many times: no row twice, none missing.

``python -m tests.robustness.spark_sink --runs 20``. A micro-batch of two tasks goes as Spark would
have it go (``tests/integration/spark_driver.py``), to a node in a process of its own; the driver is
killed, a task or a commit fails, at every request, before it is sent and while it is under way.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin
from tests.compat import serving
from tests.integration.spark_driver import Fault, Query, Wire, die
from tests.integration.test_spark_exactly_once import (
    COMMIT_FAULTS,
    DECIDED_FAULTS,
    PARTITIONS,
    PROPERTIES,
    TASK_FAULTS,
    committed,
    requests_of_a_micro_batch,
)


@dataclass(frozen=True)
class Scene:
    """Something that happens, and how the query is run then."""

    what: str
    fault: Fault
    words: dict[str, Any]


@dataclass
class Outcome:
    """What came of one scene, all runs together."""

    runs: int = 0
    struck: int = 0
    twice: int = 0
    missing: int = 0

    def add(self, query: Query, found: Counter[str], *, struck: bool) -> None:
        """Count a run, given all rows that committed readers see."""
        self.runs += 1
        self.struck += struck
        self.twice += sum(max(0, found[row] - 1) for row in query.wanted)
        self.missing += sum(row not in found for row in query.wanted)


def scenes(servers: str, topic: str) -> list[Scene]:
    """Return everything that may happen at a request of a micro-batch."""
    with pytest.MonkeyPatch.context() as patch:
        points = requests_of_a_micro_batch(servers, topic, patch)
    made = [
        Scene("driver killed", Fault(api, nth, mode), {})
        for api, nth in points
        for mode in ("before", "under way")
    ]
    made += [Scene("task tried again", fault, {"task_attempts": 2}) for fault in TASK_FAULTS]
    made += [Scene("commit fails, then abort", fault, {}) for fault in COMMIT_FAULTS]
    made += [
        Scene("driver killed, then other rows", fault, {"turns": True}) for fault in DECIDED_FAULTS
    ]
    return made


def play(servers: str, scene: Scene, number: int, runs: int) -> Outcome:
    """Run a scene as often as wanted, in a topic of its own."""
    topic = f"scene-{number}"
    with Admin(servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    played: list[tuple[Query, bool]] = []
    for run in range(runs):
        wire = Wire(scene.fault)
        query = Query(servers, topic, f"{topic}-{run}", wire, **scene.words)
        with pytest.MonkeyPatch.context() as patch:
            wire.install(patch)
            query.until_done()
        played.append((query, wire.struck))
    outcome, found = Outcome(), committed(servers, topic)
    for query, struck in played:
        outcome.add(query, found, struck=struck)
    die()
    return outcome


def tell(what: str, outcome: Outcome) -> None:
    """Say what came of it."""
    print(  # noqa: T201
        f"{what}: {outcome.runs} runs, struck in {outcome.struck},"
        f" {outcome.twice} rows twice, {outcome.missing} missing",
        flush=True,
    )


def run(servers: str, runs: int) -> int:
    """Play all scenes, say what came of each; return how many went wrong."""
    with Admin(servers) as admin:
        admin.create_topic("dry", partitions=PARTITIONS)
    total, wrong, begin_s = Outcome(), 0, time.monotonic()
    for number, scene in enumerate(scenes(servers, "dry")):
        outcome = play(servers, scene, number, runs)
        wrong += bool(outcome.twice or outcome.missing)
        tell(f"{scene.what}: {scene.fault}", outcome)
        total.runs += outcome.runs
        total.struck += outcome.struck
        total.twice += outcome.twice
        total.missing += outcome.missing
    tell(f"all, in {time.monotonic() - begin_s:.0f} s", total)
    return wrong


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.spark_sink", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each fault (%(default)s)")
    parser.add_argument("--broker", choices=("quorate", "kafka"), default="quorate")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-spark-sink-") as folder:
        ours = arguments.broker == "quorate"
        running = serving.quorate(PROPERTIES, Path(folder)) if ours else serving.kafka(PROPERTIES)
        with running as broker:
            return 1 if run(broker.server.bootstrap, arguments.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
