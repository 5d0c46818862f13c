"""Trio shell of ``quorate up --brokers N``: a cluster of processes, made, run, shown, ended."""

import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import trio

from quorate.dataclass import dataclass
from quorate.net.ports import UNASSIGNED, PortClaims, is_free
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_directory import (
    LOCK_NAME,
    ClusterDirectory,
    Running,
)
from quorate.tools.cluster_display import Display, display_of
from quorate.tools.cluster_looking import (
    look_at_cluster,
    picture_of,
    status,
    whole_picture,
)
from quorate.tools.clusters.layout import (
    Layout,
    Wish,
    new_layout,
    resized,
    settle_brokers,
    settle_controllers,
)
from quorate.tools.clusters.picture import DEAD, Picture
from quorate.tools.config_file import load_node_config
from quorate.tools.metrics_server import ANY_PORT, METRICS_LISTENER
from quorate.tools.nearby import DEFAULT_DIRECTORY
from quorate.tools.node import stop_signals, wait_for_end
from quorate.tools.problems import CommandError, ProblemFoundError
from quorate.tools.processes import send
from quorate.tools.session import given_properties
from quorate.tools.supervisor import Node, Supervisor, stop_processes, wait_gone

DEFAULT_PORT: Final = 9092
READY_TIMEOUT_S: Final = 60.0
LOCK_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
LOOK_INTERVAL_S: Final = 1.0
STARTING_INTERVAL_S: Final = 0.2
OWN_PROPERTIES: Final = (
    "node.id", "log.dir", "listeners", "advertised.listeners", "broker.rack",
    "controller.quorum.bootstrap.servers", "quorate.controller.listener", "quorate.controller.join",
    "quorate.controller.advertised.listener",
)  # fmt: skip
"""What differs from node to node, and is therefore ours to say."""


@dataclass(frozen=True, slots=True)
class UpRequest:
    """What the command line says; None where it says nothing.

    ``with_parent``: all ends when standard input does. ``chaos``: clocks and disks can be broken.
    """

    wish: Wish
    directory: Path | None
    port: int | None
    config: Path | None
    detach: bool
    with_parent: bool = False
    metrics: bool = False
    chaos: bool = False


def node_options(
    options: GlobalOptions,
    config: Path | None,
    directory: ClusterDirectory,
    *,
    metrics: bool = False,
) -> list[str]:
    """Return what every node is told besides what makes it this node; keep it in the directory.

    Raises:
        CommandError: a property is given that cannot be the same for all of them, or is none.
    """
    properties = given_properties(options)
    for name in OWN_PROPERTIES:
        if name in properties:
            raise CommandError(
                f"-X {name}=... cannot be the same for all nodes",
                why="each node of a cluster has its own",
                hint="leave it out; or start the nodes one by one: quorate broker start --help",
            )
    load_node_config(config, properties, {})  # what no node would start with is not kept
    if metrics:
        properties.setdefault(METRICS_LISTENER, ANY_PORT)
    directory.keep_options(properties, config)
    words = directory.kept_options()
    words += ["--log-format", options.log_format]
    return [*words, *(["--verbose"] if options.verbose else [])]


async def up(options: GlobalOptions, request: UpRequest) -> None:
    """Run a cluster until told to stop, or start what is missing of one that runs.

    Raises:
        CommandError: it cannot be run; says why.
    """
    directory = ClusterDirectory(request.directory or DEFAULT_DIRECTORY)
    directory.make()
    if request.chaos:
        from quorate.tools.chaos_equipment import make_equipment

        make_equipment(directory)
    if not await _lock(directory):
        await _have_it_started(options, request, directory)
        return
    try:
        words = node_options(options, request.config, directory, metrics=request.metrics)
        await _up(options, request, directory, words)
    finally:
        directory.unlock()


async def _lock(directory: ClusterDirectory) -> bool:
    """Take a directory; return False if somebody runs its cluster in the foreground.

    Raises:
        CommandError: another command is at work on it, for long.
    """
    with trio.move_on_after(LOCK_TIMEOUT_S):
        while not directory.lock():
            if directory.running().is_supervised:
                return False
            await trio.sleep(POLL_S)
        return True
    path = directory.path / LOCK_NAME
    raise CommandError(
        f"{directory} is in use", why=f"another process holds {path}", hint=f"see: fuser -v {path}"
    )


