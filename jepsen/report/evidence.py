"""A second pass over a history: the operations that prove an anomaly, and what lies around them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, cast

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies, Case
from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.report.gathering import acked_offset

PICTURES_PER_ANOMALY: Final = 3
"""So many cases of one name are drawn; the others are told."""

OFFSETS_MAX: Final = 15
"""Columns of a map of offsets."""
POSITIONS_MAX: Final = 240
"""Of a group in a partition, around an anomaly."""
SIGHTINGS_MAX: Final = 16
PROOFS_MAX: Final = 16
REGISTER_OPERATIONS_MAX: Final = 48

ON_BROKER: Final = "batch on "
"""What a sighting of a replica's batches begins with, whose values are epochs and digests."""

COMMITS: Final = frozenset(
    {
        *("commit-regression", "stale-committed-offset", "phantom-commit", "skipped-record"),
        *("nonlinearizable-commit", "zombie-commit"),
    }
)
"""Anomalies of where groups are, rather than of records."""

_COMMITS: Final = frozenset({"commit", "reset", "committed"})
_REGISTERS: Final = frozenset({"get", "put", "cas", "create", "delete", "describe"})


@dataclass(slots=True)
class Sighting:
    """Who was told which values at the offsets of a picture; those who saw the same are one.

    Attributes:
        how: ``acknowledged``, ``poll``, ``read`` or ``batch on 101``.
        first_ns: when that was first told.
    """

    how: str
    values: Mapping[int, object]
    first_ns: int
    times: int = 1
    processes: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Evidence:
    """What was found about a case.

    Attributes:
        columns: the offsets to be drawn, in order; ``bad`` are the case's.
        sightings: what was seen at those offsets.
        proofs: the operations that the checker named.
        register: those on the same key, in the order of their calls.
        positions: what groups committed, and were told, in the same partition.
    """

    name: str
    case: Case
    columns: tuple[int, ...] = ()
    bad: frozenset[int] = frozenset()
    sightings: list[Sighting] = field(default_factory=list[Sighting])
    proofs: list[Operation] = field(default_factory=list[Operation])
    register: list[Operation] = field(default_factory=list[Operation])
    positions: list["Position"] = field(default_factory=list["Position"])


class Position(NamedTuple):
    """Where a group was said to be in a partition."""

    at_ns: int
    offset: int
    operation: Operation


class _Seen(NamedTuple):
    """Part of what an operation was told about a partition."""

    how: str
    partition: str
    offsets: Sequence[int]
    values: Sequence[object]


def collect(anomalies: Anomalies, operations: Iterable[Operation]) -> list[Evidence]:
    """Return the evidence of the cases to be drawn, in the order of their names."""
    wanted = [
        _wanted(name, case)
        for name in sorted(anomalies.cases)
        for case in anomalies.cases[name][:PICTURES_PER_ANOMALY]
    ]
    moments: dict[int, list[Evidence]] = {}
    for evidence in wanted:
        for at_ns in evidence.case.at_ns:
            moments.setdefault(at_ns, []).append(evidence)
    places: dict[str, list[Evidence]] = {}
    for evidence in wanted:
        if evidence.case.where:
            places.setdefault(evidence.case.where, []).append(evidence)
    for operation in operations if wanted else ():
        _add_proof(moments, operation)
        _add_sightings(places, operation)
        if operation.name in _COMMITS:
            _add_positions(places, operation)
        if operation.name in _REGISTERS:
            for evidence in places.get(key_of(operation), ()):
                evidence.register.append(operation)
    for evidence in wanted:
        evidence.sightings = _most_telling(evidence)
        evidence.register = _around(evidence.register, evidence.case.at_ns)
        evidence.positions = _nearest(_of_group(evidence), evidence.case.at_ns)
    return wanted


def key_of(operation: Operation) -> str:
    """Return the key of an operation on a register."""
    asked: object = operation.asked
    return str(cast("list[object]", asked)[0] if isinstance(asked, list) else asked)


def _wanted(name: str, case: Case) -> Evidence:
    if not case.offsets or name in COMMITS:
        return Evidence(name, case)
    bad = sorted(set(case.offsets))[:OFFSETS_MAX]
    around = (OFFSETS_MAX - len(bad)) // (2 * len(bad))
    columns = {o for offset in bad for o in range(offset - around, offset + around + 1) if o >= 0}
    return Evidence(name, case, tuple(sorted(columns)), frozenset(bad))


def _add_proof(moments: Mapping[int, list[Evidence]], operation: Operation) -> None:
    found = moments.get(operation.called_ns, [])
    if operation.returned_ns is not None:
        found = [*found, *moments.get(operation.returned_ns, [])]
    for evidence in found:
        processes = evidence.case.processes
        known = not processes or operation.process in processes
        if known and operation not in evidence.proofs and len(evidence.proofs) < PROOFS_MAX:
            evidence.proofs.append(operation)


