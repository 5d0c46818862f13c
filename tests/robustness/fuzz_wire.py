"""Random, truncated and mutated frames through the real socket server of a real node.

``python -m tests.robustness.fuzz_wire --frames 1000000 --seed N``

While frames come in, a healthy client beside them produces and reads back, connections drip or just
stay open, and the node's memory is measured.  Afterwards valid requests come that are as large as
may be, each over several connections at once.  Now and then, and in the end, every partition is
read, and every batch in it must be one that was sent validly.
"""

import contextlib
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from quorate.broker.handlers.table import HANDLERS
from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.jepsen.clients.wire import (
    PRODUCE_VERSION,
    Client,
    ClosedError,
    NotReadError,
    WrongLogError,
    create_topic,
    plain_batch,
    produce_request,
    read_partition,
)
from quorate.model import TopicPartition
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.messages.metadata import MetadataRequest
from quorate.protocol.messages.topics import DeleteTopicsRequest
from tests.robustness.fuzz_command import fuzz_command
from tests.robustness.mutations import MUTATIONS, random_bytes, truncate
from tests.robustness.node import Node, start_node
from tests.robustness.seeds import PARTITIONS, SERVED, Seeds
from tests.robustness.wide import ask_wide, wide_requests

HEALTHY: Final = TopicPartition("healthy", 0)
TARGET: Final = "fuzz"
VALID_BEFORE_MAX: Final = 3
BURSTS_PER_ROUND: Final = 150
ANSWER_S_MAX: Final = 10.0
HEALTHY_S_MAX: Final = 5.0
IDLE_CONNECTIONS: Final = 300
DRIPPING: Final = 8
UNREAD_ANSWERS: Final = 20
RSS_BYTES_MAX: Final = 150_000_000
"""What a node has whatever small requests come, from however many connections."""

FRAMES_PER_LOOK: Final = 10_000
"""At the logs: frames delete topics and records, so the last look may find none."""

FRAMES_PER_WIDE: Final = 4000
WIDE_BYTES: Final = 1 << 20
"""``quorate.small.request.max.bytes``"""

WIDE_CONNECTIONS: Final = 4
WIDE_ANSWER_S_MAX: Final = 120.0
"""Some take seconds, each, of a machine that has nothing else to do."""

MOST_MEMORY: Final = (APIS[ApiKey.CREATE_PARTITIONS], 3)
"""Takes more than others, and on its way to the controller once more."""

WIDE: Final = tuple(
    (api, version) for api, version in SERVED if api.key != ApiKey.METADATA or version >= 4
)
"""What to send large: before its version 4, Metadata makes the topics asked for, and they stay."""

NEWEST: Final = tuple((APIS[key], APIS[key].max_version) for key in sorted(HANDLERS))

WIDE_RSS_BYTES_MAX: Final = RSS_BYTES_MAX + 100 * WIDE_BYTES
"""A hundred bytes for each of a request in work, as the others wait; and the answers come on top.

A node may have made all of those before the first has left.
"""

ANSWER_BYTES_MAX: Final = 16 * WIDE_BYTES
"""Of one wide request: to each number of four bytes, some errors have a sentence."""

STRAYS_KEPT: Final = 50
TARGET_CONFIGS: Final = {"retention.ms": "-1", "retention.bytes": "8388608"}
PROPERTIES: Final = {
    "log.segment.bytes": "1048576",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "auto.create.topics.enable": "true",
}


