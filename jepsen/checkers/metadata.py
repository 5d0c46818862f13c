"""The metadata checker: who led which partition, who was in sync, and might it be so?

It goes by the log of the controllers' decisions, ``metadata-log`` (see the module
``metadata_log``), and by what was seen while it went on, ``view``, told ``{"partitions":
{partition: [leader, epoch, isr]}}``, and ``"disputed"``, ``[[partition, leader, epoch, isr],
...]``, if somebody says of the same epoch that another one leads. A ``high-watermark`` asks for a
broker's id and is told ``[[partition, high watermark, leader epoch], ...]`` of what that broker
leads.
"""

from collections import defaultdict
from typing import Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.metadata_log import NOBODY, Decision, MetadataLog
from quorate.jepsen.history import Kind, Operation

ALTERED_BY: Final = "AlterPartition by leader "
"""What the log says of a change that the leader proposed."""


class _Mark(NamedTuple):
    """The highest high watermark that a broker told in an epoch."""

    offset: int
    returned_ns: int


class MetadataChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self.is_read = False
        self._log = MetadataLog()
        self._decided: dict[tuple[str, int], set[int]] = defaultdict(set)
        """By partition and leader epoch: who led, in any topic of that name."""
        self._seen: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        """Likewise out of views, with the time of each."""
        self._created_again: set[str] = set()
        self._marks: dict[tuple[str, int, int], _Mark] = {}
        self._epochs_seen: dict[str, int] = {}
        self._leader_changes_seen = 0
        self._leader_changes = 0
        self._is_loaded = False
        self._found = Anomalies()

    @property
    def leader_changes(self) -> int:
        """How many new leader epochs were seen while clients sent."""
        return self._leader_changes_seen

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        name = operation.name
        if name in {"create", "delete"} and operation.kind is not Kind.FAIL:
            asked = operation.asked
            self._created_again.add(asked if isinstance(asked, str) else asked[0])
        elif operation.kind is Kind.OK:
            self._add_told(operation)

    def _add_told(self, operation: Operation) -> None:
        name, told = operation.name, operation.told
        if name == "phase":
            self._is_loaded = told == "load"
        elif name == "view":
            for partition, (leader, epoch, isr) in told["partitions"].items():
                self._add_view(operation, partition, (leader, epoch), isr)
            for partition, leader, epoch, isr in told.get("disputed", ()):
                self._add_view(operation, partition, (leader, epoch), isr)
        elif name == "high-watermark":
            for partition, offset, *epoch in told:
                if epoch and partition.rpartition("-")[0] not in self._created_again:
                    self._add_mark(operation, partition, offset, epoch[0])
        elif name == "metadata-log":
            self.is_read |= operation.kind is Kind.OK and bool(operation.told)
            for before, after in self._log.read(operation):
                self._add_decision(before, after)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for (partition, epoch), seen in self._seen.items():
            decided = self._decided.get((partition, epoch))
            leaders = seen.keys() | (decided or set())
            is_partial = decided is None or self._log.is_partial
            if is_partial and partition.rpartition("-")[0] in self._created_again:
                continue  # it may have been another topic's epoch
            if len(leaders) > 1 and not (decided and seen.keys() <= decided):
                self._found.add(
                    "two-leaders",
                    f"{partition}: {sorted(leaders)} led in epoch {epoch}",
                    where=partition,
                    at_ns=tuple(seen.values()),
                )
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {
            "leader changes seen under load": self._leader_changes_seen,
            "leader changes decided": self._leader_changes,
        }

    # --- what was seen

    def _add_view(
        self,
        operation: Operation,
        partition: str,
        leadership: tuple[int | None, int],
        isr: list[int],
    ) -> None:
        leader, epoch = leadership
        before = self._epochs_seen.setdefault(partition, epoch)
        if epoch > before:
            self._epochs_seen[partition] = epoch
            self._leader_changes_seen += self._is_loaded
        if leader is None or leader == NOBODY:
            return
        self._seen[partition, epoch].setdefault(leader, operation.called_ns)
        if leader not in isr:
            self._found.add(
                "leader-not-in-sync",
                f"{partition}: {leader} leads in epoch {epoch}, in sync are {isr}",
                where=partition,
                at_ns=(operation.called_ns,),
            )

    def _add_mark(self, operation: Operation, partition: str, offset: int, epoch: int) -> None:
        """Judge a high watermark by those of the same broker and epoch before it was asked."""
        assert operation.returned_ns is not None, "what is known was told"
        key = partition, operation.asked, epoch
        before = self._marks.get(key)
        if before is not None and before.returned_ns < operation.called_ns:
            if offset < before.offset:
                self._found.add(
                    "hw-regression",
                    f"{partition}: the high watermark on broker {operation.asked} went from"
                    f" {before.offset} to {offset} in epoch {epoch}",
                    where=partition,
                    offsets=(offset, before.offset),
                    at_ns=(before.returned_ns, operation.called_ns),
                )
                return
        elif before is not None and before.offset > offset:
            return
        self._marks[key] = _Mark(offset, operation.returned_ns)

    # --- what was decided

    def _add_decision(self, before: Decision | None, after: Decision) -> None:
        partition, epoch = after.partition, after.epoch
        if after.leader != NOBODY:
            self._decided[partition, epoch].add(after.leader)
            if after.leader not in after.isr:
                self._add_wrong("leader-not-in-sync", after, f"in sync are {list(after.isr)}")
        if not set(after.isr) <= set(after.replicas):
            self._add_wrong("isr-not-replicas", after, f"replicas are {list(after.replicas)}")
        if before is None:
            return
        if epoch < before.epoch:
            self._add_wrong("epoch-regression", after, f"the epoch was {before.epoch}")
        elif epoch > before.epoch:
            self._leader_changes += 1
        elif after.leader != before.leader:
            self._add_wrong("two-leaders", after, f"{before.leader} led in that epoch")
        if after.leader not in {NOBODY, before.leader}:
            self._check_election(before, after)

    def _check_election(self, before: Decision, after: Decision) -> None:
        """See that the new leader has all that is committed.

        Whoever led may take somebody into the ISR and hand over to it at once (it shuts down, or is
        no replica any more): it waits for whom it proposed as if they were in sync already.

        If nobody is known to, whoever led last may lead again: nobody else can have more. That may
        be decided together with that somebody is not eligible any more.
        """
        if after.leader in before.isr or after.leader in before.elr:
            return
        if after.cause == f"{ALTERED_BY}{before.leader}" and after.leader in after.isr:
            return
        nobody_else = not before.isr and not after.elr
        if nobody_else and after.leader == before.last_known_leader:
            return
        self._add_wrong(
            "unclean-election",
            after,
            f"in sync were {list(before.isr)}, eligible {list(before.elr)}",
        )

    def _add_wrong(self, name: str, after: Decision, why: str) -> None:
        self._found.add(
            name,
            f"{after.partition}: {after.leader} leads in epoch {after.epoch}, and {why}",
            f"metadata offset {after.offset}: {after.cause}",
            where=after.partition,
        )
