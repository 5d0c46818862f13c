"""What was measured of a partition: what its brokers answered, at one moment or two."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from quorate.client.admin_results import LogDirReplica
from quorate.client.transactions.describing import ProducerDescription, TransactionDescription
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.tools.why.answer import Line, measured

DIRS: Final = "DescribeLogDirs"
OFFSETS: Final = "ListOffsets"
PRODUCERS: Final = "DescribeProducers"
TRANSACTIONS: Final = "DescribeTransactions"
CONFIGS: Final = "DescribeConfigs"


def broker_name(broker_id: int) -> str:
    """Return a broker as the one who answered."""
    return f"broker-{broker_id}"


@dataclass(frozen=True, slots=True)
class Look:
    """What brokers said of a partition at a moment.

    Attributes:
        now_ms: When.
        replicas: Its replicas as each broker tells of its own. Brokers that do not answer, or have
            none, are left out; ``silent`` are those that do not answer.
        last_stable: Where read_committed readers stop, as the leader says; None if it does not.
    """

    now_ms: int
    replicas: Mapping[int, LogDirReplica]
    silent: frozenset[int] = frozenset()
    last_stable: int | None = None

    def end_of(self, broker_id: int) -> int | None:
        """Return where a replica's log ends; None if its broker does not tell."""
        told = self.replicas.get(broker_id)
        return None if told is None or told.log_end_offset < 0 else told.log_end_offset


@dataclass(frozen=True, slots=True)
class Opened:
    """A transaction that is open in a partition.

    Attributes:
        producer: As the partition's leader knows it.
        described: As its coordinator knows it; None if no transactional id has the producer.
        hangs: Whether no coordinator knows that it is open, so that none will end it.
        first_ms: The time of its first record; None if that could not be read.
    """

    producer: ProducerDescription
    described: TransactionDescription | None
    hangs: bool
    first_ms: int | None = None

    @property
    def start_offset(self) -> int:
        """Where it begins."""
        start = self.producer.transaction_start_offset
        assert start is not None, "it is open"
        return start

    @property
    def name(self) -> str:
        """Whose it is."""
        told = self.described
        return f"producer {self.producer.producer_id}" if told is None else told.transactional_id


@dataclass(frozen=True, slots=True)
class Standing:
    """How a partition stood at two moments, and what is open in it, the oldest first."""

    before: Look
    after: Look
    opened: Sequence[Opened] = field(default_factory=tuple[Opened, ...])

    @property
    def seconds(self) -> float:
        """How long the moments are apart."""
        return (self.after.now_ms - self.before.now_ms) / 1_000


@dataclass(frozen=True, slots=True)
class Reached:
    """What a partition's leader answered when it was asked for the log's end.

    ``error`` is what it refused with, or how it could not be reached; ``disk`` is what is wrong
    with its directory, and ``full`` that it has next to no room, empty if neither is so.
    """

    leader_id: int
    now_ms: int
    error: QuorateError | None = None
    disk: str = ""
    full: str = ""


def silence(broker_id: int, text: str, now_ms: int) -> Line:
    """Return that a broker did not answer."""
    return measured(
        f"broker {broker_id} does not answer{text}", broker_name(broker_id), DIRS, now_ms
    )
