"""The simulated world: hosts with a disk and a process each, and a network between them."""

from collections.abc import Iterable
from random import Random

from quorate.model import Endpoint
from quorate.quorum.raft.messages import encode_message
from quorate.quorum.raft.rounds import Outgoing
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from tests.simulation.quorum.disk import Disk
from tests.simulation.quorum.invariants import Invariants
from tests.simulation.quorum.mesh import Mesh
from tests.simulation.quorum.network import Frame, Network
from tests.simulation.quorum.process import Clock, Process, Replica
from tests.simulation.quorum.scenario import Scenario
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

RESTARTED = 0.8
RESTART_DELAYS_S = (0.05, 0.3, 1.0, 3.0)


class Host:
    """Owns a disk, which outlives processes, and the process that runs now, if one does."""

    def __init__(self, number: int, disk: Disk, rng: Random) -> None:
        self.number = number
        self.disk = disk
        self.process: Process | None = None
        self._rng = rng
        self.key = self._new_key()

    def _new_key(self) -> ReplicaKey:
        return ReplicaKey(self.number, self._rng.randbytes(16))

    @property
    def voter(self) -> Voter:
        return Voter(self.key, Endpoint(f"host{self.number}", 9000 + self.number))

    def wipe(self, disk: Disk, *, new_name: bool) -> None:
        """Lose everything; whoever starts here next is another replica."""
        assert self.process is None, "nobody uses the disk"
        self.disk = disk
        if new_name:
            self.key = self._new_key()


class World:
    """Owns the hosts, and starts and ends their processes."""

    def __init__(self, seed: int, scenario: Scenario, trace: Trace, timeline: Timeline) -> None:
        self.seed = seed
        self.scenario = scenario
        self.trace = trace
        self.timeline = timeline
        self._cores_rng = self.rng("cores")
        self._crash_rng = self.rng("crashes")
        self._clock_rng = self.rng("clocks")
        keys_rng = self.rng("keys")
        self.hosts = {n: Host(n, self._new_disk(n), keys_rng) for n in range(1, scenario.hosts + 1)}
        first = [host for host in self.hosts.values() if host.number <= scenario.voters]
        self.bootstrap = VoterSet.of(host.voter for host in first)
        self.invariants = Invariants(trace, self.processes)
        self.network = Network(
            timeline, self.rng("network"), trace, self._arrive, fifo=scenario.fifo
        )
        self.mesh = Mesh(timeline, self.rng("mesh"), self.network)
        self.restarting = True
        """Whether crashed processes start again by themselves, most of them."""

    def rng(self, concern: str) -> Random:
        """Return the chance of one concern: others may draw more or less without changing it."""
        return Random(f"{self.seed}/{concern}")

    def _new_disk(self, number: int) -> Disk:
        return Disk(self.rng(f"disk {number}"), lies=self.scenario.disks_lie)

    def processes(self) -> list[Process]:
        """Return those that run, by host."""
        return [host.process for host in self.hosts.values() if host.process is not None]

    def leader(self) -> Process | None:
        """Return the leader of the newest term that has one."""
        leaders = [process for process in self.processes() if process.rounds.is_leader]
        return max(leaders, key=lambda process: process.rounds.term, default=None)

    # --- starting and ending

    def start(self, host: Host) -> None:
        """Start a controller, if none runs there."""
        if host.process is not None:
            return
        voters = self.bootstrap if host.key in self.bootstrap else NO_VOTERS
        replica = Replica(host.key, voters, host.disk, Clock(self._clock_rng))
        process = Process(replica, self.scenario, self._cores_rng, self.timeline, self)
        self.trace.note(
            "start", f"{host.number}, on a full disk" if host.disk.full else str(host.number)
        )
        host.process = process
        self.invariants.started(process)
        self.mesh.started(process)
        process.wake()

    def stop(self, host: Host) -> None:
        """End a process as SIGTERM does: it answers everybody."""
        if host.process is not None:
            self.trace.note("stop", str(host.number))
            host.process.rounds.stop()
            self.invariants.promises_are_kept(host.process)
            self._end(host.process)
            host.disk.crash(power_cut=False)
            self._start_again(host)

    def kill(self, host: Host, *, power_cut: bool) -> None:
        """End a process with kill -9, or cut the host's power."""
        if host.process is not None:
            self._end(host.process)
            self._died(host, "power cut" if power_cut else "kill -9", power_cut=power_cut)

    def _died(self, host: Host, how: str, *, power_cut: bool | None = None) -> None:
        if power_cut is None:
            power_cut = self.scenario.power_cuts and self._crash_rng.random() < 0.6
        self.trace.note("crash", f"{host.number} {how}")
        host.disk.crash(power_cut=power_cut)
        self._start_again(host)

    def _end(self, process: Process) -> None:
        process.alive = False
        self.hosts[process.key.node_id].process = None
        self.invariants.ended(process)
        self.mesh.ended(process)

    def _start_again(self, host: Host) -> None:
        if self.restarting and self._crash_rng.random() < RESTARTED:
            delay_s = self._crash_rng.choice(RESTART_DELAYS_S) * self._crash_rng.random()
            self.timeline.after(delay_s, lambda: self.start(host))

    def wipe(self, host: Host) -> None:
        """Lose a disk, and begin with an empty one."""
        self.kill(host, power_cut=True)
        self.trace.note("wipe", str(host.number))
        new_name = not self.scenario.wiped_disks_keep_their_name
        host.wipe(self._new_disk(host.number), new_name=new_name)

    # --- what processes do

    def leaves(self, process: Process, outgoing: Iterable[Outgoing]) -> None:
        for one in outgoing:
            self.invariants.leaves(process.key, one, self.timeline.now_s)
            self.network.send(Frame(process.key, one.target, encode_message(one.message)))

    def stepped(self, process: Process) -> None:
        self.invariants.stepped(process)

    def flushed(self, process: Process) -> None:
        self.invariants.flushed(process)

    def crashed(self, process: Process) -> None:
        self._end(process)
        self._died(self.hosts[process.key.node_id], "inside a disk operation")

    def applied(self, process: Process, index: int, number: int, state_hash: bytes) -> None:
        self.invariants.applied(process, index, number, state_hash)

    def loaded(self, process: Process, index: int, state_hash: bytes) -> None:
        self.invariants.loaded(process, index, state_hash)

    def _arrive(self, frame: Frame) -> None:
        process = self.hosts[frame.target.node_id].process
        if process is not None and process.key == frame.target:
            process.receive(frame)
