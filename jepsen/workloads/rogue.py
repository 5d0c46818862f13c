"""One who writes transactional records to partitions that its transaction does not know of.

No marker would ever end what it writes: a broker that takes it has a transaction that hangs, and
nobody reads beyond (KIP-890).
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.transacting import TIMEOUT_MS
from quorate.jepsen.clients.wire import ClosedError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.transactions import InitProducerIdRequest
from quorate.records.compression import Codec
from quorate.records.record import ProducerStamp, RecordBatchBuilder

EVERY_S: Final = 1.0
INIT_VERSION: Final = 4
FIND_VERSION: Final = 3
PRODUCE_VERSION: Final = 11
"""The last one of clients that say to coordinators what they are going to write."""
TRANSACTIONAL: Final = 1
CLOSE_S_MAX: Final = 10.0
VALUE: Final = b"nobody ever reads this"


class Rogue:
    """A thread that tries it again and again; it is written down nowhere what is refused."""

    def __init__(
        self, bootstrap: str, transactional_id: str, where: Sequence[TopicPartition], rng: Random
    ) -> None:
        self.errors: list[str] = []
        self.tried = 0
        self._bootstrap = bootstrap
        self._id = transactional_id
        self._where = where
        self._rng = rng
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Try it no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)

    def _run(self) -> None:
        try:
            with Raw(self._bootstrap) as raw:
                while not self._stopping.wait(EVERY_S):
                    self._try(raw)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.errors.append(f"the rogue failed: {error!r}")

    def _try(self, raw: Raw) -> None:
        where = self._rng.choice(self._where)
        init = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        find = FindCoordinatorRequest(key=self._id, key_type=TRANSACTIONAL)
        try:
            found = raw.ask_any(ApiKey.FIND_COORDINATOR, FIND_VERSION, find)
            if found.error_code:
                return
            coordinator = Endpoint(found.host, found.port)
            answer = raw.ask(coordinator, ApiKey.INIT_PRODUCER_ID, INIT_VERSION, init)
            if answer.error_code:
                return
            stamp = ProducerStamp(answer.producer_id, answer.producer_epoch, 0)
            request = _request(self._id, where, stamp)
            raw.ask(raw.leader(where), ApiKey.PRODUCE, PRODUCE_VERSION, request)
            self.tried += 1
        except (NotNowError, ClosedError):
            raw.forget(where.topic)


def _request(transactional_id: str, where: TopicPartition, stamp: ProducerStamp) -> ProduceRequest:
    builder = RecordBatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, VALUE, b"", len(VALUE) + 30)
    data = memoryview(builder.build(Codec.NONE, stamp, transactional=True))
    partition = PartitionProduceData(index=where.partition, records=data)
    topic = TopicProduceData(name=where.topic, partition_data=[partition])
    return ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=[topic]
    )
