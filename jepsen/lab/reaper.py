"""Cleans up after a harness that was killed: ends what it started, undoes what it did.

The harness holds the pipe to a process of this module. When the pipe closes, however the harness
ended, every process is killed that has the run's mark in its environment, and the commands are run
that the harness has not called off, the last one first. Run as a file: it must start at once, and
import nothing of ours.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

MARK: Final = "QUORATE_VERIFY_RUN"
WAIT_S_MAX: Final = 60.0
KILL_S_MAX: Final = 10.0
COMMAND_S_MAX: Final = 20.0
POLL_S: Final = 0.01


class Reaper:
    """Our end of the pipe. Children of this process inherit the mark; leaving it cleans up."""

    def __init__(self) -> None:
        """Start the process."""
        self.mark: Final = uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), self.mark],
            stdin=subprocess.PIPE,
            start_new_session=True,  # ^C and the end of the terminal are not for it
        )
        os.environ[MARK] = self.mark

    def undo(self, *command: str) -> None:
        """Have a command run in the end; to be called before that is done which it undoes."""
        self._say({"undo": command})

    def forget(self, *command: str) -> None:
        """Call a command off: it was run, or there is nothing to undo."""
        self._say({"forget": command})

    def _say(self, words: dict[str, Sequence[str]]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Have all cleaned up, and wait for it."""
        assert self._process.stdin is not None
        os.environ.pop(MARK, None)
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(WAIT_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _marked(mark: str) -> list[int]:
    """Return the living processes with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def _kill_all(mark: str) -> None:
    """Kill until none was found twice: one that forks looks like its parent for a moment."""
    deadline_s = time.monotonic() + KILL_S_MAX
    clean = 0
    while clean < 2 and time.monotonic() < deadline_s:
        pids = _marked(mark)
        clean = 0 if pids else clean + 1
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def main(mark: str) -> None:
    """Listen until the harness is gone; clean up."""
    commands: list[list[str]] = []
    for line in sys.stdin.buffer:
        with contextlib.suppress(ValueError):  # torn: the harness was killed while it wrote
            for verb, command in json.loads(line).items():
                if verb == "undo":
                    commands.append(command)
                elif command in commands:
                    commands.remove(command)
    _kill_all(mark)
    for command in reversed(commands):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, check=False, capture_output=True, timeout=COMMAND_S_MAX)


if __name__ == "__main__":
    main(sys.argv[1])
