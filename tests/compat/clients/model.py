"""What a test asks of a client, whichever it is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, NoReturn

Header = tuple[str, bytes | None]
Reset = Literal["earliest", "latest", "none"]
Acks = Literal["0", "1", "all"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 60.0
"""How long one thing that a client does may take: long, for the machine may be busy."""

BATCH_BYTES = 1_000_000
"""The batch size that clients are given when a test does not say."""


class Op(StrEnum):
    """Something that not every client can do."""

    ACKNOWLEDGED_OFFSETS = "learn offsets from acknowledgements"
    TIMESTAMPS = "set timestamps"
    ZSTD = "compress with zstd"
    HEADERS_IN_ORDER = "keep the order of headers with other names between"
    BINARY_HEADERS = "set header values that are not text"
    NULL_HEADERS = "set null header values"
    EMPTY_AND_NULL = "tell empty from null when it produces"
    MURMUR2 = "choose partitions as Java does"
    RESET_NONE = "be told not to choose a position"
    TOPICS = "create and delete topics"
    PARTITIONS = "add partitions"
    CONFIGS = "describe and change configurations"
    DELETE_RECORDS = "delete records"
    IDEMPOTENCE = "produce idempotently"
    TLS = "use TLS"


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be sent; None leaves partition and time to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A record as a client gave it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record was stored, as the client was told; offset -1 if it was not."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """What a client knows of a partition."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sending:
    """How to produce.  `idempotent` None is the client's own default."""

    codec: str = "none"
    acks: Acks = "all"
    idempotent: bool | None = None
    request_bytes_max: int = BATCH_BYTES


@dataclass(frozen=True, slots=True)
class Server:
    """Where a client connects; `ca` is the certificate authority's file if it should use TLS."""

    bootstrap: str
    ca: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A reading task: from which offset, or end, of which partitions, and how many records."""

    topic: str
    starts: Mapping[int, int | Literal["earliest", "latest"]]
    count: int
    reset: Reset = "earliest"
    fetch_bytes_max: int = 1 << 20


class PeerError(Exception):
    """What a client reported, by the protocol's name of the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class NotOfferedError(Exception):
    """The client has no such feature; says nothing about the broker."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create."""

    name: str
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


class Client(ABC):
    """Somebody's client, driven through its public interface.

    Methods block until the client is done, and raise PeerError with the protocol's name of what
    the client reported.  Those that a client lacks are named in `lacks`.
    """

    name: ClassVar[str]
    lacks: ClassVar[frozenset[Op]] = frozenset()

    @abstractmethod
    def version(self) -> str:
        """Return the client's version."""

    @abstractmethod
    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        """Send the messages and return where they are, in their order."""

    @abstractmethod
    def consume(self, server: Server, task: Task) -> list[Received]:
        """Read as many records as the task asks for, in the order of the client."""

    @abstractmethod
    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        """Return the first offset with that time or a later one; None if there is none."""

    @abstractmethod
    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset and the next one to be written."""

    @abstractmethod
    def topics(self, server: Server) -> set[str]:
        """Return the names of all topics."""

    @abstractmethod
    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        """Return the partitions of a topic."""

    def create(self, server: Server, topic: TopicSpec) -> None:
        """Create a topic."""
        self.not_offered(Op.TOPICS)

    def delete(self, server: Server, topic: str) -> None:
        """Delete a topic."""
        self.not_offered(Op.TOPICS)

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        self.not_offered(Op.PARTITIONS)

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        """Return the configuration of a topic."""
        self.not_offered(Op.CONFIGS)

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        """Change one configuration of a topic."""
        self.not_offered(Op.CONFIGS)

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        """Delete the records before an offset; return the first offset that is left."""
        self.not_offered(Op.DELETE_RECORDS)

    def not_offered(self, op: Op) -> NoReturn:
        """Say that this client cannot do something."""
        raise NotOfferedError(f"{self.name} cannot {op}")
