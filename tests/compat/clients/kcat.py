"""kcat: librdkafka from the command line."""

import json
import re
import subprocess
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tests.compat.clients.model import (
    DEADLINE_S,
    Client,
    Message,
    Op,
    PartitionInfo,
    PeerError,
    Place,
    Received,
    Sending,
    Server,
    Task,
)
from tests.compat.peers import cache, native

# Long enough not to occur in what tests send.
VALUE_END = "\x1e-value-ends-here-\x1f"
KEY_END = "\x1e-key-ends-here-\x1f"
FORMAT = "%p %o %T %K %S %h\\n%k%s"

ERRORS = {
    "Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
    "Unknown partition": "UNKNOWN_PARTITION",
    "Offset out of range": "OFFSET_OUT_OF_RANGE",
    "Message size too large": "MESSAGE_TOO_LARGE",
}


class Kcat(Client):
    name = "kcat"
    lacks = frozenset(
        {
            Op.ACKNOWLEDGED_OFFSETS,
            Op.TIMESTAMPS,
            Op.BINARY_HEADERS,
            Op.NULL_HEADERS,
            Op.EMPTY_AND_NULL,
            Op.RESET_NONE,
            Op.TOPICS,
            Op.PARTITIONS,
            Op.CONFIGS,
            Op.DELETE_RECORDS,
        }
    )

    def __init__(self) -> None:
        self._program = native.kcat()

    def version(self) -> str:
        told = cache.run([self._program, "-V"], timeout_s=DEADLINE_S)
        found = re.search(r"Version (\S+).*librdkafka ([0-9.]+)", told)
        return f"{found[1]} (librdkafka {found[2]})" if found else "unknown"

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        """Send runs of messages that have headers and partition in common; places are unknown."""
        for (headers, partition, keyed), run in groupby(messages, _shared):
            text = b"".join(_line(message, keyed=keyed) for message in run)
            self._run(
                server,
                *("-P", "-t", topic, "-D", VALUE_END, "-z", how.codec),
                *(["-K", KEY_END] if keyed else []),
                *("-p", str(-1 if partition is None else partition)),
                *(word for name, value in headers for word in ("-H", f"{name}={_text(value)}")),
                *("-X", f"acks={how.acks}", "-X", "partitioner=murmur2_random"),
                *("-X", f"enable.idempotence={str(bool(how.idempotent)).lower()}"),
                *("-X", f"message.max.bytes={max(how.request_bytes_max, 1_000_000)}"),
                *("-X", f"message.timeout.ms={int(DEADLINE_S * 1000)}"),
                stdin=text,
            )
        return []

    def consume(self, server: Server, task: Task) -> list[Received]:
        """Read partition by partition, each to its end if there are several."""
        received: list[Received] = []
        for partition, start in task.starts.items():
            where = {"earliest": "beginning", "latest": "end"}.get(str(start), str(start))
            one = len(task.starts) == 1
            output = self._run(
                server,
                *("-C", "-q", "-t", task.topic, "-p", str(partition), "-o", where, "-f", FORMAT),
                *(["-c", str(task.count)] if one else ["-e"]),
                *("-X", f"topic.auto.offset.reset={task.reset}"),
                *("-X", f"fetch.message.max.bytes={task.fetch_bytes_max}"),
            )
            received += _parse(output)
        return received

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        offset = self._query(server, topic, partition, timestamp_ms)
        return offset if offset >= 0 else None

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        return self._query(server, topic, partition, -2), self._query(server, topic, partition, -1)

    def topics(self, server: Server) -> set[str]:
        return {topic["topic"] for topic in self._metadata(server)["topics"]}

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        (told,) = self._metadata(server, "-t", topic)["topics"]
        if "error" in told:
            raise _error(told["error"])
        return {
            p["partition"]: PartitionInfo(
                p["leader"],
                tuple(r["id"] for r in p["replicas"]),
                tuple(r["id"] for r in p["isrs"]),
            )
            for p in told["partitions"]
        }

    def _metadata(self, server: Server, *options: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._run(server, "-L", "-J", *options))
        return told

    def _query(self, server: Server, topic: str, partition: int, timestamp_ms: int) -> int:
        output = self._run(server, "-Q", "-t", f"{topic}:{partition}:{timestamp_ms}")
        return int(output.decode().rsplit(" ", 1)[1])

    def _run(self, server: Server, *words: str, stdin: bytes = b"") -> bytes:
        tls = ["-X", "security.protocol=SSL", "-X", f"ssl.ca.location={server.ca}"]
        done = subprocess.run(
            [str(self._program), "-b", server.bootstrap, *(tls if server.ca else []), *words],
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode:
            raise _error(done.stderr.decode(errors="replace"))
        return done.stdout


def _shared(message: Message) -> tuple[tuple[tuple[str, bytes | None], ...], int | None, bool]:
    return message.headers, message.partition, message.key is not None


def _line(message: Message, *, keyed: bool) -> bytes:
    key = (message.key or b"") + KEY_END.encode() if keyed else b""
    return key + (message.value or b"") + VALUE_END.encode()


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def _parse(output: bytes) -> list[Received]:
    """Take apart what FORMAT makes: a line of numbers and headers, then bytes of those lengths."""
    received: list[Received] = []
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        line, position = output[position:end], end + 1
        partition, offset, timestamp, key_size, value_size, headers = line.split(b" ", 5)
        key, position = _take(output, position, int(key_size))
        value, position = _take(output, position, int(value_size))
        pairs = [pair.partition(b"=") for pair in headers.split(b",") if pair]
        received.append(
            Received(
                int(partition),
                int(offset),
                int(timestamp),
                key,
                value,
                tuple((n.decode(), None if v == b"NULL" else v) for n, _, v in pairs),
            )
        )
    return received


def _take(output: bytes, position: int, size_bytes: int) -> tuple[bytes | None, int]:
    if size_bytes < 0:
        return None, position
    end = position + size_bytes
    return output[position:end], end


def _error(text: str) -> PeerError:
    for words, name in ERRORS.items():
        if words in text:
            return PeerError(name, text)
    return PeerError("UNKNOWN", text)
