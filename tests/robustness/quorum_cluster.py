"""Three controllers: processes, disks that forget, and a network that can be cut between them."""

import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from quorate.control import messages as m
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.lab.disks import SHIM_C, MachineDisk
from quorate.jepsen.lab.native import build_library
from quorate.jepsen.lab.network import REDIRECT_C, Network
from quorate.net.ports import LOOPBACK, free_ports
from tests.robustness.node import Process

CONTROLLERS: Final = 3
STOP_S_MAX: Final = 20.0
POLL_S: Final = 0.02


class DiedError(Exception):
    """A controller ended by itself."""


class Machine:
    """One controller: its directory, a disk under it that a power cut can hit, its process.

    State: ``process`` while it runs. All power cuts are worked out from a copy of the directory,
    and what was noted since that was made.
    """

    def __init__(self, number: int, work: Path, words: Sequence[str], redirects: str) -> None:
        """Begin with an empty directory; ``number`` is the node id."""
        self.number = number
        self.data = work / f"data-{number}"
        self.log_path = work / f"controller-{number}.log"
        self.process: Process | None = None
        library = build_library(SHIM_C, work)
        redirect = build_library(REDIRECT_C, work)
        self._disk = MachineDisk(self.data, work / f"machine-{number}", library)
        self.shim = self._disk.shim
        self._words = [*words, "--id", str(number), "--dir", str(self.data)]
        self._variables = {
            **self.shim.environment(),
            "LD_PRELOAD": f"{library}:{redirect}",
            "QUORATE_REDIRECT": redirects,
        }

    def start(self) -> None:
        """Start a process; it serves soon."""
        assert self.process is None
        words = ["controller", "start", *self._words]
        self.process = Process(words, self.log_path, self._variables)

    def check_alive(self) -> None:
        """See that the process that should run does.

        Raises:
            DiedError: it does not.
        """
        if self.process is None or self.process.is_alive:
            return
        code = self.process.process.returncode
        if code != -signal.SIGKILL:
            raise DiedError(f"controller {self.number}: {code}, {self.process.log_tail()}")

    def kill_at_change(self, number: int) -> None:
        """End the process in the middle of a change of its disk, so many from now."""
        self.shim.set("kill_at_change", self.shim.get("changes") + number)

    def kill(self) -> None:
        """End the process with kill -9, if it runs; nothing that it wrote is lost."""
        if self.process is not None:
            self.check_alive()
            self.process.kill()
            self.process = None
            self.shim.set("kill_at_change", 0)
            self._disk.settle()

    def cut_power(self, rng: Random) -> int:
        """End the process and forget what was not synced; return about how much that was."""
        if self.process is not None:
            self.check_alive()
            self.process.kill()
            self.process = None
        self.shim.set("kill_at_change", 0)
        return self._disk.cut_power(rng)

    def pause(self) -> None:
        """Stop the process where it is; its connections stay."""
        assert self.process is not None
        self.process.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, as if no time had passed."""
        assert self.process is not None
        self.process.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """End the process and give it an empty disk."""
        self.kill()
        remove(self.data)
        self.data.mkdir()
        self._disk.start_anew()

    def stop(self) -> int:
        """End the process properly; return its exit code."""
        assert self.process is not None
        code = self.process.stop()
        self.process = None
        self._disk.settle()
        return code

    def close(self) -> None:
        """End the process, let go of the disk."""
        if self.process is not None:
            self.process.kill()
            self.process = None
        self.shim.close()


class Cluster:
    """Owns the controllers and the network; all end with :meth:`close`, or ``with``."""

    def __init__(self, work: Path, properties: dict[str, str]) -> None:
        """Prepare controllers below a folder; :meth:`start` is next."""
        work.mkdir(parents=True, exist_ok=True)
        self.work = work
        self.ports = free_ports(CONTROLLERS)
        self.network = Network(self.ports)
        join = ",".join(f"{LOOPBACK}:{port}" for port in self.ports)
        extra = [word for pair in properties.items() for word in ("-X", "=".join(pair))]
        self.machines = [
            Machine(
                place + 1,
                work,
                ["--listen", f"{LOOPBACK}:{port}", "--join", join, *extra],
                self.network.redirects(place),
            )
            for place, port in enumerate(self.ports)
        ]

    def start(self) -> None:
        """Start those that do not run."""
        for machine in self.machines:
            if machine.process is None:
                machine.start()

    def leader(self, timeout_s: float) -> Machine | None:
        """Return who leads, if anybody does within a time."""
        with QuorumClient(self.ports, 0) as client:
            try:
                answer = client.ask(
                    m.DescribeQuorum(), m.DescribeQuorumAnswer, request_id=b"", timeout_s=timeout_s
                )
            except (NotDoneError, MaybeDoneError):
                return None
        return self.machines[answer.leader_id - 1]

    def check_alive(self) -> None:
        """See that nobody ended by itself.

        Raises:
            DiedError: somebody did.
        """
        for machine in self.machines:
            machine.check_alive()

    def stop(self) -> None:
        """Stop all properly.

        Raises:
            DiedError: somebody did not end well, or told of an error.
        """
        for machine in self.machines:
            code = machine.stop()
            if code != 0:
                raise DiedError(f"controller {machine.number} stopped with {code}: {self.tails()}")
        for machine in self.machines:
            log = machine.log_path.read_text(errors="replace")
            if "Traceback" in log:
                at = log.index("Traceback")
                raise DiedError(f"controller {machine.number}: {log[max(0, at - 300) : at + 3000]}")

    def tails(self) -> str:
        """Return what all logged last."""
        return "\n".join(
            line
            for machine in self.machines
            for line in machine.log_path.read_text(errors="replace").splitlines()[-8:]
        )

    def close(self) -> None:
        """End everything."""
        for machine in self.machines:
            machine.close()
        self.network.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def wait_until_dead(machine: Machine, timeout_s: float) -> bool:
    """Return whether a process ended within a time."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if machine.process is None or not machine.process.is_alive:
            return True
        time.sleep(POLL_S)
    return False


def remove(work: Path) -> None:
    """Remove what a cluster left."""
    shutil.rmtree(work, ignore_errors=True)
