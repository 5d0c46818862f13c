"""What may be done to the nodes of a cluster of ``quorate up``, and which node a word names."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.clusters.picture import DEAD, PAUSED, STOPPED, NodeState
from quorate.tools.output import Column, Table
from quorate.tools.positions import parse_duration
from quorate.tools.problems import CommandError, RefusedError, UsageError

KILL: Final = "kill"
PAUSE: Final = "pause"
RESUME: Final = "resume"
START: Final = "start"


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do to a node; ``key`` chooses it in a menu."""

    key: str
    meaning: str
    done: str


ACTIONS: Final[Mapping[str, Action]] = {
    KILL: Action("k", "SIGKILL: it is gone at once, without a good-bye", "killed"),
    PAUSE: Action("p", "SIGSTOP: it hangs, with its connections open", "paused"),
    RESUME: Action("r", "SIGCONT: it goes on where it hung", "resumed"),
    START: Action("s", "start it again, as quorate up does", "started"),
}


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong below a node: its wall clock, its disk, its links to others.

    Attributes:
        ahead_ms: how far the clock was ahead when it was set wrong; negative if behind.
        rate: how many times as fast as the right one it runs since.
        sync_delay_ms: how much longer each sync takes.
        apart: the names of the nodes that it cannot reach.
    """

    ahead_ms: int = 0
    rate: float = 1.0
    sync_delay_ms: int = 0
    apart: tuple[str, ...] = ()


NO_FAULTS: Final = Faults()

SHIFT_MAX_MS: Final = 36_500 * 86_400_000
"""A hundred years: the page below a node has room for thrice that."""


def faults_text(faults: Faults) -> str:
    """Return what is wrong in a few words; empty if nothing is."""
    said: list[str] = []
    if faults.ahead_ms:
        way = "ahead" if faults.ahead_ms > 0 else "behind"
        said.append(f"clock {span_text(abs(faults.ahead_ms))} {way}")
    if faults.rate != 1:
        said.append(f"clock {faults.rate:g} times as fast")
    if faults.sync_delay_ms:
        said.append(f"each sync {span_text(faults.sync_delay_ms)} longer")
    if faults.apart:
        said.append(f"cut off from {' '.join(faults.apart)}")
    return ", ".join(said)


def cut_between(layout: Layout, side: Sequence[Member]) -> Mapping[str, tuple[str, ...]]:
    """Return whom each node cannot reach, by name, if these are cut off from all others.

    Raises:
        UsageError: there are no others.
    """
    here = {member.name for member in side}
    others = {member.name for member in layout.members} - here
    if not others:
        raise UsageError(
            "there is nobody to cut them off from", why="these are all nodes",
            hint="quorate chaos list",
        )  # fmt: skip
    return {
        member.name: tuple(
            each.name
            for each in layout.members
            if each.name in (others if member.name in here else here)
        )
        for member in layout.members
    }


def span_text(span_ms: int) -> str:
    """Return a time as it may be typed: the largest unit of which it is a whole number."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
    return next(f"{span_ms // ms}{unit}" for unit, ms in units if span_ms % ms == 0)


def parse_shift(text: str) -> int:
    """Return the milliseconds of ``10m``, or of ``-1h30m`` for backwards.

    Raises:
        UsageError: it is no time, or one so long that no clock can be set so far wrong.
    """
    ms = parse_duration(text.lstrip("+-"))
    if ms is None or text[:2] in {"--", "++", "+-", "-+"}:
        raise UsageError(
            f"{text!r} is no time", why="such as 500ms, 90s, 10m, -1h", hint="--by 10m"
        )
    if ms > SHIFT_MAX_MS:
        raise UsageError(
            f"{text!r} is too long", why=f"at most {span_text(SHIFT_MAX_MS)}", hint="--by 10m"
        )
    return -ms if text.startswith("-") else ms


def parse_delay(text: str) -> int:
    """Return the milliseconds of ``500ms``.

    Raises:
        UsageError: it is no time, or one that would be over before it began.
    """
    ms = parse_shift(text)
    if ms < 0:
        raise UsageError(
            f"a sync cannot take {text.lstrip('-')} less", why="only longer", hint="--by 500ms"
        )
    return ms