@dataclass(slots=True)
class Report:
    """What was sent and what came of it."""

    frames: int = 0
    connections: int = 0
    refused: int = 0
    """Connections that the node closed before we did."""
    damaged: int = 0
    answer_bytes: int = 0
    healthy_requests: int = 0
    healthy_s_max: float = 0.0
    rss_bytes_max: int = 0
    wide: int = 0
    """Requests as large as may be, each sent over several connections."""
    wide_rss_bytes_max: int = 0
    batches_read: int = 0
    """Each time that the logs were looked at."""
    strays: int = 0
    """Topics that fuzzed requests made."""
    deleted: int = 0
    """How often they deleted ours."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """Return it for a person."""
        return (
            f"{self.frames} frames ({self.damaged} damaged) on {self.connections} connections in"
            f" {self.seconds:.1f} s;"
            f" {self.refused} connections refused, {self.answer_bytes >> 10} KiB of answers;"
            f" healthy client: {self.healthy_requests} requests, slowest"
            f" {self.healthy_s_max * 1000:.0f} ms; RSS at most {self.rss_bytes_max >> 20} MiB,"
            f" with {self.wide} large requests {self.wide_rss_bytes_max >> 20} MiB;"
            f" {self.batches_read} batches read as sent, {self.strays} stray topics removed,"
            f" {TARGET} deleted {self.deleted} times;"
            f" {len(self.problems)} problems"
        )


class HealthyClient:
    """Produces and reads back while others misbehave, and removes the topics that they make."""

    def __init__(self, port: int, report: Report, seeds: Seeds) -> None:
        self._port = port
        self._report = report
        self._seeds = seeds
        self._stop = threading.Event()
        self._sent = 0
        self.thread = threading.Thread(target=self._run, name="healthy")

    def stop(self) -> None:
        """End, and wait for the end."""
        self._stop.set()
        self.thread.join()

    def _run(self) -> None:
        try:
            with Client(self._port) as client:
                while not self._stop.wait(0.02):
                    self._produce(client)
                    if self._report.healthy_requests % 50 == 0:
                        self._tidy(client)
                content = read_partition(client, HEALTHY)
            values = [value for _, value in content.records(HEALTHY)]
            if values != [b"%d" % number for number in range(self._sent)]:
                self._complain("did not read what it wrote")
        except (ClosedError, WrongLogError, AssertionError) as error:
            self._complain(repr(error))

    def _produce(self, client: Client) -> None:
        begun_s = time.monotonic()
        request = produce_request(HEALTHY, plain_batch(b"%d" % self._sent), acks=-1)
        answer = client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        took_s = time.monotonic() - begun_s
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code or partition.base_offset != self._sent:
            self._complain(f"got {partition}")
        self._sent += 1
        self._report.healthy_requests += 1
        self._report.healthy_s_max = max(self._report.healthy_s_max, took_s)
        if took_s > HEALTHY_S_MAX:
            self._complain(f"waited {took_s:.1f} s")

    def _tidy(self, client: Client) -> None:
        """Remove topics that fuzzed requests made, and make ours again if one deleted it."""
        answer = client.ask(ApiKey.METADATA, 10, MetadataRequest(topics=None))
        ids = {topic.name: topic.topic_id for topic in answer.topics}
        strays = [name for name in ids if name not in {HEALTHY.topic, TARGET}]
        if len(strays) > STRAYS_KEPT:
            self._report.strays += len(strays)
            request = DeleteTopicsRequest(topic_names=strays, timeout_ms=10_000)
            client.ask(ApiKey.DELETE_TOPICS, 5, request)
        if TARGET in ids:
            self._seeds.topic_ids = [bytes(16), *[ids[TARGET]] * 8]
        else:
            self._report.deleted += 1
            create_topic(client, TARGET, PARTITIONS, TARGET_CONFIGS)

    def _complain(self, problem: str) -> None:
        self._report.problems.append(f"healthy client: {problem}")


class Burst:
    """One connection: a few frames, then our side is closed, then all answers are read."""

    def __init__(self, port: int, frames: list[bytes]) -> None:
        self._port = port
        self._frames = frames
        self.answer_bytes = 0
        self.refused = False

    def run(self) -> None:
        """Do all that.

        Raises:
            TimeoutError: the node neither answers nor closes the connection.
        """
        with socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_S_MAX) as sock:
            try:
                sock.sendall(b"".join(self._frames))
                sock.shutdown(socket.SHUT_WR)
                while chunk := sock.recv(1 << 16):
                    self.answer_bytes += len(chunk)
            except TimeoutError:
                raise
            except OSError:
                self.refused = True


class Loiterers:
    """Connections that stay: silent, with half a frame, dripping, or deaf to their answers."""

    def __init__(self, port: int, seeds: Seeds, rng: Random) -> None:
        self._port = port
        self._seeds = seeds
        self._rng = rng
        self._socks: list[socket.socket] = []
        self._dripping: list[tuple[socket.socket, bytes]] = []

    def grow(self) -> None:
        """Open some more, close some of the old ones."""
        for _ in range(IDLE_CONNECTIONS // 20):
            sock = socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_S_MAX)
            with contextlib.suppress(OSError):
                sock.sendall(self._beginning())
            self._socks.append(sock)
        for sock in self._socks[:-IDLE_CONNECTIONS]:
            sock.close()
        del self._socks[:-IDLE_CONNECTIONS]

    def drip(self) -> None:
        """Send one more byte of each frame that is on its way."""
        while len(self._dripping) < DRIPPING:
            sock = socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_S_MAX)
            self._dripping.append((sock, self._seeds.request()[1]))
        going: list[tuple[socket.socket, bytes]] = []
        for sock, frame in self._dripping:
            try:
                sock.sendall(frame[:1])
            except OSError:
                frame = b""  # noqa: PLW2901 - refused: done
            if frame[1:]:
                going.append((sock, frame[1:]))
            else:
                sock.close()
        self._dripping = going

    def close(self) -> None:
        """Leave."""
        for sock in [*self._socks, *(sock for sock, _ in self._dripping)]:
            sock.close()

    def _beginning(self) -> bytes:
        _, frame = self._seeds.request()
        huge = (99 << 20).to_bytes(4, "big") + b"\0\0" + self._rng.randbytes(5000)
        unread = b"".join(self._seeds.request()[1] for _ in range(UNREAD_ANSWERS))
        return self._rng.choice((b"", frame[:3], frame[: len(frame) // 2], huge, unread))


class Fuzzer:
    """Sends frames to one node."""

    def __init__(self, node: Node, seed: int) -> None:
        self._node = node
        self._rng = Random(seed)
        self.seeds = Seeds(self._rng)
        self.report = Report()
        self._last: tuple[int, bytes] = self.seeds.request()
        self._loiterers = Loiterers(node.port, self.seeds, self._rng)
        self._healthy = HealthyClient(node.port, self.report, self.seeds)

    def run(self, frames: int, *, progress: bool) -> None:
        """Send so many frames, then look at what the node made of them."""
        begun_s = time.monotonic()
        self._prepare()
        self._healthy.thread.start()
        next_line = 100_000
        next_look = FRAMES_PER_LOOK
        try:
            while self.report.frames < frames and not self.report.problems:
                self._round()
                if self.report.frames >= next_look:
                    next_look += FRAMES_PER_LOOK
                    self._check_logs()
                if progress and self.report.frames >= next_line:
                    next_line += 100_000
                    self.report.seconds = time.monotonic() - begun_s
                    print(self.report.line(), flush=True)  # noqa: T201
        finally:
            self._loiterers.close()
            self._healthy.stop()
        if not self.report.problems:
            self._send_wide(max(1, frames // FRAMES_PER_WIDE))
        self.report.seconds = time.monotonic() - begun_s
        self._check_node()
        self._check_logs()
        if not self.report.batches_read:
            self.report.problems.append("no batch was ever there to be looked at")

    def _prepare(self) -> None:
        with Client(self._node.port) as client:
            assert create_topic(client, HEALTHY.topic, 1, {"retention.ms": "-1"}) == 0
            assert create_topic(client, TARGET, PARTITIONS, TARGET_CONFIGS) == 0

    def _round(self) -> None:
        """Send a few hundred frames, and look after everything else once."""
        for _ in range(BURSTS_PER_ROUND):
            # The node hangs up at a frame that it cannot read, so the damaged one comes last.
            valid = [self.seeds.request()[1] for _ in range(self._rng.randint(0, VALID_BEFORE_MAX))]
            self._burst([*valid, self._damaged()])
        self._loiterers.grow()
        self._loiterers.drip()
        self.report.rss_bytes_max = self._rss_peak_bytes(RSS_BYTES_MAX, "small requests")

    def _rss_peak_bytes(self, limit: int, after: str) -> int:
        """Return it, and complain if it is too much."""
        rss_bytes = self._node.rss_peak_bytes() if self._node.is_alive else 0
        if rss_bytes > limit:
            self.report.problems.append(
                f"RSS was {rss_bytes} bytes after {after}, not {limit} at most"
            )
        return rss_bytes

    def _send_wide(self, count: int) -> None:
        """Send requests that are all one array: of every API, then of any in any version."""
        kinds = [*self._rng.sample(NEWEST, len(NEWEST)), MOST_MEMORY]
        while self.report.wide < count and self._node.is_alive and not self.report.problems:
            api, version = kinds.pop() if kinds else self._rng.choice(WIDE)
            for name, frame in wide_requests(api, version, WIDE_BYTES):
                self._send_one_wide(f"{name} of {api.name} v{version}", frame)

    def _send_one_wide(self, what: str, frame: bytes) -> None:
        """Send a request over several connections at once, and look at what it took."""
        report = self.report
        report.wide += 1
        self._node.forget_rss_peak()
        port = self._node.port
        try:
            with ThreadPoolExecutor(WIDE_CONNECTIONS) as pool:
                asked = [
                    pool.submit(ask_wide, port, frame, WIDE_ANSWER_S_MAX)
                    for _ in range(WIDE_CONNECTIONS)
                ]
                answer_bytes = [each.result() for each in asked]
        except TimeoutError as error:
            report.problems.append(f"{error!r} after {what}")
            return
        if max(answer_bytes) > ANSWER_BYTES_MAX:
            report.problems.append(f"an answer of {max(answer_bytes)} bytes after {what}")
        peak_bytes = self._rss_peak_bytes(WIDE_RSS_BYTES_MAX + sum(answer_bytes), what)
        report.wide_rss_bytes_max = max(report.wide_rss_bytes_max, peak_bytes)

    def _damaged(self) -> bytes:
        seed, self._last = self._last, self.seeds.request()
        # A damaged number may ask for 20,000 partitions: legal, and not what this is about.
        mutation = self._rng.choice(HARMLESS if seed[0] in CHANGING else MUTATIONS)
        return mutation(self._rng, seed[1], self._last[1])

    def _burst(self, frames: list[bytes]) -> None:
        burst = Burst(self._node.port, frames)
        self.report.frames += len(frames)
        self.report.damaged += 1
        self.report.connections += 1
        try:
            burst.run()
        except OSError as error:
            self.report.problems.append(f"{error!r} on a connection with {frames!r:.2000}")
        self.report.answer_bytes += burst.answer_bytes
        self.report.refused += burst.refused

    def _check_node(self) -> None:
        if not self._node.is_alive:
            code = self._node.process.returncode
            self.report.problems.append(f"the node ended with {code}: {self._node.log_tail()}")
        log = self._node.log()
        if "Traceback" in log:
            at = log.index("Traceback")
            self.report.problems.append(f"a traceback in the log: {log[at - 300 : at + 3000]}")

    def _check_logs(self) -> None:
        """See that every batch was sent as it is, unless the node writes such ones itself."""
        if not self._node.is_alive:
            return
        with Client(self._node.port) as client:
            answer = client.ask(ApiKey.METADATA, 10, MetadataRequest(topics=None))
            for topic in answer.topics:
                for partition in topic.partitions:
                    where = TopicPartition(topic.name, partition.partition_index)
                    if where != HEALTHY:
                        self._check_log(client, where)

    def _check_log(self, client: Client, where: TopicPartition) -> None:
        try:
            content = read_partition(client, where)
        except WrongLogError as error:
            deleted = isinstance(error, NotReadError) and self._healthy.thread.is_alive()
            if not deleted:
                self.report.problems.append(str(error))
            return
        self.report.batches_read += len(content.batches)
        for batch in content.batches:
            of_the_node = batch.header.is_control or where.topic in INTERNAL_TOPICS
            if batch.header.crc not in self.seeds.batch_sums and not of_the_node:
                self.report.problems.append(f"{where}: never sent: {batch.header}")


CHANGING: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS})
HARMLESS: Final = (truncate, random_bytes)


def run(frames: int, seed: int, work: Path, *, progress: bool) -> Report:
    """Fuzz a fresh node; return what happened."""
    variables: dict[str, str] = {}
    with start_node(
        work / "data", work / "node.log", properties=PROPERTIES, variables=variables
    ) as node:
        fuzzer = Fuzzer(node, seed)
        fuzzer.run(frames, progress=progress)
        if node.is_alive:
            code = node.stop()
            if code != 0:
                fuzzer.report.problems.append(f"stopped with {code}: {node.log_tail()}")
    return fuzzer.report


def main() -> int:
    """Run from the command line."""
    return fuzz_command("fuzz_wire", __doc__, 1_000_000, partial(run, progress=True))


if __name__ == "__main__":
    sys.exit(main())
