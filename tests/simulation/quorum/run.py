"""One run: a world that comes from a seed, chaos, rest, and what became of it."""

import logging
from typing import Final

from quorate.jepsen.linearizability import Linearizable, Operation, check
from quorate.quorum.raft.outcomes import NotDone
from tests.simulation.quorum.admin import Admin
from tests.simulation.quorum.clients import PATIENCE_S, Client, Crowd, Numbers
from tests.simulation.quorum.nemesis import Nemesis
from tests.simulation.quorum.registers import PUT, Answer, Command
from tests.simulation.quorum.scenario import Scenario
from tests.simulation.quorum.world import World
from tests.simulation.report import PLAIN, Look, Report, reported
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

CLIENTS: Final = 4
CROWDS: Final = 2
CALM_S: Final = 1.0
RECOVERY_S: Final = 12.0
ASK_AGAIN_S: Final = 0.1
EVENTS_PER_S_MAX: Final = 50_000
CHECK_STEPS_MAX: Final = 2_000_000


def run(seed: int, scenario: Scenario, look: Look = PLAIN) -> Report:
    """Run a seed."""
    logging.getLogger("pysyncobj").setLevel(logging.CRITICAL + 1)

    def all_of_it(timeline: Timeline, trace: Trace) -> None:
        _Run(seed, scenario, timeline, trace).all()

    return reported(seed, scenario, look, all_of_it, "controllers_never_fail")


class _Run:
    """Owns everybody who takes part."""

    def __init__(self, seed: int, scenario: Scenario, timeline: Timeline, trace: Trace) -> None:
        self._scenario = scenario
        self._timeline = timeline
        self._trace = trace
        self._world = World(seed, scenario, trace, timeline)
        self._admin = Admin(self._world)
        self._history = list[Operation]()
        self._numbers = Numbers()
        self._final: Answer | None = None

    def all(self) -> None:
        world = self._world
        for host in world.hosts.values():
            world.start(host)
        clients = [
            Client(world, self._numbers, self._history, world.rng(f"client {n}"))
            for n in range(CLIENTS)
        ]
        crowds = [Crowd(world, self._numbers, world.rng(f"crowd {n}")) for n in range(CROWDS)]
        nemesis = Nemesis(world, self._admin)
        self._run_for(self._scenario.chaos_s)
        nemesis.rest()
        world.restarting = False
        for host in world.hosts.values():
            world.start(host)
        self._run_for(CALM_S)
        for client in clients:
            client.end()
        for crowd in crowds:
            crowd.end()
        self.the_quorum_recovers()
        for host in world.hosts.values():
            world.stop(host)
        self.registers_are_linearizable()

    def _run_for(self, duration_s: float) -> None:
        end_s = self._timeline.now_s + duration_s
        events_max = self._timeline.events + int(EVENTS_PER_S_MAX * duration_s)
        while self._timeline.now_s < end_s:
            self._timeline.run_until(min(end_s, self._timeline.now_s + 1.0), self._settled)
            if self._timeline.events > events_max:
                raise self._trace.violated("no_message_storms", f"{self._timeline.events} events")
            if self._settled():
                return

    # --- the end

    def the_quorum_recovers(self) -> None:
        """Liveness: some time after all is well again there is a leader, it commits, all follow."""
        self._ask()
        self._run_for(RECOVERY_S)
        if not self._settled():
            states = [
                f"{p.key.node_id}: term {p.rounds.term}, leads {p.rounds.is_leader}, "
                f"log {p.rounds.last_index}, commit {p.rounds.commit_index}, "
                f"applied {p.registers.index}, voters {[k.node_id for k in p.rounds.voters.keys]}"
                for p in self._world.processes()
            ]
            raise self._trace.violated("the_quorum_recovers", f"{self._final}; {'; '.join(states)}")
        self._trace.note("recovered", str(self._final))

    def _ask(self) -> None:
        """Have a last command committed, however often it takes."""
        if self._final is not None:
            return
        leader = self._world.leader()
        if leader is not None:
            number = self._numbers.next()
            command = Command(number, PUT, "final", None, number, 0)
            deadline_s = leader.here_s + PATIENCE_S
            leader.rounds.propose(command.encode(), deadline_s).when_resolved(self._answered)
            leader.wake()
        self._timeline.after(ASK_AGAIN_S, self._ask)

    def _answered(self, outcome: Answer | NotDone) -> None:
        if isinstance(outcome, Answer) and self._final is None:
            self._final = outcome

    def _settled(self) -> bool:
        """Whether every voter that is left has applied the last command."""
        leader = None if self._final is None else self._world.leader()
        if leader is None or self._final is None:
            return False
        voters = [key for key in leader.rounds.voters.keys if not self._admin.is_lost(key)]
        running = {process.key: process for process in self._world.processes()}
        return all(
            key in running and running[key].registers.index >= self._final.index for key in voters
        )

    def registers_are_linearizable(self) -> None:
        """The histories of all registers, as clients saw them."""
        verdict = check(self._history, CHECK_STEPS_MAX)
        self._trace.counts["operations"] = len(self._history)
        if not isinstance(verdict, Linearizable):
            raise self._trace.violated("registers_are_linearizable", str(verdict))
