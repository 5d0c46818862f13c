"""What ``quorate up`` shows while a cluster runs: a screen, lines, or events for programs."""

import json
import os
import sys
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, Protocol, Self

from quorate.tools.arguments import DEFAULT_BOOTSTRAP, GlobalOptions
from quorate.tools.clusters.layout import Layout
from quorate.tools.clusters.picture import Picture, changes

EVENT_VERSION: Final = 1


class Display(Protocol):
    """Shows a cluster to whoever looks."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

    def say(self, text: str) -> None:
        """Tell something that happened."""
        ...

    def ready(self, picture: Picture, seconds: float) -> None:
        """Tell that all nodes serve, or have ended."""
        ...

    def show(self, picture: Picture) -> None:
        """Show how the cluster is now."""
        ...


def next_commands(layout: Layout) -> list[str]:
    """Return what to type next."""
    first = str(layout.brokers[0].endpoint)
    b = "" if first == DEFAULT_BOOTSTRAP else f" -b {first}"
    replicas = min(3, len(layout.brokers))
    return [
        f"quorate topics create appLogs -p 6 -r {replicas}{b}",
        f"echo hello | quorate produce appLogs{b}",
        f"quorate consume appLogs --from-beginning{b}",
        f"quorate partitions list{b}",
    ]


def display_of(options: GlobalOptions, *, stop_hint: str) -> Display:
    """Return what fits the terminal and the format."""
    if options.format in {"json", "jsonl"}:
        return EventDisplay()
    if sys.stdout.isatty() and not options.quiet:
        return ScreenDisplay(options, stop_hint)
    return LineDisplay(options, stop_hint)


class LineDisplay(AbstractContextManager["LineDisplay"]):
    """A line whenever something happens."""

    def __init__(self, options: GlobalOptions, stop_hint: str) -> None:
        self._quiet = options.quiet
        self._stop_hint = stop_hint
        self._last: Picture | None = None

    def __exit__(self, *error: object) -> None:
        """Nothing is left to do."""

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def ready(self, picture: Picture, seconds: float) -> None:
        """Print where the cluster is and what to do with it."""
        if self._quiet:
            lines = [picture.layout.bootstrap]
        else:
            lines = welcome_lines(picture, seconds, self._stop_hint)
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        self._last = picture

    def show(self, picture: Picture) -> None:
        """Print what changed."""
        if self._last is None:
            return
        for line in changes(self._last, picture):
            self.say(line)
        self._last = picture


def welcome_lines(picture: Picture, seconds: float, stop_hint: str) -> list[str]:
    """Return what a person is told once the cluster serves."""
    layout = picture.layout
    return [
        f"{picture.running} of {len(picture.nodes)} nodes run, {seconds:.1f} s after the start",
        f"bootstrap servers {layout.bootstrap}",
        f"controllers {layout.join}",
        f"cluster {picture.look.cluster_id}, data in {picture.directory}",
        "",
        "try, in another terminal:",
        *(f"  {command}" for command in next_commands(layout)),
        stop_hint,
    ]


class EventDisplay(AbstractContextManager["EventDisplay"]):
    """A line of JSON whenever something happens, for programs."""

    def __init__(self) -> None:
        self._last: Picture | None = None

    def __exit__(self, *error: object) -> None:
        """Nothing is left to do."""

    def say(self, text: str) -> None:
        """Print a note."""
        _event("note", {"text": text})

    def ready(self, picture: Picture, seconds: float) -> None:
        """Print where the cluster is."""
        _event(
            "ready",
            {
                "bootstrap": picture.layout.bootstrap,
                "controllers": picture.layout.join,
                "cluster_id": picture.look.cluster_id,
                "directory": picture.directory,
                "pid": os.getpid(),
                "seconds": round(seconds, 3),
                "nodes": [
                    {
                        "role": node.member.role,
                        "id": node.member.node_id,
                        "address": str(node.member.endpoint),
                        "pid": node.pid,
                    }
                    for node in picture.nodes
                ],
            },
        )
        self._last = picture

    def show(self, picture: Picture) -> None:
        """Print what changed."""
        if self._last is None:
            return
        for line in changes(self._last, picture):
            _event("change", {"text": line})
        self._last = picture


def _event(kind: str, values: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": kind, "version": EVENT_VERSION, **values}) + "\n")
    sys.stdout.flush()


class ScreenDisplay(AbstractContextManager["ScreenDisplay"]):
    """One screen, kept up to date; what was seen last stays on the terminal."""

    def __init__(self, options: GlobalOptions, stop_hint: str) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, no_color=not options.color)
        self._stop_hint = stop_hint
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin to show."""
        from rich.live import Live

        self._live = self._stack.enter_context(Live(console=self._console, auto_refresh=False))
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal as it was, and no picture of what is no more."""
        from rich.text import Text

        self._live.update(Text(), refresh=True)
        self._stack.close()
        self._console.show_cursor()

    def say(self, text: str) -> None:
        """Print a line above the screen."""
        self._live.console.print(text, style="dim", markup=False)

    def ready(self, picture: Picture, seconds: float) -> None:
        """Say how long it took."""
        count = f"{picture.running} of {len(picture.nodes)}"
        self.say(f"{count} nodes run, {seconds:.1f} s after the start")
        self.show(picture)

    def show(self, picture: Picture) -> None:
        """Draw the screen anew."""
        from rich.console import Group
        from rich.text import Text

        from quorate.tools.clusters.screen import screen

        lines = [Text()]
        lines += [Text(f"  {command}") for command in next_commands(picture.layout)]
        foot = Text(self._stop_hint, style="dim")
        self._live.update(Group(Text(), screen(picture), *lines, Text(), foot), refresh=True)
