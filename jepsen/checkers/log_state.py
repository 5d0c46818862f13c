"""What the log checker knows of one partition."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Operation

NO_OFFSET: Final = -1


class Ack(NamedTuple):
    """An acknowledged send; the offset is NO_OFFSET if the client never learned it."""

    producer: Any
    sequence: Any
    offset: int
    called_ns: int
    returned_ns: int


class Copy(NamedTuple):
    """A value that is at a second offset."""

    value: int
    offset: int
    again: int


class Writer(NamedTuple):
    """Who wrote a batch."""

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"producer {self.producer_id} of epoch {self.producer_epoch}"


class Gap(NamedTuple):
    """Two offsets that a consumer was given in this order, and do not follow each other.

    ``how`` says whether it was in one poll.
    """

    how: str
    one: int
    other: int
    process: int


class End(NamedTuple):
    """Where a log was said to end, by whom of which leader epoch, and when."""

    offset: int
    epoch: int
    called_ns: int


NO_END: Final = End(1 << 62, -1, 0)


@dataclass(slots=True)
class Partition:
    """What is known of one partition.

    Invariant: each value that was sent is in one of ``failed``, ``unknown`` and ``acked``.
    """

    found: Anomalies = field(default_factory=Anomalies)
    values: dict[int, int] = field(default_factory=dict[int, int])
    """By offset: the first value that was said to be there."""
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    """By value: the first offset that it was said to have."""
    failed: set[int] = field(default_factory=set[int])
    unknown: set[int] = field(default_factory=set[int])
    acked: dict[int, Ack] = field(default_factory=dict[int, Ack])
    ordered: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    """Of what is unknown: the producer and its sequence, if they were told."""
    is_transactional: bool = False
    by_leader_only: set[int] = field(default_factory=set[int])
    """What was sent with acks=1: where it was said to be need not be true for long."""
    polled: set[int] = field(default_factory=set[int])
    """Offsets that consumers were given, with the values that they have above."""
    final: set[int] = field(default_factory=set[int])
    """Offsets that were read in the end, likewise."""
    elsewhere: set[int] = field(default_factory=set[int])
    """Values that were read in the end at another offset, or where others are said to be."""
    strays: dict[int, int] = field(default_factory=dict[int, int])
    """By offset: a value that a consumer was given there, where another was said to be before."""
    early: dict[int, int] = field(default_factory=dict[int, int])
    """Values that were read when their sending had not ended yet, with the time of that."""
    failed_and_read: set[int] = field(default_factory=set[int])
    copies: dict[Copy, str] = field(default_factory=dict[Copy, str])
    """What is there twice, and how that was seen."""
    writers: dict[int, Writer] = field(default_factory=dict[int, Writer])
    """By offset, of those that have such a value."""
    gaps: list[Gap] = field(default_factory=list[Gap])
    consumers: dict[int, tuple[Any, int]] = field(default_factory=dict[int, tuple[Any, int]])
    """By process: its assignment, and the last offset that it was given."""
    was_read: bool = False
    """Whether there was a final read, be it of nothing."""
    is_ended: bool = False
    """Whether whoever read it in the end said that it was all there is."""
    last_final: int = NO_OFFSET
    last_polled: int = NO_OFFSET
    last_acked: int = NO_OFFSET
    last_acked_ns: int = 0
    is_vague: bool = False
    """Whether something was acknowledged, and not where."""
    end: End = NO_END
    lag_ns_max: int = 0

    @property
    def last_read(self) -> int:
        """The last offset that was read; consumers count if there was no final read."""
        return self.last_final if self.was_read else self.last_polled

    @property
    def is_read_to_the_end(self) -> bool:
        """Whether a final read has come to where the log ends, or to what was acknowledged.

        Behind the last record of a transaction there is the mark of its end, which nobody is given.
        """
        if self.is_ended:
            return self.was_read
        last = self.last_acked
        if self.end.called_ns > self.last_acked_ns:
            is_end_needed = self.is_vague and not self.is_transactional
            last = self.end.offset - 1 if is_end_needed else min(last, self.end.offset - 1)
        return self.was_read and self.last_final >= last

    def add_ack(self, value: int, ack: Ack) -> None:
        """Note that a value was acknowledged."""
        self.acked[value] = ack
        self.is_vague |= ack.offset == NO_OFFSET
        self.last_acked = max(self.last_acked, ack.offset)
        self.last_acked_ns = max(self.last_acked_ns, ack.returned_ns)

    def ends_at(self, offset: int, epoch: int, operation: Operation) -> None:
        """Note where the log was said to end; the newest leader knows best."""
        if epoch >= self.end.epoch:
            if epoch == self.end.epoch:
                offset = max(offset, self.end.offset)
            self.end = End(offset, epoch, operation.called_ns)

    def note_writers(self, batches: Sequence[Sequence[Any]]) -> None:
        """Note who wrote what is there twice, if the batches of a replica say."""
        wanted = sorted({at for copy in self.copies for at in (copy.offset, copy.again)})
        for base_offset, next_offset, _, _, *writer in batches if wanted else ():
            for at in wanted[bisect_left(wanted, base_offset) : bisect_left(wanted, next_offset)]:
                if writer:
                    self.writers.setdefault(at, Writer(*writer[0]))

    def reads(self, value: int, operation: Operation) -> None:
        """Note that a value was read of whose place nobody had said anything before."""
        if value in self.failed:
            self.failed_and_read.add(value)
        elif value not in self.acked and value not in self.unknown:
            assert operation.returned_ns is not None, "what is known was told"
            self.early.setdefault(value, operation.returned_ns)

    def note_lag(self, offsets: Sequence[int], operation: Operation) -> None:
        """Note how long the first record that nobody was given before had been there."""
        first = max(self.last_polled + 1, offsets[0])
        if offsets[-1] < first:
            return
        value = self.values.get(first)
        ack = None if value is None else self.acked.get(value)
        if ack is not None:
            assert operation.returned_ns is not None, "what is known was told"
            self.lag_ns_max = max(self.lag_ns_max, operation.returned_ns - ack.returned_ns)

    def place(self, value: int, ack: Ack) -> int:
        """Return the offset at which an acknowledged value stands; NO_OFFSET if nobody knows.

        Without an offset that was told it is that at which it was read; with one of the leader
        alone, only if it was read there.
        """
        if ack.offset == NO_OFFSET:
            return self.offsets.get(value, NO_OFFSET)
        is_so = value not in self.by_leader_only or self.offsets.get(value) == ack.offset
        return ack.offset if is_so else NO_OFFSET

    def missing(self) -> Iterator[tuple[int, Ack]]:
        """Yield what was acknowledged and not read."""
        read = self.final if self.was_read else self.polled
        for value, ack in self.acked.items():
            if self.offsets.get(value, NO_OFFSET) not in read and value not in self.elsewhere:
                yield value, ack

    def is_gone(self, ack: Ack) -> bool:
        """Return whether a record that was not read can be read no more."""
        if self.is_ended:
            return True
        if ack.offset <= self.last_read and ack.offset != NO_OFFSET:
            return True
        if self.end.offset <= ack.offset and self.end.called_ns > ack.returned_ns:
            return True
        return ack.offset == NO_OFFSET and self.is_read_to_the_end
