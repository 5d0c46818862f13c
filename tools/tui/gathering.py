"""Trio shell in a thread of its own: looks, follows, and does what it is asked for.

Textual has its own event loop, and the client is Trio's. They run beside each other in two threads
(docs/decisions/0017): what was seen is a value that one hands to the other.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import trio

from quorate.errors import QuorateError
from quorate.records.record import Record
from quorate.tools.metadata.decided import Decided
from quorate.tools.problems import explain, root_error
from quorate.tools.reaching import client_of
from quorate.tools.tui.acting import Actor
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.following import (
    Pause,
    follow_directory,
    follow_events,
    follow_records,
    follow_runs,
)
from quorate.tools.tui.looking import Looker
from quorate.tools.tui.requests import READING, Answer, Request
from quorate.tools.tui.source import INTERVAL_S, Tell
from quorate.tools.tui.views import places
from quorate.tools.tui.views.places import Place
from quorate.tools.verify_runs import Run

STREAM_INTERVAL_S: Final = 0.5
"""How often records that come are shown, at most."""

START_TIMEOUT_S: Final = 10.0


class Gatherer:
    """Owns the thread in which Trio runs. Only that thread touches what is gathered.

    The methods are for the other thread: they leave a message, and do not wait.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._token: trio.lowlevel.TrioToken | None = None
        self._inside: _Inside | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quorate-gatherer", daemon=True)
        self._tell: Tell = lambda _: None
        self._place = Place(places.TOPICS)

    # For the thread of the screen

    def start(self, tell: Tell, place: Place) -> None:
        """Begin to look."""
        self._tell = tell
        self._place = place
        self._thread.start()
        self._is_ready.wait(START_TIMEOUT_S)

    def watch(self, place: Place) -> None:
        """Look at what another place needs."""
        self._leave(lambda inside: inside.watch(place))

    def look_now(self) -> None:
        """Look now."""
        self._leave(_Inside.look_now)

    def pause(self, *, paused: bool) -> None:
        """Stop looking, or go on."""
        self._leave(lambda inside: inside.pause.set(paused=paused))

    def ask(self, request: Request) -> None:
        """Do something."""
        self._leave(lambda inside: inside.ask(request))

    def stop(self) -> None:
        """End, and wait until it has."""
        self._leave(_Inside.stop)
        if self._thread.is_alive():
            self._thread.join(START_TIMEOUT_S)

    def _leave(self, what: "Callable[[_Inside], None]") -> None:
        if self._token is not None and self._inside is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(what, self._inside)

    # In the thread of Trio

    def _run(self) -> None:
        trio.run(self._main)

    async def _main(self) -> None:
        inside = _Inside(self._asked, self._tell, self._place)
        self._inside = inside
        self._token = trio.lowlevel.current_trio_token()
        self._is_ready.set()
        await inside.run()


class _Inside:
    """What runs in Trio's thread."""

    def __init__(self, asked: Asked, tell: Tell, place: Place) -> None:
        self._asked = asked
        self._looker = Looker(asked)
        self._actor = Actor(asked)
        self._tell = tell
        self._place = place
        self.wake = trio.Event()
        self.pause = Pause()
        self.stopped = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._following = trio.CancelScope()
        self._has_more = False
        self._seen = trio.Event()
        """Some broker has told which cluster it is."""

    async def run(self) -> None:
        """Look, follow, act, until it is stopped."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._look)
            nursery.start_soon(self._tell_of_streams)
            self._follow()
            await self.stopped.wait()
            nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """End."""
        self.stopped.set()

    def look_now(self) -> None:
        """Look now."""
        self.wake.set()

    def watch(self, place: Place) -> None:
        """Look at what another place needs."""
        changed = place != self._place
        self._place = place
        if changed:
            self._follow()
        self.wake.set()

    def ask(self, request: Request) -> None:
        """Do something beside everything else."""
        if self._nursery is not None:
            self._nursery.start_soon(self._act, request)

    async def _act(self, request: Request) -> None:
        try:
            answer = await self._actor.do(request, self._looker.snapshot)
        except Exception as error:  # noqa: BLE001 - else the screen would go on without its thread
            answer = Answer(request, problem=explain(error))
        self._tell(answer)
        if not isinstance(request, READING):
            self.wake.set()

    async def _look(self) -> None:
        while True:
            try:
                await self._looker.look_on(lambda: self._place, self._tick)
            except Exception as error:  # noqa: BLE001 - shown, also if it is a bug
                cause = root_error(error)
                self._looker.trouble(cause if isinstance(cause, Exception) else error)
                await self._tick()
                self._look_elsewhere()

    def _look_elsewhere(self) -> None:
        """Ask somebody else if another address holds by now: a cluster of ours was started."""
        try:
            client = client_of(self._asked.options, os.environ)
        except (QuorateError, OSError):
            return  # a file is being written, or was removed
        if client.bootstrap != self._asked.client.bootstrap:
            self._asked = replace(self._asked, client=client)
            self._looker.turn_to(client)
            self._actor = Actor(self._asked)
            self._follow()

    async def _tick(self) -> None:
        """Tell what was seen; wait until it is time to look again."""
        if self._looker.snapshot.cluster_id:
            self._seen.set()
        self._tell(self._looker.snapshot)
        with trio.move_on_after(INTERVAL_S):
            await self.wake.wait()
        await self.pause.wait_over()
        self.wake = trio.Event()

    def _follow(self) -> None:
        """Follow what the place shows that has no end."""
        self._following.cancel()
        self._following = trio.CancelScope()
        assert self._nursery is not None, "it runs"
        if self._place.view == places.MESSAGES:
            self._looker.take_stream(records=())
            self._nursery.start_soon(self._follow_records, self._following, self._place.argument)
        elif self._place.view == places.EVENTS:
            self._nursery.start_soon(self._follow_events, self._following)
        elif self._place.view == places.VERIFY:
            self._nursery.start_soon(self._follow_runs, self._following, self._place.argument)

    async def _follow_records(self, scope: trio.CancelScope, argument: str) -> None:
        def tell(records: Sequence[Record]) -> None:
            self._take_stream(records=records)

        with scope:
            await follow_records(
                self._asked.client, argument, self.pause, tell, self._looker.stream_trouble
            )

    async def _follow_events(self, scope: trio.CancelScope) -> None:
        def tell(events: Sequence[Decided]) -> None:
            self._take_stream(events=events)

        with scope:
            trouble = self._looker.stream_trouble
            if self._asked.directory is not None:
                await self._seen.wait()  # it may be the log of another cluster
            directory = self._asked.directory_of(self._looker.snapshot.cluster_id)
            if directory is None:
                await follow_events(self._asked.options, dict(os.environ), tell, trouble)
            else:
                await follow_directory(directory, tell, trouble)

    async def _follow_runs(self, scope: trio.CancelScope, argument: str) -> None:
        def tell(runs: Sequence[Run]) -> None:
            self._take_stream(runs=runs)

        with scope:
            await follow_runs(argument, tell)

    def _take_stream(self, **found: Any) -> None:
        self._looker.take_stream(**found)
        self._has_more = True

    async def _tell_of_streams(self) -> None:
        while True:
            await trio.sleep(STREAM_INTERVAL_S)
            if self._has_more:
                self._has_more = False
                self._tell(self._looker.snapshot)
