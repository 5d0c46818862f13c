"""Trio shell: starts the nodes of a cluster on this machine, watches them, ends them in order.

Nodes in the foreground end with this process, however it ends: their standard input is a pipe that
it holds. The brokers also hold the pipe of the controllers, so these stay until the last broker has
taken its leave.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from quorate.dataclass import dataclass
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.layout import BROKER, CONTROLLER, Layout, Member, command_words
from quorate.tools.clusters.picture import DEAD, PAUSED, RUNNING, STARTING, STOPPED, NodeState
from quorate.tools.processes import (
    START_LINE,
    ProcessId,
    exit_text,
    is_running,
    last_lines,
    look_at,
    process_id,
    send,
)

POLL_S: Final = 0.03
GRACE_S: Final = 15.0
"""How long a node may take to end: a broker waits 5 s for controllers that do not answer."""

KILLED_S: Final = 5.0
LAST_LINES: Final = 4
LOG_BYTES_MAX: Final = 8 << 20
READY: Final = b'{"event": "ready"'


@dataclass(slots=True)
class Node:
    """A node that was started here; ``log_begin`` is where its output begins in its file.

    ``metrics`` is where it says that it serves its metrics, if it does.
    """

    member: Member
    process: trio.Process
    known: ProcessId
    log: Path
    log_begin: int
    is_ready: bool = False
    metrics: str | None = None
    exit_code: int | None = None

    def look_ready(self) -> bool:
        """Whether it has said that it serves."""
        if not self.is_ready:
            with self.log.open("rb") as file:
                file.seek(self.log_begin)
                ready = next((line for line in file if line.startswith(READY)), None)
            # The rest of a line that is being written comes with the next look.
            if ready is not None and ready.endswith(b"\n"):
                self.is_ready = True
                self.metrics = json.loads(ready).get("metrics")
        return self.is_ready

    def state(self) -> NodeState:
        """Return how its process is."""
        state = None if self.exit_code is not None else look_at(self.known)
        if state is None:
            lines = last_lines(self.log, LAST_LINES)
            return NodeState(
                self.member, DEAD, ended=exit_text(self.exit_code), last_lines=tuple(lines)
            )
        kind = RUNNING if self.look_ready() else STARTING
        return NodeState(
            self.member,
            PAUSED if state.is_paused else kind,
            self.known.pid,
            state.memory_bytes,
            state.uptime_ms,
        )


class Supervisor:
    """Owns the processes that it started, by the names of their members.

    Invariant: what runs is written down in the directory before anything else is done, so that it
    can be found and ended even if this process is killed.
    """

    def __init__(
        self, directory: ClusterDirectory, options: Sequence[str], *, attached: bool
    ) -> None:
        self.directory = directory
        self.nodes: dict[str, Node] = {}
        self._options = list(options)
        self._pipes = _Pipes() if attached else None
        self._others: dict[str, ProcessId] = {}

    def adopt(self, others: Mapping[str, ProcessId]) -> None:
        """Take note of nodes that were started by somebody else."""
        self._others.update(others)

    def close(self) -> None:
        """Let go of the pipes: whatever still hangs on them ends."""
        if self._pipes is not None:
            self._pipes.close()

    async def start(self, layout: Layout) -> list[Node]:
        """Start the nodes that do not run; returns them."""
        started: list[Node] = []
        for member in layout.members:
            if member.name in self._running():
                continue
            node = await self._start(layout, member)
            self.nodes[member.name] = node
            started.append(node)
            self._write_down()
        return started

    def _running(self) -> dict[str, ProcessId]:
        """Return what runs, by name."""
        own = {name: node.known for name, node in self.nodes.items() if node.exit_code is None}
        return {n: known for n, known in {**self._others, **own}.items() if is_running(known)}

    def _write_down(self) -> None:
        """Remember what was started; what has ended stays in the list, until all are stopped."""
        known = {**self._others, **{name: node.known for name, node in self.nodes.items()}}
        self.directory.write_running(known, supervised=self._pipes is not None)

    async def _start(self, layout: Layout, member: Member) -> Node:
        words = command_words(layout, member, str(self.directory.path))
        command = [sys.executable, "-m", "quorate.tools.cli", *words, "--format", "jsonl"]
        command += self._options
        log = self.directory.log_of(member.name)
        _shorten(log)
        stdin: int = subprocess.DEVNULL
        kept: Sequence[int] = ()
        if self._pipes is not None:
            command.append("--with-parent")
            stdin, kept = self._pipes.for_role(member.role)
        with log.open("ab") as output:
            output.write(START_LINE.encode() + b"\n")
            output.flush()
            begin = output.tell()
            process = await trio.lowlevel.open_process(
                command, stdin=stdin, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, pass_fds=kept,
                env=self._environment(member),
            )  # fmt: skip
        # Nobody has waited for it yet, so the number is still its own even if it ended already.
        known = process_id(process.pid) or ProcessId(process.pid, -1)
        return Node(member, process, known, log, begin)

    def _environment(self, member: Member) -> dict[str, str]:
        if not self.directory.has_chaos:
            return dict(os.environ)
        from quorate.tools.chaos_equipment import environment_of

        return {**os.environ, **environment_of(self.directory, member.name)}

    async def watch(self, node: Node) -> None:
        """Wait until a node ends, and note how."""
        node.exit_code = await node.process.wait()
        self._write_down()

    def states(self, layout: Layout) -> tuple[NodeState, ...]:
        """Return how all nodes are."""
        states: list[NodeState] = []
        for member in layout.members:
            node = self.nodes.get(member.name)
            states.append(NodeState(member, STOPPED) if node is None else node.state())
        return tuple(states)

    async def wait_ready(self, nodes: Sequence[Node], timeout_s: float) -> bool:
        """Wait until each of these serves or has ended; whether all serve."""
        with trio.move_on_after(timeout_s):
            while any(is_running(n.known) and not n.look_ready() for n in nodes):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
        return all(node.look_ready() and is_running(node.known) for node in nodes)

    async def stop(self, hurry: trio.Event, tell: Callable[[str], None]) -> None:
        """End all nodes; the directory forgets them."""
        await stop_processes(self._running(), hurry, tell)
        self.directory.write_running({}, supervised=False)


class _Pipes:
    """The pipes that nodes in the foreground hang on, one for each role."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        self._write: dict[str, int] = {}
        for role in (BROKER, CONTROLLER):
            self._read[role], self._write[role] = os.pipe()

    def for_role(self, role: str) -> tuple[int, Sequence[int]]:
        """Return a node's standard input, and what else it is to inherit."""
        return self._read[role], (self._write[CONTROLLER],) if role == BROKER else ()

    def close(self) -> None:
        """Close all ends."""
        for descriptor in (*self._read.values(), *self._write.values()):
            with suppress(OSError):
                os.close(descriptor)


