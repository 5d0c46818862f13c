"""Moves of partitions as they are written down, throttled, and followed."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from quorate.client.admin_results import (
    BrokerDescription,
    BrokerLogDirs,
    LogDirReplica,
    Reassignment,
)
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.setting_fields import LONG_MAX
from quorate.tools.clusters.health import counted
from quorate.tools.output import Column, Table, bytes_text
from quorate.tools.partitions.planning import Assignment, Move, loads
from quorate.tools.problems import UsageError

VERSION: Final = 1
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
THROTTLED: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

Sizes = Mapping[int, Mapping[TopicPartition, LogDirReplica]]


def encode_plan(targets: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a plan in the JSON of Kafka's kafka-reassign-partitions."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in targets.items()
    ]
    document = {"version": VERSION, "partitions": partitions}
    lines = ",\n  ".join(json.dumps(each) for each in partitions)
    return (
        f'{{"version": {VERSION}, "partitions": [\n  {lines}\n]}}\n'
        if lines
        else json.dumps(document)
    )


def decode_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas that a plan wants for each of its partitions.

    Raises:
        UsageError: it is no plan.
    """
    try:
        document: Any = json.loads(text)
        targets = {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(
                int(broker_id) for broker_id in each["replicas"]
            )
            for each in document["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "this is no plan", why=f"{type(error).__name__}: {error}",
            hint="quorate partitions reassign plan > plan.json writes one",
        ) from None  # fmt: skip
    for partition, replicas in targets.items():
        _check(partition, replicas)
    return targets


def parse_target(text: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return what ``t:0=1,2,3`` wants.

    Raises:
        UsageError: the text has another form.
    """
    name, equals, brokers = text.partition("=")
    topic, colon, number = name.rpartition(":")
    try:
        if not equals or not colon:
            raise ValueError  # noqa: TRY301 - the same answer as for letters where numbers belong
        partition = TopicPartition(topic, int(number))
        replicas = tuple(int(broker_id) for broker_id in brokers.split(","))
    except ValueError:
        raise UsageError(
            f"{text!r} is neither a file nor a move", why="that is TOPIC:NUMBER=BROKER[,BROKER]",
            hint="quorate partitions reassign apply t:0=1,2,3",
        ) from None  # fmt: skip
    _check(partition, replicas)
    return partition, replicas


def _check(partition: TopicPartition, replicas: Sequence[int]) -> None:
    if not replicas or len(set(replicas)) < len(replicas):
        raise UsageError(
            f"{partition} cannot be on {list(replicas)}",
            why="it needs one broker or more, each once",
            hint="name different brokers",
        )


def moves_to(now: Assignment, targets: Mapping[TopicPartition, tuple[int, ...]]) -> list[Move]:
    """Return the moves to targets; what is there already is none.

    Raises:
        UsageError: a partition does not exist.
    """
    moves: list[Move] = []
    for partition, replicas in targets.items():
        if partition not in now:
            raise UsageError(
                f"there is no partition {partition}", why="no broker knows it",
                hint="quorate partitions list",
            )  # fmt: skip
        if now[partition] != replicas:
            moves.append(Move(partition, now[partition], replicas))
    return moves


def bytes_to_copy(moves: Iterable[Move], sizes: Sizes) -> int:
    """Return how many bytes moves copy between brokers, as far as sizes are known."""
    return sum(_bytes_to_each(moves, sizes).values())


def _bytes_to_each(moves: Iterable[Move], sizes: Sizes) -> Counter[int]:
    """Return how many bytes moves bring to each broker."""
    coming: Counter[int] = Counter()
    for move in moves:
        for broker_id in move.adding:
            coming[broker_id] += _largest(move.partition, sizes)
    return coming


def _largest(partition: TopicPartition, sizes: Sizes) -> int:
    return max(
        (known[partition].size_bytes for known in sizes.values() if partition in known), default=0
    )


def moves_table(moves: Iterable[Move], sizes: Sizes) -> Table:
    """Return a row for each move."""
    columns = (
        Column("partition"), Column("now"), Column("then"), Column("adding"), Column("removing"),
        Column("copies_bytes"),
    )  # fmt: skip
    rows = tuple(
        (
            str(m.partition), list(m.before), list(m.after), list(m.adding), list(m.removing),
            _largest(m.partition, sizes) * len(m.adding),
        )
        for m in moves
    )  # fmt: skip
    return Table("moves", columns, rows)


def summary_lines(
    now: Assignment, moves: Sequence[Move], sizes: Sizes, broker_ids: Iterable[int]
) -> list[str]:
    """Return what a plan does, in lines for people."""
    then = {**now, **{move.partition: move.after for move in moves}}
    before, after = loads(now, broker_ids), loads(then, broker_ids)
    copies = counted(sum(len(move.adding) for move in moves), "replica")
    size = bytes_text(bytes_to_copy(moves, sizes))
    change = "changes" if len(moves) == 1 else "change"
    lines = [
        f"{len(moves)} of {counted(len(now), 'partition')} {change}; to copy: {copies}, {size}"
    ]
    for broker_id in sorted({*before, *after}):
        led, had = before.get(broker_id, (0, 0))
        leads, has = after.get(broker_id, (0, 0))
        lines.append(
            f"  broker {broker_id}: replicas {had} -> {has}, preferred leader of {led} -> {leads}"
        )
    return lines


@dataclass(frozen=True, slots=True)
class Disks:
    """How brokers can take more: bytes that are free, where known, and who writes nothing now."""

    free_bytes: Mapping[int, int]
    read_only: Collection[int]


def disks_of(cluster: Sequence[BrokerDescription], log_dirs: Mapping[int, BrokerLogDirs]) -> Disks:
    """Return how the brokers of a cluster can take more."""
    free = {
        broker_id: sum(log_dir.usable_bytes for log_dir in told.log_dirs)
        for broker_id, told in log_dirs.items()
        if all(log_dir.usable_bytes >= 0 for log_dir in told.log_dirs)
    }
    return Disks(free, {broker.broker_id for broker in cluster if broker.cannot_write})


def warning_lines(moves: Sequence[Move], sizes: Sizes, disks: Disks) -> list[str]:
    """Return which brokers cannot take what moves bring them, as their disks are now."""
    lines: list[str] = []
    for broker_id, size_bytes in sorted(_bytes_to_each(moves, sizes).items()):
        free_bytes = disks.free_bytes.get(broker_id)
        if broker_id in disks.read_only:
            lines.append(f"broker {broker_id} is read-only: its moves wait until it can write")
        elif free_bytes is not None and free_bytes < size_bytes:
            size, free = bytes_text(size_bytes), bytes_text(free_bytes)
            lines.append(f"broker {broker_id} gets {size}, and {free} are free on its disk")
    return lines


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a move is: bytes that the new replicas have, of those that they are to have."""

    partition: TopicPartition
    move: Reassignment
    copied_bytes: int
    total_bytes: int
    waits_for: tuple[int, ...] = ()
    """Those to which it copies and that cannot write."""

    @property
    def part(self) -> float:
        """From 0 to 1; what is copied is in sync a moment later, so 1 is not done yet."""
        return min(1.0, self.copied_bytes / self.total_bytes) if self.total_bytes else 1.0


def progress_of(
    moves: Mapping[TopicPartition, Reassignment], sizes: Sizes, read_only: Collection[int]
) -> list[Progress]:
    """Return how far moves are, from the sizes of replicas and who cannot write."""
    found: list[Progress] = []
    for partition, move in sorted(moves.items()):
        have = {b: known[partition].size_bytes for b, known in sizes.items() if partition in known}
        full = max((size for b, size in have.items() if b not in move.adding), default=0)
        copied = sum(min(full, have.get(b, 0)) for b in move.adding)
        waits_for = tuple(b for b in move.adding if b in read_only)
        found.append(Progress(partition, move, copied, full * len(move.adding), waits_for))
    return found


def waiting_text(moves: Sequence[Progress]) -> str:
    """Return for whom moves wait that would not end by themselves; empty if for nobody."""
    brokers = sorted({broker_id for each in moves for broker_id in each.waits_for})
    if not brokers:
        return ""
    count = sum(bool(each.waits_for) for each in moves)
    names = ", ".join(map(str, brokers))
    whom = f"brokers {names}, which are" if len(brokers) > 1 else f"broker {names}, which is"
    disks = "their disks" if len(brokers) > 1 else "its disk"
    return (
        f"{count} of {len(moves)} moves wait{'s' if count == 1 else ''} for {whom} read-only: "
        f"make room on {disks}, or see quorate partitions reassign cancel"
    )


def progress_table(moves: Iterable[Progress]) -> Table:
    """Return a row for each move that is under way."""
    columns = (
        Column("partition"), Column("replicas"), Column("adding"), Column("removing"),
        Column("copied_bytes"), Column("total_bytes"), Column("percent"),
        Column("waits_for", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            str(m.partition), list(m.move.target), list(m.move.adding), list(m.move.removing),
            m.copied_bytes, m.total_bytes, round(m.part * 100), list(m.waits_for),
        )
        for m in moves
    )  # fmt: skip
    return Table("reassignments", columns, rows)


def parse_rate(text: str) -> int:
    """Return bytes a second from ``50MB``, ``50M``, ``500k`` or a number of bytes.

    Raises:
        UsageError: the text has another form.
    """
    unit = text.strip().upper().removesuffix("/S").removesuffix("B")
    factors = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = factors.get(unit[-1:], 1)
    try:
        rate = int(float(unit.rstrip("KMG")) * factor)
    except (ValueError, OverflowError):
        rate = 0
    if not 0 < rate <= LONG_MAX:
        raise UsageError(
            f"{text!r} is no rate", why="that is bytes a second", hint="--throttle 50MB"
        )
    return rate
