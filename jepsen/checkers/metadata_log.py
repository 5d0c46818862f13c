"""What the controllers decided of partitions, out of the log of their decisions.

A ``metadata-log`` is told ``[[offset, type, fields, cause], ...]`` when all is over, in order;
types and fields are those of ``quorum/metadata/records.py``, as ``quorate metadata cat`` names
them. Others than those here are passed over. What is older than the last snapshot comes as the
facts that it left, whose cause is ``snapshot``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen.history import Kind, Operation

NOBODY: Final = -1
SNAPSHOT: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a partition is from an offset of the metadata on.

    Attributes:
        topic_id: as the history has it; a topic that is created again has another one.
        time_ms: when it was decided, by the clock of whoever decided; None if that is not known.
    """

    offset: int
    partition: str
    topic_id: Any
    time_ms: int | None
    leader: int
    epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    replicas: tuple[int, ...]
    last_known_leader: int
    cause: str

    @property
    def is_fact(self) -> bool:
        """Whether it was decided before the log begins; nobody knows when, and from what."""
        return self.cause == SNAPSHOT


class MetadataLog:
    """Follows the log; keeps what each partition was last, and gives what it becomes.

    ``is_partial`` says whether older decisions are not there any more.
    """

    def __init__(self) -> None:
        self.is_partial = False
        self._topics: dict[Any, str] = {}
        self._last: dict[tuple[Any, int], Decision] = {}

    def read(self, operation: Operation) -> Sequence[tuple[Decision | None, Decision]]:
        """Return for each change what the partition was, None if nothing, and what it became."""
        if operation.name != "metadata-log" or operation.kind is not Kind.OK:
            return ()
        changes: list[tuple[Decision | None, Decision]] = []
        for offset, kind, fields, cause in operation.told:
            self.is_partial |= cause == SNAPSHOT
            if kind == "TopicCreated":
                self._topics[fields["topic_id"]] = fields["name"]
            elif kind in {"PartitionCreated", "PartitionChanged"}:
                key = fields["topic_id"], fields["partition"]
                before = self._last.get(key)
                name = f"{self._topics.get(key[0], '?')}-{key[1]}"
                self._last[key] = _changed(before, name, offset, fields, cause)
                changes.append((before, self._last[key]))
        return changes


def _changed(
    before: Decision | None, partition: str, offset: int, fields: Mapping[str, Any], cause: str
) -> Decision:
    last_known_leader = fields.get("last_known_leader")
    first = Decision(
        offset=offset,
        partition=partition,
        topic_id=fields["topic_id"],
        time_ms=fields.get("time_ms"),
        leader=fields["leader_id"],
        epoch=fields["leader_epoch"],
        isr=tuple(fields["isr"]),
        elr=tuple(fields.get("elr") or ()),
        replicas=tuple(fields.get("replicas") or ()),
        last_known_leader=NOBODY if last_known_leader is None else last_known_leader,
        cause=cause,
    )
    if before is None:
        return first
    same = {name for name in ("elr", "replicas", "last_known_leader") if fields.get(name) is None}
    return replace(first, **{name: getattr(before, name) for name in same})