async def _up(
    options: GlobalOptions, request: UpRequest, directory: ClusterDirectory, words: Sequence[str]
) -> None:
    running = directory.running()
    orphans = running.alive if running.supervisor is not None else {}
    detached = request.detach or bool(running.alive and not orphans)
    hint = "Ctrl-C ends all nodes."
    if detached:
        hint = f"they go on by themselves; see quorate status, quorate down{_dir(directory)}"
    with display_of(options, stop_hint=hint) as display, closing(PortClaims()) as ports:
        if orphans:
            display.say("ending the nodes of a quorate up that was killed")
            await stop_processes(orphans, trio.Event(), display.say)
            running = Running()
        layout = _settle(request, directory, running, display, ports)
        supervisor = Supervisor(directory, words, attached=not detached)
        supervisor.adopt(running.alive)
        try:
            if detached:
                await _start_detached(supervisor, layout, display)
            else:
                await Foreground(supervisor, layout, display).run(with_parent=request.with_parent)
        finally:
            supervisor.close()


def _dir(directory: ClusterDirectory) -> str:
    return "" if str(directory) == str(DEFAULT_DIRECTORY) else f" --dir {directory}"


def _settle(
    request: UpRequest,
    directory: ClusterDirectory,
    running: Running,
    display: Display,
    ports: PortClaims,
) -> Layout:
    """Return the layout, each node with a port that is free, and write it down.

    Raises:
        CommandError: a controller's port is taken.
    """
    first = request.port
    if directory.exists:
        layout = directory.layout()
        layout = resized(layout, request.wish, directory.idle(layout, running.alive))
        _check_controllers(layout, running)
    else:
        first = DEFAULT_PORT if first is None else first
        layout = settle_controllers(new_layout(request.wish), _random_port(), ports.claim)
    free = is_free
    if first == 0:
        first, free = _random_port(), ports.claim
    layout, moved = settle_brokers(layout, running.alive.keys(), first, free)
    for each in moved if request.port != 0 else ():
        title, port = each.member.title, each.member.port
        display.say(f"port {each.wanted} is taken, so {title} listens on {port} instead")
    directory.write_layout(layout)
    return layout


def _random_port() -> int:
    return random.choice(UNASSIGNED)  # noqa: S311 - guards nothing


def _check_controllers(layout: Layout, running: Running) -> None:
    for member in layout.controllers:
        if member.name not in running.alive and not is_free(member.port):
            raise CommandError(
                f"port {member.port}, on which {member.title} has to listen, is taken",
                why="the other controllers know it by this address",
                hint=f"end the process that has it: ss -tlnp 'sport = :{member.port}'",
            )


async def _have_it_started(
    options: GlobalOptions, request: UpRequest, directory: ClusterDirectory
) -> None:
    """Have the process that this cluster hangs on start what is missing.

    Raises:
        CommandError: it does not, or a node dies again.
    """
    running = directory.running()
    assert running.supervisor is not None
    layout = directory.layout()
    with display_of(options, stop_hint="") as display:
        bigger = resized(layout, request.wish)
        if bigger != layout:
            layout, _ = settle_brokers(bigger, [m.name for m in layout.members], None, is_free)
            directory.write_layout(layout)
        missing = [m.title for m in layout.members if m.name not in running.alive]
        where = f"process {running.supervisor.pid} runs this cluster"
        if not missing:
            display.say(f"{where}, and all of its nodes are there")
            return
        display.say(f"{where}; it starts {', '.join(missing)}")
        send(running.supervisor, signal.SIGUSR1)
        with trio.move_on_after(READY_TIMEOUT_S):
            while len(directory.running().alive) < len(layout.members):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return
    raise ProblemFoundError(
        "not all nodes run", why=f"see {directory.path}/logs", hint="quorate status"
    )


async def _start_detached(supervisor: Supervisor, layout: Layout, display: Display) -> None:
    """Start what is missing, and leave it alone once it serves.

    Raises:
        ProblemFoundError: a node ended at once; the others go on.
    """
    begin_s = trio.current_time()
    before = set(supervisor.directory.running().alive)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_when_told, signals, supervisor, display)
            started = await supervisor.start(layout)
            served = await supervisor.wait_ready(started, READY_TIMEOUT_S)
            nursery.cancel_scope.cancel()
    alive = supervisor.directory.running().alive
    picture = await whole_picture(partial(status, supervisor.directory))
    if not started:
        display.say("all nodes run already")
    elif before:
        display.say("started " + ", ".join(node.member.title for node in started))
    display.ready(picture, trio.current_time() - begin_s)
    _tell_metrics(started, display)
    dead = [node for node in started if node.member.name not in alive]
    if dead or not served:
        node = dead[0] if dead else next(n for n in started if not n.is_ready)
        lines = node.state().last_lines
        raise ProblemFoundError(
            f"{node.member.title} did not start; the others run",
            why=" | ".join(lines) or "it printed nothing",
            hint=f"see {node.log}, then quorate up again; or quorate down",
        )


