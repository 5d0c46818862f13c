"""Processes of producers: one that imports all they need, and forks each of them.

Run as ``python -m quorate.jepsen.clients.mortal_process FD``: that socket is told the two
descriptors of each process to be, its connection and its will, into which a process writes before
it kills itself at the moment that it was told.
"""

import os
import signal
import socket
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.mortality import AFTER, BEFORE, Doom
from quorate.jepsen.clients.transacting import SpoiledError, TransactorOptions

WILL: Final = b"k"
FDS: Final = 2
DONE: Final = "done"
SPOILED: Final = "spoiled"
FAILED: Final = "failed"
CLOSE: Final = "close"


class Birth(NamedTuple):
    """What a process is told first; ``client`` is one of :mod:`choosing`'s names."""

    client: str
    bootstrap: str
    transactional_id: str
    doom: Doom


class _Fate:
    """Ends this process at its moment."""

    def __init__(self, doom: Doom, will: int) -> None:
        self._doom = doom
        self._will = will
        self._from_s = time.monotonic() + doom.lives_s

    def reached(self, step: str) -> None:
        """Die now, or soon, or not yet."""
        if step != self._doom.step or time.monotonic() < self._from_s:
            return
        if self._doom.delay_s:
            timer = threading.Timer(self._doom.delay_s, self._die)
            timer.daemon = True
            timer.start()
        else:
            self._die()

    def _die(self) -> None:
        os.write(self._will, WILL)
        os.kill(os.getpid(), signal.SIGKILL)


def live(connection: Connection, will: int) -> None:
    """Do what is asked over the connection until it breaks, or this process is to die."""
    connection.send(os.getpid())
    birth: Birth = connection.recv()
    fate = _Fate(birth.doom, will)
    options = TransactorOptions(birth.bootstrap, birth.transactional_id)
    made = choosing.transactor(birth.client, replace(options, reached=fate.reached))
    while True:
        name, arguments = connection.recv()
        fate.reached(BEFORE + name)
        connection.send(_answer(made, name, arguments))
        if name == CLOSE:
            return
        fate.reached(AFTER + name)


def _answer(made: Any, name: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return DONE, getattr(made, name)(*arguments)
    except SpoiledError as error:
        return SPOILED, str(error)
    except Exception as error:  # noqa: BLE001 - whoever asked is to be told of it
        return FAILED, repr(error)


def main() -> None:
    """Fork a process whenever the socket says so, until it is closed."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    choosing.import_all()
    while True:
        said, fds, _, _ = socket.recv_fds(asked, 1, FDS)
        if not said:
            return
        connection_fd, will = fds
        if os.fork() == 0:
            asked.close()
            try:
                live(Connection(connection_fd), will)
            except (EOFError, OSError):
                pass  # whoever asked has gone
            finally:
                os._exit(0)  # what threads of clients are doing ends here
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()
