"""The simulated world: hosts with a disk and a broker each, controllers, and a network."""

from random import Random
from typing import Final, NamedTuple

from quorate.broker.log.directory import DirectoryError
from quorate.broker.log.naming import DELETE_SUFFIX, parse_name, read_birth
from quorate.control import messages as m
from quorate.model import NO_LEADER, TopicPartition
from tests.simulation.disk import SimDisk
from tests.simulation.replication.broker import DATA, BrokerProcess
from tests.simulation.replication.controllers import Controllers
from tests.simulation.replication.ledger import Ledger
from tests.simulation.replication.network import Network, Process
from tests.simulation.replication.scenario import TOPIC, Scenario
from tests.simulation.replication.transactions import Coordinator
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

CONTROLLERS: Final = 3
RESTARTED: Final = 0.7
FILE_DELETE_DELAY_MS: Final = "800"
DELETE_DELAY_MS_MAX: Final = 60_000
"""The default, which holds for logs of topics that nobody knows any more."""
RESTART_DELAYS_S: Final = (0.05, 0.5, 2.0, 4.0)


class Known(NamedTuple):
    """What clients are told of a partition."""

    topic_id: bytes
    leader_epoch: int


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
        new = self.new_topic(self.scenario.partitions, self.scenario.replication_factor)
        controllers = self.controllers
        controllers.serve(controllers.active, m.CreateTopics((new,)), self._created)

    def new_topic(self, partitions: int, replication_factor: int) -> m.NewTopic:
        """Return the topic as it is to be made."""
        configs = {
            "min.insync.replicas": str(self.scenario.min_in_sync),
            **({"flush.messages": "1"} if self.scenario.fsync else {}),
            **({"file.delete.delay.ms": FILE_DELETE_DELAY_MS} if self.scenario.recreated else {}),
        }
        return m.NewTopic(TOPIC, partitions, replication_factor, configs=configs)

    def _created(self, answer: object) -> None:
        assert isinstance(answer, m.CreateTopicsAnswer), answer
        assert not answer.topics[0].failure.code, answer

    # --- how it stands

    def leads(self, partition: TopicPartition, name: str, topic_id: bytes | None) -> bool:
        """Whether a broker leads, as the controllers say."""
        topic = self.controllers.image.topics.get(partition.topic)
        if topic is None or topic_id not in (None, topic.topic_id):
            return False
        states = topic.partitions[partition.partition :]
        return bool(states) and states[0].leader_id == self.hosts[name].broker_id

    def known_on(self, partition: TopicPartition, name: str) -> Known | None:
        """Return what a broker tells clients of a partition, if it runs and knows it."""
        process = self.hosts[name].process
        topic = None if process is None else process.image.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        return Known(topic.topic_id, topic.partitions[partition.partition].leader_epoch)

    def exists(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition, as the controllers say."""
        topic = self.controllers.image.topics.get(partition.topic)
        return topic is not None and partition.partition < len(topic.partitions)

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

    def left_behind(self) -> list[str]:
        """Return the files on all disks of topics that are no more, or of others' replicas.

        What is deleted already has waited long enough.
        """
        for host in self.hosts.values():
            if host.process is not None:
                host.process.empty_trash(later_ms=DELETE_DELAY_MS_MAX)
        return [
            f"{host.name}: {name}"
            for host in self.hosts.values()
            for name in host.disk.list_directory(DATA)
            if name.endswith(DELETE_SUFFIX) or self._is_left(host, name)
        ]

    def _is_left(self, host: Host, name: str) -> bool:
        partition = parse_name(name)
        if partition is None:
            return False
        topic = self.controllers.image.topic_of(read_birth(host.disk, f"{DATA}/{name}").topic_id)
        return topic is None or host.broker_id not in topic.partitions[partition.partition].replicas

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