def _tell_metrics(nodes: Sequence[Node], display: Display) -> None:
    for node in nodes:
        if node.metrics is not None:
            display.say(f"metrics of {node.member.title} at {node.metrics}")


async def _stop_when_told(
    signals: AsyncIterator[int], supervisor: Supervisor, display: Display
) -> None:
    async for _ in signals:
        with trio.CancelScope(shield=True):
            await supervisor.stop(trio.Event(), display.say)
        raise KeyboardInterrupt


class Foreground:
    """Runs a cluster that ends with this process.

    Invariant: whatever it is told and whatever nodes do, :meth:`run` leaves none of them.
    """

    def __init__(self, supervisor: Supervisor, layout: Layout, display: Display) -> None:
        self._supervisor = supervisor
        self._layout = layout
        self._display = display
        self._hurry = trio.Event()
        self._scope = trio.CancelScope()

    async def run(self, *, with_parent: bool) -> None:
        """Start all, show how they are, end all when told; or when standard input ends."""
        begin_s = trio.current_time()
        with trio.open_signal_receiver(*stop_signals(), signal.SIGUSR1) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, signals, nursery)
                if with_parent:
                    nursery.start_soon(self._end_with_parent)
                try:
                    with self._scope:
                        await self._serve(nursery, begin_s)
                finally:
                    with trio.CancelScope(shield=True):
                        self._display.say("ending all nodes; once more to kill them")
                        await self._supervisor.stop(self._hurry, self._display.say)
                nursery.cancel_scope.cancel()
        self._display.say("stopped cleanly; quorate up goes on with the same data")

    async def _listen(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            if number == signal.SIGUSR1:
                self._layout = self._supervisor.directory.layout()
                await self._start(nursery)
            elif self._scope.cancel_called:
                self._hurry.set()
            else:
                self._scope.cancel()

    async def _end_with_parent(self) -> None:
        await wait_for_end(sys.stdin.fileno())
        self._scope.cancel()

    async def _start(self, nursery: trio.Nursery) -> list[Node]:
        started = await self._supervisor.start(self._layout)
        for node in started:
            nursery.start_soon(self._supervisor.watch, node)
        return started

    async def _serve(self, nursery: trio.Nursery, begin_s: float) -> None:
        started = await self._start(nursery)
        async with trio.open_nursery() as inner:
            inner.start_soon(self._show_starting)
            await self._supervisor.wait_ready(started, READY_TIMEOUT_S)
            inner.cancel_scope.cancel()
        picture = await whole_picture(self._picture)
        self._display.ready(picture, trio.current_time() - begin_s)
        _tell_metrics(started, self._display)
        if all(node.process == DEAD for node in picture.nodes):
            self._fail(picture)
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            self._display.show(await self._picture())

    async def _show_starting(self) -> None:
        while True:
            self._display.show(await self._picture())
            await trio.sleep(STARTING_INTERVAL_S)

    def _fail(self, picture: Picture) -> None:
        lines = picture.nodes[0].last_lines
        raise CommandError(
            "no node started",
            why=" | ".join(lines) or "they printed nothing",
            hint=f"see {self._supervisor.directory.path}/logs",
        )

    async def _picture(self) -> Picture:
        look = await look_at_cluster(self._layout)
        states = self._supervisor.states(self._layout)
        return picture_of(self._supervisor.directory, self._layout, states, look)


async def down(directory: ClusterDirectory, display: Display) -> int:
    """End what runs of a cluster, whatever state it is in; returns how many processes that were.

    Raises:
        CommandError: there is no cluster, or somebody else is at work on it.
    """
    directory.layout()  # raises if there is none
    count = 0
    while not await _lock(directory):
        running = directory.running()
        if running.supervisor is not None:
            count = len(running.alive)
            display.say(f"telling process {running.supervisor.pid}, which runs them, to end them")
            send(running.supervisor, signal.SIGTERM)
            await wait_gone([running.supervisor])
    try:
        alive = directory.running().alive
        await stop_processes(alive, trio.Event(), display.say)
        directory.write_running({}, supervised=False)
    finally:
        directory.unlock()
    return count + len(alive)