@dataclass(frozen=True, slots=True)
class Healing:
    """What is to be undone, by the nodes' names."""

    mended: Sequence[str]
    resumed: Sequence[str]
    started: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.mended or self.resumed or self.started)

    def lines(self, done: bool) -> list[str]:  # noqa: FBT001
        """Say what was done, or would be."""
        words = ("set right what is below", "resumed", "started")
        if not done:
            words = ("would set right what is below", "would resume", "would start")
        those = (self.mended, self.resumed, self.started)
        return [
            f"{word} {', '.join(names)}" for word, names in zip(words, those, strict=True) if names
        ]


def plan_healing(nodes: Sequence[NodeState], faults: Mapping[str, Faults]) -> Healing:
    """Return how to undo what was done to nodes; what was stopped in order is let alone."""
    return Healing(
        [n.member.name for n in nodes if faults.get(n.member.name, NO_FAULTS) != NO_FAULTS],
        [n.member.name for n in nodes if n.process == PAUSED],
        [n.member.name for n in nodes if n.process == DEAD],
    )


def named_member(layout: Layout, word: str) -> Member:
    """Return the node that a word names: ``2``, ``broker-2``, ``controller-101``.

    Raises:
        UsageError: none has that name.
    """
    wanted = word.replace(" ", "-")
    for member in layout.members:
        if wanted in (member.name, str(member.node_id)):
            return member
    raise UsageError(
        f"there is no node {word!r}",
        why="there are " + ", ".join(member.name for member in layout.members),
        hint="quorate chaos list",
    )


def check_possible(action: str, node: NodeState) -> None:
    """See that something can be done to a node as it is.

    Raises:
        CommandError: it cannot: it is so already, or it does not run.
    """
    is_gone = node.process in (DEAD, STOPPED)
    name = node.member.name
    if action == START and not is_gone:
        raise CommandError(
            f"{name} runs already", why=f"it is {node.process}, as process {node.pid}",
            hint=f"quorate chaos {'resume' if node.process == PAUSED else 'kill'} {name}",
        )  # fmt: skip
    if action != START and is_gone:
        raise CommandError(
            f"{name} does not run", why=f"it is {node.process}", hint=f"quorate chaos start {name}"
        )
    if action == PAUSE and node.process == PAUSED:
        raise CommandError(
            f"{name} is paused already", why="it hangs", hint=f"quorate chaos resume {name}"
        )
    if action == RESUME and node.process != PAUSED:
        raise CommandError(
            f"{name} is not paused", why=f"it is {node.process}", hint="quorate chaos list"
        )


def check_majority(action: str, node: NodeState, nodes: Sequence[NodeState]) -> None:
    """See that enough controllers are left to decide.

    Raises:
        RefusedError: with one less, nothing could be decided any more.
    """
    voters = [each for each in nodes if each.member.role == node.member.role]
    if action not in (KILL, PAUSE) or node.member.role != "controller":
        return
    able = [each for each in voters if each.process not in (DEAD, STOPPED, PAUSED)]
    if node in able and len(able) - 1 <= len(voters) // 2:
        raise RefusedError(
            f"without {node.member.name} nothing can be decided any more",
            why=f"{len(able) - 1} of {len(voters)} controllers would be left, no majority",
            hint="add --force, if that is what you want to see",
        )


def nodes_table(nodes: Sequence[NodeState], faults: Mapping[str, Faults]) -> Table:
    """Return a row for each node: its process, how it is, and what is wrong below it."""
    columns = (
        Column("node"), Column("address"), Column("process"), Column("pid"),
        Column("faults"), Column("uptime_ms", wide_only=True),
        Column("memory_bytes", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            n.member.name, str(n.member.endpoint), n.process, n.pid,
            faults_text(faults.get(n.member.name, NO_FAULTS)) or None, n.uptime_ms, n.memory_bytes,
        )
        for n in nodes
    )  # fmt: skip
    return Table("nodes", columns, rows)
