"""Who changes the quorum: adds and removes voters, hands leadership over, replaces disks."""

from dataclasses import dataclass

from quorate.promise import Promise
from quorate.quorum.raft.outcomes import ChangeOutcome, ChangeRefused, TransferOutcome
from quorate.quorum.raft.voters import ReplicaKey
from tests.simulation.quorum import inside
from tests.simulation.quorum.process import Process
from tests.simulation.quorum.world import Host, World

PATIENCE_S = 3.0
MISTAKEN = 0.15


@dataclass(frozen=True, slots=True)
class _Asked:
    process: Process
    promise: Promise[ChangeOutcome]

    @property
    def open(self) -> bool:
        return self.process.alive and not self.promise.resolved


class Admin:
    """Changes one thing after another, at whatever host leads; says what it did, or ``None``.

    What it does is what an operator may do at any time, except for wiping disks: of these a quorum
    survives only as many as it survives losses, so lost disks are replaced before the next is lost.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng("admin")
        self._hosts = list(world.hosts.values())
        self._wiped = set[ReplicaKey]()
        self._asked = list[_Asked]()

    def transfer(self) -> str | None:
        leader = self._world.leader()
        if leader is None:
            return None
        target = self._rng.choice((None, *leader.rounds.voters.keys))
        promise = leader.rounds.transfer_leadership(target, leader.here_s + PATIENCE_S)
        leader.ask(promise)
        promise.when_resolved(self._note)
        return f"from {leader.key.node_id} to {target}"

    def change_member(self) -> str | None:
        """Remove a voter whose disk is lost; otherwise add or remove any."""
        leader = self._world.leader()
        if leader is None:
            return None
        voters = leader.rounds.voters.keys
        lost = [key for key in voters if key in self._wiped]
        host = self._rng.choice(self._hosts)
        if self._rng.random() < MISTAKEN:
            return self._make_a_mistake(leader, host)
        if lost:
            return self._remove(leader, lost[0])
        if host.key in voters and len(voters) > 1:
            return self._remove(leader, host.key)
        if host.key not in voters:
            return self._add(leader, host)
        return None

    def _make_a_mistake(self, leader: Process, host: Host) -> str:
        """Ask for what has to be refused."""
        voters = leader.rounds.voters
        if host.key in voters and len(voters) > 1:
            return self._add(leader, host)
        if voters.find(host.number) is not None and host.key not in voters:
            return self._add(leader, host)
        return self._remove(leader, host.key)

    def _add(self, leader: Process, host: Host) -> str:
        self._world.start(host)
        self._ask(leader, leader.rounds.add_voter(host.voter, leader.here_s + PATIENCE_S))
        return f"add {host.number} at {leader.key.node_id}"

    def _remove(self, leader: Process, key: ReplicaKey) -> str:
        self._ask(leader, leader.rounds.remove_voter(key, leader.here_s + PATIENCE_S))
        return f"remove {key.node_id} at {leader.key.node_id}"

    def _ask(self, leader: Process, promise: Promise[ChangeOutcome]) -> None:
        self._asked.append(_Asked(leader, promise))
        leader.ask(promise)
        promise.when_resolved(self._note)

    def _note(self, outcome: ChangeOutcome | TransferOutcome) -> None:
        why = outcome.refusal.name if isinstance(outcome, ChangeRefused) else ""
        self._world.trace.note(type(outcome).__name__, why)

    def is_lost(self, key: ReplicaKey) -> bool:
        """Whether a replica's disk was wiped: it never comes back."""
        return key in self._wiped

    def wipe(self) -> str | None:
        """Lose a host's disk, if every quorum that may still decide something survives that."""
        host = self._rng.choice(self._hosts)
        running = self._world.processes()
        if len(running) < len(self._hosts) or any(asked.open for asked in self._asked):
            return None  # whom the others believe to be voters cannot be seen, or is changing
        for process in running:
            for voters in inside.newest_voter_sets(process.rounds):
                lost = sum(key in self._wiped or key == host.key for key in voters.keys)
                if host.key in voters and lost > (len(voters) - 1) // 2:
                    return None
        self._wiped.add(host.key)
        self._world.wipe(host)
        return str(host.number)
