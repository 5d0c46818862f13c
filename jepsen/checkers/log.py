"""The log checker: are partitions the append-only logs that producers and consumers were told of?

The vocabulary is that of Jepsen's Kafka workload. A ``send`` asks for ``[partition, value]`` and is
told the offset, or None if it heard none; every value is sent once. A ``poll`` asks with the number
of the consumer's assignment (any seek or rebalance begins another one) and is told ``[[partition,
offsets, values], ...]``; so is a ``read``, by which a consumer of its own reads everything in the
end.

One pass, with memory for what is in the logs, and not for what was read of it again and again.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

NO_OFFSET: Final = -1


class _Ack(NamedTuple):
    """An acknowledged send; the offset is NO_OFFSET if the client never learned it."""

    process: int
    offset: int
    called_ns: int
    returned_ns: int


class _Span(NamedTuple):
    """Part of what a consumer was given: the first and the last offset, and those if with gaps."""

    process: int
    assignment: int
    offsets: Sequence[int]


@dataclass(slots=True)
class _Partition:
    """What is known of one partition."""

    values: dict[int, int] = field(default_factory=dict[int, int])
    """By offset: the first value that was said to be there."""
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    """By value: the first offset that it was said to have."""
    sent: set[int] = field(default_factory=set[int])
    failed: set[int] = field(default_factory=set[int])
    acked: dict[int, _Ack] = field(default_factory=dict[int, _Ack])
    read: set[int] = field(default_factory=set[int])
    spans: list[_Span] = field(default_factory=list[_Span])
    last_read: int = NO_OFFSET


class LogChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "send":
            self._add_send(operation)
        elif operation.name in {"poll", "read"} and operation.kind is Kind.OK:
            for name, offsets, values in operation.told:
                self._add_read(operation, name, offsets, values)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for name, partition in self._partitions.items():
            self._check_phantoms(name, partition)
            self._check_acked(name, partition)
            self._check_send_order(name, partition)
            self._check_real_time(name, partition)
            self._check_polls(name, partition)
        return self._found

    # --- as operations end ----------------------------------------------------

    def _partition(self, name: str) -> _Partition:
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _Partition()
        return partition

    def _add_send(self, operation: Operation) -> None:
        name, value = operation.asked
        partition = self._partition(name)
        partition.sent.add(value)
        if operation.kind is Kind.FAIL:
            partition.failed.add(value)
        elif operation.kind is Kind.OK:
            offset = NO_OFFSET if operation.told is None else operation.told
            assert operation.returned_ns is not None, "what is known was told"
            partition.acked[value] = _Ack(
                operation.process, offset, operation.called_ns, operation.returned_ns
            )
            if offset != NO_OFFSET:
                self._place(name, partition, offset, value, "acknowledged")

    def _add_read(
        self, operation: Operation, name: str, offsets: Sequence[int], values: Sequence[int]
    ) -> None:
        if not offsets:
            return
        partition = self._partition(name)
        for offset, value in zip(offsets, values, strict=True):
            if partition.values.get(offset) != value or partition.offsets.get(value) != offset:
                self._place(name, partition, offset, value, "read")
        partition.read.update(values)
        partition.last_read = max(partition.last_read, *offsets)
        dense = range(offsets[0], offsets[0] + len(offsets))
        span = dense if offsets[-1] == dense[-1] and all(map(int.__eq__, offsets, dense)) else None
        assignment = operation.asked if operation.name == "poll" else 0
        partition.spans.append(_Span(operation.process, assignment, span or tuple(offsets)))

    def _place(self, name: str, partition: _Partition, offset: int, value: int, how: str) -> None:
        """Take note that a value was said to be at an offset."""
        there = partition.values.setdefault(offset, value)
        if there != value:
            self._found.add(
                "inconsistent-offsets",
                f"{name}: offset {offset} has two values, {there} and {value}",
                f"{value} was {how} there",
            )
        before = partition.offsets.setdefault(value, offset)
        if before != offset:
            self._found.add(
                "duplicate",
                f"{name}: {value} is at offsets {before} and {offset}",
                f"it was {how} at {offset}",
            )

    # --- in the end -----------------------------------------------------------

    def _check_phantoms(self, name: str, partition: _Partition) -> None:
        for value in sorted(partition.read - partition.sent):
            offset = partition.offsets[value]
            self._found.add("phantom", f"{name}: {value}, read at {offset}, was never sent")
        for value in sorted(partition.read & partition.failed):
            offset = partition.offsets[value]
            self._found.add("aborted-read", f"{name}: {value}, read at {offset}, failed")

    def _check_acked(self, name: str, partition: _Partition) -> None:
        """Find what was acknowledged and not read: lost, if more was read behind it."""
        for value, ack in partition.acked.items():
            if value in partition.read:
                continue
            offset = ack.offset
            at = "an offset nobody knows" if offset == NO_OFFSET else f"offset {offset}"
            evidence = f"process {ack.process} was told so at {ack.returned_ns} ns"
            if offset == NO_OFFSET or offset <= partition.last_read:
                what = f"{name}: {value} was acknowledged at {at}, and is gone"
                self._found.add("lost-write", what, evidence)
            else:
                what = (
                    f"{name}: {value} was acknowledged at {at}; nothing was read behind"
                    f" {partition.last_read}"
                )
                self._found.add("unseen", what, evidence)

    def _check_send_order(self, name: str, partition: _Partition) -> None:
        """Find a process whose records do not stand in the order in which it sent them."""
        last: dict[int, tuple[int, int]] = {}
        placed = (
            (ack.called_ns, ack.process, ack.offset, value)
            for value, ack in partition.acked.items()
            if ack.offset != NO_OFFSET
        )
        for _, process, offset, value in sorted(placed):
            before, before_offset = last.get(process, (value, NO_OFFSET))
            if offset < before_offset:
                self._found.add(
                    "nonmonotonic-send",
                    f"{name}: process {process} sent {before} before {value}, which are at"
                    f" {before_offset} and {offset}",
                )
            last[process] = (value, offset)

    def _check_real_time(self, name: str, partition: _Partition) -> None:
        """Find a send that began after another had ended, and has the lower offset."""
        placed = [(v, a) for v, a in partition.acked.items() if a.offset != NO_OFFSET]
        ended = sorted(placed, key=lambda sent: sent[1].returned_ns)
        done, highest, highest_value = 0, NO_OFFSET, 0
        for value, ack in sorted(placed, key=lambda sent: sent[1].called_ns):
            while ended[done][1].returned_ns < ack.called_ns:
                if ended[done][1].offset > highest:
                    highest_value, highest = ended[done][0], ended[done][1].offset
                done += 1
            if ack.offset < highest:
                self._found.add(
                    "realtime-order",
                    f"{name}: {value} at {ack.offset} was sent when {highest_value} at {highest}"
                    " had been acknowledged",
                )

    def _check_polls(self, name: str, partition: _Partition) -> None:
        """Find consumers that went back, or left out what is known to exist."""
        known = sorted(partition.values)
        last: dict[tuple[int, int], int] = {}
        for process, assignment, offsets in partition.spans:
            before = last.get((process, assignment))
            if before is not None:
                self._check_step(name, known, "", before, offsets[0])
            if not isinstance(offsets, range):
                for one, other in pairwise(offsets):
                    self._check_step(name, known, "int-", one, other)
            last[process, assignment] = offsets[-1]

    def _check_step(self, name: str, known: list[int], how: str, one: int, other: int) -> None:
        """Judge what a consumer was given after one offset; ``how`` says whether in one poll."""
        if other <= one:
            what = f"{name}: a consumer was given {other} after {one}"
            self._found.add(f"{how}nonmonotonic-poll", what)
        elif other > one + 1:
            skipped = known[bisect_left(known, one + 1) : bisect_left(known, other)]
            if skipped:
                what = f"{name}: a consumer was given {other} after {one}; there is {skipped[0]}"
                self._found.add(f"{how}poll-skip", what)
