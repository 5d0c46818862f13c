"""A cluster at a moment: its processes and what they say; as rows, as lines, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from quorate.client.admin_results import BrokerDescription
from quorate.dataclass import dataclass
from quorate.tools.clusters.health import BrokerLoad, Health, health_lines
from quorate.tools.clusters.layout import BROKER, Layout, Member
from quorate.tools.output import Column, Table, bytes_text
from quorate.tools.quorum.text import DISK_FULL, duration_text

UNKNOWN: Final = "-"
STARTING: Final = "starting"
RUNNING: Final = "running"
PAUSED: Final = "paused"
DEAD: Final = "dead"
STOPPED: Final = "not started"
FENCED: Final = "fenced"
READ_ONLY: Final = "read-only"
IN_SERVICE: Final = "in service"
LEADER: Final = "leader"
FOLLOWER: Final = "follower"
TROUBLED: Final = frozenset({PAUSED, DEAD, STOPPED, FENCED, READ_ONLY, DISK_FULL})
HEADINGS: Final = (
    "NODE", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "BEHIND", "MEMORY", "UP",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node's process; ``ended`` says how, ``last_lines`` what it printed last if it is dead."""

    member: Member
    process: str
    pid: int | None = None
    memory_bytes: int | None = None
    uptime_ms: int | None = None
    ended: str = ""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What brokers and controllers say; ``brokers_silent`` and so on if nobody answered.

    Attributes:
        leader_id: the controller that leads, None if none does or none answered.
        voters: the controllers that answered.
        full: those of them whose disks are full.
    """

    cluster_id: str = ""
    leader_id: int | None = None
    voters: frozenset[int] = frozenset()
    full: frozenset[int] = frozenset()
    brokers: Mapping[int, BrokerDescription] = field(default_factory=dict[int, BrokerDescription])
    loads: Mapping[int, BrokerLoad] = field(default_factory=dict[int, BrokerLoad])
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at a moment."""

    directory: str
    layout: Layout
    nodes: tuple[NodeState, ...]
    look: Look

    @property
    def running(self) -> int:
        """How many processes run."""
        return sum(node.process not in (DEAD, STOPPED) for node in self.nodes)

    @property
    def majority(self) -> int:
        """How many controllers have to run."""
        return len(self.layout.controllers) // 2 + 1

    @property
    def is_whole(self) -> bool:
        """Whether controllers and brokers were heard, unless some do not run."""
        heard = self.look.leader_id is not None and self.look.health is not None
        return heard or self.running < len(self.nodes)

    @property
    def is_good(self) -> bool:
        """Whether all run, one leads, and all partitions are as they should be."""
        states = {state_of(self, node) for node in self.nodes}
        health = self.look.health
        led = self.look.leader_id is not None
        return led and health is not None and health.is_good and not states & TROUBLED


def state_of(picture: Picture, node: NodeState) -> str:
    """Return in a word or two how a node is: its process, else what the cluster says of it."""
    if node.process != RUNNING:
        return node.process
    look, node_id = picture.look, node.member.node_id
    if node.member.role == BROKER:
        broker = look.brokers.get(node_id)
        if broker is None:
            return STARTING if look.brokers else RUNNING
        return broker_state(broker)
    if node_id in look.full:
        return DISK_FULL
    if node_id == look.leader_id:
        return LEADER
    return FOLLOWER if node_id in look.voters else RUNNING


def broker_state(broker: BrokerDescription) -> str:
    """Return in a word or two how a broker is, as its cluster sees it."""
    if broker.is_fenced:
        return FENCED
    if broker.is_shutting_down:
        return "shutting down"
    if broker.cannot_write:
        return READ_ONLY
    return "draining" if broker.is_draining else IN_SERVICE


def rows(picture: Picture) -> list[tuple[str, ...]]:
    """Return a row of cells for each node, under :data:`HEADINGS`."""
    return [_cells(picture, node) for node in picture.nodes]


def _cells(picture: Picture, node: NodeState) -> tuple[str, ...]:
    leads = replicas = behind = UNKNOWN
    if node.member.role == BROKER and picture.look.health is not None:
        load = picture.look.loads.get(node.member.node_id, BrokerLoad())
        leads, replicas, behind = map(str, (load.leaders, load.replicas, load.out_of_sync))
    return (
        node.member.title,
        str(node.member.endpoint),
        UNKNOWN if node.pid is None else str(node.pid),
        state_of(picture, node),
        leads,
        replicas,
        behind,
        UNKNOWN if node.memory_bytes is None else bytes_text(node.memory_bytes),
        duration_text(node.uptime_ms),
    )


def summary(picture: Picture) -> list[tuple[str, str]]:
    """Return what is to say about the cluster as a whole: labels and texts."""
    look = picture.look
    health = "no broker answers" if look.health is None else health_lines(look.health)
    return [
        ("cluster", f"{look.cluster_id or 'not known yet'}, data in {picture.directory}"),
        ("brokers", picture.layout.bootstrap),
        ("controllers", _controllers_text(picture)),
        ("partitions", health),
    ]


