"""The log checker: are partitions the append-only logs that producers and consumers were told of?

The vocabulary is that of Jepsen's Kafka workload. A ``send`` asks for ``[partition, value]``, or
``[partition, value, producer, sequence]`` where many of one producer are under way at once, and
``acks`` behind that if they are not the history's; it is told the offset, ``[offset, broker]``,
``[offset, broker, epoch]``, or None if the client heard no offset; every value is sent once. A
``poll`` asks with the number of the consumer's assignment (any seek or rebalance begins another
one), or with a list that begins with it, and is told ``[[partition, offsets, values], ...]``; so is
a ``read``, by which a consumer of its own reads everything in the end; ``read-end`` tells of which
partitions it certainly has. ``high-watermark`` and ``replica`` tell where a log ends; and
``replica`` which producer, of which epoch, wrote a batch: a broker knows that a record is there
already only if it comes from the same one.

A ``txn`` (see :mod:`quorate.jepsen.checkers.transactions`) sends all of its records at once, when
its commit is asked for: before that nobody may read them. Its partitions have nothing else in them,
and whoever reads them reads what is committed.

One pass, with memory for what is in the logs, and not for what was read of it again and again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.log_state import NO_OFFSET, Ack, Copy, Gap, Partition
from quorate.jepsen.history import Kind, Operation

ACKS_ALL: Final = "all"
LEADER_ONLY: Final = "1"
ACKS_NONE: Final = "0"
FINALLY: Final = "read in the end"
POLLED: Final = "read"
LATEST_EPOCH: Final = 1 << 62
"""Stands for the leader epoch of what was looked at when all had ended."""


class _Sent(NamedTuple):
    """What a ``send`` asks for."""

    partition: str
    value: int
    producer: Any
    sequence: int
    acks: str


class LogChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self, acks: str = ACKS_ALL) -> None:
        """Begin; ``acks`` are those of sends that do not say their own."""
        self._acks = acks
        self._partitions: dict[str, Partition] = {}
        self._deleted: set[str] = set()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "send":
            self._add_send(operation)
        elif operation.name == "txn":
            self._add_transaction(operation)
        elif operation.name == "delete" and operation.kind is not Kind.FAIL:
            self._deleted.add(operation.asked)
        elif operation.kind is Kind.OK:
            self._add_told(operation)

    def _add_told(self, operation: Operation) -> None:
        name, told = operation.name, operation.told
        if name in {"poll", "read"}:
            for part in told:
                self._add_read(operation, *part)
        elif name == "read-end":
            for partition in told:
                self._partition(partition).is_ended = True
        elif name == "high-watermark":
            for partition, end, *epoch in told:
                self._partition(partition).ends_at(end, epoch[0] if epoch else 0, operation)
        elif name == "replica":
            partition, batches = self._partition(told[0]), told[2]
            partition.ends_at(batches[-1][1] if batches else 0, LATEST_EPOCH, operation)
            partition.note_writers(batches)

    def finish(self, *, complete: bool = True) -> Anomalies:
        """Return all that is wrong; what was not read is not lost if the history is cut off.

        Topics that were deleted are another checker's: it takes less for granted.
        """
        found = Anomalies()
        for name, partition in self._partitions.items():
            if name.rpartition("-")[0] in self._deleted:
                continue
            self._check_copies(name, partition)
            self._check_phantoms(name, partition)
            self._check_dirty(name, partition)
            if partition.final or complete:
                self._check_acked(name, partition, complete=complete)
            self._check_send_order(name, partition)
            self._check_real_time(name, partition)
            self._check_gaps(name, partition)
            found.merge(partition.found)
        return found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        partitions = self._partitions.values()
        lag_ns = max((p.lag_ns_max for p in partitions), default=0)
        return {
            "sends": sum(len(p.acked) + len(p.failed) + len(p.unknown) for p in partitions),
            "acknowledged": sum(len(p.acked) for p in partitions),
            "failed": sum(len(p.failed) for p in partitions),
            "unknown": sum(len(p.unknown) for p in partitions),
            "unknown and read": sum(len(p.unknown & p.offsets.keys()) for p in partitions),
            "offsets read": sum(len(p.polled | p.final) for p in partitions),
            "worst real-time lag s": round(lag_ns / 1e9, 3),
        }

    def read_to_the_end(self) -> tuple[int, int]:
        """Return how many partitions something was acknowledged in, and how many were all read.

        Those of topics that were deleted do not count: most of what was in them has to be gone.
        """
        written = [
            partition
            for name, partition in self._partitions.items()
            if partition.acked and name.rpartition("-")[0] not in self._deleted
        ]
        return len(written), sum(p.is_read_to_the_end for p in written)

    # --- as operations end ----------------------------------------------------

    def _partition(self, name: str) -> Partition:
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = Partition()
        return partition

    def _add_send(self, operation: Operation) -> None:
        name, value, producer, sequence, acks = self._asked(operation)
        partition = self._partition(name)
        if operation.kind is Kind.FAIL:
            partition.failed.add(value)
            return
        read_ns = partition.early.pop(value, None)
        if read_ns is not None and read_ns < operation.called_ns:
            what = f"{name}: {value} was read before it was sent"
            at_ns = read_ns, operation.called_ns
            partition.found.add("future-read", what, where=name, at_ns=at_ns)
        if operation.kind is not Kind.OK or acks == ACKS_NONE:
            partition.unknown.add(value)
            if len(operation.asked) > 2:
                partition.ordered[value] = (producer, sequence)
            return
        told = operation.told
        offset = NO_OFFSET if told is None else told if isinstance(told, int) else told[0]
        assert operation.returned_ns is not None, "what is known was told"
        partition.add_ack(
            value, Ack(producer, sequence, offset, operation.called_ns, operation.returned_ns)
        )
        if acks == LEADER_ONLY:
            partition.by_leader_only.add(value)
        elif offset != NO_OFFSET:
            self._place(name, partition, offset, value, "acknowledged")

    def _add_transaction(self, operation: Operation) -> None:
        number, owner, instance, begun_ns, writes = operation.asked
        told = operation.told if operation.kind is Kind.OK and operation.told else None
        for at, (name, value, *_) in enumerate(writes):
            partition = self._partition(name)
            partition.is_transactional = True
            if operation.kind is Kind.FAIL:
                partition.failed.add(value)
                continue
            read_ns = partition.early.pop(value, None)
            if read_ns is not None and read_ns < operation.called_ns:
                what = f"{name}: {value} was read before its commit was asked for"
                why = f"transaction {number} of {owner}"
                at_ns = read_ns, operation.called_ns
                partition.found.add("uncommitted-read", what, why, where=name, at_ns=at_ns)
            place = number, at
            if operation.returned_ns is None or operation.kind is not Kind.OK:
                partition.unknown.add(value)
                partition.ordered[value] = instance, place
                continue
            offset = told[at] if told and told[at] is not None else NO_OFFSET
            ack = Ack(instance, place, offset, begun_ns, operation.returned_ns)
            partition.add_ack(value, ack)
            if offset != NO_OFFSET:
                self._place(name, partition, offset, value, "committed")

    def _asked(self, operation: Operation) -> _Sent:
        asked = operation.asked
        if len(asked) == 2:
            # A process does one thing after the other.
            name, value = asked
            return _Sent(name, value, operation.process, operation.called_ns, self._acks)
        name, value, producer, sequence, *acks = asked
        return _Sent(name, value, producer, sequence, acks[0] if acks else self._acks)

    def _add_read(
        self,
        operation: Operation,
        name: str,
        offsets: Sequence[int],
        values: Sequence[int],
        high_watermark: int | None = None,
    ) -> None:
        if not offsets:
            self._partition(name).was_read |= operation.name == "read"
            return
        partition = self._partition(name)
        is_final = operation.name == "read"
        how = FINALLY if is_final else POLLED
        wrong: list[int] = []
        value_at, offset_of = partition.values.get, partition.offsets.get
        for offset, value in zip(offsets, values, strict=True):
            if value_at(offset) == value and offset_of(value) == offset:
                continue
            if not self._place(name, partition, offset, value, how):
                wrong.append(offset)
            partition.reads(value, operation)
        if is_final:
            partition.was_read = True
            partition.final.update(offsets)
            partition.final.difference_update(wrong)
            partition.last_final = max(partition.last_final, *offsets)
        else:
            partition.note_lag(offsets, operation)
            partition.polled.update(offsets)
            partition.polled.difference_update(wrong)
            partition.last_polled = max(partition.last_polled, *offsets)
        if high_watermark is not None and offsets[-1] >= high_watermark:
            self._found_dirty(name, partition, offsets[-1], f"it was {high_watermark} then")
        self._follow(partition, operation, offsets)

    @staticmethod
    def _follow(partition: Partition, operation: Operation, offsets: Sequence[int]) -> None:
        """Note where a consumer goes back, or may leave out something."""
        asked = operation.asked
        assignment = asked if asked is None or isinstance(asked, int) else asked[0]
        before = partition.consumers.get(operation.process)
        first, last = offsets[0], offsets[-1]
        if before is not None and before[0] == assignment and first != before[1] + 1:
            partition.gaps.append(Gap("", before[1], first, operation.process))
        partition.consumers[operation.process] = assignment, last
        count = len(offsets)
        if last - first == count - 1 and all(map(int.__eq__, offsets, range(first, last + 1))):
            return
        partition.gaps.extend(
            Gap("int-", one, other, operation.process)
            for one, other in pairwise(offsets)
            if other != one + 1
        )

    def _place(self, name: str, partition: Partition, offset: int, value: int, how: str) -> bool:
        """Take note that a value was said to be at an offset; return whether it is the first."""
        there = partition.values.setdefault(offset, value)
        if there != value:
            partition.found.add(
                "inconsistent-offsets",
                f"{name}: offset {offset} has two values, {there} and {value}",
                f"{value} was {how} there",
                where=name,
                offsets=(offset,),
            )
            if offset in partition.polled:
                self._found_dirty(name, partition, offset, f"{value} was {how} there afterwards")
            if how == FINALLY:
                partition.elsewhere.add(value)
            elif how == POLLED:
                partition.strays[offset] = value
        before = partition.offsets.setdefault(value, offset)
        if before != offset:
            partition.copies.setdefault(Copy(value, before, offset), how)
            if how == FINALLY:
                partition.elsewhere.add(value)
        return there == value

    @staticmethod
    def _found_dirty(name: str, partition: Partition, offset: int, why: str) -> None:
        partition.found.add(
            "dirty-read",
            f"{name}: a consumer was given offset {offset}, not below the high watermark",
            why,
            where=name,
            offsets=(offset,),
        )

    # --- in the end -----------------------------------------------------------

    @staticmethod
    def _check_copies(name: str, partition: Partition) -> None:
        """Find what is there twice, and whether one producer wrote it, as far as that is known."""
        for copy, how in partition.copies.items():
            one, other = (partition.writers.get(at) for at in (copy.offset, copy.again))
            is_another = one is not None and other is not None and one != other
            is_another = is_another and not partition.is_transactional
            partition.found.add(
                "repeated-by-client" if is_another else "duplicate",
                f"{name}: {copy.value} is at offsets {copy.offset} and {copy.again}",
                f"it was {how} at {copy.again}",
                *((f"{one} wrote it, and {other}",) if one and other else ()),
                where=name,
                offsets=(copy.offset, copy.again),
            )

    @staticmethod
    def _check_phantoms(name: str, partition: Partition) -> None:
        failed = partition.early.keys() & partition.failed | partition.failed_and_read
        for value in sorted(partition.early.keys() - partition.failed):
            offset = partition.offsets[value]
            what = f"{name}: {value}, read at {offset}, was never sent"
            partition.found.add("phantom", what, where=name, offsets=(offset,))
        for value in sorted(failed):
            offset = partition.offsets[value]
            what = f"{name}: {value}, read at {offset}, failed"
            partition.found.add("aborted-read", what, where=name, offsets=(offset,))

    def _check_dirty(self, name: str, partition: Partition) -> None:
        """Find what a consumer was given and is not there in the end."""
        for offset in sorted(partition.strays.keys() & partition.final):
            there = partition.values[offset]
            why = f"it was {partition.strays[offset]}, and in the end there is {there}"
            self._found_dirty(name, partition, offset, why)
        end = partition.end
        for offset in sorted(partition.polled - partition.final):
            if partition.is_ended or offset <= partition.last_final:
                why = f"{partition.values[offset]} is not there any more"
                self._found_dirty(name, partition, offset, why)
            elif end.epoch == LATEST_EPOCH and offset >= end.offset:
                self._found_dirty(name, partition, offset, f"the log ends at {end.offset}")

    @staticmethod
    def _check_acked(name: str, partition: Partition, *, complete: bool) -> None:
        """Find what was acknowledged and not read: lost, if more was read or there is no more.

        If the history is cut off, what is behind all that was read may just not be read yet.
        """
        for value, ack in partition.missing():
            offset = ack.offset
            if not (complete or partition.is_ended or 0 <= offset <= partition.last_read):
                continue
            where = "an offset nobody knows" if offset == NO_OFFSET else f"offset {offset}"
            is_weak = value in partition.by_leader_only
            how = "acknowledged by the leader only" if is_weak else "acknowledged"
            if not partition.is_gone(ack):
                name_, end = "unseen", f"nothing was read behind {partition.last_read}"
            elif max(partition.last_read + 1, partition.end.offset) <= offset:
                name_, end = "lost-write", f"the log ends at {partition.end.offset}"
            else:
                name_, end = "lost-write", "and is gone"
            if partition.is_transactional and name_ == "lost-write":
                name_ = "lost-commit"
            elif is_weak and name_ == "lost-write":
                name_ = "acked-by-leader-only"
            comma = ", " if end == "and is gone" else "; "
            partition.found.add(
                name_,
                f"{name}: {value} was {how} at {where}{comma}{end}",
                f"producer {ack.producer} was told so at {ack.returned_ns} ns",
                where=name,
                offsets=() if offset == NO_OFFSET else (offset,),
                at_ns=(ack.called_ns, ack.returned_ns),
            )

    @staticmethod
    def _check_send_order(name: str, partition: Partition) -> None:
        """Find a producer whose records do not stand in the order in which it sent them."""
        for producer, sent in _by_producer(partition).items():
            for (_, one_offset, one), (_, other_offset, other) in pairwise(sorted(sent)):
                if other_offset < one_offset:
                    partition.found.add(
                        "nonmonotonic-send",
                        f"{name}: producer {producer} sent {one} before {other}, which are at"
                        f" {one_offset} and {other_offset}",
                        where=name,
                        offsets=(one_offset, other_offset),
                    )

    @staticmethod
    def _check_real_time(name: str, partition: Partition) -> None:
        """Find a send that began after another had ended, and has the lower offset."""
        placed = list(_placed(partition))
        ended = sorted(placed, key=lambda sent: sent[1].returned_ns)
        done, highest, highest_value = 0, NO_OFFSET, 0
        for value, ack in sorted(placed, key=lambda sent: sent[1].called_ns):
            while ended[done][1].returned_ns < ack.called_ns:
                if ended[done][1].offset > highest:
                    highest_value, highest = ended[done][0], ended[done][1].offset
                done += 1
            if ack.offset < highest:
                partition.found.add(
                    "realtime-order",
                    f"{name}: {value} at {ack.offset} was sent when {highest_value} at {highest}"
                    " had been acknowledged",
                    where=name,
                    offsets=(ack.offset, highest),
                    at_ns=(ack.called_ns, ack.returned_ns),
                )

    @staticmethod
    def _check_gaps(name: str, partition: Partition) -> None:
        """Find consumers that went back, or left out what is known to exist."""
        known = sorted(partition.values) if partition.gaps else []
        for how, one, other, process in partition.gaps:
            what = f"{name}: a consumer was given {other} after {one}"
            if other <= one:
                anomaly = f"{how}nonmonotonic-poll"
            else:
                skipped = known[bisect_left(known, one + 1) : bisect_left(known, other)]
                if not skipped:
                    continue
                anomaly = f"{how}poll-skip"
                what += f"; there is {skipped[0]}"
            fields = {"where": name, "offsets": (one, other), "processes": (process,)}
            partition.found.add(anomaly, what, **fields)


def _placed(partition: Partition) -> Iterator[tuple[int, Ack]]:
    """Yield what was acknowledged and stands somewhere, with the offset at which it does.

    What is there twice, and was told no offset, may be meant to stand at either.
    """
    twice = {copy.value for copy in partition.copies}
    for value, ack in partition.acked.items():
        offset = partition.place(value, ack)
        if offset != NO_OFFSET and (ack.offset != NO_OFFSET or value not in twice):
            yield value, ack._replace(offset=offset)


def _by_producer(partition: Partition) -> dict[Any, list[tuple[Any, int, int]]]:
    """Return (sequence, offset, value) of all that is known to stand somewhere, by producers."""
    sent: dict[Any, list[tuple[Any, int, int]]] = defaultdict(list)
    for value, ack in _placed(partition):
        sent[ack.producer].append((ack.sequence, ack.offset, value))
    for value, (producer, sequence) in partition.ordered.items():
        offset = partition.offsets.get(value)
        if offset is not None:
            sent[producer].append((sequence, offset, value))
    return sent
