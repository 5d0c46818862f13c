"""A sender that tries each record once: what was refused is seen to be, and who acknowledged."""

import threading
import time
from collections import deque
from typing import Final

from quorate.client.sending.partitioner import partition_for_key
from quorate.errors import known_code
from quorate.jepsen.clients.outcomes import NOBODY, of_answer
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.sending import Answered, Outcome, Outgoing, SenderOptions
from quorate.jepsen.clients.wire import PRODUCE_VERSION, ClosedError, make_batch, produce_request
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER

WAITING_MAX: Final = 500
RECORDS_MAX: Final = 20
TIMEOUT_S: Final = 4.0
IDLE_S: Final = 0.005
AGAIN_S: Final = 0.05
CLOSE_S_MAX: Final = 10.0


class PlainSender:
    """A thread that sends what waits, some records of one partition at a time, without sequences.

    State: what waits, and whether anything more may come.
    """

    def __init__(self, options: SenderOptions) -> None:
        assert options.acks_number != NOBODY, "this client waits for answers"
        self._acks = options.acks_number
        self._raw = Raw(options.bootstrap, TIMEOUT_S)
        self._waiting: deque[tuple[Outgoing, Answered]] = deque()
        self._lock = threading.Lock()
        self._deadline_s: float | None = None
        """When to give up what still waits, once no more comes."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, record: Outgoing, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""
        with self._lock:
            if len(self._waiting) >= WAITING_MAX or self._deadline_s is not None:
                return False
            self._waiting.append((record, answered))
        return True

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
        self._deadline_s = time.monotonic() + seconds_max
        self._thread.join(seconds_max + CLOSE_S_MAX)

    def _run(self) -> None:
        while self._waiting or self._deadline_s is None:
            if not self._waiting:
                time.sleep(IDLE_S)
            elif self._deadline_s is not None and time.monotonic() > self._deadline_s:
                self._waiting.popleft()[1](Outcome(Kind.FAIL, why="it was never sent"))
            else:
                self._send_some()
        self._raw.close()

    def _send_some(self) -> None:
        """Send what waits for the same partition as the first that waits, and hear of it."""
        try:
            where = self._place(self._waiting[0][0])
            taken = self._take(where)
        except NotNowError as error:
            self._waiting.popleft()[1](Outcome(Kind.FAIL, why=str(error)))
            time.sleep(AGAIN_S)
            return
        for outcome, (_, answered) in zip(self._attempt(where, taken), taken, strict=True):
            answered(outcome)

    def _place(self, record: Outgoing) -> TopicPartition:
        if record.partition is not None:
            return TopicPartition(record.topic, record.partition)
        if not self._raw.partition_count(record.topic):
            self._raw.learn([record.topic])
        count = self._raw.partition_count(record.topic)
        if not count:
            raise NotNowError(f"nobody says how many partitions {record.topic} has")
        return TopicPartition(record.topic, partition_for_key(record.key or b"", count))

    def _take(self, where: TopicPartition) -> list[tuple[Outgoing, Answered]]:
        taken: list[tuple[Outgoing, Answered]] = []
        with self._lock:
            while (
                self._waiting
                and len(taken) < RECORDS_MAX
                and self._place(self._waiting[0][0]) == where
            ):
                taken.append(self._waiting.popleft())
        return taken

    def _attempt(
        self, where: TopicPartition, taken: list[tuple[Outgoing, Answered]]
    ) -> list[Outcome]:
        values = [record.value for record, _ in taken]
        now_ms = time.time_ns() // 1_000_000
        data = make_batch(values, stamp=NO_PRODUCER, codec=Codec.NONE, now_ms=now_ms)
        request = produce_request(where, data, acks=self._acks)
        try:
            broker_id = self._raw.leader_id(where)
            answer = self._raw.ask(
                self._raw.leader(where), ApiKey.PRODUCE, PRODUCE_VERSION, request
            )
        except NotNowError as error:
            return self._doubt(where, Outcome(Kind.FAIL, why=str(error)), len(taken))
        except ClosedError as error:
            return self._doubt(where, Outcome(Kind.INFO, why=str(error)), len(taken))
        told = answer.responses[0].partition_responses[0]
        code = known_code(told.error_code)
        kind = of_answer(code, self._acks)
        if kind is not Kind.OK:
            return self._doubt(where, Outcome(kind, why=code.name), len(taken))
        offsets = range(told.base_offset, told.base_offset + len(taken))
        return [Outcome(kind, offset, broker_id=broker_id) for offset in offsets]

    def _doubt(self, where: TopicPartition, outcome: Outcome, count: int) -> list[Outcome]:
        """Find out anew who leads, after a moment."""
        self._raw.forget(where.topic)
        time.sleep(AGAIN_S)
        return [outcome] * count
