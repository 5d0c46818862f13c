"""Trio shell of ``quorate chaos``: signals nodes of a cluster of ``quorate up``, starts them."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import trio

from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.cluster_looking import node_states
from quorate.tools.clusters.chaos import (
    ACTIONS,
    KILL,
    NO_FAULTS,
    PAUSE,
    RESUME,
    START,
    Faults,
    check_majority,
    check_possible,
    cut_between,
    faults_text,
    named_member,
    plan_healing,
)
from quorate.tools.clusters.picture import NodeState
from quorate.tools.problems import CommandError
from quorate.tools.processes import send
from quorate.tools.supervisor import wait_gone

SIGNALS: Final = {KILL: signal.SIGKILL, PAUSE: signal.SIGSTOP, RESUME: signal.SIGCONT}


def states(path: Path) -> tuple[NodeState, ...]:
    """Return how the nodes are.

    Raises:
        CommandError: there is no cluster.
    """
    directory = ClusterDirectory(path)
    return node_states(directory, directory.layout())


def faults_by_name(path: Path) -> dict[str, Faults]:
    """Return what is wrong below the nodes, where something may be.

    Raises:
        CommandError: there is no cluster.
    """
    directory = ClusterDirectory(path)
    layout = directory.layout()
    if not directory.has_chaos:
        return {}
    from quorate.tools.chaos_equipment import faults_of

    return {m.name: faults_of(directory, m.name) for m in layout.members}


def break_below(path: Path, word: str, change: Callable[[Faults], Faults], *, dry_run: bool) -> str:
    """Make something wrong below a node; return what is, in a line.

    Raises:
        CommandError: it does not run, or not over what could be broken.
        UsageError: there is no such node.
    """
    directory = ClusterDirectory(path)
    layout = directory.layout()
    member = named_member(layout, word)
    node = next(each for each in node_states(directory, layout) if each.member == member)
    if node.pid is None:
        raise CommandError(
            f"{member.name} does not run", why=f"it is {node.process}",
            hint=f"quorate chaos start {member.name}",
        )  # fmt: skip
    return _change(directory, node, change, dry_run=dry_run)


def partition(path: Path, words: Sequence[str], *, dry_run: bool) -> list[str]:
    """Cut nodes off from all others; return what is wrong with each then, a line each.

    Raises:
        CommandError: one runs, but not over what could be broken; nothing was done then.
        UsageError: there is no such node, or nobody else.
    """
    directory = ClusterDirectory(path)
    layout = directory.layout()
    apart = cut_between(layout, [named_member(layout, word) for word in words])
    nodes = node_states(directory, layout)

    def cut(node: NodeState, *, dry_run: bool) -> str:
        def change(faults: Faults) -> Faults:
            return replace(faults, apart=apart[node.member.name])

        return _change(directory, node, change, dry_run=dry_run)

    would_be = [cut(node, dry_run=True) for node in nodes]
    return would_be if dry_run else [cut(node, dry_run=False) for node in nodes]


def _change(
    directory: ClusterDirectory,
    node: NodeState,
    change: Callable[[Faults], Faults],
    *,
    dry_run: bool,
) -> str:
    """Change what is wrong below a node; say what is then."""
    if not directory.has_chaos:
        raise _not_equipped(directory.path, "the cluster was not started with --chaos")
    from quorate.tools.chaos_equipment import Equipment

    name, title = node.member.name, node.member.title
    with Equipment(directory, name) as equipment:
        if node.pid is not None and not equipment.is_below(node.pid):
            raise _not_equipped(directory.path, f"{name} was started before that was said")
        faults = change(equipment.faults)
        if not dry_run:
            equipment.faults = faults
    return f"{'would be: ' if dry_run else ''}{title}: {faults_text(faults) or 'all right'}"


def _not_equipped(path: Path, why: str) -> CommandError:
    return CommandError(
        "what is below it cannot be broken", why=why,
        hint=f"quorate down --dir {path}; quorate up --chaos --detach --dir {path}",
    )  # fmt: skip


async def heal(path: Path, word: str | None, *, dry_run: bool) -> list[str]:
    """Undo what was done to a node, or to all; return what that was, a line each.

    Raises:
        CommandError: there is no cluster, or a node does not start.
        UsageError: there is no such node.
    """
    directory = ClusterDirectory(path)
    layout = directory.layout()
    chosen = layout.members if word is None else (named_member(layout, word),)
    nodes = [node for node in node_states(directory, layout) if node.member in chosen]
    plan = plan_healing(nodes, faults_by_name(path))
    if not dry_run and plan.mended:
        from quorate.tools.chaos_equipment import Equipment

        for name in plan.mended:
            with Equipment(directory, name) as equipment:
                equipment.faults = NO_FAULTS
    if not dry_run:
        for name in plan.resumed:
            send(directory.running().nodes[name], SIGNALS[RESUME])
        if plan.started:
            await _start_missing(path)
    return plan.lines(not dry_run) or ["there is nothing to heal"]


async def act(
    path: Path, action: str, word: str, *, force: bool = True, dry_run: bool = False
) -> str:
    """Do something to a node; return what was done, or would be, in a line.

    Raises:
        CommandError: there is no such cluster, or it cannot be done to the node as it is.
        UsageError: there is no such node.
        RefusedError: nothing could be decided any more, and nobody said ``force``.
    """
    directory = ClusterDirectory(path)
    layout = directory.layout()
    member = named_member(layout, word)
    nodes = node_states(directory, layout)
    node = next(each for each in nodes if each.member == member)
    check_possible(action, node)
    if not force:
        check_majority(action, node, nodes)
    if dry_run:
        return f"would {action} {member.title}"
    if action == START:
        await _start_missing(path)
    else:
        process = directory.running().nodes[member.name]
        send(process, SIGNALS[action])
        if action == KILL:
            await wait_gone([process])
    return f"{ACTIONS[action].done} {member.title}"


async def _start_missing(path: Path) -> None:
    """Start what does not run: whoever runs the cluster does it, or it goes on by itself."""
    words = [sys.executable, "-m", "quorate.tools.cli", "up", "--dir", str(path), "--detach", "-q"]
    words += ClusterDirectory(path).kept_options()
    done = await trio.run_process(
        words, stdin=subprocess.DEVNULL, capture_stdout=True, capture_stderr=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout or b"").decode(errors="replace").split("\n")
        raise CommandError(
            "it did not start", why=" ".join(said[0].split()), hint=f"quorate up --dir {path}"
        )
