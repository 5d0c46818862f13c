"""Whoever administers: other rules, other replicas, brokers that are drained, records deleted."""

from typing import TYPE_CHECKING, Final

from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.errors import KafkaError, StorageError, UnknownTopicOrPartitionError
from quorate.group_settings import GroupConfig
from quorate.model import NO_LEADER, TopicPartition
from quorate.quorum.control import brokers, configs, elections, reassignments
from quorate.quorum.control.decision import Decision, Reason
from quorate.quorum.metadata.effective import MIN_INSYNC_REPLICAS
from tests.simulation.replication.scenario import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.quorum.metadata.image import MetadataImage, TopicImage
    from tests.simulation.replication.world import World

DEEDS_PER_S: Final = 2.0
GROUPS: Final = GroupConfig()


class Administrator:
    """Acts at random moments until it rests; then no broker is drained any more."""

    def __init__(self, world: "World", settled: "Callable[[TopicPartition, bytes], int]") -> None:
        self._world = world
        self._settled = settled
        self._rng = world.rng("administrator")
        self._resting = False
        self._deeds: dict[str, Callable[[], str | None]] = {
            "min in sync": self._min_in_sync,
            "flush": self._flush,
            "reassign": self._reassign,
            "call off": self._call_off,
            "drain": self._drain,
            "balance": self._balance,
            "delete records": self._delete_records,
        }
        self._plan()

    def rest(self) -> None:
        """Change nothing any more."""
        self._resting = True
        for broker_id in self._world.controllers.image.brokers:
            self._change(broker_id, draining=False)

    def _plan(self) -> None:
        self._world.timeline.after(self._rng.expovariate(DEEDS_PER_S), self._act)

    def _act(self) -> None:
        if self._resting:
            return
        name = self._rng.choice(list(self._deeds))
        try:
            said = self._deeds[name]()
        except KafkaError as error:
            said = f"refused: {error}"
        if said is not None:
            self._world.trace.note("administrator", f"{name} {said}")
        self._plan()

    def _topic(self) -> "TopicImage":
        topics = self._world.controllers.image.topics
        if TOPIC not in topics:
            raise UnknownTopicOrPartitionError
        return topics[TOPIC]

    def _decide(self, decide: "Callable[[MetadataImage, int], Decision[m.Answer]]") -> None:
        controllers = self._world.controllers
        controllers.decide(lambda image: decide(image, controllers.wall_ms))

    def _min_in_sync(self) -> str:
        value = str(self._rng.randint(1, self._world.scenario.replication_factor))
        self._configure(m.ConfigChange(MIN_INSYNC_REPLICAS, m.ConfigOperation.SET, value))
        return value

    def _flush(self) -> str | None:
        """Have records count when they are synced, or not any more."""
        if self._world.scenario.fsync:
            return None  # power is cut there
        synced = self._rng.random() < 0.5
        operation = m.ConfigOperation.SET if synced else m.ConfigOperation.DELETE
        self._configure(m.ConfigChange("flush.messages", operation, "1" if synced else None))
        return str(synced)

    def _configure(self, change: m.ConfigChange) -> None:
        request = m.AlterConfigs((m.ResourceChanges("topic", self._topic().name, (change,)),))
        self._decide(lambda image, now_ms: configs.alter_configs(image, request, now_ms, GROUPS))

    def _reassign(self) -> str:
        """Have a partition move, to more or fewer replicas perhaps."""
        topic = self._topic()
        partition = self._rng.randrange(len(topic.partitions))
        known = sorted(self._world.controllers.image.brokers)
        count = self._rng.randint(2, len(known))
        target = tuple(self._rng.sample(known, count))
        self._move(partition, target)
        return f"{partition} to {target}"

    def _call_off(self) -> str | None:
        moving = [n for n, state in enumerate(self._topic().partitions) if state.is_moving]
        if not moving:
            return None
        partition = self._rng.choice(moving)
        self._move(partition, None)
        return str(partition)

    def _move(self, partition: int, target: tuple[int, ...] | None) -> None:
        request = p.AlterReassignments({self._topic().name: {partition: target}})
        self._decide(
            lambda image, now_ms: reassignments.alter_reassignments(image, request, now_ms)
        )

    def _drain(self) -> str:
        broker_id = self._rng.choice(sorted(self._world.controllers.image.brokers))
        draining = self._rng.random() < 0.5
        self._change(broker_id, draining=draining)
        return f"{broker_id} {draining}"

    def _change(self, broker_id: int, *, draining: bool) -> None:
        request = p.ChangeBroker(broker_id, draining)
        self._decide(lambda image, now_ms: brokers.change_broker(image, request, now_ms))

    def _balance(self) -> str:
        def decide(image: "MetadataImage", now_ms: int) -> Decision[m.Answer]:
            moved = elections.balance_leaders(image, Reason("balanced", now_ms))
            return Decision(tuple(moved), m.Answer())

        self._decide(decide)
        return ""

    def _delete_records(self) -> str | None:
        """Delete what no producer sends again: brokers forget producers with their records."""
        topic = self._topic()
        partition = TopicPartition(topic.name, self._rng.randrange(len(topic.partitions)))
        leader_id = topic.partitions[partition.partition].leader_id
        process = None if leader_id == NO_LEADER else self._world.hosts[f"b{leader_id}"].process
        offset = int(self._rng.random() * self._settled(partition, topic.topic_id))
        try:
            deleted = process is not None and process.delete_records(partition, offset)
        except StorageError as error:
            return str(error)
        return f"of {partition} before {offset}" if deleted else None
