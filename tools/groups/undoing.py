"""What a group's offsets were before they were changed, as a file keeps it, and the way back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from quorate.client.groups.results import OffsetAndMetadata
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.groups.resetting import Change
from quorate.tools.output import Column, Table
from quorate.tools.positions import time_text

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Before:
    """What offsets were before something was done to them.

    Attributes:
        why: What was done.
        offsets: What they were; None where there was none.
    """

    group_id: str
    time_ms: int
    why: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]


def before_of(group_id: str, time_ms: int, why: str, changes: Iterable[Change]) -> Before:
    """Return what there is before a plan is carried out."""
    offsets = {each.partition: each.current for each in changes if each.current != each.new}
    return Before(group_id, time_ms, why, offsets)


def encode_before(before: Before) -> str:
    """Return it as a file has it."""
    offsets = [
        {
            "topic": partition.topic, "partition": partition.partition,
            "offset": None if had is None else had.offset,
            "leader_epoch": -1 if had is None else had.leader_epoch,
            "metadata": "" if had is None else had.metadata,
        }
        for partition, had in before.offsets.items()
    ]  # fmt: skip
    document = {
        "version": VERSION, "group": before.group_id, "time_ms": before.time_ms,
        "why": before.why, "offsets": offsets,
    }  # fmt: skip
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def decode_before(text: str) -> Before:
    """Return what a file has.

    Raises:
        ValueError: It is no such file.
    """
    try:
        document: Any = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']} is not known")
        offsets = {
            TopicPartition(str(each["topic"]), int(each["partition"])): None
            if each["offset"] is None
            else OffsetAndMetadata(int(each["offset"]), each["leader_epoch"], each["metadata"])
            for each in document["offsets"]
        }
        return Before(document["group"], int(document["time_ms"]), document["why"], offsets)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{error!r} in what should be the offsets of a group") from None


def plan_undo(before: Before, current: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Change]:
    """Return the way back."""
    return [
        Change(partition, current.get(partition), had, "" if had else "it is forgotten")
        for partition, had in sorted(before.offsets.items())
    ]


def kept_table(kept: Iterable[Before]) -> Table:
    """Return what can be undone, the last first."""
    columns = (Column("group"), Column("time"), Column("partitions"), Column("what"))
    rows = tuple((b.group_id, time_text(b.time_ms), len(b.offsets), b.why) for b in kept)
    return Table("group_undos", columns, rows)
