"""Types the commands of a page, one after the other, as a person would who reads it."""

import os
import pty
import random
import re
import shutil
import stat
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ
from threading import Thread
from typing import Final, Self

from quorate.jepsen.lab import native
from quorate.net.ports import PortClaims
from tests.pasted import CTRL_C, ENDED, GIVEN, INSTEAD, NOT_RUN, WAYS, Way
from tests.typed import ROOT, TYPED

LINE_S_MAX: Final = 60.0
PORT: Final = re.compile(r"\b(?:localhost|127\.0\.0\.1|broker):(9\d{3})\b|(?<=--port )(9\d{3})\b")
SETTING: Final = re.compile(r"(export )?[A-Z_]+=\S+")
FILE: Final = re.compile(r"^```toml\n# ([\w-]+\.toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MARKS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][B0]?")
NAMED: Final = (*range(9092, 9098), *range(9190, 9194), 9308)
"""Ports that pages name."""
NOT_EVERYWHERE: Final = {"curl"}
COMPILED: Final = ("--faults directed", "--anomaly lost-write")
"""Faults that are compiled on the spot, and what they bring to light."""


_CLAIMS: Final = PortClaims()


class PasteError(AssertionError):
    """A page says something that is not so."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Free ports in place of those that a page names; none that somebody else is given."""

    first: int

    @classmethod
    def free(cls) -> Self:
        """Find a thousand with nobody on those that pages name."""
        while True:
            ports = cls(random.SystemRandom().randrange(10_000, 31_000))
            if all(_CLAIMS.claim(ports.of(wanted)) for wanted in NAMED):
                return ports

    def of(self, port: int) -> int:
        """Return what stands for a port of the page."""
        return self.first + port - 9000

    def put(self, command: str) -> str:
        """Return a command with ports that are free here."""

        def replaced(match: re.Match[str]) -> str:
            if match[2]:
                return str(self.of(int(match[2])))
            return f"127.0.0.1:{self.of(int(match[1]))}"

        return PORT.sub(replaced, command)


class Terminal:
    """A command in a terminal of its own: what it shows, and what is typed into it."""

    def __init__(self, command: str, words: str, folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.shown = ""
        self._master, there = pty.openpty()
        ioctl(self._master, TIOCSWINSZ, pack("HHHH", 40, 140, 0, 0))
        # The leader of a session gets the first terminal that it opens: so Ctrl-C reaches it.
        script = f"exec <{os.ttyname(there)} >{os.ttyname(there)} 2>&1; {words}"
        self._process = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environment, start_new_session=True
        )
        self._there = there
        # Whoever shows something waits until it can be seen, so somebody has to look all the time.
        self._looking = Thread(target=self._look, daemon=True)
        self._looking.start()

    def _look(self) -> None:
        with suppress(OSError):  # nobody has the other end any more
            while seen := os.read(self._master, 65_536):
                self.shown += MARKS.sub("", seen.decode(errors="replace"))

    def watch(self, text: str, *, deadline: float) -> None:
        """Wait until something can be seen.

        Raises:
            PasteError: It is not there in time.
        """
        while text not in self.shown:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise PasteError(f"{self.command}: not seen: {text!r} in\n{self.shown[-3000:]}")
            time.sleep(0.02)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def end(self, codes: tuple[int, ...]) -> str:
        """Wait for its end; return what it showed."""
        try:
            code = self._process.wait(LINE_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        os.close(self._there)
        self._looking.join()
        os.close(self._master)
        judge(self.command, code, codes, self.shown)
        return self.shown


def judge(command: str, code: int, codes: tuple[int, ...], shown: str) -> None:
    """See whether a command did what its page says of it.

    Raises:
        PasteError: It did not.
    """
    if code not in codes or "Traceback" in shown:
        raise PasteError(f"{command}\nended with {code}, not {codes}:\n{shown[-4000:]}")


def _lacks_something(command: str) -> bool:
    """Whether a command needs what not every machine has, and this one has not."""
    program = command.partition(" ")[0]
    return (program in NOT_EVERYWHERE and not shutil.which(program)) or (
        native.compiler() is None and any(words in command for words in COMPILED)
    )


class Shell:
    """Owns a folder in which commands run, what stays in other terminals, and what was set."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._ports = Ports.free()
        self._settings: list[str] = []
        self._staying: list[Terminal] = []
        programs = folder / "bin"
        programs.mkdir()
        for name, words in (("quorate", "-m quorate.tools.cli"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "QUORATE_BOOTSTRAP": f"127.0.0.1:{self._ports.of(9092)}",
            "TERM": "xterm-256color",
        }

    def write_files(self, text: str) -> None:
        """Write the files that a page shows with their names."""
        for match in FILE.finditer(text):
            (self._folder / match[1]).write_text(self._ports.put(match[2]))

    def run(self, command: str) -> str:
        """Run one; return what it printed."""
        if command in NOT_RUN or _lacks_something(command):
            return ""
        if SETTING.fullmatch(command):
            self._settings.append(self._ports.put(command))
            return ""
        way = WAYS.get(command, Way())
        self._end(way.ends)
        words = "; ".join([*self._settings, self._put(command)])
        if way.stays or way.types:
            return self._run_in_terminal(command, words, way)
        done = subprocess.run(
            ["bash", "-c", words], cwd=self._folder, env=self._environment, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LINE_S_MAX,
        )  # fmt: skip
        judge(command, done.returncode, way.codes, done.stdout + done.stderr)
        return done.stdout

    def _put(self, command: str) -> str:
        for words, others in INSTEAD.items():
            command = command.replace(words, others)
        if command.startswith("quorate up") and not (self._folder / ".quorate").exists():
            command = f"{command} --port {self._ports.of(9092)}"
        return self._ports.put(command)

    def _run_in_terminal(self, command: str, words: str, way: Way) -> str:
        terminal = Terminal(command, words, self._folder, self._environment)
        if way.once_shown:
            terminal.watch(way.once_shown, deadline=time.monotonic() + LINE_S_MAX)
        if way.stays:
            self._staying.append(terminal)
            return terminal.shown
        terminal.type(way.types)
        return terminal.end(way.codes)

    def _end(self, beginning: str) -> None:
        ending = [one for one in self._staying if beginning and one.command.startswith(beginning)]
        self._staying = [one for one in self._staying if one not in ending]
        for terminal in ending:
            terminal.type(CTRL_C)
        for terminal in ending:
            terminal.end(ENDED)

    def leave(self) -> None:
        """End what still runs."""
        try:
            self._end("quorate ")
        finally:
            self._down()

    def _down(self) -> None:
        down = [f"{self._folder}/bin/quorate", "down", "--quiet"]
        subprocess.run(
            down, cwd=self._folder, env=self._environment, check=False, capture_output=True,
            timeout=LINE_S_MAX,
        )  # fmt: skip


def paste(page: str, folder: Path) -> dict[str, str]:
    """Type the commands of a page; return what each of them printed, the last time.

    A page that starts nothing has a node of ``quorate up`` to talk to.

    Raises:
        PasteError: One of them did not do what the page says.
    """
    commands = TYPED[page]
    shell = Shell(folder)
    shell.write_files((ROOT / page).read_text())
    printed: dict[str, str] = {}
    try:
        if not any("quorate up" in line or " start " in line for line in commands):
            shell.run("quorate up")
        for command in GIVEN.get(page, ()):
            shell.run(command)
        for command in commands:
            printed[command] = shell.run(command)
    except BaseException:
        with suppress(PasteError):  # what went wrong before is to be told
            shell.leave()
        raise
    shell.leave()
    return printed
