"""Which nodes a cluster on this machine has, on which ports; and how each is started.

Brokers are numbered from 1, controllers from 101: ids are unique in a cluster.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import PORT_MAX, Endpoint
from quorate.tools.problems import RefusedError, UsageError

HOST: Final = "127.0.0.1"
BROKER: Final = "broker"
CONTROLLER: Final = "controller"
FIRST_BROKER_ID: Final = 1
FIRST_CONTROLLER_ID: Final = 101
VERSION: Final = 1
MEMBERS_MAX: Final = 99

IsFree = Callable[[int], bool]


class LayoutError(QuorateError):
    """What a directory says about its cluster cannot be read."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster; a process of its own, in a directory of its own."""

    role: str
    node_id: int
    port: int
    rack: str = ""

    @property
    def name(self) -> str:
        """What files of it are called."""
        return f"{self.role}-{self.node_id}"

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.role} {self.node_id}"

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint(HOST, self.port)


@dataclass(frozen=True, slots=True)
class Layout:
    """All nodes of a cluster, controllers first, in the order of their ids."""

    members: tuple[Member, ...]

    @property
    def controllers(self) -> tuple[Member, ...]:
        """The controllers."""
        return tuple(member for member in self.members if member.role == CONTROLLER)

    @property
    def brokers(self) -> tuple[Member, ...]:
        """The brokers."""
        return tuple(member for member in self.members if member.role == BROKER)

    @property
    def bootstrap(self) -> str:
        """What clients are told."""
        return ",".join(str(member.endpoint) for member in self.brokers)

    @property
    def join(self) -> str:
        """What brokers and controllers are told."""
        return ",".join(str(member.endpoint) for member in self.controllers)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for; None where it says nothing."""

    brokers: int | None = None
    controllers: int | None = None
    racks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """A broker that listens elsewhere than it was to, because the port is taken."""

    member: Member
    wanted: int


def new_layout(wish: Wish) -> Layout:
    """Return the layout of a new cluster, without ports.

    Raises:
        UsageError: a number makes no sense.
    """
    brokers = wish.brokers or wish.controllers or 1
    controllers = wish.controllers or (3 if brokers >= 3 else 1)
    if controllers % 2 == 0:
        raise UsageError(
            f"{controllers} controllers are no better than {controllers - 1}",
            why="a majority has to run, so an even one adds nothing",
            hint=f"--controllers {controllers - 1} or --controllers {controllers + 1}",
        )
    voters = (Member(CONTROLLER, FIRST_CONTROLLER_ID + at, 0) for at in range(controllers))
    return Layout((*voters, *_brokers(0, brokers, wish.racks)))


def _brokers(first: int, count: int, racks: Sequence[str]) -> list[Member]:
    """Return so many brokers, racks in turn."""
    return [
        Member(BROKER, FIRST_BROKER_ID + at, 0, racks[at % len(racks)] if racks else "")
        for at in range(first, count)
    ]


def resized(layout: Layout, wish: Wish, idle: Collection[str] = ()) -> Layout:
    """Return a layout with the brokers that are wanted in addition, or without the last ones.

    Args:
        layout: As it is.
        wish: What is wanted.
        idle: Names of brokers that do not run and have nothing: only those can go.

    Raises:
        RefusedError: fewer brokers are wanted, or another number of controllers.
    """
    have, wanted = len(layout.brokers), wish.brokers or len(layout.brokers)
    kept = layout.brokers[:wanted]
    for member in layout.brokers[wanted:]:
        if member.name not in idle:
            raise RefusedError(
                f"this cluster has {have} brokers, not {wanted}",
                why=f"{member.title} runs, or has replicas that would be missing",
                hint=f"quorate brokers decommission {member.node_id}, or another --dir",
            )
    if wish.controllers not in (None, len(layout.controllers)):
        raise RefusedError(
            f"this cluster has {len(layout.controllers)} controllers, not {wish.controllers}",
            why="who votes is a decision of the quorum, one step at a time",
            hint="quorate quorum add and remove, or another --dir for a new cluster",
        )
    return Layout((*layout.controllers, *kept, *_brokers(have, wanted, wish.racks)))


def settle_brokers(
    layout: Layout, running: Collection[str], first: int | None, is_free: IsFree
) -> tuple[Layout, list[Moved]]:
    """Give each broker that does not run a port: its own, or that of ``first`` and up, or the next.

    Args:
        layout: Brokers that never ran have port 0.
        running: Names of members that run: they keep theirs.
        first: The port wanted for the first broker; None: those they had.
        is_free: Whether a port can be listened on.

    Raises:
        UsageError: no port is left.
    """
    base = layout.brokers[0].port if first is None else first
    wanted: dict[str, int] = {}
    for at, member in enumerate(layout.brokers):
        keeps = member.name in running or (first is None and member.port > 0)
        wanted[member.name] = member.port if keeps else base + at
    used = {m.port for m in layout.members if m.role == CONTROLLER or m.name in running}
    settled: list[Member] = list(layout.controllers)
    moved: list[Moved] = []
    for member in layout.brokers:
        port = wanted[member.name]
        if member.name not in running:
            others = {p for name, p in wanted.items() if name != member.name and p > port}
            port = _free_from(port, used, others, is_free)
        used.add(port)
        settled.append(replace(member, port=port))
        if port != wanted[member.name]:
            moved.append(Moved(settled[-1], wanted[member.name]))
    return Layout(tuple(settled)), moved


def _free_from(port: int, used: Collection[int], others: Collection[int], is_free: IsFree) -> int:
    for candidate in range(port, PORT_MAX + 1):
        if candidate not in used and candidate not in others and is_free(candidate):
            return candidate
    raise UsageError(f"no port is free from {port} on", why="all are taken", hint="a lower --port")


def settle_controllers(layout: Layout, first: int, is_free: IsFree) -> Layout:
    """Give controllers that have no port yet free ones from ``first`` on.

    Raises:
        UsageError: no port is left.
    """
    settled: list[Member] = []
    port = first
    for member in layout.controllers:
        if member.port == 0:
            port = _free_from(port, (), (), is_free)
            settled.append(replace(member, port=port))
            port += 1
        else:
            settled.append(member)
    return Layout((*settled, *layout.brokers))


def command_words(layout: Layout, member: Member, directory: str) -> list[str]:
    """Return the command that starts a node, as one may type it in a shell."""
    words = [member.role, "start", "--id", str(member.node_id)]
    if member.role == CONTROLLER:
        words += ["--listen", str(member.endpoint)]
        if len(layout.controllers) > 1:
            words += ["--join", layout.join]
    else:
        words += ["--port", str(member.port), "--controllers", layout.join]
        words += ["--local-brokers", str(len(layout.brokers))]
        if member.rack:
            words += ["--rack", member.rack]
    return [*words, "--dir", f"{directory}/{member.name}"]


def encode(layout: Layout) -> str:
    """Return a layout as it is written down."""
    members = [
        {"role": m.role, "id": m.node_id, "port": m.port, "rack": m.rack} for m in layout.members
    ]
    return json.dumps({"kind": "quorate-cluster", "version": VERSION, "nodes": members}, indent=2)


def decode(text: str) -> Layout:
    """Return a layout that was written down.

    Raises:
        LayoutError: it is damaged, or of a newer release.
    """
    try:
        document: Any = json.loads(text)
        if document["version"] != VERSION:
            raise LayoutError(f"it has version {document['version']}, not {VERSION}")
        members = tuple(
            Member(str(n["role"]), int(n["id"]), int(n["port"]), str(n["rack"]))
            for n in document["nodes"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LayoutError(f"it is damaged: {error}") from None
    layout = Layout(members)
    if not layout.brokers or not layout.controllers:
        raise LayoutError("it is damaged: no nodes of both kinds")
    return layout