# --- offsets --------------------------------------------------------------------


def _add_sightings(places: Mapping[str, list[Evidence]], operation: Operation) -> None:
    if operation.kind is not Kind.OK or operation.returned_ns is None:
        return
    for seen in _seen(operation):
        for evidence in places.get(seen.partition, ()):
            if not (seen.offsets and evidence.columns):
                continue
            if min(seen.offsets) > evidence.columns[-1]:
                continue
            columns = set(evidence.columns)
            values = {
                offset: value
                for offset, value in zip(seen.offsets, seen.values, strict=False)
                if offset in columns
            }
            if values:
                _sight(evidence, seen.how, values, operation)


def _seen(operation: Operation) -> Iterable[_Seen]:
    if operation.name == "send":
        offset = acked_offset(operation)
        if offset is not None:
            yield _Seen("acknowledged", operation.asked[0], [offset], [operation.asked[1]])
    elif operation.name in {"poll", "read"}:
        for partition, offsets, values, *_ in operation.told:
            yield _Seen(operation.name, partition, offsets, values)
    elif operation.name == "replica":
        partition, broker_id, batches = operation.told
        digests = [f"e{epoch} {digest[:2].hex()}" for _, _, epoch, digest, *_ in batches]
        yield _Seen(f"{ON_BROKER}{broker_id}", partition, [batch[0] for batch in batches], digests)


def _sight(evidence: Evidence, how: str, values: dict[int, object], operation: Operation) -> None:
    """Take note of what was seen: acknowledgements join as long as they agree."""
    for sighting in evidence.sightings:
        if sighting.how != how:
            continue
        if how == "acknowledged" and sighting.values.keys().isdisjoint(values):
            sighting.values = {**sighting.values, **values}
        elif sighting.values != values:
            continue
        sighting.times += 1
        if operation.process not in sighting.processes:
            sighting.processes.append(operation.process)
        return
    assert operation.returned_ns is not None, "what was seen was told"
    evidence.sightings.append(
        Sighting(how, values, operation.returned_ns, processes=[operation.process])
    )


def _most_telling(evidence: Evidence) -> list[Sighting]:
    """Return as many as a picture holds: those at the offsets that are wrong come first."""
    telling = sorted(
        evidence.sightings,
        key=lambda s: (s.how != "acknowledged", s.values.keys().isdisjoint(evidence.bad)),
    )
    return sorted(telling[:SIGHTINGS_MAX], key=lambda s: (s.how != "acknowledged", s.first_ns))


# --- groups ---------------------------------------------------------------------


def _add_positions(places: Mapping[str, list[Evidence]], operation: Operation) -> None:
    said: object = operation.told if operation.name == "committed" else operation.asked[1]
    if operation.kind is not Kind.OK or operation.returned_ns is None or said is None:
        return
    for partition, offset, *_ in cast("list[list[Any]]", said):
        for evidence in places.get(partition, ()):
            if evidence.name in COMMITS:
                position = Position(operation.returned_ns, offset, operation)
                evidence.positions.append(position)
                if len(evidence.positions) >= 4 * POSITIONS_MAX:
                    evidence.positions = _nearest(evidence.positions, evidence.case.at_ns)


def _of_group(evidence: Evidence) -> list[Position]:
    """Return the positions of the groups that the proofs are about; all, if nobody knows."""
    groups = {str(o.asked[0]) for o in evidence.proofs if o.name in _COMMITS}
    return [p for p in evidence.positions if not groups or p.operation.asked[0] in groups]


def _nearest(positions: list[Position], at_ns: Sequence[int]) -> list[Position]:
    """Return the positions nearest to some moments, in the order of time."""
    middle = sum(at_ns) // len(at_ns) if at_ns else 0
    nearest = sorted(positions, key=lambda position: abs(position.at_ns - middle))
    return sorted(nearest[:POSITIONS_MAX], key=lambda position: position.at_ns)


# --- registers ------------------------------------------------------------------


def _around(operations: list[Operation], at_ns: Sequence[int]) -> list[Operation]:
    """Return the operations nearest to some moments, in the order of their calls."""
    ordered = sorted(operations, key=lambda operation: operation.called_ns)
    if len(ordered) <= REGISTER_OPERATIONS_MAX or not at_ns:
        return ordered[:REGISTER_OPERATIONS_MAX]
    middle = sum(at_ns) // len(at_ns)
    nearest = sorted(ordered, key=lambda operation: abs(operation.called_ns - middle))
    return sorted(nearest[:REGISTER_OPERATIONS_MAX], key=lambda operation: operation.called_ns)
