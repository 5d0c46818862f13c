"""The quorum in words: for a terminal, and a line at a time."""

from collections.abc import Sequence
from typing import Final

from quorate.tools.output import bytes_text
from quorate.tools.positions import time_text
from quorate.tools.quorum.view import LEADER, QuorumView, Replica

UNKNOWN: Final = "-"
SILENT: Final = "no answer"
DISK_FULL: Final = "disk full"
GAP: Final = "  "
SECOND_MS: Final = 1000
MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S

HEADINGS: Final = ("ID", "ROLE", "ADDRESS", "LOG-END", "LAG", "BEHIND", "LOG", "SNAPSHOT", "UP")


def summary(view: QuorumView) -> list[tuple[str, str]]:
    """Return what is to say about the quorum as a whole: labels and texts."""
    lines = [
        ("cluster", view.cluster_id or UNKNOWN),
        ("leader", _leader_text(view)),
        ("committed", _committed_text(view)),
        ("voters", _voters_text(view)),
        ("observers", _ids(view.observers)),
    ]
    troubled = ((SILENT, view.silent), (DISK_FULL, view.full))
    return [*lines, *((label, _ids(replicas)) for label, replicas in troubled if replicas)]


def _ids(replicas: Sequence[Replica]) -> str:
    return ", ".join(str(replica.node_id) for replica in replicas) or "none"


def _leader_text(view: QuorumView) -> str:
    if view.leader_id is None:
        return f"nobody; the last term known is {view.leader_epoch}"
    leader = view.leader
    where = "" if leader is None or leader.endpoint is None else f" at {leader.endpoint}"
    return f"{view.leader_id}{where}, term {view.leader_epoch}"


def _committed_text(view: QuorumView) -> str:
    text = f"up to offset {view.high_watermark}"
    if view.metadata_version is not None:
        text += f"; metadata version {view.metadata_version}"
    return text


def _voters_text(view: QuorumView) -> str:
    return f"{_ids(view.voters)}; {view.majority} decide, {view.spare} more may fail"


def unled_text(view: QuorumView) -> str:
    """Return why nobody leads, as far as that can be seen."""
    text = f"none of {len(view.voters)} voters has been elected; {view.majority} have to run"
    return f"{text}; {DISK_FULL}: {_ids(view.full)}" if view.full else text


def rows(view: QuorumView) -> list[tuple[str, ...]]:
    """Return a row of cells for each replica, under :data:`HEADINGS`."""
    return [_cells(view, replica) for replica in view.replicas]


def _cells(view: QuorumView, replica: Replica) -> tuple[str, ...]:
    own = replica.own
    snapshot = log = uptime = UNKNOWN
    if own is not None:
        log, uptime = bytes_text(own.log_bytes), duration_text(own.uptime_ms)
        snapshot = bytes_text(own.snapshot_bytes) if own.snapshot_offset else "none"
    return (
        str(replica.node_id),
        replica.role,
        UNKNOWN if replica.endpoint is None else str(replica.endpoint),
        _number(replica.log_end_offset if replica.log_end_offset >= 0 else None),
        _number(view.lag(replica)),
        UNKNOWN if replica.role == LEADER else duration_text(view.behind_ms(replica)),
        log,
        snapshot,
        uptime,
    )


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def duration_text(duration_ms: int | None) -> str:
    """Return a duration in its two largest units; ``-`` if it is not known."""
    if duration_ms is None:
        return UNKNOWN
    if duration_ms < SECOND_MS:
        return f"{duration_ms} ms" if duration_ms else "0"
    seconds = duration_ms // SECOND_MS
    if seconds < MINUTE_S:
        return f"{duration_ms / SECOND_MS:.1f} s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S}m{seconds % MINUTE_S:02d}s"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S}h{seconds % HOUR_S // MINUTE_S:02d}m"
    return f"{seconds // DAY_S}d{seconds % DAY_S // HOUR_S:02d}h"


def status_lines(view: QuorumView) -> list[str]:
    """Return the quorum as lines for people: the summary, then a table."""
    lines = [f"{label:<10} {text}" for label, text in summary(view)]
    return [*lines, "", *_aligned([HEADINGS, *rows(view)])]


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def one_line(view: QuorumView) -> str:
    """Return the quorum as one line, as it is printed again and again where nothing can move."""
    lags = ",".join(f"{r.node_id}:{_number(view.lag(r))}" for r in view.replicas)
    leader = UNKNOWN if view.leader_id is None else view.leader_id
    return (
        f"{time_text(view.now_ms)} leader={leader} term={view.leader_epoch}"
        f" high_watermark={view.high_watermark} lag={lags}"
    )
