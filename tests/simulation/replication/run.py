"""One run: a world that comes from a seed, chaos, rest, and what became of it."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from quorate.model import TopicPartition
from tests.simulation.replication.administrator import Administrator
from tests.simulation.replication.clients import Consumer, Producer
from tests.simulation.replication.nemesis import Nemesis
from tests.simulation.replication.recreation import (
    CONSUMERS_OF_AN_OLD_NAME,
    PRODUCERS_OF_AN_OLD_NAME,
    Find,
    Recreator,
)
from tests.simulation.replication.scenario import TOPIC, Scenario
from tests.simulation.replication.transactions import CommittedReader, Transactor
from tests.simulation.replication.world import World
from tests.simulation.report import PLAIN, Look, Report, reported
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

PRODUCERS: Final = 2
CONSUMERS: Final = 1
FIRST_PRODUCER_ID: Final = 1000
FORMING_S: Final = 20.0
RECOVERY_S: Final = 30.0
CALM_S: Final = 4.0
EVENTS_PER_S_MAX: Final = 50_000


def run(seed: int, scenario: Scenario, look: Look = PLAIN) -> Report:
    """Run a seed."""

    def all_of_it(timeline: Timeline, trace: Trace) -> None:
        _Run(seed, scenario, timeline, trace).all()

    logging.disable(logging.ERROR)
    try:
        return reported(seed, scenario, look, all_of_it, "brokers_never_fail")
    finally:
        logging.disable(logging.NOTSET)


class _Run:
    """Owns everybody who takes part."""

    def __init__(self, seed: int, scenario: Scenario, timeline: Timeline, trace: Trace) -> None:
        self._scenario = scenario
        self._timeline = timeline
        self._trace = trace
        self._world = World(seed, scenario, trace, timeline)
        self._producers: list[Producer | Transactor] = []
        self._consumers: list[Consumer] = []

    def all(self) -> None:
        world = self._world
        for name in world.hosts:
            world.start(name)
        self._run_for(FORMING_S, lambda: world.all_in_service)
        world.create_topic()
        self._start_clients()
        nemesis = Nemesis(world)
        administrator = Administrator(world, self._settled) if self._scenario.administered else None
        recreator = Recreator(world) if self._scenario.recreated else None
        self._run_for(self._scenario.chaos_s)
        nemesis.rest()
        if recreator is not None:
            recreator.rest()
        if administrator is not None:
            administrator.rest()
        self._run_for(CALM_S)  # whoever was about to stop does
        world.restarting = False
        for name in world.hosts:
            world.start(name)
        self._everything_recovers()
        for client in (*self._producers, *self._consumers):
            client.stopped = True
        self._run_for(RECOVERY_S, lambda: world.all_equal)
        if not world.all_equal:
            raise self._trace.violated("replicas_converge", world.describe())
        if self._scenario.recreated:
            self._everything_goes_away()
        world.check_all()
        self._trace.counts["acknowledged"] = sum(p.acknowledged for p in self._producers)

    def _settled(self, partition: TopicPartition, topic_id: bytes) -> int:
        """Return up to where nothing will be sent again."""
        producers = (p for p in self._producers if p.partition == partition)
        return min((producer.settled_in(topic_id) for producer in producers), default=0)

    def _start_clients(self) -> None:
        world = self._world
        surroundings = world.timeline, world.network, world.ledger, world.trace
        brokers = list(world.hosts)
        for number in range(self._scenario.partitions):
            partition = TopicPartition(TOPIC, number)
            find = partial(world.known_on, partition)
            for place in range(PRODUCERS):
                name = f"p{number}.{place}"
                arguments = name, partition, brokers, surroundings, world.rng(name)
                producer_id = FIRST_PRODUCER_ID + len(self._producers)
                leads = partial(world.leads, partition)
                self._producers.append(self._producer(place, find, producer_id, leads, *arguments))
            for place in range(self._consumers_each):
                name = f"r{number}.{place}"
                arguments = name, partition, brokers, surroundings, world.rng(name)
                self._consumers.append(self._consumer(place, find, *arguments))
            for place in range(self._scenario.transactors):
                name = f"t{number}.{place}"
                arguments = name, partition, brokers, surroundings, world.rng(name)
                producer_id = FIRST_PRODUCER_ID + len(self._producers)
                self._producers.append(Transactor(producer_id, world.coordinator, *arguments))
                name = f"c{number}.{place}"
                arguments = name, partition, brokers, surroundings, world.rng(name)
                self._consumers.append(CommittedReader(world.coordinator, *arguments))

    @property
    def _consumers_each(self) -> int:
        return len(CONSUMERS_OF_AN_OLD_NAME) if self._scenario.recreated else CONSUMERS

    def _producer(self, place: int, find: Find, *arguments: Any) -> Producer:
        if not self._scenario.recreated:
            return Producer(*arguments)
        return PRODUCERS_OF_AN_OLD_NAME[place](find, *arguments)

    def _consumer(self, place: int, find: Find, *arguments: Any) -> Consumer:
        if not self._scenario.recreated:
            return Consumer(*arguments)
        return CONSUMERS_OF_AN_OLD_NAME[place](find, *arguments)

    def _everything_recovers(self) -> None:
        """Liveness: some time after all is well again, every producer gets something done."""
        asked = [p for p in self._producers if self._world.exists(p.partition)]
        before = [producer.acknowledged for producer in asked]

        def done() -> bool:
            return all(
                producer.acknowledged > count for producer, count in zip(asked, before, strict=True)
            )

        self._run_for(RECOVERY_S, done)
        if not done():
            raise self._trace.violated("the_cluster_recovers", self._world.describe())

    def _everything_goes_away(self) -> None:
        """See that no broker keeps anything of topics that are no more."""
        world = self._world
        self._run_for(RECOVERY_S, lambda: not world.left_behind())
        if world.left_behind():
            raise self._trace.violated("deleted_logs_go_away", str(world.left_behind()))

    def _run_for(self, duration_s: float, stop: Callable[[], bool] = lambda: False) -> None:
        end_s = self._timeline.now_s + duration_s
        events_max = self._timeline.events + int(EVENTS_PER_S_MAX * duration_s)
        while self._timeline.now_s < end_s and not stop():
            self._timeline.run_until(min(end_s, self._timeline.now_s + 0.2), lambda: False)
            if self._timeline.events > events_max:
                raise self._trace.violated("no_message_storms", f"{self._timeline.events} events")
