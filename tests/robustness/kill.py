"""kill -9 at random moments of acknowledged writes, with and without the power going, too.

``python -m tests.robustness.kill --rounds 500 --mode kill|power --seed N``.  That losses are seen
is shown by ``--flush default``: without a sync before every answer a power cut loses records.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from quorate.jepsen.clients.wire import (
    PRODUCE_VERSION,
    Client,
    ClosedError,
    WrongLogError,
    create_topic,
    plain_batch,
    produce_request,
)
from quorate.jepsen.lab.disks import Shim
from quorate.jepsen.lab.power import copy_tree, cut_power
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.metadata import MetadataRequest
from quorate.protocol.messages.topics import DeleteTopicsRequest
from tests.robustness.ledger import Ledger
from tests.robustness.node import Node, start_node
from tests.robustness.writing import Load, make_load

TOPIC: Final = "kill"
PARTITIONS: Final = 4
ROUNDS_PER_DIRECTORY: Final = 20
WRITE_S_MAX: Final = 0.5
KILLED_EARLY: Final = 0.1
"""How often the process is killed while it starts."""
STOPPED: Final = 0.05
"""How often it is stopped properly before the power goes."""
CHANGES_MAX: Final = 3000
SLOW_START_S: Final = 3.0
AT_THE_END: Final = frozenset({"NOT_LEADER_OR_FOLLOWER"})
"""What a broker that is told to stop may answer."""

PROPERTIES: Final = {
    "log.segment.bytes": "65536",
    "log.index.interval.bytes": "1024",
    "log.flush.offset.checkpoint.interval.ms": "150",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do how often."""

    rounds: int
    power: bool
    synced: bool
    """Whether ``flush.messages`` is 1, so that an answer means that records are on the disk."""
    seed: int


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    rounds: int = 0
    early: int = 0
    mid_change: int = 0
    acked: int = 0
    checked: int = 0
    topics: int = 0
    cuts_that_lost: int = 0
    start_s_max: float = 0.0
    slow_starts: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """Return it for a person."""
        return (
            f"{self.rounds} kills ({self.early} during start, {self.mid_change} inside a change of"
            f" the disk); {self.acked} records acknowledged, {self.checked} read again;"
            f" {self.topics} topics; {self.cuts_that_lost} power cuts lost unsynced bytes;"
            f" slowest start {self.start_s_max:.2f} s; {len(self.failures)} failures"
        )


class TopicMaker:
    """Creates topics, writes to them and deletes some, until the broker goes away.

    State: topics that must be there, and topics that must not be there any more.
    """

    def __init__(self, prefix: str, rng: Random) -> None:
        self._prefix = prefix
        self._rng = rng
        self._number = 0
        self.promised: set[str] = set()
        self.deleted: set[str] = set()

    def run(self, port: int, count_max: int) -> None:
        """Create up to so many topics."""
        try:
            with Client(port) as client:
                for _ in range(count_max):
                    self._create(client)
                    if len(self.promised) > 1 and self._rng.random() < 0.5:
                        self._delete(client)
        except ClosedError:
            return

    def _create(self, client: Client) -> None:
        name = f"{self._prefix}-{self._number}"
        self._number += 1
        if create_topic(client, name, 1, {"flush.messages": "1"}) == 0:
            self.promised.add(name)

    def _delete(self, client: Client) -> None:
        """Delete a topic while a record of it is synced."""
        name = self._rng.choice(sorted(self.promised))
        self.promised.remove(name)
        record = produce_request(TopicPartition(name, 0), plain_batch(b"last"), acks=-1)
        client.send(ApiKey.PRODUCE, PRODUCE_VERSION, record)
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        client.send(ApiKey.DELETE_TOPICS, 5, request)
        client.receive()
        if client.receive().responses[0].error_code == 0:
            self.deleted.add(name)

    def check(self, port: int) -> None:
        """See whether all are there that must be, and none of the others.

        Raises:
            WrongLogError: a topic is missing, or came back.
        """
        with Client(port) as client:
            answer = client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        found = {topic.name for topic in answer.topics if not topic.error_code}
        if self.promised - found:
            raise WrongLogError(f"topics are missing: {sorted(self.promised - found)}")
        if self.deleted & found:
            raise WrongLogError(f"deleted topics are back: {sorted(self.deleted & found)}")


