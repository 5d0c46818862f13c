"""The simulated world: hosts with a disk and a broker each, controllers, and a network."""

from random import Random
from typing import Final

from quorate.broker.log.directory import DirectoryError
from quorate.control import messages as m
from quorate.model import NO_LEADER, TopicPartition
from tests.simulation.disk import SimDisk
from tests.simulation.replication.broker import DATA, BrokerProcess
from tests.simulation.replication.controllers import Controllers
from tests.simulation.replication.ledger import Ledger
from tests.simulation.replication.network import Network, Process
from tests.simulation.replication.scenario import Scenario
from tests.simulation.replication.transactions import Coordinator
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

TOPIC: Final = "events"
CONTROLLERS: Final = 3
RESTARTED: Final = 0.7
RESTART_DELAYS_S: Final = (0.05, 0.5, 2.0, 4.0)


class Host:
    """Owns a disk, which outlives processes, and the broker that runs now, if one does."""

    def __init__(self, broker_id: int, rng: Random) -> None:
        self.broker_id = broker_id
        self.name = f"b{broker_id}"
        self.process: BrokerProcess | None = None
        self._rng = rng
        self.new_disk()

    def new_disk(self) -> None:
        """Begin with an empty disk."""
        self.disk = SimDisk(self._rng)
        self.disk.make_directory(DATA)
        self.disk.sync_directory("/")


