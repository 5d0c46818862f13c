"""One pass over a history: all that pictures of it need, in memory that does not grow with it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple, cast

from quorate.dataclass import dataclass
from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.report.buckets import Histogram, Series, TimeGrid, latency_bin

HARNESS: Final = frozenset(
    {
        *("fault", "heal", "phase", "view", "replica", "metadata-log", "high-watermark"),
        *("assign", "gone", "cut", "complaint", "audit", "read-end", "position"),
    }
)
"""What is no call to the cluster, and has no latency worth a picture."""

WRITES: Final = frozenset(
    {"send", "txn", "commit", "reset", "put", "cas", "create", "delete", "grow"}
)

PARTITIONS_MAX: Final = 256
"""So many partitions are followed over time, those that come first."""

FAULTS_MAX: Final = 2_000
"""So many faults are kept one by one; all are counted."""

BINS_PER_ROW: Final = 3
"""Of the latencies' bins, in pictures."""

NEVER_ROW: Final = -1
"""The row of operations that never returned."""


class PointKey(NamedTuple):
    """Which points of a picture of latencies: their row, and how the operations ended."""

    row: int
    kind: Kind


@dataclass(slots=True)
class FaultBar:
    """A fault, as long as it lasted.

    Attributes:
        targets: who it was done to.
        verified: what showed that it bit; "" if nothing did.
        failed: it could not be made to happen.
        healed_ns: None if the history ends before.
    """

    name: str
    targets: tuple[str, ...]
    detail: str
    begun_ns: int
    verified: str
    failed: bool
    healed_ns: int | None = None


class PartitionState(NamedTuple):
    """What the cluster said of a partition; leader -1 is none."""

    leader: int
    epoch: int
    isr: tuple[int, ...]


@dataclass(slots=True)
class Acks:
    """When a partition last acknowledged something, and the longest time without.

    Before it ever has, from the first time on that somebody asked for it.
    """

    last_ns: int
    gap_ns: int = 0
    gap_from_ns: int = 0

    def wait(self, until_ns: int) -> None:
        """Note that there was nothing from the last one until then."""
        if until_ns - self.last_ns > self.gap_ns:
            self.gap_ns, self.gap_from_ns = until_ns - self.last_ns, self.last_ns