def _shorten(log: Path) -> None:
    """Put a log aside that has become long."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))


async def stop_processes(
    processes: Mapping[str, ProcessId], hurry: trio.Event, tell: Callable[[str], None]
) -> None:
    """End nodes: brokers first, which hand over what they lead, then controllers.

    What has not ended in time, or when somebody is in a hurry, is killed.
    """
    for role in (BROKER, CONTROLLER):
        group = {n: known for n, known in processes.items() if n.startswith(role)}
        for known in group.values():
            send(known, signal.SIGTERM)
            send(known, signal.SIGCONT)  # what is paused hears nothing else
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when, hurry, nursery.cancel_scope)
            with trio.move_on_after(GRACE_S):
                await wait_gone(group.values())
            nursery.cancel_scope.cancel()
        left = {name: known for name, known in group.items() if is_running(known)}
        for name, known in left.items():
            send(known, signal.SIGKILL)
            tell(f"{name.replace('-', ' ')} did not end by itself and was killed")
        with trio.move_on_after(KILLED_S):
            await wait_gone(left.values())


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def wait_gone(processes: Collection[ProcessId]) -> None:
    """Wait until all of these have ended."""
    while any(is_running(known) for known in processes):  # noqa: ASYNC110 - they ring no bell
        await trio.sleep(POLL_S)