class World:
    """Owns the hosts, and starts and ends their processes."""

    def __init__(self, seed: int, scenario: Scenario, trace: Trace, timeline: Timeline) -> None:
        self.seed = seed
        self.scenario = scenario
        self.trace = trace
        self.timeline = timeline
        self._crash_rng = self.rng("crashes")
        self.ledger = Ledger(trace)
        self.coordinator = Coordinator(trace)
        self.network = Network(timeline, self.rng("network"), trace, self.process_on)
        self.controllers = Controllers(CONTROLLERS, timeline, self.rng("controllers"), trace)
        self.controllers.on_commit = self.ledger.metadata_is
        self.hosts = {
            f"b{n}": Host(n, self.rng(f"disk {n}")) for n in range(1, scenario.brokers + 1)
        }
        self.restarting = True

    def rng(self, concern: str) -> Random:
        """Return the chance of one concern: others may draw more or less without changing it."""
        return Random(f"{self.seed}/{concern}")

    @property
    def everybody(self) -> list[str]:
        return [*self.hosts, *self.controllers.all]

    def process_on(self, name: str) -> Process | None:
        if name in self.hosts:
            return self.hosts[name].process
        return self.controllers.all[name]

    # --- starting and ending

    def start(self, name: str) -> None:
        host = self.hosts[name]
        if host.process is not None:
            return
        self.trace.note("start", name)
        try:
            host.process = BrokerProcess(self, host.broker_id, host.disk)
        except DirectoryError as error:
            self.trace.note("not started", f"{name}: {error}")
            host.disk.restart()
            self._start_again(name)

    def stop(self, name: str) -> None:
        """End a broker as SIGTERM does."""
        host = self.hosts[name]
        if host.process is not None:
            host.process.shut_down(lambda: self._start_again(name))

    def ended(self, process: BrokerProcess) -> None:
        """A broker has ended by itself."""
        host = self.hosts[process.name]
        process.alive = False
        host.process = None
        host.disk.restart()

    def kill(self, name: str, *, power_cut: bool) -> None:
        """End a process with kill -9, or cut the host's power."""
        host = self.hosts[name]
        if host.process is None:
            return
        self.trace.note("crash", f"{name} {'power cut' if power_cut else 'kill -9'}")
        host.process.alive = False
        host.process = None
        if power_cut:
            host.disk.lose_power()
        else:
            host.disk.restart()
        self._start_again(name)

    def may_lose(self, name: str) -> bool:
        """Whether a broker's disk may be lost and nothing that was promised: others are in sync."""
        broker_id = self.hosts[name].broker_id
        states = [s for t in self.controllers.image.topics.values() for s in t.partitions]
        return all(
            set(state.isr) - {broker_id}
            for state in states
            if broker_id in (*state.isr, *state.elr, state.last_known_leader)
        )

    def lose(self, name: str, *, power_cut: bool) -> None:
        """End a process, and lose its disk, or what was not synced; the controllers know at once.

        If they did not, the last one in sync might be one that has lost everything: no fault of
        theirs, but then nobody can lead.
        """
        host = self.hosts[name]
        self.kill(name, power_cut=power_cut)
        self.controllers.fence(host.broker_id)
        if not power_cut:
            self.trace.note("wipe", name)
            host.new_disk()

    def _start_again(self, name: str) -> None:
        if self.restarting and self._crash_rng.random() < RESTARTED:
            delay_s = self._crash_rng.choice(RESTART_DELAYS_S) * self._crash_rng.random()
            self.timeline.after(delay_s, lambda: self.start(name))

    def create_topic(self) -> None:
        """Have the topic made that everything is about."""
        configs = {
            "min.insync.replicas": str(self.scenario.min_in_sync),
            **({"flush.messages": "1"} if self.scenario.fsync else {}),
        }
        new = m.NewTopic(
            TOPIC, self.scenario.partitions, self.scenario.replication_factor, configs=configs
        )
        controllers = self.controllers
        controllers.serve(controllers.active, m.CreateTopics((new,)), self._created)

    def _created(self, answer: object) -> None:
        assert isinstance(answer, m.CreateTopicsAnswer), answer
        assert not answer.topics[0].failure.code, answer

    # --- how it stands

    def leads(self, partition: TopicPartition, name: str) -> bool:
        """Whether a broker leads, as the controllers say."""
        state = self.controllers.image.topics[partition.topic].partitions[partition.partition]
        return state.leader_id == self.hosts[name].broker_id

    def proposed(self) -> set[str]:
        """Return who is in an ISR that a leader has proposed, and waits to hear of."""
        processes = [host.process for host in self.hosts.values() if host.process is not None]
        return {f"b{broker_id}" for process in processes for broker_id in process.proposed()}

    @property
    def all_in_service(self) -> bool:
        return len(self.controllers.image.live_broker_ids()) == len(self.hosts)

    @property
    def all_equal(self) -> bool:
        """Whether everybody is in sync, and has the same."""
        for topic in self.controllers.image.topics.values():
            for number, state in enumerate(topic.partitions):
                if set(state.isr) != set(state.replicas) or state.leader_id == NO_LEADER:
                    return False
                partition = TopicPartition(topic.name, number)
                ends = set[tuple[int, int]]()
                for broker_id in state.replicas:
                    process = self.hosts[f"b{broker_id}"].process
                    if process is None:
                        return False
                    ends.add(process.ends_of(partition))
                if len(ends) != 1 or len(set(next(iter(ends)))) != 1:
                    return False
        return True

    def check_all(self) -> None:
        """See that every replica has every committed record, and nothing else."""
        for topic in self.controllers.image.topics.values():
            for number, state in enumerate(topic.partitions):
                partition = TopicPartition(topic.name, number)
                for broker_id in state.replicas:
                    process = self.hosts[f"b{broker_id}"].process
                    assert process is not None
                    self.ledger.has_all(process.name, process.hosted(partition))
                    self.coordinator.replicas_know(process.name, process.hosted(partition))
        self.ledger.sequences_have_no_gap_or_repeat()

    def describe(self) -> str:
        """Return how everything stands, for whoever looks into a violation."""
        states = [
            f"{topic.name}-{number}: {state}"
            for topic in self.controllers.image.topics.values()
            for number, state in enumerate(topic.partitions)
        ]
        brokers = [
            f"{host.name}: {host.process.describe() if host.process else 'down'}"
            for host in self.hosts.values()
        ]
        live = sorted(self.controllers.image.live_broker_ids())
        return "; ".join([*states, *brokers, f"in service {live}"])