@dataclass(slots=True)
class Gathered:
    """What was gathered of a run.

    Attributes:
        points: by operation: how many there are in a bucket, row and kind.
        outcomes: how many ended in a bucket, by operation and kind.
        acks: acknowledged sends, by partition.
        unseen: the most acknowledged records that nobody had read yet.
        states: partitions as the cluster showed them; ``controllers``: the active one, by "".
        gaps: by partition: the longest time without an acknowledgement, under load.
        deleted: topics that were: who writes to one waits in vain.
    """

    header: Mapping[str, Any]
    grid: TimeGrid = field(default_factory=TimeGrid)
    points: dict[str, Series[PointKey, int]] = field(default_factory=dict[str, Any])
    latencies: dict[str, Histogram] = field(default_factory=dict[str, Histogram])
    totals: dict[tuple[str, Kind], int] = field(default_factory=lambda: defaultdict(int))
    faults: list[FaultBar] = field(default_factory=list[FaultBar])
    fault_counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    phases: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    gaps: dict[str, Acks] = field(default_factory=dict[str, Acks])
    deleted: set[str] = field(default_factory=set[str])
    leader_changes: int = 0
    unseen_last: int = 0
    partitions_left_out: int = 0
    outcomes: Series[tuple[str, Kind], int] = field(init=False)
    acks: Series[str, int] = field(init=False)
    unseen: Series[str, int] = field(init=False)
    states: Series[str, PartitionState] = field(init=False)
    controllers: Series[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.outcomes = self.grid.counts()
        self.acks = self.grid.counts()
        self.unseen = self.grid.highest()
        self.states = self.grid.states()
        self.controllers = self.grid.states()

    @property
    def operations(self) -> int:
        """How many there were, the harness's own not counted."""
        return sum(count for (name, _), count in self.totals.items() if name not in HARNESS)

    def count(self, kind: Kind) -> int:
        """Return how many operations ended in a way."""
        return sum(n for (name, k), n in self.totals.items() if k is kind and name not in HARNESS)

    @property
    def fault_total(self) -> int:
        """How many faults there were."""
        return sum(self.fault_counts.values())

    @property
    def faults_bit(self) -> int:
        """How many of them were seen to bite."""
        return sum(n for (_, outcome), n in self.fault_counts.items() if outcome == "bit")

    def names(self) -> list[str]:
        """Return the operations' names, the most frequent first."""
        sums: dict[str, int] = defaultdict(int)
        for (name, _), count in self.totals.items():
            if name not in HARNESS:
                sums[name] += count
        return sorted(sums, key=lambda name: (-sums[name], name))


class Gatherer:
    """Takes the operations of a history in the order of their ends.

    State: what a picture needs, and the last state of everything that has one.
    """

    def __init__(self, header: Mapping[str, Any], start_ns: int | None = None) -> None:
        self.result = Gathered(header)
        self.result.grid.start_ns = start_ns
        self._open_faults: dict[str, list[FaultBar]] = defaultdict(list)
        self._acked: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._unseen = 0
        self._states: dict[str, PartitionState] = {}
        self._known: set[str] = set()
        self._left_out: set[str] = set()
        self._under_load = True

    def add_all(self, operations: Iterable[Operation]) -> Gathered:
        """Take all operations, and return what was gathered."""
        for _ in self.watch(operations):
            pass
        return self.result

    def watch(self, operations: Iterable[Operation]) -> Iterator[Operation]:
        """Take all operations as they pass to somebody else."""
        for operation in operations:
            self.add(operation)
            yield operation
        self.result.partitions_left_out = len(self._left_out)

    def add(self, operation: Operation) -> None:
        """Take an operation."""
        name = operation.name
        if name in HARNESS:
            self._add_harness(operation)
            return
        result = self.result
        result.totals[name, operation.kind] += 1
        self._add_point(operation)
        if operation.returned_ns is not None:
            bucket = result.grid.bucket(operation.returned_ns)
            result.outcomes.put(bucket, (name, operation.kind), 1)
        if name == "send" and operation.kind is Kind.OK:
            self._add_ack(operation)
        elif name == "send":
            self._add_failure(operation)
        elif name == "delete" and operation.kind is not Kind.FAIL:
            result.deleted.add(operation.asked)
        elif operation.kind is Kind.OK and name in {"poll", "read"}:
            self._add_read(operation)

    def _add_point(self, operation: Operation) -> None:
        name, grid = operation.name, self.result.grid
        points = self.result.points.get(name)
        if points is None:
            points = self.result.points[name] = grid.counts()
            self.result.latencies[name] = Histogram()
        if operation.returned_ns is None:
            row = NEVER_ROW
        else:
            latency_ns = operation.returned_ns - operation.called_ns
            number = latency_bin(latency_ns)
            row = number // BINS_PER_ROW
            if operation.kind is Kind.OK:
                self.result.latencies[name].add(latency_ns, number)
        points.put(grid.bucket(operation.called_ns), PointKey(row, operation.kind), 1)

    # --- records ----------------------------------------------------------------

    def _follows(self, partition: str) -> bool:
        if partition in self._known:
            return True
        if len(self._known) < PARTITIONS_MAX:
            self._known.add(partition)
            return True
        self._left_out.add(partition)
        return False

    def _add_ack(self, operation: Operation) -> None:
        partition, now_ns = operation.asked[0], operation.returned_ns
        if now_ns is None or not self._follows(partition):
            return
        bucket = self.result.grid.bucket(now_ns)
        self.result.acks.put(bucket, partition, 1)
        if self._under_load:
            self._add_gap(partition, now_ns)
        offset = acked_offset(operation)
        if offset is not None:
            self._move(self._acked, partition, offset, bucket)

    def _add_failure(self, operation: Operation) -> None:
        """Note for how long a partition took nothing, as somebody tried in vain."""
        partition = operation.asked[0]
        if self._follows(partition):
            until_ns = operation.returned_ns or operation.called_ns
            acks = self.result.gaps.setdefault(partition, Acks(operation.called_ns))
            acks.wait(until_ns)

    def _add_gap(self, partition: str, now_ns: int) -> None:
        acks = self.result.gaps.setdefault(partition, Acks(now_ns))
        acks.wait(now_ns)
        acks.last_ns = max(acks.last_ns, now_ns)

    def _add_read(self, operation: Operation) -> None:
        if operation.returned_ns is None:
            return
        bucket = self.result.grid.bucket(operation.returned_ns)
        for partition, offsets, *_ in operation.told:
            if offsets and self._follows(partition):
                self._move(self._read, partition, max(offsets), bucket)

    def _move(self, positions: dict[str, int], partition: str, offset: int, bucket: int) -> None:
        """Move what was acknowledged, or read, on to an offset; note how far they are apart."""
        before = self._behind(partition)
        positions[partition] = max(positions.get(partition, -1), offset)
        self._unseen += self._behind(partition) - before
        self.result.unseen.put(bucket, "", self._unseen)
        self.result.unseen_last = self._unseen

    def _behind(self, partition: str) -> int:
        return max(0, self._acked.get(partition, -1) - self._read.get(partition, -1))

    # --- what the harness itself does -------------------------------------------

    def _add_harness(self, operation: Operation) -> None:
        match operation.name:
            case "fault":
                self._add_fault(operation)
            case "heal":
                self._add_heal(operation)
            case "phase" if operation.kind is Kind.OK:
                self.result.phases.append((operation.called_ns, str(operation.told)))
                self._under_load = operation.told not in {"final", "end"}
            case "view" if operation.kind is Kind.OK:
                self._add_view(operation)
            case _:
                pass

    def _add_fault(self, operation: Operation) -> None:
        asked, told = _mapping(operation.asked), _mapping(operation.told)
        name = str(asked.get("fault", operation.asked))
        bar = FaultBar(
            name,
            tuple(str(target) for target in asked.get("targets", ())),
            _detail_text(asked.get("detail")),
            operation.called_ns,
            str(told.get("verified", "")),
            failed=operation.kind is not Kind.OK,
        )
        outcome = "failed" if bar.failed else "bit" if bar.verified else "unseen"
        self.result.fault_counts[name, outcome] += 1
        if not bar.failed:
            self._open_faults[name].append(bar)
        self.result.grid.bucket(operation.called_ns)
        if len(self.result.faults) < FAULTS_MAX:
            self.result.faults.append(bar)

    def _add_heal(self, operation: Operation) -> None:
        """End the newest fault of a name, once it is healed; if that failed, it may go on."""
        name = str(_mapping(operation.asked).get("fault", operation.asked))
        bars = self._open_faults[name]
        if bars and operation.kind is Kind.OK:
            bar = bars.pop()
            bar.healed_ns = operation.returned_ns
            if seen_late := str(_mapping(operation.told).get("verified", "")):
                bar.verified = seen_late
                self.result.fault_counts[name, "unseen"] -= 1
                self.result.fault_counts[name, "bit"] += 1

    def _add_view(self, operation: Operation) -> None:
        told = _mapping(operation.told)
        bucket = self.result.grid.bucket(operation.called_ns)
        controller = told.get("controller")
        self.result.controllers.put(bucket, "", -1 if controller is None else controller)
        for partition, (leader, epoch, isr) in told.get("partitions", {}).items():
            if not self._follows(partition):
                continue
            state = PartitionState(-1 if leader is None else leader, epoch, tuple(isr))
            before = self._states.get(partition)
            if state == before:
                continue
            if before is not None and state.epoch > before.epoch:
                self.result.leader_changes += 1
            self._states[partition] = state
            self.result.states.put(bucket, partition, state)


def acked_offset(operation: Operation) -> int | None:
    """Return the offset that an acknowledged send was told; None if it was told none."""
    told: Any = operation.told
    offset: object = cast("list[object]", told)[0] if isinstance(told, list) else told
    return offset if isinstance(offset, int) else None


def _detail_text(detail: Any) -> str:
    if isinstance(detail, dict):
        return ", ".join(f"{key} {value}" for key, value in _mapping(detail).items())
    return "" if detail is None else str(detail)


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping as it is, and an empty one instead of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
