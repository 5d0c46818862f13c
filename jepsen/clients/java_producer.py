"""Kafka's own Java producer as a sender: a process that is told what to send."""

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Final

from quorate.jepsen.clients.sending import (
    Answered,
    MissingClientError,
    Outcome,
    Outgoing,
    SenderOptions,
)
from quorate.jepsen.history import Kind

SOURCE: Final = Path(__file__).with_name("java") / "Sender.java"
JARS: Final = "QUORATE_KAFKA_JARS"
HOME: Final = "KAFKA_HOME"
IN_FLIGHT_MAX: Final = 5_000
CLOSE_S_MAX: Final = 5.0
OPTIONS: Final = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
PROPERTIES: Final = {
    "linger.ms": "5",
    "request.timeout.ms": "3000",
    "retry.backoff.ms": "50",
    "retry.backoff.max.ms": "200",
    "reconnect.backoff.max.ms": "500",
}


def jars() -> Path:
    """Return the folder with Kafka's jars.

    Raises:
        MissingClientError: there is no Java, or nobody says where the jars are.
    """
    if shutil.which("javac") is None:
        raise MissingClientError("--client java needs a JDK of 17 or newer; there is no javac here")
    home = os.environ.get(HOME)
    folder = os.environ.get(JARS) or (f"{home}/libs" if home else None)
    if folder is None or not any(Path(folder).glob("kafka-clients-*.jar")):
        raise MissingClientError(
            f"--client java needs kafka-clients-*.jar and what belongs to it: unpack Apache Kafka,"
            f" and set {HOME} to its folder (or {JARS} to a folder with the jars)"
        )
    return Path(folder)


class JavaSender:
    """A process with a producer of Kafka's own client, and a thread that reads what it says.

    State: records that are under way, by their number.
    """

    def __init__(self, options: SenderOptions) -> None:
        self._acks = options.acks_number
        properties = {
            **PROPERTIES,
            "bootstrap.servers": options.bootstrap,
            "acks": options.acks,
            "enable.idempotence": "true" if options.acks == "all" else "false",
            "delivery.timeout.ms": str(options.patience_ms),
            "max.block.ms": str(options.patience_ms),
        }
        words = [f"{name}={value}" for name, value in properties.items()]
        java = shutil.which("java") or "java"
        self._process = subprocess.Popen(
            [java, *OPTIONS, "-cp", f"{jars()}/*", str(SOURCE), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that it does not see the terminal's ^C
        )
        self._numbers = 0
        self._under_way: dict[int, Answered] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, record: Outgoing, answered: Answered) -> bool:
        """Send; return False if it cannot take the record now, and never will have sent it."""
        with self._lock:
            if len(self._under_way) >= IN_FLIGHT_MAX:
                return False
            self._numbers += 1
            number = self._numbers
            self._under_way[number] = answered
        partition = "-" if record.partition is None else str(record.partition)
        key = (record.key or b"-").decode()
        line = "\t".join((str(number), record.topic, partition, key, record.value.decode()))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended; what it read nobody knows
            self._settle(number, Outcome(Kind.INFO, why="the Java process has ended"))
        return True

    def close(self, seconds_max: float) -> None:
        """Return when all is answered; after so long, what is not is INFO. No more calls then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._thread.join(seconds_max)
        self._process.kill()
        self._process.wait()
        self._thread.join(CLOSE_S_MAX)
        self._process.stdout.close()
        for number in list(self._under_way):
            self._settle(number, Outcome(Kind.INFO, why="it was not answered in time"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.decode().split(maxsplit=2):
                case ["a", number, offset]:
                    kind = Kind.OK if self._acks else Kind.INFO
                    self._settle(int(number), Outcome(kind, int(offset)))
                case ["f", number, *why]:  # it does not say how often it has tried
                    self._settle(int(number), Outcome(Kind.INFO, why=" ".join(why).strip()))
                case _:
                    return

    def _settle(self, number: int, outcome: Outcome) -> None:
        with self._lock:
            answered = self._under_way.pop(number, None)
        if answered is not None:
            answered(outcome)
