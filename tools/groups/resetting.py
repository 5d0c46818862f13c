"""Where a group is to go on: what was asked for, and the plan that this makes."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Final

from quorate.client.groups.results import OffsetAndMetadata
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.groups.lag import Bounds
from quorate.tools.output import Column, Table
from quorate.tools.positions import parse_duration, parse_time
from quorate.tools.problems import UsageError

_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class To(Enum):
    """What a group is to go to; the values are Kafka's options."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    SHIFT = "--shift-by"
    FILE = "--from-file"


@dataclass(frozen=True, slots=True)
class Spec:
    """What was asked for.

    Attributes:
        value: An offset, a distance, or milliseconds since 1970.
        offsets: What a file says.
    """

    to: To
    value: int = 0
    offsets: Mapping[TopicPartition, int] | None = None

    @property
    def time_ms(self) -> int | None:
        """The time to look for; None if no time was asked for."""
        return self.value if self.to in {To.DATETIME, To.DURATION} else None


def parse_spec(given: Mapping[To, str], group_id: str, now_ms: int) -> Spec:
    """Return what the options say; flags without a value have any text.

    Raises:
        UsageError: None or several were given, or one has no meaning.
    """
    if len(given) != 1:
        many = " and ".join(to.value for to in given) or "nothing"
        raise UsageError(
            f"{many} says where to go", why="it takes exactly one of "
            + ", ".join(to.value for to in To), hint="quorate groups reset G --to-earliest",
        )  # fmt: skip
    ((to, text),) = given.items()
    match to:
        case To.OFFSET:
            return Spec(to, _integer(to, text, least=0))
        case To.SHIFT:
            return Spec(to, _integer(to, text, least=None))
        case To.DATETIME:
            return Spec(to, _time(text, now_ms))
        case To.DURATION:
            return Spec(to, now_ms - _duration_ms(text))
        case To.FILE:
            return Spec(to, offsets=parse_offsets(text, group_id))
        case _:
            return Spec(to)


def _integer(to: To, text: str, *, least: int | None) -> int:
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or (least is not None and value < least):
        raise UsageError(
            f"{text!r} is nothing to go to", why=f"{to.value} takes a number",
            hint=f"{to.value} 10",
        )  # fmt: skip
    return value


def _time(text: str, now_ms: int) -> int:
    time_ms = parse_time(text.removeprefix("@"), now_ms)
    if time_ms is None:
        raise UsageError(
            f"{text!r} is no time", why="it is neither ISO 8601, nor ms since 1970, nor ago",
            hint="--to-datetime 2026-03-01T10:00, --to-datetime -1h",
        )  # fmt: skip
    return time_ms


def _duration_ms(text: str) -> int:
    """Return a duration as ours (1h30m) or as Kafka takes it (PT1H30M)."""
    ours = parse_duration(text)
    if ours is not None:
        return ours
    match = _ISO_DURATION.fullmatch(text.upper())
    parts = {} if match is None else {unit: n for unit, n in match.groupdict().items() if n}
    try:
        duration = timedelta(**{unit: float(count) for unit, count in parts.items()})
    except OverflowError:
        duration = None
    if not parts or duration is None:
        raise UsageError(
            f"{text!r} is no duration", why="it is neither 1h30m nor PT1H30M",
            hint="--by-duration 90m",
        )  # fmt: skip
    return duration // timedelta(milliseconds=1)


