"""The acceptance checker: might whoever acknowledged a record do so, then?

It joins acknowledged ``send`` operations (acks=all, told ``[offset, broker]`` or ``[offset, broker,
epoch]``) with the replicas' batches (``replica``), the controllers' decisions (``metadata-log``)
and the faults. What it shows:

- whoever acknowledged a record led in the epoch in which it was appended, or in a later one (in
  which a repeated record is answered with the offset that it has since then);
- while a broker certainly did nothing (a fault whose detail names it as ``silent`` was seen to
  bite, and nothing else was done to it since), what was sent since then is not in its log. So when
  that was acknowledged, the controllers had decided on an ISR without it: the time that they wrote
  down is not later than that of the acknowledgement (the header's ``clock`` compares the two);
- the same of a broker that is cut off from the one that acknowledged, in one direction at least.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.log import ACKS_ALL
from quorate.jepsen.checkers.metadata_log import NOBODY, Decision, MetadataLog
from quorate.jepsen.checkers.silence import Cuts, Silences
from quorate.jepsen.history import Kind, Operation

CLOCK_SLACK_MS: Final = 50
"""So much may two clocks of one machine drift apart while a run lasts."""
NO_EPOCH: Final = -1


class _Ack(NamedTuple):
    """An acknowledgement, by whom and in which epoch, if that was told."""

    offset: int
    broker: int
    epoch: int
    value: int
    returned_ns: int


class _Witness(NamedTuple):
    """A record that a silent broker cannot have had when it was acknowledged."""

    partition: str
    broker: str
    value: int
    offset: int
    called_ns: int
    returned_ns: int


class AcceptanceChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(
        self, acks: str = ACKS_ALL, clock: Sequence[int] | None = None, brokers: int = 0
    ) -> None:
        """Begin.

        Args:
            acks: of sends that do not say their own.
            brokers: how many there are: the first so many places of the network.
            clock: the time of day in milliseconds at a moment of the history's clock; None if the
                controllers' clocks cannot be compared with that.
        """
        self._acks = acks
        self._clock = clock
        self._log = MetadataLog()
        self._decisions: dict[str, list[Decision]] = defaultdict(list)
        self._acked: dict[str, list[_Ack]] = defaultdict(list)
        self._batches: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        self._silences = Silences()
        self._cuts = Cuts(brokers)
        self._missed: dict[tuple[str, str], _Witness] = {}
        """By broker and partition: the first record that a silent broker missed."""
        self._unheard: dict[tuple[str, str], _Witness] = {}
        """Likewise of a broker that is cut off from who acknowledged it."""
        self._witnesses: list[_Witness] = []
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        name = operation.name
        if name in {"fault", "heal"}:
            for broker in self._silences.heed(operation):
                self._end_silence(self._missed, broker, operation)
            for broker in self._cuts.heed(operation):
                self._end_silence(self._unheard, broker, operation)
        elif operation.kind is not Kind.OK:
            return
        elif name == "send":
            self._add_ack(operation)
        elif name == "replica":
            partition, _, batches = operation.told
            epochs = self._batches[partition]
            for base_offset, next_offset, epoch, *_ in batches:
                epochs.setdefault(base_offset, (next_offset, epoch))
        elif name == "metadata-log":
            for _, decision in self._log.read(operation):
                self._decisions[decision.partition].append(decision)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        self._witnesses += (*self._missed.values(), *self._unheard.values())
        for partition, acks in self._acked.items():
            self._check_epochs(partition, acks)
        if self._clock is not None and self._decisions:
            wall_ms, monotonic_ns = self._clock
            for witness in self._witnesses:
                at_ms = wall_ms + (witness.returned_ns - monotonic_ns) / 1e6
                self._check_isr(witness, at_ms + CLOCK_SLACK_MS)
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {
            "acknowledged by a known broker": sum(map(len, self._acked.values())),
            "acknowledged without a silent replica": len(self._witnesses),
        }

    # --- as operations end ----------------------------------------------------

    def _add_ack(self, operation: Operation) -> None:
        asked, told = operation.asked, operation.told
        acks = asked[4] if len(asked) > 4 else self._acks
        if acks != ACKS_ALL or told is None:
            return
        assert operation.returned_ns is not None, "what is known was told"
        partition, value = asked[0], asked[1]
        offset = told if isinstance(told, int) else told[0]
        if offset is None:
            return
        if not isinstance(told, int):
            epoch = told[2] if len(told) > 2 else NO_EPOCH
            ack = _Ack(offset, told[1], epoch, value, operation.returned_ns)
            self._acked[partition].append(ack)
            for broker, since_ns in self._cuts.from_leader(told[1]).items():
                if operation.called_ns > since_ns:
                    self._note(self._unheard, broker, operation, offset)
        for broker, since_ns in self._silences.since_ns.items():
            if operation.called_ns > since_ns:
                self._note(self._missed, broker, operation, offset)

    @staticmethod
    def _note(
        missed: dict[tuple[str, str], _Witness], broker: str, operation: Operation, offset: int
    ) -> None:
        """Note that a broker lacks what was acknowledged; the first such record is enough."""
        partition, value = operation.asked[:2]
        if (broker, partition) not in missed:
            assert operation.returned_ns is not None, "what is known was told"
            missed[broker, partition] = _Witness(
                partition, broker, value, offset, operation.called_ns, operation.returned_ns
            )

    def _end_silence(
        self, missed: dict[tuple[str, str], _Witness], broker: str, operation: Operation
    ) -> None:
        """Keep what a broker missed before this operation began."""
        for key in [key for key in missed if key[0] == broker]:
            witness = missed.pop(key)
            if witness.returned_ns < operation.called_ns:
                self._witnesses.append(witness)

    # --- in the end -----------------------------------------------------------

    def _check_epochs(self, partition: str, acks: list[_Ack]) -> None:
        """Find acknowledgements by leaders of older epochs than the record that is there."""
        led: dict[int, int] = {}
        for decision in self._decisions.get(partition, ()):
            if decision.leader != NOBODY:
                led[decision.leader] = max(decision.epoch, led.get(decision.leader, 0))
        batches = self._batches.get(partition, {})
        begins = sorted(batches)
        for ack in acks:
            at = bisect_right(begins, ack.offset) - 1
            if at < 0 or ack.offset >= batches[begins[at]][0]:
                continue
            epoch = batches[begins[at]][1]
            own = ack.epoch if ack.epoch != NO_EPOCH else led.get(ack.broker, epoch)
            if own < epoch:
                self._found.add(
                    "stale-leader-accept",
                    f"{partition}: broker {ack.broker} acknowledged {ack.value} at {ack.offset} in"
                    f" epoch {own} at most; what is there was appended in epoch {epoch}",
                    where=partition,
                    offsets=(ack.offset,),
                    at_ns=(ack.returned_ns,),
                )

    def _check_isr(self, witness: _Witness, until_ms: float) -> None:
        """See that the ISR did without a broker by then."""
        broker = int(witness.broker.rpartition("-")[2])
        decisions = self._decisions.get(witness.partition, ())
        known: Decision | None = None
        for decision in decisions:
            if decision.is_fact:
                known = None
            elif decision.time_ms is None or decision.time_ms <= until_ms:
                known = decision
        if known is None or broker not in known.isr:
            return
        self._found.add(
            "ack-before-isr",
            f"{witness.partition}: {witness.value} was acknowledged at {witness.offset} when"
            f" {witness.broker} was in the ISR {list(known.isr)}, and had not got it",
            f"{witness.broker} did or heard nothing since before it was sent at"
            f" {witness.called_ns} ns",
            f"metadata offset {known.offset}: {known.cause}",
            where=witness.partition,
            offsets=(witness.offset,),
            at_ns=(witness.called_ns, witness.returned_ns),
        )
