"""Short words for operations of hand-made histories."""

from dataclasses import dataclass, field
from typing import Any

from quorate.jepsen.history import Kind, Operation

Span = tuple[int, int]

P, Q, G = "t-0", "t-1", "g"
FINAL = (90, 91)
LAST = 100
"""The process that reads in the end."""


@dataclass(frozen=True)
class Golden:
    """A history that shows an anomaly, and one that almost does."""

    name: str
    wrong: list[Operation]
    right: list[Operation]
    header: dict[str, Any] = field(default_factory=dict[str, Any])


def did(
    name: str,
    asked: Any = None,
    told: Any = None,
    span: Span = (0, 1),
    *,
    kind: Kind = Kind.OK,
    process: int = 1,
) -> Operation:
    called, returned = span
    return Operation(
        process, name, asked, kind, told, called, None if kind is Kind.INFO else returned
    )


# --- the log


def sent(value: int, told: Any, span: Span = (0, 1), process: int = 1, *more: Any) -> Operation:
    return did("send", [P, value, *more], told, span, process=process)


def unsent(value: int, kind: Kind, span: Span = (0, 1)) -> Operation:
    return did("send", [P, value], None, span, kind=kind)


def parts(records: tuple[tuple[int, int], ...], partition: str = P) -> list[Any]:
    return [[partition, [offset for offset, _ in records], [value for _, value in records]]]


def poll(
    *records: tuple[int, int], asked: Any = 0, process: int = 2, span: Span = (2, 3)
) -> Operation:
    return did("poll", asked, parts(records), span, process=process)


def read(*records: tuple[int, int], partition: str = P) -> Operation:
    return did("read", None, parts(records, partition), FINAL, process=LAST)


# --- replicas, leaders


def replica(broker: int, *batches: tuple[Any, ...], partition: str = P) -> Operation:
    return did("replica", None, [partition, broker, [list(b) for b in batches]], (95, 96))


def view(leader: int, epoch: int, isr: list[int], span: Span = (0, 1)) -> Operation:
    told = {"controller": 1, "partitions": {P: [leader, epoch, isr]}}
    return did("view", None, told, span)


def ends(broker: int, offset: int, epoch: int, span: Span) -> Operation:
    return did("high-watermark", broker, [[P, offset, epoch]], span, process=3)


def decided(*records: tuple[str, dict[str, Any]], cause: str = "a test") -> Operation:
    """The metadata's log, with a topic that has one partition on brokers 1, 2 and 3."""
    created = {"topic_id": b"1", "name": "t"}
    partition = {
        "topic_id": b"1", "partition": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3],
        "leader_id": 1, "leader_epoch": 0, "time_ms": 0,
    }  # fmt: skip
    all_ = [("TopicCreated", created), ("PartitionCreated", partition), *records]
    return did("metadata-log", None, [[n, *record, cause] for n, record in enumerate(all_)])


def changed(leader: int, epoch: int, isr: list[int], **more: Any) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {"leader_id": leader, "leader_epoch": epoch, "isr": isr, "time_ms": 0}
    return "PartitionChanged", {"topic_id": b"1", "partition": 0, **fields, **more}


# --- faults


def fault(
    name: str, span: Span, *, verified: str = "seen", silent: tuple[str, ...] = ()
) -> Operation:
    asked = {"fault": name, "targets": list(silent), "detail": {"silent": list(silent)}}
    return did("fault", asked, {"verified": verified}, span, process=0)


def heal(name: str, span: Span) -> Operation:
    return did("heal", {"fault": name}, {}, span, process=0)


def phase(name: str, at: int) -> Operation:
    return did("phase", None, name, (at, at), process=0)


def complaint(name: str) -> Operation:
    return did("complaint", None, [name, "it was so"], process=0)


# --- groups


def assign(
    generation: int, member: str, *partitions: str, process: int = 1, span: Span = (0, 1)
) -> Operation:
    return did("assign", None, [G, generation, member, list(partitions)], span, process=process)


def given(*offsets: int, partition: str = P, asked: Any = 0, process: int = 1) -> Operation:
    """A poll of which only the offsets matter; values are unique by partition and offset."""
    told = [[partition, list(offsets), [1000 * (partition == Q) + offset for offset in offsets]]]
    return did("poll", asked, told, process=process)


def commit(offset: int, span: Span, kind: Kind = Kind.OK, *who: Any) -> Operation:
    return did("commit", [G, [[P, offset]], *who], None, span, kind=kind, process=2)


def noted(name: str, offset: int, metadata: str, span: Span) -> Operation:
    return did(name, [G, [[P, offset, metadata]]], None, span, process=2)


def committed(offset: int, span: Span, *metadata: str) -> Operation:
    return did("committed", [G, [P]], [[P, offset, *metadata]], span, process=3)
