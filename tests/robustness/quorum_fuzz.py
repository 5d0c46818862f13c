"""Random, truncated, mutated and hostile frames to the listeners of three real controllers.

``python -m tests.robustness.quorum_fuzz --frames 200000 --seed N``

While they come in, a healthy client beside them writes a register and reads it back, connections
flood in, drip, stay silent or deaf, strangers say that they are controllers, and the memory of all
three is measured.
"""

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from quorate.control import messages as m
from quorate.control.codec import dump_cbor
from quorate.control.frames import LENGTH_BYTES, Frame, encode_frame
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import (
    ControlSocket,
    MaybeDoneError,
    NotDoneError,
    QuorumClient,
    new_request_id,
)
from quorate.net.ports import LOOPBACK
from quorate.quorum.metadata.image import BROKER
from tests.robustness.fuzz_command import fuzz_command
from tests.robustness.mutations import MUTATIONS
from tests.robustness.quorum_cluster import Cluster
from tests.robustness.quorum_registers import PROPERTY, Reader
from tests.robustness.quorum_seeds import ControlSeeds

REGISTER: Final = "4711"
"""Which no other frame is about."""
VALID_BEFORE_MAX: Final = 3
BURSTS_PER_ROUND: Final = 150
ANSWER_S_MAX: Final = 15.0
HEALTHY_S_MAX: Final = 5.0
FORMING_S_MAX: Final = 30.0
LOITERERS: Final = 300
FLOOD: Final = 400
"""Connections at once that are closed again at once."""
RSS_BYTES_MAX: Final = 300 << 20
BOMB_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Report:
    """What was sent and what came of it."""

    frames: int = 0
    connections: int = 0
    refused: int = 0
    answer_bytes: int = 0
    healthy_requests: int = 0
    healthy_s_max: float = 0.0
    rss_bytes_max: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """Return it for a person."""
        return (
            f"{self.frames} frames on {self.connections} connections in {self.seconds:.1f} s,"
            f" {self.refused} of them refused, {self.answer_bytes >> 10} KiB of answers;"
            f" healthy client: {self.healthy_requests} writes, slowest"
            f" {self.healthy_s_max * 1000:.0f} ms; RSS at most {self.rss_bytes_max >> 20} MiB;"
            f" {len(self.problems)} problems"
        )


