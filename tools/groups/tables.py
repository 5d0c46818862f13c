"""What ``quorate groups`` prints, with the columns of kafka-consumer-groups."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quorate.client.groups.results import (
    EMPTY,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from quorate.model import Endpoint, TopicPartition
from quorate.tools.groups.lag import Lag, PartitionLag, Trend
from quorate.tools.output import Column, Table
from quorate.tools.positions import time_text


def list_table(groups: Iterable[GroupListing]) -> Table:
    """Return a row for each group."""
    columns = (Column("group"), Column("state"), Column("type"), Column("protocol"))
    rows = tuple((g.group_id, g.state or None, g.type or None, g.protocol_type) for g in groups)
    return Table("groups", columns, rows)


def offsets_table(lags: Iterable[PartitionLag]) -> Table:
    """Return how far groups have read each partition, and who reads it."""
    columns = (
        Column("group"), Column("topic"), Column("partition"), Column("current_offset"),
        Column("log_end_offset"), Column("lag"), Column("consumer_id"), Column("host"),
        Column("client_id"), Column("leader_epoch", wide_only=True),
        Column("log_start_offset", wide_only=True), Column("lost", wide_only=True),
        Column("instance_id", wide_only=True), Column("metadata", wide_only=True),
    )  # fmt: skip
    return Table("group_offsets", columns, tuple(_offsets_row(lag) for lag in lags))


def _offsets_row(lag: PartitionLag) -> tuple[Any, ...]:
    committed, bounds, owner = lag.committed, lag.bounds, lag.owner
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    return (
        lag.group_id,
        lag.partition.topic,
        lag.partition.partition,
        None if committed is None else committed.offset,
        None if bounds is None else bounds.end_offset,
        lag.records,
        None if owner is None else owner.member_id,
        None if owner is None else owner.host,
        None if owner is None else owner.client_id,
        epoch,
        None if bounds is None else bounds.start_offset,
        lag.lost,
        None if owner is None else owner.instance_id,
        None if committed is None else committed.metadata,
    )


def members_table(groups: Iterable[GroupDescription]) -> Table:
    """Return a row for each member."""
    columns = (
        Column("group"), Column("consumer_id"), Column("host"), Column("client_id"),
        Column("partitions", title="#PARTITIONS"), Column("group_instance_id"),
        Column("current_epoch", wide_only=True), Column("current_assignment", wide_only=True),
        Column("target_assignment", wide_only=True), Column("topics", wide_only=True),
        Column("topic_regex", wide_only=True), Column("rack", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            group.group_id, m.member_id, m.host, m.client_id, len(m.assignment), m.instance_id,
            m.member_epoch, assignment_text(m.assignment),
            None if m.target is None else assignment_text(m.target), list(m.topics), m.topic_regex,
            m.rack_id,
        )
        for group in groups
        for m in group.members
    )  # fmt: skip
    return Table("group_members", columns, rows)


def assignment_text(partitions: Iterable[TopicPartition]) -> str | None:
    """Return partitions as Kafka's tools write them: ``t:0,1;u:2``; None for none."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return ";".join(f"{t}:{','.join(map(str, numbers))}" for t, numbers in topics.items()) or None


def state_table(groups: Iterable[GroupDescription], brokers: Mapping[int, Endpoint]) -> Table:
    """Return a row for each group: who coordinates it, who assigns, what it is at."""
    columns = (
        Column("group"), Column("coordinator", title="COORDINATOR (ID)"),
        Column("assignment_strategy"), Column("state"), Column("members", title="#MEMBERS"),
        Column("type", wide_only=True), Column("group_epoch", wide_only=True),
        Column("target_assignment_epoch", wide_only=True), Column("generation", wide_only=True),
        Column("leader", wide_only=True), Column("since", wide_only=True),
        Column("rebalance_reason", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            g.group_id, f"{brokers.get(g.coordinator_id, '-')} ({g.coordinator_id})",
            g.assignor or None, g.state, len(g.members), g.type, g.epoch, g.assignment_epoch,
            g.generation_id, g.leader or None,
            None if g.state_since_ms is None else time_text(g.state_since_ms),
            g.rebalance_reason or None,
        )
        for g in groups
    )  # fmt: skip
    return Table("group_states", columns, rows)


def remarks(groups: Iterable[GroupDescription], lags: Iterable[PartitionLag] = ()) -> list[str]:
    """Return what a person should know beside a table."""
    lines: list[str] = []
    for group in groups:
        if group.state == EMPTY or not group.members:
            lines.append(f"Consumer group '{group.group_id}' has no active members.")
        elif group.rebalance_reason:
            lines.append(f"Consumer group '{group.group_id}', last: {group.rebalance_reason}")
    return lines + [_loss(lag) for lag in lags if lag.lost]


def _loss(lag: PartitionLag) -> str:
    assert lag.committed is not None
    assert lag.bounds is not None
    return (
        f"Consumer group '{lag.group_id}' lost {lag.lost} records of {lag.partition}: it has read"
        f" up to {lag.committed.offset}, the log begins at {lag.bounds.start_offset}."
    )


def lag_table(
    lags: Sequence[Lag], now_ms: int, trends: Mapping[tuple[str, str, int | None], Trend] | None
) -> Table:
    """Return a row for each lag; with trends if there was a look before."""
    columns = [Column("group"), Column("topic")]
    by_partition = any(lag.partition is not None for lag in lags)
    columns.append(Column("partition") if by_partition else Column("partitions"))
    columns += [Column("members"), Column("lag"), Column("lag_seconds"), Column("lost")]
    if trends is not None:
        columns += [
            Column("trend"), Column("read_per_s", title="READ/S"),
            Column("written_per_s", title="WRITTEN/S"), Column("eta_s", title="ETA"),
        ]  # fmt: skip
    rows = tuple(
        _lag_row(lag, now_ms, by_partition=by_partition)
        + (() if trends is None else _trend_row(trends.get(lag.key)))
        for lag in lags
    )
    return Table("group_lags", tuple(columns), rows)


def _lag_row(lag: Lag, now_ms: int, *, by_partition: bool) -> tuple[Any, ...]:
    seconds = lag.seconds(now_ms)
    return (
        lag.group_id,
        lag.topic,
        lag.partition if by_partition else lag.partitions,
        lag.members,
        lag.records,
        None if seconds is None else round(seconds, 1),
        lag.lost,
    )


def _trend_row(trend: Trend | None) -> tuple[Any, ...]:
    if trend is None:
        return (None, None, None, None)
    eta_s = None if trend.eta_s is None else round(trend.eta_s)
    return (trend.direction, round(trend.read_per_s, 1), round(trend.written_per_s, 1), eta_s)


def find_members(group: GroupDescription, names: Sequence[str]) -> list[MemberDescription]:
    """Return the members that have one of these names: member, instance or client ids.

    Raises:
        KeyError: Nobody has a name; it is the error's argument.
    """
    found: dict[str, MemberDescription] = {}
    for name in names:
        named = [m for m in group.members if name in {m.member_id, m.instance_id, m.client_id}]
        if not named:
            raise KeyError(name)
        found |= {member.member_id: member for member in named}
    return list(found.values())
