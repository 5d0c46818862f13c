"""What happened to a partition or a broker, found in the records of metadata."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import NO_LEADER, TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import BROKER, CLUSTER_DEFAULT, TOPIC
from quorate.tools.metadata.decided import Decided
from quorate.tools.problems import CommandError
from quorate.tools.why.answer import Line, cite, name_of, numbers

MIN_ISR: Final = "min.insync.replicas"
IN_SERVICE: Final = "is in service"
JOINED: Final = "registered, and is to catch up before it serves"
DRAINED: Final = "is drained: it leads only what nobody else can lead"


@dataclass(frozen=True, slots=True)
class Step:
    """What a partition was from a record on."""

    decided: Decided
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    leader_epoch: int
    elr: tuple[int, ...]
    last_known_leader: int

    @property
    def cause(self) -> str:
        """Why it came to be so."""
        return cause_of(self.decided)


@dataclass(frozen=True, slots=True)
class Past:
    """All that is known of a partition's past, oldest first; never empty."""

    partition: TopicPartition
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """The partition's name."""
        return name_of(self.partition)

    @property
    def argument(self) -> str:
        """The partition as commands take it."""
        return f"{self.partition.topic}:{self.partition.partition}"

    @property
    def now(self) -> Step:
        """What it is now."""
        return self.steps[-1]

    @property
    def placed(self) -> Step:
        """Where it got the replicas that it has."""
        found = self.steps[-1]
        for step in reversed(self.steps):
            if step.replicas != found.replicas:
                break
            found = step
        return found

    @property
    def leader_since(self) -> Step:
        """The step with which its leader, or nobody, came to lead in the present epoch."""
        found = self.now
        for step in reversed(self.steps):
            if (step.leader_id, step.leader_epoch) != (found.leader_id, found.leader_epoch):
                break
            found = step
        return found

    def leaderships(self) -> list[tuple[Step, Step]]:
        """Return each change of leader: what was before, and what came."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return [(old, new) for old, new in pairs if old.leader_id != new.leader_id]

    def came(self, broker_id: int) -> Step | None:
        """Return the step with which a broker came into the ISR, None if it is not in it."""
        found: Step | None = None
        for step in reversed(self.steps):
            if broker_id not in step.isr:
                break
            found = step
        return found

    def left(self, broker_id: int) -> Step | None:
        """Return the step with which a broker left the ISR, None if it never was there."""
        found: Step | None = None
        for step in reversed(self.steps):
            if broker_id in step.isr:
                return found
            found = step
        return None


def past_of(decided: Iterable[Decided], partition: TopicPartition) -> Past | None:
    """Return the past of a partition that exists, None if there is none.

    A topic that was deleted and made again is another one: it begins with its creation.
    """
    steps: list[Step] = []
    for each in decided:
        if each.topic != partition.topic:
            continue
        match each.record:
            case r.TopicCreated() | r.TopicRemoved():
                steps = []
            case r.PartitionCreated(partition=partition.partition) as made:
                steps = [
                    Step(
                        each, made.replicas, made.adding_replicas, made.isr, made.leader_id,
                        made.leader_epoch, made.elr, made.last_known_leader,
                    )
                ]  # fmt: skip
            case r.PartitionChanged(partition=partition.partition) as changed if steps:
                steps.append(_after(steps[-1], each, changed))
            case _:
                pass
    return Past(partition, tuple(steps)) if steps else None


def pasts_of(decided: Sequence[Decided], topic: str, number: int | None = None) -> list[Past]:
    """Return the pasts of a topic's partitions, or of one; empty if there are none."""
    last = max(
        (
            each.record.partition
            for each in decided
            if each.topic == topic and isinstance(each.record, r.PartitionCreated)
        ),
        default=-1,
    )
    numbers_wanted = range(last + 1) if number is None else (number,)
    found = (past_of(decided, TopicPartition(topic, each)) for each in numbers_wanted)
    return [past for past in found if past is not None]


def _after(before: Step, decided: Decided, changed: r.PartitionChanged) -> Step:
    replicas, adding, elr = changed.replicas, changed.adding_replicas, changed.elr
    last = changed.last_known_leader
    return Step(
        decided=decided,
        replicas=before.replicas if replicas is None else replicas,
        adding=before.adding if adding is None else adding,
        isr=changed.isr,
        leader_id=changed.leader_id,
        leader_epoch=changed.leader_epoch,
        elr=before.elr if elr is None else elr,
        last_known_leader=before.last_known_leader if last is None else last,
    )


def removal_of(decided: Iterable[Decided], topic: str) -> Decided | None:
    """Return the record that deleted a topic last, None if there is none."""
    found = None
    for each in decided:
        if each.topic == topic and isinstance(each.record, r.TopicRemoved):
            found = each
    return found


