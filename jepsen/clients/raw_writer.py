"""An idempotent producer of one partition that throws answers away and sends everything again.

Each attempt is its own, and visible: nothing here tries again by itself but what this file says.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from random import Random
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, known_code
from quorate.jepsen.clients.outcomes import ALL_IN_SYNC, of_answer, of_attempts
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.sending import UNKNOWN_OFFSET, Outcome, told_of
from quorate.jepsen.clients.values import encode, value_of
from quorate.jepsen.clients.wire import (
    INIT_PRODUCER_ID_VERSION,
    PRODUCE_VERSION,
    Client,
    ClosedError,
    make_batch,
    produce_request,
)
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Call, Recorder, Scribe
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import PartitionProduceResponse
from quorate.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from quorate.records.compression import Codec
from quorate.records.record import ProducerStamp

IN_FLIGHT_MAX: Final = 5
"""So many batches of a producer a partition remembers."""
RECORDS_MAX: Final = 4
TIMEOUT_S: Final = 4.0
ANSWER_MAY_COME_S: Final = 0.02
AGAIN_S: Final = 0.05
TRANSACTION_TIMEOUT_MS: Final = 60_000


class _GoneError(Exception):
    """The connection is of no use any more, and what is under way has to be sent again."""


@dataclass(slots=True)
class _Batch:
    """Records that are sent together, and what is known of each attempt."""

    base_sequence: int
    values: Sequence[int]
    calls: Sequence[Call]
    data: bytes
    attempts: list[Kind] = field(default_factory=list[Kind])


class RawWriter:
    """Sends to one partition, up to five batches ahead; for one thread.

    State: who it is, batches without an answer in the order of their sequences, a connection on
    which all of them are.
    """

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        where: TopicPartition,
        rng: Random,
        *,
        cut_odds: float,
    ) -> None:
        self._recorder = recorder
        self._where = where
        self._rng = rng
        self._cut_odds = cut_odds
        self._raw = Raw(bootstrap, TIMEOUT_S)
        self._scribe = Scribe(recorder)
        self._producer = recorder.process()  # and never given back
        self._sent = 0
        self._identity: tuple[int, int] | None = None
        self._sequence = 0
        self._owed: deque[_Batch] = deque()
        self._client: Client | None = None
        self._leader_id: int | None = None

    @property
    def has_room(self) -> bool:
        """Whether another batch may be under way."""
        return len(self._owed) < IN_FLIGHT_MAX

    @property
    def owes(self) -> bool:
        """Whether something is not answered yet."""
        return bool(self._owed)

    def write(self, records: int) -> None:
        """Send a batch of so many; only while there is room."""
        assert self.has_room
        try:
            client = self._connected()
            batch = self._batch(records)
            self._owed.append(batch)
            self._send(client, batch)
        except (_GoneError, ClosedError, NotNowError):
            self._hang_up()

    def hear(self) -> None:
        """Take the oldest answer, or throw it and all others away and send everything again."""
        try:
            client = self._connected()
            if self._rng.random() < self._cut_odds:
                self._cut()
            self._take(self._owed[0], client.receive().responses[0].partition_responses[0])
        except (_GoneError, ClosedError, NotNowError):
            self._hang_up()

    def close(self) -> None:
        """Give up what is not answered."""
        self._give_up("it was not answered in time")
        self._hang_up()
        self._raw.close()

    # --- sending

    def _connected(self) -> Client:
        """Return a connection to the leader on which all that is owed was sent."""
        if self._client is None:
            if self._identity is None:
                self._identity = self._new_identity()
            try:
                self._leader_id = self._raw.leader_id(self._where)
                self._client = Client(self._raw.leader(self._where), TIMEOUT_S)
            except ClosedError as error:
                raise NotNowError(str(error)) from error
            for batch in self._owed:
                self._send(self._client, batch)
        return self._client

    def _new_identity(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer: InitProducerIdResponse = self._raw.ask_any(
            ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request
        )
        if answer.error_code != ErrorCode.NONE:
            raise NotNowError(f"no producer id: {known_code(answer.error_code).name}")
        self._sequence = 0
        return answer.producer_id, answer.producer_epoch

    def _batch(self, records: int) -> _Batch:
        assert self._identity is not None
        numbers = range(self._sent, self._sent + records)
        self._sent += records
        values = [value_of(self._producer, number) for number in numbers]
        name = str(self._where)
        calls = [
            Call(self._recorder, "send", [name, value, self._producer, number])
            for value, number in zip(values, numbers, strict=True)
        ]
        stamp = ProducerStamp(*self._identity, self._sequence)
        self._sequence += records
        now_ms = time.time_ns() // 1_000_000
        payloads = [encode(value) for value in values]
        data = make_batch(payloads, stamp=stamp, codec=Codec.NONE, now_ms=now_ms)
        return _Batch(stamp.base_sequence, values, calls, data)

    def _send(self, client: Client, batch: _Batch) -> None:
        batch.attempts.append(Kind.INFO)
        request = produce_request(self._where, batch.data, acks=ALL_IN_SYNC)
        client.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)

    # --- hearing

    def _cut(self) -> None:
        """Throw away what is on its way here."""
        if self._rng.random() < 0.5:
            time.sleep(self._rng.uniform(0, ANSWER_MAY_COME_S))
        for batch in self._owed:
            self._scribe.tell("cut", [str(self._where), batch.values[0]])
        raise _GoneError

    def _take(self, batch: _Batch, answer: PartitionProduceResponse) -> None:
        code = known_code(answer.error_code)
        batch.attempts[-1] = of_answer(code, ALL_IN_SYNC)
        if batch.attempts[-1] is Kind.OK:
            self._owed.popleft()
            broker_id = self._leader_id if len(batch.attempts) == 1 else None
            for place, call in enumerate(batch.calls):
                offset = answer.base_offset + place if answer.base_offset >= 0 else UNKNOWN_OFFSET
                call.end(Kind.OK, told_of(Outcome(Kind.OK, offset, broker_id=broker_id)))
            return
        if code in {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}:
            # Nothing is owed that came before it: there is no gap.
            told = f"{self._where} answers {code.name} to sequence {batch.base_sequence}"
            self._scribe.tell("complaint", ["out-of-order-sequence", told])
            self._begin_anew(code.name)
        if code in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}:
            self._begin_anew(code.name)
        raise _GoneError

    def _begin_anew(self, why: str) -> None:
        """Be another producer: what is owed is not sent again."""
        self._give_up(why)
        self._identity = None

    def _give_up(self, why: str) -> None:
        while self._owed:
            batch = self._owed.popleft()
            for call in batch.calls:
                call.end(of_attempts(batch.attempts), why)

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._raw.forget(self._where.topic)
        time.sleep(AGAIN_S)
