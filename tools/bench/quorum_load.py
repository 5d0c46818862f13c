"""Load on the controller's listener out of prepared frames, so that the client costs little.

A slot is one request in flight: it sends one of its two frames, waits for the answer, and sends the
other one.
"""

import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import cbor2

from quorate.control import messages as m
from quorate.control.frames import LENGTH_BYTES, Frame, decode_frame, encode_frame
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode
from quorate.tools.bench.figures import Sample
from quorate.tools.bench.measuring import MeasurementFailedError
from tests.compat.peers.nodes import HOST

ANSWER_S_MAX = 10.0
RECEIVE_BYTES = 1 << 18
CORRELATION_ID = 2  # in the envelope of a frame
PROPERTY = "log.retention.ms"

MakeRequest = Callable[[int, int], m.Request[Any]]
"""Takes a slot and which of its two requests."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is in flight: so many connections, so many requests on each."""

    connections: int
    depth: int

    @property
    def in_flight(self) -> int:
        """Requests at a time."""
        return self.connections * self.depth


def set_one(slot: int, which: int) -> m.AlterConfigs:
    """Return a request that changes one record: never to what it already is."""
    return set_some(slot, which, records=1)


def set_some(slot: int, which: int, *, records: int) -> m.AlterConfigs:
    """Return a request that changes so many records."""
    value = str(1000 + which)
    return m.AlterConfigs(
        tuple(
            m.ResourceChanges(
                "broker",
                str(1 + slot * records + number),
                (m.ConfigChange(PROPERTY, m.ConfigOperation.SET, value),),
            )
            for number in range(records)
        )
    )


def read(_slot: int, _which: int) -> m.DescribeQuorum:
    """Return a request that the leader answers once a majority has confirmed it."""
    return m.DescribeQuorum()


class _Line:
    """One connection and the slots on it."""

    def __init__(self, port: int, first_slot: int, frames: Sequence[Sequence[bytes]]) -> None:
        self.sock = socket.create_connection((HOST, port), ANSWER_S_MAX)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self._first_slot = first_slot
        self._frames = frames
        self._which = [0] * len(frames)
        self._sent_s = [0.0] * len(frames)
        self._known: dict[bytes, int] = {}
        self.sock.sendall(encode_frame(Frame(0, m.Hello("", m.NO_NODE))))
        while not self._whole_frames():
            self._receive()

    def begin(self) -> None:
        """Send the first request of every slot."""
        now_s = time.perf_counter()
        self._sent_s = [now_s] * len(self._frames)
        self.sock.sendall(b"".join(frames[0] for frames in self._frames))

    def turn(self, latencies_s: list[float]) -> None:
        """Take what came, note how long it took, send as many requests again."""
        self._receive()
        answers = self._whole_frames()
        now_s = time.perf_counter()
        out: list[bytes] = []
        for answer in answers:
            slot = self._known.get(answer)
            if slot is None:
                slot = self._slot_of(answer)
            latencies_s.append(now_s - self._sent_s[slot])
            self._sent_s[slot] = now_s
            self._which[slot] ^= 1
            out.append(self._frames[slot][self._which[slot]])
        if out:
            self.sock.sendall(b"".join(out))

    def _slot_of(self, answer: bytes) -> int:
        """Read an answer that was not seen before; those of writes come again and again."""
        message = decode_frame(answer).message
        slot = int(cbor2.loads(answer)[CORRELATION_ID]) - self._first_slot
        match message:
            case m.AlterConfigsAnswer(resources):
                wrong = [r.failure for r in resources if r.failure.code != ErrorCode.NONE]
                if wrong:
                    raise MeasurementFailedError(str(wrong[0]))
                self._known[answer] = slot
            case m.ErrorAnswer():
                raise MeasurementFailedError(str(message))
            case _:
                pass
        return slot

    def _receive(self) -> None:
        data = self.sock.recv(RECEIVE_BYTES)
        if not data:
            raise MeasurementFailedError("the controller hung up")
        self.received += data

    def _whole_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        at = 0
        while len(self.received) >= at + LENGTH_BYTES:
            end = at + LENGTH_BYTES + int.from_bytes(self.received[at : at + LENGTH_BYTES], "big")
            if len(self.received) < end:
                break
            frames.append(bytes(self.received[at + LENGTH_BYTES : end]))
            at = end
        del self.received[:at]
        return frames


def measure(
    port: int, shape: Shape, make_request: MakeRequest, *, warmup_s: float, seconds: float
) -> Sample:
    """Load a controller; return requests per second and quantiles of their latency.

    Raises:
        MeasurementFailedError: a request failed.
    """
    lines: list[_Line] = []
    selector = selectors.DefaultSelector()
    try:
        for connection in range(shape.connections):
            first = connection * shape.depth
            slots = range(first, first + shape.depth)
            frames = [
                [encode_frame(Frame(slot, make_request(slot, which))) for which in (0, 1)]
                for slot in slots
            ]
            line = _Line(port, first, frames)
            lines.append(line)
            selector.register(line.sock, selectors.EVENT_READ, line)
        for line in lines:
            line.begin()
        _turn_until(selector, time.perf_counter() + warmup_s)
        begun_s, cpu_s = time.perf_counter(), time.process_time()
        latencies_s = _turn_until(selector, begun_s + seconds)
        took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    finally:
        selector.close()
        for line in lines:
            line.sock.close()
    if not latencies_s:
        raise MeasurementFailedError("nothing was answered")
    return Sample(
        {
            "seconds": took_s,
            "requests": len(latencies_s),
            "requests_per_s": len(latencies_s) / took_s,
            "client_cpu_s": cpu_s,
            **quantiles_ms(latencies_s),
        },
        failure="",
    )


def _turn_until(selector: selectors.BaseSelector, end_s: float) -> list[float]:
    latencies_s: list[float] = []
    answered_s = time.perf_counter()
    while (now_s := time.perf_counter()) < end_s:
        ready = selector.select(0.1)
        for key, _ in ready:
            key.data.turn(latencies_s)
        if ready:
            answered_s = now_s
        elif now_s - answered_s > ANSWER_S_MAX:
            raise MeasurementFailedError("no answer")
    return latencies_s


def quantiles_ms(values_s: Sequence[float]) -> dict[str, float]:
    """Return some quantiles of times."""
    ordered = sorted(values_s)

    def at(share: float) -> float:
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": 1000 * ordered[-1]}