def no_partition(decided: Sequence[Decided], partition: TopicPartition) -> CommandError:
    """Return the error for a partition that never was."""
    numbers_there = {
        each.record.partition
        for each in decided
        if each.topic == partition.topic and isinstance(each.record, r.PartitionCreated)
    }
    why = (
        f"topic {partition.topic} has partitions 0 to {max(numbers_there)}"
        if numbers_there
        else f"the metadata has no record of a topic {partition.topic}"
    )
    return CommandError(
        f"there is no partition {name_of(partition)}", why=why, hint="quorate topics list"
    )


BrokerRecord = (
    r.BrokerRegistered | r.BrokerFenced | r.BrokerUnfenced | r.BrokerChanged | r.BrokerUnregistered
)


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """Something that happened to a broker."""

    decided: Decided
    record: BrokerRecord

    @property
    def is_outage(self) -> bool:
        """Whether the broker went out of service with it, or is about to."""
        record = self.record
        return (
            isinstance(record, r.BrokerFenced | r.BrokerUnregistered)
            or (isinstance(record, r.BrokerRegistered) and record.fenced)
            or (isinstance(record, r.BrokerChanged) and record.shutting_down is True)
        )

    def line(self) -> Line:
        """Return what happened, as a line."""
        return cite(self.decided, f"broker {self.record.broker_id} {self._what()}")

    def _what(self) -> str:
        match self.record:
            case r.BrokerRegistered() as made:
                what = IN_SERVICE if not made.fenced else JOINED
            case r.BrokerFenced():
                what = "went out of service"
            case r.BrokerUnfenced():
                what = "came into service"
            case r.BrokerUnregistered():
                what = "was unregistered"
            case changed:
                what = _change_text(changed)
        return f"{what}: {cause_of(self.decided)}"


def _change_text(changed: r.BrokerChanged) -> str:
    if changed.shutting_down:
        return "began to shut down"
    if changed.cannot_write is not None:
        return "is read-only" if changed.cannot_write else "is read-only no more"
    return DRAINED if changed.draining else "is drained no more"


def read_only(events: Iterable[BrokerEvent], until: int | None = None) -> BrokerEvent | None:
    """Return since when a broker cannot write, None if it can (or nobody knows)."""
    found: BrokerEvent | None = None
    for event in events:
        if until is not None and event.decided.offset > until:
            break
        match event.record:
            case r.BrokerRegistered():
                found = None
            case r.BrokerChanged(cannot_write=bool() as cannot_write):
                found = event if cannot_write else None
            case _:
                pass
    return found


def broker_events(decided: Iterable[Decided], broker_id: int) -> list[BrokerEvent]:
    """Return what happened to a broker, oldest first."""
    return [
        BrokerEvent(each, each.record)
        for each in decided
        if isinstance(each.record, BrokerRecord) and each.record.broker_id == broker_id
    ]


def newest(
    events: Iterable[BrokerEvent], *, after: int = -1, until: int | None = None
) -> BrokerEvent | None:
    """Return the newest event at an offset above ``after`` and not above ``until``."""
    found = None
    for event in events:
        offset = event.decided.offset
        if offset > after and (until is None or offset <= until):
            found = event
    return found


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of a property, and the record that set it; None if it is Quorate's default."""

    value: str
    decided: Decided | None


def setting_of(decided: Iterable[Decided], topic: str, name: str, default: str) -> Setting:
    """Return a property of a topic: its own, or that of all brokers, or the default."""
    own, common = (TOPIC, topic), (BROKER, CLUSTER_DEFAULT)
    found: dict[tuple[str, str], Setting] = {}
    for each in decided:
        record = each.record
        if isinstance(record, r.TopicRemoved) and each.topic == topic:
            found.pop(own, None)
        if not isinstance(record, r.ConfigSet | r.ConfigDeleted) or record.name != name:
            continue
        key = (record.resource_type, record.resource_name)
        if isinstance(record, r.ConfigSet):
            found[key] = Setting(record.value, each)
        else:
            found.pop(key, None)
    return found.get(own) or found.get(common) or Setting(default, None)


def cause_of(decided: Decided) -> str:
    """Return why a record was written, in words for people."""
    if decided.in_snapshot:
        return "as a snapshot has it, which forgets why and when"
    cause = decided.record.cause
    if cause.startswith("AlterPartition by leader "):
        return f"its leader, {cause.rsplit(' ', 1)[1]}, asked for it (AlterPartition)"
    return cause


def placed_line(past: Past) -> Line:
    """Return where a partition's replicas come from."""
    placed = past.placed
    return cite(
        placed.decided,
        f"{past.name} has replicas {numbers(placed.replicas)}, of which {placed.replicas[0]} is "
        f"preferred as leader: {placed.cause}",
    )


def leader_text(leader_id: int) -> str:
    """Return who leads, in words."""
    return "nobody" if leader_id == NO_LEADER else f"broker {leader_id}"


def leader_line(past: Past) -> Line:
    """Return who leads a partition, as the metadata have it."""
    step = past.leader_since
    who = leader_text(step.leader_id)
    return cite(
        step.decided, f"{who} leads {past.name} since epoch {step.leader_epoch}: {step.cause}"
    )
