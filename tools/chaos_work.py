"""Trio shell of ``quorate chaos``: signals nodes of a cluster of ``quorate up``, starts them."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import trio

from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.cluster_looking import node_states
from quorate.tools.clusters.chaos import (
    ACTIONS,
    KILL,
    PAUSE,
    RESUME,
    START,
    check_majority,
    check_possible,
    named_member,
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
    done = await trio.run_process(
        words, stdin=subprocess.DEVNULL, capture_stdout=True, capture_stderr=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout or b"").decode(errors="replace").split("\n")
        raise CommandError(
            "it did not start", why=" ".join(said[0].split()), hint=f"quorate up --dir {path}"
        )
