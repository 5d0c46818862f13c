"""What may be done to the nodes of a cluster of ``quorate up``, and which node a word names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.clusters.picture import DEAD, PAUSED, STOPPED, NodeState
from quorate.tools.output import Column, Table
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


def nodes_table(nodes: Sequence[NodeState]) -> Table:
    """Return a row for each node: its process, and how it is."""
    columns = (
        Column("node"), Column("address"), Column("process"), Column("pid"),
        Column("uptime_ms", wide_only=True), Column("memory_bytes", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (n.member.name, str(n.member.endpoint), n.process, n.pid, n.uptime_ms, n.memory_bytes)
        for n in nodes
    )
    return Table("nodes", columns, rows)
