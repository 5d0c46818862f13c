"""A place where a node runs: a process that is ended, paused and started again over its data."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import quorate
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from quorate.jepsen.lab.clocks import Clock
    from quorate.jepsen.lab.disks import MachineDisk

DATA: Final = "data"
LOG: Final = "log"
ROOT: Final = Path(quorate.__file__).resolve().parents[1]
QUORATE: Final = (sys.executable, "-m", "quorate.tools.cli")
STOP_S_MAX: Final = 30.0
POLL_S: Final = 0.01
TAIL_LINES: Final = 15
TAIL_BYTES: Final = 16 << 10
STOPPED_STATE: Final = "T"
PRELOADED: Final = "LD_PRELOAD"


class DiedError(QuorateError):
    """A node ended by itself, or not as it should, or told of an error of ours."""


class NeverCameUpError(QuorateError):
    """A node did not begin to serve; says which, and what it said last."""


class Host:
    """A node's process and its folder; the process comes and goes, the folder stays.

    State: whether a process should run here, and whether it is paused. One thread ends and starts
    it; others may ask whether it :attr:`answers`.

    Attributes:
        name: Such as ``broker-101``.
        variables: Added to the environment of the next process; faults may change them.
        prefix: Words before the command of the next process, such as ``nsenter --net=...``.
        may_end: Whether a fault may make the process end by itself, which is no error then.
        disk: What lies below the data, if faults act on it.
        clock: What the process has for the wall clock, if faults act on it.
    """

    def __init__(
        self,
        name: str,
        node_id: int,
        folder: Path,
        address: tuple[str, int],
        words: Sequence[str],
        command: Sequence[str] = QUORATE,
    ) -> None:
        self.name: Final = name
        self.node_id: Final = node_id
        self.folder: Final = folder.absolute()  # the process begins in it
        self.address: Final = address
        self.words: Final = tuple(words)
        self.command: Final = tuple(command)
        self.variables: dict[str, str] = {}
        self.prefix: list[str] = []
        self.disk: MachineDisk | None = None
        self.clock: Clock | None = None
        self.paused = False
        self.may_end = False
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.address[1]

    @property
    def data(self) -> Path:
        """Where the node keeps its data."""
        return self.folder / DATA

    @property
    def log(self) -> Path:
        """What the node's processes printed, one after the other."""
        return self.folder / LOG

    @property
    def pid(self) -> int | None:
        """The process; None if there is none."""
        return None if self._process is None else self._process.pid

    @property
    def runs(self) -> bool:
        """Whether a process was started and not ended here."""
        return self._process is not None

    @property
    def has_ended(self) -> bool:
        """Whether a process was started here and has ended by itself."""
        process = self._process
        return process is not None and process.poll() is not None

    @property
    def answers(self) -> bool:
        """Whether there is a process that can be asked."""
        return self._process is not None and not self.paused

    def start(self) -> None:
        """Start a process, without waiting for it."""
        assert self._process is None, f"{self.name} runs"
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, *self.command, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **self.variables},
                cwd=self.folder,
                start_new_session=True,  # so that it does not see the terminal's ^C
            )
        self.starts += 1

    def wait_until_it_listens(self, deadline_s: float) -> None:
        """Return when the port takes connections.

        Raises:
            NeverCameUpError: it ended, does not listen by then, or faults would not act on it.
        """
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                code = self._process.returncode
                raise NeverCameUpError(f"{self.name} ended with {code}:\n{self.log_tail()}")
            try:
                socket.create_connection(self.address, 1.0).close()
            except OSError:
                if time.monotonic() > deadline_s:
                    raise NeverCameUpError(
                        f"{self.name} does not listen:\n{self.log_tail()}"
                    ) from None
                time.sleep(POLL_S)
            else:
                self._check_preloaded(self._process.pid)
                return

    def kill(self) -> None:
        """End it with kill -9, if it runs.

        Raises:
            DiedError: it had ended by itself.
        """
        if self._process is not None:
            self.check_alive()
            self.close()

    def stop(self, seconds_max: float = STOP_S_MAX) -> bool:
        """Tell it to end; return whether it did in time: if not, it is killed.

        Raises:
            DiedError: it ended, but not well.
        """
        assert self._process is not None, f"{self.name} does not run"
        process = self._process
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.close()
            return False
        self.close()
        if code not in (0, -signal.SIGTERM):  # the latter if it was told so before it could listen
            raise DiedError(f"{self.name} ended with {code}:\n{self.log_tail()}")
        return True

    def pause(self) -> None:
        """Stop the process where it is; its connections stay."""
        assert self._process is not None, f"{self.name} does not run"
        self.paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, as if no time had passed."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
        self.paused = False

    def is_stopped(self) -> bool:
        """Whether the kernel has the process as stopped."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] == STOPPED_STATE

    def wipe(self) -> None:
        """Give it an empty disk; its log stays."""
        assert self._process is None, f"{self.name} runs"
        shutil.rmtree(self.data)
        self.data.mkdir()
        if self.disk is not None:
            self.disk.start_anew()

    def cut_power(self, rng: Random) -> int:
        """End it, and forget what it did not sync; return about how much that was.

        Needs a disk that forgets.

        Raises:
            DiedError: it had ended by itself.
        """
        assert self.disk is not None, f"{self.name} has a disk that keeps all"
        self.check_alive()
        self._end()
        return self.disk.cut_power(rng)

    def check_alive(self) -> None:
        """See that the process that should run does.

        Raises:
            DiedError: it does not.
        """
        if self.has_ended and not self.may_end:
            assert self._process is not None
            code = self._process.returncode
            raise DiedError(f"{self.name} ended with {code}:\n{self.log_tail()}")

    def close(self) -> None:
        """End whatever runs, with all that it started."""
        if self._process is not None:
            self._end()
            if self.disk is not None:
                self.disk.settle()

    def log_text(self) -> str:
        """Return all that its processes printed."""
        try:
            return self.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self) -> str:
        """Return the last lines that were printed."""
        return "\n".join(self.log_text()[-TAIL_BYTES:].splitlines()[-TAIL_LINES:])

    def _check_preloaded(self, pid: int) -> None:
        """See that faults act on the process: where a library is missing, the loader only warns."""
        try:
            loaded = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return  # it has just ended
        for library in filter(None, self.variables.get(PRELOADED, "").split(":")):
            if library not in loaded:
                raise NeverCameUpError(f"{self.name} runs without {library}:\n{self.log_tail()}")

    def _end(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        self.paused = False
        self.may_end = False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, number)
