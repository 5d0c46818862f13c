"""Brokers and controllers as tables, and the lines at the top of the screen."""

from collections.abc import Mapping
from typing import Final

from quorate.client.admin_results import BrokerDescription
from quorate.model import UNKNOWN_OFFSET
from quorate.tools.clusters.health import BrokerLoad
from quorate.tools.clusters.picture import FENCED, IN_SERVICE, broker_state
from quorate.tools.quorum.text import DISK_FULL
from quorate.tools.quorum.view import LEADER, OBSERVER, QuorumView, Replica
from quorate.tools.tui.views.cells import (
    UNKNOWN,
    Cell,
    Column,
    Frame,
    Line,
    Part,
    Row,
    Tone,
    count_cell,
    id_cell,
    number_cell,
    text_cell,
)
from quorate.tools.tui.views.shapes import (
    BAD_SIGN,
    OK_SIGN,
    WARN_SIGN,
    bytes_cell,
    duration_cell,
    duration_text,
    share_bar,
)
from quorate.tools.tui.views.snapshot import Snapshot

STALE_MS: Final = 5_000
"""From when on it is worth saying how old a picture is."""

BROKER_COLUMNS: Final = (
    Column("id", is_number=True), Column("address", shrinks=True), Column("rack", wide_only=True),
    Column("state"), Column("leads", is_number=True, falls=True), Column("share", wide_only=True),
    Column("replicas", is_number=True, falls=True), Column("behind", is_number=True, falls=True),
    Column("size", is_number=True, falls=True), Column("host", wide_only=True),
    Column("port", is_number=True, wide_only=True),
)  # fmt: skip


