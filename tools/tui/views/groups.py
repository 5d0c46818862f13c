"""Consumer groups as tables: members, how far they are behind, where that is going."""

from typing import Final

from quorate.client.groups.results import DEAD, EMPTY, STABLE, GroupDescription
from quorate.tools.groups.lag import GROWING, SHRINKING, Lag, PartitionLag, Trend, summed, trend_of
from quorate.tools.tui.views.cells import (
    UNKNOWN,
    Cell,
    Column,
    Frame,
    Row,
    Tone,
    id_cell,
    number_cell,
    text_cell,
)
from quorate.tools.tui.views.shapes import (
    BAD_SIGN,
    OK_SIGN,
    WARN_SIGN,
    duration_cell,
    rate_cell,
)
from quorate.tools.tui.views.snapshot import LagKey, Snapshot, group_lags

GROUP_COLUMNS: Final = (
    Column("group", shrinks=True), Column("state"), Column("members", is_number=True, falls=True),
    Column("lag", is_number=True, falls=True), Column("trend"),
    Column("behind", is_number=True, falls=True), Column("eta", is_number=True, falls=True),
    Column("read/s", is_number=True, falls=True, wide_only=True),
    Column("coordinator", is_number=True, wide_only=True),
    Column("type", wide_only=True), Column("assignor", wide_only=True),
    Column("generation", is_number=True, wide_only=True),
    Column("in_state", is_number=True, wide_only=True), Column("last_rebalance", wide_only=True),
)  # fmt: skip


def groups_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each group."""
    lags = {lag.group_id: lag for lag in group_lags(snapshot.lags)}
    rows = tuple(_group_row(snapshot, group, lags.get(group.group_id)) for group in snapshot.groups)
    return Frame("groups", GROUP_COLUMNS, rows, "no consumer groups yet")


def _group_row(snapshot: Snapshot, group: GroupDescription, lag: Lag | None) -> Row:
    since = group.state_since_ms
    generation = group.epoch if group.generation_id is None else group.generation_id
    cells = (
        text_cell(group.group_id, Tone.STRONG),
        group_state_cell(group),
        number_cell(len(group.members)),
        *_lag_cells(snapshot, lag),
        id_cell(group.coordinator_id),
        text_cell(group.type),
        text_cell(group.assignor),
        number_cell(generation),
        duration_cell(None if since is None else max(0, snapshot.now_ms - since)),
        text_cell(group.rebalance_reason),
    )
    return Row(group.group_id, cells, group.group_id)


def group_state_cell(group: GroupDescription) -> Cell:
    """Return the state of a group; those that are changing sort first."""
    state = group.state
    if state == STABLE:
        return Cell(f"{OK_SIGN} {state}", Tone.GOOD, 2)
    if state == EMPTY:
        return Cell(f"○ {state}", Tone.DIM, 3)
    if state == DEAD:
        return Cell(f"{BAD_SIGN} {state}", Tone.BAD, 1)
    return Cell(f"{WARN_SIGN} {state}", Tone.WARN, 0)


def _lag_cells(snapshot: Snapshot, lag: Lag | None) -> tuple[Cell, Cell, Cell, Cell, Cell]:
    """Return records, trend, seconds, time until it is gone, and records read per second."""
    unknown = Cell(UNKNOWN, Tone.DIM)
    if lag is None:
        return unknown, unknown, unknown, unknown, unknown
    trend = lag_trend(snapshot, lag)
    seconds = lag.seconds(snapshot.now_ms)
    eta_s = None if trend is None else trend.eta_s
    if lag.records == 0:
        eta_s = None
    return (
        number_cell(lag.records, Tone.DIM if lag.records == 0 else Tone.PLAIN),
        trend_cell(trend, lag.records),
        duration_cell(None if seconds is None else seconds * 1000, _age_tone(seconds)),
        duration_cell(None if eta_s is None else eta_s * 1000),
        rate_cell(None if trend is None else trend.read_per_s),
    )


def _age_tone(seconds: float | None) -> Tone:
    if not seconds:
        return Tone.DIM
    return Tone.WARN if seconds >= 60 else Tone.PLAIN


def lag_trend(snapshot: Snapshot, lag: Lag) -> Trend | None:
    """Return where a lag is going since a while ago, if it was known then."""
    earlier = snapshot.earlier
    before = None if earlier is None else earlier.lags.get(lag.key)
    if earlier is None or before is None:
        return None
    return trend_of(before, lag, snapshot.now_ms - earlier.now_ms)


def trend_cell(trend: Trend | None, records: int) -> Cell:
    """Return an arrow and a word; a lag that grows sorts first."""
    if trend is None:
        return Cell(UNKNOWN, Tone.DIM)
    if trend.direction == GROWING:
        return Cell("▲ growing", Tone.WARN, 0)
    if trend.direction == SHRINKING:
        return Cell("▼ shrinking", Tone.GOOD, 2)
    if records and trend.read_per_s <= 0:
        return Cell("■ stuck", Tone.BAD, 1)
    return Cell("─ steady", Tone.DIM, 3)


OFFSET_COLUMNS: Final = (
    Column("partition", shrinks=True), Column("committed", is_number=True, falls=True),
    Column("log_end", is_number=True, falls=True), Column("lag", is_number=True, falls=True),
    Column("trend"), Column("behind", is_number=True, falls=True),
    Column("eta", is_number=True, falls=True),
    Column("read/s", is_number=True, falls=True, wide_only=True),
    Column("client", shrinks=True), Column("host", wide_only=True),
    Column("member", wide_only=True), Column("lost", is_number=True, wide_only=True),
    Column("log_start", is_number=True, wide_only=True), Column("metadata", wide_only=True),
)  # fmt: skip


def offsets_frame(snapshot: Snapshot, group_id: str) -> Frame:
    """Return a row for each partition that a group has read, or that a member has."""
    mine = [lag for lag in snapshot.lags if lag.group_id == group_id]
    sums: dict[LagKey, Lag] = {lag.key: lag for lag in summed(mine, by_partition=True)}
    rows = tuple(_offset_row(snapshot, lag, sums) for lag in mine)
    known = any(group.group_id == group_id for group in snapshot.groups)
    remark = "it has read nothing" if known else f"there is no group {group_id!r}"
    return Frame(f"offsets of {group_id}", OFFSET_COLUMNS, rows, remark)


def _offset_row(snapshot: Snapshot, lag: PartitionLag, sums: dict[LagKey, Lag]) -> Row:
    owner, bounds, committed = lag.owner, lag.bounds, lag.committed
    partition = lag.partition
    known = None
    if lag.records is not None:
        known = sums[lag.group_id, partition.topic, partition.partition]
    cells = (
        Cell(str(partition), Tone.STRONG, f"{partition.topic} {partition.partition:09}"),
        number_cell(None if committed is None else committed.offset),
        number_cell(None if bounds is None else bounds.end_offset),
        *_lag_cells(snapshot, known),
        text_cell(None if owner is None else owner.client_id),
        text_cell(None if owner is None else owner.host),
        text_cell(None if owner is None else owner.member_id),
        number_cell(lag.lost),
        number_cell(None if bounds is None else bounds.start_offset),
        text_cell(None if committed is None else committed.metadata),
    )
    return Row(str(partition), cells, partition)