class Life:
    """A data directory through many processes.

    State: the directory, and what was promised about it.
    """

    def __init__(self, work: Path, plan: Plan, rng: Random, tally: Tally) -> None:
        self._work = work
        self._plan = plan
        self._rng = rng
        self._tally = tally
        self._data = work / "data"
        self._safe = work / "safe"
        self._log = work / "node.log"
        self._data.mkdir(parents=True)
        self._shim = Shim(self._data, work, journal=True) if plan.power else None
        if self._shim is not None:
            self._shim.set("sync_for_real", 0)
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self._ledger = Ledger(partitions)
        self._load: Load = make_load(self._ledger, rng, expected=AT_THE_END)
        self._topics = TopicMaker("extra", Random(rng.getrandbits(64)))

    def begin(self) -> None:
        """Create the topic, and stop properly."""
        with self._start() as node, Client(node.port) as client:
            configs = {"flush.messages": "1"} if self._plan.synced else {}
            assert create_topic(client, TOPIC, PARTITIONS, configs) == 0
            node.stop()
        self._forget_journal()

    def round(self) -> None:
        """Start, check everything, write, kill."""
        self._prepare_cut()
        if self._rng.random() < KILLED_EARLY:
            self._start_and_kill()
        else:
            with self._start() as node:
                self._check(node)
                self._write_and_kill(node)
        self._cut()
        self._tally.rounds += 1

    def end(self) -> None:
        """Start once more, check everything, stop."""
        self._forget_journal()
        with self._start() as node:
            self._check(node)
            assert node.stop() == 0, node.log_tail()
        self._tally.acked += self._ledger.acked_records
        self._tally.topics += len(self._topics.promised) + len(self._topics.deleted)

    def close(self) -> None:
        """Let go of the disk."""
        if self._shim is not None:
            self._shim.close()

    # --- one round ------------------------------------------------------------

    def _start(self) -> Node:
        started_s = time.monotonic()
        variables = self._shim.environment() if self._shim is not None else {}
        node = start_node(self._data, self._log, properties=PROPERTIES, variables=variables)
        took_s = time.monotonic() - started_s
        self._tally.start_s_max = max(self._tally.start_s_max, took_s)
        if took_s > SLOW_START_S:
            self._tally.slow_starts.append(f"{took_s:.1f} s, {node.ready['seconds']} s by itself")
        return node

    def _start_and_kill(self) -> None:
        self._tally.early += 1
        variables = self._shim.environment() if self._shim is not None else {}
        with Node(self._data, self._log, properties=PROPERTIES, variables=variables) as node:
            if self._shim is not None:
                self._shim.set("kill_at_change", self._rng.randint(1, 60))
                node.wait(WRITE_S_MAX * 3)
            else:
                node.wait(self._rng.uniform(0.2, 0.8))

    def _check(self, node: Node) -> None:
        try:
            self._tally.checked += self._ledger.check(node.port)
            self._topics.check(node.port)
        except ClosedError as error:
            ended = node.wait(1.0)  # None: it lives, and has closed a connection that it should not
            raise WrongLogError(f"{error} (exit code {ended}): {node.log_tail()}") from error

    def _write_and_kill(self, node: Node) -> None:
        rng, shim = self._rng, self._shim
        write_s = rng.uniform(0.0, WRITE_S_MAX)
        if shim is not None:
            shim.set("sync_delay_us", rng.choice((0, 0, 300, 3000)))
            if rng.random() < 0.5:
                changes = shim.get("changes") + rng.randint(1, CHANGES_MAX)
                shim.set("kill_at_change", changes)
        self._load.start(node.port)
        maker = threading.Thread(target=self._topics.run, args=(node.port, rng.randint(0, 4)))
        maker.start()
        exit_code = node.wait(write_s)
        if exit_code is not None:
            if exit_code != -signal.SIGKILL:
                raise WrongLogError(f"ended by itself with {exit_code}: {node.log_tail()}")
            self._tally.mid_change += 1
        elif rng.random() < STOPPED:
            exit_code = node.stop()
            assert exit_code in {0, -signal.SIGKILL}, node.log_tail()
        node.kill()
        self._load.join()
        maker.join()

    def _prepare_cut(self) -> None:
        if self._shim is not None:
            self._forget_journal()
            copy_tree(self._data, self._safe)

    def _cut(self) -> None:
        if self._shim is not None and self._shim.journal_path.exists():
            lost = cut_power(self._data, self._safe, self._shim.journal_path, self._rng)
            self._tally.cuts_that_lost += lost > 0

    def _forget_journal(self) -> None:
        if self._shim is not None:
            self._shim.set("kill_at_change", 0)
            self._shim.set("changes", 0)
            self._shim.set("sync_delay_us", 0)
            self._shim.journal_path.unlink(missing_ok=True)


def run(plan: Plan, folder: Path, *, progress: bool) -> Tally:
    """Do it below a folder; return what happened.  Directories of failures are kept."""
    tally = Tally()
    number = 0
    while tally.rounds < plan.rounds:
        seed = plan.seed * 1000 + number
        number += 1
        work = Path(tempfile.mkdtemp(prefix=f"quorate-kill-{seed}-", dir=folder))
        try:
            live(plan, work, seed, tally)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
            tally.failures.append(f"seed {seed}, kept in {work}: {error!r}")
            break
        shutil.rmtree(work)
        if progress:
            print(tally.line(), flush=True)  # noqa: T201
    return tally


def live(plan: Plan, work: Path, seed: int, tally: Tally) -> None:
    """Lead one data directory through many kills."""
    life = Life(work, plan, Random(seed), tally)
    try:
        life.begin()
        for _ in range(min(ROUNDS_PER_DIRECTORY, plan.rounds - tally.rounds)):
            life.round()
        life.end()
    finally:
        life.close()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.kill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--mode", choices=("kill", "power"), default="kill")
    parser.add_argument("--flush", choices=("each", "default"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    power = arguments.mode == "power"
    synced = power if arguments.flush is None else arguments.flush == "each"
    plan = Plan(arguments.rounds, power, synced, arguments.seed)
    tally = run(plan, Path(tempfile.gettempdir()), progress=True)
    for slow in tally.slow_starts:
        print("slow start:", slow)  # noqa: T201
    for failure in tally.failures:
        print(failure)  # noqa: T201
    print(tally.line())  # noqa: T201
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
