"""A transactional producer in a process of its own, which is killed at a moment told before."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

from quorate.jepsen.clients.mortal_process import CLOSE, DONE, FAILED, WILL, Birth
from quorate.jepsen.clients.mortality import Doom
from quorate.jepsen.clients.transacting import PATIENCE_S, OutgoingRecord, SpoiledError
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition

MODULE: Final = "quorate.jepsen.clients.mortal_process"
BORN_S_MAX: Final = 30.0
ANSWER_S_MAX: Final = 2 * PATIENCE_S
CLOSE_S_MAX: Final = 2.0
END_S_MAX: Final = 5.0

Died = Callable[[Doom, str], None]
"""Is told of a process that has killed itself, and what it had been asked to do, or nothing."""


class BrokenProcessError(Exception):
    """A producer's process ended by itself, or told of an error that is none of a cluster's."""


class Breeder:
    """Owns the process that forks producers, and all of those; any thread may ask for one."""

    def __init__(self) -> None:
        """Start the process; it imports what it needs meanwhile."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # ^C is not for it
            )
        self._asked = ours
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def bear(self) -> tuple[int, Connection, int]:
        """Return the next process: its id, a connection to it, and where its will is to be read.

        Raises:
            BrokenProcessError: there is none.
        """
        ours, theirs = Pipe()
        will, writes = os.pipe()
        with theirs:
            try:
                with self._lock:
                    socket.send_fds(self._asked, [b"+"], [theirs.fileno(), writes])
            finally:
                os.close(writes)
        try:
            if not ours.poll(BORN_S_MAX):
                raise BrokenProcessError("no process of a producer came about")
            pid = int(ours.recv())
        except (EOFError, OSError) as error:
            raise BrokenProcessError(f"there are no processes of producers: {error}") from error
        self._pids.add(pid)
        return pid, ours, will

    def forget(self, pid: int) -> None:
        """Take note that a process has ended."""
        self._pids.discard(pid)

    def close(self) -> None:
        """End all of them."""
        for pid in list(self._pids):
            kill(pid)
        self._pids.clear()
        self._asked.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def kill(pid: int) -> None:
    """Kill a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class MortalTransactor:
    """See :class:`quorate.jepsen.clients.transacting.Transactor`.

    State: the process, until it is known to have ended; ``pid`` is its id.
    """

    def __init__(self, breeder: Breeder, birth: Birth, died: Died) -> None:
        self._breeder = breeder
        self._doom = birth.doom
        self._died = died
        self.pid, self._connection, self._will = breeder.bear()
        self._is_over = False
        self._connection.send(birth)

    def open(self) -> None:
        """Take the transactional id."""
        try:
            self._call("open")
        except SpoiledError:
            self.die()
            raise

    def write(self, records: Sequence[OutgoingRecord]) -> list[int | None]:
        """Begin, and write."""
        offsets: list[int | None] = self._call("write", records)
        return offsets

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group."""
        self._call("send_offsets", group, dict(offsets))

    def commit(self) -> Kind:
        """Commit; nobody knows of a process that has died meanwhile."""
        try:
            kind: Kind = self._call("commit")
        except SpoiledError:
            return Kind.INFO
        return kind

    def abort(self) -> bool:
        """Abort."""
        try:
            return bool(self._call("abort"))
        except SpoiledError:
            return False

    def close(self) -> None:
        """End, properly if that is quick."""
        if not self._is_over:
            with contextlib.suppress(OSError, EOFError):
                self._connection.send((CLOSE, ()))
                if self._connection.poll(CLOSE_S_MAX):
                    self._connection.recv()
        self.die()

    def die(self) -> None:
        """End by kill -9."""
        if not self._is_over:
            kill(self.pid)
            self._end()

    def _call(self, name: str, *arguments: Any) -> Any:
        """Have the process do something; it may die of it, or have died before.

        Raises:
            SpoiledError: it did not, as far as is known.
            BrokenProcessError: something is wrong with the client.
        """
        if self._is_over:
            raise SpoiledError("the producer's process has ended")
        try:
            self._connection.send((name, arguments))
            if not self._connection.poll(ANSWER_S_MAX):
                self.die()
                raise SpoiledError(f"{name} did not return")
            outcome, told = self._connection.recv()
        except (EOFError, OSError):
            self._find_dead(name)
            raise SpoiledError(f"the producer's process died at {self._doom.moment}") from None
        if outcome == DONE:
            return told
        if outcome == FAILED:
            self.die()
            raise BrokenProcessError(f"{name}: {told}")
        raise SpoiledError(told)

    def _find_dead(self, name: str) -> None:
        """Take note of how the process has ended.

        Raises:
            BrokenProcessError: not as it was told to.
        """
        will = os.read(self._will, len(WILL))
        self._end()
        if will != WILL:
            raise BrokenProcessError(f"a producer's process ended by itself in {name}")
        self._died(self._doom, name)

    def _end(self) -> None:
        self._is_over = True
        self._breeder.forget(self.pid)
        self._connection.close()
        os.close(self._will)
