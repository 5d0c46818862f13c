"""Topics for benchmarks, made and removed over a plain socket: no client stays connected."""

import socket
import struct
import time
from collections.abc import Mapping

from quorate.dataclass import dataclass

TIMEOUT_S = 30.0
TIMEOUT_MS = 30_000
POLL_INTERVAL_S = 0.02
CLIENT_ID = b"bench"

# The last versions before the flexible ones; all of them within Kafka 4's ranges.
METADATA, METADATA_VERSION = 3, 4
API_VERSIONS, API_VERSIONS_VERSION = 18, 0
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 4
DELETE_TOPICS, DELETE_TOPICS_VERSION = 20, 3

# Deleted data goes soon, so that one sample's does not weigh on the next.
HOUSEKEEPING = {"file.delete.delay.ms": "1000"}

INVALID_REPLICATION_FACTOR = 38
IN_SERVICE_S_MAX = 10.0
NOT_OFFERED = -1  # where an error code is expected and the broker has no such request


class TopicUnavailableError(Exception):
    """A topic was refused, or did not get leaders in time."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, bootstrap: str) -> "Address":
        """Return the address in host:port."""
        host, _, port = bootstrap.rpartition(":")
        return cls(host, int(port))


def string(value: str | None) -> bytes:
    """Return a string of the protocol before flexible versions."""
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def create_topics_body(
    topic: str, partitions: int, config: Mapping[str, str], replicas: int
) -> bytes:
    """Return the body of CreateTopics for one topic."""
    configs = b"".join(string(name) + string(value) for name, value in config.items())
    return (
        struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">ihii", partitions, replicas, 0, len(config))
        + configs
        + struct.pack(">i?", TIMEOUT_MS, False)  # noqa: FBT003 - validate_only
    )


def delete_topics_body(topic: str) -> bytes:
    """Return the body of DeleteTopics for one topic."""
    return struct.pack(">i", 1) + string(topic) + struct.pack(">i", TIMEOUT_MS)


def metadata_body(topic: str) -> bytes:
    """Return the body of Metadata for one topic, which may be created by being asked for."""
    return struct.pack(">i", 1) + string(topic) + b"\x01"


def keys_in(answer: bytes) -> set[int]:
    """Return the keys of the requests that a broker offers, from its ApiVersions answer."""
    (count,) = struct.unpack_from(">i", answer, 2)
    return {struct.unpack_from(">h", answer, 6 + 6 * i)[0] for i in range(count)}


def leaders_in(answer: bytes) -> list[int]:
    """Return the leaders of the partitions of the one topic in a Metadata answer."""
    position = 4  # throttle time
    (brokers,) = struct.unpack_from(">i", answer, position)
    position += 4
    for _ in range(brokers):
        position = _after_string(answer, position + 4) + 4
        position = _after_string(answer, position)
    position = _after_string(answer, position) + 4  # cluster id, controller
    position = _after_string(answer, position + 4 + 2) + 1  # topics, error, name, is internal
    (partitions,) = struct.unpack_from(">i", answer, position)
    position += 4
    leaders: list[int] = []
    for _ in range(partitions):
        leaders.append(struct.unpack_from(">hii", answer, position)[2])
        position += 10
        for _ in ("replicas", "in sync"):
            (members,) = struct.unpack_from(">i", answer, position)
            position += 4 + 4 * members
    return leaders


def _after_string(answer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(0, int(length))


def ask(address: Address, key: int, version: int, body: bytes) -> bytes:
    """Send one request on a connection of its own and return the body of the answer."""
    frame = struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID + body
    with socket.create_connection((address.host, address.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        return receive_frame(connection)[8:]


def receive_frame(connection: socket.socket) -> bytes:
    """Return one answer with its length; raises OSError at the end of the stream."""
    frame = bytearray()
    while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "big"):
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionResetError("closed by the broker")
        frame += chunk
    return bytes(frame)


def create_topic(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    config: Mapping[str, str],
    replicas: int = 1,
) -> None:
    """Create a topic and return when each partition has a leader.

    A broker that cannot create topics on request is asked for metadata, which makes one in many.
    Brokers that were just started come into service one by one: as long as there are too few of
    them, it is tried again.
    """
    address = Address.parse(bootstrap)
    body = create_topics_body(topic, partitions, {**HOUSEKEEPING, **config}, replicas)
    deadline = time.monotonic() + IN_SERVICE_S_MAX
    error = _error_of(address, CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
    while error == INVALID_REPLICATION_FACTOR and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
        error = _error_of(address, CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
    if error > 0 or (error == NOT_OFFERED and config):
        raise TopicUnavailableError(f"{topic} {dict(config)} was refused with error {error}")
    wait_for_leaders(bootstrap, topic, partitions)


def wait_for_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Return when each partition of a topic has a leader that the broker knows of."""
    address = Address.parse(bootstrap)
    deadline = time.monotonic() + TIMEOUT_S
    while not _has_leaders(address, topic, partitions):
        if time.monotonic() > deadline:
            raise TopicUnavailableError(f"{topic} has no leaders after {TIMEOUT_S:.0f} s")
        time.sleep(POLL_INTERVAL_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Remove a topic, if the broker can."""
    body = delete_topics_body(topic)
    error = _error_of(Address.parse(bootstrap), DELETE_TOPICS, DELETE_TOPICS_VERSION, body)
    if error > 0:
        raise TopicUnavailableError(f"{topic} was not deleted: error {error}")


def _error_of(address: Address, key: int, version: int, body: bytes) -> int:
    """Return the error code after throttle time, array length and name."""
    if key not in keys_in(ask(address, API_VERSIONS, API_VERSIONS_VERSION, b"")):
        return NOT_OFFERED
    answer = ask(address, key, version, body)
    return int(struct.unpack_from(">h", answer, _after_string(answer, 8))[0])


def _has_leaders(address: Address, topic: str, partitions: int) -> bool:
    leaders = leaders_in(ask(address, METADATA, METADATA_VERSION, metadata_body(topic)))
    return len(leaders) >= partitions and all(leader >= 0 for leader in leaders)
