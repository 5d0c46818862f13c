"""Stock clients under way: idempotent producers of librdkafka and of Java, and a consumer."""

# confluent-kafka's types say less than it does.
# pyright: basic

import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Final, Protocol

import confluent_kafka

from tests.compat.peers import java
from tests.robustness.replication_history import Sent, Value

JAVA: Final = Path(__file__).with_name("java")
VALUE_BYTES: Final = 100
TICK_S: Final = 0.005
READ_S_MAX: Final = 0.1
READ_COUNT_MAX: Final = 1000
CLOSE_S_MAX: Final = 5.0
JAVA_OPTIONS: Final = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

# An answer that will not come is not waited for much longer than it takes to elect a leader; what
# is waited for very long is the delivery: no record may be given up.
COMMON: Final = {"linger.ms": "5", "request.timeout.ms": "3000", "retry.backoff.ms": "50"}
LIBRDKAFKA: Final = {
    **COMMON,
    "log_level": "0",
    "retry.backoff.max.ms": "200",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "500",
    "socket.timeout.ms": "4000",
    "message.timeout.ms": "120000",
}
JAVA_CLIENT: Final = {
    **COMMON,
    "retry.backoff.max.ms": "200",
    "reconnect.backoff.max.ms": "500",
    "delivery.timeout.ms": "120000",
    "max.block.ms": "120000",
}


class Load(Protocol):
    """A producer that sends evenly to all partitions, from its making on."""

    sent: Sent

    def stop(self, timeout_s: float) -> None:
        """Send no more; return when all is answered, or after some time."""


def encode(value: Value) -> bytes:
    """Return the bytes of a value."""
    return f"{value.producer} {value.number} ".encode().ljust(VALUE_BYTES, b"x")


def decode(data: bytes) -> Value:
    """Return the value in these bytes."""
    producer, number, _ = data.split(b" ", 2)
    return Value(int(producer), int(number))


def safety(acks: str) -> dict[str, str]:
    """Return the properties that make a producer safe, or with less than all acks, not."""
    return {"acks": acks, "enable.idempotence": "true" if acks == "all" else "false"}


class Librdkafka:
    """A thread with a producer of librdkafka."""

    def __init__(
        self, producer: int, bootstrap: str, topic: str, partitions: int, per_s: int, acks: str
    ) -> None:
        self.sent = Sent(producer, partitions)
        self._topic = topic
        self._per_s = per_s
        self._stopping = threading.Event()
        self._client: Any = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, **LIBRDKAFKA, **safety(acks)}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send no more; return when all is answered, or after some time."""
        self._stopping.set()
        self._thread.join()
        self._client.flush(timeout_s)

    def _run(self) -> None:
        begun_s = time.monotonic()
        while not self._stopping.wait(TICK_S):
            due = int((time.monotonic() - begun_s) * self._per_s)
            while len(self.sent.sent_s) < due and not self._stopping.is_set():
                self._send()
            self._client.poll(0)

    def _send(self) -> None:
        number = self.sent.send(time.monotonic())
        value = encode(Value(self.sent.producer, number))
        where = {"partition": self.sent.partition_of(number)}
        note = self._note(number)
        while True:
            try:
                self._client.produce(self._topic, value, **where, on_delivery=note)
            except BufferError:  # room comes with answers
                self._client.poll(TICK_S)
            except confluent_kafka.KafkaException as error:
                self.sent.fail(number, str(error))
                return
            else:
                return

    def _note(self, number: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.sent.ack(number, message.offset(), time.monotonic())
            else:
                self.sent.fail(number, str(error))

        return delivered


class Java:
    """A process with a producer of Kafka's own client, and a thread that reads what it says."""

    def __init__(
        self, producer: int, bootstrap: str, topic: str, partitions: int, per_s: int, acks: str
    ) -> None:
        self.sent = Sent(producer, partitions)
        properties = {"bootstrap.servers": bootstrap, **JAVA_CLIENT, **safety(acks)}
        words = [topic, *map(str, (partitions, producer, per_s, VALUE_BYTES))]
        words += [f"{name}={value}" for name, value in properties.items()]
        classes = [java.compile_java(JAVA)]
        command = java.java_command("Writer", words, options=JAVA_OPTIONS, classes=classes)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send no more; return when all is answered, or after some time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._thread.join(timeout_s)
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, *words = line.decode().split(maxsplit=3)
            match kind:
                case "s":
                    assert self.sent.send(int(words[1]) / 1e9) == int(words[0])
                case "a":
                    self.sent.ack(int(words[0]), int(words[2]), int(words[1]) / 1e9)
                case "f":
                    self.sent.fail(int(words[0]), " ".join(words[1:]))
                case _:
                    return


CLIENTS: Final[dict[str, type[Librdkafka] | type[Java]]] = {"librdkafka": Librdkafka, "java": Java}


class Reader:
    """A thread with a consumer that reads all partitions from the begin, as they grow."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.reads: dict[int, list[tuple[int, Value]]] = {n: [] for n in range(partitions)}
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._client: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            },
        )
        self._client.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in self.reads])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ends(self) -> dict[int, int]:
        """Return the next offset of each partition."""
        return {n: read[-1][0] + 1 if read else 0 for n, read in self.reads.items()}

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._client.consume(READ_COUNT_MAX, READ_S_MAX):
                if message.error() is None:
                    value = decode(message.value())
                    self.reads[message.partition()].append((message.offset(), value))
                elif not message.error().retriable():
                    self.errors.append(str(message.error()))
