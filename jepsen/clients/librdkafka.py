"""librdkafka as a sender, and as one that reads along."""

# confluent-kafka's types say less than it does, and it need not be there.
# pyright: basic

import threading
from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any, Final

from quorate.jepsen.clients.sending import (
    Answered,
    MissingClientError,
    Outcome,
    Outgoing,
    SenderOptions,
)
from quorate.jepsen.clients.values import decode
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe

POLL_S: Final = 0.05
READ_S_MAX: Final = 0.1
READ_COUNT_MAX: Final = 1_000
CLOSE_S_MAX: Final = 10.0
SEEK_ODDS: Final = 0.005
SEEK_BACK_MAX: Final = 500
SEEK_S_MAX: Final = 2.0

COMMON: Final[dict[str, Any]] = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
}
"""Nothing here waits much longer than it takes to elect a leader."""


def load() -> ModuleType:
    """Return confluent-kafka, whose wheels bring librdkafka along.

    Raises:
        MissingClientError: it is not installed.
    """
    try:
        import confluent_kafka  # noqa: PLC0415 - it need not be there
    except ImportError as error:
        raise MissingClientError(
            "librdkafka is not here: try 'pip install confluent-kafka', or another --client"
        ) from error
    return confluent_kafka


class StockSender:
    """A producer of librdkafka, and a thread that hears its answers."""

    def __init__(self, options: SenderOptions) -> None:
        self._acks = options.acks_number
        self._kafka: Any = load()
        self._is_dead = threading.Event()
        self._settings = {
            **COMMON,
            "bootstrap.servers": options.bootstrap,
            "acks": options.acks,
            "enable.idempotence": options.acks == "all",
            "linger.ms": 5,
            "request.timeout.ms": 3_000,
            "socket.timeout.ms": 4_000,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 200,
            "message.timeout.ms": options.patience_ms,
            "partitioner": "murmur2_random",  # as Java's, and ours
            "error_cb": self._told_of,
        }
        self._client: Any = self._kafka.Producer(self._settings)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def send(self, record: Outgoing, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""

        def delivered(error: Any, message: Any) -> None:
            answered(self._outcome(error, message))

        where = {} if record.partition is None else {"partition": record.partition}
        try:
            self._client.produce(
                record.topic, record.value, key=record.key, on_delivery=delivered, **where
            )
        except (BufferError, self._kafka.KafkaException):
            return False
        return True

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
        self._client.flush(seconds_max)
        self._client.purge()
        self._client.flush(CLOSE_S_MAX)
        self._stopping.set()
        self._thread.join()

    def _outcome(self, error: Any, message: Any) -> Outcome:
        if error is None:
            return Outcome(Kind.OK if self._acks else Kind.INFO, message.offset())
        return Outcome(Kind.INFO, why=str(error))  # it does not say how often it has tried

    def _hear(self) -> None:
        while not self._stopping.is_set():
            self._client.poll(POLL_S)
            if self._is_dead.is_set():
                self._begin_anew()

    def _told_of(self, error: Any) -> None:
        """Note that the producer will never send again (some of its batch was too late, say)."""
        if error.fatal():
            self._is_dead.set()

    def _begin_anew(self) -> None:
        """Go on with another producer, as a program that is restarted would."""
        dead, self._client = self._client, self._kafka.Producer(self._settings)
        self._is_dead.clear()
        dead.purge()
        dead.flush(CLOSE_S_MAX)


class StockReader:
    """A thread with a consumer that reads partitions as they grow, and goes back at times.

    Writes each poll down, with the number of its assignment: it is another one after each seek.
    """

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, partitions: Sequence[int], rng: Random
    ) -> None:
        self.errors: list[str] = []
        self._kafka: Any = load()
        self._topic = topic
        self._rng = rng
        self._scribe = Scribe(recorder)
        self._assignment = 1
        self._next = dict.fromkeys(partitions, 0)
        self._client: Any = self._kafka.Consumer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "group.id": "reads-along",  # which it never joins
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
            }
        )
        places = [self._kafka.TopicPartition(topic, number, 0) for number in partitions]
        self._client.assign(places)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._poll()
            if self._rng.random() < SEEK_ODDS:
                self._go_back(self._rng.choice(list(self._next)))

    def _poll(self) -> None:
        self._scribe.begin("poll", self._assignment)
        told: dict[int, tuple[list[int], list[int]]] = {}
        reset: set[int] = set()
        for message in self._client.consume(READ_COUNT_MAX, READ_S_MAX):
            if message.error() is None:
                offsets, values = told.setdefault(message.partition(), ([], []))
                offsets.append(message.offset())
                values.append(decode(message.value()))
            elif message.error().code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                reset.add(message.partition())
            elif message.error().fatal():  # it tries the others again by itself
                self.errors.append(f"librdkafka reads no more: {message.error()}")
        for partition, (offsets, _) in told.items():
            self._next[partition] = offsets[-1] + 1
        reads = [[f"{self._topic}-{number}", *read] for number, read in told.items()]
        self._scribe.end(Kind.OK, "poll", reads)
        for partition in reset:  # records that it read are gone; what that means the judge says
            self._next[partition] = 0
            self._go_back(partition)

    def _go_back(self, partition: int) -> None:
        self._assignment += 1
        place = max(0, self._next[partition] - self._rng.randint(0, SEEK_BACK_MAX))
        self._next[partition] = place
        try:
            self._client.seek(self._kafka.TopicPartition(self._topic, partition, place))
        except self._kafka.KafkaException:
            # Not now. It may have been done all the same, which is another assignment, too.
            self._assignment += 1