class HealthyClient:
    """Writes a register again and again, each time from the value that it wrote before."""

    def __init__(self, cluster: Cluster, report: Report) -> None:
        self._ports = cluster.ports
        self._report = report
        self._stop = threading.Event()
        self._value: str | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin, once there is a leader.

        Raises:
            NotDoneError: there is none.
        """
        with QuorumClient(self._ports, 0) as client:
            self._write(client, "1", FORMING_S_MAX)
        self._thread.start()

    def stop(self) -> None:
        """End, and read the register from every controller."""
        self._stop.set()
        self._thread.join()
        for place, port in enumerate(self._ports):
            reader = Reader(port, place + 1)
            deadline_s = time.monotonic() + HEALTHY_S_MAX
            with contextlib.suppress(NotDoneError, MaybeDoneError):
                while reader.value(REGISTER) != self._value and time.monotonic() < deadline_s:
                    reader.poll(100, HEALTHY_S_MAX)
            if reader.value(REGISTER) != self._value:
                self._report.problems.append(f"controller {place + 1} lost the register's value")
            reader.close()

    def _run(self) -> None:
        try:
            with QuorumClient(self._ports, 0) as client:
                while not self._stop.wait(0.02):
                    begun_s = time.monotonic()
                    self._write(client, str(2 + self._report.healthy_requests), HEALTHY_S_MAX)
                    took_s = time.monotonic() - begun_s
                    self._report.healthy_requests += 1
                    self._report.healthy_s_max = max(self._report.healthy_s_max, took_s)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._report.problems.append(f"healthy client: {error!r}")

    def _write(self, client: QuorumClient, value: str, timeout_s: float) -> None:
        expected = m.Expected(self._value)
        change = m.ConfigChange(PROPERTY, m.ConfigOperation.SET, value, expected)
        request = m.AlterConfigs((m.ResourceChanges(BROKER, REGISTER, (change,)),))
        answer = client.ask(
            request, m.AlterConfigsAnswer, request_id=new_request_id(), timeout_s=timeout_s
        )
        failure = answer.resources[0].failure
        assert failure.code == ErrorCode.NONE, failure
        self._value = value


class Fuzzer:
    """Sends frames to all controllers of a cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = Random(seed)
        self.report = Report()
        self._healthy = HealthyClient(cluster, self.report)
        self._loiterers: list[socket.socket] = []
        self._seeds = ControlSeeds(self._rng, "")
        self._last = self._seeds.request()

    def run(self, frames: int, *, progress: bool) -> None:
        """Send so many frames, then look at the controllers."""
        begun_s = time.monotonic()
        self._healthy.start()
        deadline_s = time.monotonic() + ANSWER_S_MAX
        first = ControlSocket(self._cluster.ports[0], cluster_id="", deadline_s=deadline_s)
        first.close()
        self._seeds = ControlSeeds(self._rng, first.controller.cluster_id)
        next_line = 20_000
        try:
            while self.report.frames < frames and not self.report.problems:
                self._round()
                self.report.seconds = time.monotonic() - begun_s
                if progress and self.report.frames >= next_line:
                    next_line += 20_000
                    print(self.report.line(), flush=True)  # noqa: T201
        finally:
            for sock in self._loiterers:
                sock.close()
            self._healthy.stop()

    def _round(self) -> None:
        for _ in range(BURSTS_PER_ROUND):
            self._burst(self._frames())
        self._burst([self._seeds.hello(), self._rng.choice(HOSTILE)(self._rng)])
        self._flood()
        self._loiter()
        for machine in self._cluster.machines:
            machine.check_alive()
            assert machine.process is not None
            rss_bytes = machine.process.rss_bytes()
            self.report.rss_bytes_max = max(self.report.rss_bytes_max, rss_bytes)
            if rss_bytes > RSS_BYTES_MAX:
                self.report.problems.append(f"RSS is {rss_bytes >> 20} MiB")

    def _frames(self) -> list[bytes]:
        """Return what one connection sends: mostly a hello, some requests, a damaged one."""
        rng, seeds = self._rng, self._seeds
        hello = seeds.hello()
        other, self._last = self._last, seeds.request()
        damaged = rng.choice(MUTATIONS)(rng, self._last, other)
        if rng.random() < 0.1:
            return [rng.choice(MUTATIONS)(rng, hello, other)]
        if rng.random() < 0.1:
            return [seeds.odd_hello(), damaged]
        valid = [seeds.request() for _ in range(rng.randint(0, VALID_BEFORE_MAX))]
        return [hello, *valid, damaged]

    def _burst(self, frames: list[bytes]) -> None:
        """Send frames and hang up half; then the controller hangs up too, soon."""
        self.report.frames += len(frames)
        self.report.connections += 1
        port = self._rng.choice(self._cluster.ports)
        try:
            with socket.create_connection((LOOPBACK, port), ANSWER_S_MAX) as sock:
                try:
                    sock.sendall(b"".join(frames))
                    sock.shutdown(socket.SHUT_WR)
                    while chunk := sock.recv(1 << 16):
                        self.report.answer_bytes += len(chunk)
                except TimeoutError:
                    raise
                except OSError:
                    self.report.refused += 1
        except OSError as error:
            self.report.problems.append(f"{error!r} on a connection with {frames!r:.2000}")

    def _flood(self) -> None:
        """Open very many connections at once and close them without a word."""
        port = self._rng.choice(self._cluster.ports)
        with contextlib.ExitStack() as stack:
            for _ in range(FLOOD):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex((LOOPBACK, port))

    def _loiter(self) -> None:
        """Keep connections open that are silent, in the middle of a frame, or deaf."""
        rng = self._rng
        for _ in range(LOITERERS // 10):
            port = rng.choice(self._cluster.ports)
            sock = socket.create_connection((LOOPBACK, port), ANSWER_S_MAX)
            sock.settimeout(1.0)
            with contextlib.suppress(OSError):
                sock.sendall(self._beginning())
            self._loiterers.append(sock)
        for sock in self._loiterers[:-LOITERERS]:
            sock.close()
        del self._loiterers[:-LOITERERS]

    def _beginning(self) -> bytes:
        rng, seeds = self._rng, self._seeds
        hello, request = seeds.hello(), seeds.request()
        huge = (1 << 20).to_bytes(LENGTH_BYTES, "big") + rng.randbytes(1 << 17)
        all_metadata = encode_frame(Frame(1, m.FetchMetadata(0, 0)))
        return rng.choice(
            (b"", hello[:3], hello[:-1], hello, hello + request[: len(request) // 2],
             hello + huge, hello + 60 * all_metadata)
        )  # fmt: skip


def framed(body: bytes) -> bytes:
    """Return a frame around anything."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _mesh_frames(rng: Random) -> bytes:
    """Say to be a controller, with Raft frames that are none."""
    hello = m.Hello("", rng.choice((1, 2, 3, 99)), directory_id=rng.randbytes(16),
                    purpose=m.Purpose.MESH)  # fmt: skip
    frames = [
        dump_cbor([rng.randrange(20), rng.choice((0, 1, 2**63 - 1)), rng.randbytes(8), b"", None])
        for _ in range(20)
    ]
    return encode_frame(Frame(0, hello)) + b"".join(map(framed, frames))


def _bomb(item: bytes) -> Callable[[Random], bytes]:
    """Return a maker of a frame with as many of these as fit: small here, large when decoded."""
    count = BOMB_BYTES // len(item)
    return lambda _: framed(b"\x9a" + count.to_bytes(4, "big") + count * item)


HOSTILE: Final[tuple[Callable[[Random], bytes], ...]] = (
    _mesh_frames,
    _bomb(b"\x80"),
    _bomb(b"\xa0"),
    _bomb(b"\x81\x80"),
    _bomb(b"\xa1\x00\x00"),
    lambda _: framed(b"\x81" * 100_000),  # deep
    lambda _: framed(b"\xa1\x00" * 100_000),
    lambda _: framed(b"\x9b" + b"\xff" * 8),  # an array of very many
    lambda _: framed(b"\x7b" + b"\x7f" * 8),  # a text of very many
    lambda _: framed(b"\xc2\x5a\x00\x01\x00\x00" + b"\xff" * (1 << 16)),  # a bignum
    lambda _: framed(b"\xd8\x1c\x81\xd8\x1d\x00"),  # a list that contains itself
    lambda _: framed(b"\x9f" + b"\x00" * 1000),  # without an end
    lambda _: b"\xff\xff\xff\xff" + b"\x00" * 1000,
    lambda _: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    lambda _: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,  # TLS
)


def run(frames: int, seed: int, work: Path, *, progress: bool) -> Report:
    """Fuzz fresh controllers; return what happened."""
    with Cluster(work, {}) as cluster:
        cluster.start()
        fuzzer = Fuzzer(cluster, seed)
        try:
            fuzzer.run(frames, progress=progress)
            cluster.stop()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the rest
            fuzzer.report.problems.append(f"{type(error).__name__}: {error}")
    return fuzzer.report


def main() -> int:
    """Run from the command line."""
    return fuzz_command("quorum_fuzz", __doc__, 200_000, partial(run, progress=True))


if __name__ == "__main__":
    sys.exit(main())