def brokers_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each broker that is registered."""
    loads = snapshot.loads
    most = max((load.leaders for load in loads.values()), default=0)
    rows = tuple(_broker_row(snapshot, broker, loads, most) for broker in snapshot.brokers)
    return Frame("brokers", BROKER_COLUMNS, rows, "no broker has told of any yet")


def _broker_row(
    snapshot: Snapshot, broker: BrokerDescription, loads: Mapping[int, BrokerLoad], most: int
) -> Row:
    load = loads.get(broker.broker_id, BrokerLoad())
    replicas = snapshot.on_brokers.get(broker.broker_id)
    size = None if replicas is None else sum(each.size_bytes for each in replicas.values())
    cells = (
        id_cell(broker.broker_id, Tone.STRONG),
        text_cell(str(broker.endpoint)),
        text_cell(broker.rack),
        broker_state_cell(broker),
        number_cell(load.leaders),
        Cell(share_bar(load.leaders, most, 10), Tone.ACCENT, load.leaders),
        number_cell(load.replicas),
        count_cell(load.out_of_sync, Tone.WARN),
        bytes_cell(size),
        text_cell(broker.endpoint.host),
        id_cell(broker.endpoint.port),
    )
    return Row(str(broker.broker_id), cells, broker.broker_id)


def broker_state_cell(broker: BrokerDescription) -> Cell:
    """Return how a broker is, with a sign; the worst sort first."""
    state = broker_state(broker)
    if state == FENCED:
        return Cell(f"{BAD_SIGN} {state}", Tone.BAD, 0)
    if state == IN_SERVICE:
        return Cell(f"{OK_SIGN} {state}", Tone.GOOD, 2)
    return Cell(f"{WARN_SIGN} {state}", Tone.WARN, 1)


QUORUM_COLUMNS: Final = (
    Column("id", is_number=True), Column("role"), Column("address", shrinks=True),
    Column("log_end", is_number=True, falls=True), Column("lag", is_number=True, falls=True),
    Column("behind", is_number=True, falls=True), Column("heard", is_number=True, falls=True),
    Column("log", is_number=True, falls=True, wide_only=True),
    Column("up", is_number=True, falls=True, wide_only=True),
    Column("snapshot", is_number=True, wide_only=True),
    Column("snapshot_offset", is_number=True, wide_only=True), Column("directory", wide_only=True),
)  # fmt: skip


def quorum_frame(snapshot: Snapshot) -> Frame:
    """Return a row for each controller: who leads, who lags, by how much, for how long."""
    view = snapshot.quorum
    if view is None:
        return Frame("quorum", QUORUM_COLUMNS, (), "nobody tells how the quorum is")
    rows = tuple(_replica_row(view, replica) for replica in view.replicas)
    title = f"quorum: {view.majority} of {len(view.voters)} decide, {view.spare} more may fail"
    return Frame(title, QUORUM_COLUMNS, rows)


def _replica_row(view: QuorumView, replica: Replica) -> Row:
    own, lag, behind = replica.own, view.lag(replica), view.behind_ms(replica)
    heard = 0 if replica.role == LEADER else view.since_ms(replica.last_fetch_ms)
    lag_tone = Tone.GOOD if lag == 0 else Tone.WARN
    end = None if replica.log_end_offset == UNKNOWN_OFFSET else replica.log_end_offset
    cells = (
        id_cell(replica.node_id, Tone.STRONG),
        _role_cell(view, replica),
        text_cell(None if replica.endpoint is None else str(replica.endpoint)),
        number_cell(end),
        number_cell(lag, lag_tone),
        duration_cell(behind, Tone.WARN if behind else Tone.DIM),
        duration_cell(heard, Tone.WARN if heard and heard > STALE_MS else Tone.DIM),
        bytes_cell(None if own is None else own.log_bytes),
        duration_cell(None if own is None else own.uptime_ms),
        bytes_cell(None if own is None else own.snapshot_bytes),
        number_cell(None if own is None else own.snapshot_offset),
        text_cell(replica.directory_text),
    )
    return Row(f"{replica.node_id}/{replica.directory_text}", cells, replica.node_id)


def _role_cell(view: QuorumView, replica: Replica) -> Cell:
    if replica in view.silent:
        return Cell(f"{BAD_SIGN} {replica.role}, silent", Tone.BAD, 0)
    if replica.disk_full:
        return Cell(f"{BAD_SIGN} {replica.role}, {DISK_FULL}", Tone.BAD, 0)
    if replica.role == LEADER:
        return Cell("▸ leader", Tone.ACCENT, 1)
    if replica.role == OBSERVER:
        return Cell("○ observer", Tone.DIM, 3)
    return Cell(f"{OK_SIGN} {replica.role}", Tone.GOOD, 2)


def header_lines(snapshot: Snapshot | None) -> tuple[Line, ...]:
    """Return the lines at the top: which cluster and who leads it; how it is.

    In trouble there is a third: what cannot be asked, and how old the rest is.
    """
    if snapshot is None:
        waiting = Part("looking for the cluster ...", Tone.DIM)
        return (Part(" quorate ", Tone.LEADER_BLOCK), Part("  "), waiting), ()
    lines = (_who(snapshot), health_parts(snapshot))
    return (*lines, _troubles(snapshot)) if snapshot.troubles else lines


def _who(snapshot: Snapshot) -> Line:
    view = snapshot.quorum
    leads: Line
    if view is None:
        leads = (Part(f"{WARN_SIGN} controllers unknown", Tone.WARN),)
    elif view.leader_id is None:
        leads = (Part(f"{BAD_SIGN} no leader, term {view.leader_epoch}", Tone.BAD),)
    else:
        able, voters = len(view.able), len(view.voters)
        of = f" ({able}/{voters})"
        tone = Tone.PLAIN if able == voters else Tone.WARN
        leads = (
            Part(f"controller {view.leader_id}", Tone.STRONG),
            Part(f" term {view.leader_epoch}"),
            Part(of, tone),
        )
    return (
        Part(" quorate ", Tone.LEADER_BLOCK),
        Part(f" {snapshot.cluster_id or UNKNOWN}  "),
        *leads,
        Part("  "),
        brokers_part(snapshot),
    )


def brokers_part(snapshot: Snapshot) -> Part:
    """Return how many brokers are in service, of how many."""
    brokers = len(snapshot.brokers)
    alive = brokers - len(snapshot.dead)
    if alive == brokers:
        return Part(f"brokers {alive}/{brokers}")
    return Part(f"{BAD_SIGN} brokers {alive}/{brokers}", Tone.BAD)


def _troubles(snapshot: Snapshot) -> Line:
    age_ms = None if snapshot.answered_ms is None else snapshot.now_ms - snapshot.answered_ms
    old = f"as of {duration_text(age_ms)} ago: " if age_ms and age_ms > STALE_MS else ""
    return (Part(f" {WARN_SIGN} {old}{'; '.join(snapshot.troubles)} ", Tone.BAD_BLOCK),)


def health_parts(snapshot: Snapshot) -> Line:
    """Return how many topics and partitions there are, and what is wrong with how many."""
    health = snapshot.health
    parts = [
        Part(f" topics {health.topics:,}  partitions {health.partitions:,}  "),
        _count(health.offline, "offline", BAD_SIGN, Tone.BAD),
        Part("  "),
        _count(health.under_replicated, "under-replicated", WARN_SIGN, Tone.WARN),
        Part("  "),
        _count(health.under_min_isr, "under min ISR", BAD_SIGN, Tone.BAD),
    ]
    return tuple(parts)


def _count(count: int, what: str, sign: str, tone: Tone) -> Part:
    return Part(f"{sign} {count:,} {what}", tone) if count else Part(f"0 {what}", Tone.DIM)
