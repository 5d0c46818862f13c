"""The replica checker: do all replicas of a partition hold the same records?

A ``replica`` is told ``[partition, broker, [[base offset, next offset, leader epoch, digest,
producer], ...]]``, where the producer may be missing: batches of a broker's log that lie below the
high watermark, in order, when all is healed; several operations may tell of one replica, one part
after the other. Brokers that retain less than others hold less at the beginning. Of a compacted
topic each holds what it has not compacted yet: of those only the epochs are judged. ``audit`` is
told ``[[partition, broker], ...]`` before: the replicas that there are to be read.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

SHOWN_BYTES: Final = 6
BATCH_FIELDS: Final = 4


class Batch(NamedTuple):
    """A batch in the log of a replica; the digest is of all its bytes."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    digest: bytes

    def __str__(self) -> str:
        digest = bytes(self.digest)[:SHOWN_BYTES].hex()
        return f"{self.base_offset} to {self.next_offset} of epoch {self.leader_epoch} ({digest})"


class ReplicaChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self, compacted: Iterable[str] = ()) -> None:
        """Begin; batches of compacted topics need not be alike."""
        self._compacted = frozenset(compacted)
        self._logs: dict[str, dict[int, list[Batch]]] = defaultdict(dict)
        self._found = Anomalies()
        self._to_audit: set[tuple[str, int]] | None = None
        self._unread: set[tuple[str, int]] = set()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "audit" and operation.kind is Kind.OK:
            self._to_audit = {(partition, broker) for partition, broker in operation.told}
        elif operation.name == "replica" and operation.kind is Kind.OK:
            self._add_batches(*operation.told)
        elif operation.name == "replica" and not isinstance(operation.told, str | None):
            partition, broker, _ = operation.told
            self._unread.add((partition, broker))

    @property
    def audited(self) -> tuple[int, int]:
        """How many replicas there were to be read in the end, and how many were, as a whole."""
        if self._to_audit is None:
            return 1, 0
        read = {(partition, broker) for partition, log in self._logs.items() for broker in log}
        return len(self._to_audit), len(self._to_audit & (read - self._unread))

    def _add_batches(self, partition: str, broker: int, batches: Iterable[Sequence[Any]]) -> None:
        log = self._logs[partition].setdefault(broker, [])
        compacted = partition.rpartition("-")[0] in self._compacted
        for fields in batches:
            batch = Batch(*fields[:BATCH_FIELDS])
            if log:
                self._check_step(partition, broker, log[-1], batch, compacted=compacted)
            log.append(batch)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for partition, by_broker in self._logs.items():
            if partition.rpartition("-")[0] not in self._compacted:
                self._compare(partition, by_broker)
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"replicas compared": sum(len(by_broker) for by_broker in self._logs.values())}

    def _check_step(
        self, partition: str, broker: int, before: Batch, batch: Batch, *, compacted: bool
    ) -> None:
        """Judge two batches that follow each other in a log."""
        where: dict[str, Any] = {"where": partition, "offsets": (batch.base_offset,)}
        of = f"{partition} on broker {broker}"
        if batch.base_offset < before.next_offset or (
            batch.base_offset > before.next_offset and not compacted
        ):
            self._found.add("replica-hole", f"{of}: {batch} follows {before}", **where)
        if batch.leader_epoch < before.leader_epoch:
            self._found.add("epoch-regression", f"{of}: {batch} follows {before}", **where)

    def _compare(self, partition: str, by_broker: dict[int, list[Batch]]) -> None:
        """Compare all replicas with the one that goes farthest."""
        ends = {b: log[-1].next_offset if log else 0 for b, log in by_broker.items()}
        best = max(sorted(ends), key=ends.__getitem__)
        for broker, log in sorted(by_broker.items()):
            self._compare_two(partition, (best, by_broker[best]), (broker, log))
            if ends[broker] < ends[best]:
                self._found.add(
                    "replica-behind",
                    f"{partition} ends at {ends[broker]} on broker {broker}, and at {ends[best]}"
                    f" on broker {best}",
                    where=partition,
                    offsets=(ends[broker], ends[best]),
                )

    def _compare_two(
        self, partition: str, one: tuple[int, Sequence[Batch]], other: tuple[int, Sequence[Batch]]
    ) -> None:
        """Find the first difference of two replicas, where both have something."""
        (one_id, ones), (other_id, others) = one, other
        if not ones or not others:
            return
        begin = max(ones[0].base_offset, others[0].base_offset)
        end = min(ones[-1].next_offset, others[-1].next_offset)
        first = (b for b in ones if begin <= b.base_offset < end)
        second = (b for b in others if begin <= b.base_offset < end)
        for mine, its in zip(first, second, strict=False):
            if mine != its:
                self._found.add(
                    "divergence",
                    f"{partition}: {mine} on broker {one_id}, {its} on broker {other_id}",
                    where=partition,
                    offsets=(min(mine.base_offset, its.base_offset),),
                )
                return