def parse_offsets(text: str, group_id: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file as Kafka's tool reads it: ``[group,]topic,partition,offset``.

    Lines of other groups are left out.

    Raises:
        UsageError: A line has another form.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        line = _parse_line(row)
        if line is None:
            raise UsageError(
                f"line {number} says no offset: {','.join(row)!r}",
                why="lines are topic,partition,offset or group,topic,partition,offset",
                hint="quorate groups reset G --to-current --export writes such a file",
            )
        group, partition, offset = line
        if group in {"", group_id}:
            offsets[partition] = offset
    return offsets


def _parse_line(row: Sequence[str]) -> tuple[str, TopicPartition, int] | None:
    """Return group (or ""), partition and offset of a line, None if it has another form."""
    if len(row) not in {3, 4} or not (row[-1].isdecimal() and row[-2].isdecimal()):
        return None
    group = row[0] if len(row) == 4 else ""
    return group, TopicPartition(row[-3], int(row[-2])), int(row[-1])


def format_offsets(changes: Iterable["Change"], group_id: str | None = None) -> str:
    """Return what ``--export`` prints, and ``--from-file`` reads; of several, the group leads."""
    out = io.StringIO()
    first = () if group_id is None else (group_id,)
    rows = [(*first, *c.partition, c.new.offset) for c in changes if c.new is not None]
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def parse_scope(texts: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
    """Return topics and their partitions out of ``t`` and ``t:0,1``; None stands for all.

    Raises:
        UsageError: A text has another form.
    """
    scope: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        try:
            wanted = tuple(int(number) for number in numbers.split(",")) if colon else None
        except ValueError:
            raise UsageError(
                f"{text!r} names no partitions", why="that is TOPIC or TOPIC:0,1", hint="-t t:0,1"
            ) from None
        before = scope.get(topic, ())
        scope[topic] = None if wanted is None or before is None else (*before, *wanted)
    return scope


@dataclass(frozen=True, slots=True)
class Change:
    """Where a group goes on in one partition; ``new`` is None where its offset is forgotten.

    ``note`` says why it is not what was asked for.
    """

    partition: TopicPartition
    current: OffsetAndMetadata | None
    new: OffsetAndMetadata | None
    note: str = ""


def plan_changes(
    spec: Spec,
    partitions: Iterable[TopicPartition],
    current: Mapping[TopicPartition, OffsetAndMetadata],
    bounds: Mapping[TopicPartition, Bounds],
    by_time: Mapping[TopicPartition, int],
) -> list[Change]:
    """Return where a group goes on, within what the logs have.

    Args:
        spec: What was asked for.
        partitions: Which partitions it is about.
        current: What the group has committed.
        bounds: Where logs begin and end.
        by_time: The first record not before the time asked for; none there is the end.

    Raises:
        UsageError: There is nothing to shift from.
    """
    told = spec.offsets or {}
    changes: list[Change] = []
    for partition in sorted(partitions):
        had, bound = current.get(partition), bounds[partition]
        if spec.to is To.SHIFT and had is None:
            raise UsageError(
                f"{partition} cannot be shifted", why="the group has not read it yet",
                hint="name other partitions: -t TOPIC:0,1; or go --to-earliest, or --to-latest",
            )  # fmt: skip
        offset = _wanted(spec, had, bound, by_time.get(partition), told.get(partition, 0))
        changes.append(_change(partition, had, bound, offset))
    return changes


def _wanted(
    spec: Spec, current: OffsetAndMetadata | None, bounds: Bounds, found: int | None, told: int
) -> int:
    """Return what was asked for, wherever the log begins and ends."""
    here = bounds.end_offset if current is None else current.offset
    match spec.to:
        case To.EARLIEST:
            wanted = bounds.start_offset
        case To.LATEST:
            wanted = bounds.end_offset
        case To.CURRENT:
            wanted = here
        case To.OFFSET:
            wanted = spec.value
        case To.SHIFT:
            wanted = here + spec.value
        case To.DATETIME | To.DURATION:
            wanted = bounds.end_offset if found is None else found
        case _:
            wanted = told
    return wanted


def _change(
    partition: TopicPartition, current: OffsetAndMetadata | None, bounds: Bounds, offset: int
) -> Change:
    kept = min(max(offset, bounds.start_offset), bounds.end_offset)
    note = ""
    if offset < kept:
        note = f"the log begins at {kept}"
    elif offset > kept:
        note = f"the log ends at {kept}"
    if current is not None and current.offset == kept:
        return Change(partition, current, current, note)
    return Change(partition, current, OffsetAndMetadata(kept), note)


def plan_table(group_id: str, changes: Iterable[Change]) -> Table:
    """Return a plan: Kafka's columns, then what is there now."""
    return plans_table({group_id: changes})


def plans_table(plans: Mapping[str, Iterable[Change]]) -> Table:
    """Return the plans of several groups."""
    columns = (
        Column("group"), Column("topic"), Column("partition"), Column("new_offset"),
        Column("current_offset"), Column("change"), Column("note"),
    )  # fmt: skip
    rows = tuple(
        (
            group_id, *change.partition,
            None if change.new is None else change.new.offset,
            None if change.current is None else change.current.offset,
            None if change.new is None or change.current is None
            else change.new.offset - change.current.offset,
            change.note,
        )
        for group_id, changes in plans.items()
        for change in changes
    )  # fmt: skip
    return Table("group_offsets", columns, rows)
