"""Producers that never rest: pipelined, idempotent or not, until the broker goes away."""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Final

from quorate.errors import ErrorCode
from quorate.jepsen.clients.wire import (
    PRODUCE_VERSION,
    Client,
    ClosedError,
    make_batch,
    new_producer,
    produce_request,
)
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.robustness.ledger import Digest, Ledger, digest

IN_FLIGHT_MAX: Final = 5
RECORDS_MAX: Final = 12
VALUE_BYTES_MAX: Final = 900


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch on its way."""

    where: TopicPartition
    data: bytes
    base_sequence: int
    records: int
    digests: tuple[Digest, ...]


class Producer:
    """One producer.  An idempotent one sends what got no answer again to the next process.

    State: who it is, the next sequence of each partition, batches without an answer in order.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        partitions: Sequence[TopicPartition],
        *,
        acks: int,
        idempotent: bool,
        expected: AbstractSet[str],
        rng: Random,
    ) -> None:
        """Begin; ``expected`` errors are no reason to complain."""
        self.name = name
        self.acknowledged = 0
        self.refusals: Counter[str] = Counter()
        """Errors that the broker answered with."""
        self._expected = expected
        self._ledger = ledger
        self._partitions = partitions
        self._acks = acks
        self._idempotent = idempotent
        self._rng = rng
        self._identity: tuple[int, int] | None = None
        self._sequences = dict.fromkeys(partitions, 0)
        self._owed: deque[Sent] = deque()
        self._values = 0

    def run(self, port: int) -> None:
        """Produce until the broker goes away."""
        try:
            with Client(port) as client:
                self._produce(client)
        except ClosedError:
            pass
        except Exception as error:  # noqa: BLE001 - told where all problems are told
            self._ledger.complain(f"{self.name}: {error!r}")
        if not self._idempotent:
            self._owed.clear()  # nobody knows, nobody asks

    def _produce(self, client: Client) -> None:
        if self._idempotent and self._identity is None:
            self._identity = new_producer(client)
        in_flight = 0
        for sent in self._owed:
            self._send(client, sent)
            in_flight += 1
        while True:
            while in_flight < IN_FLIGHT_MAX:
                sent = self._next()
                self._owed.append(sent)
                self._send(client, sent)
                in_flight += 1
            self._receive(client)
            in_flight -= 1

    def _next(self) -> Sent:
        where = self._rng.choice(self._partitions)
        values: list[bytes] = []
        for _ in range(self._rng.randint(1, RECORDS_MAX)):
            self._values += 1
            filler = self._rng.randbytes(self._rng.randint(0, VALUE_BYTES_MAX))
            values.append(f"{self.name}:{self._values}:".encode() + filler)
        stamp = NO_PRODUCER
        if self._identity is not None:
            stamp = ProducerStamp(*self._identity, self._sequences[where])
            self._sequences[where] += len(values)
        codec = self._rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD))
        now_ms = time.time_ns() // 1_000_000
        data = make_batch(values, stamp=stamp, codec=codec, now_ms=now_ms)
        return Sent(where, data, stamp.base_sequence, len(values), tuple(map(digest, values)))

    def _send(self, client: Client, sent: Sent) -> None:
        self._ledger.send(self.name, sent.where, sent.digests)
        request = produce_request(sent.where, sent.data, acks=self._acks)
        client.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)

    def _receive(self, client: Client) -> None:
        answer = client.receive().responses[0].partition_responses[0]
        sent = self._owed[0]
        if answer.error_code == 0:
            self._owed.popleft()
            self._ledger.ack(sent.where, answer.base_offset, sent.digests)
            self.acknowledged += sent.records
            return
        code = ErrorCode(answer.error_code).name
        self.refusals[code] += 1
        if code not in self._expected:
            self._ledger.complain(
                f"{self.name} got {code} from {sent.where} for sequence {sent.base_sequence}"
            )
        raise ClosedError(code)  # the batch may be there or not


class Load:
    """Several producers, each in a thread of its own."""

    def __init__(self, producers: Sequence[Producer]) -> None:
        self.producers = producers
        self._threads: list[threading.Thread] = []

    def start(self, port: int) -> None:
        """Let all of them produce."""
        self._threads = [
            threading.Thread(target=producer.run, args=(port,), name=producer.name, daemon=True)
            for producer in self.producers
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all have seen that the broker is gone."""
        for thread in self._threads:
            thread.join()

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return sum(producer.acknowledged for producer in self.producers)


def make_load(ledger: Ledger, rng: Random, *, expected: AbstractSet[str]) -> Load:
    """Return two idempotent producers and two plain ones that share the partitions.

    Errors other than the ``expected`` ones are complained of.
    """
    kinds = ((-1, True), (1, True), (-1, False), (1, False))
    return Load(
        [
            Producer(
                f"p{number}",
                ledger,
                rng.sample(ledger.partitions, 2),
                acks=acks,
                idempotent=idempotent,
                expected=expected,
                rng=Random(rng.getrandbits(64)),
            )
            for number, (acks, idempotent) in enumerate(kinds)
        ]
    )