def _controllers_text(picture: Picture) -> str:
    look = picture.look
    full = f"; {DISK_FULL}: {', '.join(map(str, sorted(look.full)))}" if look.full else ""
    if look.leader_id is None:
        what = "nobody leads" if look.voters else "none answers"
        return f"{what}; {picture.majority} of {len(picture.layout.controllers)} have to run{full}"
    spare = len(look.voters - look.full) - picture.majority
    return f"{look.leader_id} leads; {max(0, spare)} more may fail{full}"


def problems(picture: Picture) -> list[str]:
    """Return what is not as it should be, in a few words each."""
    if picture.running == 0:
        return ["none of its nodes runs"]
    states = ((node.member.title, state_of(picture, node)) for node in picture.nodes)
    found = [_news(title, state) for title, state in states if state in TROUBLED]
    if picture.look.leader_id is None:
        found.append("no controller leads")
    health = picture.look.health
    if health is None:
        found.append("no broker answers")
    elif not health.is_good:
        found.append(health_lines(health))
    return found


def _news(title: str, state: str) -> str:
    return f"the disk of {title} is full" if state == DISK_FULL else f"{title} is {state}"


def deaths(picture: Picture) -> list[str]:
    """Return lines about the nodes that are dead: how they ended, what they said last."""
    lines: list[str] = []
    for node in picture.nodes:
        if node.process == DEAD:
            lines.append(f"{node.member.title} is dead: {node.ended}")
            lines += [f"    {line}" for line in node.last_lines]
    return lines


def status_lines(picture: Picture) -> list[str]:
    """Return the cluster as lines for people: the summary, a table, the dead."""
    cells = [HEADINGS, *rows(picture)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEADINGS))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    head = [f"{label:<12} {text}" for label, text in summary(picture)]
    dead = deaths(picture)
    return [*head, "", *table, *([""] if dead else []), *dead]


def changes(before: Picture | None, after: Picture) -> list[str]:
    """Return lines about what is different between two pictures, where no screen shows it."""
    if before is None:
        return []
    then = {node.member.name: node for node in before.nodes}
    lines: list[str] = []
    for node in after.nodes:
        was = then.get(node.member.name)
        if was is None:
            continue
        old, new = state_of(before, was), state_of(after, node)
        if node.process == DEAD and was.process != DEAD:
            lines.append(f"{node.member.title} is dead: {node.ended}; the others go on")
            lines += [f"    {line}" for line in node.last_lines]
        elif old != new and (old in TROUBLED or new in TROUBLED):
            lines.append(_news(node.member.title, new))
    leader = after.look.leader_id
    if leader != before.look.leader_id:
        lines.append("no controller leads" if leader is None else f"controller {leader} leads")
    was_health, health = before.look.health, after.look.health
    if health is not None and was_health is not None and _differ(was_health, health):
        lines.append(f"partitions: {health_lines(health)}")
    return lines


def _differ(before: Health, after: Health) -> bool:
    """Whether partitions are better or worse off; that there are more of them is no news."""
    was, now = (
        (h.offline, h.under_replicated, h.under_min_isr, h.at_min_isr) for h in (before, after)
    )
    return was != now


_NODE_COLUMNS: Final = (
    "role", "id", "address", "pid", "state", "leads", "replicas", "behind", "memory_bytes",
    "uptime_ms", "ended", "last_lines",
)  # fmt: skip


def status_table(picture: Picture) -> Table:
    """Return the cluster as one row, for programs."""
    columns = (
        Column("directory"), Column("cluster_id"), Column("good"), Column("bootstrap"),
        Column("controllers"), Column("leader_id"), Column("partitions"), Column("nodes"),
    )  # fmt: skip
    look, health = picture.look, picture.look.health
    counts = None
    if health is not None:
        names = (
            "topics", "partitions", "offline", "under_replicated", "under_min_isr", "at_min_isr",
        )  # fmt: skip
        counts = {name: getattr(health, name) for name in names}
    row = (
        picture.directory, look.cluster_id or None, picture.is_good, picture.layout.bootstrap,
        picture.layout.join, look.leader_id, counts, _nodes(picture),
    )  # fmt: skip
    return Table("clusters", columns, (row,))


def _nodes(picture: Picture) -> Sequence[Mapping[str, Any]]:
    items: list[dict[str, Any]] = []
    for node in picture.nodes:
        load = None
        if node.member.role == BROKER and picture.look.health is not None:
            load = picture.look.loads.get(node.member.node_id, BrokerLoad())
        values = (
            node.member.role, node.member.node_id, str(node.member.endpoint), node.pid,
            state_of(picture, node), load and load.leaders, load and load.replicas,
            load and load.out_of_sync, node.memory_bytes, node.uptime_ms, node.ended or None,
            list(node.last_lines),
        )  # fmt: skip
        items.append(dict(zip(_NODE_COLUMNS, values, strict=True)))
    return items
