"""Our own client as a sender, and as one that reads along: each in a thread with its own Trio."""

import threading
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final, Literal

import trio

from quorate.client import (
    BufferFullError,
    ClosedError,
    Consumer,
    Delivery,
    DeliveryTimeoutError,
    KafkaError,
    NetworkError,
    Producer,
    QuorateError,
    TopicPartition,
)
from quorate.errors import ErrorCode, UnknownTopicOrPartitionError
from quorate.jepsen.clients.outcomes import of_last_attempt
from quorate.jepsen.clients.sending import Answered, Outcome, Outgoing, SenderOptions
from quorate.jepsen.clients.values import decode
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.model import Endpoint
from quorate.net.rpc import connect

IN_FLIGHT_MAX: Final = 5_000
CONNECT_TIMEOUT_MS: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 3_000
AGAIN_S: Final = 0.2
CLOSE_S_MAX: Final = 10.0
POLL_MS: Final = 100
POLL_RECORDS: Final = 1_000
SEEK_ODDS: Final = 0.005
SEEK_BACK_MAX: Final = 500

ACKS: Final[dict[str, Literal[-1, 0, 1]]] = {"all": -1, "1": 1, "0": 0}


class _OverError(Exception):
    """Leaves a producer's block without waiting for what it still has."""


class _CutStream(trio.abc.Stream):
    """A stream that breaks now and then, when something comes: what came is lost with it."""

    def __init__(self, stream: trio.abc.Stream, odds: float, rng: Random) -> None:
        self._stream = stream
        self._odds = odds
        self._rng = rng

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return what came, unless it breaks now."""
        data = await self._stream.receive_some(max_bytes)
        if data and self._rng.random() < self._odds:
            await self._stream.aclose()
            raise trio.BrokenResourceError("cut on purpose")
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close."""
        await self._stream.aclose()


class OwnSender:
    """Our producer in a thread of its own; made anew if it fails for good.

    State: how many records it has that are not answered yet.
    """

    def __init__(self, options: SenderOptions) -> None:
        self._options = options
        self._rng = Random()
        self._under_way = 0
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._ending = False
        self._flush_s = 0.0
        self._token: trio.lowlevel.TrioToken | None = None
        self._bell = trio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()
        self._ready.wait()

    def send(self, record: Outgoing, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""
        assert self._token is not None
        with self._lock:
            if self._under_way >= IN_FLIGHT_MAX or self._producer is None:
                return False
            self._under_way += 1
        try:
            self._token.run_sync_soon(self._submit, record, answered)
        except trio.RunFinishedError:
            return False
        return True

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
        assert self._token is not None
        self._flush_s = seconds_max
        try:
            self._token.run_sync_soon(self._end)
        except trio.RunFinishedError:
            return
        self._thread.join(seconds_max + CLOSE_S_MAX)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._ready.set()
        while not self._ending:
            try:
                await self._live()
            except _OverError:
                pass
            except QuorateError:  # no broker answers
                with trio.move_on_after(AGAIN_S):
                    await self._bell.wait()

    async def _live(self) -> None:
        """Have a producer until the end, or until it fails for good."""
        async with Producer(
            self._options.bootstrap,
            acks=ACKS[self._options.acks],
            delivery_timeout_ms=self._options.patience_ms,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            dial=self._dial if self._options.cut_odds else None,
        ) as producer:
            self._producer = producer
            await self._bell.wait()
            self._producer = None
            if self._ending:
                with trio.move_on_after(self._flush_s):
                    await producer.flush()
            else:
                self._bell = trio.Event()
            raise _OverError

    async def _dial(self, endpoint: Endpoint) -> trio.abc.Stream:
        stream = await connect(endpoint, ssl_context=None, timeout_ms=CONNECT_TIMEOUT_MS)
        return _CutStream(stream, self._options.cut_odds, self._rng)

    def _end(self) -> None:
        self._ending = True
        self._bell.set()

    def _submit(self, record: Outgoing, answered: Answered) -> None:
        if self._producer is None:
            self._settle(answered, Outcome(Kind.FAIL, why="it has ended"))
            return
        try:
            delivery = self._producer.send_nowait(
                record.topic, record.value, key=record.key, partition=record.partition
            )
        except QuorateError as error:
            self._settle(answered, Outcome(Kind.FAIL, why=str(error)))
            if not isinstance(error, BufferFullError | UnknownTopicOrPartitionError):
                self._bell.set()  # it has failed for good
        else:
            delivery.add_callback(partial(self._take, answered))

    def _take(self, answered: Answered, delivery: Delivery) -> None:
        self._settle(answered, outcome_of(delivery, self._options.acks_number))

    def _settle(self, answered: Answered, outcome: Outcome) -> None:
        with self._lock:
            self._under_way -= 1
        answered(outcome)


def outcome_of(delivery: Delivery, acks: int) -> Outcome:
    """Return what became of a record, as our client says when it has done with it."""
    error = delivery.error
    batch, _ = delivery[0].find(delivery[1])
    if error is None:
        kind = Kind.OK if acks else Kind.INFO
        broker_id = batch.broker_id if batch.attempts == 1 else None
        return Outcome(kind, delivery.metadata.offset, broker_id=broker_id)
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    answered = not isinstance(error, DeliveryTimeoutError | ClosedError | NetworkError)
    kind = of_last_attempt(code, batch.attempts, acks, answered=answered)
    return Outcome(kind, why=str(error))


class OwnReader:
    """Our consumer in a thread of its own: reads partitions as they grow, and goes back at times.

    Writes each poll down, with the number of its assignment: it is another one after each seek.
    """

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        topic: str,
        partitions: Sequence[int],
        rng: Random,
        *,
        committed_only: bool = False,
    ) -> None:
        self.errors: list[str] = []
        self._recorder = recorder
        self._committed_only = committed_only
        self._bootstrap = bootstrap
        self._partitions = [TopicPartition(topic, number) for number in partitions]
        self._rng = rng
        self._scribe = Scribe(recorder)
        self._assignment = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._live()
            except QuorateError:
                await trio.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                self.errors.append(f"a reader of ours: {error!r}")
                return

    async def _live(self) -> None:
        async with Consumer(
            self._bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if self._committed_only else "read_uncommitted",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer:
            consumer.assign(self._partitions)
            self._assignment += 1
            positions = dict.fromkeys(self._partitions, 0)
            while not self._stopping.is_set():
                await self._poll(consumer, positions)
                if self._rng.random() < SEEK_ODDS:
                    self._seek_back(consumer, positions)

    async def _poll(self, consumer: Consumer, positions: dict[TopicPartition, int]) -> None:
        self._scribe.begin("poll", self._assignment)
        told: dict[TopicPartition, tuple[list[int], list[int]]] = {}
        try:
            records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS)
        except QuorateError:
            self._scribe.end(Kind.FAIL, "poll")
            self._assignment += 1
            raise
        for record in records:
            offsets, values = told.setdefault(record.topic_partition, ([], []))
            offsets.append(record.offset)
            values.append(decode(record.value))
        for partition, (offsets, _) in told.items():
            positions[partition] = offsets[-1] + 1
        reads = [[str(partition), *read] for partition, read in told.items()]
        self._scribe.end(Kind.OK, "poll", reads)

    def _seek_back(self, consumer: Consumer, positions: dict[TopicPartition, int]) -> None:
        self._assignment += 1
        partition = self._rng.choice(self._partitions)
        back = self._rng.randint(0, SEEK_BACK_MAX)
        consumer.seek(partition, max(0, positions[partition] - back))
